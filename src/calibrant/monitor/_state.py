"""The state of a monitor as text: JSON with arrays in base64, a checksum, and nothing that runs."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import numpy as np

from calibrant.errors import StatisticsError

FORMAT, VERSION = "calibrant.monitor", 2


LARGEST = 1e300
"""Of numbers of a state; those of logarithms are below LARGEST_LOG."""
LARGEST_LOG = 1e12

Bounds = dict[str, tuple[float, float] | None]
"""Names of what an object keeps; the least and the largest number, if they are numbers."""


def pack(thing: Any) -> dict[str, Any]:
    """Return what an object says that it keeps."""
    return {name: getattr(thing, name) for name in thing.KEPT}


def unpack(thing: Any, state: Any) -> None:
    """Give an object back what it kept, checked: types and shapes as they are, numbers in bounds.

    What has no bounds, and what must hold of several fields, its ``check_state`` knows.
    """
    require(isinstance(state, dict), f"the state of {type(thing).__name__} is no object")
    require({*state} >= {*thing.KEPT}, f"it has no {', '.join(sorted({*thing.KEPT} - {*state}))}")
    for name, bounds in thing.KEPT.items():
        like, value = getattr(thing, name), state[name]
        if isinstance(like, np.ndarray):
            is_same = isinstance(value, np.ndarray) and value.dtype == like.dtype
            require(is_same and value.ndim == like.ndim, f"{name} is another kind of array")
            is_shape = 0 in like.shape or value.shape == like.shape
            require(is_shape, f"{name} has shape {value.shape}, not {like.shape}")
        elif bounds is not None:
            allowed = (int,) if type(like) is int else (int, float)
            require(type(value) in allowed, f"{name} is {value!r:.40}, not a number of its kind")
        if bounds is not None:
            inside = np.greater_equal(value, bounds[0]) & np.less_equal(value, bounds[1])
            require(bool(np.all(inside)), f"{name} is not within {bounds[0]:g} and {bounds[1]:g}")
            value = float(value) if type(like) is float else value
        setattr(thing, name, value)
    if hasattr(thing, "check_state"):
        thing.check_state()


def require(is_right: Any, fault: str) -> None:
    """Refuse a state in which something cannot be."""
    if not is_right:
        raise StatisticsError(fault)


def to_text(state: dict[str, Any]) -> str:
    """Return a state as JSON, after a line with its checksum."""
    text = json.dumps(state, default=_array, allow_nan=False)
    head = {"format": FORMAT, "version": VERSION, "sha256": _digest(text)}
    return f"{json.dumps(head)}\n{text}\n"


def from_text(text: str) -> dict[str, Any]:
    """Read a state back, or say why it is none."""
    head, _, body = text.partition("\n")
    about = json.loads(head)
    require(isinstance(about, dict), "its first line is no object")
    if about.get("format") != FORMAT or about.get("version") != VERSION:
        raise StatisticsError(f"its format is not {FORMAT}, version {VERSION}")
    if about.get("sha256") != _digest(body.rstrip("\n")):
        raise StatisticsError("its checksum does not match, so it is damaged or was edited")
    state = json.loads(body, object_hook=_read)
    require(isinstance(state, dict), "it is no object")
    return state  # type: ignore[no-any-return]


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
    require(found["dtype"] in ("<f8", "<f4", "<i8"), f"it has an array of {found['dtype']!r:.40}")
    is_shape = isinstance(found["shape"], list) and all(type(n) is int for n in found["shape"])
    require(is_shape and min(found["shape"], default=0) >= 0, "an array has no shape")
    data = base64.b64decode(found["base64"], validate=True)
    return np.frombuffer(data, found["dtype"]).reshape(found["shape"]).copy()
