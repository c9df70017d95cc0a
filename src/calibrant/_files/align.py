"""Bring the labels of a file and the names of its columns together."""

from __future__ import annotations

import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._columns import are_whole, key, match_columns
from calibrant._containers import NamedMatrix
from calibrant._files.text import MISSING
from calibrant._one_column import ONE_COLUMN, check_positive
from calibrant._simplex import (
    SUM_TOLERANCE,
    check_batch,
    check_memory,
    check_scores,
    find_features,
    softmax,
)
from calibrant.errors import DataError, ParameterError, PredictionFileError, number_of
from calibrant.errors import some_in_words as some

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from calibrant._files.predictions import RawPredictions
    from calibrant._files.text import Place


FEWEST_IDS = 20
"""Rows from which on whole numbers that are all different are ids."""

LONGEST_LABEL = 1024
"""Characters of a label; a model file has no room for longer ones."""


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
    is_flipped: bool = False
    is_stated: bool = False
    """Whether the scores are confidences that a model stated of its answers."""

    @property
    def scores(self) -> Any:
        """The matrix, with the names of its columns where they have any."""
        names = self.place.names
        return self.matrix if names is None else NamedMatrix(self.matrix, names)

    def with_positive_last(self) -> Aligned:
        """Put two columns that are named after their classes into the sorted order of these."""
        two = self.classes
        return self if two is None or len(two) != 2 else self.ordered_by(sorted(two))

    def ordered_by(self, two: list[Any]) -> Aligned:
        """Put two columns that are named after their classes into the order of these."""
        names = self.place.names or []
        match = match_columns(names, two, self.place) if len(names) == 2 else None
        if match is None or match.classes == two:
            return self
        place = replace(self.place, names=names[::-1])
        return replace(self, matrix=self.matrix[:, ::-1], classes=two, place=place)

    def flipped(self, two: list[Any] | None, like: Aligned | None, by_name: bool) -> Aligned:
        """Exchange two columns unless the second one is of the second class; as ``like`` did.

        With ``by_name`` only those that are named after their classes: a model has to find them.
        """
        classes = sorted(np.unique(self.y).tolist()) if self.classes is None else self.classes
        is_turned = like is not None and like.is_flipped  # its classes are in the new order
        if two is None or (classes == two and not is_turned):
            return replace(self, classes=two)
        if by_name and match_columns(self.place.names or [], two, self.place) is None:
            raise PredictionFileError(
                f"{self.place.source}: the first column is for {two[1]!r}, the class of "
                "--positive, but a model expects it last unless columns are named after their "
                "classes; rename the columns, or leave out --positive"
            )
        place = replace(self.place, names=self.place.names and self.place.names[::-1])
        turned = self.matrix[:, ::-1]
        return replace(self, matrix=turned, classes=two, place=place, is_flipped=True)

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

    def take(self, rows: NDArray[Any]) -> Aligned:
        """Return some of the rows."""
        return replace(self, y=self.y[rows], matrix=self.matrix[rows])

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
        options: dict[str, Any] = {"kind": self.kind, "normalize": self.normalize}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_batch(self.scores, self.y, classes=self.classes, named=self.place, **options)


