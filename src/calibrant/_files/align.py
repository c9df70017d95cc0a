"""Bring the labels of a file and the names of its columns together: which is of which class."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._files.values import features_of, groups_of, read_labels, refuse_unknown, typed
from calibrant._gate import (
    ONE_COLUMN,
    NamedMatrix,
    are_whole,
    check_batch,
    check_positive,
    check_scores,
    match_columns,
    softmax,
)
from calibrant.errors import DataError, ParameterError, PredictionFileError, naming, number_of
from calibrant.errors import some_in_words as some

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from calibrant._files.source import RawPredictions
    from calibrant._files.tables import Place


@dataclass(frozen=True, slots=True)
class Aligned:
    """Labels, whole numbers or text, and scores, with the classes that the file tells.

    Where rows have absent options, exact zeros and logits of minus infinity are these. Scores may
    be confidences that a model stated of its answers. ``beside`` are columns beside the scores that
    were asked for by name, as they are stored.
    """

    y: NDArray[Any]
    matrix: NDArray[Any]
    classes: list[Any] | None
    place: Place
    kind: str
    normalize: str | None
    has_absent: bool = False
    is_stated: bool = False
    beside: dict[str, Any] = field(default_factory=dict)

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
        if self.classes is not None:
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
        with warnings.catch_warnings(), naming(self.place):
            warnings.simplefilter("ignore")
            check_batch(
                self.scores,
                self.y,
                kind=self.kind,
                classes=self.classes,
                normalize=self.normalize,
            )


def align(
    raw: RawPredictions,
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
    rows. With ``positive_last``, two classes that names tell are in sorted order, whatever that of
    their columns: the second one is ``positive``, unless that is given. It is the class of a single
    column.
    """
    place, names, is_single = raw.place, raw.place.names, raw.kind in ONE_COLUMN
    as_text = like is not None and like.y.dtype.kind == "U"
    if labels:
        as_text = isinstance(labels[0], str)
    elif raw.names_are_classes and names is not None:
        as_text = not are_whole(names)
    y = read_labels(raw.require_labels(), place, as_text=as_text)
    labels = np.unique(y).tolist() if labels is None else labels
    with naming(place):
        known = _find_classes(raw, y, labels, classes, like, normalize)
    if known is not None:
        refuse_unknown(y, known, place)
    is_given = classes is not None or raw.names_are_classes
    two = known if positive is None else _two_classes(raw, y, known or labels, positive)
    if is_single and len(two or labels) == 2:
        name = names[0] if names is not None and len(names) == 1 else None
        with naming(place):
            check_positive(np.array(two or labels), name, told=two is not None)
    rows = Aligned(
        y,
        raw.scores,
        two if is_single else known,
        place,
        raw.kind,
        normalize,
        has_absent=raw.has_absent,
        is_stated=raw.is_stated,
        beside=raw.beside,
    )
    if is_single or not positive_last or two is None or len(two) != 2:
        return rows
    if positive is None and (is_given or not names):
        return rows
    return _with_positive_last(rows, sorted(two) if positive is None and like is None else two)


def _find_classes(
    raw: RawPredictions,
    y: NDArray[Any],
    labels: list[Any],
    classes: Sequence[str] | None,
    like: Aligned | None,
    normalize: str | None,
) -> list[Any] | None:
    """Return the class of each column, where something tells it."""
    place, names, n_columns = raw.place, raw.place.names, raw.scores.shape[1]
    is_single = raw.kind in ONE_COLUMN
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
    if names is not None and raw.names_are_classes:
        return typed(names, y)
    if names is not None and not is_single:
        by_name = _classes_by_name(raw, names, y, labels, normalize)
        if by_name is not None:
            return by_name
    are_places = y.dtype.kind in "iu" and len(labels) > n_classes
    return list(range(n_classes)) if are_places else None


def _classes_by_name(
    raw: RawPredictions,
    names: list[str],
    y: NDArray[Any],
    labels: list[Any],
    normalize: str | None,
) -> list[Any] | None:
    """Return the classes of the columns of a table, if names tell them: all columns hold scores.

    ``y`` are the labels of these rows, ``labels`` the distinct ones of all rows. Rows of
    probabilities have to sum to one, which tells a column that is none; nothing tells it of others.
    """
    match = match_columns(names, labels)
    is_checked = raw.are_columns_sure or (raw.kind == "probabilities" and normalize is None)
    if match is None:
        if 2 * sum(str(label) in names for label in labels) > len(labels):
            refuse_unknown(y, names, raw.place)  # of these rows; others come later
            return typed(names, y)
        if not is_checked:
            raise PredictionFileError(
                f"{raw.place.source}: the columns {some(names)} are not named after the labels "
                f"{some(labels)}; choose the columns of scores with --columns, and name the class "
                "of each with --classes"
            )
        return None
    others = set(range(len(names))) - set(match.columns)
    if raw.are_columns_sure:
        return None if others else match.classes
    if not match.prefix and not is_checked:  # any name may be that of a class without rows
        seen = set(labels)
        others |= {j for j, c in zip(match.columns, match.classes, strict=True) if c not in seen}
    if others:
        raise PredictionFileError(
            f"{raw.place.source}: columns {some([names[j] for j in sorted(others)])} match no "
            "label, while others match all labels; leave them out with --ignore, or choose the "
            "columns of scores with --columns"
        )
    return match.classes


def _two_classes(
    raw: RawPredictions, y: NDArray[Any], known: list[Any], positive: str
) -> list[Any]:
    """Return two classes, the positive one last."""
    (own,) = typed([positive], y)
    others = [label for label in known if label != own]
    if not others and own in (0, 1):
        others = [1 - own]
    if len(others) != 1 or raw.scores.shape[1] > 2:
        raise PredictionFileError(
            f"{raw.place.source}: --positive {positive} is not one of two classes, which are "
            f"{some(known)}{'' if others else '; name both with --classes'}"
        )
    return [*others, own]


def _with_positive_last(rows: Aligned, two: list[Any]) -> Aligned:
    """Exchange two columns unless the second one is of the second class; names alone tell it."""
    with naming(rows.place):
        match = match_columns(rows.place.names or [], two)
    own = sorted(two) if rows.classes is None else rows.classes
    if match is None and own != two:  # whoever applies a model could not know of an exchange
        raise PredictionFileError(
            f"{rows.source}: the first column is for {two[1]!r}, the class of --positive, and "
            "comes last only where columns are named after their classes; rename or exchange the "
            "columns, or leave out --positive"
        )
    if match is None or match.classes == two:
        return replace(rows, classes=two)
    place = replace(rows.place, names=(rows.place.names or [])[::-1])
    return replace(rows, matrix=rows.matrix[:, ::-1], classes=two, place=place)


def refuse_other_columns(place: Place, n_columns: int, classes: Sequence[Any]) -> None:
    """Refuse a file with more or fewer columns of scores than a model has classes."""
    if n_columns == len(classes):
        return
    names = place.names or []
    with naming(place):
        match = match_columns(names, list(classes))
    if match is None:
        raise PredictionFileError(
            f"{place.source} has {number_of(n_columns, 'column')} of scores, but the model has "
            f"{len(classes)} classes"
        )
    used = {j for j, c in zip(match.columns, match.classes, strict=True) if c in classes}
    others = [name for j, name in enumerate(names) if j not in used]
    raise PredictionFileError(
        f"{place.source}: columns {some(others)} are not classes of the model; leave them out "
        "with --ignore"
    )
