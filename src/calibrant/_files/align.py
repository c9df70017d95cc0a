"""Labels of a file, the class of each of its columns, and columns beside the scores."""

from __future__ import annotations

import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from calibrant._files.source import Request
from calibrant._files.tables import MISSING
from calibrant._gate import (
    NamedMatrix,
    are_whole,
    check_batch,
    check_positive,
    check_scores,
    key,
    match_columns,
    n_classes_of,
    softmax,
)
from calibrant.errors import DataError, ParameterError, PredictionFileError, naming, number_of
from calibrant.errors import some_in_words as some

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from calibrant._files.source import Place, Rows
    from calibrant._gate import FeatureColumn, SimplexBatch
    from calibrant._predictions import Predictions
    from calibrant._types import Array, Bools, Labels, Wholes

    Classes = list[str | int]
    """Classes of columns, as labels are."""

LABEL_TYPES = {str, bytes, bool, int, float, type(None)}
LONGEST_TEXT = 1024
"""Characters of a label or group: every row of an array of text is as wide as the longest."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """Rows of a file with their labels, whole numbers or text, and the classes that it tells.

    Where rows have absent options, exact zeros and logits of minus infinity are these.
    """

    rows: Rows
    y: Labels
    classes: Classes | None
    request: Request

    @property
    def scores(self) -> Array | NamedMatrix:
        """The matrix, with the names of its columns where they have any."""
        names = self.rows.place.names
        return self.rows.scores if names is None else NamedMatrix(self.rows.scores, names)

    @property
    def source(self) -> str:
        """Where the rows come from."""
        return self.rows.place.source

    @property
    def normalize(self) -> str | None:
        """The parameter ``normalize`` of calibrators and checks."""
        return "rows" if self.request.normalize else None

    @property
    def groups(self) -> Labels | None:
        """Group of each row, if there are any."""
        name = self.request.groups
        return None if name is None else groups_of(self.rows.column(name), self.rows.place)

    @property
    def features(self) -> dict[str, Array] | None:
        """Columns of features by name, if there are any."""
        return features_of(self.rows, self.request.features) if self.request.features else None

    def labels(self) -> Labels:
        """Return the distinct labels."""
        return np.unique(self.y)

    def to_fit(self) -> tuple[object, ...]:
        """Return what ``fit`` takes."""
        return self.scores, self.y

    def to_measure(self) -> tuple[Predictions, Classes | None]:
        """Return predictions that are checked once, for every metric; they know their classes."""
        from calibrant.metrics import Predictions  # which ``apply`` needs not

        return Predictions.read(self.y, self.probabilities(), classes=self.classes), None

    def count_rows(self) -> tuple[int, int]:
        """Return how many rows a fit has used, and how many were read: all."""
        return len(self.y), len(self.y)

    def take(self, rows: Wholes) -> Aligned:
        """Return some of the rows, which were checked."""
        return replace(self, rows=self.rows.take(rows), y=self.y[rows])

    def probabilities(self) -> Array | NamedMatrix:
        """Scores as metrics take them."""
        kind, names = self.rows.kind, self.rows.place.names
        if kind == "probabilities" and self.normalize is None:
            return self.scores
        matrix = check_scores(self.rows.scores, kind, self.normalize)
        matrix = softmax(matrix) if kind in ("logits", "decision") else matrix
        return matrix if names is None or self.rows.is_single else NamedMatrix(matrix, names)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Let errors name the file, the line and the options: check once more in these words."""
        try:
            yield
        except (DataError, ParameterError):
            self.check()
            raise

    def check(self) -> SimplexBatch:
        """Check labels and scores, without warnings: these come with the work itself."""
        kind, classes, normalize = self.rows.kind, self.classes, self.normalize
        with warnings.catch_warnings(), naming(self.rows.place):
            warnings.simplefilter("ignore")
            return check_batch(self.scores, self.y, kind=kind, classes=classes, normalize=normalize)


