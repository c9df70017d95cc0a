"""The state of a monitor as text: JSON with arrays in base64, a checksum, and nothing that runs."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import numpy as np

from calibrant.errors import StatisticsError

FORMAT, VERSION = "calibrant.monitor", 4


def pack(thing: Any) -> Any:
    """Return the attributes listed in KEPT, of parts and of dictionaries of parts alike."""
    if isinstance(thing, dict):
        return {name: pack(part) for name, part in thing.items()}
    if not hasattr(thing, "KEPT"):
        return thing
    return {name: pack(getattr(thing, name)) for name in thing.KEPT}


def unpack(thing: Any, state: Any) -> None:
    """Set the attributes listed in KEPT; each must be of the type and shape that it has."""
    is_dict = isinstance(thing, dict)
    parts = thing if is_dict else {name: getattr(thing, name) for name in thing.KEPT}
    require(isinstance(state, dict), f"the state of {type(thing).__name__} is no object")
    require({*state} >= {*parts}, f"it has no {', '.join(sorted({*parts} - {*state}))}")
    for name, part in parts.items():
        is_nested = isinstance(part, dict) and all(hasattr(own, "KEPT") for own in part.values())
        if hasattr(part, "KEPT") or (is_nested and part):
            unpack(part, state[name])
        elif not is_dict:
            setattr(thing, name, _checked(name, state[name], part))


def _checked(name: str, value: Any, like: Any) -> Any:
    """Return a value of the same type as another one, and an array of the same shape."""
    if isinstance(like, np.ndarray):
        is_same = isinstance(value, np.ndarray) and value.dtype == like.dtype
        require(is_same and value.ndim == like.ndim, f"{name} is another kind of array")
        has_shape = 0 in like.shape or value.shape == like.shape
        require(has_shape, f"{name} has shape {value.shape}, not {like.shape}")
        require(np.isfinite(value).all(), f"{name} has a number that is not finite")
        return value
    if like is None:  # a number of a row, or a name, that there may be
        require(value is None or type(value) in (int, str), f"{name} is {value!r:.40}")
        return value
    allowed = (int, float) if type(like) is float else (type(like),)
    require(type(value) in allowed, f"{name} is {value!r:.40}, not of its type")
    if isinstance(value, list | dict):
        numbers = value if isinstance(value, list) else value.values()
        require({*map(type, numbers)} <= {int}, f"{name} has more than whole numbers")
    return float(value) if type(like) is float else value


def require(is_right: Any, fault: str) -> None:
    """Refuse a state with a fault."""
    if not is_right:
        raise StatisticsError(fault)


def to_text(state: dict[str, Any]) -> str:
    """Return a state as JSON, after a line with its checksum."""
    text = json.dumps(state, default=_array, allow_nan=False, separators=(",", ":"))
    head = {"format": FORMAT, "version": VERSION, "sha256": _digest(text)}
    return f"{json.dumps(head)}\n{text}\n"


def from_text(text: str) -> dict[str, Any]:
    """Read a state back, or say why it is none."""
    head, _, body = text.partition("\n")
    header = json.loads(head)
    require(isinstance(header, dict), "its first line is no object")
    is_known = header.get("format") == FORMAT and header.get("version") == VERSION
    require(is_known, f"its format is not {FORMAT}, version {VERSION}")
    is_whole = header.get("sha256") == _digest(body.rstrip("\n"))
    require(is_whole, "its checksum does not match, so it is damaged or was edited")
    state = json.loads(body, object_hook=_read, parse_constant=_refuse_constant)
    require(isinstance(state, dict), "it is no object")
    return state  # type: ignore[no-any-return]


def _refuse_constant(name: str) -> None:
    raise StatisticsError(f"it has the number {name}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _array(value: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return an array as an object of JSON."""
    stored = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
    data = base64.b64encode(stored.tobytes()).decode()
    return {"dtype": stored.dtype.str, "shape": value.shape, "base64": data}


def _read(value: dict[str, Any]) -> Any:
    """Return an object of JSON, or the array that it is."""
    if value.keys() != {"dtype", "shape", "base64"}:
        return value
    require(value["dtype"] in ("<f8", "<f4", "<i8"), f"it has an array of {value['dtype']!r:.40}")
    data = base64.b64decode(value["base64"], validate=True)
    return np.frombuffer(data, value["dtype"]).reshape(value["shape"]).copy()
