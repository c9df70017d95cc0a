"""Scores out of whatever holds them, and which column is which class by the names of columns.

One rule for data frames and files: names equal the labels, or the labels after one prefix that all
of them share (``prob_cat`` for ``cat``). Two classes may be one number for each row: the
probability, or the margin, of the positive class.
"""

from __future__ import annotations

import os.path
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _notices as notices
from calibrant import errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import DTypeLike

    from calibrant._types import Array, Floats, Label, Labels, Wholes

CLIP_TOLERANCE = 1e-4
"""A probability this far outside [0, 1] is rounding, and is clipped; its row is normalised."""

SUM_TOLERANCE = 1e-3
"""A row sum this far from one is rounding, and is normalised; decimals may be a little further."""

LARGEST_LOGIT = 1e100  # sums of squares of larger logits would overflow

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}(?:\.0*)?")
_NUMBER_AT_THE_END = re.compile(r"-?[0-9]{1,18}(?:\.0+)?\Z")


@dataclass(frozen=True, slots=True)
class Match:
    """Columns that are named after classes: their places, and the class of each.

    Classes that no label has are of the labels' type. The prefix is what the names have before the
    class.
    """

    columns: list[int]
    classes: list[Any]
    prefix: str = ""


def key(value: object) -> str:
    """Text that is the same for a label and for the name of its column: 1, 1.0 and "01" agree."""
    text = str(value).strip()
    return str(int(text.partition(".")[0])) if _WHOLE.fullmatch(text) else text


def are_whole(texts: Iterable[str]) -> bool:
    """Whether every text is a whole number, also as pandas writes it (``3.0``)."""
    return all(_WHOLE.fullmatch(text.strip()) for text in texts)


def match_columns(names: Sequence[object], labels: Sequence[object]) -> Match | None:
    """Find the columns named after the classes, where the names of all labels are among them.

    There may be more names than labels: of classes that are absent, or of other columns. None if
    the names do not say which column belongs to which label; an error if two sets of columns do.

    >>> match_columns(["fold", "prob_emu", "prob_cat"], ["cat", "emu"])
    Match(columns=[1, 2], classes=['emu', 'cat'], prefix='prob_')
    """
    if not labels:
        return None
    label_of = {key(label): label for label in labels}
    if len(label_of) != len(labels):
        label_of = {str(label): label for label in labels}
    are_numbers = are_whole(label_of)
    groups = (_by_number if are_numbers else _by_text)(names, [*label_of])
    # Two columns of one class, such as p1 and p01, are those of none.
    matches = [
        Match(columns, texts, prefix)
        for prefix, (columns, texts) in groups.items()
        if label_of.keys() <= set(texts) and len(set(texts)) == len(texts)
    ]
    if not matches:
        return None
    first, *others = sorted(matches, key=lambda match: (-len(match.columns), match.prefix))
    for other in others:
        if len(other.columns) == len(first.columns):
            a, b = (names[match.columns[0]] for match in (first, other))
            raise errors.ColumnNameError(
                f"{errors.names().prefix}two sets of columns are named after the classes, {a!r} "
                f"and {b!r}",
                remedy="pass one of them alone",
            )
    of_number = {int: int, float: float}.get(type(labels[0]), str) if are_numbers else str
    classes = [label_of.get(text, of_number(text)) for text in first.classes]
    return Match(first.columns, classes, first.prefix)


def _by_number(names: Sequence[object], _: list[str]) -> dict[str, tuple[list[int], list[str]]]:
    """Return columns and numbers at the end of their names, by what stands before them."""
    groups: dict[str, tuple[list[int], list[str]]] = {}
    for j, name in enumerate(map(str, names)):
        number = _NUMBER_AT_THE_END.search(name)
        if number is None:
            continue
        splits = {(name[: number.start()], number[0])}
        if number[0].startswith("-") and number.start() > 0:
            # A dash is a sign or a part of the prefix: p-1 is of p-1, p0, p1, or of p-1, p-2.
            splits.add((name[: number.start() + 1], number[0][1:]))
        for prefix, text in splits:
            columns, texts = groups.setdefault(prefix, ([], []))
            columns.append(j)
            texts.append(key(text))
    return groups


