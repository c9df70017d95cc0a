"""``TopLists``: the best classes of each row, and the probability that all others share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _notices as notices
from calibrant import _simplex as simplex
from calibrant import errors
from calibrant._containers import output_dtype, to_matrix
from calibrant._labels import check_labels, check_weights
from calibrant._maps.logits import TemperatureMap
from calibrant.scale._sources import RowSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

BLOCK_CELLS = 1 << 16
"""Cells of a block of full rows: half a mebibyte, as lists may be small themselves."""

N_SLOPES, N_STEPS = 64, 4096
"""Lines by which means of a step function are bounded, and steps that stand for a power."""


SMALLEST_TOTAL = 1e-200
"""Of powers of a row: smaller ones may have lost digits."""


class _Listed(errors.Arguments):
    scores = "probabilities"
    if_logits = use_logits = "pass probabilities: the softmax over all classes"
    if_unnormalized = "rest= is the total probability of all other classes"


class TopLists(RowSource):
    """The most probable classes of each row, and the total probability of all others.

    Classes that are not listed are assumed to share ``rest`` evenly; ``nll_bounds`` bounds the
    effect. ``TemperatureScaling``, ``FlattenedIsotonic`` and ``NormalizationAwareIsotonic`` can be
    fitted to lists, and their ``predict_proba`` returns lists. Metrics accept lists, too, and are
    exact for the listed classes.

    Parameters
    ----------
    indices : array-like of shape (n_rows, n_listed)
        Columns of the listed classes, counted from 0 in the order of the sorted labels (or of
        ``classes`` of the calibrator), in any order within a row.
    probabilities : array-like of shape (n_rows, n_listed)
        Probabilities of the listed classes, none smaller than that of an unlisted class.
    n_classes : int
        Number of all classes.
    rest : array-like of shape (n_rows,), optional
        Total probability of all other classes; by default 1 minus the sum of the listed ones.
    smallest : float, default=0.0
        Lower bound on the probability of any class, if known; it tightens the bounds.

    Attributes
    ----------
    indices, probabilities, rest : ndarray
        The arguments, as read-only arrays.

    Examples
    --------
    >>> from calibrant import TemperatureScaling
    >>> from calibrant.scale import TopLists
    >>> lists = TopLists([[2, 0], [1, 2]] * 50, [[0.7, 0.1], [0.6, 0.3]] * 50, n_classes=5)
    >>> calibrated = TemperatureScaling().fit(lists, [2, 1, 0, 1] * 25).predict_proba(lists)
    >>> calibrated.probabilities[0].round(2), float(calibrated.rest[0].round(2))
    (array([0.72, 0.09]), 0.18)
    """

    def __init__(
        self,
        indices: Any,
        probabilities: Any,
        n_classes: int,
        rest: Any = None,
        smallest: float = 0.0,
    ) -> None:
        simplex.check_number("n_classes", n_classes, low=2, whole=True)
        simplex.check_number("smallest", smallest, low=0.0, high=1.0 / n_classes)
        listed = to_matrix(probabilities, named=_Listed())
        self.probabilities = listed = np.array(listed, dtype=output_dtype(listed))
        self.indices, self.shape, self.smallest = np.array(indices), listed.shape[:1], smallest
        self.n_classes, self.n_unlisted = int(n_classes), int(n_classes) - listed.shape[1]
        missing = np.maximum(1.0 - listed.sum(axis=1, dtype=np.float64), 0.0)
        rest = missing * (self.n_unlisted > 0) if rest is None else rest
        self.rest: NDArray[Any] = np.array(rest, dtype=listed.dtype)
        if self.indices.shape != listed.shape or self.rest.shape != self.shape:
            raise errors.ShapeError(
                f"indices has shape {self.indices.shape}, probabilities {listed.shape} and rest "
                f"{self.rest.shape}; pass an index and a probability for each listed class, and "
                "one rest per row"
            )
        _check_indices(self.indices, self.n_classes)
        for array in (self.indices, self.probabilities, self.rest):
            array.flags.writeable = False
        for rows in simplex.chunks(len(listed), listed.shape[1], 1 << 14):
            self.columns(rows)

    @classmethod
    def from_matrix(cls, probabilities: Any, n_listed: int) -> TopLists:
        """Return the lists of the ``n_listed`` largest probabilities of each row of a matrix."""
        matrix = to_matrix(probabilities)
        simplex.check_number("n_listed", n_listed, low=1, high=matrix.shape[1], whole=True)
        best = np.argsort(-matrix, axis=1, kind="stable")
        ordered = np.take_along_axis(matrix, best, axis=1)
        indices = best[:, :n_listed].astype(np.min_scalar_type(matrix.shape[1]))
        rest, least = ordered[:, n_listed:].sum(axis=1), np.clip(ordered.min(initial=1.0), 0.0, 1.0)
        smallest = min(float(least), 1.0 / matrix.shape[1])
        return cls(indices, ordered[:, :n_listed], matrix.shape[1], rest, smallest)

    def __repr__(self) -> str:
        return f"TopLists of {self.indices.shape} of {self.n_classes} classes"

    def places(self) -> Iterator[tuple[tuple[slice, ...], int]]:
        """Yield slices of lists, and the first row of each."""
        step = max(BLOCK_CELLS // self.n_classes, 16)
        for first in range(0, self.shape[0], step):
            yield (slice(first, first + step),), first

    def columns(self, rows: slice = slice(0, None)) -> Array:
        """Return the listed probabilities and, in a last column, that of each other class, if any.

        That is at most the smallest one listed; more is refused, unless it is rounding.
        """
        n = self.n_unlisted
        parts = self.probabilities[rows], self.rest[rows, None]
        found = np.concatenate(parts, axis=1, dtype=np.float64)
        found = simplex.repair_rows(found, "probabilities", None, rows.start, _Listed())
        rest, most = found[:, -1].copy(), n * found[:, :-1].min(axis=1)
        wrong = rest > most + simplex.SUM_TOLERANCE
        if wrong.any():
            i = int(np.argmax(wrong))
            raise errors.RangeError(
                f"rest[{rows.start + i}] is {rest[i]:.6g}, but {n} of {self.n_classes} classes "
                "are not listed, and if none exceeds the smallest one listed they have at most "
                f"{most[i]:.6g}; list the most probable classes, or correct rest or n_classes"
            )
        if n == 0:
            return np.ascontiguousarray(found[:, :-1])
        found[:, -1] = np.minimum(rest, most) / n
        found[rest > most] /= 1.0 - (rest - most)[rest > most, None]
        return found

    def rows(self, place: tuple[slice, ...] = (slice(0, None),)) -> Array:
        """Return the matrix of all classes, in which those that are not listed share the rest."""
        columns, indices = self.columns(*place), self.indices[place].astype(np.int64)
        found = np.repeat(columns[:, -1:], self.n_classes, axis=1)
        np.put_along_axis(found, indices, columns[:, : indices.shape[1]], axis=1)
        return found

    def batch(self, y: Any, sample_weight: Any, classes: Any) -> simplex.SimplexBatch:
        """Return a calibration set whose columns are places in the lists.

        A label that is not listed is in the last column.
        """
        n_rows, n_listed = self.indices.shape
        if n_rows == 0:
            raise errors.ShapeError("TopLists have 0 rows; pass at least one")
        weight = check_weights(sample_weight, n_rows, errors.ARGUMENTS)
        about: dict[str, Any] = {"classes": classes, "used": weight > 0}
        column, known = check_labels(y, n_rows, self.n_classes, **about)
        is_own = self.indices == column[:, None]
        place = np.where(is_own.any(axis=1), is_own.argmax(axis=1), n_listed).astype(np.intp)
        own = self.columns(), "probabilities", place, weight, known
        batch = simplex.SimplexBatch(*own, max(self.n_unlisted, 1), column)
        return batch if np.all(weight > 0) else batch.take(weight > 0)

    def check(self, calibrator: Any) -> None:
        """Refuse a calibrator that needs to know more than lists hold."""
        if not calibrator._takes_lists:  # noqa: SLF001  (ours)
            raise errors.ContainerError(
                f"{type(calibrator).__name__} needs the score of every class, but TopLists have "
                "only some; use TemperatureScaling, FlattenedIsotonic or "
                "NormalizationAwareIsotonic, or pass lists.rows(), in which the other classes "
                "share the rest evenly"
            )
        if calibrator.scores != "probabilities":
            raise errors.ParameterError(
                "TopLists hold probabilities; make the calibrator with scores='probabilities'"
            )

    def warn_of_columns(self, batch: simplex.SimplexBatch) -> None:
        """Warn if labels are listed hardly more often than by chance, in 100 rows or more."""
        n_listed = self.n_classes - self.n_unlisted
        found = float(np.average(batch.class_index < n_listed, weights=batch.weight))
        chance = n_listed / self.n_classes
        noise = 2.0 * (chance * (1.0 - chance) / batch.n_rows) ** 0.5
        if batch.n_rows >= 100 and found < chance + noise:
            notices.warn(
                errors.ColumnMismatchWarning(
                    f"labels are listed in {found:.0%} of rows, and by chance in {chance:.0%}: "
                    "are indices counted from 0 in the order of classes, "
                    f"{errors.some_in_words(batch.classes)}?"
                )
            )

    def apply(self, calibrator: Any, method: str = "predict_proba") -> Any:
        """Return calibrated lists, or the label that a calibrator predicts for each."""
        self.check(calibrator)
        if calibrator.n_features_in_ != self.n_classes:
            raise errors.ShapeError(
                f"{self}, but {type(calibrator).__name__} was fitted to {calibrator.n_features_in_}"
            )
        if method == "predict":  # maps that take lists keep the order; ties go by column
            is_top = self.probabilities == self.probabilities.max(axis=1, keepdims=True)
            columns = np.where(is_top, self.indices.astype(np.intp), self.n_classes)
            return calibrator.classes_[columns.min(axis=1)]
        n, of, floor = self.n_unlisted, _cell_function(calibrator.map_), calibrator.min_probability
        found = np.zeros((*self.shape, self.indices.shape[1] + 1))
        for rows in simplex.chunks(len(found), found.shape[1], 1 << 14):
            part = found[rows]
            values = of(self.columns(rows))
            part[:, : values.shape[1]] = values
            part[:, -1] *= n
            total = part.sum(axis=1, keepdims=True)
            with np.errstate(divide="ignore", invalid="ignore"):
                part /= total
            low = np.any(values < floor * total, axis=1)  # is lifted, with its row
            part[low] *= 1.0 - floor * self.n_classes
            part[low] += floor * np.append(np.ones(part.shape[1] - 1), n)
            # Where powers underflow, or all is zero, full rows tell.
            for i in np.flatnonzero(~(total[:, 0] > SMALLEST_TOTAL)) + rows.start:
                whole = calibrator.predict_proba(self.rows((slice(i, i + 1),)))[0]
                found[i, :-1] = whole[self.indices[i]]
                found[i, -1] = (whole.sum() - found[i, :-1].sum()) * (n > 0)
        listed = found[:, :-1].astype(self.probabilities.dtype)
        return TopLists(self.indices, listed, self.n_classes, np.maximum(found[:, -1], 0.0))

    def nll_bounds(
        self, y: Any, calibrator: Any = None, sample_weight: Any = None
    ) -> tuple[float, float]:
        """Return bounds on the mean NLL of the full rows, whatever the unlisted classes have.

        All that is known of those is what they have together, and that none has more than the
        smallest one listed, or less than ``smallest``.

        Parameters
        ----------
        y : array-like of shape (n_rows,)
            The true labels.
        calibrator : TemperatureScaling, FlattenedIsotonic or NormalizationAwareIsotonic, optional
            A fitted one: the NLL is that of the full rows after it.
        sample_weight : array-like of shape (n_rows,), optional
            Weight of each row.

        Returns
        -------
        low, high : float
        """
        if calibrator is None:
            return self.bounds(self.batch(y, sample_weight, None), None, 0.0)
        self.check(calibrator)
        batch = self.batch(y, sample_weight, calibrator.classes_)
        return self.bounds(batch, calibrator.map_, float(calibrator.min_probability))

    def bounds(self, batch: simplex.SimplexBatch, found: Any, floor: float) -> tuple[float, float]:
        """Bound the mean NLL of full rows that are mapped cell by cell and divided by their sums.

        The values of n unlisted cells sum to n times their mean, which ``_bound_means`` bounds.
        """
        sums = np.zeros(2)
        for rows in simplex.chunks(batch.n_rows, 1, 1024):
            part = batch.take(rows)
            sums += self._losses(part, found, floor) @ part.weight
        most, least = sums / np.sum(batch.weight)
        return float(least), float(most)

    def _losses(self, batch: simplex.SimplexBatch, found: Any, floor: float) -> Array:
        """Return the largest and the least NLL that each full row may have."""
        n, n_listed = self.n_unlisted, self.n_classes - self.n_unlisted
        listed, mean = batch.scores[:, :n_listed], batch.scores[:, -1] * (n > 0)
        low, high = np.minimum(self.smallest, mean), np.maximum(listed.min(axis=1), mean)
        low, high = (  # what is left for one if all others have as much, or as little, as they can
            np.clip(n * mean - (n - 1) * high, low, mean),
            np.clip(n * mean - (n - 1) * low, mean, high),
        )
        of, means = _bound_means(found, mean, low, high)
        total = of(listed).sum(axis=1) + n * means[::-1]
        is_listed = batch.class_index < n_listed
        own = of(listed[np.arange(len(listed)), np.where(is_listed, batch.class_index, 0)])
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(is_listed, own, of(np.stack([low, high]))) / total
            share = np.where(np.isnan(share), [[0.0], [1.0]], share)  # a row of zeros is kept
            # Rows may be lifted to the floor: p becomes floor + (1 - k floor) p.
            share = share * [[1.0 - floor * self.n_classes], [1.0]] + [[0.0], [floor]]
            losses: Array = -np.log(np.clip(share, floor, 1.0))
        return losses


def _check_indices(given: NDArray[Any], n_classes: int) -> None:
    """Refuse what are no columns, and columns that a row has twice."""
    ordered = np.sort(given, axis=1)
    wrong = (ordered[:, 0] < 0) | (ordered[:, -1] >= n_classes)
    wrong |= (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    if given.dtype.kind not in "iu" or wrong.any():
        i = int(np.argmax(wrong))
        raise errors.RangeError(
            f"indices[{i}] is {errors.in_words(given[i])}, of dtype {given.dtype}; indices must "
            f"be distinct whole numbers from 0 to {n_classes - 1}"
        )


def _cell_function(found: Any) -> Any:
    """Return what a map makes of a cell before rows are divided by their sums."""
    if not isinstance(found, TemperatureMap):
        return found.step_function
    zero, beta = float(np.exp(found.zero_logit)), found.inverse_temperature
    return lambda cells: np.maximum(cells, zero) ** beta


def _bound_means(found: Any, mean: Array, low: Array, high: Array) -> tuple[Any, Array]:
    """Return what a map makes of a cell, and bounds on the mean of that over some cells.

    The cells have a ``mean`` and lie between ``low`` and ``high``. Values increase in steps b, from
    t_b on: g_b at least, h_b at most. For any slope s the mean of values is at most
    max_b (h_b - s t_b) + s mean, and at least min_b (g_b - s t_(b+1)) + s mean; the last step ends
    at ``high``.
    """
    if found is None:
        return np.array, np.stack([mean, mean])
    of = _cell_function(found)
    if isinstance(found, TemperatureMap):
        starts = np.append(0.0, np.geomspace(np.exp(found.zero_logit), 1.0, N_STEPS))
        bottoms, tops = of(starts), of(np.append(starts[1:], 1.0))
    else:
        starts, bottoms = of.thresholds, of.values
        tops = bottoms
    last, ends = np.searchsorted(starts, high, side="right") - 1, np.append(starts[1:], 1.0)
    ratios = tops[tops > 0.0] / np.maximum(ends[tops > 0.0], 1e-300)
    least, most = of(low), of(high)
    for slope in np.geomspace(ratios.min(), ratios.max(), N_SLOPES):
        above = np.maximum.accumulate(tops - slope * starts)[last]
        before = np.minimum.accumulate(np.append(np.inf, bottoms - slope * ends))[last]
        below, rounding = np.minimum(before, bottoms[last] - slope * high), 1e-15 * slope * high
        most = np.minimum(most, above + slope * mean + rounding)
        least = np.maximum(least, below + slope * mean - rounding)
    return of, np.stack([least, most])
