"""Logs of evaluations of language models, read whole: a column for each option, and the labels.

An option that a question does not have is absent: its logit is minus infinity, or its probability
0, and no calibration may give it anything.
"""

from __future__ import annotations

import json
import math
import re
import struct
from contextlib import suppress
from typing import IO, TYPE_CHECKING, NamedTuple
from zipfile import BadZipFile, ZipFile

import numpy as np

from calibrant._files.readers import (
    SMALLEST_MASS,
    STATED,
    Log,
    Record,
    describe,
    fields_of,
    items_of,
)
from calibrant._files.source import Place, Rows, Source
from calibrant._files.tables import open_text, suffix_of
from calibrant.errors import PredictionFileError, number_of
from calibrant.errors import some_in_words as some

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from zipfile import ZipInfo

    from calibrant._files.readers import Question
    from calibrant._files.source import Request
    from calibrant._types import Array, Floats

LINES = (".jsonl", ".ndjson")
ZSTANDARD = 93
"""Method of compression of Inspect, which zipfile knows from Python 3.14 on."""

SAMPLES = re.compile(r"samples_(.+)_(\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")
"""Name of a file of lm-evaluation-harness: the task and the time."""

OF_HELM = "per_instance_stats.json"


def read_logs(
    path: Path, request: Request, files: Sequence[Path], known: Mapping[str, object] | None = None
) -> Source:
    """Read a log of an evaluation, or files of a directory as one; ids may tell the labels."""
    read = {}
    for file in files or (path,):
        records = read_records(file, path)
        # What other filters of lm-evaluation-harness make of the same answers is left out, and what
        # HELM makes of the same questions by perturbations.
        first = records[0].fields.get("filter") if records else None
        records = [own for own in records if own.fields.get("filter") == first]
        records = [own for own in records if "perturbation" not in own.fields]
        if known is not None:  # labels, as a batch has none
            records = [own.labelled(known, request) for own in records]
        read[file] = Log(records, request)
    logs = [log for log in read.values() if log.records]
    if not logs:
        raise PredictionFileError(f"{path} has no records; write one JSON object per line")
    records = [record for log in logs for record in log.records]
    questions = [log.reader.read(record, log) for log in logs for record in log.records]
    kind, is_stated = questions[0].kind, all(log.reader.read in STATED for log in logs)
    for record, question in zip(records, questions, strict=True):
        if question.kind != kind:
            raise record.error(f" has {question.kind}, but others {kind}; read each file alone")
    if request.kind not in (None, kind) and not is_stated:
        raise records[0].error(f" has {kind}, one for each option; use --scores {kind}")
    wheres = [record.where for record in records]
    columns, by_name = _find_classes(questions, request.log_classes, wheres)
    scores, labels, n_narrow = _to_matrix(questions, columns, by_name=by_name)
    is_known = [label is not None for label in labels]
    if not request.may_lack_labels and any(is_known) and not all(is_known):
        where = wheres[labels.index(None)]
        raise PredictionFileError(f"{where}: the label is missing; fill it, or drop the record")
    titles = " and ".join(dict.fromkeys(log.title for log in logs))
    what = "the options" if by_name else "the positions of the options, whose texts differ"
    note = f"{path}: {titles}; classes {some(columns, 12)} are {what}"
    if n_narrow:
        note += f"; {n_narrow:,} of {len(records):,} rows have fewer options, and 0 for the others"
    if path.is_dir():
        ignored = [str(file.relative_to(path)) for file, log in read.items() if not log.records]
        note += f"; {number_of(len(logs), 'log')} read"
        note += f"; ignored {some(ignored)}" if ignored else ""
    rows = Rows(
        scores,
        kind,
        np.array(labels, None if all(is_known) else object) if any(is_known) else None,
        Place(str(path), columns, lambda rows: [wheres[row] for row in rows]),
        {
            name: np.array([record.value(name, option) for record in records])
            for name, option in request.beside.items()
        },
        names_are_classes=True,
        has_absent=n_narrow > 0,
        is_stated=is_stated,
    )
    return Source.of(rows, note)


