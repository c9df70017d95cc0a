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
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import numpy as np

from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.composition import Composed
from calibrant._calibrators.parameters import fitted_types
from calibrant._gate import two_column_kind
from calibrant._maps.curves import (
    AveragedHistogram,
    BetaMap,
    BoundedLogs,
    Curve,
    LogOddsCurve,
    PiecewiseLinear,
    Sigmoid,
)
from calibrant._maps.steps import Histogram, RankedStepFunction, StepFunction
from calibrant._types import Floats, Labels
from calibrant.errors import ModelFileError, ParameterError
from calibrant.model_file import _format as limits
from calibrant.model_file._format import require, take

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from calibrant.model_file._parts import Reader, Writer


class Form(NamedTuple):
    """How a kind of curve is stored: as a few vectors."""

    kind: Any
    n_vectors: int
    split: Callable[[Any], list[Any]]
    join: Callable[..., Any]


def _split_steps(curve: StepFunction | Histogram) -> list[Any]:
    return [curve.thresholds, curve.values, curve.sizes]


def _bounds(curve: Any) -> list[float]:
    return [curve.logs.low, curve.logs.rest]


def _join_terms(kind: Any) -> Callable[[Floats], Any]:
    """Return what makes a curve of its numbers, the bounds of its logarithms last."""

    def join(numbers: Floats) -> Any:
        *terms, low, rest = numbers.tolist()
        return kind(*terms, BoundedLogs(low, rest))

    return join


FORMS = (
    Form(PiecewiseLinear, 2, lambda c: [c.x, c.y], PiecewiseLinear),
    Form(StepFunction, 3, _split_steps, StepFunction),
    Form(Histogram, 3, _split_steps, Histogram),
    Form(Sigmoid, 1, lambda c: [[c.slope, c.intercept, *_bounds(c)]], _join_terms(Sigmoid)),
    Form(BetaMap, 1, lambda c: [[c.a, c.b, c.c, *_bounds(c)]], _join_terms(BetaMap)),
    Form(
        AveragedHistogram,
        5,
        lambda c: [*_split_steps(c.histogram), c.n_bins, c.log_scores],
        lambda x, y, sizes, n_bins, logs: AveragedHistogram(Histogram(x, y, sizes), n_bins, logs),
    ),
    Form(
        LogOddsCurve,
        3,
        lambda c: [_bounds(c), c.x, c.y],
        lambda bounds, x, y: LogOddsCurve(x, y, BoundedLogs(*bounds.tolist())),
    ),
)
"""What stands in a file is the place in this table; places are never reused."""

GIVEN = {"kind": "scores"} | {name: name for name in ("bound", "per_class", "normalize_output")}
"""Fields of maps that a file has as parameters: the parameter of each."""

STEPS = {StepFunction: "step function", RankedStepFunction: "ranked step function"}
"""What announces the arrays of a step function."""

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
_STORED = {int: np.int64, float: np.float64, bool: np.int64}
_TEXTS = {"str": "U", "bytes": "S"}


def _expanded(kind: object) -> Any:
    """Return what an alias stands for, as ``NDArray`` does from numpy 2.5 on."""
    value = getattr(get_origin(kind), "__value__", None)
    return kind if value is None else value[get_args(kind)]


_LABELS = _expanded(Labels)


# What belongs to a fit


@cache
def field_types(cls: Any) -> dict[str, Any]:
    """Return the type of each field of a dataclass that a file holds, or of a dict."""
    hints = get_type_hints(cls)
    if is_typeddict(cls):
        return hints
    held = [field for field in fields(cls) if field.init and field.metadata.get("stored", True)]
    return {field.name: hints[field.name] for field in held}


@cache
def stored_types(cls: Any) -> dict[str, Any]:
    """Return the type of all that is stored of a fit, by name.

    A field of the map has its name with an underscore; a composition's map is made of its parts.
    """
    types = fitted_types(cls)
    map_type = types.pop("map_")
    if issubclass(cls, Composed):
        return types
    return {f"{f}_": of for f, of in field_types(map_type).items() if f not in GIVEN} | types


@cache
def optional_fields(cls: object) -> frozenset[str]:
    """Return the names of what may be None, and then has no place."""
    return frozenset(n for n, of in stored_types(cls).items() if NoneType in get_args(of))


def stored_values(calibrator: Calibrator) -> dict[str, Any]:
    """Return all that is stored of a fit; refuse parameters that are no longer those of it."""
    cls: Any = type(calibrator)
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


def set_fit(calibrator: Calibrator, values: dict[str, Any]) -> None:
    """Undo ``stored_values``: make the map, whose constructor checks it, and set all."""
    cls: Any = type(calibrator)
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