def align(
    found: RawPredictions,
    *,
    classes: Sequence[str] | None = None,
    like: Aligned | None = None,
    normalize: str | None = None,
    positive: str | None = None,
    positive_last: bool = False,
    by_name: bool = False,
) -> Aligned:
    """Read the labels of a file, and find the column of each class.

    ``classes`` are those of the columns, from whoever knows them; ``like`` is another part of the
    same data, whose classes these are. With ``positive_last``, two classes that names tell are in
    sorted order, whatever that of their columns: the second one is ``positive``, unless that is
    told. It is the class of a single column. ``by_name`` lets names alone change that order.
    """
    is_single = found.kind in ONE_COLUMN
    raw, names = found.require_labels(), found.place.names
    n_columns = 2 if is_single else found.scores.shape[1]
    is_archive = found.place.path.suffix.lower() == ".npz"
    if raw.ndim != 1:  # one-hot rows, for the validator
        place = replace(found.place, names=None)
        return Aligned(raw, found.scores, None, place, found.kind, normalize)
    known: list[Any] | None = None
    if names is not None and is_archive:
        y, known = labels_of_archive(read_labels(raw, found.place), names)
    elif names is not None and found.log is not None:
        y = read_labels(raw, found.place, as_text=not are_whole(names))
        known = _typed(names, y)
    else:
        is_text = like is not None and like.y.dtype.kind == "U"
        y = read_labels(raw, found.place, as_text=is_text)
    if classes is not None:
        known = _typed(classes, y)
        if len(known) != n_columns:
            raise PredictionFileError(
                f"{found.source} has {number_of(n_columns, 'column')} of scores, but --classes "
                f"names {len(known)} classes"
            )
    elif like is not None:
        known = like.classes
        if names is not None and not is_single:
            refuse_other_columns(found.place, n_columns, known or range(like.matrix.shape[1]))
    elif names is not None and known is None and not is_single:
        known = _classes_by_name(found, names, y)
    if known is names is None and y.dtype.kind in "iu" and len(np.unique(y)) > n_columns:
        known = list(range(n_columns))
    if known is not None:
        _refuse_unknown(y, known, found.place)
    two = known
    if positive is not None or is_single:
        two = _two_classes(found, y, known, positive)
        known = two if is_single else known
    labels = np.unique(y) if two is None else np.array(two)
    if is_single and names is not None and len(names) == 1 and len(labels) == 2:
        check_positive(labels, names[0], told=True, named=found.place)
    is_told = classes is not None or like is not None or found.log is not None or is_archive
    if not is_told:
        _refuse_features(found, y, known)
    has_absent = found.log is not None and found.log.has_absent
    whole = Aligned(y, found.scores, known, found.place, found.kind, normalize, has_absent)
    if found.log is not None and found.log.is_stated:
        whole = replace(whole, is_stated=True)
    if positive is not None and positive_last and not is_single:
        return whole.flipped(two, like, by_name)
    if not positive_last or classes is not None or is_archive:
        return whole
    return whole.with_positive_last() if like is None else whole.ordered_by(like.classes or [])


def _refuse_features(found: RawPredictions, y: NDArray[Any], known: list[Any] | None) -> None:
    """Refuse features as logits: names such as x0 and x1 seem to be those of classes 0 and 1."""
    if found.kind == "logits" and known is not None and len(np.unique(y)) < len(known):
        options: dict[str, Any] = {"classes": known, "is_chunk": True, "named": found.place}
        batch = check_batch(found.scores, y, kind="logits", **options)
        features = find_features(batch, found.place)
        if features is not None:
            raise PredictionFileError(features)


def _two_classes(
    found: RawPredictions, y: NDArray[Any], known: list[Any] | None, positive: str | None
) -> list[Any] | None:
    """Return two classes, the positive one last, where it is known; refuse a column of none."""
    distinct, where = np.unique(y).tolist() if known is None else known, found.source
    if positive is None:
        if known is None and len(distinct) == 2:
            check_positive(np.array(distinct), told=False, named=found.place)
        return known
    (own,) = _typed([positive], y)
    others = [label for label in distinct if label != own]
    if not others and own in (0, 1):
        others = [1 - own]
    if len(others) != 1 or found.scores.shape[1] > 2:
        raise PredictionFileError(
            f"{where}: --positive {positive} is not one of two classes, which are "
            f"{some(distinct)}{'' if others else '; name both with --classes'}"
        )
    return [*others, own]


