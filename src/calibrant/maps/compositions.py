"""Maps made of maps: one after the other, or averaged."""

from __future__ import annotations

from collections import Counter

import numpy as np

from calibrant import simplex
from calibrant.kernels.rows import floor_rows
from calibrant.maps.base import CalibrationMap, Floats, check_number, frozen, hold, require
from calibrant.maps.operations import Operations, Value


def lift(rows: Floats, floor: float, *, sums_to_one: bool, given: Floats) -> Floats:
    """Lift rows of probabilities to a floor, in place if possible; those that sum to 1 still do.

    Rows that need not sum to 1 have nothing to give: only what lies below the floor changes. A map
    of somebody else's may return rows in any layout, or those that it was ``given``, which are the
    caller's.
    """
    if np.may_share_memory(rows, given):
        rows = rows.copy()
    rows = np.require(rows, np.float64, ["C", "ALIGNED", "WRITEABLE"])
    if not sums_to_one:
        np.maximum(rows, floor, out=rows)
    elif floor > 0:
        floor_rows(rows, floor)
    return rows


def write_lift(
    ops: Operations, rows: Value, floor: float, doubt: Value = None, *, sums_to_one: bool
) -> Value:
    """Write down ``lift``, and add a column of ``doubt``: 0, or NaN for rows that mean nothing."""
    if sums_to_one and floor > 0:
        low = ops.row_min(rows) < floor
        base = ops.where(low, floor, 0.0)
        rows = rows * ops.where(low, 1.0 - ops.n_classes * floor, 1.0)
        return rows + (base if doubt is None else base + doubt)
    if floor > 0:
        rows = ops.maximum(rows, floor)
    return rows if doubt is None else rows + doubt


@frozen
class Stage(CalibrationMap):
    """A map inside another one: its rows are put on the simplex before it and lifted after it."""

    map: CalibrationMap
    floor: float

    def __post_init__(self) -> None:
        require(isinstance(self.map, CalibrationMap), "map is no map")
        check_number(self, "floor", low=0.0, high=1.0)

    @property
    def kind(self) -> str:  # type: ignore[override]
        """Kind of scores that the map takes."""
        return self.map.kind

    @property
    def n_classes(self) -> int | None:
        """Number of classes; None if any will do."""
        return self.map.n_classes

    def takes(self, n_classes: int) -> bool:
        """Whether rows of so many classes can be mapped."""
        return self.map.takes(n_classes)

    @property
    def keeps_order(self) -> bool:  # type: ignore[override]
        """As the map."""
        return self.map.keeps_order

    @property
    def same_for_all_classes(self) -> bool:  # type: ignore[override]
        """As the map."""
        return self.map.same_for_all_classes

    @property
    def sums_to_one(self) -> bool:  # type: ignore[override]
        """As the map."""
        return self.map.sums_to_one

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        out = self.map(simplex.check_scores(rows, self.kind))
        return lift(out, self.floor, sums_to_one=self.sums_to_one, given=rows)

    def formula(
        self, ops: Operations, rows: Value, *, computed: bool = False, inner: bool = False
    ) -> Value:
        """Write down the map."""
        out = self.map.formula(ops, rows, computed=computed, inner=inner)
        return write_lift(ops, out, self.floor, sums_to_one=self.sums_to_one)


class _Composition(CalibrationMap):
    """What holds for a whole holds for all of its stages."""

    __slots__ = ()

    stages: tuple[CalibrationMap, ...]

    def _check_stages(self, if_empty: str) -> None:
        require(self.stages, if_empty)
        maps = all(isinstance(stage, CalibrationMap) for stage in self.stages)
        require(type(self.stages) is tuple and maps, "stages are no tuple of maps")

    def takes(self, n_classes: int) -> bool:
        """Whether every stage takes rows of so many classes."""
        return all(stage.takes(n_classes) for stage in self.stages)

    @property
    def n_classes(self) -> int | None:
        """Number of classes; None if any will do."""
        return next((s.n_classes for s in self.stages if s.n_classes is not None), None)

    @property
    def kind(self) -> str:  # type: ignore[override]
        """Kind of scores that the first stage takes."""
        return self.stages[0].kind

    @property
    def keeps_order(self) -> bool:  # type: ignore[override]
        """Whether all stages keep the order."""
        return all(stage.keeps_order for stage in self.stages)

    @property
    def same_for_all_classes(self) -> bool:  # type: ignore[override]
        """Whether no stage knows which class is which."""
        return all(stage.same_for_all_classes for stage in self.stages)

    @property
    def sums_to_one(self) -> bool:  # type: ignore[override]
        """Whether rows of the last, and so of any, stage sum to 1."""
        return self.stages[-1].sums_to_one


