"""Points (problem, score) with their sums -> cells of a table that is as fine as there is room for.

The key of a score p has the order of the scores: the bits of p up to 1/2 and, mirrored, those of
1 - p above, so that leading bits of a key are an interval of the odds of about the same relative
width everywhere. A cell holds all points of one problem whose keys agree but for the last ``shift``
bits. Cells are in the order of (problem, key), which does not change when they are made larger.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from calibrant._kernels.point_sort cimport DIGIT, scatter

cdef int64_t HALF = <int64_t> 1022 << 52  # bits of 1/2


cdef struct Cells:
    int64_t* key
    double* sums  # ``n_sums`` numbers for each cell; weight and labels are the first two
    uint8_t* is_single  # whether all points have one score
    Py_ssize_t n_sums
    bint at_labels  # whether the key is the least of a label, where there is one, or of any point


cdef inline int64_t key_of(double p) noexcept nogil:
    """Whole number with the order of p in [0, 1]; 1 - p is exact from 1/2 on (Sterbenz)."""
    cdef int64_t bits
    cdef double rest = p if p <= 0.5 else max(1.0 - p, 0.0)  # not above one by rounding
    rest = rest if rest > 0.0 else 0.0  # no sign of a zero
    memcpy(&bits, &rest, 8)
    return bits if p <= 0.5 else 2 * HALF - bits


cdef Cells point_to_cells(cells, bint at_labels):
    """Addresses of the arrays of cells, which outlive them."""
    cdef int64_t[::1] key = cells[0]
    cdef double[:, ::1] sums = cells[1]
    cdef uint8_t[::1] is_single = cells[2]
    return Cells(&key[0], &sums[0, 0], &is_single[0], sums.shape[1], at_labels)


def count_points(
    const double[::1] scores,
    const double[:, ::1] terms,
    const int64_t[::1] starts,
    int shift,
    bint at_labels,
    int64_t[:, ::1] keys,
    uint32_t[:, ::1] origin,
    int64_t[::1] offsets,
    cells,
):
    """Write the cells of some points; where those of each problem end into ``offsets``.

    Problem c has the points ``starts[c]`` to ``starts[c + 1]``; ``terms`` are what each adds to the
    sums of its cell. ``keys`` and ``origin`` are room for the points of one problem, twice.
    """
    cdef Cells out = point_to_cells(cells, at_labels)
    cdef Py_ssize_t n_cells = 0, n, c, i
    cdef int side
    with nogil:
        offsets[0] = 0
        for c in range(starts.shape[0] - 1):
            n = starts[c + 1] - starts[c]
            for i in range(n):
                keys[0, i] = key_of(scores[starts[c] + i])
                origin[0, i] = <uint32_t> (starts[c] + i)
            if n > 0:
                side = sort_keys(keys, origin, n, shift)
                n_cells = gather(&keys[side, 0], &origin[side, 0], n, terms, shift, &out, n_cells)
            offsets[c + 1] = n_cells


cdef int sort_keys(
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
    const double[:, ::1] terms,
    int shift,
    const Cells* out,
    Py_ssize_t n_cells,
) noexcept nogil:
    """Write the cells of sorted points of one problem behind others; returns their number."""
    cdef Py_ssize_t n_sums = out.n_sums, i = 0, c
    cdef const double* own
    cdef double* sums
    cdef int64_t bin, key
    cdef bint is_single
    while i < n:
        bin = keys[i] >> shift
        key = keys[i]
        sums = out.sums + n_cells * n_sums
        for c in range(n_sums):
            sums[c] = 0.0
        is_single = True
        while i < n and keys[i] >> shift == bin:
            own = &terms[origin[i], 0]
            if keys[i] != key:
                is_single = False
                if is_better(keys[i], own[1], key, sums[1], out.at_labels):
                    key = keys[i]
            for c in range(n_sums):
                sums[c] += own[c]
            i += 1
        out.key[n_cells] = key
        out.is_single[n_cells] = is_single
        n_cells += 1
    return n_cells


cdef inline bint is_better(
    int64_t key, double labels, int64_t other, double other_labels, bint at_labels
) noexcept nogil:
    """Whether a key tells where a cell starts rather than another does: see ``Cells``."""
    if at_labels and (labels > 0.0) != (other_labels > 0.0):
        return labels > 0.0
    return key < other


def merge_cells(
    const int64_t[::1] offsets,
    cells,
    const int64_t[::1] other_offsets,
    other_cells,
    int shift,
    bint at_labels,
    int64_t[::1] new_offsets,
    new_cells,
):
    """Merge two lists of cells, and those in each that differ in the last ``shift`` bits only."""
    cdef Cells one = point_to_cells(cells, at_labels), two = point_to_cells(other_cells, at_labels)
    cdef Cells out = point_to_cells(new_cells, at_labels)
    cdef const Cells* source
    cdef Py_ssize_t n = 0, n_sums = out.n_sums, begin, r, i, j, place, c
    cdef double* to
    with nogil:
        new_offsets[0] = 0
        for r in range(offsets.shape[0] - 1):
            i, j = offsets[r], other_offsets[r]
            begin = n
            while i < offsets[r + 1] or j < other_offsets[r + 1]:
                if j == other_offsets[r + 1] or (
                    i < offsets[r + 1] and one.key[i] >> shift <= two.key[j] >> shift
                ):
                    source, place = &one, i
                    i += 1
                else:
                    source, place = &two, j
                    j += 1
                if n > begin and (out.key[n - 1] ^ source.key[place]) >> shift == 0:
                    to = out.sums + (n - 1) * n_sums
                    out.is_single[n - 1] &= (
                        source.is_single[place] & (out.key[n - 1] == source.key[place]))
                    if is_better(source.key[place], source.sums[place * n_sums + 1],
                                 out.key[n - 1], to[1], at_labels):
                        out.key[n - 1] = source.key[place]
                    for c in range(n_sums):
                        to[c] += source.sums[place * n_sums + c]
                else:
                    out.key[n] = source.key[place]
                    out.is_single[n] = source.is_single[place]
                    memcpy(out.sums + n * n_sums, source.sums + place * n_sums,
                           n_sums * sizeof(double))
                    n += 1
            new_offsets[r + 1] = n


def count_gaps(const int64_t[::1] offsets, const int64_t[::1] key, int64_t[::1] counts):
    """Add to ``counts``, per number of last bits, neighbours in a problem that need just so many.

    Those two cells are one as soon as so many bits are left out.
    """
    cdef Py_ssize_t r, i
    cdef uint64_t gap
    cdef int bits, step
    with nogil:
        for r in range(offsets.shape[0] - 1):
            for i in range(offsets[r] + 1, offsets[r + 1]):
                gap = <uint64_t> (key[i] ^ key[i - 1])
                bits = 0
                step = 32
                while step:
                    if gap >> step:
                        gap >>= step
                        bits += step
                    step >>= 1
                counts[bits + 1] += 1
