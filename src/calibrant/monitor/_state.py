"""The state of a monitor as text: JSON with arrays in base64, and a checksum."""

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


def unpack(thing: Any, state: dict[str, Any]) -> None:
    """Set the attributes listed in KEPT of an object, and of its parts, to those of a state."""
    is_dict = isinstance(thing, dict)
    for name in thing if is_dict else thing.KEPT:
        part = thing[name] if is_dict else getattr(thing, name)
        parts = part.values() if isinstance(part, dict) else [part]
        if parts and all(hasattr(each, "KEPT") for each in parts):
            unpack(part, state[name])
        else:
            setattr(thing, name, state[name])


def to_text(state: dict[str, Any]) -> str:
    """Return a state as JSON, after a line with its checksum."""
    text = json.dumps(state, default=_array, allow_nan=False, separators=(",", ":"))
    head = {"format": FORMAT, "version": VERSION, "sha256": _digest(text)}
    return f"{json.dumps(head)}\n{text}\n"


def from_text(text: str) -> dict[str, Any]:
    """Read a state back; refuse text that ``to_text`` has not written."""
    head, _, body = text.partition("\n")
    header = json.loads(head)
    if not isinstance(header, dict) or (header.get("format"), header.get("version")) != (
        FORMAT,
        VERSION,
    ):
        raise StatisticsError(f"its format is not {FORMAT}, version {VERSION}")
    if header.get("sha256") != _digest(body.rstrip("\n")):
        raise StatisticsError("its checksum does not match, so it is damaged or was edited")
    state: dict[str, Any] = json.loads(body, object_hook=_read)
    return state


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
    data = base64.b64decode(value["base64"], validate=True)
    return np.frombuffer(data, value["dtype"]).reshape(value["shape"]).copy()
