"""JSON as a model file has it: UTF-8, shallow, finite numbers, no key twice."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from calibrant.errors import HeaderFieldError, HeaderSyntaxError
from calibrant.model_file import limits

# Possessive, so that neither time nor memory grows with what a hostile string tries.
_TEXT = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_TOKEN = re.compile(r"[\[\]{}]|[^\s\[\]{},:]++")


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
    except UnicodeDecodeError as error:
        raise HeaderSyntaxError(f"the header is not UTF-8: {error.reason}") from None
    _check_structure(text)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_whole,
        )
    except json.JSONDecodeError as error:
        raise HeaderSyntaxError(f"the header is not JSON: {error.msg}") from None
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
    """Bound depth and number of values, reading only what is not inside strings."""
    bare, n_texts = _TEXT.subn("", text)
    if n_texts > limits.MAX_TEXTS:
        raise HeaderSyntaxError(f"the header has {n_texts} strings, {limits.MAX_TEXTS} at most")
    depth = 0
    for n_tokens, token in enumerate(_TOKEN.finditer(bare), start=1):
        if n_tokens > limits.MAX_VALUES:
            raise HeaderSyntaxError(f"the header has more than {limits.MAX_VALUES} values")
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth > limits.MAX_DEPTH:
            raise HeaderSyntaxError(f"the header is nested more than {limits.MAX_DEPTH} deep")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise HeaderSyntaxError("the header has a key twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise HeaderSyntaxError(f"the header has {name}, which is not JSON")


def _finite(digits: str) -> float:
    value = float(digits) if len(digits) <= limits.MAX_NUMBER else math.inf
    if not math.isfinite(value):
        raise HeaderSyntaxError(f"the header has a number that is no float64: {digits[:40]}")
    return value


def _whole(digits: str) -> int:
    value = int(digits) if len(digits) <= limits.MAX_NUMBER else 2**63
    if value not in limits.INT64:
        raise HeaderSyntaxError(f"the header has a number that is no int64: {digits[:40]}")
    return value


class Fields:
    """A JSON object that is read field by field, so that nothing in it is passed over.

    Attributes
    ----------
    where : str
        What the object is, for messages.
    """

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise HeaderFieldError(f"{where} is not an object")
        self.where = where
        self._rest = dict(value)

    def take(self, key: str, *kinds: type) -> Any:
        """Return a field, which must be of one of ``kinds`` exactly: True is no int."""
        if key not in self._rest:
            raise HeaderFieldError(f"{self.where} has no field {key!r}")
        value = self._rest.pop(key)
        if kinds and type(value) not in kinds:
            names = " or ".join(kind.__name__ for kind in kinds)
            raise HeaderFieldError(
                f"{self.where}: {key!r} is of type {type(value).__name__}, not {names}"
            )
        return value

    def has(self, key: str) -> bool:
        """Whether there is such a field that was not yet taken."""
        return key in self._rest

    def close(self, unknown: list[str] | None) -> None:
        """Refuse fields that nobody took, or add them to ``unknown`` if that is a list."""
        if self._rest and unknown is None:
            raise HeaderFieldError(f"{self.where} has an unknown field {min(self._rest)!r:.80}")
        if unknown is not None:
            unknown += [f"{self.where}: {key!r:.80}" for key in sorted(self._rest)]
