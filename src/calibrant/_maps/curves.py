"""Curves of one binary problem, probability in and out; and the maps made of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from calibrant._kernels.curves import apply_pieces, share_rest
from calibrant._kernels.logistic import bounded_logs
from calibrant._kernels.rows import divide_by_sums
from calibrant._kernels.tables import TIED, build_lookup
from calibrant._maps.base import LARGEST, CalibrationMap, check_field, ensure, freeze, frozen
from calibrant._maps.steps import Histogram, Pieces, StepFunction
from calibrant._types import Floats, Wholes

MAX_KNOTS = 1000
"""Points of a curve of the log-odds."""

FARTHEST_LOG_ODDS = 2000.0
"""Where it begins and ends: no two numbers of 64 bits have log-odds beyond 1,500."""


class Curve(Protocol):
    """A fitted map of one binary problem.

    One that is a line in pieces has ``pieces``, one that is a sigmoid of logarithms ``terms``: many
    of either are computed at once, and exported; so is one in lines of the log-odds.
    """

    def __call__(self, x: Floats, /) -> Floats:
        """Value at each ``x``."""


def check_curves(curves: tuple[Curve, ...]) -> None:
    """Refuse what is no tuple of curves, or leaves [0, 1]."""
    given = type(curves) is tuple and len(curves) > 0
    ensure(given and all(map(callable, curves)), "curves is not a tuple of curves")
    for i, curve in enumerate(curves):
        above = isinstance(curve, StepFunction) and curve.values[-1] > 1
        ensure(not above, f"curve {i} has a value above 1")


@frozen
class PiecewiseLinear:
    """A non-decreasing function in the unit square, linear between ``x`` and constant outside."""

    x: Floats
    y: Floats

    def __post_init__(self) -> None:
        freeze(self, "x", "y")
        x, y = self.x, self.y
        alike = x.ndim == 1 and x.shape == y.shape and x.size > 0
        ensure(alike, "x and y must be 1-D, of the same length and not empty")
        inside = x[0] >= 0 and x[-1] <= 1 and y.min() >= 0 and y.max() <= 1
        ensure(inside, "x and y must stay in the unit square")
        rising = (x[1:] > x[:-1]).all() and (y[1:] >= y[:-1]).all()
        ensure(rising, "x must increase strictly, and y must not decrease")
        with np.errstate(over="ignore"):
            # Interpolation with an infinite slope would give infinity.
            steepest = (np.diff(y) / np.diff(x)).max(initial=0.0)
        ensure(steepest < np.inf, "the line is too steep")

    def __call__(self, x: Floats) -> Floats:
        """Value at each ``x``."""
        return np.interp(x, self.x, self.y)

    @property
    def pieces(self) -> Pieces:
        """Its lines; outside ``x`` they are flat."""
        x, y = self.x + 0.0, self.y  # not -0.0
        slopes = np.append(np.diff(y) / np.diff(x), 0.0)
        if x[0] == 0.0:
            return Pieces(x, y, slopes)
        return Pieces(np.append(0.0, x), np.append(y[0], y), np.append(0.0, slopes))


IDENTITY = PiecewiseLinear(np.array([0.0, 1.0]), np.array([0.0, 1.0]))


@frozen
class AveragedHistogram:
    """Average of histograms, itself a ``histogram``.

    Those that are averaged were asked for ``n_bins`` each; their weights are the softmax of
    ``log_scores``, their log marginal likelihoods.
    """

    histogram: Histogram
    n_bins: Wholes
    log_scores: Floats

    def __post_init__(self) -> None:
        ensure(type(self.histogram) is Histogram, "the average must be a histogram")
        bins = np.asarray(self.n_bins)
        # NaN and what does not fit must not reach the conversion.
        whole = bins.size > 0 and bins.min() >= 1 and bins.max() <= 2**53
        ensure(whole and (bins == np.floor(bins)).all(), "n_bins must be whole numbers")
        freeze(self, "n_bins", dtype=np.int64)
        freeze(self, "log_scores")
        alike = self.n_bins.ndim == 1 and self.n_bins.shape == self.log_scores.shape
        ensure(alike, "n_bins and log_scores must be 1-D and of the same length")
        inside = self.log_scores.min() >= -LARGEST and self.log_scores.max() <= LARGEST
        ensure(inside, f"log_scores are not in [{-LARGEST}, {LARGEST}]")

    def __call__(self, x: Floats) -> Floats:
        """Value at each ``x``."""
        return self.histogram(x)

    @property
    def pieces(self) -> Pieces:
        """Those of the average."""
        return self.histogram.pieces


@frozen
class BoundedLogs:
    """log x and log(1 - x), finite on [0, 1]: x and 1 - x are bounded below."""

    low: float
    rest: float

    def __post_init__(self) -> None:
        ensure(
            0 < self.low <= 1 and 0 < self.rest <= 1,
            f"the bounds of the logarithms are {self.low} and {self.rest}; they must be positive "
            "and at most 1",
        )

    def __call__(self, x: Floats) -> tuple[Floats, Floats]:
        """Both logarithms."""
        logs = np.empty((2, *x.shape))
        bounded_logs(x.ravel(), self.low, self.rest, *logs.reshape(2, -1))
        return logs[0], logs[1]


class Terms(NamedTuple):
    """``sigmoid(a log x - b log(1 - x) + c)``, of one curve or of many with the same logarithms."""

    a: float | Floats
    b: float | Floats
    c: float | Floats
    logs: BoundedLogs


@frozen
class Sigmoid:
    """x -> sigmoid(slope log(x / (1 - x)) + intercept)."""

    slope: float
    intercept: float
    logs: BoundedLogs

    def __post_init__(self) -> None:
        check_field(self, "slope")
        check_field(self, "intercept")

    def __call__(self, x: Floats) -> Floats:
        """Value at each ``x``."""
        return apply_terms(np.asarray(x, dtype=np.float64), self.terms)

    @property
    def terms(self) -> Terms:
        """Its coefficients."""
        return Terms(self.slope, self.slope, self.intercept, self.logs)


@frozen
class BetaMap:
    """x -> sigmoid(a log x - b log(1 - x) + c), which never decreases since a, b >= 0."""

    a: float
    b: float
    c: float
    logs: BoundedLogs

    def __post_init__(self) -> None:
        check_field(self, "a", low=0.0)
        check_field(self, "b", low=0.0)
        check_field(self, "c")

    def __call__(self, x: Floats) -> Floats:
        """Value at each ``x``."""
        return apply_terms(np.asarray(x, dtype=np.float64), self.terms)

    @property
    def terms(self) -> Terms:
        """Its coefficients."""
        return Terms(self.a, self.b, self.c, self.logs)


@frozen
class LogOddsCurve:
    """x -> sigmoid(f(log(x / (1 - x)))) with f in lines through (``x``, ``y``) that never fall."""

    x: Floats
    y: Floats
    logs: BoundedLogs

    def __post_init__(self) -> None:
        freeze(self, "x", "y")
        x, y = self.x, self.y
        alike = x.ndim == 1 and x.shape == y.shape and 2 <= x.size <= MAX_KNOTS
        ensure(alike, f"x and y must be 1-D and of the same length, 2 to {MAX_KNOTS}")
        reach = x[0] == -FARTHEST_LOG_ODDS and x[-1] == FARTHEST_LOG_ODDS
        ensure(reach, f"x must go from {-FARTHEST_LOG_ODDS:g} to {FARTHEST_LOG_ODDS:g}")
        rising = (x[1:] > x[:-1]).all() and (y[1:] >= y[:-1]).all()
        ensure(rising, "x must increase strictly, and y must not decrease")
        ensure(y[0] >= -LARGEST and y[-1] <= LARGEST, f"y must stay in [{-LARGEST}, {LARGEST}]")
        with np.errstate(over="ignore"):
            ensure((np.diff(y) / np.diff(x)).max() < np.inf, "the line is too steep")

    def __call__(self, x: Floats) -> Floats:
        """Value at each ``x``."""
        log_x, log_rest = self.logs(np.asarray(x, dtype=np.float64))
        value: Floats = expit(np.interp(log_x - log_rest, self.x, self.y))
        return value

    def of_two(self, x: Floats, rest: Floats) -> Floats:
        """Value where 1 - x is known better than x tells: two classes know it to the last digit."""
        z = np.log(np.maximum(x, self.logs.low)) - np.log(np.maximum(rest, self.logs.rest))
        value: Floats = expit(np.interp(z, self.x, self.y))
        return value

    @property
    def mirrored(self) -> LogOddsCurve:
        """The curve of the other one of two classes."""
        logs = BoundedLogs(self.logs.rest, self.logs.low)
        return LogOddsCurve(-self.x[::-1], -self.y[::-1], logs)


def apply_terms(x: Floats, terms: Terms) -> Floats:
    """Return the value at each ``x``, whose last axis is that of the terms if they are many."""
    log_x, log_rest = terms.logs(x)
    value: Floats = expit(terms.a * log_x - terms.b * log_rest + terms.c)
    return value


def join_terms(curves: tuple[Curve, ...]) -> Terms | None:
    """Return the terms of curves that all have them, with the same bounds; else None."""
    if not all(hasattr(curve, "terms") for curve in curves):
        return None
    *numbers, logs = zip(*(curve.terms for curve in curves), strict=True)  # type: ignore[attr-defined]
    if len({(one.low, one.rest) for one in logs}) > 1:
        return None
    a, b, c = map(np.array, numbers)
    return Terms(a, b, c, logs[0])


class PieceTable(NamedTuple):
    """Pieces of many curves, as their kernel takes them."""

    places: Wholes  # of each curve's pieces and table, with shift and base of the table
    edges: Wholes  # the starts of all pieces, as bits
    tables: NDArray[np.int32]
    values: Floats
    slopes: Floats


def join_pieces(curves: tuple[Curve, ...]) -> PieceTable | None:
    """Return the pieces of curves that all have them; else None."""
    if not all(hasattr(curve, "pieces") for curve in curves):
        return None
    parts: list[Pieces] = [curve.pieces for curve in curves]  # type: ignore[attr-defined]
    lookups = [build_lookup(part.starts, spare_bits=1) for part in parts]
    places = np.zeros((len(curves) + 1, 4), dtype=np.int64)
    np.cumsum([len(lookup.edges) for lookup in lookups], out=places[1:, 0])
    np.cumsum([len(lookup.table) for lookup in lookups], out=places[1:, 1])
    places[:-1, 2:] = [(lookup.shift, lookup.base) for lookup in lookups]
    return PieceTable(
        places,
        np.concatenate([lookup.edges for lookup in lookups]),
        np.concatenate([lookup.table for lookup in lookups]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.slopes for part in parts]),
    )


@frozen
class ClasswiseCurves(CalibrationMap):
    """A curve for each class, or for each of the ``groups`` of classes, if there are any.

    Rows are divided by their sums, or cells are left as they are without ``normalize_output``.
    """

    groups: Wholes | None
    curves: tuple[Curve, ...]
    normalize_output: bool = True
    kind: str = "probabilities"

    def __post_init__(self) -> None:
        self._check_kind()
        check_curves(self.curves)
        if self.groups is not None:
            freeze(self, "groups", dtype=np.int64)
            g, n = self.groups, len(self.curves)
            ensure(g.ndim == 1 and g.size > 0, "groups must be 1-D and not empty")
            one_each = g.min() >= 0 and g.max() == n - 1
            ensure(one_each, f"there are {n} curves, but each group needs exactly one")

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.curves if self.groups is None else self.groups)

    @property
    def same_for_all_classes(self) -> bool:  # type: ignore[override]
        """Whether there is one curve."""
        return len(self.curves) == 1

    @property
    def sums_to_one(self) -> bool:  # type: ignore[override]
        """Whether rows are divided by their sums."""
        return self.normalize_output

    @cached_property
    def curve_of(self) -> Wholes:
        """Curve of each class."""
        return np.arange(len(self.curves), dtype=np.int64) if self.groups is None else self.groups

    @cached_property
    def are_of_two(self) -> bool:
        """Whether these are curves of the log-odds of two classes."""
        each = self.groups is None and len(self.curves) == 2
        return each and all(isinstance(curve, LogOddsCurve) for curve in self.curves)

    @cached_property
    def _pieces(self) -> PieceTable | None:
        return join_pieces(self.curves)

    @cached_property
    def _terms(self) -> Terms | None:
        return join_terms(self.curves) if self.groups is None else None

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        rows = self._probabilities(rows)
        if self._pieces is not None:
            out = np.empty_like(rows)
            apply_pieces(rows, rows.view(np.int64), self.curve_of, *self._pieces, out)
        elif self._terms is not None:
            out = apply_terms(rows, self._terms)
        elif self.are_of_two:
            second = self.curves[1].of_two(rows[:, 1], rows[:, 0])  # type: ignore[attr-defined]
            first = self.curves[0].of_two(rows[:, 0], rows[:, 1])  # type: ignore[attr-defined]
            out = np.stack([first, second], axis=1)
        else:
            out = np.empty_like(rows)
            for columns, curve in zip(self._columns(), self.curves, strict=True):
                out[:, columns] = curve(rows[:, columns])
        if self.normalize_output:
            divide_by_sums(out, rows)
        return out

    def _columns(self) -> Iterable[int | Wholes]:
        """Columns of each curve."""
        if self.groups is None:
            return range(len(self.curves))
        order = np.argsort(self.groups, kind="stable")
        starts = np.searchsorted(self.groups[order], np.arange(1, len(self.curves)))
        return np.split(order, starts)


@frozen
class TopLabelMap(CalibrationMap):
    """A curve of the largest probability of a row, shared or for each class.

    The others share what is left in proportion to their scores, or stay as they are without
    ``normalize_output``. Tied classes are each the top one in turn, and the results are averaged.
    """

    curves: tuple[Curve, ...]
    per_class: bool = False
    normalize_output: bool = True
    kind: str = "probabilities"

    def __post_init__(self) -> None:
        self._check_kind()
        check_curves(self.curves)
        shared = self.per_class or len(self.curves) == 1
        ensure(shared, f"there are {len(self.curves)} curves, but all classes share one")

    @property
    def n_classes(self) -> int | None:
        """Number of classes; any if they share a curve."""
        return len(self.curves) if self.per_class else None

    @property
    def same_for_all_classes(self) -> bool:  # type: ignore[override]
        """Whether there is one curve."""
        return not self.per_class

    @property
    def sums_to_one(self) -> bool:  # type: ignore[override]
        """Whether the other classes share what is left."""
        return self.normalize_output

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        rows = self._probabilities(rows)
        top = rows.max(axis=1, keepdims=True)
        if self.per_class:
            values = np.zeros_like(rows)  # of a class while it is the top one
            for j, curve in enumerate(self.curves):
                here = rows[:, j] >= TIED * top[:, 0]
                values[here, j] = curve(top[here, 0])
        else:
            values = np.repeat(self.curves[0](top), rows.shape[1], axis=1)
        share_rest(rows, top[:, 0], TIED, self.normalize_output, values)
        return values
