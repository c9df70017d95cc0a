"""Labels and other lists of one type: tagged in the header, numbers as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.errors import StoredClassesError, UnsavableError
from calibrant.model_file import limits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.model_file.strict_json import Fields

    Vector = NDArray[Any]

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = {
    "int": (*_INTEGERS, "object"),
    "float": ("float16", "float32", "float64", "object"),
    "bool": ("bool", "object"),
    "str": ("str", "StringDType", "object"),
    "bytes": ("bytes", "object"),
}
"""Which numpy dtypes a vector of each type may have."""

_PYTHON = {int: "int", float: "float", bool: "bool", str: "str", bytes: "bytes"}
_STORED = {"int": np.int64, "float": np.float64, "bool": np.int64}
_TYPES = {"i": "int", "u": "int", "f": "float", "b": "bool", "U": "str", "T": "str", "S": "bytes"}
_NAMES = {"U": "str", "S": "bytes", "T": "StringDType", "O": "object"}


def tag(vector: Vector) -> tuple[str, str]:
    """Type and dtype of a vector; every element of an object array is of one Python type."""
    dtype = _NAMES.get(vector.dtype.kind, vector.dtype.name)
    kind = _TYPES.get(vector.dtype.kind)
    if dtype == "object":
        types = {type(value) for value in vector.tolist()}
        kind = _PYTHON.get(types.pop()) if len(types) == 1 else None
    if vector.size == 0 or kind is None or dtype not in DTYPES[kind]:
        raise UnsavableError(
            f"a vector of dtype {vector.dtype} cannot be saved; use strings, bytes, booleans, "
            "whole numbers or floats of one type"
        )
    return kind, dtype


def check_total(n_labels: int) -> None:
    """Refuse more numbers in vectors than the labels and names of a million classes need."""
    if n_labels > limits.MAX_LABELS:
        raise StoredClassesError(f"the vectors have more than {limits.MAX_LABELS} entries")


def write(vector: Vector) -> tuple[dict[str, Any], Vector | None]:
    """Return the entry of the header, and the array if the values are numbers."""
    kind, dtype = tag(vector)
    entry: dict[str, Any] = {"type": kind, "dtype": dtype}
    if kind in _STORED:
        try:
            stored = vector.astype(_STORED[kind])
        except OverflowError:
            raise StoredClassesError("labels do not fit 64 bits with a sign") from None
        _from_numbers(kind, dtype, stored, vector)  # refuses now what could not be loaded
        return entry, stored
    values = vector.tolist()
    _from_texts(dtype, values)
    entry["values"] = values if kind == "str" else [value.hex() for value in values]
    return entry, None


def read(entry: Fields, array: Vector | None) -> Vector:
    """Build the vector that an entry of the header describes."""
    kind, dtype = entry.take("type", str), entry.take("dtype", str)
    if dtype not in DTYPES.get(kind, ()):
        raise StoredClassesError(f"{entry.where} is of type {kind!r:.40} and dtype {dtype!r:.40}")
    if kind in _STORED:
        if array is None or array.ndim != 1 or array.dtype != _STORED[kind]:
            raise StoredClassesError(f"{entry.where} has no array of one dimension and its type")
        return _from_numbers(kind, dtype, array)
    values = entry.take("values", list)
    if not values or any(type(value) is not str for value in values):
        raise StoredClassesError(f"{entry.where} is empty or has a label that is no text")
    if kind == "bytes":
        try:
            values = [bytes.fromhex(value) for value in values]
        except ValueError:
            raise StoredClassesError(f"{entry.where} has bytes that are not hexadecimal") from None
    return _from_texts(dtype, values)


def _from_numbers(kind: str, dtype: str, stored: Vector, expected: Vector | None = None) -> Vector:
    """Return the vector, if its dtype holds exactly these numbers."""
    if kind == "bool":
        if not np.isin(stored, (0, 1)).all():
            raise StoredClassesError("there are booleans that are neither 0 nor 1")
        return stored.astype(bool).astype(dtype)
    with np.errstate(all="ignore"):  # compared below
        vector = stored.astype(dtype)
    if not np.array_equal(vector, stored if expected is None else expected):
        raise StoredClassesError(f"labels do not survive as {dtype}")  # NaN does not either
    if kind == "int" and dtype.startswith("u") and stored.min() < 0:
        raise StoredClassesError(f"labels do not survive as {dtype}")
    return vector


def _from_texts(dtype: str, values: list[Any]) -> Vector:
    """Return the vector, if it holds exactly these labels."""
    widest = _widest(values)
    if widest > limits.MAX_LABEL:
        raise StoredClassesError(f"a label has {widest} bytes, {limits.MAX_LABEL} at most")
    # numpy makes every cell as wide as the widest: count before it does.
    if dtype != "object" and 4 * len(values) * widest > limits.MAX_LABEL_TABLE:
        raise StoredClassesError(
            f"{len(values)} labels of up to {widest} bytes need more than "
            f"{limits.MAX_LABEL_TABLE} bytes; use an object array"
        )
    if dtype == "StringDType":
        if not hasattr(np.dtypes, "StringDType"):
            raise StoredClassesError("labels of numpy's StringDType need numpy 2")
        vector: Vector = np.array(values, dtype=np.dtypes.StringDType())
    else:
        vector = np.array(values, dtype={"str": "U", "bytes": "S"}.get(dtype, dtype))
    if vector.tolist() != values:  # numpy drops null characters at the end
        raise StoredClassesError(f"labels do not survive as {dtype}")
    return vector


def _widest(values: list[Any]) -> int:
    """Bytes of the longest label."""
    try:
        whole = values[0][:0].join(values)
        if isinstance(whole, bytes) or len(whole.encode("utf-8")) == len(whole):
            return max(map(len, values))
        return max(len(value.encode("utf-8")) for value in values)
    except UnicodeEncodeError:
        raise StoredClassesError("a label is not valid Unicode") from None


def check_classes(classes: Any) -> None:
    """Refuse class labels that no fitted calibrator has."""
    if not isinstance(classes, np.ndarray) or classes.ndim != 1:
        raise StoredClassesError("the classes are not a vector")
    if not 2 <= len(classes) <= limits.MAX_CLASSES:
        raise StoredClassesError(
            f"there are {len(classes)} classes; a model has 2 to {limits.MAX_CLASSES}"
        )
    if classes.dtype.kind == "f" and not np.all(classes == np.floor(classes)):
        raise StoredClassesError("a class label is a fraction")
    if classes.dtype.kind in "iufb":
        ordered = np.sort(classes)
        repeated = bool((ordered[1:] == ordered[:-1]).any())
    else:
        repeated = len(set(classes.tolist())) < len(classes)
    if repeated:
        raise StoredClassesError("a class label is repeated")