def _to_matrix(
    questions: list[Question], columns: list[str], *, by_name: bool
) -> tuple[Floats, list[str | None], int]:
    """Return scores with a column for each class, the labels, and how many rows lack options."""
    n_narrow = sum(len(question.names) < len(columns) for question in questions)
    kind = questions[0].kind
    scores = np.full((len(questions), len(columns)), -math.inf if kind == "logits" else 0.0)
    column_of = {name: j for j, name in enumerate(columns)}
    labels = []
    # An option of probability 0 is there: where 0 is for absent ones it is a bit more.
    floor = SMALLEST_MASS if n_narrow and kind == "probabilities" else 0.0
    for i, question in enumerate(questions):
        own = range(len(question.names))
        places = [column_of[name] for name in question.names] if by_name else [*own]
        scores[i, places] = [score or floor for score in question.scores]
        labels.append(None if question.label is None else columns[places[question.label]])
    return scores, labels, n_narrow


def _find_classes(
    questions: list[Question], known: list[str] | None, wheres: list[str]
) -> tuple[list[str], bool]:
    """Classes, and whether they are names of options: else they are places, from 0.

    Names are classes if no row has one that the widest row has not, or if they are keys of objects
    that recur.
    """
    widest = max(questions, key=lambda question: len(question.names)).names
    classes, places = known or widest, [str(j) for j in range(len(widest))]
    strangers = [
        (name, where)
        for question, where in zip(questions, wheres, strict=True)
        for name in question.names
        if name not in classes
    ]
    if not strangers:
        return list(classes), True
    if all(question.of_object for question in questions):
        union = sorted({name for question in questions for name in question.names})
        if known is None and 2 * len(union) <= sum(len(own.names) for own in questions):
            return union, True
    elif known is None or known[: len(places)] == places:
        return known or places, False
    other, where = strangers[0]
    raise PredictionFileError(
        f"{where}: the option {other!r:.200} is not among the classes {some(classes)}; leave out "
        "the record, fit to a log with all options, or write texts of options in 'options'"
    )


def read_records(path: Path, home: Path | None = None) -> list[Record]:
    """Return the records of a file; none of JSON that is no log, where it lies below ``home``."""
    is_alone = home in (None, path)
    name = path.name if is_alone or home is None else str(path.relative_to(home))
    records = []
    for content, where in _read_contents(path, is_alone=is_alone):
        fields = _parse(content, where) if isinstance(content, bytes) else content
        if not isinstance(fields, dict):
            fault = f"is {describe(fields)}, not a JSON object; write "
            example = '{"probs": {"A": 0.7, "B": 0.3}, "label": "A"}'
            raise PredictionFileError(f"{where} {fault}{example}")
        records.append(Record(fields, where, name))
    return records


def _parse(raw: bytes, where: str) -> object:
    """Return a value of JSON."""
    try:
        value: object = json.loads(raw)
    except (ValueError, RecursionError) as error:
        fault = f"is not JSON: {error}; write one complete JSON object per line, in UTF-8"
        raise PredictionFileError(f"{where} {fault}") from error
    return value


def _read_contents(path: Path, *, is_alone: bool) -> Iterator[tuple[object, str]]:
    """Yield records, as bytes or as values, and where they are: a line, a sample or a number."""
    suffix = suffix_of(path)
    if suffix == ".eval":  # samples of Inspect in a zip file, in its order
        with path.open("rb") as file:
            archive = ZipFile(file)
            for member in archive.infolist():
                if member.filename.startswith("samples/"):
                    yield _unzip(archive, file, member), f"{path}, sample {member.filename[8:]!r}"
        return
    with open_text(path) as file:
        if suffix in LINES:
            numbered = enumerate(file, start=1)
            yield from ((line, f"{path}, line {i}") for i, line in numbered if line.strip())
            return
        whole = _parse(file.read(), str(path))
    records = whole.get("samples") if isinstance(whole, dict) else whole
    if isinstance(records, list):
        yield from ((fields, f"{path}, record {i} (from 0)") for i, fields in enumerate(records))
    elif is_alone:  # else results and lists of runs, which tools write beside their samples
        fault = "is neither an Inspect log with samples nor a list of objects"
        raise PredictionFileError(f"{path} {fault}; rename lines of objects to .jsonl")


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


