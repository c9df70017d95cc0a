"""Every exception and warning of the package.

All errors about data are ``ValueError`` subclasses (``TypeError`` where the kind of thing is
wrong), so code that catches what scikit-learn raises catches these as well. A message names the
argument, the place, the value and the remedy.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sklearn.exceptions import ConvergenceWarning as ConvergenceWarning  # noqa: PLC0414
    from sklearn.exceptions import DataConversionWarning as DataConversionWarning  # noqa: PLC0414
    from sklearn.exceptions import NotFittedError as NotFittedError  # noqa: PLC0414

OF_SCIKIT_LEARN = {"ConvergenceWarning", "DataConversionWarning", "NotFittedError"}


def __getattr__(name: str) -> Any:
    """Return a class of scikit-learn, which takes a second to import."""
    if name in OF_SCIKIT_LEARN:
        from sklearn import exceptions

        return getattr(exceptions, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def in_words(value: object) -> str:
    """Return a value as plain Python writes it, without numpy's types, for a message."""
    if isinstance(value, np.ndarray):
        return f"[{some_in_words(value.ravel())}]"
    with np.printoptions(legacy="1.21"):  # newer ones write np.float64(0.5)
        return repr(value)


def some_in_words(values: Any, most: int = 5) -> str:
    """Return the first few of many values for a message, with commas between them."""
    shown = ", ".join(in_words(value) for value in values[:most])
    return shown + (", ..." if len(values) > most else "")


def number_of(count: int, noun: str) -> str:
    """Return a count with its noun for a message: 1 row, 2 rows."""
    return f"{count} {noun if count == 1 else noun + 's'}"


class Arguments:
    """How whoever talks to the user calls the arguments and the remedies; here, in Python."""

    prefix = ""
    scores: str = "scores"
    y: str = "y"
    if_logits = "did you mean scores='logits'?"
    if_unnormalized = "pass columns of classes only; normalize='rows' divides rows by their sums"
    if_untold = "pass classes= with the label of each column"
    if_missing = "drop rows without a label"
    if_single = (
        "for two classes, pass scores='positive' with the probability of the positive class, or "
        "scores='decision' with its margin"
    )
    if_margins = "for margins use scores='decision'; divide percent by 100"
    if_renamed = "pass its values, scores.to_numpy()"
    if_features = (
        "pass predict_proba(X) of the classifier, or fit CalibratedClassifier(classifier) to X and "
        "y"
    )

    def if_unknown_positive(self, other: str, own: str) -> str:
        """Say how to name the class of a single column; labels are formatted already."""
        return f"pass classes=[{other}, {own}] if it is {own}, else classes=[{own}, {other}]"

    def if_of_other(self, other: str, own: str) -> str:
        """Say how to make the other class that of a single column."""
        return f"fit with classes=[{own}, {other}]"

    def name(self, argument: str) -> str:
        """Name an argument."""
        return {"scores": self.scores, "y": self.y}.get(argument, argument)

    def place(self, argument: str, row: int, column: int | None = None) -> str:
        """Name a row, or a cell, of an argument."""
        name = self.name(argument)
        return f"{name}[{row}]" if column is None else f"{name}[{row}, {column}]"


ARGUMENTS = Arguments()
_names: ContextVar[Arguments] = ContextVar("_names", default=ARGUMENTS)


def names() -> Arguments:
    """Return how whoever asked calls the arguments: messages use these names."""
    return _names.get()


@contextmanager
def naming(named: Arguments) -> Iterator[None]:
    """Let messages from inside use these names."""
    token = _names.set(named)
    try:
        yield
    finally:
        _names.reset(token)


