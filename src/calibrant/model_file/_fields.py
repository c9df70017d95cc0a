"""What a file holds of a fit, and how each value is stored: one rule, by the types of the fields.

Stored are the fields of the map, and what else the class declares as fitted. Numbers, texts and
lists are JSON. An array is announced in the header, and stands behind it under its name; a step
function likewise, with an array for each of its fields; the curves of many classes are packed end
to end. A vector of one type, such as class labels, is a tag in the header, with its values or an
array. The types are those that the classes declare, never what a file says: nothing is imported or
called because a file names it.
"""

from __future__ import annotations

import math
from dataclasses import MISSING, fields
from functools import cache
from operator import attrgetter
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np

from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.composition import Composed
from calibrant._calibrators.parameters import fitted_types
from calibrant._gate import two_column_kind
from calibrant._maps import curves
from calibrant._maps.steps import Histogram, RankedStepFunction, StepFunction
from calibrant.errors import ModelFileError
from calibrant.model_file import _format as limits
from calibrant.model_file._format import require, take

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sized

    from calibrant._types import Array, Labels
    from calibrant.model_file._parts import Reader, Writer

CURVES: tuple[type, ...] = (
    *(curves.PiecewiseLinear, StepFunction, Histogram, curves.Sigmoid, curves.BetaMap),
    *(curves.AveragedHistogram, curves.LogOddsCurve),
)
"""What stands in a file is the place in this table; places are never reused."""

GIVEN = {"kind": "scores"} | {name: name for name in ("bound", "per_class", "normalize_output")}
"""Fields of maps that a file has as parameters: the parameter of each."""

STEPS = {StepFunction: "step function", RankedStepFunction: "ranked step function"}
"""What announces the arrays of a step function."""

GONE = {"gain_by_rows"}
"""Fields of reports that files of 1.0.0 may have, and that are no more read."""

_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}

VECTOR_DTYPES = {
    int: ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "object"],
    float: ["float16", "float32", "float64", "object"],
    bool: ["bool", "object"],
    str: ["str", "object"],
    bytes: ["bytes", "object"],
}
"""Which numpy dtypes a vector of each type may have."""

_KINDS = {kind.__name__: kind for kind in VECTOR_DTYPES}
_NUMBERS = (np.float64, np.int64)
_STORED = {int: np.int64, float: np.float64, bool: np.int64}
_TEXTS = {"str": "U", "bytes": "S"}


# What belongs to a fit


@cache
def field_types(cls: type) -> dict[str, Any]:
    """Return the type of each field of a dataclass that a file holds, or of a dict."""
    hints = get_type_hints(cls)
    if is_typeddict(cls):
        return hints
    held = [field for field in fields(cls) if field.init and field.metadata.get("stored", True)]
    return {field.name: hints[field.name] for field in held}


@cache
def stored_types(cls: type) -> dict[str, object]:
    """Return the type of all that is stored of a fit, by name.

    A field of the map has its name with an underscore; a composition's map is made of its parts.
    """
    types = fitted_types(cls)
    map_type = types.pop("map_")
    if issubclass(cls, Composed):
        return types
    return {f"{f}_": of for f, of in field_types(map_type).items() if f not in GIVEN} | types


@cache
def optional_fields(cls: type) -> frozenset[str]:
    """Return the names of what may be None, and then has no place."""
    return frozenset(n for n, of in stored_types(cls).items() if NoneType in get_args(of))


def stored_values(calibrator: Calibrator) -> dict[str, Any]:
    """Return all that is stored of a fit; refuse parameters that are no longer those of it."""
    cls: type = type(calibrator)
    map_ = calibrator.map_
    of_map = {} if isinstance(calibrator, Composed) else field_types(type(map_))
    for field, value in _given(calibrator, of_map).items():
        if getattr(map_, field) != value:
            message = f"{cls.__name__}: {GIVEN[field]} was changed after the fit; fit again"
            raise ModelFileError(message, "savable")
    values = {
        name: getattr(map_, name[:-1]) if name[:-1] in of_map else getattr(calibrator, name)
        for name in stored_types(cls)
    }
    return {n: v for n, v in values.items() if v is not None or n not in optional_fields(cls)}


