"""Logs of evaluations of language models, read whole: a column for each option, and the labels.

An option that a question does not have is absent: its logit is minus infinity, or its probability
0, and no calibration may give it anything.
"""

from __future__ import annotations

import math
import string
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant._files import options
from calibrant._files.columns import PREDICTION_NAMES, Request
from calibrant._files.options import SMALLEST_MASS
from calibrant._files.records import LINES, field_of, find_logs, read_records
from calibrant._files.source import Log
from calibrant._files.text import Place, suffix_of
from calibrant._gate import ONE_COLUMN
from calibrant.errors import PredictionFileError
from calibrant.errors import some_in_words as some

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant._files.options import LoggedRow
    from calibrant._files.records import Record

SCORE_FIELDS = {
    **dict.fromkeys(("probs", "probabilities", "proba"), "probabilities"),
    **dict.fromkeys(("logits", "logprobs", "log_probs", "loglikelihoods"), "logits"),
    "scores": None,
}
"""Fields of scores in plain records, with their kind where the name tells it."""

CONFIDENCES = (None, "probabilities", "positive")
"""Kinds of scores that a single number may be said to be."""


class LogLayout(NamedTuple):
    """How records are read: their name, the kind of the scores, and the function of one record."""

    title: str
    kind: str
    read: Callable[[Record], LoggedRow]
    is_stated: bool = False


def read_log(path: Path, request: Request | None = None) -> Log:
    """Read a log of an evaluation; the classes are those of a model, or of another part."""
    request = request or Request()
    request = replace(request, ignore=(*request.ignore, *request.beside))
    told = None if request.classes is None else [str(c) for c in request.classes]
    files, ignored = find_logs(path) if path.is_dir() else ([path], {})
    by_file = {file: list(read_records(file)) for file in files}
    records = [record for own in by_file.values() for record in own]
    layouts: list[LogLayout] = []
    rows: list[LoggedRow] = []
    for file, own in by_file.items():
        layout = _find_layout(own[0], records, request, told)
        layouts.append(layout)
        if layout.kind in ONE_COLUMN:
            raise PredictionFileError(f"{path}: --scores {request.kind} is for one number per row")
        if layout.kind != layouts[0].kind:
            raise PredictionFileError(
                f"{file} holds {layout.kind}, but {files[0]} {layouts[0].kind}; read them apart"
            )
        rows += map(layout.read, own)
    beside: dict[str, Any] = {
        name: [field_of(record, name, option) for record in records]
        for name, option in request.beside.items()
    }
    wheres = [record.where for record in records]
    _refuse_two_conventions(rows, wheres)
    columns, by_name = _find_classes(rows, told, wheres)
    scores, labels, n_narrow = _matrix(rows, columns, layout.kind, by_name=by_name)
    if None in labels and any(label is not None for label in labels):
        where = wheres[labels.index(None)]
        raise PredictionFileError(f"{where}: the label is missing; fill it, or drop the record")
    what = "the options" if by_name else "the positions of the options, whose texts differ"
    titles = " and ".join(dict.fromkeys(own.title for own in layouts))
    note = f"{path}: {titles}; classes {some(columns, 12)} are {what}"
    if n_narrow:
        note += f"; {n_narrow:,} of {len(rows):,} rows have fewer options, and 0 for the others"
    if path.is_dir():
        used = [f"{file.relative_to(path)} ({len(own):,})" for file, own in by_file.items()]
        note += f"; rows of {', '.join(used)}"
        others = [f"{file.relative_to(path)} ({why})" for file, why in ignored.items()]
        note += f"; ignored {', '.join(others)}" if others else ""
    lines = [record.place for record in records] if suffix_of(path) in LINES else None
    return Log(
        scores,
        layout.kind,
        None if None in labels else np.array(labels),
        Place(path, str(path), columns, lines=lines),
        names_are_classes=True,
        beside=beside,
        note=note,
        has_absent=n_narrow > 0,
        is_stated=layout.is_stated,
    )


def _matrix(
    rows: list[LoggedRow], columns: list[str], kind: str, *, by_name: bool
) -> tuple[NDArray[np.float64], list[str | None], int]:
    """Return scores with a column for each class, the labels, and how many rows lack options."""
    n_narrow = sum(len(row.names) < len(columns) for row in rows)
    scores = np.full((len(rows), len(columns)), -math.inf if kind == "logits" else 0.0)
    column_of = {name: j for j, name in enumerate(columns)}
    labels = []
    # An option of probability 0 is there: where 0 is for absent ones it is a bit more.
    floor = SMALLEST_MASS if n_narrow and kind == "probabilities" else 0.0
    for i, row in enumerate(rows):
        own = [column_of[name] for name in row.names] if by_name else range(len(row.names))
        scores[i, own] = [score or floor for score in row.scores]
        labels.append(None if row.label is None else columns[own[row.label]])
    return scores, labels, n_narrow


def _find_classes(
    rows: list[LoggedRow], told: list[str] | None, wheres: list[str]
) -> tuple[list[str], bool]:
    """Classes, and whether they are names of options: else they are places, from 0.

    Names are classes if no row has one that the widest row has not, or if they are keys of objects
    that recur.
    """
    widest = max(rows, key=lambda row: len(row.names)).names
    classes = widest if told is None else told
    known, places = set(classes), [str(j) for j in range(len(widest))]
    strangers = [
        (name, where)
        for row, where in zip(rows, wheres, strict=True)
        for name in row.names
        if name not in known or row.names.count(name) > 1
    ]
    if not strangers:
        return list(classes), True
    other, where = strangers[0]
    if all(row.of_object for row in rows):
        union = sorted({name for row in rows for name in row.names})
        if told is None and 2 * len(union) <= sum(len(row.names) for row in rows):
            return union, True
        if told is None:
            raise PredictionFileError(
                f"{where}: the option {other!r:.200} is not in the longest row, and few options "
                "occur twice; write the scores as a list, and the texts of options in 'options'"
            )
    elif told is None or told[: len(places)] == places:
        return told or places, False
    raise PredictionFileError(
        f"{where}: the option {other!r:.200} appears twice in its row, or is not among the "
        f"classes {some(told)}; leave out the record, or fit to a log with all options"
    )