def read_labels(raw: NDArray[Any], place: Place, *, as_text: bool = False) -> NDArray[Any]:
    """Labels as whole numbers where all of them are, else as they stand.

    In text, and where a label was missing in a table, whole numbers are written ``3.0``.
    """
    if raw.dtype.kind == "f":
        _refuse_missing(~np.isfinite(raw), place)
        _refuse_broken(raw != np.floor(raw), place, raw)
        raw = raw.astype(np.int64)
    if raw.dtype.kind not in "OUS":
        return raw.astype(str) if as_text else raw
    found = [t.decode() if isinstance(t, bytes) else str(t) for t in raw.tolist()]
    for i, label in enumerate(found):
        if len(label) > LONGEST_LABEL:  # in an array of text every row would be as wide
            raise PredictionFileError(
                f"{place.label(i)} has {len(label):,} characters; labels have at most "
                f"{LONGEST_LABEL:,} (--label-column)"
            )
    check_memory(4 * len(found) * max(map(len, found), default=0), "the labels")
    text = np.array(found, dtype=str)
    distinct, inverse = np.unique(text, return_inverse=True)
    spoken = [label for label in distinct.tolist() if not MISSING.fullmatch(label)]
    numbers = all(
        re.fullmatch(r"\s*[+-]?[0-9]{1,18}(\.[0-9]*)?\s*", label) is not None for label in spoken
    )
    silent = [MISSING.fullmatch(t) is not None and (numbers or not t.strip()) for t in distinct]
    _refuse_missing(np.array(silent, dtype=bool)[inverse], place)
    if not numbers or as_text:
        return text
    broken = np.array([not are_whole([label]) for label in distinct.tolist()], dtype=bool)
    _refuse_broken(broken[inverse], place, text)
    return np.array([int(key(label)) for label in distinct.tolist()], dtype=np.int64)[inverse]


def _refuse(bad: NDArray[Any], place: Place, fault: Callable[[int], str]) -> None:
    """Refuse the first label that is bad."""
    if bad.any():
        i = int(np.argmax(bad))
        raise PredictionFileError(f"{place.label(i)} {fault(i)}")


def _refuse_missing(bad: NDArray[Any], place: Place) -> None:
    _refuse(bad, place, lambda _: "is missing; fill it, or drop the row")


def _refuse_broken(bad: NDArray[Any], place: Place, labels: NDArray[Any]) -> None:
    remedy = "labels must be text or whole numbers (--label-column)"
    _refuse(bad, place, lambda i: f"{labels[i]} is not a class; {remedy}")


def _refuse_unknown(y: NDArray[Any], known: list[Any], place: Place) -> None:
    classes, labels = np.array(known), y
    if y.dtype.kind == "U" or classes.dtype.kind == "U":
        classes, labels = classes.astype(str), y.astype(str)
    among = f"is not among the classes {some(known)}"
    _refuse(~np.isin(labels, classes), place, lambda i: f"{y[i].item()!r} {among}")


def _typed(classes: Sequence[str], y: NDArray[Any]) -> list[Any]:
    """Classes as the labels are: whole numbers or text."""
    if y.dtype.kind in "iu" and are_whole(classes):
        return [int(key(c)) for c in classes]
    return list(classes)


def labels_of_archive(y: NDArray[Any], names: list[str]) -> tuple[NDArray[Any], list[Any]]:
    """Labels of an npz file, and its ``classes``.

    Labels are among the classes; numbers beside classes of text are places of classes. So what a
    label means does not depend on which others are there.
    """
    if y.dtype.kind == "f" and np.all(y == np.floor(y)):
        y = y.astype(np.int64)
    if y.dtype.kind == "b":  # as the classes, whose names are text
        y = y.astype(str)
    if y.dtype.kind in "iu" and not are_whole(names):
        known = (y >= 0) & (y < len(names))
        text = y.astype(str).astype(object)
        text[known] = np.array(names, dtype=object)[y[known]]
        return text.astype(str), list(names)
    return y, _typed(names, y)


