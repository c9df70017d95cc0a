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
from calibrant._files.columns import PREDICTION_NAMES, ColumnSelection
from calibrant._files.options import SMALLEST_MASS
from calibrant._files.records import LINES, field_of, find_logs, read_records
from calibrant._files.source import RawPredictions, Source
from calibrant._files.text import Place, suffix_of
from calibrant._gate import ONE_COLUMN
from calibrant.errors import PredictionFileError
from calibrant.errors import some_in_words as some

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
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


class Log(NamedTuple):
    """What the records of a file hold: scores with a column for each class, and labels.

    ``lines`` are those of the rows, if there are any; ``note`` says what was taken for a class.
    """

    scores: NDArray[np.float64]
    kind: str
    labels: NDArray[Any] | None
    classes: list[str]
    lines: list[int] | None
    has_absent: bool
    note: str
    is_stated: bool = False
    """Whether scores are confidences that a model stated of its answers."""

    beside: Mapping[str, list[Any]] = {}


class LogLayout(NamedTuple):
    """How records are read: their name, the kind of the scores, and the function of one record."""

    title: str
    kind: str
    read: Callable[[Record], LoggedRow]
    is_stated: bool = False


def open_log(
    path: Path, kind: str | None, selection: ColumnSelection, classes: Sequence[Any] | None
) -> Source:
    """Read a log of an evaluation as a file of predictions."""
    log = read_log(path, kind, selection, classes)
    place, beside = Place(path, str(path), log.classes, lines=log.lines), dict(log.beside)
    whole = RawPredictions(log.scores, log.kind, log.labels, place, log=log, beside=beside)
    return Source(place, log.kind, log.scores.shape[1], log.scores.dtype, whole)


def read_log(
    path: Path,
    kind: str | None = None,
    selection: ColumnSelection | None = None,
    classes: Sequence[Any] | None = None,
) -> Log:
    """Read a log of an evaluation; ``classes`` are those of a model, or of another part."""
    told = None if classes is None else [str(c) for c in classes]
    rows, lines, wheres = [], [], []
    files, ignored = find_logs(path) if path.is_dir() else ([path], {})
    layouts: list[LogLayout] = []
    counts: list[int] = []
    selection = selection or ColumnSelection()
    selection = replace(selection, ignore=(*selection.ignore, *selection.beside))
    beside: dict[str, list[Any]] = {name: [] for name in selection.beside}
    for file in files:
        layout = _find_layout(file, path, kind, selection, told)
        if layout.kind in ONE_COLUMN:
            raise PredictionFileError(f"{path}: --scores {kind} is for one number per row")
        layouts.append(layout)
        if layout.kind != layouts[0].kind:
            raise PredictionFileError(
                f"{file} holds {layout.kind}, but {files[0]} {layouts[0].kind}; read them apart"
            )
        for record in read_records(file):
            rows.append(layout.read(record))
            lines.append(record.place)
            wheres.append(record.where)
            for name, option in selection.beside.items():
                beside[name].append(field_of(record, name, option))
        counts.append(len(rows) - sum(counts))
    _refuse_two_conventions(rows, wheres)
    columns, by_name = _find_classes(rows, told, wheres)
    n_narrow = sum(len(row.names) < len(columns) for row in rows)
    scores = np.full((len(rows), len(columns)), -math.inf if layout.kind == "logits" else 0.0)
    column_of = {name: j for j, name in enumerate(columns)}
    labels = []
    for i, row in enumerate(rows):
        own = [column_of[name] for name in row.names] if by_name else range(len(row.names))
        # An option of probability 0 is there: where 0 is for absent ones it is a bit more.
        floor = SMALLEST_MASS if n_narrow and layout.kind == "probabilities" else 0.0
        scores[i, own] = [score or floor for score in row.scores]
        labels.append(None if row.label is None else columns[own[row.label]])
    if None in labels and any(label is not None for label in labels):
        where = wheres[labels.index(None)]
        raise PredictionFileError(f"{where}: the label is missing; fill it, or drop the record")
    what = "the options" if by_name else "the positions of the options, whose texts differ"
    titles = " and ".join(dict.fromkeys(own.title for own in layouts))
    note = f"{path}: {titles}; classes {some(columns, 12)} are {what}"
    if n_narrow:
        note += f"; {n_narrow:,} of {len(rows):,} rows have fewer options, and 0 for the others"
    if path.is_dir():
        used = [f"{file.relative_to(path)} ({n:,})" for file, n in zip(files, counts, strict=True)]
        note += f"; rows of {', '.join(used)}"
        others = [f"{file.relative_to(path)} ({why})" for file, why in ignored.items()]
        note += f"; ignored {', '.join(others)}" if others else ""
    y = None if None in labels else np.array(labels)
    numbers = lines if suffix_of(path) in LINES else None
    is_stated = layout.is_stated
    return Log(scores, layout.kind, y, columns, numbers, n_narrow > 0, note, is_stated, beside)


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
    file: Path,
    path: Path,
    kind: str | None,
    selection: ColumnSelection,
    classes: list[str] | None,
) -> LogLayout:
    """Tell the layout of a file by its first record; ``path`` is it, or the directory of all."""
    first = next(read_records(file))
    fields = first.fields
    if "resps" in fields or "filtered_resps" in fields:
        layout = LogLayout("samples of lm-evaluation-harness", "logits", options.read_lm_eval)
    elif isinstance(fields.get("output"), dict) and "target" in fields:
        layout = LogLayout("samples of Inspect", "logits", options.read_inspect)
    elif not selection.columns and options.is_completion(fields):
        told = classes or _options_by_labels(path, selection)
        read = partial(options.read_completion, options=told, label=selection.label)
        layout = LogLayout("completions with top_logprobs", "logits", read)
    else:
        return _find_plain(path, first, kind, selection)
    if kind not in (None, layout.kind):
        raise PredictionFileError(
            f"{file} holds {layout.title}, whose scores are log-likelihoods; use --scores logits"
        )
    return layout