def _by_text(names: Sequence[object], labels: list[str]) -> dict[str, tuple[list[int], list[str]]]:
    """Return columns and the rest of their names, by what stands before all of the labels."""
    groups = {"": ([*range(len(names))], [key(name) for name in names])}
    texts = [name for name in names if isinstance(name, str)]
    if len(texts) < len(names):
        return groups
    known, longest = set(texts), max(labels, key=lambda label: (len(label), label))
    for prefix in {text.removesuffix(longest) for text in texts if text.endswith(longest)} - {""}:
        if all(prefix + label in known for label in labels):
            some = [j for j, text in enumerate(texts) if text.startswith(prefix) and text != prefix]
            groups[prefix] = some, [texts[j].removeprefix(prefix) for j in some]
    return groups


def column_order(
    names: Sequence[object] | None, classes: Labels, *, are_given: bool = True
) -> Wholes | None:
    """Return the permutation that puts columns named after classes in their order, if any.

    It comes with a warning. Unless the classes of the columns ``are_given``, those whose
    names neither tell their classes nor are in sorted order are refused.
    """
    order = None if names is None else order_of(names, classes)
    if names is None or order is None:
        if names and not are_given and classes.dtype.kind in "OUST" and not are_sorted(names):
            raise errors.ColumnNameError(
                f"{errors.names().prefix}columns {errors.some_in_words(names)} are neither named "
                f"after the classes {errors.some_in_words(classes.tolist())} nor in sorted order, "
                "so they cannot be told apart",
                remedy=f"rename them, or {errors.names().if_untold}",
            )
        return None
    return changed_order(order, names)


def changed_order(order: Wholes, names: Sequence[object]) -> Wholes | None:
    """Return an order of columns with a warning, or None if it is the one that they have."""
    if np.array_equal(order, np.arange(len(order))):
        return None
    notices.warn(
        errors.ColumnOrderWarning(
            "columns are named after the classes but in another order; they were reordered to "
            f"[{errors.some_in_words([str(names[j]) for j in order])}]"
        )
    )
    return order


def order_of(names: Sequence[object], classes: Labels) -> Wholes | None:
    """Return the columns in the order of ``classes``, if all of them are named after classes."""
    if len({isinstance(name, str) for name in names}) > 1:
        raise errors.ColumnNameError(
            f"{errors.names().prefix}column names {errors.some_in_words(names)} are not all text",
            remedy="name every column after its class, or none",
        )
    if [str(name) for name in names] == [str(c) for c in classes.tolist()]:
        return np.arange(len(names))
    match = match_columns(names, classes.tolist())
    if match is not None and len(match.columns) == len(names) == len(classes):
        place = dict(zip(match.classes, match.columns, strict=True))
        return np.array([place[c] for c in classes.tolist()], dtype=np.int64)
    texts = [name for name in names if isinstance(name, str)]
    if len(texts) == len(names):
        _refuse_some(texts, {key(c) for c in classes.tolist()})
    return None


def _refuse_some(names: Sequence[str], wanted: set[str]) -> None:
    """Refuse names of which some are those of classes, and others are not, or are so twice."""
    # What all names begin with, up to the last sign that is no letter or digit.
    shared = re.sub(r"[^\W_]+\Z", "", os.path.commonprefix(list(names)))  # noqa: RUF071  (texts)
    for start, least in ((0, 1), (len(shared), 2)):
        is_class = [key(name[start:]) in wanted for name in names]
        if sum(is_class) >= least:
            raise errors.ColumnNameError(
                f"{errors.names().prefix}column {names[is_class.index(True)]!r} is named after a "
                f"class, but the columns {errors.some_in_words(names)} are not one for each class",
                remedy="name every column after its class, or none",
            )


def feature_names(names: Sequence[object] | None) -> dict[str, Labels]:
    """``feature_names_in_`` as scikit-learn sets it: names that are text, or none."""
    if not names or not all(isinstance(name, str) for name in names):
        return {}
    return {"feature_names_in_": np.array(names, dtype=object)}


def check_names(names: Sequence[object] | None, fitted: Array | None, who: str) -> None:
    """Compare names with those of the fit, in scikit-learn's words; ``who`` is the estimator."""
    given = feature_names(names).get("feature_names_in_")
    if given is None or fitted is None:
        if given is not fitted:
            now = "does not have valid" if given is None else "has"
            then = "without" if fitted is None else "with"
            words = f"X {now} feature names, but {who} was fitted {then} feature names"
            notices.warn(errors.CalibrantWarning(words))
        return
    if given.tolist() == fitted.tolist():
        return
    faults = "".join(
        f"{fault}:\n" + "".join(f"- {name}\n" for name in sorted(result)[:5])
        for fault, result in (
            ("Feature names unseen at fit time", set(given) - set(fitted)),
            ("Feature names seen at fit time, yet now missing", set(fitted) - set(given)),
        )
        if result
    )
    raise errors.ColumnNameError(
        "The feature names should match those that were passed during fit.\n"
        + (faults or "Feature names must be in the same order as they were in fit.\n")
    )


