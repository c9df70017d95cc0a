"""A piecewise linear function as a table."""


cdef inline void fill_table(
    const double[::1] knots, const double[::1] slopes, double[::1] origin, double[::1] base
) noexcept nogil:
    """Find origin and base: theta(v) = base[b] + slopes[b] * (v - origin[b]) in segment b."""
    cdef Py_ssize_t b
    origin[0] = knots[0]
    base[0] = 0.0
    for b in range(1, slopes.shape[0]):
        origin[b] = knots[b - 1]
        base[b] = 0.0
        if b > 1:
            base[b] = base[b - 1] + slopes[b - 1] * (knots[b - 1] - knots[b - 2])
