"""Maps of the cells of rows on the simplex: steps, curves, top label."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import field
from typing import Any

import numpy as np

from calibrant.kernels.curves import apply_pieces
from calibrant.kernels.lookup import apply_step
from calibrant.kernels.ranked_lookup import apply_ranked, pack_rows
from calibrant.kernels.rows import divide_by_sums
from calibrant.kernels.tables import build_lookup, build_powers
from calibrant.maps.base import (
    DEEPEST_LOGIT,
    CalibrationMap,
    Floats,
    Wholes,
    check_number,
    frozen,
    hold,
    require,
)
from calibrant.maps.blocks import find_blocks, lowered
from calibrant.maps.curve_formulas import write_curves, write_division
from calibrant.maps.curves import Curve, Pieces, check_curves, has_pieces, join_pieces
from calibrant.maps.logits import write_logs
from calibrant.maps.operations import Operations, Value
from calibrant.maps.softmax_formulas import write_scaled_softmax
from calibrant.maps.steps import RankedStepFunction, StepFunction

CELLS = 1 << 15
"""Cells mapped at once: what the second-level cache holds."""

MOST_SHORT_KEYS = 1 << 15
"""Classes up to which 32 bits are enough to sort a row by."""


@frozen
class SharedSteps(CalibrationMap):
    """One step function for every class, then division by the sum of the row."""

    step_function: StepFunction
    kind: str = "probabilities"

    keeps_order = same_for_all_classes = True

    def __post_init__(self) -> None:
        self._check_kind()
        require(type(self.step_function) is StepFunction, "step_function is no step function")
        top = self.step_function.values[-1]
        require(0 < top <= 1, f"step_function: the largest value is {top}")

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        rows = self._probabilities(rows)
        out = np.empty_like(rows)
        lookup = build_lookup(self.step_function.thresholds)
        apply_step(rows, rows.view(np.int64), *lookup, self.step_function.values, out)
        return out

    def formula(
        self, ops: Operations, rows: Value, *, computed: bool = False, inner: bool = False
    ) -> Value:
        """Write down the map."""
        rows, computed = self._write_probabilities(ops, rows, computed=computed)
        curves = (self.step_function,)
        mapped = write_curves(ops, rows, curves, computed=computed)
        return write_division(ops, mapped, rows, curves)


@frozen
class RankedSteps(CalibrationMap):
    """Differences of a function of cumulative probability and rank, mixed with the scaled row.

    The row that ``prior_share`` is mixed in of is softmax(inverse_temperature log p), an exact
    zero read as exp(zero_logit).
    """

    step_function: RankedStepFunction
    prior_share: float
    inverse_temperature: float
    zero_logit: float
    kind: str = "probabilities"

    same_for_all_classes = True
    work = 8

    def __post_init__(self) -> None:
        self._check_kind()
        ranked = type(self.step_function) is RankedStepFunction
        require(ranked, "step_function is no ranked step function")
        check_number(self, "prior_share", low=0.0, high=1.0)
        check_number(self, "inverse_temperature", low=0.0)
        check_number(self, "zero_logit", low=DEEPEST_LOGIT, high=0.0)

    def takes(self, n_classes: int) -> bool:
        """Whether there are more classes than ranks."""
        return self.step_function.n_ranks < n_classes

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        rows = self._probabilities(rows)
        n_rows, n_classes = rows.shape
        width = (n_classes - 1).bit_length()
        size = 31 if n_classes <= MOST_SHORT_KEYS else 63  # no sign
        shift = 52 - (size - width - 6)  # six bits for 64 octaves, the rest for the mantissa
        powers = build_powers(self.inverse_temperature, math.exp(self.zero_logit))
        lookup = self.step_function.lookup
        out = np.empty_like(rows)
        step = max(1, CELLS // n_classes)
        dtype = np.int32 if size == 31 else np.int64
        room = np.empty((min(step, n_rows), n_classes), dtype=dtype)
        for start in range(0, n_rows, step):
            part = slice(start, start + step)
            bits = rows[part].view(np.int64)
            keys = room[: len(bits)]
            pack_rows(bits, shift, width, (1 << (size - width)) - 1, keys)
            keys.sort(axis=1)
            mask = (1 << width) - 1
            apply_ranked(rows[part], bits, keys, mask, lookup, self.prior_share, powers, out[part])
        return out

    def formula(
        self, ops: Operations, rows: Value, *, computed: bool = False, inner: bool = False
    ) -> Value:
        """Write down the map."""
        rows, computed = self._write_probabilities(ops, rows, computed=computed)
        rows, columns = ops.sort(rows)
        values = self._write_values(ops, ops.cumulative(rows), computed=computed)
        out = (values - ops.shift(values)) * ops.fitted("step_share", 1.0 - self.prior_share)
        if self.prior_share > 0:
            factor = ops.fitted("inverse_temperature", self.inverse_temperature)
            prior = write_scaled_softmax(ops, write_logs(ops, rows, self.zero_logit), factor)
            out = out + prior * ops.fitted("prior_share", self.prior_share)
        # Ties share what they get together.
        groups = ops.cumulative(ops.whole(rows < ops.shift(rows)))
        sizes = ops.group_sums(ops.real(rows >= 0.0), groups)
        return ops.spread(ops.group_sums(out, groups) / sizes, columns)

    def _write_values(self, ops: Operations, q: Value, *, computed: bool) -> Value:
        """Write down the value at each (q, rank): 1 at the last rank."""
        n_ranks = self.step_function.n_ranks
        parts = [self.step_function.curve(r + 1) for r in range(n_ranks)]
        thresholds = [
            lowered(t, ops.rounding, of_sums=r > 0) if computed else t
            for r, (t, _) in enumerate(parts)
        ]
        curve_of = np.minimum(np.arange(ops.n_classes), n_ranks - 1)
        curve_of[-1] = n_ranks
        block, _ = find_blocks(ops, q, [*thresholds, np.zeros(1)], curve_of)
        return ops.take(ops.fitted("values", np.r_[0.0, self.step_function.values, 1.0]), block)


@frozen
class ClasswiseCurves(CalibrationMap):
    """A curve for each class, or for each group of classes.

    Attributes
    ----------
    groups : ndarray of shape (n_classes,) or None
        Curve of each class; None if each has its own.
    curves : tuple of Curve
    normalize_output : bool
        Whether rows are divided by their sums; else each cell stands for itself.
    """

    groups: Wholes | None
    curves: tuple[Curve, ...]
    normalize_output: bool = True
    kind: str = "probabilities"
    _pieces: Any = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        self._check_kind()
        check_curves(self.curves)
        if self.groups is not None:
            hold(self, "groups", dtype=np.int64)
            g, n = self.groups, len(self.curves)
            require(g.ndim == 1 and g.size > 0, "groups must be 1-D, not empty")
            one_each = g.min() >= 0 and g.max() == n - 1
            require(one_each, f"{n} curves where groups do not have one each")

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

    @property
    def work(self) -> int:  # type: ignore[override]
        """More where columns are gathered for a curve."""
        return 1 if self.groups is None else 5

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        rows = self._probabilities(rows)
        out = np.empty_like(rows)
        if (pieces := self._all_pieces()) is not None:
            own = np.arange(len(self.curves)) if self.groups is None else self.groups
            apply_pieces(rows, rows.view(np.int64), own, *pieces, out)
        else:
            for columns, curve in zip(self._columns(), self.curves, strict=True):
                out[:, columns] = curve(rows[:, columns])
        if self.normalize_output:
            divide_by_sums(out, rows)
        return out

    def formula(
        self, ops: Operations, rows: Value, *, computed: bool = False, inner: bool = False
    ) -> Value:
        """Write down the map."""
        rows, computed = self._write_probabilities(ops, rows, computed=computed)
        own = np.arange(len(self.curves)) if self.groups is None else self.groups
        curve_of = own if len(self.curves) > 1 else None
        out = write_curves(ops, rows, self.curves, curve_of, computed=computed)
        if self.normalize_output:
            out = write_division(ops, out, rows, self.curves)
        return out

    def _all_pieces(self) -> Pieces | None:
        """Pieces of all curves, joined when they are first asked for; None if one has none."""
        if self._pieces is None and all(map(has_pieces, self.curves)):
            object.__setattr__(self, "_pieces", join_pieces(self.curves))
        found: Pieces | None = self._pieces
        return found

    def _columns(self) -> Iterable[Any]:
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

    work = 3

    def __post_init__(self) -> None:
        self._check_kind()
        check_curves(self.curves)
        shared = self.per_class or len(self.curves) == 1
        require(shared, f"{len(self.curves)} curves where there is one for all")

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
        tied = rows == top
        n_tied = tied.sum(axis=1, keepdims=True)
        value = np.zeros_like(rows)  # of a class while it is the top one
        if not self.per_class:
            value = np.where(tied, self.curves[0](top), 0.0)
        else:
            for j, curve in enumerate(self.curves):
                here = tied[:, j]
                value[here, j] = curve(top[here, 0])
        if not self.normalize_output:
            return np.where(tied, (value + (n_tied - 1) * rows) / n_tied, rows)
        others = np.where(tied, 0.0, rows).sum(axis=1, keepdims=True) + (n_tied - 1) * top
        left = np.where(tied, 1.0 - value, 0.0)  # for the others, while a class is the top one
        left = (left.sum(axis=1, keepdims=True) - left) / n_tied
        n_others = rows.shape[1] - 1
        part = np.minimum(rows, others)  # a lone top class takes no share: no overflow for it
        share = np.where(others > 0, part / np.where(others > 0, others, 1.0), 1.0 / n_others)
        out: Floats = value / n_tied + left * share
        return out

    def formula(
        self, ops: Operations, rows: Value, *, computed: bool = False, inner: bool = False
    ) -> Value:
        """Write down the map."""
        rows, computed = self._write_probabilities(ops, rows, computed=computed)
        top = ops.row_max(rows)
        tied = rows == top
        n_tied = ops.row_sum(ops.real(tied))
        curve_of = np.arange(len(self.curves)) if self.per_class else None
        value = write_curves(ops, top, self.curves, curve_of, computed=computed)
        value = ops.where(tied, value, 0.0)
        if not self.normalize_output:
            return ops.where(tied, (value + (n_tied - 1.0) * rows) / n_tied, rows)
        others = ops.row_sum(ops.where(tied, 0.0, rows)) + (n_tied - 1.0) * top
        left = ops.where(tied, 1.0 - value, 0.0)
        left = (ops.row_sum(left) - left) / n_tied
        some = others > 0.0
        part = ops.minimum(rows, others) / ops.where(some, others, 1.0)
        share = ops.where(some, part, 1.0 / (ops.n_classes - 1))
        return value / n_tied + left * share