def _given(calibrator: Calibrator, map_fields: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields of a map that are parameters: rows of one number became two columns."""
    names = [field for field in map_fields if hasattr(calibrator, GIVEN.get(field, ""))]
    values = {field: getattr(calibrator, GIVEN[field]) for field in names}
    if "kind" in values:
        values["kind"] = two_column_kind(values["kind"])
    return values


def parts_in(value: object) -> Iterator[Calibrator]:
    """Calibrators in a value, or in a dictionary or list of values."""
    if isinstance(value, Calibrator):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from parts_in(item)


# Values by their declared types


def write(kind: Any, value: Any, name: str, writer: Writer) -> Any:
    """Return what stands in the header for a value of type ``kind``; arrays go to ``writer``."""
    kind = _expanded(kind)
    origin, inside = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return None if value is None else write(_other_than_none(kind), value, name, writer)
    of: Any = origin or kind
    of = np.integer | int if kind is int else dict if is_typeddict(kind) else of
    require(isinstance(value, of), f"{name} is not a {getattr(of, '__name__', of)}")
    if kind is float:
        return float(value) if math.isfinite(value) else str(float(value))
    if kind in (int, str, bool):
        return kind(value)
    if kind == _LABELS:
        return writer.vector(value)
    if origin is np.ndarray:
        right = value.dtype.kind in "fi" and value.itemsize == 8 and value.size > 0
        require(right, f"{name} is not an array of 64-bit numbers")
        writer.arrays[name] = value
        return "array"
    if kind in STEPS:
        for field in field_types(kind):
            writer.arrays[f"{name}/{field}"] = getattr(value, field)
        return STEPS[kind]
    if inside[:1] == (Curve,):
        return _write_curves(value, name, writer)
    if origin in (list, tuple):
        return [write(inside[0], item, f"{name}/{i}", writer) for i, item in enumerate(value)]
    if isinstance(value, Calibrator):
        return writer.part(value, fitted=True)
    if is_typeddict(kind):
        require(value.keys() == field_types(kind).keys(), f"{name} has other keys")
        values = value
    else:
        values = {field: getattr(value, field) for field in field_types(kind)}
    return {
        field: write(of, values[field], f"{name}/{field}", writer)
        for field, of in field_types(kind).items()
        if _is_written(kind, field, values[field])
    }


def read(kind: Any, stored: Any, name: str, reader: Reader) -> Any:
    """Undo ``write``."""
    kind = _expanded(kind)
    origin, inside = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return None if stored is None else read(_other_than_none(kind), stored, name, reader)
    if kind is float and type(stored) is str and stored in _NOT_FINITE:
        return _NOT_FINITE[stored]
    if kind in (float, int, str, bool):
        require(type(stored) is kind, f"{name} is not of type {kind.__name__}", "fields")
        return stored
    if kind == _LABELS:
        return reader.vector(stored, name)
    if origin is np.ndarray:
        _expect(stored, "array", name)
        return reader.take(name, whole=_is_whole(kind), n_dimensions=None)
    if kind in STEPS:
        _expect(stored, STEPS[kind], name)
        arrays = field_types(kind).items()
        return kind(*(reader.take(f"{name}/{f}", whole=_is_whole(of)) for f, of in arrays))
    if inside[:1] == (Curve,):
        return _read_curves(stored, name, reader)
    if origin in (list, tuple):
        require(type(stored) is list, f"{name} is not a list", "fields")
        return origin(read(inside[0], item, f"{name}/{i}", reader) for i, item in enumerate(stored))
    if kind is Calibrator:
        return reader.part(stored, name, fitted=True)
    # What has a default came after the first files.
    later = () if is_typeddict(kind) else [f.name for f in fields(kind) if f.default is not MISSING]
    types = field_types(kind)
    given = take(stored, name, dict.fromkeys(types, object), later)
    values = {f: read(types[f], value, f"{name}/{f}", reader) for f, value in given.items()}
    return kind(**values)


def _is_written(kind: Any, field: str, value: Any) -> bool:
    """Whether a field has a place in a file that is written now; older ones may have it."""
    if is_typeddict(kind):
        return True
    written = kind.__dataclass_fields__[field].metadata.get("written", True)
    return value is not None if written == "unless None" else bool(written)


def _other_than_none(kind: object) -> Any:
    return next(of for of in get_args(kind) if of is not NoneType)


def _is_whole(kind: object) -> bool:
    return get_args(get_args(_expanded(kind))[1])[0] is np.int64


def _expect(stored: object, word: str, name: str) -> None:
    """Refuse a header that announces another kind of value than the class has."""
    is_word = type(stored) is str and stored == word
    require(is_word, f"{name} is not declared as {word!r}", "fields")


# Curves of many classes


def _check_number_of(curves: Any) -> None:
    most = limits.MAX_MAPS
    message = f"more than {most} binary maps; use a method with one map for all, such as 'na-fir'"
    require(len(curves) <= most, message)


def _write_curves(curves: tuple[object, ...], name: str, writer: Writer) -> str:
    _check_number_of(curves)
    kinds = [form.kind for form in FORMS]
    for i, curve in enumerate(curves):
        require(type(curve) in kinds, f"{name}/{i} is a {type(curve).__name__}")
    places = [kinds.index(type(curve)) for curve in curves]
    vectors = [v for i, c in zip(places, curves, strict=True) for v in FORMS[i].split(c)]
    writer.arrays[f"{name}/forms"] = np.array(places, dtype=np.int64)
    writer.arrays[f"{name}/lengths"] = np.array([len(v) for v in vectors], dtype=np.int64)
    writer.arrays[f"{name}/numbers"] = np.concatenate(vectors).astype(np.float64)
    return "maps"


def _read_curves(stored: object, name: str, reader: Reader) -> tuple[Any, ...]:
    _expect(stored, "maps", name)
    places, lengths = (reader.take(f"{name}/{n}", whole=True) for n in ("forms", "lengths"))
    numbers = reader.take(f"{name}/numbers")
    _check_number_of(places)
    known = places.min() >= 0 and places.max() < len(FORMS)
    require(known, f"{name} has a map of unknown form")
    ends = np.cumsum(lengths.astype(object))  # Python's integers do not overflow
    is_whole = lengths.min() >= 1 and ends[-1] == len(numbers)
    require(is_whole, f"{name}: vectors do not fill their numbers")
    vectors = np.split(numbers, ends[:-1].astype(np.int64))
    forms = [FORMS[place] for place in places]
    n_vectors = sum(form.n_vectors for form in forms)
    require(len(vectors) == n_vectors, f"{name}: vectors are missing")
    in_order = iter(vectors)
    try:
        return tuple(form.join(*(next(in_order) for _ in range(form.n_vectors))) for form in forms)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise ParameterError(str(error)) from None


# Class labels, names of columns, and other vectors of one type


def pack_vector(vector: Labels) -> tuple[dict[str, Any], Labels | None]:
    """Return the entry of the header, and the array if the values are numbers."""
    dtype = {"U": "str", "S": "bytes", "T": "object"}.get(vector.dtype.kind, vector.dtype.name)
    values = vector.tolist()
    kinds = set(map(type, values))
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


def unpack_vector(entry: object, where: str, array: Labels | None) -> Labels:
    """Build the vector that an entry of the header describes, if its dtype holds these values."""
    given = take(entry, where, {"type": str, "dtype": str, "values": list}, ["values"])
    kind, dtype, values = _KINDS.get(given["type"]), given["dtype"], given.get("values", [])
    if kind is None or dtype not in VECTOR_DTYPES[kind]:
        raise ModelFileError(f"{where} is of unknown type, or dtype {dtype!r:.40}", "labels")
    if kind in _STORED:
        if array is None or array.ndim != 1 or array.dtype != _STORED[kind] or values:
            raise ModelFileError(f"{where} has no array of one dimension and its type", "labels")
        values = array
    n_values, most = len(values), limits.MAX_CLASSES
    require(0 < n_values <= most, f"{where} has {n_values} entries, 1 to {most} allowed", "labels")
    if kind in _STORED:
        with np.errstate(all="ignore"):  # compared below
            vector: Labels = (values.astype(bool) if kind is bool else values).astype(dtype)
        is_same = np.array_equal(vector, values)  # NaN is not
    else:
        are_texts = all(type(value) is str for value in values)
        require(are_texts, f"{where} has a label that is not text", "labels")
        try:
            values = [bytes.fromhex(value) for value in values] if kind is bytes else values
        except ValueError:
            raise ModelFileError(f"{where} has bytes that are not hexadecimal", "labels") from None
        _check_width(dtype, values)
        vector = np.array(values, dtype=_TEXTS.get(dtype, object))
        is_same = vector.tolist() == values  # numpy drops null characters at the end
    require(is_same, f"labels cannot be stored as {dtype}", "labels")
    return vector


def _check_width(dtype: str, values: list[Any]) -> None:
    """Refuse long labels; numpy makes every cell as wide as the widest: count before it does."""
    try:
        widest = max(len(v) if isinstance(v, bytes) else len(v.encode("utf-8")) for v in values)
    except UnicodeEncodeError:
        raise ModelFileError("a label is not valid Unicode", "labels") from None
    most = limits.MAX_LABEL
    require(widest <= most, f"a label has {widest} bytes, {most} at most", "labels")
    require(
        dtype == "object" or 4 * len(values) * widest <= limits.MAX_LABEL_TABLE,
        f"{len(values)} labels of up to {widest} bytes need more than {limits.MAX_LABEL_TABLE} "
        "bytes; use an object array",
        "labels",
    )
