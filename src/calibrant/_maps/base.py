"""``CalibrationMap``: what a fit is, what may be asked of it, and maps that are made of maps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

import numpy as np

from calibrant import _gate as gate
from calibrant import errors
from calibrant._kernels.curves import floor_rows
from calibrant._types import Array, Bools, Floats, Wholes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Frozen = TypeVar("Frozen")

LARGEST = 1e100
"""Magnitude of fitted coefficients: their products with logits stay finite."""

LARGEST_PRODUCT = 1e306
"""Magnitude of products of fitted numbers, where a single one may be larger than ``LARGEST``."""

DEEPEST_LOGIT = -1e150
"""The lowest logit that an exact zero may be read as, for the same reason."""


@dataclass_transform(frozen_default=True, eq_default=False)
def frozen(cls: type[Frozen]) -> type[Frozen]:
    """Make a frozen dataclass that is copied and unpickled by its constructor, which checks it.

    Kernels trust what it promises; what comes by pickle keeps no other promise than this. Tables
    that are derived from its fields are cached properties, which no copy and no file has.
    """
    made: Any = dataclass(frozen=True, eq=False)(cls)
    names = [f.name for f in fields(made)]

    def parts(self: object) -> tuple[type, tuple[object, ...]]:
        return made, tuple(getattr(self, name) for name in names)

    def rebuild(self: object, state: tuple[object, ...]) -> None:  # of forged pickles
        made.__init__(self, *state)

    made.__reduce__, made.__setstate__ = parts, rebuild
    result: type[Frozen] = made
    return result


def ensure(condition: object, message: str) -> None:
    """Refuse a map whose numbers break a promise."""
    if not condition:
        raise errors.ParameterError(message)


def freeze(owner: object, *names: str, dtype: type = np.float64, copy: bool = True) -> None:
    """Turn fields into arrays in C order that nobody changes."""
    for name in names:
        given = getattr(owner, name)
        array: Array = np.array(given, dtype) if copy else np.ascontiguousarray(given, dtype)
        array = np.require(array, requirements=["C", "ALIGNED"]).view()
        array.setflags(write=False)
        object.__setattr__(owner, name, array)


def check_field(owner: object, name: str, low: float = -LARGEST, high: float = LARGEST) -> None:
    """Refuse a field that is no float in [low, high]."""
    value = getattr(owner, name)
    ensure(isinstance(value, float), f"{name} is not a float")
    ensure(low <= value <= high, f"{name} is {value}, outside [{low}, {high}]")


def check_array(
    owner: object, name: str, shapes: list[tuple[int, ...]], low: float = -LARGEST
) -> None:
    """Refuse a field that has none of the shapes, or a number outside [low, LARGEST]."""
    array = getattr(owner, name)
    ensure(
        array.shape in shapes and array.size > 0,
        f"{name} has shape {array.shape}, not {' or '.join(map(str, shapes))}",
    )
    inside = low <= array.min() and array.max() <= LARGEST  # NaN is neither above nor below
    ensure(inside, f"{name} is in [{array.min()}, {array.max()}], outside [{low}, {LARGEST}]")


class CalibrationMap(ABC):
    """Checked rows of scores in, rows of probabilities out.

    A subclass is a frozen dataclass of its numbers, with ``kind``, the kind of scores that it
    takes, and checks them once, when it is made. Nothing it is given is modified.
    """

    kind: str

    keeps_order = False
    """Whether a class with a larger score never gets a smaller probability."""

    same_for_all_classes = False
    """Whether permuting the columns permutes the result."""

    sums_to_one = True
    """Whether rows of the result sum to 1."""

    changes_shares = False
    """Whether classes are meant to come with other frequencies than in the calibration set."""

    depends_on_shift = False
    """Whether a number that is added to all logits of a row changes the result."""

    @property
    def n_classes(self) -> int | None:
        """Number of classes; None if any will do."""
        return None

    def takes(self, n_classes: int) -> bool:
        """Whether rows of ``n_classes`` classes can be mapped."""
        return self.n_classes in (None, n_classes)

    @abstractmethod
    def __call__(self, rows: Floats) -> Floats:
        """Return the probabilities of checked rows, before any floor."""

    def _check_kind(self) -> None:
        ensure(self.kind in ("probabilities", "logits"), f"kind is {self.kind!r}")

    def _probabilities(self, rows: Floats) -> Floats:
        rows = self._check_rows(rows)
        return rows if self.kind == "probabilities" else gate.softmax(rows)

    def _logits(self, rows: Floats, zero_logit: float) -> Floats:
        rows = self._check_rows(rows)
        return gate.to_logits(rows, self.kind, zero_logit)

    def _check_rows(self, rows: Floats) -> Floats:
        """Refuse what a kernel would misread; copy only what it cannot read where it lies."""
        if not (isinstance(rows, np.ndarray) and rows.dtype == np.float64 and rows.ndim == 2):
            raise errors.ContainerError(
                "a map needs checked rows, a matrix of float64; call predict_proba"
            )
        if not self.takes(rows.shape[1]):
            raise errors.ShapeError(
                f"rows have {errors.number_of(rows.shape[1], 'column')}, but this "
                f"{type(self).__name__} has {self.n_classes or 'more'} classes"
            )
        flags = rows.flags
        if flags.c_contiguous and flags.aligned:
            return rows
        return np.require(rows, requirements=["C", "ALIGNED"])


def lift(rows: Floats, floor: float, *, sums_to_one: bool, given: Floats) -> Floats:
    """Lift rows of probabilities to a floor, in place if possible; those that sum to 1 still do.

    Rows that need not sum to 1 have nothing to give: only what lies below the floor changes. A map
    of somebody else's may return rows in any layout, or those that it was ``given``, which are the
    caller's.
    """
    # Asked only where it may be so: numpy lets the lock of the interpreter go to find out.
    is_own = rows.flags.owndata and rows is not given and rows is not given.base
    if not is_own and np.may_share_memory(rows, given):
        rows = rows.copy()
    if not (rows.dtype == np.float64 and rows.flags.carray):
        rows = np.require(rows, np.float64, ["C", "ALIGNED", "WRITEABLE"])
    if not sums_to_one:
        np.maximum(rows, floor, out=rows)
    elif floor > 0:
        floor_rows(rows, floor)
    return rows


def _of_stages(promise: str, combine: Callable[[Iterable[bool]], bool] = all) -> Any:
    """Return a property that holds if it does for all of the stages, or for any."""

    def look_up(self: _ComposedMap) -> bool:
        return combine(getattr(stage, promise) for stage in self.stages)

    # Kept by each map: they are nested, and to ask all of them takes longer than to map a row.
    return cached_property(look_up)


class _ComposedMap(CalibrationMap):
    """What holds for a whole holds for all of its stages."""

    stages: tuple[CalibrationMap, ...]

    def _check_stages(self, if_empty: str) -> None:
        ensure(self.stages, if_empty)
        maps = all(isinstance(stage, CalibrationMap) for stage in self.stages)
        ensure(type(self.stages) is tuple and maps, "stages is not a tuple of maps")

    def takes(self, n_classes: int) -> bool:
        """Whether every stage takes rows of ``n_classes`` classes."""
        if n_classes not in self._taken:
            self._taken[n_classes] = self._can_take(n_classes)
        return self._taken[n_classes]

    @cached_property
    def _taken(self) -> dict[int, bool]:
        return {}

    def _can_take(self, n_classes: int) -> bool:
        return all(stage.takes(n_classes) for stage in self.stages)

    @cached_property
    def n_classes(self) -> int | None:
        """Number of classes; None if any will do."""
        return next((s.n_classes for s in self.stages if s.n_classes is not None), None)

    @cached_property
    def kind(self) -> str:  # type: ignore[override]
        """Kind of scores that the first stage takes."""
        return self.stages[0].kind

    changes_shares = _of_stages("changes_shares", any)
    depends_on_shift = _of_stages("depends_on_shift", any)
    keeps_order = _of_stages("keeps_order")
    same_for_all_classes = _of_stages("same_for_all_classes")
    sums_to_one = _of_stages("sums_to_one")


@frozen
class Stage(_ComposedMap):
    """A map inside another one: its rows are put on the simplex before it and lifted after it."""

    map: CalibrationMap
    floor: float

    def __post_init__(self) -> None:
        ensure(isinstance(self.map, CalibrationMap), "map is not a calibration map")
        check_field(self, "floor", low=0.0, high=1.0)

    def _can_take(self, n_classes: int) -> bool:
        """Whether the map takes rows of ``n_classes`` classes, whose floors fit into 1."""
        return self.floor * n_classes <= 1.0 and self.map.takes(n_classes)

    @cached_property
    def stages(self) -> tuple[CalibrationMap, ...]:  # type: ignore[override]
        """The map alone."""
        return (self.map,)

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        out = self.map(gate.repair_rows(self._check_rows(rows), self.kind))
        return lift(out, self.floor, sums_to_one=self.sums_to_one, given=rows)


@frozen
class ChainMap(_ComposedMap):
    """Maps one after the other."""

    stages: tuple[CalibrationMap, ...]

    def __post_init__(self) -> None:
        self._check_stages("there is no stage")
        kinds = all(stage.kind == "probabilities" for stage in self.stages[1:])
        ensure(kinds, "a later stage takes logits, which no stage returns")
        sums = all(stage.sums_to_one for stage in self.stages[:-1])
        ensure(sums, "a stage gets rows that may not sum to 1")

    @property
    def depends_on_shift(self) -> bool:  # type: ignore[override]
        """Whether the first stage does: others get probabilities."""
        return self.stages[0].depends_on_shift

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        rows = self._check_rows(rows)
        for stage in self.stages:
            rows = stage(rows)
        return rows


@frozen
class MixtureMap(_ComposedMap):
    """Weighted average of maps; what several chains begin with is done once."""

    stages: tuple[CalibrationMap, ...]
    weights: Floats

    def __post_init__(self) -> None:
        self._check_stages("there is no map to average")
        freeze(self, "weights")
        n, w = len(self.stages), self.weights
        ensure(w.shape == (n,), f"there are {w.size} weights for {n} maps")
        ensure(
            w.min() >= 0 and w.max() <= 1, f"weights are in [{w.min()}, {w.max()}], outside [0, 1]"
        )
        ensure(abs(float(self.weights.sum()) - 1.0) <= 1e-12, "weights do not sum to 1")
        same = all(stage.kind == self.kind for stage in self.stages)
        ensure(same, "the maps do not take the same kind of scores")

    @cached_property
    def paths(self) -> list[tuple[float, CalibrationMap, tuple[CalibrationMap, ...]]]:
        """Weight, first map and what comes after it, for each map that is averaged."""
        parts = [s.stages if isinstance(s, ChainMap) else (s,) for s in self.stages]
        weighted = zip(self.weights.tolist(), parts, strict=True)
        return [(weight, first, tuple(later)) for weight, (first, *later) in weighted]

    @cached_property
    def _is_shared(self) -> set[int]:
        uses = Counter(id(first) for _, first, _ in self.paths)
        return {first for first, n in uses.items() if n > 1}

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows."""
        rows = self._check_rows(rows)
        out = np.zeros(rows.shape)
        done: dict[int, Floats] = {}
        for weight, first, later in self.paths:
            if weight == 0:
                continue
            part = done[id(first)] if id(first) in done else first(rows)
            if id(first) in self._is_shared:
                done[id(first)] = part
            for stage in later:
                part = stage(part)
            out += weight * part
        return out


