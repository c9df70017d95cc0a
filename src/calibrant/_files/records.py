"""Records of JSON: lines of a file, a list, or the samples of a log."""

from __future__ import annotations

import json
import struct
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from zipfile import ZipFile

from calibrant._files.arrays import decoding, open_binary
from calibrant._files.text import open_text, suffix_of
from calibrant.errors import PredictionFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from zipfile import ZipInfo

LINES = (".jsonl", ".ndjson")
ZSTANDARD = 93
"""Method of compression of Inspect, which zipfile knows from Python 3.14 on."""


class Record(NamedTuple):
    """An object of JSON, where it stands, and its line, or its place counted from 0."""

    fields: dict[str, Any]
    where: str
    place: int

    def error(self, fault: str) -> PredictionFileError:
        """Return the error about this record."""
        return PredictionFileError(f"{self.where}{fault}")


def field_of(record: Record, name: str, option: str) -> str | int | float:
    """Return a text or number beside the scores of a record."""
    value = record.fields.get(name)
    if not isinstance(value, str | int | float):
        raise record.error(
            f": the field {name!r} is {describe(value)}; fill it, drop the record, or name another "
            f"({option})"
        )
    return value


def read_records(path: Path) -> list[Record]:
    """Return the records of a file."""
    suffix = suffix_of(path)
    read = _read_lines if suffix in LINES else _read_samples if suffix == ".eval" else _read_list
    records = list(read(path))
    if not records:
        raise PredictionFileError(f"{path} has no records; write one JSON object per line")
    return records


def _read_lines(path: Path) -> Iterator[Record]:
    """Yield the objects of a file with one in each line."""
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield _record(line, f"{path}, line {number}", number)


def _read_samples(path: Path) -> Iterator[Record]:
    """Yield the samples of an Inspect log, a zip file, in its order."""
    with open_binary(path, "an Inspect log") as file, decoding(path, "an Inspect log"):
        archive = ZipFile(file)
        samples = [m for m in archive.infolist() if m.filename.startswith("samples/")]
        for place, member in enumerate(samples):
            raw = _unzip(archive, file, member)
            yield _record(raw, f"{path}, sample {member.filename[8:]!r}", place)


def _unzip(archive: ZipFile, file: IO[bytes], member: ZipInfo) -> bytes:
    """Return the bytes of a member."""
    if member.compress_type != ZSTANDARD:
        return archive.read(member)
    import pyarrow as pa

    file.seek(member.header_offset)  # a header of 30 bytes, which ends with two lengths
    n_name, n_extra = struct.unpack("<HH", file.read(30)[26:])
    file.seek(n_name + n_extra, 1)
    packed = pa.BufferReader(file.read(member.compress_size))
    with pa.CompressedInputStream(packed, "zstd") as stored:
        unpacked: bytes = stored.read()
        return unpacked


def _read_list(path: Path) -> Iterator[Record]:
    """Yield the samples of an Inspect log in JSON, or the objects of a list."""
    with open_text(path) as file:
        whole = _parse(file.read(), str(path))
    records = whole.get("samples") if isinstance(whole, dict) else whole
    if not isinstance(records, list):
        raise PredictionFileError(
            f"{path} is neither an Inspect log with samples nor a list of objects; if it has one "
            "JSON object per line, rename it to .jsonl"
        )
    for place, fields in enumerate(records):
        yield _record(fields, f"{path}, record {place} (from 0)", place)


def _record(content: Any, where: str, place: int) -> Record:
    """Return a record out of its bytes, or out of a value of JSON."""
    fields = _parse(content, where) if isinstance(content, bytes) else content
    if not isinstance(fields, dict):
        raise PredictionFileError(
            f'{where} is {describe(fields)}, not a JSON object; write {{"probs": {{"A": 0.7, "B": '
            '0.3}, "label": "A"}'
        )
    return Record(fields, where, place)


def _parse(raw: bytes, where: str) -> Any:
    """Return a value of JSON."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise PredictionFileError(
            f"{where} is not JSON: {error}; write one complete JSON object per line, in UTF-8"
        ) from error


def describe(value: Any) -> str:
    """Name a value of JSON for a message, in a few words."""
    return "missing" if value is None else f"{json.dumps(value):.60}"
