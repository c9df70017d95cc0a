"""Fitted calibrators of every kind, and rows to try them on."""

import re
import warnings
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.base import clone

import calibrant
from calibrant import _maps as maps
from calibrant import study
from calibrant._calibrators.methods import make_calibrator
from calibrant._gate import _simplex as simplex
from conftest import methods_alone, simulate

KINDS = ("probabilities", "logits")
TOLERANCES = {"float64": 1e-12, "float32": 1e-6}

TS, FIR, SCIR = (make_calibrator(name) for name in ("ts", "fir", "scir"))
VS_NA_FIR = calibrant.Chain([make_calibrator("vs"), make_calibrator("na-fir")])
OTHERS = {  # what names of methods do not tell
    "chain": calibrant.Chain([make_calibrator("structured"), FIR, SCIR]),
    "mixture": calibrant.Mixture([TS, VS_NA_FIR, make_calibrator("spline")]),
    "prior shift": calibrant.PriorShift(to_priors=[0.0, 0.7, 0.2, 0.1]),
    "chain of prior shift": calibrant.Chain([TS, calibrant.PriorShift(to_priors=[4, 3, 2, 1])]),
    "matrix": calibrant.StructuredScaling(form="matrix"),
    "unnormalized": study.SharedClasswise(normalize_output=False),
    "no floor": calibrant.FlattenedIsotonic(min_probability=0.0),
    "high floor": calibrant.SortedCumulativeIsotonic(min_probability=0.01),
    "normalized": calibrant.FlattenedIsotonic(normalize="rows"),
}
CASES = [case for case in (*methods_alone(), *OTHERS) if not case.startswith("m2b")]


def ragged(scores):
    """Probabilities with exact zeros and ties, as forests have them, in some of the rows."""
    scores = scores.copy()
    scores[::5] = np.round(scores[::5] * 8) / 8
    scores[1::7, 1] = scores[1::7, 0]
    scores[scores.sum(axis=1) == 0] = 1.0
    return scores / scores.sum(axis=1, keepdims=True)


@cache
def data(kind, n_classes):
    """Scores to fit to, labels, and all scores to try."""
    scores, y = simulate(700, n_classes)
    if kind == "probabilities":
        scores = ragged(scores)
    else:
        scores = np.log(scores)
        scores[1::7, 1] = scores[1::7, 0]
        scores[::6, 2] = -np.inf
    return scores[:500], y[:500], scores


def make(case):
    """Make a calibrator that is not fitted yet."""
    return clone(OTHERS[case]) if case in OTHERS else make_calibrator(case)


@cache
def fitted(case, kind="probabilities", n_classes=4):
    """Fit a calibrator to simulated scores."""
    scores, y, _ = data(kind, n_classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows, classes without a label
        return make(case).set_params(scores=kind, classes=np.arange(n_classes)).fit(scores, y)


def rows_for(calibrator, dtype="float64", n_classes=4):
    """Rows to try a calibrator on: those it was fitted to, new ones, those at thresholds."""
    kind = calibrator.map_.kind
    rows = data(kind, n_classes)[2]
    if kind == "probabilities" and calibrator.normalize is None:
        rows = np.concatenate([rows, rows_at_thresholds(calibrator)])
        return beside(rows, dtype)
    return rows.astype(dtype)


def beside(rows, dtype):
    """Rows in a type; in float32 also a bit below and a bit above."""
    if dtype == "float64":
        return rows
    near, (zero, one) = rows.astype(np.float32), np.float32([0, 1])
    return np.concatenate([np.nextafter(near, zero), near, np.nextafter(near, one)])


def assert_same(found, calibrator, rows, dtype):
    """Both the probabilities and, where there is no tie, the class on top."""
    wanted = calibrator.predict_proba(rows)
    assert found.dtype == wanted.dtype == dtype
    assert found.shape == wanted.shape
    gap = np.abs(found.astype(np.float64) - wanted).max(initial=0.0)
    assert gap <= TOLERANCES[dtype], f"off by {gap}"
    top = np.sort(wanted, axis=1)
    clear = top[:, -1] - top[:, -2] > 2 * TOLERANCES[dtype]
    np.testing.assert_array_equal(found.argmax(1)[clear], wanted.argmax(1)[clear])


def softmax(logits):
    """Probabilities of logits, as the package computes them."""
    return simplex.softmax(np.asarray(logits, np.float64))


# Rows with cells at the thresholds of a map, and one bit on either side


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
        pieces = getattr(curves[i], "pieces", None)
        cells = some(around(pieces.starts if pieces else []), most)
        for column in {i, (i + 1) % n_classes}:
            rows.append(fill(cells, n_classes, column))  # noqa: PERF401
    return np.concatenate(rows)


def blocks(page):
    """Blocks of Python of a page that doctest does not see."""
    text = (Path(__file__).parents[2] / "docs" / page).read_text()
    found = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [block for block in found if ">>>" not in block]
