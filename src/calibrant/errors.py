"""Every exception and warning, one class per broken promise.

All errors about data are ``ValueError`` subclasses (``TypeError`` where the kind of thing is
wrong), so code that catches what scikit-learn raises catches these as well. A message names the
argument, the place, the value and the remedy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import exceptions

ConvergenceWarning = exceptions.ConvergenceWarning
DataConversionWarning = exceptions.DataConversionWarning
NotFittedError = exceptions.NotFittedError


def in_words(value: Any) -> str:
    """Value for a message: as Python writes it, whatever numpy made of it."""
    if isinstance(value, np.ndarray):
        return f"[{some_in_words(value.ravel())}]"
    if isinstance(value, list):
        return f"[{', '.join(map(in_words, value))}]"
    if type(value) is tuple:
        return f"({', '.join(map(in_words, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, np.generic):
        plain = value.item()
        return str(value) if isinstance(plain, np.generic) else repr(plain)
    return repr(value)


def some_in_words(values: Any, most: int = 5) -> str:
    """Return the first few of many values for a message, with commas between them."""
    shown = ", ".join(in_words(value) for value in values[:most])
    return shown + (", ..." if len(values) > most else "")


def number_of(count: int, noun: str) -> str:
    """Count something for a message: 1 row, 2 rows."""
    return f"{count} {noun if count == 1 else noun + 's'}"


class Arguments:
    """How messages name what a caller gave, and what it can do; calibrators say it like this."""

    prefix = ""
    scores: str = "scores"
    y: str = "y"
    if_logits = "did you mean scores='logits'?"
    use_logits = "use scores='logits'"
    if_percent = "percent? Divide by 100"
    if_unnormalized = "pass normalize='rows' to divide rows by their sums"
    if_untold = "pass classes= with the label of each column"
    if_missing = "drop rows without a label"
    if_named_twice = "choose one set of columns"
    if_single = (
        "of a binary problem, pass scores='positive' with probabilities of the positive class "
        "alone, or scores='decision' with its margins"
    )
    if_margins = "of margins use scores='decision'; divide percent by 100"

    def if_unknown_positive(self, other: str, own: str) -> str:
        """Say how to tell the class of a single column; labels are in words."""
        return f"pass classes=[{other}, {own}] if it is {own}, classes=[{own}, {other}] if not"

    def cell(self, *place: int) -> str:
        """Name a row of the scores, or a cell of it."""
        return f"{self.scores}[{', '.join(map(str, place))}]"

    def label(self, row: int) -> str:
        """Name the label of a row."""
        return f"{self.y}[{row}]"

    def weight(self, row: int) -> str:
        """Name the weight of a row."""
        return f"sample_weight[{row}]"


ARGUMENTS = Arguments()


class DataError(ValueError):
    """Scores, labels or weights that no calibrator can use."""


class ShapeError(DataError):
    """The array has the wrong number of dimensions, rows or columns."""


class ClassCountError(ShapeError):
    """Fewer than two classes."""


class NonFiniteError(DataError):
    """NaN or infinity where a number is needed."""


class RangeError(DataError):
    """A probability outside [0, 1] by more than rounding."""


class RowSumError(DataError):
    """A row that is not a distribution: it does not sum to one, or is all zeros."""


class LabelError(DataError):
    """A label that is missing, not discrete, or not among the classes."""


class WeightError(DataError):
    """Sample weights that are negative, not finite, all zero or of the wrong shape."""


class ColumnNameError(DataError):
    """Column names that contradict the classes, or the names seen at fit."""


class PredictionFileError(DataError):
    """A file of predictions that cannot be read."""


class ParameterError(ValueError):
    """A constructor or function parameter outside its documented values."""


class ContainerError(DataError, TypeError):
    """A container or dtype that cannot be read as a matrix of numbers."""


class MemoryLimitError(MemoryError):
    """The result would need more memory than there is, or than ``CALIBRANT_MAX_MEMORY``."""


class CalibrantWarning(UserWarning):
    """Base of all warnings of this package."""


class SmallSampleWarning(CalibrantWarning):
    """Few rows for the number of classes: the fitted map is coarse and noisy."""


class ForgottenRowsWarning(CalibrantWarning):
    """Rows are added to a fit that remembers none of its own."""


class SampledRowsWarning(CalibrantWarning):
    """More rows than a method could take: it was fitted to some of them."""


class MissingClassWarning(CalibrantWarning):
    """A class without a label in the calibration set, in a method that fits each class."""


class SingleClassWarning(CalibrantWarning):
    """Every label is the same class."""


class ClassShareWarning(CalibrantWarning):
    """After a fit, the mean probability of a class is not its share of the calibration set."""


class ColumnOrderWarning(CalibrantWarning):
    """Columns were reordered to ``classes_`` by their names."""


class ColumnMismatchWarning(CalibrantWarning):
    """Worse than chance, or than another order of columns: they may belong to other classes."""


class ScoresKindWarning(CalibrantWarning):
    """The scores look like probabilities but were declared to be logits."""


class RepeatedBatchError(DataError):
    """Rows that a monitor has counted before."""


class StatisticsError(ValueError):
    """Bytes that hold no statistics, or statistics that cannot be solved."""


class ModelFileError(ValueError):
    """A model file that cannot be read or written; each subclass is one broken rule."""


class IrregularFileError(ModelFileError):
    """The path is a directory, a pipe or a device, not a file."""


class FileSizeError(ModelFileError):
    """The file is larger than ``max_bytes``."""


class ChangedFileError(ModelFileError):
    """The file grew or shrank while it was read."""


class MagicError(ModelFileError):
    """The first bytes are not those of a model file."""


class TruncatedFileError(ModelFileError):
    """The file ends before its header does."""


class ChecksumError(ModelFileError):
    """The content does not match its own checksum: the file is damaged or cut off."""


class DigestError(ModelFileError):
    """The file is not the one whose SHA-256 was given."""


class FormatVersionError(ModelFileError):
    """The format of the file is newer than this version of the library can read."""


class FeatureError(ModelFileError):
    """The file needs a feature that this version of the library does not have."""


class HeaderLengthError(ModelFileError):
    """The length of the header is zero, not aligned or above the limit."""


class HeaderSyntaxError(ModelFileError):
    """The header is not the strict JSON that a model file has."""


class HeaderFieldError(ModelFileError):
    """A field of the header is missing, unknown or of the wrong kind."""


class ArrayLayoutError(ModelFileError):
    """Arrays that overlap, leave holes, do not fill the data or are not used once each."""


class FittedValueError(ModelFileError):
    """A fitted number or array that breaks a promise of its method."""


class StoredClassesError(ModelFileError):
    """Class labels that are repeated, too many, too long or of the wrong kind."""


class UnknownMethodError(ModelFileError):
    """A method that this version of the library does not know."""


class StoredParameterError(ModelFileError):
    """A constructor parameter that is unknown, or outside its documented values."""


class NestingError(ModelFileError):
    """Calibrators inside calibrators that are too deep, too many, or not a tree."""


class UnsavableError(ModelFileError):
    """A calibrator that the file format has no place for."""


class ExportError(ValueError):
    """Something has no place in the format that is asked for."""


class NewerFormatWarning(CalibrantWarning):
    """The file has optional fields that this version of the library does not know."""


__all__ = sorted(  # noqa: PLE0605  (a list)
    name
    for name, value in globals().items()
    if isinstance(value, type) and issubclass(value, Exception)
)


def __dir__() -> list[str]:
    return __all__