def are_sorted(names: Sequence[object]) -> bool:
    """Whether names are in the order in which labels are sorted, or count upwards."""
    texts = list(map(str, names))
    parts = [re.split(r"(\d+)", text) for text in texts]  # text and digits in turn: p2, then p10
    keys = [[(int(part), "") if i % 2 else (0, part) for i, part in enumerate(p)] for p in parts]
    return texts == sorted(texts) or keys == sorted(keys)


ONE_COLUMN = {"positive": "probabilities", "decision": "logits"}
"""Kinds of scores with one number for each row, and the kind of the two columns made of it."""

WORDS_OF_SCORES = frozenset(("p", "pr", "prob", "probs", "proba", "probability", "probabilities"))
WORDS_OF_SCORES |= {"of", "y", "class", "label", "score", "scores", "conf", "confidence"}
WORDS_OF_SCORES |= {"pred", "predicted", "prediction"}
"""Words beside the class in the name of a column of scores."""

WORDS_OF_NO = frozenset(("no", "false", "neg", "negative"))
"""What names say of 0, of -1 and of False."""


def is_single(kind: str) -> bool:
    """Whether scores of this kind are one number for each row."""
    return kind in ONE_COLUMN


def two_column_kind(kind: str) -> str:
    """Return the kind of the rows that maps and solvers see."""
    return ONE_COLUMN.get(kind, kind)


def single_kind(kind: str) -> str:
    """Return the kind of one column from which two columns of this kind are made."""
    return {two: one for one, two in ONE_COLUMN.items()}[kind]


def n_classes_of(kind: str, n_columns: int) -> int:
    """Return the number of classes that columns of scores of this kind are for."""
    return 2 if is_single(kind) else n_columns


def n_columns_of(kind: str, n_classes: int) -> int:
    """Return the number of columns that scores of this kind have for ``n_classes`` classes."""
    return 1 if is_single(kind) else n_classes


def how_to_pass(kind: str) -> str:
    """Say how one column of a binary problem is passed where two are expected."""
    two = "np.column_stack([1 - p, p])"
    if two_column_kind(kind) == "logits":
        two = "np.column_stack([np.zeros_like(z), z])"
    return f"{errors.names().if_single}; or pass two columns, {two}"


def two_columns(column: Array, kind: str, first_row: int = 0) -> Floats:
    """Return [1 - p, p] of probabilities, or log-probabilities of margins: -log(1 + exp(-+z)).

    Log-probabilities are logits, and the same that probabilities have: methods whose result
    depends on a number added to all logits of a row give the same for both.
    """
    values, is_margin = column[:, 0].astype(np.float64), kind == "decision"
    low, high = -CLIP_TOLERANCE, 1.0 + CLIP_TOLERANCE
    if is_margin:
        low, high = -LARGEST_LOGIT, LARGEST_LOGIT
    bad = ~((values >= low) & (values <= high))
    if is_margin:
        bad &= ~np.isinf(values)  # of a probability of exactly 0 or 1
    if bad.any():
        i, names = int(np.argmax(bad)), errors.names()
        error: type[errors.DataError] = errors.RangeError
        problem, remedy = "a probability must be in [0, 1]", names.if_margins
        if not np.isfinite(values[i]):
            error, remedy = errors.NonFiniteError, "remove or repair the row"
            problem = f"Input {names.scores} contains NaN or infinity"
        elif is_margin:
            problem, remedy = f"margins are at most {high:g}", "scale them"
        raise error(problem, row=first_row + i, value=values[i], remedy=remedy)
    out = np.empty((len(values), 2))
    if not is_margin:
        np.subtract(1.0, values, out=out[:, 0])
        out[:, 1] = values
    else:
        np.negative(np.logaddexp(0.0, values), out=out[:, 0])
        np.negative(np.logaddexp(0.0, -values), out=out[:, 1])
    return out


