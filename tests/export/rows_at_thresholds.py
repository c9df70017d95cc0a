"""Rows with cells at the thresholds of a map, and one bit on either side."""

import numpy as np

from calibrant import _maps as maps


def around(thresholds):
    """Each number and its neighbours, within (0, 1)."""
    t = np.asarray(thresholds)
    t = np.concatenate([np.nextafter(t, 0), t, np.nextafter(t, 1)])
    return np.unique(t[(t > 0) & (t < 1)])


def some(sequence, most):
    """At most so many of a sequence, spread over it."""
    n = len(sequence)
    return [sequence[i] for i in np.linspace(0, n - 1, min(n, most)).astype(int).tolist()]


def fill(cells, n_classes, column):
    """Rows with a cell in some column; the others share what is left, and nothing is repaired."""
    cells = np.asarray(cells)
    rows = np.zeros((len(cells), n_classes))
    others = [j for j in range(n_classes) if j != column]
    rows[:, others[0]] = 1.0 - cells
    if n_classes > 2:  # two shares, exactly
        rows[:, others[1]] = rows[:, others[0]] / 4
        rows[:, others[0]] -= rows[:, others[1]]
    rows[:, column] = cells
    return rows


def _curve_thresholds(curve):
    if isinstance(curve, maps.AveragedHistogram):
        curve = curve.histogram
    if isinstance(curve, maps.Histogram):
        return curve.thresholds
    return curve.x if isinstance(curve, maps.PiecewiseLinear) else np.zeros(0)


def cumulative_rows(step_function, n_classes, most):
    """Rows whose sums of the largest cells are at thresholds of the rank; of 30 ranks if many."""
    rows = []
    for rank in some(range(1, min(step_function.n_ranks, n_classes - 1) + 1), 30):
        q = around(step_function.curve(rank)[0])
        q = np.array(some(q[q >= rank / n_classes], most))
        cells = np.zeros((len(q), n_classes))
        cells[:, :rank] = (q / rank)[:, None]
        if rank > 1:  # the sum is the threshold, in the order in which it is made
            cells[:, rank - 1] = q - np.cumsum(cells[:, : rank - 1], axis=1)[:, -1]
        rest = (1.0 - q) / (n_classes - rank)
        cells[:, rank:] = rest[:, None]
        rows.append(cells)
    return np.concatenate(rows)


def rows_at_thresholds(calibrator, most=200):
    """Rows of probabilities at, just below and just above thresholds of a fitted calibrator.

    At most so many of each curve, and of eight curves.
    """
    found, n_classes = calibrator.map_, calibrator.n_features_in_
    if isinstance(found, maps.RankedSteps):
        return cumulative_rows(found.step_function, n_classes, most)
    if isinstance(found, maps.SharedSteps):
        curves = [found.step_function]
    else:
        curves = getattr(found, "curves", ())
    rows = [np.full((1, n_classes), 1 / n_classes)]
    for i in some(range(len(curves)), 8):
        cells = some(around(_curve_thresholds(curves[i])), most)
        for column in {i, (i + 1) % n_classes}:
            rows.append(fill(cells, n_classes, column))  # noqa: PERF401
    return np.concatenate(rows)