def _classes_by_name(found: RawPredictions, names: list[str], y: NDArray[Any]) -> list[Any] | None:
    """Classes of the columns of a table, where the names tell them; all columns hold scores."""
    distinct, counts = np.unique(y, return_counts=True)
    labels = distinct.tolist()
    match = match_columns(names, labels, found.place)
    if match is None:
        frequent = distinct[np.argsort(-counts, kind="stable")[: (1 + len(labels)) // 2]]
        _refuse_label_without_column(found.place, names, y, frequent.tolist())
        if not found.are_columns_sure:
            _refuse_outsiders(found, names, len(labels))
        return None
    others = set(range(len(names))) - set(match.columns)
    if found.are_columns_sure:
        return None if others else match.classes
    if not match.prefix and not match.suffix and y.dtype.kind not in "iu":
        seen = set(labels)
        absent = [j for j, c in zip(match.columns, match.classes, strict=True) if c not in seen]
        if absent and not _complete_the_rows(found, absent):
            others |= set(absent)
    _refuse_columns(
        found,
        sorted(others),
        "match no label, while others match all labels; leave them out with --ignore, or choose "
        "the columns of scores with --columns",
    )
    return match.classes


def _refuse_columns(found: RawPredictions, columns: Any, fault: str) -> None:
    if len(columns):
        names = [(found.place.names or [])[j] for j in columns]
        raise PredictionFileError(f"{found.source}: columns {some(names)} {fault}")


def _complete_the_rows(found: RawPredictions, columns: list[int]) -> bool:
    """Whether columns that match no label are classes: rows sum to one with each, not without."""
    are_used = bool((found.scores[:, columns] > 0).any(axis=0).all())
    return found.kind == "probabilities" and are_used and _sum_to_one(found.scores)


def _sum_to_one(rows: NDArray[Any]) -> bool:
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = np.abs(rows.sum(axis=1) - 1.0)
    gaps = gaps[np.isfinite(gaps)]
    return len(gaps) > 0 and bool(np.median(gaps) <= SUM_TOLERANCE)


def _refuse_outsiders(found: RawPredictions, names: list[str], n_labels: int) -> None:
    """Refuse columns of numbers that are no scores, where names do not tell which are.

    Ids, folds and ages are whole numbers. Scores are not, but for a class that is certain or
    impossible in every row, and for votes and counts, which all columns hold: among these only a
    column with another number in every row is told apart, if chance cannot do it.
    """
    scores = found.scores
    is_out = ((scores < -SUM_TOLERANCE) | (scores > 1.0 + SUM_TOLERANCE)).any(axis=0)
    if found.kind == "probabilities" and (~is_out).sum() >= 2 and _sum_to_one(scores[:, ~is_out]):
        no_probabilities = "are not probabilities, while the others sum to one; leave them out with"
        _refuse_columns(found, np.flatnonzero(is_out), f"{no_probabilities} --ignore")
    known = [column[np.isfinite(column)] for column in scores.T]
    is_whole = np.array([len(own) > 0 and np.all(own == np.floor(own)) for own in known])
    fewest = max(len(scores), FEWEST_IDS) if is_whole.all() else 3
    is_counted = is_whole & [len(np.unique(own)) >= fewest for own in known]
    if not is_counted.all():
        _refuse_columns(
            found,
            np.flatnonzero(is_counted),
            "are whole numbers, such as ids or folds, while the others are scores; leave them out "
            "with --ignore, or choose the columns of scores with --columns",
        )
    if found.kind == "logits" and n_labels != len(names):
        raise PredictionFileError(
            f"{found.source} has {len(names)} columns of numbers and {n_labels} distinct labels, "
            "and the names do not say which column belongs to which label; choose the columns "
            "with --columns, or leave some out with --ignore"
        )


def _refuse_label_without_column(
    place: Place, names: list[str], y: NDArray[Any], frequent: list[Any]
) -> None:
    """Refuse a label that is the name of no column, while the frequent ones are."""
    are_places = y.dtype.kind in "iu"
    if are_places and len(np.unique(y)) <= len(names):
        return
    match = match_columns(names, frequent, place)
    if match is not None and (len(frequent) > 1 or not match.prefix + match.suffix):
        _refuse_unknown(y, match.classes, place)
    if are_places:
        _refuse_unknown(y, list(range(len(names))), place)


def refuse_other_columns(place: Place, n_columns: int, classes: Sequence[Any]) -> None:
    """Refuse a file with more or fewer columns of scores than a model has classes."""
    names = place.names
    if n_columns == len(classes):
        return
    match = None if names is None else match_columns(names, list(classes), place)
    if names is None or match is None:
        raise PredictionFileError(
            f"{place.source} has {number_of(n_columns, 'column')} of scores, but the model has "
            f"{len(classes)} classes"
        )
    own = dict(zip(match.columns, match.classes, strict=True))
    others = [name for j, name in enumerate(names) if own.get(j) not in set(classes)]
    raise PredictionFileError(
        f"{place.source}: columns {some(others)} are not classes of the model; leave them out "
        "with --ignore"
    )
