"""How a value is stored: one rule for all maps, reports and lists, by the types of their fields.

Numbers, texts and lists are JSON. An array is announced in the header, and stands behind it under
its name. A step function is announced likewise, with an array for each of its fields; the curves
of many classes are packed end to end. The types are those that the classes declare, never what a
file says: nothing is imported or called because a file names it.
"""

from __future__ import annotations

import math
import re
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np

from calibrant.calibrators.base import Calibrator
from calibrant.errors import HeaderFieldError, ParameterError
from calibrant.maps.curves import AveragedHistogram, BetaMap, Curve, PiecewiseLinear, Sigmoid
from calibrant.maps.steps import Histogram, RankedStepFunction, StepFunction
from calibrant.model_file.limits import require
from calibrant.model_file.strict_json import Fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from calibrant.model_file.reader import Reader
    from calibrant.model_file.writer import Writer

CURVES = (PiecewiseLinear, StepFunction, Histogram, Sigmoid, BetaMap, AveragedHistogram)
"""What stands in a file is the place in this table; places are never reused."""

_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@cache
def field_types(cls: Any) -> dict[str, Any]:
    """Return the type of each field of a dataclass that a file holds, or of a dict."""
    hints = get_type_hints(cls)
    if is_typeddict(cls):
        return hints
    held = [field for field in fields(cls) if field.init and field.metadata.get("stored", True)]
    return {field.name: hints[field.name] for field in held}


def write(kind: Any, value: Any, name: str, writer: Writer) -> Any:
    """Return what stands in the header for a value of type ``kind``; arrays go to ``writer``."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return None if value is None else write(_other_than_none(kind), value, name, writer)
    of: Any = origin or kind
    of = np.integer | int if kind is int else dict if is_typeddict(kind) else of
    require(isinstance(value, of), f"{name} is no {getattr(of, '__name__', of)}")
    if kind is float:
        return float(value) if math.isfinite(value) else str(float(value))
    if kind in (int, str, bool):
        return kind(value)
    if origin is np.ndarray:
        return _write_array(value, name, writer)
    if kind in (StepFunction, RankedStepFunction):
        for field in field_types(kind):
            writer.put(f"{name}/{field}", getattr(value, field))
        return _announcement(kind)
    if inside[:1] == (Curve,):
        return _write_curves(value, name, writer)
    if origin in (list, tuple):
        return [write(inside[0], item, f"{name}/{i}", writer) for i, item in enumerate(value)]
    if isinstance(value, Calibrator):
        return writer.part(value, fitted=True)
    if is_typeddict(kind):
        require(value.keys() == field_types(kind).keys(), f"{name} has other keys")
    get = value.__getitem__ if is_typeddict(kind) else partial(getattr, value)
    return {
        field: write(of, get(field), f"{name}/{field}", writer)
        for field, of in field_types(kind).items()
        if _is_written(kind, field, get)
    }


def read(kind: Any, stored: Any, name: str, reader: Reader) -> Any:
    """Undo ``write``."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return None if stored is None else read(_other_than_none(kind), stored, name, reader)
    if kind is float and type(stored) is str and stored in _NOT_FINITE:
        return _NOT_FINITE[stored]
    if kind in (float, int, str, bool):
        if type(stored) is not kind:
            raise HeaderFieldError(f"{name} is no {kind.__name__}")
        return stored
    if origin is np.ndarray:
        _expect(stored, "array", name)
        return reader.take(name, whole=_is_whole(kind), n_dimensions=None)
    if kind in (StepFunction, RankedStepFunction):
        _expect(stored, _announcement(kind), name)
        parts = field_types(kind).items()
        return kind(*(reader.take(f"{name}/{f}", whole=_is_whole(of)) for f, of in parts))
    if inside[:1] == (Curve,):
        return _read_curves(stored, name, reader)
    if origin in (list, tuple):
        if type(stored) is not list:
            raise HeaderFieldError(f"{name} is no list")
        return origin(read(inside[0], item, f"{name}/{i}", reader) for i, item in enumerate(stored))
    if kind is Calibrator:
        return reader.part(stored, name, fitted=True)
    given = Fields(stored, name)
    later = () if is_typeddict(kind) else [f.name for f in fields(kind) if f.default is not MISSING]
    values = {
        field: read(of, given.take(field), f"{name}/{field}", reader)
        for field, of in field_types(kind).items()
        if given.has(field) or field not in later  # what has a default came after the first files
    }
    given.close(reader.unknown)
    return kind(**values)


def parts_in(value: Any) -> Iterator[Calibrator]:
    """Calibrators in a value, or in a dictionary or list of values."""
    if isinstance(value, Calibrator):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from parts_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from parts_in(item)


