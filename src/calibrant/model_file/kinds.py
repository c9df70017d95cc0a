"""Kinds of fitted attributes: how each is written, read and checked.

A codec is a table of these. ``check`` runs before a value is written and after it is read, so
that what can be saved can be loaded, and what was loaded keeps the promises of its method.
"""

# ruff: noqa: D102  (``Kind`` documents what each method does)
from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.errors import HeaderFieldError, in_words
from calibrant.model_file.limits import LARGEST, require
from calibrant.model_file.strict_json import Fields
from calibrant.step_function import RankedStepFunction, StepFunction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from calibrant.model_file.reader import Reader
    from calibrant.model_file.writer import Writer

_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class Kind(ABC):
    """What a fitted attribute is."""

    @abstractmethod
    def check(self, value: Any, name: str, sizes: dict[str, int]) -> None:
        """Refuse a value that breaks a promise; ``sizes`` are the lengths known so far."""

    @abstractmethod
    def write(self, value: Any, name: str, writer: Writer) -> Any:
        """Return what stands in the header; arrays go to the writer under ``name``."""

    @abstractmethod
    def read(self, stored: Any, name: str, reader: Reader) -> Any:
        """Undo ``write``."""

    def parts(self, value: Any) -> Iterable[Any]:  # noqa: ARG002
        """Calibrators inside the value."""
        return ()


@dataclass(frozen=True, slots=True)
class Number(Kind):
    """A float in [low, high]; with ``anything`` also NaN and infinities."""

    low: float = -LARGEST
    high: float = LARGEST
    anything: bool = False

    def check(self, value: Any, name: str, sizes: dict[str, int]) -> None:
        del sizes
        require(isinstance(value, float), f"{name} is no float")
        inside = self.anything or self.low <= value <= self.high
        require(inside, f"{name} is {value}, outside [{self.low}, {self.high}]")

    def write(self, value: Any, name: str, writer: Writer) -> Any:
        del name, writer
        return float(value) if math.isfinite(value) else str(float(value))

    def read(self, stored: Any, name: str, reader: Reader) -> Any:
        del reader
        if type(stored) is str and stored in _NOT_FINITE:
            return _NOT_FINITE[stored]
        if type(stored) is not float:
            raise HeaderFieldError(f"{name} is no float")
        return stored


@dataclass(frozen=True, slots=True)
class Plain(Kind):
    """An int, a str or a bool, as JSON has it."""

    type: type
    low: int = 0

    def check(self, value: Any, name: str, sizes: dict[str, int]) -> None:
        del sizes
        right = type(value) is self.type or (self.type is int and isinstance(value, np.integer))
        require(right, f"{name} is no {self.type.__name__}")
        require(self.type is not int or value >= self.low, f"{name} is {in_words(value)}")

    def write(self, value: Any, name: str, writer: Writer) -> Any:
        del name, writer
        return self.type(value)

    def read(self, stored: Any, name: str, reader: Reader) -> Any:
        del reader
        if type(stored) is not self.type:
            raise HeaderFieldError(f"{name} is no {self.type.__name__}")
        return stored


@dataclass(frozen=True, slots=True)
class Optional(Kind):
    """None, or another kind."""

    kind: Kind

    def check(self, value: Any, name: str, sizes: dict[str, int]) -> None:
        if value is not None:
            self.kind.check(value, name, sizes)

    def write(self, value: Any, name: str, writer: Writer) -> Any:
        return None if value is None else self.kind.write(value, name, writer)

    def read(self, stored: Any, name: str, reader: Reader) -> Any:
        return None if stored is None else self.kind.read(stored, name, reader)


@dataclass(frozen=True, slots=True)
class Listed(Kind):
    """A list or tuple of one kind."""

    kind: Kind
    of: type = list
    at_least: int = 0
    length: str | None = None

    def check(self, value: Any, name: str, sizes: dict[str, int]) -> None:
        require(type(value) is self.of, f"{name} is no {self.of.__name__}")
        require(len(value) >= self.at_least, f"{name} has {len(value)} entries")
        if self.length is not None:
            agree(sizes, self.length, len(value), name)
        for i, item in enumerate(value):
            self.kind.check(item, f"{name}/{i}", sizes)

    def write(self, value: Any, name: str, writer: Writer) -> Any:
        return [self.kind.write(item, f"{name}/{i}", writer) for i, item in enumerate(value)]

    def read(self, stored: Any, name: str, reader: Reader) -> Any:
        if type(stored) is not list:
            raise HeaderFieldError(f"{name} is no list")
        return self.of(self.kind.read(item, f"{name}/{i}", reader) for i, item in enumerate(stored))

    def parts(self, value: Any) -> Iterable[Any]:
        for item in value:
            yield from self.kind.parts(item)


@dataclass(frozen=True, slots=True)
class Part(Kind):
    """A fitted calibrator."""

    def check(self, value: Any, name: str, sizes: dict[str, int]) -> None:
        fits = getattr(value, "n_features_in_", None) == sizes["k"]
        require(fits, f"{name} is not fitted to {sizes['k']} classes")

    def write(self, value: Any, name: str, writer: Writer) -> Any:
        del name
        return writer.part(value, fitted=True)

    def read(self, stored: Any, name: str, reader: Reader) -> Any:
        return reader.part(stored, name, fitted=True)

    def parts(self, value: Any) -> Iterable[Any]:
        yield value


