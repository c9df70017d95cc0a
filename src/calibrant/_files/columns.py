"""Which columns of a table hold the labels, the scores, or something else."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from calibrant._files.text import MISSING
from calibrant._gate import are_whole
from calibrant.errors import PredictionFileError, some_in_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Samples = Mapping[str, Sequence[str] | None]

LABEL_NAMES = {"label", "labels", "target", "y", "y_true", "class"}
PREDICTION_NAMES = {"y_pred", "y_hat", "pred", "prediction", "predicted"}
"""What a classifier decided: neither a label nor a score, unless the caller says so."""

INDEX_NAMES = {"", "Unnamed: 0", "__index_level_0__"}
"""What pandas calls an index that was written with the table."""


@dataclass(frozen=True, slots=True)
class ColumnSelection:
    """What the caller says of the columns, or leaves open: that of the labels, by its name.

    Columns of scores, and columns that hold none, are names or patterns. A score that is missing in
    a text table is an error, or NaN where ``takes_missing`` says that bad rows are dealt with.
    ``is_single`` says whether there is one column of scores, of the positive class; or nobody does.
    ``beside`` are columns that are read, too, and the option that names each; ``reads_others``
    says that all others are, since they are written again. ``fitted`` are the columns that a model
    was fitted to: a table that has all of them may have other numbers beside them.
    """

    label: str | None = None
    columns: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    takes_missing: bool = False
    is_single: bool | None = None
    beside: Mapping[str, str] = field(default_factory=dict)
    reads_others: bool = False
    fitted: tuple[str, ...] = ()

    def read_of(self, layout: Layout) -> list[str]:
        """Return the columns to read."""
        needed = {layout.label, *layout.score_names, *self.beside}
        return [name for name in layout.names if self.reads_others or name in needed]


@dataclass(frozen=True, slots=True)
class Layout:
    """What the columns of a table are.

    The label column is named if it was asked for, or has the name of one. Where the caller did not
    choose the columns of scores, they are all that hold numbers.
    """

    names: list[str]
    label: str | None
    is_named: bool
    score_names: list[str]
    is_chosen: bool


def make_layout(
    names: list[str], samples: Samples, selection: ColumnSelection, where: str
) -> Layout:
    """Tell labels, scores and other columns apart.

    ``samples`` are the first values of each column, empty ones left out; None for a column that is
    text whatever it holds. ``where`` is the file, for messages.
    """
    ignored = _chosen(names, selection.ignore, "--ignore", where) | INDEX_NAMES
    for name, option in selection.beside.items():
        if name not in names:
            raise no_column(where, name, option, names)
        ignored.add(name)
    predicted = [n for n in names if n.casefold() in PREDICTION_NAMES and n not in ignored]
    text = {name for name in names if _is_text(samples[name])}
    free = [name for name in names if name not in {*ignored, *predicted}]
    label = _label(free, text, samples, selection, where)
    if selection.columns:
        chosen = _chosen(names, selection.columns, "--columns", where) - {label}
        scores = [name for name in names if name in chosen]
    else:
        scores = [name for name in free if name != label and name not in text]
        if selection.fitted and {*selection.fitted} <= {*scores}:
            scores = [name for name in scores if name in selection.fitted]
        for name in predicted:
            if name != label and name not in text and not are_whole(_spoken(samples[name])):
                raise PredictionFileError(
                    f"{where}: column {name!r} has the name of predicted labels, but holds "
                    f"fractions; choose the columns of scores with --columns, or leave it out with "
                    f"--ignore {name}"
                )
    if len(scores) < 2:
        _refuse_few(scores, predicted, samples, selection, where)
    is_named = label is not None and (
        selection.label is not None or label.casefold() in LABEL_NAMES
    )
    return Layout(names, label, is_named, scores, bool(selection.columns))


def _refuse_few(
    scores: list[str],
    predicted: list[str],
    samples: Samples,
    selection: ColumnSelection,
    where: str,
) -> None:
    """Refuse no column, or one that was not said to be, and may not be, of the positive class."""
    unused = f" ({some_in_words(predicted)} holds predicted labels)" if predicted else ""
    found, is_open = f"no columns of scores{unused}", selection.is_single is None
    if scores:
        is_whole = not selection.columns and are_whole(samples[scores[0]] or ("",))
        if selection.is_single or (is_open and not is_whole):
            return
        found = f"one column of scores, {scores[0]!r}"
        found += ", of whole numbers" if is_open else ""
    raise PredictionFileError(
        f"{where} has {found}; write a column of numbers for each of two or more classes "
        "(--columns), or for two classes one column with --scores positive, or --scores decision "
        "for margins"
    )


def _chosen(names: list[str], patterns: Sequence[str], option: str, where: str) -> set[str]:
    found: set[str] = set()
    for pattern in patterns:
        exact = [name for name in names if name == pattern]
        matching = exact or [name for name in names if fnmatchcase(name, pattern)]
        if not matching:
            raise no_column(where, pattern, option, names)
        found.update(matching)
    return found


def no_column(where: str, name: str, option: str, names: Sequence[str]) -> PredictionFileError:
    """Return the error about a column that an option names and a file has not."""
    return PredictionFileError(
        f"{where} has no column {name!r} ({option}); it has {some_in_words(names)}"
    )


def _label(
    free: list[str],
    text: set[str],
    samples: Samples,
    selection: ColumnSelection,
    where: str,
) -> str | None:
    if selection.label is not None:
        if selection.label not in samples:
            raise no_column(where, selection.label, "--label-column", list(samples))
        return selection.label
    if "label" in free:
        return "label"
    usual = [name for name in free if name.casefold() in LABEL_NAMES]
    whole = [name for name in usual if name not in text and are_whole(samples[name] or ())]
    named = [name for name in usual if name in text] or whole
    if len(named) > 1:
        raise PredictionFileError(
            f"{where}: columns {some_in_words(named)} may all hold the labels; choose one with "
            "--label-column"
        )
    others = [name for name in free if name in text]
    return named[0] if named else others[0] if len(others) == 1 else None


def _is_text(sample: Sequence[str] | None) -> bool:
    """Whether no value is a number, not even one with a decimal comma or a sign of percent."""
    if sample is None:
        return True
    numbers = [is_number(own.rstrip("% ").replace(",", ".")) for own in _spoken(sample)]
    return bool(numbers) and not any(numbers)


def _spoken(sample: Sequence[str] | None) -> list[str]:
    return [text for text in sample or () if not MISSING.fullmatch(text)]


def is_number(text: str) -> bool:
    """Whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_header(head: list[str], where: str) -> None:
    """Refuse a header in which a name is missing or there twice."""
    seen = set()
    for i, name in enumerate(head):
        if not name and i > 0:
            raise PredictionFileError(f"{where}: column {i + 1} has no name; add one")
        if name in seen:
            raise PredictionFileError(f"{where}: column name {name!r} appears twice; rename one")
        seen.add(name)
