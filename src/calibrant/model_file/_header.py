"""The header of a model file: its limits, strict JSON, and the fields of objects."""

from __future__ import annotations

import json
import math
import re
from itertools import accumulate
from typing import Any, get_args

from calibrant.errors import FittedValueError, HeaderFieldError, HeaderSyntaxError

# Limits, which docs/model-files.md explains.
MAX_FILE = 2**30  # bytes, unless ``max_bytes`` says otherwise
MAX_HEADER = 16 * 2**20  # bytes
MAX_TEXTS = 2_100_000  # strings in the header: labels and column names of a million classes
MAX_BARE = 5_000_000  # characters of the header outside of strings
MAX_BRACKETS = 200_000  # of the header: containers cost most when it is read
MAX_DEPTH = 8  # containers inside containers
MAX_ARRAYS = 64
MAX_CLASSES = 1_000_000  # and entries of any other vector
MAX_LABEL = 1024  # bytes of a text, in UTF-8
MAX_LABEL_TABLE = 64 * 2**20  # bytes of an array in which every text is as wide as the widest
MAX_NESTING = 8  # calibrators inside calibrators
MAX_MAPS = 25_000  # of binary problems: each is an object, and a call at prediction
MAX_CELLS = 2**24  # of one row in all calibrators, each as often as it is used

INT64 = range(-(2**63), 2**63)

# Possessive, so that neither time nor memory grows with what a hostile string tries.
_TEXT = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def require(condition: Any, message: str) -> None:
    """Refuse a fitted value unless ``condition`` holds."""
    if not condition:
        raise FittedValueError(message)


def encode(value: Any) -> bytes:
    """Return compact ASCII JSON with sorted keys: equal values give equal bytes."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    _check_structure(text)
    _check_unicode(value, text)
    return text.encode("ascii")


def decode(data: bytes) -> dict[str, Any]:
    """Read a JSON object; sizes are checked before anything is built."""
    try:
        text = data.decode("utf-8")
        _check_structure(text)
        numbers: Any = dict.fromkeys(("parse_constant", "parse_float", "parse_int"), _number)
        value = json.loads(text, object_pairs_hook=_unique, **numbers)
    except HeaderSyntaxError:
        raise
    except ValueError as error:  # of decode, of json, and of int, which reads no 5,000 digits
        raise HeaderSyntaxError(f"the header is not JSON in UTF-8: {error!s:.80}") from None
    if not isinstance(value, dict):
        raise HeaderSyntaxError("the header is not a JSON object")
    _check_unicode(value, text)
    return value


def _check_unicode(value: Any, text: str) -> None:
    """Refuse halves of surrogate pairs, which only an escape can smuggle in."""
    if "\\u" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise HeaderSyntaxError("the header has text that is not Unicode") from None


def _check_structure(text: str) -> None:
    """Bound depth and size, reading only what is not inside strings."""
    bare, n_texts = _TEXT.subn("", text)
    brackets = bare.encode("utf-8").translate(None, _NO_BRACKETS)
    if n_texts > MAX_TEXTS or len(bare) > MAX_BARE or len(brackets) > MAX_BRACKETS:
        raise HeaderSyntaxError(
            f"the header has more than {MAX_TEXTS} strings, {MAX_BARE} characters outside of "
            f"strings or {MAX_BRACKETS} brackets"
        )
    if max(accumulate(1 if b in b"[{" else -1 for b in brackets), default=0) > MAX_DEPTH:
        raise HeaderSyntaxError(f"the header is nested more than {MAX_DEPTH} deep")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise HeaderSyntaxError("the header has a key twice")
    return found


def _number(text: str) -> float:
    value: float = int(text) if text.lstrip("-").isdecimal() else float(text)
    if not (value in INT64 if isinstance(value, int) else math.isfinite(value)):
        raise HeaderSyntaxError(f"the header has {text:.40}, which is no int64 and no float64")
    return value


def take(
    stored: Any, where: str, unknown: list[str] | None, optional: Any = (), **kinds: Any
) -> dict[str, Any]:
    """Return the fields of a JSON object, each exactly of the type or types that it must have.

    True is no int, and ``object`` is any type. Fields that nobody asked for are refused, or added
    to ``unknown`` if that is a list. ``where`` is what the object is, for messages.
    """
    if type(stored) is not dict:
        raise HeaderFieldError(f"{where} is not an object")
    for key in kinds.keys() - stored.keys() - set(optional):
        raise HeaderFieldError(f"{where} has no field {key!r}")
    others = sorted(stored.keys() - kinds.keys())
    if others and unknown is None:
        raise HeaderFieldError(f"{where} has an unknown field {others[0]!r:.80}")
    if unknown is not None:
        unknown += [f"{where}: {key!r:.80}" for key in others]
    found = {key: stored[key] for key in kinds if key in stored}
    for key, value in found.items():
        of = get_args(kinds[key]) or (kinds[key],)
        if object not in of and type(value) not in of:
            names = " or ".join(kind.__name__ for kind in of)
            raise HeaderFieldError(
                f"{where}: {key!r} is of type {type(value).__name__}, not {names}"
            )
    return found
