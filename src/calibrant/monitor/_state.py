"""The state of a monitor as text: JSON with arrays in base64, a checksum, and nothing that runs."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import numpy as np

from calibrant.errors import StatisticsError

FORMAT, VERSION = "calibrant.monitor", 1


def pack(thing: Any) -> dict[str, Any]:
    """Return what an object says that it keeps."""
    return {name: getattr(thing, name) for name in thing.KEPT}


def unpack(thing: Any, state: dict[str, Any]) -> None:
    """Give an object back what it kept; arrays that were there have the same shape."""
    for name in thing.KEPT:
        shape = np.shape(getattr(thing, name))
        if isinstance(state[name], np.ndarray) and 0 not in shape and state[name].shape != shape:
            raise StatisticsError(f"{name} has shape {state[name].shape}, not {shape}")
        setattr(thing, name, state[name])


def to_text(state: dict[str, Any]) -> str:
    """Return a state as JSON, after a line with its checksum."""
    text = json.dumps(state, default=_array, allow_nan=False)
    head = {"format": FORMAT, "version": VERSION, "sha256": _digest(text)}
    return f"{json.dumps(head)}\n{text}\n"


def from_text(text: str) -> dict[str, Any]:
    """Read a state back, or say why it is none."""
    head, _, body = text.partition("\n")
    about = json.loads(head)
    if about.get("format") != FORMAT or about.get("version") != VERSION:
        raise StatisticsError(f"its format is not {FORMAT}, version {VERSION}")
    if about.get("sha256") != _digest(body.rstrip("\n")):
        raise StatisticsError("its checksum does not match, so it is damaged or was edited")
    return json.loads(body, object_hook=_read)  # type: ignore[no-any-return]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _array(value: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return an array as JSON has it."""
    stored = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
    data = base64.b64encode(stored.tobytes()).decode()
    return {"dtype": stored.dtype.str, "shape": value.shape, "base64": data}


def _read(found: dict[str, Any]) -> Any:
    if found.keys() != {"dtype", "shape", "base64"}:
        return found
    if found["dtype"] not in ("<f8", "<f4", "<i8"):
        raise StatisticsError(f"it has an array of dtype {found['dtype']!r}")
    data = base64.b64decode(found["base64"], validate=True)
    return np.frombuffer(data, found["dtype"]).reshape(found["shape"]).copy()