class DataError(ValueError):
    """Scores, labels or weights cannot be used; the message names the row and the remedy.

    Attributes
    ----------
    argument : str
        Argument that is wrong, as calibrators call it: "scores", "y", "sample_weight".
    row, column : int or None
        First wrong row or cell, where there is one, and ``value`` what stands there.
    remedy : str
        What to do about it, if that is known; the end of the message.
    """

    def __init__(
        self,
        problem: str = "",
        *,
        remedy: str = "",
        argument: str = "scores",
        row: int | None = None,
        column: int | None = None,
        value: object = None,
    ) -> None:
        message = f"{problem}; {remedy}" if remedy else problem
        if row is not None and value is not None:
            message = f"is {in_words(value)}: {message}"
        self.message, self.remedy = message, remedy
        self.argument, self.row, self.column, self.value = argument, row, column, value
        self._names = names()
        super().__init__(message if row is None else f"{self.place(row)} {message}")

    def place(self, row: int) -> str:
        """Name the row or cell that is wrong, as if it were in this row."""
        return self._names.place(self.argument, row, self.column)


class ShapeError(DataError):
    """An array has the wrong number of dimensions, rows, columns or classes; reshape it."""


class NonFiniteError(DataError):
    """There is NaN or infinity where a number is needed; repair or drop the row."""


class RangeError(DataError):
    """A score, or the sum of a row, is out of range; declare logits, divide percent by 100."""


class LabelError(DataError):
    """A label is missing, not discrete, or not among the classes."""


class WeightError(DataError):
    """Sample weights are negative, not finite, all zero or of the wrong shape."""


class ColumnNameError(DataError):
    """Column names contradict the classes or the names seen at fit; rename the columns."""


class PredictionFileError(DataError):
    """A file of predictions cannot be read; the message names the line or option."""


class ParameterError(ValueError):
    """A parameter has a value that is not allowed; the message says which are.

    Attributes
    ----------
    argument : str
        Name of the parameter, where its value alone is wrong; else empty.
    value : object
        That value.
    """

    def __init__(self, message: str = "", *, argument: str = "", value: object = None) -> None:
        super().__init__(message)
        self.argument, self.value = argument, value


class ContainerError(DataError, TypeError):
    """A container or dtype cannot be read as a matrix of numbers; pass an array."""


class MemoryLimitError(MemoryError):
    """A result would need more memory than there may be; use chunks."""


class CalibrantWarning(UserWarning):
    """Base class of all warnings of this package."""


class SmallSampleWarning(CalibrantWarning):
    """There are few rows for the number of classes, so the fitted map is noisy."""


class ForgottenRowsWarning(CalibrantWarning):
    """``partial_fit`` starts again, as the earlier fit kept none of its rows."""


class MissingClassWarning(CalibrantWarning):
    """A class has no label in the calibration set; the message says what it gets."""


class SingleClassWarning(CalibrantWarning):
    """Every label is the same class; calibrate on rows of at least two classes."""


class ClassShareWarning(CalibrantWarning):
    """The fitted mean probability of a class differs from its share of the labels."""


class ColumnOrderWarning(CalibrantWarning):
    """Columns were reordered to ``classes_`` by their names; nothing needs to be done."""


class ColumnMismatchWarning(CalibrantWarning):
    """The columns may belong to other classes; check their order."""


class ScoresKindWarning(CalibrantWarning):
    """Scores look like another kind, or are not in the range of the fit; check ``scores``."""


class ConstantFitWarning(CalibrantWarning):
    """Every row gets the same probabilities although scores differ; check scores and labels."""


class RepeatedBatchError(DataError):
    """A monitor has counted these rows before; each row counts once."""


class StatisticsError(ValueError):
    """The state of a monitor cannot be read, or is of another model; start a new one."""


class ModelFileError(ValueError):
    """A model file cannot be read or written; save the calibrator again.

    Attributes
    ----------
    rule : str
        Rule of the format that is broken, such as "checksum"; the page on model files lists them.
    """

    def __init__(self, message: str = "", rule: str = "") -> None:
        super().__init__(message)
        self.rule = rule


class ExportError(ValueError):
    """A calibrator or option cannot be exported to the requested format."""


__all__ = sorted(  # noqa: PLE0605  (a list)
    OF_SCIKIT_LEARN
    | {
        name
        for name, value in globals().items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
)


def __dir__() -> list[str]:
    return __all__