def tells_positive(classes: Labels) -> bool:
    """Whether two labels tell by themselves which is positive: 0 and 1, -1 and 1, False and True.

    As in scikit-learn it is the larger one. Sorted by name, "bad" and "good" would make a good risk
    the event.
    """
    known, are_numbers = classes.tolist(), classes.dtype.kind in "biuf"
    return known in ([0, 1], [-1, 1]) if are_numbers else known == ["False", "True"]


def check_positive(classes: Labels, name: object = None, *, are_given: bool) -> None:
    """Refuse a single column that is not known to be of the second class.

    Either the classes ``are_given``, or they tell it. ``name`` is that of the column,
    which may be the name of the other class.
    """
    a, b = (errors.in_words(label) for label in classes.tolist())
    names = errors.names()
    if not are_given and not tells_positive(classes):
        raise errors.LabelError(
            f"{names.scores} has one column, but it is not known whether its class is {a} or {b}",
            remedy=names.if_unknown_positive(a, b),
        )
    if names_other_class(name, classes):
        raise errors.ColumnNameError(
            f"{names.prefix}the only column is named {name!r}, which says {a}, but is read as the "
            f"column of {b}",
            remedy=f"pass that of {b}, rename this one if it is, or {names.if_of_other(a, b)}",
        )


def names_other_class(name: object, classes: Labels) -> bool:
    """Whether the name of a column says the first of two classes: "p0", "prob_no".

    It ends with the name of the class, after words that say that it is a probability.
    """
    if not isinstance(name, str):
        return False
    first, second = (str(key(label)) for label in classes.tolist())
    if name in (first, second):
        return name == first
    words, own = _words(name), _words(first)
    while words and words[0] in WORDS_OF_SCORES and words != own:
        words = words[1:]
    says_no = tells_positive(classes) and len(words) == 1 and words[0] in WORDS_OF_NO
    return says_no or (words == own and own != _words(second))


def _words(name: str) -> list[str]:
    """Return the words and the numbers in a name."""
    return re.findall(r"[^\W\d_]+|\d+", name.casefold())


def check_single_name(name: object, fitted: Array | None, who: str) -> None:
    """Refuse a single column of another name than at the fit."""
    if fitted is not None and isinstance(name, str) and name != fitted[0]:
        raise errors.ColumnNameError(
            f"{errors.names().prefix}the column is named {name!r}, but {who} was fitted to the "
            f"column {fitted[0]!r}",
            remedy=f"if it holds the same scores, rename it or {errors.names().if_renamed}",
        )


def library(container: object) -> str:
    """Return the name of the package that a container is of."""
    return type(container).__module__.partition(".")[0]


def is_dask(given: object) -> bool:
    """Whether something is a collection of Dask's."""
    return library(given) == "dask"


