"""Vectors of one type, such as class labels: a tag in the header, and numbers as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._one_column import ONE_COLUMN
from calibrant.errors import StoredClassesError, UnsavableError
from calibrant.model_file import _format as limits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[Any]

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = {
    int: (*_INTEGERS, "object"),
    float: ("float16", "float32", "float64", "object"),
    bool: ("bool", "object"),
    str: ("str", "object"),
    bytes: ("bytes", "object"),
}
"""Which numpy dtypes a vector of each type may have."""

_KINDS = {kind.__name__: kind for kind in DTYPES}
_STORED = {int: np.int64, float: np.float64, bool: np.int64}
_TEXTS = {"str": "U", "bytes": "S"}


def pack(vector: Vector) -> tuple[dict[str, Any], Vector | None]:
    """Return the entry of the header, and the array if the values are numbers."""
    dtype = {"U": "str", "S": "bytes", "T": "object"}.get(vector.dtype.kind, vector.dtype.name)
    values = vector.tolist()
    types = set(map(type, values))
    kind = types.pop() if len(types) == 1 else None
    if kind is None or dtype not in DTYPES.get(kind, ()):
        raise UnsavableError(
            f"a vector of dtype {vector.dtype} cannot be saved; use strings, bytes, booleans, "
            "whole numbers or floats of one type"
        )
    entry: dict[str, Any] = {"type": kind.__name__, "dtype": dtype}
    if kind not in _STORED:
        _restore(kind, dtype, values)  # refuses now what could not be loaded
        return entry | {"values": [v if kind is str else v.hex() for v in values]}, None
    try:
        stored = vector.astype(_STORED[kind])
    except OverflowError:
        raise StoredClassesError("labels do not fit 64 bits with a sign") from None
    _restore(kind, dtype, stored)
    return entry, stored


def unpack(entry: Any, where: str, array: Vector | None, unknown: list[str] | None) -> Vector:
    """Build the vector that an entry of the header describes."""
    found = limits.take(entry, where, unknown, ["values"], type=str, dtype=str, values=list)
    kind, dtype, values = _KINDS.get(found["type"]), found["dtype"], found.get("values", [])
    if kind is None or dtype not in DTYPES[kind]:
        raise StoredClassesError(f"{where} is of unknown type, or dtype {dtype!r:.40}")
    if kind in _STORED:
        if array is None or array.ndim != 1 or array.dtype != _STORED[kind] or values:
            raise StoredClassesError(f"{where} has no array of one dimension and its type")
        return _restore(kind, dtype, array)
    if not values or any(type(value) is not str for value in values):
        raise StoredClassesError(f"{where} is empty or has a label that is not text")
    if kind is bytes:
        try:
            values = [bytes.fromhex(value) for value in values]
        except ValueError:
            raise StoredClassesError(f"{where} has bytes that are not hexadecimal") from None
    return _restore(kind, dtype, values)


def _restore(kind: type, dtype: str, values: Any) -> Vector:
    """Return the vector, if its dtype holds exactly these values."""
    if len(values) > limits.MAX_CLASSES:
        raise StoredClassesError(
            f"a vector has {len(values)} entries, {limits.MAX_CLASSES} at most"
        )
    if kind in _STORED:
        with np.errstate(all="ignore"):  # compared below
            vector: Vector = (values.astype(bool) if kind is bool else values).astype(dtype)
        is_same = np.array_equal(vector, values)  # NaN is not
    else:
        _check_width(dtype, values)
        vector = np.array(values, dtype=_TEXTS.get(dtype, object))
        is_same = vector.tolist() == values  # numpy drops null characters at the end
    if not is_same:
        raise StoredClassesError(f"labels cannot be stored as {dtype}")
    return vector


def _check_width(dtype: str, values: list[Any]) -> None:
    """Refuse long labels; numpy makes every cell as wide as the widest: count before it does."""
    try:
        is_plain = isinstance(values[0], bytes) or "".join(values).isascii()
        widest = max(map(len, values if is_plain else (v.encode("utf-8") for v in values)))
    except UnicodeEncodeError:
        raise StoredClassesError("a label is not valid Unicode") from None
    if widest > limits.MAX_LABEL:
        raise StoredClassesError(f"a label has {widest} bytes, {limits.MAX_LABEL} at most")
    if dtype != "object" and 4 * len(values) * widest > limits.MAX_LABEL_TABLE:
        raise StoredClassesError(
            f"{len(values)} labels of up to {widest} bytes need more than "
            f"{limits.MAX_LABEL_TABLE} bytes; use an object array"
        )


def check_labels(calibrator: Any) -> None:
    """Refuse class labels or names of columns that no fitted calibrator has."""
    classes, names = calibrator.classes_, getattr(calibrator, "feature_names_in_", None)
    if not isinstance(classes, np.ndarray) or classes.ndim != 1:
        raise StoredClassesError("the classes are not a vector")
    k = len(classes)
    if not 2 <= k <= limits.MAX_CLASSES:
        raise StoredClassesError(f"there are {k} classes; a model has 2 to {limits.MAX_CLASSES}")
    if classes.dtype.kind == "f" and not np.all(classes == np.floor(classes)):
        raise StoredClassesError("a class label is a fraction")
    if len(set(classes.tolist())) < k:
        raise StoredClassesError("a class label is repeated")
    if names is not None and not (
        isinstance(names, np.ndarray)
        and names.shape == (1 if calibrator.scores in ONE_COLUMN else k,)
        and names.dtype == object
        and all(type(name) is str for name in names)
    ):
        raise StoredClassesError("feature_names_in_ does not have a name for each column")
