"""The frame of a model file, bytes <-> JSON header and arrays, and all limits.

``magic (8) | major (u16) | minor (u16) | header length (u32) | header | arrays | SHA-256 (32)``,
all little-endian. Nothing here knows what a calibrator is.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import re
import struct
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from calibrant import __version__
from calibrant.errors import ModelFileError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from calibrant._types import Array

# Limits, which docs/reference/model-files.md explains.
MAX_FILE = 2**30  # bytes
MAX_HEADER = 16 * 2**20  # bytes
MAX_ARRAYS = 16384  # a group's fit has seven or more
MAX_CLASSES = 1_000_000  # and entries of any other vector
MAX_LABEL = 1024  # bytes of a text, in UTF-8
MAX_LABEL_TABLE = 64 * 2**20  # bytes of an array in which every text is as wide as the widest
MAX_NESTING = 8  # calibrators inside calibrators
MAX_LISTS = 64  # in each other, in a parameter
MAX_MAPS = 25_000  # of binary problems: each is an object, and a call at prediction
MAX_CELLS = 2**24  # of one row in all calibrators, each as often as it is used

INT64 = range(-(2**63), 2**63)

MAGIC = b"\x89CLBR\r\n\x1a"
"""Not text, and broken by any transfer that changes line ends, as PNG's."""

MAJOR, MINOR = 1, 0
WITH_MORE = 1
"""Minor version of files that also hold a summary of the scores of the fit, by which others are
checked, or the rows of ``partial_fit``."""

DTYPES = {"float64": np.dtype("<f8"), "int64": np.dtype("<i8")}
_PREFIX = struct.Struct("<8sHHI")
_DIGEST = 32
_HEADER = {"library": str} | dict.fromkeys(("requires", "arrays", "vectors", "parts"), list)
_MORE = {"summary": dict, "sample": dict}
_ARRAY = {"name": str, "dtype": str, "shape": list, "offset": int}


def require(condition: object, message: str, rule: str = "fitted") -> None:
    """Refuse what breaks a rule of the format, usually that of fitted values."""
    if not condition:
        raise ModelFileError(message, rule)


