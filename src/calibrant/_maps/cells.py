"""Maps of the cells of rows on the simplex: steps, curves, top label."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from calibrant._kernels.curves import apply_pieces, share_rest
from calibrant._kernels.lookup import apply_step
from calibrant._kernels.ranked_lookup import apply_ranked, pack_rows
from calibrant._kernels.rows import divide_by_sums
from calibrant._kernels.tables import TIED, Lookup, PowerTable, build_lookup, build_powers
from calibrant._maps.base import DEEPEST_LOGIT, CalibrationMap, check_field, ensure, freeze, frozen
from calibrant._maps.curves import (
    Curve,
    LogOddsCurve,
    PieceTable,
    Terms,
    apply_terms,
    check_curves,
    join_pieces,
    join_terms,
)
from calibrant._maps.steps import RankedStepFunction, StepFunction
from calibrant._types import Floats, Wholes

CELLS_AT_ONCE = 1 << 15
"""Cells mapped at once: what the second-level cache holds."""

FEW_CELLS = 1 << 12
"""Cells below which the lock of the interpreter is kept; see ``_kernels.lock``."""

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
        ensure(type(self.step_function) is StepFunction, "step_function is not a StepFunction")
        top = self.step_function.values[-1]
        ensure(0 < top <= 1, f"step_function: the largest value is {top}")

    @cached_property
    def _lookup(self) -> Lookup:
        return build_lookup(self.step_function.thresholds)

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        rows = self._probabilities(rows)
        out = np.empty_like(rows)
        apply_step(rows, rows.view(np.int64), *self._lookup, self.step_function.values, out)
        return out


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

    def __post_init__(self) -> None:
        self._check_kind()
        ranked = type(self.step_function) is RankedStepFunction
        ensure(ranked, "step_function is not a RankedStepFunction")
        check_field(self, "prior_share", low=0.0, high=1.0)
        check_field(self, "inverse_temperature", low=0.0)
        check_field(self, "zero_logit", low=DEEPEST_LOGIT, high=0.0)

    def takes(self, n_classes: int) -> bool:
        """Whether there are more classes than ranks."""
        return self.step_function.n_ranks < n_classes

    @cached_property
    def _powers(self) -> PowerTable:
        return build_powers(self.inverse_temperature, math.exp(self.zero_logit))

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        rows = self._probabilities(rows)
        n_rows, n_classes = rows.shape
        width = (n_classes - 1).bit_length()
        size = 31 if n_classes <= MOST_SHORT_KEYS else 63  # no sign
        shift = 52 - (size - width - 6)  # six bits for 64 octaves, the rest for the mantissa
        mask, largest = (1 << width) - 1, (1 << (size - width)) - 1
        lookup, powers = self.step_function.lookup, self._powers
        out = np.empty_like(rows)
        step = max(1, CELLS_AT_ONCE // n_classes)
        room = np.empty((min(step, n_rows), n_classes), np.int32 if size == 31 else np.int64)
        for start in range(0, n_rows, step):
            part = slice(start, start + step)
            bits = rows[part].view(np.int64)
            keys = room[: len(bits)]
            pack_rows(bits, shift, width, largest, keys)
            if keys.size >= FEW_CELLS:
                keys.sort(axis=1)  # of few, which the kernel sorts, numpy would let the lock go
            how = keys, mask, lookup, self.prior_share, powers, TIED
            apply_ranked(rows[part], bits, *how, out[part])
        return out


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
