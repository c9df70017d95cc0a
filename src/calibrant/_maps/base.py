"""``CalibrationMap``: what a fit is, and what everyone who needs a fit may ask of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from calibrant import _gate as gate
from calibrant import errors
from calibrant._types import Floats

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

    def parts(self: object) -> tuple[Any, ...]:
        return made, tuple(getattr(self, name) for name in names)

    def rebuild(self: Any, state: Any) -> None:  # of forged pickles
        self.__init__(*state)

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
        array: NDArray[Any] = np.array(given, dtype) if copy else np.ascontiguousarray(given, dtype)
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
