"""The state of a monitor as text: JSON after a line with its checksum."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from calibrant.errors import StatisticsError

FORMAT, VERSION = "calibrant.monitor", 5


def pack(thing: Any) -> Any:
    """Return the attributes listed in KEPT, of parts and of dictionaries of parts alike."""
    if isinstance(thing, np.ndarray):
        return thing.tolist()
    if isinstance(thing, dict):
        return {name: pack(part) for name, part in thing.items()}
    if not hasattr(thing, "KEPT"):
        return thing
    return {name: pack(getattr(thing, name)) for name in thing.KEPT}


def unpack(thing: Any, state: dict[str, Any]) -> None:
    """Set the attributes listed in KEPT of an object, and of its parts, to those of a state."""
    for name in thing.KEPT:
        part, value = getattr(thing, name), state[name]
        if hasattr(part, "KEPT"):
            unpack(part, value)
        elif isinstance(part, dict):
            for key, each in part.items():
                unpack(each, value[key])
        else:
            is_array = isinstance(part, np.ndarray)
            # An empty list of rows has lost how many columns they have.
            shape = part.shape if is_array and not value else np.shape(value)
            setattr(thing, name, np.array(value, part.dtype).reshape(shape) if is_array else value)


def to_text(state: dict[str, Any]) -> str:
    """Return a state as JSON, after a line with its checksum."""
    text = json.dumps(state, separators=(",", ":"))
    head = {"format": FORMAT, "version": VERSION, "sha256": _digest(text)}
    return f"{json.dumps(head)}\n{text}\n"


def from_text(text: str) -> dict[str, Any]:
    """Read a state back; refuse text that ``to_text`` has not written."""
    head, _, body = text.partition("\n")
    header = json.loads(head)
    known = {"format": FORMAT, "version": VERSION}
    if not isinstance(header, dict) or not known.items() <= header.items():
        raise StatisticsError(f"its format is not {FORMAT}, version {VERSION}")
    if header.get("sha256") != _digest(body.rstrip("\n")):
        raise StatisticsError("its checksum does not match, so it is damaged or was edited")
    state: dict[str, Any] = json.loads(body)
    return state


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
