"""Points (q, rank) of sorted cumulative rows -> cells of a grid, as fine as there is room for.

The code of q has the order of q: its bits up to 1/2 and, mirrored, those of 1 - q above, so that
leading bits of a code are an interval of the odds of about the same width everywhere. A cell is
all points of one rank whose codes agree but for the last ``shift`` bits. Cells are kept by rank
and then by code, an order that does not change when cells are made larger; their weights are exact
sums of whole numbers of 2**-32, high and low part apart.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from calibrant.kernels.point_sort cimport DIGIT, scatter

cdef enum:
    HALF_WORD = 32

cdef int64_t HALF = <int64_t> 1022 << 52  # bits of 1/2
cdef int64_t LOW = (<int64_t> 1 << HALF_WORD) - 1


cdef struct Cells:
    int64_t* code  # of the least q
    int64_t* weight
    uint32_t* weight_rest
    int64_t* labels
    uint32_t* labels_rest
    uint8_t* is_single  # whether all points have this q


cdef inline int64_t code_of(double q) noexcept nogil:
    """Whole number with the order of q in [0, 1]; 1 - q is exact from 1/2 on (Sterbenz)."""
    cdef int64_t bits
    cdef double rest = q if q <= 0.5 else 1.0 - q
    memcpy(&bits, &rest, 8)
    return bits if q <= 0.5 else 2 * HALF - bits


cdef Cells point_to_cells(cells):
    """Addresses of the arrays of cells, which outlive them."""
    cdef int64_t[::1] code = cells[0], weight = cells[1], labels = cells[3]
    cdef uint32_t[::1] weight_rest = cells[2], labels_rest = cells[4]
    cdef uint8_t[::1] is_single = cells[5]
    return Cells(&code[0], &weight[0], &weight_rest[0], &labels[0], &labels_rest[0], &is_single[0])


def count_points(
    const double[:, ::1] cumulative,
    const int64_t[::1] first,
    const int64_t[::1] last,
    const int64_t[::1] units,
    int shift,
    int64_t[:, ::1] keys,
    uint32_t[:, ::1] origin,
    int64_t[::1] offsets,
    cells,
):
    """Write the cells of the points of some rows; where those of each rank end into ``offsets``.

    Ranks beyond the last that ``offsets`` has are counted as the last. ``units`` are the weights
    of the rows in 2**-32. A label that is tied with others is inside in equal steps, rounded down
    to 2**-32. ``keys`` and ``origin`` are room for the points of one rank, twice.
    """
    cdef Cells out = point_to_cells(cells)
    cdef Py_ssize_t n_rows = cumulative.shape[0], n_classes = cumulative.shape[1]
    cdef Py_ssize_t n_ranks = offsets.shape[0] - 1, n_cells = 0, n, r, own, end, i
    cdef int row_bits = 0, side
    while n_rows >> row_bits:
        row_bits += 1
    with nogil:
        offsets[0] = 0
        for r in range(1, n_ranks + 1):
            end = r if r < n_ranks else n_classes - 1
            n = 0
            for own in range(r, end + 1):
                for i in range(n_rows):
                    keys[0, n] = code_of(cumulative[i, own - 1])
                    origin[0, n] = <uint32_t> (own << row_bits | i)
                    n += 1
            side = sort_codes(keys, origin, n, shift)
            n_cells = gather(&keys[side, 0], &origin[side, 0], n, row_bits, first, last, units,
                             shift, &out, n_cells)
            offsets[r] = n_cells


cdef int sort_codes(
    int64_t[:, ::1] keys, uint32_t[:, ::1] origin, Py_ssize_t n, int shift
) noexcept nogil:
    """Sort by all but the last ``shift`` bits; returns the row of the arrays it ends in."""
    cdef int64_t least = keys[0, 0], most = keys[0, 0]
    cdef int side = 0, digit = shift
    cdef Py_ssize_t i
    for i in range(n):
        least = min(least, keys[0, i])
        most = max(most, keys[0, i])
    least = least >> shift << shift
    while digit < 63 and (most - least) >> digit:
        scatter(&keys[side, 0], &origin[side, 0], n, least, digit,
                &keys[1 - side, 0], &origin[1 - side, 0])
        side = 1 - side
        digit += DIGIT
    return side


cdef Py_ssize_t gather(
    const int64_t* keys,
    const uint32_t* origin,
    Py_ssize_t n,
    int row_bits,
    const int64_t[::1] first,
    const int64_t[::1] last,
    const int64_t[::1] units,
    int shift,
    const Cells* out,
    Py_ssize_t n_cells,
) noexcept nogil:
    """Write the cells of sorted points of one rank behind others; returns their number."""
    cdef int64_t row_mask = (<int64_t> 1 << row_bits) - 1
    cdef int64_t least, most, mass, mass_rest, inside, inside_rest, unit, own, row, tied, step
    cdef Py_ssize_t i = 0
    while i < n:
        least = keys[i]
        most = keys[i]
        mass = 0
        mass_rest = 0
        inside = 0
        inside_rest = 0
        while i < n and (keys[i] ^ least) >> shift == 0:
            least = min(least, keys[i])
            most = max(most, keys[i])
            own = <int64_t> origin[i] >> row_bits
            row = <int64_t> origin[i] & row_mask
            unit = units[row]
            mass += unit >> HALF_WORD
            mass_rest += unit & LOW
            if own >= first[row]:
                if own < last[row]:
                    tied = last[row] - first[row] + 1
                    step = own - first[row] + 1
                    unit = unit // tied * step + unit % tied * step // tied
                inside += unit >> HALF_WORD
                inside_rest += unit & LOW
            i += 1
        out.code[n_cells] = least
        out.weight[n_cells] = mass + (mass_rest >> HALF_WORD)
        out.weight_rest[n_cells] = <uint32_t> (mass_rest & LOW)
        out.labels[n_cells] = inside + (inside_rest >> HALF_WORD)
        out.labels_rest[n_cells] = <uint32_t> (inside_rest & LOW)
        out.is_single[n_cells] = least == most
        n_cells += 1
    return n_cells


cdef inline void write_cell(
    const Cells* to, Py_ssize_t place, const Cells* source, Py_ssize_t i
) noexcept nogil:
    """Copy a cell."""
    to.code[place] = source.code[i]
    to.weight[place] = source.weight[i]
    to.weight_rest[place] = source.weight_rest[i]
    to.labels[place] = source.labels[i]
    to.labels_rest[place] = source.labels_rest[i]
    to.is_single[place] = source.is_single[i]


cdef inline void add_cell(
    const Cells* to, Py_ssize_t place, const Cells* source, Py_ssize_t i
) noexcept nogil:
    """Add a cell to one whose least q is no larger."""
    cdef uint64_t rest = <uint64_t> to.weight_rest[place] + source.weight_rest[i]
    to.weight[place] += source.weight[i] + <int64_t> (rest >> HALF_WORD)
    to.weight_rest[place] = <uint32_t> rest
    rest = <uint64_t> to.labels_rest[place] + source.labels_rest[i]
    to.labels[place] += source.labels[i] + <int64_t> (rest >> HALF_WORD)
    to.labels_rest[place] = <uint32_t> rest
    to.is_single[place] &= source.is_single[i] & (to.code[place] == source.code[i])


def merge_cells(
    const int64_t[::1] offsets,
    cells,
    const int64_t[::1] other_offsets,
    other_cells,
    int shift,
    int64_t[::1] new_offsets,
    new_cells,
):
    """Merge two lists of cells, and those in each that differ in the last ``shift`` bits only."""
    cdef Cells one = point_to_cells(cells), two = point_to_cells(other_cells)
    cdef Cells out = point_to_cells(new_cells)
    cdef const Cells* source
    cdef Py_ssize_t n = 0, begin, r, i, j, place
    with nogil:
        new_offsets[0] = 0
        for r in range(offsets.shape[0] - 1):
            i, j = offsets[r], other_offsets[r]
            begin = n
            while i < offsets[r + 1] or j < other_offsets[r + 1]:
                if j == other_offsets[r + 1] or (
                    i < offsets[r + 1] and one.code[i] <= two.code[j]
                ):
                    source, place = &one, i
                    i += 1
                else:
                    source, place = &two, j
                    j += 1
                if n > begin and (out.code[n - 1] ^ source.code[place]) >> shift == 0:
                    add_cell(&out, n - 1, source, place)
                else:
                    write_cell(&out, n, source, place)
                    n += 1
            new_offsets[r + 1] = n


def count_gaps(const int64_t[::1] offsets, const int64_t[::1] code, int64_t[::1] counts):
    """Add to ``counts``, per number of last bits, neighbours in a rank that need just so many.

    Those two cells are one as soon as so many bits are left out.
    """
    cdef Py_ssize_t r, i
    cdef uint64_t gap
    cdef int bits, step
    with nogil:
        for r in range(offsets.shape[0] - 1):
            for i in range(offsets[r] + 1, offsets[r + 1]):
                gap = <uint64_t> (code[i] ^ code[i - 1])
                bits = 0
                step = HALF_WORD
                while step:
                    if gap >> step:
                        gap >>= step
                        bits += step
                    step >>= 1
                counts[bits + 1] += 1