def align(
    rows: Rows,
    request: Request | None = None,
    *,
    like: Aligned | None = None,
    labels: Sequence[str | int] | None = None,
    positive_last: bool = False,
) -> Aligned:
    """Read the labels of a file, and find the column of each class.

    ``like`` is another part of the same data, whose classes these are; ``labels`` are all that
    there are, if these are some of the rows. With ``positive_last``, two classes that names tell
    are in sorted order, whatever that of their columns: the second one is positive, unless the
    request says which. It is the class of a single column.
    """
    request = request or Request()
    place, names, is_single = rows.place, rows.place.names, rows.is_single
    as_text = like is not None and like.y.dtype.kind == "U"
    if labels:
        as_text = isinstance(labels[0], str)
    elif rows.names_are_classes and names is not None:
        as_text = not are_whole(names)
    y = read_labels(rows, as_text=as_text)
    labels = np.unique(y).tolist() if labels is None else labels
    known = _find_classes(rows, y, labels, request, like)
    if known is not None:
        refuse_unknown(y, known, place)
    two = known
    if request.positive is not None:
        two = _two_classes(rows, y, known or labels, request.positive)
    if is_single and len(two or labels) == 2:
        name = names[0] if names is not None and len(names) == 1 else None
        with naming(place):
            check_positive(np.array(two or labels), name, are_given=two is not None)
    aligned = Aligned(rows, y, two if is_single else known, request)
    if is_single or two is None or len(two) != 2:
        return aligned
    if request.positive is None:
        if not positive_last or request.classes is not None or rows.names_are_classes or not names:
            return aligned
        two = two if like is not None else np.unique(two).tolist()
    return _with_positive_last(aligned, two)


def _find_classes(
    rows: Rows, y: Labels, labels: Sequence[str | int], request: Request, like: Aligned | None
) -> Classes | None:
    """Return the class of each column, where something tells it."""
    place, names, n_columns = rows.place, rows.place.names, rows.scores.shape[1]
    is_single, n_classes = rows.is_single, n_classes_of(rows.kind, n_columns)
    if request.classes is not None:
        if len(request.classes) != n_classes:
            columns = f"{number_of(n_columns, 'column')} of scores"
            named = f"--classes names {len(request.classes)} classes"
            raise PredictionFileError(f"{place.source} has {columns}, but {named}")
        return _typed(request.classes, y)
    if like is not None:
        if names is not None and not is_single:
            n_known = like.rows.scores.shape[1]
            refuse_other_columns(place, n_columns, like.classes or range(n_known))
        return like.classes
    if names is not None and rows.names_are_classes:
        return _typed(names, y)
    if names is not None and not is_single:
        by_name = _classes_by_name(rows, names, y, labels, is_normalized=request.normalize)
        if by_name is not None:
            return by_name
    are_places = y.dtype.kind in "iu" and len(labels) > n_classes
    return list(range(n_classes)) if are_places else None


def _classes_by_name(
    rows: Rows, names: list[str], y: Labels, labels: Sequence[str | int], *, is_normalized: bool
) -> Classes | None:
    """Return the classes of the columns of a table, if names tell them: all columns hold scores.

    ``y`` are the labels of these rows, ``labels`` the distinct ones of all rows. Rows of
    probabilities have to sum to one, which tells a column that is none; nothing tells it of others.
    """
    with naming(rows.place):
        match = match_columns(names, labels)
    is_checked = rows.are_columns_sure or (rows.kind == "probabilities" and not is_normalized)
    if match is None:
        if 2 * sum(str(label) in names for label in labels) > len(labels):
            refuse_unknown(y, names, rows.place)  # of these rows; others come later
            return _typed(names, y)
        if not is_checked:
            raise PredictionFileError(
                f"{rows.place.source}: the columns {some(names)} are not named after the labels "
                f"{some(labels)}; choose the columns of scores with --columns, and name the class "
                "of each with --classes"
            )
        return None
    others = set(range(len(names))) - set(match.columns)
    if rows.are_columns_sure:
        return None if others else match.classes
    if not match.prefix and not is_checked:  # any name may be that of a class without rows
        seen = set(labels)
        others |= {j for j, c in zip(match.columns, match.classes, strict=True) if c not in seen}
    if others:
        raise PredictionFileError(
            f"{rows.place.source}: columns {some([names[j] for j in sorted(others)])} match no "
            "label, while others match all labels; leave them out with --ignore, or choose the "
            "columns of scores with --columns"
        )
    return match.classes


