"""Logistic regression on one or two features, with lower bounds on their parameters.

Newton's method: a round is one pass over the cells, which gives loss, gradient and curvature.
"""

import numpy as np

from libc.math cimport INFINITY, fabs, log, sqrt
from libc.float cimport DBL_EPSILON

from calibrant._kernels.elementary cimport exponentials, logarithm, normal_logarithm
from calibrant._kernels.lock cimport keep_lock

cdef enum:
    MOST = 3  # parameters: two features and the intercept
    CELLS = 512  # of a block, whose numbers the first-level cache holds


cdef struct LogisticProblem:
    const double* features[2]
    const double* positives
    const double* negatives
    Py_ssize_t n
    int n_features
    double total
    double[MOST] origin  # the identity, which the ridge draws to
    double[MOST] ridge
    double[MOST] units  # root mean square of each feature, at least 1e-8
    double* room  # for four blocks


cdef struct LogisticPoint:
    double[MOST] theta
    double loss  # mean, with the ridge
    double likelihood  # mean
    double[MOST] gradient
    double[MOST][MOST] hessian


def bounded_logs(
    const double[::1] x, double low, double rest, double[::1] log_x, double[::1] log_rest
):
    """Write log max(x, low) and log max(1 - x, rest) of each number."""
    cdef Py_ssize_t i
    keep_lock(x.shape[0])
    with nogil:
        for i in range(x.shape[0]):
            log_x[i] = logarithm(x[i] if x[i] > low else low)
        for i in range(x.shape[0]):
            log_rest[i] = logarithm(1.0 - x[i] if 1.0 - x[i] > rest else rest)


def fit_logistic(
    const double[:, ::1] features, const double[::1] positives, const double[::1] negatives,
    const double[::1] lower, const double[::1] units, const double[::1] ridge,
    const double[::1] origin, double tol, Py_ssize_t max_rounds,
):
    """Parameters of least NLL, first those of the features, which have bounds, then the intercept.

    Weights of labels 1 and 0 are kept apart, so that sums do not cancel. Features are centred:
    those of nearly equal scores would be nearly collinear with the intercept. ``ridge`` draws
    parameters to ``origin``. Returns the parameters, the mean NLL, the largest gradient that
    bounds do not forbid to follow, in ``units`` of its feature, and the number of rounds.
    """
    cdef LogisticProblem problem
    cdef LogisticPoint point, other
    cdef double[MOST] bound, step
    cdef double violation = 0.0, length, slope, rounding
    cdef int d = <int> features.shape[0], f
    cdef Py_ssize_t rounds = 0, i
    cdef bint certified = False, is_better = True
    cdef double[::1] room = np.empty(4 * CELLS)
    out = np.empty(d + 1)
    cdef double[::1] found = out
    with nogil:
        for f in range(d + 1):
            if f < d:
                problem.features[f] = &features[f, 0]
            bound[f], problem.units[f] = lower[f], units[f]
            problem.ridge[f], problem.origin[f] = ridge[f], origin[f]
        problem.positives, problem.negatives = &positives[0], &negatives[0]
        problem.n, problem.n_features, problem.room = positives.shape[0], d, &room[0]
        problem.total = 0.0
        for i in range(problem.n):
            problem.total += positives[i] + negatives[i]
        begin(&problem, &point)
        while True:
            violation = largest_gradient(&problem, &point, bound)
            if (violation <= tol and certified) or rounds == max_rounds:
                break
            certified = violation <= tol  # one more round is cheap and squares what is left
            slope = model_step(&point, bound, d + 1, step)
            rounding = 4 * DBL_EPSILON * fabs(point.loss)
            length = 1.0
            is_better = False
            while length > 1e-20 and slope < 0.0 and not is_better:
                for f in range(d + 1):
                    other.theta[f] = max(point.theta[f] + length * step[f], bound[f])
                evaluate(&problem, &other)
                is_better = other.loss <= point.loss + 1e-4 * length * slope + rounding
                length *= 0.5
            if not is_better:
                break
            point = other
            rounds += 1
        for f in range(d + 1):
            found[f] = point.theta[f]
    return out, point.likelihood, violation, rounds