def pack(
    header: Mapping[str, object], arrays: Mapping[str, Array]
) -> tuple[list[bytes | memoryview], str]:
    """Return the pieces of a file, and the SHA-256 of the whole."""
    minor = WITH_MORE if _MORE.keys() & header.keys() else MINOR
    few = len(arrays) <= MAX_ARRAYS
    require(few, f"{len(arrays)} arrays, but a file holds at most {MAX_ARRAYS}", "savable")
    table: list[dict[str, object]] = []
    data: list[memoryview] = []
    offset = 0
    for name, array in arrays.items():
        dtype = "int64" if array.dtype.kind == "i" else "float64"
        stored = np.ascontiguousarray(array, dtype=DTYPES[dtype])
        shape = list(array.shape)
        table.append({"name": name, "dtype": dtype, "shape": shape, "offset": offset})
        data.append(stored.reshape(-1).view(np.uint8).data)
        offset += stored.nbytes
    # Compact ASCII with sorted keys: equal values give equal bytes.
    full = {**header, "arrays": table, "library": f"calibrant {__version__}", "requires": []}
    text = json.dumps(full, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    text += b" " * (-(_PREFIX.size + len(text)) % 8)
    long = f"the header would have {len(text)} bytes, {MAX_HEADER} at most: shorten class labels"
    require(len(text) <= MAX_HEADER, long, "savable")
    size = _PREFIX.size + len(text) + offset + _DIGEST
    require(size <= MAX_FILE, f"the file would have {size} bytes, more than 1 GiB", "savable")
    pieces: list[bytes | memoryview] = [_PREFIX.pack(MAGIC, MAJOR, minor, len(text)), text, *data]
    sha = hashlib.sha256()
    for piece in pieces:
        sha.update(piece)
    pieces.append(sha.digest())
    sha.update(pieces[-1])
    return pieces, sha.hexdigest()


def unpack(data: memoryview, sha256: str | None = None) -> tuple[dict[str, Any], dict[str, Array]]:
    """Check a file from the outside in; return its header, and its arrays as views of the data.

    Nothing is interpreted before the digest and the checksum agree, and nothing is allocated in a
    size that the file claims.
    """
    if sha256 is not None and not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        message = f"sha256={sha256!r} is not 64 hexadecimal digits"
        raise ParameterError(message, argument="sha256", value=sha256)
    require(len(data) > 0, "the file is empty", "magic")
    first = bytes(data[: len(MAGIC)])
    hint = "; it looks like a pickle, which is never loaded" if first[0] == 0x80 else ""
    is_ours = first == MAGIC[: len(first)]
    require(is_ours, f"the file is not a calibrant model file{hint}", "magic")
    is_long = len(data) >= _PREFIX.size + _DIGEST
    require(is_long, f"the file is cut off after {len(data)} bytes", "length")
    _check_digests(data, sha256)
    _, major, minor, length = _PREFIX.unpack(data[: _PREFIX.size])
    start = _PREFIX.size + length
    try:
        header = decode(bytes(data[_PREFIX.size : start]))
        library = header.get("library")
        is_named = isinstance(library, str) and re.fullmatch("[ -~]{1,80}", library)
        require(is_named, "the header: 'library' is not a name and a version", "fields")
    except ModelFileError:
        if major == MAJOR:
            raise
        library = "an unknown version"  # whose header may be anything
    require(
        major == MAJOR and minor <= WITH_MORE,
        f"the file has format {major}.{minor} and was written by {library}; calibrant "
        f"{__version__} reads format {MAJOR}.{WITH_MORE}: update calibrant, or save the file "
        "again",
        "version",
    )
    kinds = _HEADER | _MORE if minor == WITH_MORE else _HEADER
    fields = take(header, "the header", kinds, optional=_MORE)
    for name in fields["requires"]:  # version 1.0 has nothing that a file may require
        message = f"the file needs {name!r:.80}, and was written by {library}: update calibrant"
        raise ModelFileError(message, "features")
    return fields, _views(fields["arrays"], data[start:-_DIGEST])


def _check_digests(data: memoryview, sha256: str | None) -> None:
    """Compare with the digest that was asked for, and with the file's own."""
    sha = hashlib.sha256(data[:-_DIGEST])
    checksum = sha.digest()
    sha.update(data[-_DIGEST:])
    digest = sha.hexdigest()
    is_asked = sha256 is None or hmac.compare_digest(digest, sha256.lower())
    message = f"the file's SHA-256 is {digest}, not sha256={sha256!r}; do not trust the file"
    require(is_asked, message, "digest")
    length = _PREFIX.unpack(data[: _PREFIX.size])[3]
    is_length = 0 < length <= MAX_HEADER and (_PREFIX.size + length) % 8 == 0
    require(is_length, f"the header has a length of {length} bytes", "header")
    is_long = _PREFIX.size + length + _DIGEST <= len(data)
    require(is_long, f"the file is cut off after {len(data)} bytes, in its header", "length")
    is_whole = hmac.compare_digest(checksum, bytes(data[-_DIGEST:]))
    require(is_whole, "the file is damaged or cut off: its checksum differs", "checksum")


def _views(table: Sequence[object], data: memoryview) -> dict[str, Array]:
    """Arrays by name: in order, end to end, filling the data section exactly."""
    is_short = len(table) <= MAX_ARRAYS
    require(is_short, f"the file has {len(table)} arrays, {MAX_ARRAYS} at most", "arrays")
    arrays: dict[str, Array] = {}
    end = 0
    for i, entry in enumerate(table):
        name, dtype, shape, offset = take(entry, f"array {i}", _ARRAY).values()
        is_new = name not in arrays and name.isascii() and len(name) <= 200
        require(is_new, f"array {i} has no name of its own", "arrays")
        require(dtype in DTYPES, f"array {i} is of dtype {dtype!r:.40}", "arrays")
        is_shape = 1 <= len(shape) <= 3 and all(type(n) is int and n >= 1 for n in shape)
        require(is_shape, f"array {i} has shape {shape!r:.80}", "arrays")
        size = 8 * math.prod(shape)  # Python integers: no overflow
        fits = offset == end and size <= len(data) - end
        require(fits, f"array {i} is at {offset} and {size} bytes long, out of place", "arrays")
        end += size
        view = np.frombuffer(data[offset:end], dtype=DTYPES[dtype]).reshape(shape)
        arrays[name] = view.astype(view.dtype.newbyteorder("="), copy=False)
    require(end == len(data), f"{len(data) - end} bytes belong to no array", "arrays")
    return arrays


def decode(data: bytes) -> dict[str, object]:
    """Read a JSON object: no key twice, and numbers that fit 64 bits."""
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_number,
            parse_float=_number,
            parse_int=_number,
        )
    except ModelFileError:
        raise
    except (ValueError, RecursionError) as error:
        # Of decode, of json, and of int, which reads no 5,000 digits.
        raise ModelFileError(f"the header is not JSON in UTF-8: {error!s:.80}", "json") from None
    require(isinstance(value, dict), "the header is not a JSON object", "json")
    return dict(value)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    require(len(result) == len(pairs), "the header has a key twice", "json")
    return result


def _number(text: str) -> float:
    value: float = int(text) if text.lstrip("-").isdecimal() else float(text)
    is_stored = value in INT64 if isinstance(value, int) else math.isfinite(value)
    require(is_stored, f"the header has {text:.40}, which is neither int64 nor float64", "json")
    return value


def take(
    stored: Any, where: str, kinds: Mapping[str, object], optional: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the fields of a JSON object, each exactly of the type or types that it must have.

    True is no int, and ``object`` is any type. Other fields are refused. ``where`` is what the
    object is, for messages.
    """
    require(type(stored) is dict, f"{where} is not an object", "fields")
    for key in kinds.keys() - stored.keys() - set(optional):
        raise ModelFileError(f"{where} has no field {key!r}", "fields")
    for key in stored.keys() - kinds.keys():
        raise ModelFileError(f"{where} has an unknown field {key!r:.80}", "fields")
    result = {key: stored[key] for key in kinds if key in stored}
    for key, value in result.items():
        of = get_args(kinds[key]) or (kinds[key],)
        is_one = object in of or type(value) in of
        require(is_one, f"{where}: {key!r} is of type {type(value).__name__}", "fields")
    return result
