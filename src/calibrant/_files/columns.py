"""Which columns of a table hold the labels, the scores, or something else."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from calibrant._files.text import MISSING
from calibrant._gate import ONE_COLUMN, are_whole
from calibrant.errors import PredictionFileError, some_in_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    Samples = Mapping[str, Sequence[str] | None]

LABEL_NAMES = {"label", "labels", "target", "y", "y_true", "class"}
PREDICTION_NAMES = {"y_pred", "y_hat", "pred", "prediction", "predicted"}
"""What a classifier decided: neither a label nor a score, unless the caller says so."""

INDEX_NAMES = {"", "Unnamed: 0", "__index_level_0__"}
"""What pandas calls an index that was written with the table."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a caller asks of a file, and says about it.

    ``part`` is "val" or "test" of an npz file with arrays of both, and an error for other files;
    ``usual_part`` is read where none is asked for. An npz file tells the kind of its scores by the
    names of its arrays; other files hold probabilities unless ``kind`` says otherwise, and a single
    column is of the positive class of two. ``labels`` is a npy file with the labels, for scores in
    a npy file; ``classes`` are those of a log.

    Of a table, ``label`` names the column of labels; ``columns`` and ``ignore`` are names or
    patterns of columns that hold scores, and that hold none. A score that is missing in a text
    table is an error, or NaN where ``takes_missing`` says that bad rows are dealt with. ``beside``
    are columns that are read, too, and the option that names each; ``reads_others`` says that all
    others are, since they are written again, and ``reads_scores`` whether scores are. ``fitted``
    are the columns that a model was fitted to: a table that has all of them may have other numbers
    beside them. ``options`` are what names the columns of scores and of labels, for messages.
    """

    part: str | None = None
    usual_part: str | None = None
    kind: str | None = None
    labels: Path | None = None
    classes: Sequence[Any] | None = None
    label: str | None = None
    columns: Sequence[str] = ()
    ignore: Sequence[str] = ()
    takes_missing: bool = False
    beside: Mapping[str, str] = field(default_factory=dict)
    reads_others: bool = False
    reads_scores: bool = True
    fitted: Sequence[str] = ()
    options: tuple[str, str] = ("--columns", "--label-column")

    def read_of(self, layout: Layout) -> list[str]:
        """Return the columns of a table to read."""
        needed = {layout.label, *self.beside}
        needed |= {*layout.score_names} if self.reads_scores else set()
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


def make_layout(names: list[str], samples: Samples, request: Request, where: str) -> Layout:
    """Tell labels, scores and other columns apart.

    ``samples`` are the first values of each column, empty ones left out; None for a column that is
    text whatever it holds. ``where`` is the file, for messages.
    """
    ignored = _chosen(names, request.ignore, "--ignore", where) | INDEX_NAMES
    for name, option in request.beside.items():
        if name not in names:
            raise no_column(where, name, option, names)
        ignored.add(name)
    predicted = [n for n in names if n.casefold() in PREDICTION_NAMES and n not in ignored]
    text = {name for name in names if _is_text(samples[name])}
    free = [name for name in names if name not in {*ignored, *predicted}]
    label = _label(free, text, samples, request, where)
    if request.columns:
        chosen = _chosen(names, request.columns, request.options[0], where) - {label}
        scores = [name for name in names if name in chosen]
    else:
        scores = [name for name in free if name != label and name not in text]
        if request.fitted and {*request.fitted} <= {*scores}:
            scores = [name for name in scores if name in request.fitted]
        for name in predicted:
            if name != label and name not in text and not are_whole(_spoken(samples[name])):
                raise PredictionFileError(
                    f"{where}: column {name!r} has the name of predicted labels, but holds "
                    f"fractions; choose the columns of scores with --columns, or leave it out with "
                    f"--ignore {name}"
                )
    if len(scores) < 2:
        _refuse_few(scores, predicted, samples, request, where)
    is_named = label is not None and (request.label is not None or label.casefold() in LABEL_NAMES)
    return Layout(names, label, is_named, scores, bool(request.columns))


def _refuse_few(
    scores: list[str],
    predicted: list[str],
    samples: Samples,
    request: Request,
    where: str,
) -> None:
    """Refuse no column, or one that was not said to be, and may not be, of the positive class."""
    unused = f" ({some_in_words(predicted)} holds predicted labels)" if predicted else ""
    found, is_open = f"no columns of scores{unused}", request.kind is None
    if scores:
        is_whole = not request.columns and are_whole(samples[scores[0]] or ("",))
        if request.kind in ONE_COLUMN or (is_open and not is_whole):
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
    request: Request,
    where: str,
) -> str | None:
    if request.label is not None:
        if request.label not in samples:
            raise no_column(where, request.label, request.options[1], list(samples))
        return request.label
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
