"""Records of JSON, each of bounded length: lines of a file, a list, or the samples of a log."""

from __future__ import annotations

import json
import re
import struct
from collections import Counter
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from zipfile import ZipFile

from calibrant._files.arrays import decoding, open_binary
from calibrant._files.tables import is_table
from calibrant._files.text import open_text, suffix_of
from calibrant.errors import PredictionFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from zipfile import ZipInfo

LINES = {".jsonl", ".ndjson"}
LOGS = {*LINES, ".json", ".eval"}
LONGEST_RECORD = 1 << 24
"""Bytes of a line, or of a sample of a log."""

LONGEST_JSON = 1 << 28
"""Bytes of a file that is a single JSON value, which is held whole."""

RUN = re.compile(r"\d{4}-\d\d-\d\dT\d\d[-:]\d\d[-:]\d\d(Z|[.+-][\d-]+)?|(?<=_)[^_]{22}(?=\.eval$)")
"""In names of logs: the time of the run, and Inspect's id of it."""

ZSTANDARD = 93
"""Method of compression that zipfile knows from Python 3.14 on."""


class Record(NamedTuple):
    """An object of JSON, where it stands, and its line, or its place counted from 0."""

    fields: dict[str, Any]
    where: str
    place: int

    def error(self, fault: str) -> PredictionFileError:
        """Return the error about this record."""
        return PredictionFileError(f"{self.where}{fault}")


class _RepeatedKeyError(ValueError):
    """A key that an object has twice."""


def is_log(path: Path) -> bool:
    """Whether a file holds records of JSON, by its suffix, or a directory such files alone."""
    return bool(_logs_in(path)) if path.is_dir() else suffix_of(path) in LOGS


def _logs_in(path: Path) -> list[Path]:
    """Return the logs of a directory, as of a group of tasks; none if there are tables, too."""
    files = sorted(path.iterdir())
    logs = [file for file in files if suffix_of(file) in {*LINES, ".eval"}]
    return [] if any(file.suffix and is_table(file) for file in files) else logs


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a file, or of all logs in a directory, one after the other."""
    if path.is_dir():
        known: dict[str, Path] = {}
        for file in _logs_in(path):
            task = RUN.sub("", file.name)
            if known.setdefault(task, file) != file:
                raise PredictionFileError(
                    f"{path}: {known[task].name} and {file.name} are runs of the same task; keep "
                    "one of them"
                )
            yield from read_records(file)
        return
    suffix = suffix_of(path)
    read = _read_lines if suffix in LINES else _read_samples if suffix == ".eval" else _read_list
    records = read(path)
    first = next(records, None)
    if first is None:
        raise PredictionFileError(f"{path} has no records; write one JSON object per line")
    yield first
    yield from records


def _read_lines(path: Path) -> Iterator[Record]:
    with open_text(path) as file:
        number = 0
        while True:
            number += 1
            where = f"{path}, line {number}"
            with decoding(path, "text"):
                line = file.readline(LONGEST_RECORD + 1)
            if not line:
                return
            _refuse_long(len(line), LONGEST_RECORD, where)
            if line.strip():
                yield Record(_require_object(_parse(line, where), where), where, number)


def _read_samples(path: Path) -> Iterator[Record]:
    """Yield the samples of an Inspect log, a zip file, in its order."""
    with open_binary(path, "an Inspect log") as file:
        with decoding(path, "an Inspect log"):
            members = ZipFile(file).infolist()
        samples = [m for m in members if m.filename.startswith("samples/")]
        for place, member in enumerate(samples):
            where = f"{path}, sample {member.filename.removeprefix('samples/')!r}"
            with decoding(path, "an Inspect log"):
                raw = _unzip(file, member)
            _refuse_long(len(raw), LONGEST_RECORD, where)
            yield Record(_require_object(_parse(raw, where), where), where, place)
    if not samples:
        raise PredictionFileError(f"{path} has no samples; run inspect eval with --log-samples")


def _unzip(file: IO[bytes], member: ZipInfo) -> bytes:
    """Bytes of a member, at most one more than a record may have."""
    if member.compress_type != ZSTANDARD:
        with ZipFile(file).open(member) as stored:
            return stored.read(LONGEST_RECORD + 1)
    import pyarrow as pa

    file.seek(member.header_offset)  # a header of 30 bytes, which ends with two lengths
    n_name, n_extra = struct.unpack("<HH", file.read(30)[26:])
    file.seek(n_name + n_extra, 1)
    packed = pa.BufferReader(file.read(min(member.compress_size, LONGEST_RECORD + 1)))
    with pa.CompressedInputStream(packed, "zstd") as stored:
        unpacked: bytes = stored.read(LONGEST_RECORD + 1)
        return unpacked


def _read_list(path: Path) -> Iterator[Record]:
    """Yield the samples of an Inspect log in JSON, or the objects of a list."""
    with open_text(path) as file, decoding(path, "text"):
        raw = file.read(LONGEST_JSON + 1)
    _refuse_long(len(raw), LONGEST_JSON, str(path))
    whole = _parse(raw, str(path))
    found = whole.get("samples") if isinstance(whole, dict) else whole
    if not isinstance(found, list):
        raise PredictionFileError(
            f"{path} is neither an Inspect log with samples nor a list of objects; if it has one "
            "JSON object per line, rename it to .jsonl"
        )
    for place, fields in enumerate(found):
        where = f"{path}, record {place} (from 0)"
        yield Record(_require_object(fields, where), where, place)


def _refuse_long(length: int, limit: int, where: str) -> None:
    if length > limit:
        raise PredictionFileError(
            f"{where} is longer than {limit >> 20} MiB; keep only the fields with scores and labels"
        )


def _require_object(found: Any, where: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise PredictionFileError(
            f'{where} is {describe(found)}, not a JSON object; write {{"probs": {{"A": 0.7, "B": '
            '0.3}, "label": "A"}'
        )
    return found


def _parse(raw: bytes, where: str) -> Any:
    try:
        return json.loads(raw.decode("utf-8-sig"), object_pairs_hook=_unrepeated)
    except UnicodeDecodeError:
        fault = "is not UTF-8 text; save it as UTF-8"
    except RecursionError:
        fault = "is nested too deeply; keep only the fields with scores and labels"
    except _RepeatedKeyError as error:
        fault = f"has the key {str(error)!r:.200} twice in one object; remove one of them"
    except ValueError as error:
        fault = f"is not JSON: {error}; write one complete JSON object per line"
    raise PredictionFileError(f"{where} {fault}")


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _RepeatedKeyError(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return found


def describe(value: Any) -> str:
    """Name a value of JSON for a message, in a few words."""
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a boolean"}
    text = json.dumps(value) if not isinstance(value, dict | list) else ""
    return f"{kinds.get(type(value), 'null' if value is None else 'a number')} {text:.60}".rstrip()
