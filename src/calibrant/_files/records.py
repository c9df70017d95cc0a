"""Records of JSON: lines of a file, a list, or the samples of a log."""

from __future__ import annotations

import json
import re
import struct
from collections import Counter
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
LOGS = (*LINES, ".json", ".eval")
RUN = re.compile(r"\d{4}-\d\d-\d\dT\d\d[-:]\d\d[-:]\d\d(Z|[.+-][\d-]+)?|(?<=_)[^_]{22}(?=\.)")
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


class _NoRecordsError(PredictionFileError):
    """A file of JSON that is something else."""


def files_in(path: Path) -> list[Path]:
    """Return the files with a suffix in a directory and below it, sorted.

    What begins with a dot or an underscore is not data: Spark and Dask write such files.
    """
    files = [file for file in sorted(path.rglob("*")) if file.suffix and file.is_file()]
    return [file for file in files if not any(p[0] in "._" for p in file.relative_to(path).parts)]


def find_logs(path: Path) -> tuple[list[Path], dict[Path, str]]:
    """Return the logs with scores of options in a directory, and why other files are ignored.

    It is that of a group of tasks: all kinds of logs, of the harness in folders of the models.
    """
    used: dict[str, Path] = {}
    ignored: dict[Path, str] = {}
    for file in files_in(path):
        why = "no log" if suffix_of(file) not in LOGS else _why_ignored(file)
        if why is not None:
            ignored[file] = why
            continue
        task = RUN.sub("", file.name).removesuffix(file.suffix)
        if used.setdefault(task, file) != file:
            first, second = (one.relative_to(path) for one in (used[task], file))
            raise PredictionFileError(
                f"{path}: {first} and {second} are runs of the same task; keep one of them, or "
                "name the directory of one model"
            )
    if not used:
        what = "; ".join(f"{file.relative_to(path)}: {why}" for file, why in ignored.items())
        raise PredictionFileError(f"{path} is a directory without scores of options ({what:.500})")
    return list(used.values()), ignored


def _why_ignored(file: Path) -> str | None:
    """Return why a log has no scores of options, by its first record; None if it has."""
    try:
        fields = next(read_records(file)).fields
    except _NoRecordsError:
        return "no samples"
    found = fields.get("filtered_resps") or fields.get("resps")
    while isinstance(found, list) and found and isinstance(found[0], list):
        found = found[0]
    if isinstance(found, list) and [type(own) for own in found] == [str]:
        return "generated text"
    is_inspect = isinstance(fields.get("output"), dict) and "target" in fields
    return "no choices" if is_inspect and not fields.get("choices") else None


def field_of(record: Record, name: str, option: str) -> str | int | float:
    """Return a text or number beside the scores of a record."""
    if name not in record.fields:
        raise record.error(f" has no field {name!r} ({option})")
    value = record.fields[name]
    if not isinstance(value, str | int | float):
        held = "is null: the row has no value; drop it" if value is None else "is no value"
        raise record.error(f": the field {name!r} {held}, or name another ({option})")
    return value


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a file, or of all logs in a directory, one after the other."""
    if path.is_dir():
        for file in find_logs(path)[0]:
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
    with open_text(path) as file, decoding(path, "text"):
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield _record(line, f"{path}, line {number}", number)


def _read_samples(path: Path) -> Iterator[Record]:
    """Yield the samples of an Inspect log, a zip file, in its order."""
    with open_binary(path, "an Inspect log") as file:
        with decoding(path, "an Inspect log"):
            archive = ZipFile(file)  # opened once: it reads the list of all members
        samples = [m for m in archive.infolist() if m.filename.startswith("samples/")]
        for place, member in enumerate(samples):
            with decoding(path, "an Inspect log"):
                raw = _unzip(archive, file, member)
            name = member.filename.removeprefix("samples/")
            yield _record(raw, f"{path}, sample {name!r}", place)
    if not samples:
        raise PredictionFileError(f"{path} has no samples; run inspect eval with --log-samples")


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
    with open_text(path) as file, decoding(path, "text"):
        raw = file.read()
    whole = _parse(raw, str(path))
    records = whole.get("samples") if isinstance(whole, dict) else whole
    if not isinstance(records, list):
        raise _NoRecordsError(
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
    try:
        return json.loads(raw.decode("utf-8-sig"), object_pairs_hook=_unrepeated)
    except UnicodeDecodeError:
        fault = "is not UTF-8 text; save it as UTF-8"
    except RecursionError:
        fault = "is nested too deeply; keep only the fields with scores and labels"
    except ValueError as error:
        fault = f"is not JSON: {error}; write one complete JSON object per line"
    raise PredictionFileError(f"{where} {fault}")


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        key = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"an object has the key {key!r:.200} twice")
    return fields


def describe(value: Any) -> str:
    """Name a value of JSON for a message, in a few words."""
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a boolean"}
    text = "" if value is None or isinstance(value, dict | list) else json.dumps(value)
    return f"{kinds.get(type(value), 'null' if value is None else 'a number')} {text:.60}".rstrip()