def _options_by_labels(path: Path, selection: ColumnSelection) -> list[str] | None:
    """Options of completions: what the labels are; of letters, as many as a record has options."""
    found, n_options = set(), 0
    for record in read_records(path):
        label = options.label_of(record, selection.label)
        own = options.own_options(record.fields)
        if label is None:
            return own
        found.add(str(label).strip())
        n_options = max(n_options, len(own or ()))
    if all(len(label) == 1 and label in string.ascii_uppercase for label in found):
        last = string.ascii_uppercase.index(max(found))
        return list(string.ascii_uppercase[: max(1 + last, n_options)])
    return sorted(found)


def _find_confidences(path: Path, name: str, selection: ColumnSelection) -> LogLayout:
    """One number a record, how sure a model says to be: in percent if any is larger than 1."""
    found = [(record.fields.get(name), record.where) for record in read_records(path)]
    known: list[Any] = [pair for pair in found if options.is_score(pair[0])]
    scale = 100.0 if any(value > 1.0 for value, _ in known) else 1.0
    broken = [pair for pair in known if scale > 1.0 and 0.0 < pair[0] < 1.0]
    if broken:
        raise PredictionFileError(
            f"{broken[0][1]}: {name!r} is {broken[0][0]}, but others are larger than 1; write all "
            "as percent, or all from 0 to 1"
        )
    read = partial(options.read_confidence, name=name, scale=scale, label=selection.label)
    unit = " in percent" if scale > 1.0 else ""
    return LogLayout(f"records with a confidence {name!r}{unit}", "probabilities", read, True)


def _find_plain(
    path: Path, first: Record, kind: str | None, selection: ColumnSelection
) -> LogLayout:
    fields: dict[str, Any] = first.fields
    nested = [name for name, value in fields.items() if isinstance(value, list | dict)]
    chosen = [name for name in selection.columns or SCORE_FIELDS if name in nested]
    if len(chosen) > 1:
        raise PredictionFileError(
            f"{first.where}: the fields {some(chosen)} may all hold the scores; choose one with "
            "--columns"
        )
    if not chosen:
        label = options.label_field(fields, selection.label)
        leave = {label, *selection.ignore, *(n for n in fields if n.casefold() in PREDICTION_NAMES)}
        numbers = [n for n, v in fields.items() if options.is_score(v) and n not in leave]
        truths = [n for n in numbers if n in options.TRUTH_FIELDS and repr(fields[n]) in ("0", "1")]
        if len(numbers) == len(truths) + 1 and fields.get(str(label)) not in numbers:
            numbers = [n for n in numbers if n not in truths]  # they say what was right
        names = selection.columns or numbers
        if len(names) == 1 and options.is_score(fields.get(names[0])) and kind in CONFIDENCES:
            return _find_confidences(path, names[0], selection)
        if len(names) < 2:
            raise PredictionFileError(
                f"{first.where} has the fields {some(list(fields), 8)}; write scores in a field "
                "such as 'probs' or 'logits', or choose their field with --columns"
            )
        read = partial(options.read_plain, name="", flat=list(names), label=selection.label)
        return LogLayout("records with a number for each class", kind or "probabilities", read)
    name, told = chosen[0], SCORE_FIELDS.get(chosen[0])
    if told is not None and kind not in (None, told):
        raise PredictionFileError(f"{first.where}: the field {name!r} holds {told}, not {kind}")
    read = partial(options.read_plain, name=name, label=selection.label)
    return LogLayout(f"records with the field {name!r}", told or kind or "probabilities", read)


def leave_out_absent(
    rows: NDArray[Any], scores: NDArray[Any], kind: str, order: NDArray[np.int64] | None
) -> NDArray[Any]:
    """Give what absent options got to the others, where the model knows of no absent ones."""
    given = scores if order is None else scores[:, order]
    kept: NDArray[Any] = np.where(given == (-math.inf if kind == "logits" else 0.0), 0.0, rows)
    kept /= kept.sum(axis=1, keepdims=True)
    return kept