@dataclass(frozen=True, slots=True)
class Record(Kind):
    """A dataclass, or a dict with known keys."""

    cls: type
    fields: dict[str, Kind]

    def check(self, value: Any, name: str, sizes: dict[str, int]) -> None:
        require(type(value) is self.cls, f"{name} is no {self.cls.__name__}")
        if self.cls is dict:
            require(value.keys() == self.fields.keys(), f"{name} has other keys")
        for key, kind in self.fields.items():
            kind.check(self._get(value, key), f"{name}/{key}", sizes)

    def write(self, value: Any, name: str, writer: Writer) -> Any:
        return {
            key: kind.write(self._get(value, key), f"{name}/{key}", writer)
            for key, kind in self.fields.items()
        }

    def read(self, stored: Any, name: str, reader: Reader) -> Any:
        fields = Fields(stored, name)
        values = {
            key: kind.read(fields.take(key), f"{name}/{key}", reader)
            for key, kind in self.fields.items()
        }
        fields.close(reader.unknown)
        return self.cls(**values)

    def _get(self, value: Any, key: str) -> Any:
        return value[key] if self.cls is dict else getattr(value, key)


@dataclass(frozen=True, slots=True)
class Array(Kind):
    """Numbers in [low, high], with a shape given by letters: "k" is the number of classes.

    A letter stands for the same length in all attributes of a calibrator; "k|kk" is a vector or a
    square matrix.
    """

    shape: str
    low: float = -LARGEST
    high: float = LARGEST
    whole: bool = False

    def check(self, value: Any, name: str, sizes: dict[str, int]) -> None:
        kind = "i" if self.whole else "f"
        right = isinstance(value, np.ndarray) and value.dtype.kind == kind
        require(right and value.itemsize == 8, f"{name} is no array of 64-bit numbers")
        shapes = {len(shape): shape for shape in self.shape.split("|")}
        require(value.ndim in shapes and value.size > 0, f"{name} has shape {value.shape}")
        for letter, length in zip(shapes[value.ndim], value.shape, strict=True):
            agree(sizes, letter, length, name)
        low, high = value.min(), value.max()  # NaN is neither above nor below
        inside = self.low <= low and high <= self.high
        require(inside, f"{name} is in [{low}, {high}], outside [{self.low}, {self.high}]")

    def write(self, value: Any, name: str, writer: Writer) -> Any:
        writer.put(name, value)
        return "array"

    def read(self, stored: Any, name: str, reader: Reader) -> Any:
        expect(stored, "array", name)
        return reader.take(name, whole=self.whole, n_dimensions=None)


@dataclass(frozen=True, slots=True)
class Steps(Kind):
    """A step function with values up to ``high``, not all zero."""

    high: float = 1.0

    def check(self, value: Any, name: str, sizes: dict[str, int]) -> None:
        del sizes
        require(type(value) is StepFunction, f"{name} is no step function")
        check_steps(value, name)
        top = value.values[-1]
        require(0 < top <= self.high, f"{name}: the largest value is {top}")

    def write(self, value: Any, name: str, writer: Writer) -> Any:
        for field in ("thresholds", "values", "sizes"):
            writer.put(f"{name}/{field}", getattr(value, field))
        return "step function"

    def read(self, stored: Any, name: str, reader: Reader) -> Any:
        expect(stored, "step function", name)
        return StepFunction(
            reader.take(f"{name}/thresholds"),
            reader.take(f"{name}/values"),
            reader.take(f"{name}/sizes"),
        )


@dataclass(frozen=True, slots=True)
class RankedSteps(Kind):
    """A ranked step function with fewer ranks than classes."""

    def check(self, value: Any, name: str, sizes: dict[str, int]) -> None:
        require(type(value) is RankedStepFunction, f"{name} is no ranked step function")
        require(value.n_ranks < sizes["k"], f"{name} has {value.n_ranks} ranks")
        for array in (value.thresholds, value.values):
            require(not np.signbit(array).any(), f"{name} has a negative zero")

    def write(self, value: Any, name: str, writer: Writer) -> Any:
        for field in ("thresholds", "values", "offsets"):
            writer.put(f"{name}/{field}", getattr(value, field))
        return "ranked step function"

    def read(self, stored: Any, name: str, reader: Reader) -> Any:
        expect(stored, "ranked step function", name)
        return RankedStepFunction(
            reader.take(f"{name}/thresholds"),
            reader.take(f"{name}/values"),
            reader.take(f"{name}/offsets", whole=True),
        )


def check_steps(value: Any, name: str) -> None:
    """Refuse what the constructors of step functions let pass but the kernels do not expect."""
    # The tables over the bits of a double put -0.0 elsewhere than 0.0.
    for array in (value.thresholds, value.values):
        require(not np.signbit(array).any(), f"{name} has a negative zero")
    # Any finite weights: no prediction uses them.
    sizes = value.sizes
    require(sizes.min() >= 0 and sizes.max() < np.inf, f"{name}: sizes are no weights")


def agree(sizes: dict[str, int], letter: str, length: int, name: str) -> None:
    """Refuse a length that is not that of the same letter elsewhere."""
    known = sizes.setdefault(letter, length)
    require(known == length, f"{name} has length {length} where {letter} = {known}")


def expect(stored: Any, word: str, name: str) -> None:
    """Refuse a header that announces another kind than the method has."""
    if type(stored) is not str or stored != word:
        raise HeaderFieldError(f"{name} is not announced as {word!r}")
