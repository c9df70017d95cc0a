"""Set of numbers up to n: bits in words of 64; two rows more mark words that are not empty.

Three rows of n // 64 + 1 words, all zero, are an empty set; ``point_to_set`` leads into them.
"""

from libc.stdint cimport int64_t, uint64_t


cdef extern from *:
    """
    #if defined(_MSC_VER) && !defined(__clang__)
    #include <intrin.h>
    static __inline int lowest_bit(unsigned long long word) {
        int position = 0;
        unsigned long half;
        if (!(word & 0xffffffffULL)) { position = 32; word >>= 32; }
        _BitScanForward(&half, (unsigned long) word);
        return position + (int) half;
    }
    #else
    #define lowest_bit(word) __builtin_ctzll(word)
    #endif
    """
    int lowest_bit(uint64_t word) noexcept nogil  # its position; the word is not 0


cdef struct BitSet:
    uint64_t* words
    uint64_t* pages  # a bit for each word of 64 members that has any
    uint64_t* books  # a bit for each page of 64 words that has any
    int64_t n_words


cdef inline BitSet point_to_set(uint64_t[:, ::1] members) noexcept nogil:
    """Addresses of the three rows, which outlive them."""
    return BitSet(&members[0, 0], &members[1, 0], &members[2, 0], members.shape[1])


cdef inline void insert(const BitSet* members, int64_t j) noexcept nogil:
    """Put ``j`` into the set."""
    members.words[j >> 6] |= <uint64_t> 1 << (j & 63)
    members.pages[j >> 12] |= <uint64_t> 1 << ((j >> 6) & 63)
    members.books[j >> 18] |= <uint64_t> 1 << ((j >> 12) & 63)


cdef inline void remove(const BitSet* members, int64_t j) noexcept nogil:
    """Take ``j`` out of the set."""
    members.words[j >> 6] &= ~(<uint64_t> 1 << (j & 63))
    if members.words[j >> 6] == 0:
        members.pages[j >> 12] &= ~(<uint64_t> 1 << ((j >> 6) & 63))
        if members.pages[j >> 12] == 0:
            members.books[j >> 18] &= ~(<uint64_t> 1 << ((j >> 12) & 63))


cdef inline int64_t next_member(const BitSet* members, int64_t j) noexcept nogil:
    """Smallest member at or after ``j``, or -1."""
    cdef int64_t word = j >> 6, page
    cdef uint64_t bits
    if word >= members.n_words:
        return -1
    bits = members.words[word] >> (j & 63)
    if bits:
        return j + lowest_bit(bits)
    word += 1
    if word >= members.n_words:
        return -1
    page = word >> 6
    bits = members.pages[page] >> (word & 63)
    if not bits:
        page = next_page(members, page + 1)
        if page < 0:
            return -1
        word = page << 6
        bits = members.pages[page]
    word += lowest_bit(bits)
    return (word << 6) + lowest_bit(members.words[word])


cdef inline int64_t next_page(const BitSet* members, int64_t page) noexcept nogil:
    """Smallest page of 64 words at or after ``page`` with a member, or -1."""
    cdef int64_t book = page >> 6, last = (members.n_words - 1) >> 12, later
    cdef uint64_t bits
    if book > last:
        return -1
    bits = members.books[book] >> (page & 63)
    if bits:
        return page + lowest_bit(bits)
    for later in range(book + 1, last + 1):
        if members.books[later]:
            return (later << 6) + lowest_bit(members.books[later])
    return -1