@frozen
class GroupedMap(_ComposedMap):
    """A map for each group: the first of ``stages`` is that of all rows, then comes each group's.

    Called with rows and the place of the map of each row; rows alone do not say their group.
    """

    stages: tuple[CalibrationMap, ...]

    def __post_init__(self) -> None:
        self._check_stages("there is no map of all rows")
        same = all(stage.kind == self.kind for stage in self.stages)
        ensure(same, "the maps do not take the same kind of scores")

    def __call__(self, rows: Floats, places: Wholes | None = None) -> Floats:
        """Map the rows, each by the map at its place."""
        rows = self._check_rows(rows)
        if places is None:
            raise errors.ParameterError(
                "this map depends on groups, and none were given; pass groups= to predict_proba, "
                "or use the calibrator of one group, for_group(name), which needs none"
            )
        out = np.empty_like(rows)
        for place in np.unique(places).tolist():
            mine = places == place
            out[mine] = self.stages[place](rows[mine])
        return out


def fill_absent(rows: Floats, kind: str, depth: float) -> tuple[Floats, Bools]:
    """Logits less the largest of their row, ``-depth`` where an exact zero is an absent option.

    Returns where these are, too.
    """
    absent = np.isneginf(rows) if kind == "logits" else rows == 0.0
    logits = gate.to_logits(rows, kind, -LARGEST) if kind == "probabilities" else rows
    largest = logits.max(axis=1, keepdims=True)
    return np.maximum(np.where(absent, -np.inf, logits - largest), -depth), absent


@frozen
class MaskedMap(_ComposedMap):
    """A map of logits on rows without some of the options: their probabilities stay 0.

    The map inside reads an absent option as ``depth`` below the largest logit of its row.
    """

    map: CalibrationMap
    depth: float
    kind: str = "probabilities"

    def __post_init__(self) -> None:
        ensure(isinstance(self.map, CalibrationMap), "map is not a calibration map")
        ensure(self.map.kind == "logits", "the inner map does not take logits")
        ensure(self.map.sums_to_one, "rows of the inner map may not sum to 1")
        check_field(self, "depth", low=0.0)
        self._check_kind()

    @cached_property
    def stages(self) -> tuple[CalibrationMap, ...]:  # type: ignore[override]
        """The map alone."""
        return (self.map,)

    def __call__(self, rows: Floats) -> Floats:
        """Map the rows, and give what absent options got to the others."""
        logits, absent = fill_absent(self._check_rows(rows), self.kind, self.depth)
        out: Floats = np.where(absent, 0.0, self.map(logits))
        out /= out.sum(axis=1, keepdims=True)
        return out