cdef void begin(LogisticProblem* problem, LogisticPoint* point) noexcept nogil:
    """Begin at the identity, or at the share of labels where that is better.

    There every feature has curvature; the identity may have none.
    """
    cdef LogisticPoint null
    cdef double share = 0.0
    cdef Py_ssize_t i
    cdef int f
    for i in range(problem.n):
        share += problem.positives[i]
    share = min(max(share / problem.total, 1e-9), 1.0 - 1e-9)
    for f in range(problem.n_features + 1):
        point.theta[f] = problem.origin[f]
        null.theta[f] = 0.0
    null.theta[problem.n_features] = log(share / (1.0 - share))
    evaluate(problem, point)
    evaluate(problem, &null)
    if null.loss < point.loss:
        point[0] = null


cdef void evaluate(LogisticProblem* problem, LogisticPoint* point) noexcept nogil:
    """Loss, gradient and curvature at ``theta``; blocks are summed with their rounding errors."""
    cdef int d = problem.n_features, f, g
    cdef int n_sums = 2 + d + d + d * (d + 1) // 2 + 1
    cdef double[1 + MOST + MOST * MOST] sums, lost, part
    cdef Py_ssize_t block, start
    cdef double term, grown
    for f in range(1 + MOST + MOST * MOST):
        sums[f] = 0.0
        lost[f] = 0.0
    for block in range((problem.n + CELLS - 1) // CELLS):
        start = block * CELLS
        add_block(problem, point.theta, start, min(start + CELLS, problem.n) - start, part)
        for f in range(n_sums):
            term = part[f] - lost[f]  # Kahan
            grown = sums[f] + term
            lost[f] = (grown - sums[f]) - term
            sums[f] = grown
    for f in range(n_sums):
        sums[f] /= problem.total
    point.likelihood = sums[0]
    point.gradient[d] = sums[1]
    point.hessian[d][d] = sums[2]
    n_sums = 3
    for f in range(d):
        point.gradient[f] = sums[n_sums]
        point.hessian[f][d] = sums[n_sums + 1]
        point.hessian[d][f] = sums[n_sums + 1]
        n_sums += 2
        for g in range(f + 1):
            point.hessian[f][g] = sums[n_sums]
            point.hessian[g][f] = sums[n_sums]
            n_sums += 1
    point.loss = point.likelihood
    for f in range(d + 1):
        term = point.theta[f] - problem.origin[f]
        point.loss += 0.5 * problem.ridge[f] * term * term
        point.gradient[f] += problem.ridge[f] * term
        point.hessian[f][f] += problem.ridge[f]


cdef void add_block(
    const LogisticProblem* problem, const double* theta, Py_ssize_t start, Py_ssize_t n,
    double* part,
) noexcept nogil:
    """Write the sums of a block: NLL, gradient and curvature of the intercept, of each feature.

    With e = exp(-|z|), log(1 + exp(z)) is max(z, 0) + log(1 + e), and the sigmoids of z and -z are
    1 and e over 1 + e. What 1 + e rounds off is put back: losses of certain labels are tiny.
    """
    cdef int d = problem.n_features, f, g, place = 3
    cdef double* z = problem.room
    cdef double* e = z + CELLS
    cdef double* loss = e + CELLS
    cdef double* scaled = loss + CELLS
    cdef const double* positives = problem.positives + start
    cdef const double* negatives = problem.negatives + start
    cdef const double* x
    cdef double least, one, high, low, u
    cdef Py_ssize_t i
    for i in range(n):
        z[i] = theta[d]
    for f in range(d):
        x = problem.features[f] + start
        for i in range(n):
            z[i] += theta[f] * x[i]
    for i in range(n):
        e[i] = -fabs(z[i])
    exponentials(e, e, n)
    for i in range(n):
        one = 1.0 + e[i]
        high = 1.0 / one
        least = normal_logarithm(one) + (e[i] - (one - 1.0)) * high
        low = e[i] * high
        u = z[i]
        loss[i] = positives[i] * ((0.0 if u > 0.0 else -u) + least) + (
            negatives[i] * ((u if u > 0.0 else 0.0) + least))
        # z gets the derivative of the loss in it, e the second one.
        e[i] = (positives[i] + negatives[i]) * (high * low)
        z[i] = negatives[i] * (high if u > 0.0 else low) - positives[i] * (low if u > 0.0 else high)
    part[0] = sum_of(loss, n)
    part[1] = sum_of(z, n)
    part[2] = sum_of(e, n)
    for f in range(d):
        x = problem.features[f] + start
        for i in range(n):
            loss[i] = z[i] * x[i]
            scaled[i] = e[i] * x[i]
        part[place] = sum_of(loss, n)
        part[place + 1] = sum_of(scaled, n)
        place += 2
        for g in range(f + 1):
            x = problem.features[g] + start
            for i in range(n):
                loss[i] = scaled[i] * x[i]
            part[place] = sum_of(loss, n)
            place += 1


cdef double sum_of(const double* x, Py_ssize_t n) noexcept nogil:
    """Sum of a block: sixteen sums that do not wait for each other."""
    cdef double[16] lane
    cdef Py_ssize_t i, whole = n - n % 16
    cdef int c
    for c in range(16):
        lane[c] = 0.0
    for i in range(0, whole, 16):
        for c in range(16):
            lane[c] += x[i + c]
    for i in range(whole, n):
        lane[i - whole] += x[i]
    for c in range(8):
        lane[c] += lane[c + 8]
    for c in range(4):
        lane[c] += lane[c + 4]
    return (lane[0] + lane[1]) + (lane[2] + lane[3])


cdef double largest_gradient(
    const LogisticProblem* problem, const LogisticPoint* point, const double* bound
) noexcept nogil:
    """Largest gradient that bounds do not forbid to follow, in units of the features."""
    cdef double largest = 0.0
    cdef int f
    for f in range(problem.n_features + 1):
        if point.theta[f] > bound[f] or point.gradient[f] < 0.0:
            largest = max(largest, fabs(point.gradient[f]) / problem.units[f])
    return largest


cdef double model_step(
    const LogisticPoint* point, const double* bound, int d, double* step
) noexcept nogil:
    """Minimise the quadratic model within the bounds, by trying each set of active ones.

    Returns the slope of the loss along the step.
    """
    cdef double[MOST] scale, low, trial
    cdef double[MOST] g
    cdef double[MOST][MOST] h
    cdef double best = 0.0, slope = 0.0, value
    cdef int active, i, j
    cdef bint is_inside
    for i in range(d):
        step[i] = 0.0
        scale[i] = 1.0 / sqrt(point.hessian[i][i])
        g[i] = point.gradient[i] * scale[i]
        low[i] = (bound[i] - point.theta[i]) / scale[i]
    for i in range(d):
        for j in range(d):
            h[i][j] = point.hessian[i][j] * scale[i] * scale[j]
    for active in range(1 << d):
        is_inside = True
        for i in range(d):
            if active >> i & 1 and low[i] == -INFINITY:
                is_inside = False
        if not is_inside:
            continue
        solve_free(g, h, low, active, d, trial)
        value = 0.0
        for i in range(d):
            is_inside = is_inside and trial[i] >= low[i]
            value += g[i] * trial[i]
            for j in range(d):
                value += 0.5 * trial[i] * h[i][j] * trial[j]
        if is_inside and value < best:
            best = value
            for i in range(d):
                step[i] = trial[i] * scale[i]
            if active == 0:
                break  # the model is strictly convex: its minimiser is feasible
    for i in range(d):
        slope += point.gradient[i] * step[i]
    return slope


cdef void solve_free(
    const double* g, const double[MOST][MOST] h, const double* low, int active, int d, double* x
) noexcept nogil:
    """Minimise the model where the ``active`` parameters are at their bounds, by elimination.

    ``h`` has a diagonal of 1; a pivot that rounding makes nothing of is kept positive.
    """
    cdef double[MOST][MOST] a
    cdef double factor
    cdef int i, j, k
    for i in range(d):
        x[i] = low[i] if active >> i & 1 else -g[i]
        for j in range(d):
            a[i][j] = <double> (i == j) if active >> i & 1 else h[i][j]
    for k in range(d):
        a[k][k] = max(a[k][k], DBL_EPSILON * DBL_EPSILON)
        for i in range(k + 1, d):
            factor = a[i][k] / a[k][k]
            for j in range(k + 1, d):
                a[i][j] -= factor * a[k][j]
            x[i] -= factor * x[k]
    for k in range(d - 1, -1, -1):
        for j in range(k + 1, d):
            x[k] -= a[k][j] * x[j]
        x[k] /= a[k][k]