def read_fields(
    path: Path, named: Mapping[str, str], may_lack: str | None = None
) -> tuple[Place, dict[str, Array]]:
    """Return fields of the records of a file, which may have no scores.

    ``named`` has the option of each. One of them may lack in some records, where it is None.
    """
    records, columns = read_records(path), {}
    wheres = [record.where for record in records]
    for name, option in named.items():
        are_there = [record.fields.get(name) is not None for record in records]
        if name != may_lack or not any(are_there):
            are_there = [True] * len(records)  # what is missing is refused
        values = zip(records, are_there, strict=True)
        columns[name] = np.array([own.value(name, option) if is_ else None for own, is_ in values])
    return Place(str(path), locate=lambda rows: [wheres[row] for row in rows]), columns


class Run(NamedTuple):
    """Answers of a model to a task; ``part`` is the task of a file in a group of tasks."""

    model: str
    task: str
    part: str
    created: str
    file: Path


def find_runs(home: Path, files: Iterable[Path]) -> tuple[list[Run], list[Run]]:
    """Return the newest run of every model and task in the logs of a directory, and older ones."""
    read = (_read_run(file, home) for file in files)
    runs = [run for run in read if run is not None]
    runs.sort(key=lambda run: (run.created, str(run.file)))
    newest = {(run.model, run.task, run.part): run for run in runs}
    return list(newest.values()), [run for run in runs if run not in newest.values()]


def _read_run(file: Path, home: Path) -> Run | None:
    """Return what a file holds, by its name, its header or what lies beside it."""
    samples = SAMPLES.fullmatch(file.name)
    if samples is not None:
        task, created = samples.groups()
        results = _read_object(file.with_name(f"results_{created}.json"))
        model = results.get("model_name") or file.parent.name
        return Run(str(model), _group_of(task, results), task, created, file)
    if (file.parent / OF_HELM).exists():
        spec = _read_object(file.with_name("run_spec.json"))
        model = fields_of(spec.get("adapter_spec")).get("model") or file.parent.parent.name
        name = re.sub(r",?model=[^,]*", "", str(spec.get("name", file.parent.name))).rstrip(":")
        return Run(str(model), name, name, "", file) if file.name == OF_HELM else None
    header = _read_header(file)
    if header:
        task = str(header.get("task"))
        return Run(str(header.get("model")), task, task, str(header.get("created")), file)
    if file.suffix == ".json":  # results, which tools write beside their samples
        return None
    name = re.sub(r"\.(jsonl|ndjson|eval)(\.gz)?$", "", file.relative_to(home).as_posix())
    model, _, task = name.partition("/")
    return Run(model, task, task, "", file)


def _read_object(file: Path) -> dict[str, object]:
    """Return an object of JSON; an empty one where there is none."""
    with suppress(OSError, ValueError, RecursionError):
        return fields_of(json.loads(file.read_bytes()))
    return {}


def _group_of(task: str, results: dict[str, object]) -> str:
    """Return the outermost group of a task of lm-evaluation-harness, such as mmlu."""
    groups = fields_of(results.get("group_subtasks")).items()
    homes = {str(own): group for group, tasks in groups for own in items_of(tasks) if own != group}
    seen = set()
    while task in homes and task not in seen:
        seen.add(task)
        task = homes[task]
    return task


def _read_header(file: Path) -> dict[str, object]:
    """Return what an Inspect log says about its evaluation; nothing if it is no such log."""
    whole: object = {}
    if file.suffix == ".json":
        whole = _read_object(file)
    elif file.suffix == ".eval":
        with suppress(OSError, ValueError, KeyError, BadZipFile), file.open("rb") as stored:
            archive = ZipFile(stored)
            name = "header.json" if "header.json" in archive.namelist() else "_journal/start.json"
            whole = json.loads(_unzip(archive, stored, archive.getinfo(name)))
    return fields_of(fields_of(whole).get("eval"))