@frozen
class ChainMap(_Composition):
    """Maps one after the other."""

    stages: tuple[CalibrationMap, ...]

    def __post_init__(self) -> None:
        self._check_stages("there is no stage")
        kinds = all(stage.kind == "probabilities" for stage in self.stages[1:])
        require(kinds, "a later stage takes logits, which no stage returns")
        sums = all(stage.sums_to_one for stage in self.stages[:-1])
        require(sums, "a stage gets rows that need not sum to 1")

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        rows = self._check_rows(rows)
        for stage in self.stages:
            rows = stage(rows)
        return rows

    def formula(
        self, ops: Operations, rows: Value, *, computed: bool = False, inner: bool = False
    ) -> Value:
        """Write down the map."""
        for i, stage in enumerate(self.stages):
            with ops.inside(f"stage_{i}"):
                last = i == len(self.stages) - 1
                rows = stage.formula(ops, rows, computed=computed or i > 0, inner=inner or not last)
        return rows


@frozen
class MixtureMap(_Composition):
    """Weighted average of maps; what several chains begin with is done once."""

    stages: tuple[CalibrationMap, ...]
    weights: Floats

    def __post_init__(self) -> None:
        self._check_stages("there is no map to average")
        hold(self, "weights")
        n, w = len(self.stages), self.weights
        require(w.shape == (n,), f"weights of length {w.size} for {n} maps")
        require(
            w.min() >= 0 and w.max() <= 1, f"weights are in [{w.min()}, {w.max()}], outside [0, 1]"
        )
        require(abs(float(self.weights.sum()) - 1.0) <= 1e-12, "weights do not sum to 1")
        same = all(stage.kind == self.kind for stage in self.stages)
        require(same, "the maps do not take the same kind of scores")

    @property
    def sums_to_one(self) -> bool:  # type: ignore[override]
        """Whether the rows of all maps sum to 1."""
        return all(stage.sums_to_one for stage in self.stages)

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        rows = self._check_rows(rows)
        out = np.zeros_like(rows)
        paths = self._paths()
        uses = Counter(id(first) for first, *_ in paths)
        done: dict[int, Floats] = {}
        for weight, (first, *later) in zip(self.weights, paths, strict=True):
            if weight > 0:
                part = done[id(first)] if id(first) in done else first(rows)
                if uses[id(first)] > 1:
                    done[id(first)] = part
                for stage in later:
                    part = stage(part)
                out += weight * part
        return out

    def formula(
        self, ops: Operations, rows: Value, *, computed: bool = False, inner: bool = False
    ) -> Value:
        """Write down the map."""
        out: Value = None
        done: dict[int, Value] = {}
        paths = self._paths()
        followed = {id(first) for first, *later in paths if later}
        for i, (weight, (first, *later)) in enumerate(zip(self.weights, paths, strict=True)):
            if weight == 0:
                continue
            with ops.inside(f"map_{i}"):
                if id(first) not in done:
                    counts = inner or id(first) in followed
                    done[id(first)] = first.formula(ops, rows, computed=computed, inner=counts)
                part = done[id(first)]
                if later:
                    with ops.inside("later"):
                        part = ChainMap(tuple(later)).formula(ops, part, computed=True, inner=inner)
                part = part * ops.fitted("weight", weight)
            out = part if out is None else out + part
        return out

    def _paths(self) -> list[tuple[CalibrationMap, ...]]:
        """List what comes one after the other, for each map that is averaged."""
        return [s.stages if isinstance(s, ChainMap) else (s,) for s in self.stages]
