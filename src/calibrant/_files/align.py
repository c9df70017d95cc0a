"""Bring the labels of a file and the names of its columns together."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._columns import are_whole, match_columns
from calibrant._containers import NamedMatrix
from calibrant._files.classes import classes_by_name, refuse_other_columns
from calibrant._files.values import groups_of, labels_of_archive, read_labels, refuse_unknown, typed
from calibrant._one_column import ONE_COLUMN, check_positive
from calibrant._simplex import (
    check_batch,
    check_scores,
    find_features,
    softmax,
)
from calibrant.errors import DataError, ParameterError, PredictionFileError, number_of
from calibrant.errors import some_in_words as some

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from calibrant._files.source import RawPredictions
    from calibrant._files.text import Place


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

    beside: dict[str, Any] = field(default_factory=dict)
    """Columns beside the scores that were asked for by name, as they are stored."""

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

    def groups(self, name: str | None) -> NDArray[Any] | None:
        """Return the group of each row, out of the column that ``--groups`` names, if it does."""
        return None if name is None else groups_of(self.beside[name], self.place)

    def known_classes(self, *others: Aligned) -> list[Any] | None:
        """Return the classes that files tell, by names or by the labels of all of them."""
        if self.classes is not None or any(own.y.ndim != 1 for own in (self, *others)):
            return self.classes
        known: list[Any] = np.unique(np.concatenate([self.y, *(own.y for own in others)])).tolist()
        n_columns = 2 if self.kind in ONE_COLUMN else self.matrix.shape[1]
        return known if len(known) == n_columns else None

    def take(self, rows: NDArray[Any]) -> Aligned:
        """Return some of the rows, without what stands beside them."""
        return replace(self, y=self.y[rows], matrix=self.matrix[rows], beside={})

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
        return Aligned(raw, found.scores, None, place, found.kind, normalize, beside=found.beside)
    known: list[Any] | None = None
    if names is not None and is_archive:
        y, known = labels_of_archive(read_labels(raw, found.place), names)
    elif names is not None and found.log is not None:
        y = read_labels(raw, found.place, as_text=not are_whole(names))
        known = typed(names, y)
    else:
        is_text = like is not None and like.y.dtype.kind == "U"
        y = read_labels(raw, found.place, as_text=is_text)
    if classes is not None:
        known = typed(classes, y)
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
        known = classes_by_name(found, names, y)
    if known is names is None and y.dtype.kind in "iu" and len(np.unique(y)) > n_columns:
        known = list(range(n_columns))
    if known is not None:
        refuse_unknown(y, known, found.place)
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
    whole = Aligned(
        y,
        found.scores,
        known,
        found.place,
        found.kind,
        normalize,
        has_absent=found.log is not None and found.log.has_absent,
        is_stated=found.log is not None and found.log.is_stated,
        beside=found.beside,
    )
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
    (own,) = typed([positive], y)
    others = [label for label in distinct if label != own]
    if not others and own in (0, 1):
        others = [1 - own]
    if len(others) != 1 or found.scores.shape[1] > 2:
        raise PredictionFileError(
            f"{where}: --positive {positive} is not one of two classes, which are "
            f"{some(distinct)}{'' if others else '; name both with --classes'}"
        )
    return [*others, own]