def _is_written(kind: Any, field: str, get: Callable[[str], Any]) -> bool:
    """Whether a field has a place in a file that is written now; older ones may have it."""
    if is_typeddict(kind):
        return True
    written = kind.__dataclass_fields__[field].metadata.get("written", True)
    return get(field) is not None if written == "unless None" else bool(written)


def _other_than_none(kind: Any) -> Any:
    return next(of for of in get_args(kind) if of is not NoneType)


def _is_whole(kind: Any) -> bool:
    return get_args(get_args(kind)[1])[0] is np.int64


def _announcement(kind: type) -> str:
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", kind.__name__).lower()


def _expect(stored: Any, word: str, name: str) -> None:
    """Refuse a header that announces another kind of value than the class has."""
    if type(stored) is not str or stored != word:
        raise HeaderFieldError(f"{name} is not announced as {word!r}")


def _write_array(value: NDArray[Any], name: str, writer: Writer) -> str:
    right = value.dtype.kind in "fi" and value.itemsize == 8 and value.size > 0
    require(right, f"{name} is no array of 64-bit numbers")
    writer.put(name, value)
    return "array"


def _write_curves(curves: tuple[Any, ...], name: str, writer: Writer) -> str:
    for i, curve in enumerate(curves):
        require(type(curve) in CURVES, f"{name}/{i} is a {type(curve).__name__}")
    vectors = [vector for curve in curves for vector in _vectors(curve)]
    places = [CURVES.index(type(curve)) for curve in curves]
    writer.put(f"{name}/forms", np.array(places, dtype=np.int64))
    writer.put(f"{name}/lengths", np.array([len(v) for v in vectors], dtype=np.int64))
    writer.put(f"{name}/numbers", np.concatenate(vectors).astype(np.float64))
    writer.count_maps(len(curves))
    return "maps"


def _read_curves(stored: Any, name: str, reader: Reader) -> tuple[Any, ...]:
    _expect(stored, "maps", name)
    forms = reader.take(f"{name}/forms", whole=True)
    lengths = reader.take(f"{name}/lengths", whole=True)
    numbers = reader.take(f"{name}/numbers")
    reader.count_maps(len(forms))
    known = forms.min() >= 0 and forms.max() < len(CURVES)
    require(known, f"{name} has a map of unknown form")
    classes = [CURVES[form] for form in forms]
    total = sum(_n_vectors(cls) for cls in classes)
    require(len(lengths) == total and lengths.min() >= 1, f"{name}: vectors are missing")
    ends = np.cumsum(lengths.astype(object))  # Python's integers do not overflow
    require(ends[-1] == len(numbers), f"{name}: vectors do not fill their numbers")
    vectors = iter(np.split(numbers, ends[:-1].astype(np.int64)))
    return tuple(_join(cls, vectors) for cls in classes)


def _vectors(curve: Any) -> list[NDArray[np.float64]]:
    """Return a curve as vectors: all of its single numbers in one, then its arrays."""
    numbers, arrays = [], []
    for value in _leaves(curve):
        if isinstance(value, float):
            numbers.append(value)
        else:
            arrays.append(value.astype(np.float64))
    return [np.array(numbers), *arrays] if numbers else arrays


def _leaves(curve: Any) -> Iterator[Any]:
    for field in field_types(type(curve)):  # type: ignore[arg-type]
        value = getattr(curve, field)
        yield from _leaves(value) if is_dataclass(value) else [value]


@cache
def _leaf_types(cls: Any) -> tuple[Any, ...]:
    leaves: list[Any] = []
    for of in field_types(cls).values():
        leaves += _leaf_types(of) if is_dataclass(of) else [of]  # type: ignore[arg-type]
    return tuple(leaves)


@cache
def _n_vectors(cls: type) -> int:
    leaves = _leaf_types(cls)
    return len(leaves) - leaves.count(float) + (float in leaves)


def _join(cls: type, vectors: Iterator[NDArray[np.float64]]) -> Any:
    n_numbers = _leaf_types(cls).count(float)
    numbers = next(vectors).tolist() if n_numbers else []
    require(len(numbers) == n_numbers, f"a {_announcement(cls)} has {n_numbers} numbers")
    return _build(cls, iter(numbers).__next__, vectors.__next__)


def _build(cls: Any, number: Callable[[], float], array: Callable[[], Any]) -> Any:
    values = []
    for of in field_types(cls).values():
        if is_dataclass(of):
            values.append(_build(of, number, array))
        else:
            values.append(number() if of is float else array())
    try:
        return cls(*values)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise ParameterError(str(error)) from None