def set_fit(calibrator: Calibrator, values: dict[str, object]) -> None:
    """Undo ``stored_values``: make the map, whose constructor checks it, and set all."""
    cls: type = type(calibrator)
    values = dict.fromkeys(optional_fields(cls)) | values
    if isinstance(calibrator, Composed):
        calibrator.__dict__ |= values
        map_ = calibrator._compose()  # noqa: SLF001  (ours)
    else:
        map_type = fitted_types(cls)["map_"]
        types = field_types(map_type)
        of_map = {field: values.pop(f"{field}_") for field in types if field not in GIVEN}
        given = _given(calibrator, types).items()
        map_ = map_type(**of_map, **{field: types[field](value) for field, value in given})
    calibrator.__dict__ |= values | {"map_": map_}


def _given(calibrator: Calibrator, map_fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of a map that are parameters: rows of one number became two columns."""
    names = [field for field in map_fields if hasattr(calibrator, GIVEN.get(field, ""))]
    values = {field: getattr(calibrator, GIVEN[field]) for field in names}
    if "kind" in values:
        values["kind"] = two_column_kind(calibrator.scores)
    return values


def parts_in(value: object) -> Iterator[Calibrator]:
    """Calibrators in a value, or in a dictionary or list of values."""
    if isinstance(value, Calibrator):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from parts_in(item)


# Values by their declared types


def _required(kind: object) -> Any:
    """Return a type without None; ``NDArray`` is an alias from numpy 2.5 on."""
    if NoneType in get_args(kind):
        kind = next(of for of in get_args(kind) if of is not NoneType)
    value = getattr(get_origin(kind), "__value__", None)
    return kind if value is None else value[get_args(kind)]


def _cells(kind: object) -> object:
    """Return the type of the cells of an array: float64, int64, or that of labels."""
    return get_args(get_args(_required(kind))[1])[0]


def write(declared: object, value: Any, name: str, writer: Writer) -> object:
    """Return what stands in the header for a value of a type; arrays go to ``writer``."""
    if value is None and NoneType in get_args(declared):
        return None
    kind = _required(declared)
    origin, inside = get_origin(kind), get_args(kind)
    of = dict if is_typeddict(kind) else origin or kind
    require(
        isinstance(value, np.integer | int if of is int else of), f"{name} is not a {of.__name__}"
    )
    if kind is float:
        return float(value) if math.isfinite(value) else str(float(value))
    if kind in (int, str, bool):
        return kind(value)
    if origin is np.ndarray and _cells(kind) not in _NUMBERS:
        return writer.vector(value)
    if origin is np.ndarray:
        right = value.dtype.kind in "fi" and value.itemsize == 8 and value.size > 0
        require(right, f"{name} is not an array of 64-bit numbers")
        writer.arrays[name] = value
        return "array"
    if kind in STEPS:
        writer.arrays |= {f"{name}/{field}": getattr(value, field) for field in field_types(kind)}
        return STEPS[kind]
    if inside[:1] == (curves.Curve,):
        return _write_curves(value, name, writer)
    if origin in (list, tuple):
        return [write(inside[0], item, f"{name}/{i}", writer) for i, item in enumerate(value)]
    if kind is Calibrator:
        return writer.part(value, fitted=True)
    types = field_types(kind)
    if is_typeddict(kind):
        require(value.keys() == types.keys(), f"{name} has other keys")
    else:
        # A field may have no place in a file that is written now; older ones may have it.
        places = {field.name: field.metadata.get("written", True) for field in fields(kind)}
        given = {field: getattr(value, field) for field in types if places[field]}
        value = {f: v for f, v in given.items() if v is not None or places[f] != "unless None"}
    return {f: write(types[f], item, f"{name}/{f}", writer) for f, item in value.items()}


def read(declared: object, stored: Any, name: str, reader: Reader) -> Any:
    """Undo ``write``."""
    if stored is None and NoneType in get_args(declared):
        return None
    kind = _required(declared)
    origin, inside = get_origin(kind), get_args(kind)
    if kind is float and type(stored) is str and stored in _NOT_FINITE:
        return _NOT_FINITE[stored]
    if kind in (float, int, str, bool):
        require(type(stored) is kind, f"{name} is not of type {kind.__name__}", "fields")
        return stored
    if origin is np.ndarray and _cells(kind) not in _NUMBERS:
        return reader.vector(stored, name)
    if origin is np.ndarray:
        _expect(stored, "array", name)
        return reader.take(name, whole=_cells(kind) is np.int64, n_dimensions=None)
    if kind in STEPS:
        _expect(stored, STEPS[kind], name)
        arrays = field_types(kind).items()
        return kind(*(reader.take(f"{name}/{f}", whole=_cells(of) is np.int64) for f, of in arrays))
    if inside[:1] == (curves.Curve,):
        return _read_curves(stored, name, reader)
    if origin in (list, tuple):
        require(type(stored) is list, f"{name} is not a list", "fields")
        return origin(read(inside[0], item, f"{name}/{i}", reader) for i, item in enumerate(stored))
    if kind is Calibrator:
        return reader.part(stored, name, fitted=True)
    # What has a default came after the first files.
    later = () if is_typeddict(kind) else [f.name for f in fields(kind) if f.default is not MISSING]
    types = field_types(kind)
    given = take(stored, name, dict.fromkeys([*types, *GONE], object), [*later, *GONE])
    given = {field: value for field, value in given.items() if field in types}
    return kind(**{f: read(types[f], value, f"{name}/{f}", reader) for f, value in given.items()})


def _expect(stored: object, word: str, name: str) -> None:
    """Refuse a header that announces another kind of value than the class has."""
    is_word = type(stored) is str and stored == word
    require(is_word, f"{name} is not declared as {word!r}", "fields")


# Curves of many classes: of each a vector of its single numbers, if it has any, and its arrays


def _paths(kind: type, before: str = "") -> Iterator[tuple[str, object]]:
    """Yield where the numbers and arrays of a curve are, such as logs.low, and their types."""
    for field, of in field_types(kind).items():
        if hasattr(of, "__dataclass_fields__"):
            yield from _paths(of, f"{before}{field}.")
        else:
            yield f"{before}{field}", of


@cache
def _getters(kind: type) -> tuple[list[attrgetter[float]], list[attrgetter[Array]]]:
    """Return what gets each number of a curve, and what gets each array."""
    paths = dict(_paths(kind)).items()
    return (
        [attrgetter(path) for path, of in paths if of is float],
        [attrgetter(path) for path, of in paths if of is not float],
    )


def _join(kind: Any, numbers: Iterator[float], arrays: Iterator[Array]) -> object:
    """Make a curve of its numbers and arrays, in order."""
    values: list[object] = []
    for of in field_types(kind).values():
        if of is float:
            values.append(next(numbers))
        else:  # an array, or a dataclass
            values.append(next(arrays) if get_origin(of) else _join(of, numbers, arrays))
    return kind(*values)


def _write_curves(values: tuple[object, ...], name: str, writer: Writer) -> str:
    _check_number_of(values)
    vectors: list[list[float] | Array] = []
    for i, curve in enumerate(values):
        kind: type = type(curve)
        require(kind in CURVES, f"{name}/{i} is a {kind.__name__}")
        numbers, arrays = _getters(kind)
        vectors += [[get(curve) for get in numbers]] if numbers else []
        vectors += [get(curve) for get in arrays]
    places = [CURVES.index(type(curve)) for curve in values]
    writer.arrays[f"{name}/forms"] = np.array(places, dtype=np.int64)
    writer.arrays[f"{name}/lengths"] = np.array([len(v) for v in vectors], dtype=np.int64)
    writer.arrays[f"{name}/numbers"] = np.concatenate(vectors).astype(np.float64)
    return "maps"


def _read_curves(stored: object, name: str, reader: Reader) -> tuple[object, ...]:
    _expect(stored, "maps", name)
    places, lengths = (reader.take(f"{name}/{n}", whole=True) for n in ("forms", "lengths"))
    numbers = reader.take(f"{name}/numbers")
    _check_number_of(places)
    known = places.min() >= 0 and places.max() < len(CURVES)
    require(known, f"{name} has a map of unknown form")
    ends = np.cumsum(lengths.astype(object))  # Python's integers do not overflow
    is_whole = lengths.min() >= 1 and ends[-1] == len(numbers)
    require(is_whole, f"{name}: vectors do not fill their numbers")
    kinds = [CURVES[place] for place in places]
    vectors = np.split(numbers, ends[:-1].astype(np.int64))
    sizes = [(len(one), len(other)) for one, other in map(_getters, kinds)]
    n_vectors = sum((n > 0) + n_arrays for n, n_arrays in sizes)
    require(len(vectors) == n_vectors, f"{name}: vectors are missing")
    in_order, result = iter(vectors), []
    for kind, (n, _) in zip(kinds, sizes, strict=True):
        own = next(in_order).tolist() if n else []
        require(len(own) == n, f"{name}: a map has {len(own)} numbers, not {n}")
        result.append(_join(kind, iter(own), in_order))
    return tuple(result)


def _check_number_of(values: Sized) -> None:
    most = limits.MAX_MAPS
    message = f"more than {most} binary maps; use a method with one map for all, such as 'na-fir'"
    require(len(values) <= most, message)


# Class labels, names of columns, and other vectors of one type


def pack_vector(vector: Labels) -> tuple[dict[str, Any], Array | None]:
    """Return the entry of the header, and the array if the values are numbers."""
    dtype = {"U": "str", "S": "bytes", "T": "object"}.get(vector.dtype.kind, vector.dtype.name)
    values = vector.tolist()
    kinds = {type(value) for value in values}
    kind: Any = kinds.pop() if len(kinds) == 1 else None
    require(
        dtype in VECTOR_DTYPES.get(kind, ()),
        f"a vector of dtype {vector.dtype} cannot be saved; use strings, bytes, booleans, whole "
        "numbers or floats of one type",
        "savable",
    )
    entry: dict[str, object] = {"type": kind.__name__, "dtype": dtype}
    array = None
    if kind in _STORED:
        try:
            array = vector.astype(_STORED[kind])
        except OverflowError:
            raise ModelFileError("labels do not fit 64 bits with a sign", "labels") from None
    else:
        entry["values"] = [value if kind is str else value.hex() for value in values]
    unpack_vector(entry, "a vector", array)  # refuses what could not be loaded
    return entry, array


def unpack_vector(entry: object, where: str, array: Array | None) -> Labels:
    """Build the vector that an entry of the header describes, if its dtype holds these values."""
    given = take(entry, where, {"type": str, "dtype": str, "values": list}, ["values"])
    kind: Any = _KINDS.get(given["type"])
    dtype, values = given["dtype"], given.get("values", [])
    known = dtype in VECTOR_DTYPES.get(kind, ())
    require(known, f"{where} is of unknown type, or dtype {dtype!r:.40}", "labels")
    if kind in _STORED:
        is_own = array is not None and array.ndim == 1 and array.dtype == _STORED[kind]
        no_array = f"{where} has no array of one dimension and its type"
        require(is_own and not values, no_array, "labels")
        values = array
    n_values, most = len(values), limits.MAX_CLASSES
    require(0 < n_values <= most, f"{where} has {n_values} entries, 1 to {most} allowed", "labels")
    if kind in _STORED:
        with np.errstate(all="ignore"):  # compared below
            vector: Labels = (values.astype(bool) if kind is bool else values).astype(dtype)
        is_same = np.array_equal(vector, values)  # NaN is not
    else:
        try:
            values = [bytes.fromhex(value) for value in values] if kind is bytes else values
            widest = max(len(v if kind is bytes else v.encode("utf-8")) for v in values)
        except (AttributeError, TypeError, ValueError):
            message = f"{where} has a label that is no text in Unicode, or no hexadecimal bytes"
            raise ModelFileError(message, "labels") from None
        # numpy makes every cell as wide as the widest: count before it does.
        most = limits.MAX_LABEL
        require(widest <= most, f"a label has {widest} bytes, {most} at most", "labels")
        require(
            dtype == "object" or 4 * n_values * widest <= limits.MAX_LABEL_TABLE,
            f"{n_values} labels of up to {widest} bytes need more than {limits.MAX_LABEL_TABLE} "
            "bytes; use an object array",
            "labels",
        )
        vector = np.array(values, dtype=_TEXTS.get(dtype, object))
        is_same = vector.tolist() == values  # numpy drops null characters at the end
    require(is_same, f"labels cannot be stored as {dtype}", "labels")
    return vector
