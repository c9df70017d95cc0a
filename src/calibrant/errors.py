"""Every exception and warning, one class per broken promise.

All errors about data are ``ValueError`` subclasses (``TypeError`` where the kind of thing is
wrong), so code that catches what scikit-learn raises catches these as well. A message names the
argument, the place, the value and the remedy.
"""

from __future__ import annotations

from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError

__all__ = [
    "CalibrantWarning",
    "ClassCountError",
    "ColumnMismatchWarning",
    "ColumnNameError",
    "ColumnOrderWarning",
    "ContainerError",
    "ConvergenceWarning",
    "DataConversionWarning",
    "DataError",
    "LabelError",
    "MemoryLimitError",
    "MissingClassWarning",
    "NonFiniteError",
    "NotFittedError",
    "ParameterError",
    "RangeError",
    "RowSumError",
    "ScoresKindWarning",
    "ShapeError",
    "SingleClassWarning",
    "SmallSampleWarning",
    "WeightError",
]


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


class MissingClassWarning(CalibrantWarning):
    """A class without a label in the calibration set, in a method that fits each class."""


class SingleClassWarning(CalibrantWarning):
    """Every label is the same class."""


class ColumnOrderWarning(CalibrantWarning):
    """Columns were reordered to ``classes_`` by their names."""


class ColumnMismatchWarning(CalibrantWarning):
    """Another order of the columns would be far more accurate: they may belong to other classes."""


class ScoresKindWarning(CalibrantWarning):
    """The scores look like probabilities but were declared to be logits."""