@dataclass(frozen=True, slots=True, eq=False)
class NamedMatrix:
    """A matrix with names of its columns, where no library of data frames is needed."""

    values: Array
    columns: Sequence[Label]

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Of the values."""
        return self.values.dtype

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is None:  # numpy 1 knows yes and no alone
            return np.asarray(self.values, dtype=dtype)
        return np.array(self.values, dtype=dtype, copy=copy)


def column_names(scores: object) -> list[Label] | None:
    """Names of the columns of a data frame or ``NamedMatrix``; None for anything else."""
    if isinstance(scores, NamedMatrix):
        return [*scores.columns]
    home = library(scores)
    is_frame = home in {"pandas", "dask"} or (home == "polars" and hasattr(scores, "to_numpy"))
    names = getattr(scores, "columns" if is_frame else "column_names", None)
    return list(names) if names is not None and (is_frame or home == "pyarrow") else None


def is_single_column(scores: Any) -> bool:
    """Whether scores are one number for each row, as a vector or a single column."""
    try:
        shape = np.shape(scores)
    except ValueError:  # rows of different lengths: ``to_matrix`` says so
        return False
    return len(shape) == 1 or shape[1:] == (1,)


def single_name(scores: object) -> Label | None:
    """Name of a series, or of the only column of a data frame, if it has one."""
    names = column_names(scores)
    if names is None:
        return getattr(scores, "name", None) if library(scores) in {"pandas", "polars"} else None
    return names[0] if len(names) == 1 else None


def fitted_names(scores: object, kind: str) -> list[Label] | None:
    """Names of the columns that a fit keeps, that of a single one included."""
    if not is_single(kind):
        return column_names(scores)
    name = single_name(scores)
    return None if name is None else [name]


def to_matrix(scores: object, kind: str = "probabilities") -> Array:
    """Return a two-dimensional real array, of any dtype and order; no copy if it is one.

    Scores of one number for each row are a column, also where they are given as a vector.
    """
    array = _to_array(scores)
    if array.dtype.kind not in "fiub":
        # The first words are scikit-learn's, whose checks of estimators look for them.
        problem = "Complex data not supported: " if array.dtype.kind == "c" else ""
        raise errors.ContainerError(
            f"{problem}{errors.names().scores} has dtype {array.dtype}",
            remedy="pass real numbers, float32 or float64, one column per class",
        )
    if is_single(kind):
        if array.ndim == 1:
            return array[:, None]
        if array.ndim == 2 and array.shape[1] == 1:
            return array
        raise errors.ShapeError(
            f"{errors.names().scores} has shape {array.shape}; scores={kind!r} needs one number "
            "per row, as a vector or a single column",
            remedy=f"pass column 1 alone, or use scores={two_column_kind(kind)!r}",
        )
    if array.ndim != 2:
        name, remedy = errors.names().scores, how_to_pass(kind)
        if array.ndim > 2:
            remedy = (
                f"make a row of each pixel: np.moveaxis(np.asarray({name}), 1, -1).reshape(-1, "
                f"{array.shape[1]}) if the second dimension is the classes, as in (N, C, H, W)"
            )
        raise errors.ShapeError(
            f"{name} has shape {array.shape}",
            remedy="pass one row per sample and one column per class. Expected 2D array, got "
            f"{array.ndim}D array instead. Reshape your data: {remedy}",
        )
    if array.shape[1] == 0:
        raise errors.ShapeError(
            f"0 feature(s) (shape={array.shape}) while a minimum of 1 is required: no columns"
        )
    return array


def output_dtype(scores: object) -> np.dtype[np.floating]:
    """Float32 for results on float32 and float16 input, else float64."""
    dtypes = [getattr(scores, "dtype", np.dtype(np.float64))]
    if library(scores) in {"pandas", "polars", "dask"} and not hasattr(scores, "dtype"):
        dtypes = list(getattr(scores, "dtypes", dtypes))
    narrow = all(
        str(dtype).lower().endswith(("float32", "float16", "f4", "f2")) for dtype in dtypes
    )
    return np.dtype(np.float32 if narrow else np.float64)


def refuse_masked(given: object, argument: str) -> None:
    """Refuse masked arrays: numpy would read what is behind the mask."""
    if isinstance(given, np.ma.MaskedArray):
        raise errors.ContainerError(
            f"{errors.names().name(argument)} is a masked array",
            argument=argument,
            remedy="drop the masked rows, and pass its .data",
        )


def _to_array(scores: Any) -> Array:
    """Return an array of whatever dtype and shape; refuse what numpy would misread."""
    home, is_read = (
        library(scores),
        isinstance(scores, list | tuple) or hasattr(scores, "__array__"),
    )
    refuse_masked(scores, "scores")
    is_sparse = home == "scipy" and hasattr(scores, "toarray")
    is_lazy = home == "dask" or type(scores).__name__ == "LazyFrame"
    if is_sparse or is_lazy or not is_read:
        name = errors.names().scores
        problem = f"{name} is a {type(scores).__name__}"
        remedy = "pass an array, a data frame or a list of rows"
        if is_sparse:
            problem, remedy = f"Sparse data was passed as {name}", f"use {name}.toarray()"
        elif is_lazy:
            problem = f"{name} is not in memory"
            remedy = f"pass {name}.compute(), or .collect() of polars"
        raise errors.ContainerError(problem, remedy=remedy)
    try:
        if home == "torch":
            scores = scores.detach()
        array = np.asarray(scores)
        if array.dtype.kind == "O" and home == "pandas":  # nullable and categorical columns
            array = scores.to_numpy(np.float64, na_value=np.nan)
        elif array.dtype.kind == "O":
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        name, is_ragged = errors.names().scores, "inhomogeneous" in str(error)
        raise (errors.ShapeError if is_ragged else errors.ContainerError)(
            f"{name} has {'rows of different lengths' if is_ragged else 'no real number'}: {error}",
            remedy="pass an array of numbers, one column per class and none of labels",
        ) from error
    return array