def _two_classes(rows: Rows, y: Labels, known: Sequence[str | int], positive: str) -> Classes:
    """Return two classes, the positive one last."""
    (own,) = _typed([positive], y)
    others = [label for label in known if label != own]
    if not others and isinstance(own, int) and own in (0, 1):
        others = [1 - own]
    if len(others) != 1 or rows.scores.shape[1] > 2:
        fault = f"--positive {positive} is not one of two classes, which are {some(known)}"
        remedy = "" if others else "; name both with --classes"
        raise PredictionFileError(f"{rows.place.source}: {fault}{remedy}")
    return [*others, own]


def _with_positive_last(aligned: Aligned, two: Classes) -> Aligned:
    """Exchange two columns unless the second one is of the second class; names alone tell it."""
    rows, place = aligned.rows, aligned.rows.place
    with naming(place):
        match = match_columns(place.names or [], two)
    own = np.unique(two).tolist() if aligned.classes is None else aligned.classes
    if match is None and own != two:  # whoever applies a model could not know of an exchange
        raise PredictionFileError(
            f"{place.source}: the first column is for {two[1]!r}, the class of --positive, and "
            "comes last only where columns are named after their classes; rename or exchange the "
            "columns, or leave out --positive"
        )
    if match is not None and match.classes != two:
        place = replace(place, names=(place.names or [])[::-1])
        rows = replace(rows, scores=rows.scores[:, ::-1], place=place)
    return replace(aligned, rows=rows, classes=two)


def refuse_other_columns(place: Place, n_columns: int, classes: Sequence[object]) -> None:
    """Refuse a file with more or fewer columns of scores than a model has classes."""
    if n_columns == len(classes):
        return
    names = place.names or []
    with naming(place):
        match = match_columns(names, list(classes))
    if match is None:
        columns = f"{number_of(n_columns, 'column')} of scores"
        raise PredictionFileError(
            f"{place.source} has {columns}, but the model has {len(classes)} classes"
        )
    used = {j for j, c in zip(match.columns, match.classes, strict=True) if c in classes}
    others = [name for j, name in enumerate(names) if j not in used]
    fault = f"columns {some(others)} are not classes of the model; leave them out with --ignore"
    raise PredictionFileError(f"{place.source}: {fault}")


def read_labels(rows: Rows, *, as_text: bool = False) -> Labels:
    """Return the labels of rows, or say where they could have been."""
    if rows.labels is None:
        raise PredictionFileError(
            f"{rows.place.source} has no labels; tables need a column 'label' or a single column "
            "of text, or name it with --label-column; npz files need an array 'labels', npy files "
            "--labels FILE (--test-labels FILE for TEST)"
        )
    return labels_of(rows.labels, rows.place, as_text=as_text)


def labels_of(stored: Labels, place: Place, *, as_text: bool = False) -> Labels:
    """Return labels as whole numbers where all of them are, else as they stand.

    In text, and where a label was missing in a table, whole numbers are written ``3.0``.
    """
    if stored.dtype.kind == "f" and np.all(np.isfinite(stored) & (stored == np.floor(stored))):
        stored = stored.astype(np.int64)
    if stored.dtype.kind in "iub":
        return stored.astype(str) if as_text else stored
    if stored.dtype.kind not in "OUSf" or not {*map(type, stored.tolist())} <= LABEL_TYPES:
        fault = f"labels of type {stored.dtype.name}, not text or whole numbers"
        remedy = f"name another column ({place.label_option})"
        raise PredictionFileError(f"{place.source} has {fault}; {remedy}")
    texts = texts_of(stored)
    distinct = dict.fromkeys(texts)
    is_missing = {text: bool(MISSING.fullmatch(text)) for text in distinct}
    are_numbers = not as_text and (
        stored.dtype.kind == "f" or all(are_whole([t]) or is_missing[t] for t in distinct)
    )
    for text in distinct:
        fault = _fault_of("" if are_numbers and is_missing[text] else text)
        if are_numbers and not fault and not are_whole([text]):
            fault = f"{text} is not a class; write whole numbers"
        if fault:
            where = place.place("y", texts.index(text))
            raise PredictionFileError(f"{where} {fault} ({place.label_option})")
    if not are_numbers:
        return np.array(texts, dtype=str)
    whole = {text: int(key(text)) for text in distinct}
    return np.array([whole[text] for text in texts], dtype=np.int64)


