"""Bring the labels of a file and the names of its columns together: which is of which class."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._files.values import (
    features_of,
    groups_of,
    read_labels,
    refuse_unknown,
    typed,
)
from calibrant._gate import (
    ONE_COLUMN,
    SUM_TOLERANCE,
    NamedMatrix,
    are_whole,
    check_batch,
    check_positive,
    check_scores,
    find_features,
    match_columns,
    softmax,
)
from calibrant.errors import DataError, ParameterError, PredictionFileError, number_of
from calibrant.errors import some_in_words as some

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from calibrant._files.source import RawPredictions
    from calibrant._files.text import Place


CHOOSE = "leave them out with --ignore, or choose the columns of scores with --columns"


@dataclass(frozen=True, slots=True)
class Aligned:
    """Labels, whole numbers or text, and scores, with the classes that the file tells.

    Where rows have absent options, exact zeros and logits of minus infinity are these.
    """

    y: NDArray[Any]
    matrix: NDArray[Any]
    classes: list[Any] | None
    place: Place
    kind: str
    normalize: str | None
    has_absent: bool = False
    is_stated: bool = False
    """Whether the scores are confidences that a model stated of its answers."""

    beside: dict[str, Any] = field(default_factory=dict)
    """Columns beside the scores that were asked for by name, as they are stored."""

    @property
    def scores(self) -> Any:
        """The matrix, with the names of its columns where they have any."""
        names = self.place.names
        return self.matrix if names is None else NamedMatrix(self.matrix, names)

    @property
    def source(self) -> str:
        """Where the rows come from."""
        return self.place.source

    def to_fit(self) -> tuple[Any, ...]:
        """Return what ``fit`` takes."""
        return self.scores, self.y

    def to_measure(self) -> tuple[Any, list[Any] | None]:
        """Return predictions that are checked once, for every metric; they know their classes."""
        from calibrant.metrics import Predictions  # which ``apply`` needs not

        return Predictions.read(self.y, self.probabilities(), classes=self.classes), None

    def count_rows(self) -> tuple[int, int]:
        """Return how many rows a fit has used, and how many were read: all."""
        return len(self.y), len(self.y)

    def groups(self, name: str | None) -> NDArray[Any] | None:
        """Return the group of each row, out of the column of this name, if there is one."""
        return None if name is None else groups_of(self.beside[name], self.place)

    def features(self, names: Sequence[str] | None) -> pd.DataFrame | None:
        """Return the columns of these names, if there are any."""
        return None if names is None else features_of(self.beside, names)

    def known_classes(self, *others: Aligned) -> list[Any] | None:
        """Return the classes that files tell, by names or by the labels of all of them."""
        if self.classes is not None or any(own.y.ndim != 1 for own in (self, *others)):
            return self.classes
        known: list[Any] = np.unique(np.concatenate([self.y, *(own.y for own in others)])).tolist()
        n_columns = 2 if self.kind in ONE_COLUMN else self.matrix.shape[1]
        return known if len(known) == n_columns else None

    def take(self, rows: NDArray[np.int64]) -> Aligned:
        """Return some of the rows."""
        beside = {
            name: [column[i] for i in rows] if isinstance(column, list) else column.take(rows)
            for name, column in self.beside.items()
        }
        return replace(self, y=self.y[rows], matrix=self.matrix[rows], beside=beside)

    def probabilities(self) -> Any:
        """Scores as metrics take them."""
        if self.kind == "probabilities" and self.normalize is None:
            return self.scores
        matrix = check_scores(self.matrix, self.kind, self.normalize)
        if self.kind in ONE_COLUMN:
            return softmax(matrix) if self.kind == "decision" else matrix
        return replace(self, matrix=softmax(matrix) if self.kind == "logits" else matrix).scores

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Let errors name the file, the line and the options: check once more in these words."""
        try:
            yield
        except (DataError, ParameterError):
            self.check()
            raise

    def check(self) -> None:
        """Check labels and scores, without warnings: these come with the work itself."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_batch(
                self.scores,
                self.y,
                kind=self.kind,
                classes=self.classes,
                normalize=self.normalize,
                named=self.place,
            )


def align(
    found: RawPredictions,
    *,
    classes: Sequence[str] | None = None,
    like: Aligned | None = None,
    labels: list[Any] | None = None,
    normalize: str | None = None,
    positive: str | None = None,
    positive_last: bool = False,
) -> Aligned:
    """Read the labels of a file, and find the column of each class.

    ``classes`` are those of the columns, from whoever knows them; ``like`` is another part of the
    same data, whose classes these are; ``labels`` are all that there are, if these are some of the
    rows. With ``positive_last``, two classes that names tell are in
    sorted order, whatever that of their columns: the second one is ``positive``, unless that is
    told. It is the class of a single column.
    """
    raw, place, log = found.require_labels(), found.place, found.log
    if raw.ndim != 1:  # one-hot rows, for the validator
        place = replace(place, names=None)
        return Aligned(raw, found.scores, None, place, found.kind, normalize, beside=found.beside)
    is_single, names = found.kind in ONE_COLUMN, place.names
    as_text = like is not None and like.y.dtype.kind == "U"
    if labels:
        as_text = isinstance(labels[0], str)
    elif found.names_are_classes and names is not None:
        as_text = not are_whole(names)
    y = read_labels(raw, place, as_text=as_text)
    labels = np.unique(y).tolist() if labels is None else labels
    known = _find_classes(found, y, labels, classes, like, normalize)
    if known is not None:
        refuse_unknown(y, known, place)
    two = known
    if positive is not None or is_single:
        two = _two_classes(found, y, labels, known, positive)
        known = two if is_single else known
    both = np.array(labels if two is None else two)
    if is_single and names is not None and len(names) == 1 and len(both) == 2:
        check_positive(both, names[0], told=True, named=place)
    if classes is None and like is None and not found.names_are_classes:
        _refuse_features(found, y, labels, known)
    whole = Aligned(
        y,
        found.scores,
        known,
        place,
        found.kind,
        normalize,
        has_absent=log is not None and log.has_absent,
        is_stated=log is not None and log.is_stated,
        beside=found.beside,
    )
    if is_single or not positive_last:
        return whole
    if positive is not None and two is not None:
        return _with_positive_last(whole, two)
    is_told = classes is not None or found.names_are_classes or not names
    if is_told or known is None or len(known) != 2:
        return whole
    return _with_positive_last(whole, sorted(known) if like is None else known)


def _find_classes(
    found: RawPredictions,
    y: NDArray[Any],
    labels: list[Any],
    classes: Sequence[str] | None,
    like: Aligned | None,
    normalize: str | None,
) -> list[Any] | None:
    """Return the class of each column, where something tells it."""
    place, names, n_columns = found.place, found.place.names, found.scores.shape[1]
    is_single = found.kind in ONE_COLUMN
    n_classes = 2 if is_single else n_columns
    if classes is not None:
        if len(classes) != n_classes:
            raise PredictionFileError(
                f"{place.source} has {number_of(n_columns, 'column')} of scores, but --classes "
                f"names {len(classes)} classes"
            )
        return typed(classes, y)
    if like is not None:
        if names is not None and not is_single:
            refuse_other_columns(place, n_columns, like.classes or range(like.matrix.shape[1]))
        return like.classes
    if names is not None and found.names_are_classes:
        return typed(names, y)
    if names is not None:
        return None if is_single else classes_by_name(found, names, y, labels, normalize)
    are_places = y.dtype.kind in "iu" and len(labels) > n_classes
    return list(range(n_classes)) if are_places else None


def _with_positive_last(whole: Aligned, two: list[Any]) -> Aligned:
    """Exchange two columns unless the second one is of the second class; names alone tell it."""
    match = match_columns(whole.place.names or [], two, whole.place)
    own = sorted(two) if whole.classes is None else whole.classes
    if match is None and own != two:  # whoever applies a model could not know of an exchange
        raise PredictionFileError(
            f"{whole.source}: the first column is for {two[1]!r}, the class of --positive, and "
            "comes last only where columns are named after their classes; rename or exchange the "
            "columns, or leave out --positive"
        )
    if match is None or match.classes == two:
        return replace(whole, classes=two)
    names = (whole.place.names or [])[::-1]
    place = replace(whole.place, names=names)
    return replace(whole, matrix=whole.matrix[:, ::-1], classes=two, place=place)


def _refuse_features(
    found: RawPredictions, y: NDArray[Any], labels: list[Any], known: list[Any] | None
) -> None:
    """Refuse features as logits: names such as x0 and x1 seem to be those of classes 0 and 1."""
    if found.kind == "logits" and known is not None and len(labels) < len(known):
        batch = check_batch(
            found.scores, y, kind="logits", classes=known, is_chunk=True, named=found.place
        )
        features = find_features(batch, found.place)
        if features is not None:
            raise PredictionFileError(features)


def _two_classes(
    found: RawPredictions,
    y: NDArray[Any],
    labels: list[Any],
    known: list[Any] | None,
    positive: str | None,
) -> list[Any] | None:
    """Return two classes, the positive one last, where it is known; refuse a column of none."""
    distinct = labels if known is None else known
    if positive is None:
        if known is None and len(distinct) == 2:
            check_positive(np.array(distinct), told=False, named=found.place)
        return known
    (own,) = typed([positive], y)
    others = [label for label in distinct if label != own]
    if not others and own in (0, 1):
        others = [1 - own]
    if len(others) != 1 or found.scores.shape[1] > 2:
        raise PredictionFileError(
            f"{found.place.source}: --positive {positive} is not one of two classes, which are "
            f"{some(distinct)}{'' if others else '; name both with --classes'}"
        )
    return [*others, own]


def classes_by_name(
    found: RawPredictions,
    names: list[str],
    y: NDArray[Any],
    labels: list[Any],
    normalize: str | None,
) -> list[Any] | None:
    """Classes of the columns of a table, where the names tell them; all columns hold scores.

    ``y`` are the labels of these rows, ``labels`` the distinct ones of all rows.
    """
    match = match_columns(names, labels, found.place)
    if match is None and (y.dtype.kind not in "iu" or len(labels) > len(names)):
        # A label that is the name of no column, while the frequent ones are, is refused later.
        distinct, counts = np.unique(y, return_counts=True)
        frequent = distinct[np.argsort(-counts, kind="stable")[: (1 + len(distinct)) // 2]].tolist()
        partial = match_columns(names, frequent, found.place)
        if partial is not None and (len(frequent) > 1 or not partial.prefix):
            return partial.classes
        if y.dtype.kind in "iu":
            return list(range(len(names)))
    if match is None:
        if not found.are_columns_sure:
            _refuse_other_numbers(found, names, len(labels), normalize)
        return None
    others = set(range(len(names))) - set(match.columns)
    if found.are_columns_sure:
        return None if others else match.classes
    if not match.prefix and y.dtype.kind not in "iu":
        # Any name may be that of a class without rows; one that completes the rows is.
        seen = set(labels)
        absent = [j for j, c in zip(match.columns, match.classes, strict=True) if c not in seen]
        others |= set() if _complete_the_rows(found, absent) else set(absent)
    _refuse_columns(found, sorted(others), "match no label, while others match all labels")
    return match.classes


def _refuse_columns(found: RawPredictions, columns: Sequence[int], fault: str) -> None:
    if len(columns):
        names = some([(found.place.names or [])[j] for j in columns])
        raise PredictionFileError(f"{found.place.source}: columns {names} {fault}; {CHOOSE}")


def _complete_the_rows(found: RawPredictions, columns: list[int]) -> bool:
    """Whether rows are probabilities that sum to one with each of these columns, not without."""
    gaps = np.abs(found.scores.sum(axis=1) - 1.0)
    are_used = bool((found.scores[:, columns] > 0).any(axis=0).all())
    return found.kind == "probabilities" and are_used and bool(np.median(gaps) <= SUM_TOLERANCE)


def _refuse_other_numbers(
    found: RawPredictions, names: list[str], n_labels: int, normalize: str | None
) -> None:
    """Refuse columns of numbers that are no scores, where names do not tell which are.

    Ids, folds and ages are whole numbers. Scores are not, but for a class that is certain or
    impossible in every row, and for votes and counts, which all columns hold.
    """
    known = [column[np.isfinite(column)] for column in found.scores.T]
    is_counted = [bool(np.all(own % 1 == 0)) and len(np.unique(own)) > 2 for own in known]
    if not all(is_counted):
        fault = "are whole numbers, such as ids or folds, while the others are scores"
        _refuse_columns(found, np.flatnonzero(is_counted).tolist(), fault)
    # Rows of probabilities have to sum to one, which tells such a column; others do not.
    if n_labels != len(names) and (found.kind == "logits" or normalize is not None):
        raise PredictionFileError(
            f"{found.place.source} has {len(names)} columns of numbers and {n_labels} distinct "
            "labels, and the names do not say which column belongs to which label; choose the "
            "columns with --columns, or leave some out with --ignore"
        )


def refuse_other_columns(place: Place, n_columns: int, classes: Sequence[Any]) -> None:
    """Refuse a file with more or fewer columns of scores than a model has classes."""
    if n_columns == len(classes):
        return
    match = None if place.names is None else match_columns(place.names, list(classes), place)
    if place.names is None or match is None:
        raise PredictionFileError(
            f"{place.source} has {number_of(n_columns, 'column')} of scores, but the model has "
            f"{len(classes)} classes"
        )
    own = dict(zip(match.columns, match.classes, strict=True))
    others = [name for j, name in enumerate(place.names) if own.get(j) not in set(classes)]
    raise PredictionFileError(
        f"{place.source}: columns {some(others)} are not classes of the model; leave them out "
        "with --ignore"
    )
