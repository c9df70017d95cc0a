"""The state of a monitor as text: JSON with arrays in base64, a checksum, and nothing that runs."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import numpy as np

from calibrant.errors import StatisticsError

FORMAT, VERSION = "calibrant.monitor", 1
MOST_BYTES = 1 << 24
_DTYPES = ("<f8", "<f4", "<i8")


def to_text(state: dict[str, Any]) -> str:
    """Return a state as one line of JSON, with its checksum."""
    text = json.dumps(state, default=_array, allow_nan=False, sort_keys=False)
    head = {"format": FORMAT, "version": VERSION, "sha256": _digest(text)}
    return f"{json.dumps(head)}\n{text}\n"


def from_text(text: str, source: str) -> dict[str, Any]:
    """Read a state back, or say why ``source`` holds none."""
    head, _, body = text.partition("\n")
    try:
        about = json.loads(head)
        known = about["format"] == FORMAT and about["version"] <= VERSION
    except (ValueError, TypeError, KeyError):
        raise StatisticsError(f"{source} is no state of a monitor; name another file") from None
    if not known:
        raise StatisticsError(
            f"{source} is of format {about['format']!r}, version {about['version']!r}; this "
            f"version of calibrant reads {FORMAT!r} up to version {VERSION}"
        )
    if about.get("sha256") != _digest(body.rstrip("\n")):
        raise StatisticsError(
            f"{source} does not match its checksum: it is damaged or was edited; restore it from a "
            "backup, or count all batches again into a new file"
        )
    return json.loads(body, object_hook=_read)  # type: ignore[no-any-return]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _array(value: Any) -> Any:
    """Return an array as JSON has it."""
    if isinstance(value, np.ndarray):
        stored = value.astype(f"<{value.dtype.kind}{value.dtype.itemsize}")
        data = base64.b64encode(np.ascontiguousarray(stored).tobytes()).decode()
        return {"dtype": stored.dtype.str, "shape": value.shape, "base64": data}
    raise TypeError(f"{type(value).__name__} has no place in the state of a monitor")


def _read(found: dict[str, Any]) -> Any:
    if found.keys() != {"dtype", "shape", "base64"}:
        return found
    if found["dtype"] not in _DTYPES:
        raise StatisticsError(f"an array of dtype {found['dtype']!r} has no place in a state")
    data = base64.b64decode(found["base64"], validate=True)
    return np.frombuffer(data, found["dtype"]).reshape(found["shape"]).copy()