def refuse_unknown(y: Labels, known: Sequence[object], place: Place) -> None:
    """Refuse the first label that is not among the classes."""
    classes, labels = np.array(known), y
    if y.dtype.kind == "U" or classes.dtype.kind == "U":
        classes, labels = classes.astype(str), y.astype(str)
    bad = ~np.isin(labels, classes)
    if bad.any():
        i = int(np.argmax(bad))
        raise PredictionFileError(
            f"{place.place('y', i)} {y[i].item()!r} is not among the classes {some(known)}"
        )


def _typed(classes: Sequence[str], y: Labels) -> Classes:
    """Classes as the labels are: whole numbers or text."""
    if y.dtype.kind in "iu" and are_whole(classes):
        return [int(key(c)) for c in classes]
    return list(classes)


def texts_of(values: Array) -> list[str]:
    """Return values as text; what is missing is empty."""
    if values.dtype.kind == "M":
        values = values.astype(str)
    return [
        "" if own is None or own != own else own.decode() if isinstance(own, bytes) else str(own)  # noqa: PLR0124  (NaN)
        for own in values.tolist()
    ]


def _fault_of(text: str) -> str:
    """Return what is wrong with a label or a group, if anything."""
    if not text.strip():
        return "is missing; fill it, or drop the row"
    has = f"has {len(text):,} characters; at most {LONGEST_TEXT:,} are allowed"
    return has if len(text) > LONGEST_TEXT else ""


def groups_of(values: Array, place: Place, option: str = "--groups") -> Labels:
    """Return the group of each row, always as text: no name depends on what else is there."""
    texts = texts_of(values)
    for text in dict.fromkeys(texts):
        if fault := _fault_of(text):
            (where,) = place.where([texts.index(text)])
            raise PredictionFileError(f"{where}: the group {fault} ({option})")
    return np.array(texts, dtype=str)


def are_known(stored: Labels) -> Bools:
    """Return which labels are there: neither blank nor a word for none, such as NA."""
    return np.array([MISSING.fullmatch(text) is None for text in texts_of(stored)], dtype=bool)


def grades_of(stored: Array, place: Place) -> Array:
    """Return grades: numbers with fractions as they are, others as labels."""
    values = values_of(stored)
    if values.dtype.kind == "f" and np.isfinite(values).all() and (values % 1).any():
        return values
    return labels_of(np.array(texts_of(stored), dtype=object), place)


def values_of(values: Array) -> Array:
    """Return texts as the first of these that all of them are: whole numbers, numbers or times.

    None is a text that is missing.
    """
    if values.dtype.kind not in "OUS":
        return values
    import pyarrow as pa

    texts = [None if MISSING.fullmatch(text) else text for text in texts_of(values)]
    column = pa.array(texts, pa.string())
    for kind in (pa.int64(), pa.float64(), pa.timestamp("ns")):
        with suppress(pa.ArrowInvalid):
            return np.asarray(column.cast(kind))
    return np.array(texts, dtype=object)


def features_of(
    rows: Rows, names: Iterable[str], known: Sequence[FeatureColumn] = ()
) -> dict[str, Array]:
    """Return columns that stand beside the scores; text where a model was fitted to text."""
    are_text = {column.name for column in known if not column.is_number}
    result = {}
    for name in names:
        result[name] = values_of(rows.column(name))
        if name in are_text:
            texts = [text if text.strip() else None for text in texts_of(rows.column(name))]
            result[name] = np.array(texts, dtype=object)
    return result