def _refuse_two_conventions(rows: list[LoggedRow], wheres: list[str]) -> None:
    """Refuse labels in digits that are places in some rows, and in others names elsewhere."""
    found: dict[bool, str] = {}
    for row, where in zip(rows, wheres, strict=True):
        if row.said is None or not row.said.isdecimal():
            continue
        if row.said not in row.names:
            found.setdefault(False, f"{where}: the label {row.said!r} is the position of an option")
        elif row.said != str(row.label):
            found.setdefault(True, f"{where}: the label {row.said!r} is the name of an option")
    if len(found) == 2:
        raise PredictionFileError(f"{found[True]}, but {found[False]} (from 0); always write names")


def _find_layout(
    first: Record, records: list[Record], request: Request, classes: list[str] | None
) -> LogLayout:
    """Tell the layout of a file by its first record; options and units are those of all records."""
    fields = first.fields
    if "resps" in fields or "filtered_resps" in fields:
        layout = LogLayout("samples of lm-evaluation-harness", "logits", options.read_lm_eval)
    elif isinstance(fields.get("output"), dict) and "target" in fields:
        layout = LogLayout("samples of Inspect", "logits", options.read_inspect)
    elif not request.columns and options.is_completion(fields):
        told = classes or _options_by_labels(records, request.label)
        read = partial(options.read_completion, options=told, label=request.label)
        layout = LogLayout("completions with top_logprobs", "logits", read)
    else:
        return _find_plain(first, records, request)
    if request.kind not in (None, layout.kind):
        raise first.error(
            f" is one of {layout.title}, whose scores are log-likelihoods; use --scores logits"
        )
    return layout


def _options_by_labels(records: list[Record], label: str | None) -> list[str] | None:
    """Options of completions: what the labels are; of letters, as many as a record has options."""
    found, n_options = set(), 0
    for record in records:
        said, own = options.label_of(record, label), options.own_options(record.fields)
        if said is None:
            return own
        found.add(str(said).strip())
        n_options = max(n_options, len(own or ()))
    if all(len(text) == 1 and text in string.ascii_uppercase for text in found):
        last = string.ascii_uppercase.index(max(found))
        return list(string.ascii_uppercase[: max(1 + last, n_options)])
    return sorted(found)


def _find_confidences(records: list[Record], name: str, label: str | None) -> LogLayout:
    """One number a record, how sure a model says to be: in percent if any is larger than 1."""
    values = [(record, record.fields.get(name)) for record in records]
    known: list[Any] = [pair for pair in values if options.is_score(pair[1])]
    is_percent = any(value > 1.0 for _, value in known)
    for record, value in known:
        if is_percent and 0.0 < value < 1.0:
            raise record.error(
                f": {name!r} is {value}, but others are larger than 1; write all as percent, or "
                "all from 0 to 1"
            )
    scale, unit = (100.0, " in percent") if is_percent else (1.0, "")
    read = partial(options.read_confidence, name=name, scale=scale, label=label)
    return LogLayout(f"records with a confidence {name!r}{unit}", "probabilities", read, True)


def _find_plain(first: Record, records: list[Record], request: Request) -> LogLayout:
    fields, kind, label = first.fields, request.kind, request.label
    nested = [name for name, value in fields.items() if isinstance(value, list | dict)]
    chosen = [name for name in request.columns or SCORE_FIELDS if name in nested]
    if len(chosen) > 1:
        raise first.error(
            f": the fields {some(chosen)} may all hold the scores; choose one with --columns"
        )
    if chosen:
        name, told = chosen[0], SCORE_FIELDS.get(chosen[0])
        if told is not None and kind not in (None, told):
            raise first.error(f": the field {name!r} holds {told}, not {kind}")
        read = partial(options.read_plain, name=name, label=label)
        return LogLayout(f"records with the field {name!r}", told or kind or "probabilities", read)
    said = options.label_field(fields, label)
    leave = {said, *request.ignore, *(n for n in fields if n.casefold() in PREDICTION_NAMES)}
    numbers = [n for n, v in fields.items() if options.is_score(v) and n not in leave]
    truths = [n for n in numbers if n in options.TRUTH_FIELDS and repr(fields[n]) in ("0", "1")]
    if len(numbers) == len(truths) + 1 and fields.get(str(said)) not in numbers:
        numbers = [n for n in numbers if n not in truths]  # they say what was right
    names = [*(request.columns or numbers)]
    if len(names) == 1 and options.is_score(fields.get(names[0])) and kind in CONFIDENCES:
        return _find_confidences(records, names[0], label)
    if len(names) < 2:
        raise first.error(
            f" has the fields {some(list(fields), 8)}; write scores in a field such as 'probs' or "
            "'logits', or choose their field with --columns"
        )
    read = partial(options.read_plain, name="", flat=names, label=label)
    return LogLayout("records with a number for each class", kind or "probabilities", read)


def leave_out_absent(
    rows: NDArray[Any], scores: NDArray[Any], kind: str, order: NDArray[np.int64] | None
) -> NDArray[Any]:
    """Give what absent options got to the others, where the model knows of no absent ones."""
    given = scores if order is None else scores[:, order]
    kept: NDArray[Any] = np.where(given == (-math.inf if kind == "logits" else 0.0), 0.0, rows)
    kept /= kept.sum(axis=1, keepdims=True)
    return kept
