"""``Comparison``: how every method did, as frozen numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calibrant import simplex
from calibrant.metrics.table import headline
from calibrant.report.table import table_records, table_text
from calibrant.trial import UNCALIBRATED

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from calibrant.calibrators.base import Calibrator
    from calibrant.metrics import CalibrationTest, ClassShares, Evaluation, ReliabilityCurve
    from calibrant.metrics.table import Metric
    from calibrant.plots import (
        ClasswiseSummary,
        ConfidenceHistogram,
        Effect,
        MapPicture,
        TopRCurve,
    )
    from calibrant.report.paired import Difference

BASELINE = "ts"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MethodResult:
    """How one method did on the test part.

    Attributes
    ----------
    method : str
        Its short name; "uncalibrated" for the predictions as they came.
    title : str
        Name of its class.
    evaluation : Evaluation
        Every metric, with intervals.
    difference : Difference or None
        Its NLL minus that of temperature scaling.
    curve : ReliabilityCurve
        Of the confidence, or of the positive one of two classes, with the p-value of its error.
    shares : ClassShares
        How often every class was predicted and came.
    classwise_test : CalibrationTest or None
        Whether the class-wise error is more than chance; None without resamples, and of two
        classes, whose error is that of the positive one.
    confidence : ConfidenceHistogram
        With the accuracy and the mean confidence.
    classwise : ClasswiseSummary
        Errors of all classes, and diagrams of some.
    top_r : TopRCurve or None
        None of two classes: of these the first holds the label as often as the confidence says.
    effect : Effect or None
        What became of the confidences; None for the uncalibrated predictions.
    map : MapPicture or None
        The fitted map, where it can be drawn.
    calibrator : Calibrator or None
        Fitted.
    fit_seconds, predict_seconds : float
    warnings : tuple of str
        What was warned of while it was fitted and judged.
    """

    method: str
    title: str
    evaluation: Evaluation
    difference: Difference | None
    curve: ReliabilityCurve
    shares: ClassShares
    classwise_test: CalibrationTest | None
    confidence: ConfidenceHistogram
    classwise: ClasswiseSummary
    top_r: TopRCurve | None
    effect: Effect | None
    map: MapPicture | None
    calibrator: Calibrator | None
    fit_seconds: float
    predict_seconds: float
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        nll = self.evaluation.negative_log_likelihood.value
        name = self.headline.title
        return f"<MethodResult of {self.method}: NLL {nll:.4f}, {name} {100 * self.error:.2f} %>"

    @property
    def headline(self) -> Metric:
        """The calibration error that the verdict goes by."""
        return headline(self.evaluation.n_classes)

    @property
    def error(self) -> float:
        """Its value."""
        return float(self.evaluation.estimates()[self.headline.id].value)

    @property
    def p_values(self) -> dict[str, float]:
        """Chance of errors as large if the predictions were calibrated; NaN if not tested."""
        found = {self.headline.id: self.curve.p_value}
        if self.classwise_test is not None:
            found["classwise_ece"] = self.classwise_test.p_value
        return found


@dataclass(frozen=True, slots=True)
class Failure:
    """A method that could not be fitted or judged.

    Attributes
    ----------
    method, title : str
        As in :class:`MethodResult`.
    error : str
        Class of the error.
    message : str
        What it said.
    """

    method: str
    title: str
    error: str
    message: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparison:
    """Result of :func:`compare`.

    ``print`` shows it as a table.

    Attributes
    ----------
    results : tuple of MethodResult
        The uncalibrated predictions first, then the methods in the order asked for.
    failures : tuple of Failure
        Methods that could not be judged.
    classes : ndarray of shape (n_classes,)
        Label of each column.
    val_counts, test_counts : ndarray of shape (n_classes,)
        Rows of each class in the two parts.
    shown : tuple of int
        Columns of the classes that have diagrams.
    settings : dict
        What was asked for: kind of scores, bins, resamples, level, seed, weights.
    sources : dict of str to str
        Names of what was read, such as file names.
    versions : dict of str to str
        Of the libraries.
    warnings : tuple of str
        What was warned of when the data was read.
    created : str
        Date and time, UTC.
    seconds : float
        Of everything.
    """

    results: tuple[MethodResult, ...]
    failures: tuple[Failure, ...]
    classes: NDArray[Any]
    val_counts: NDArray[np.int64]
    test_counts: NDArray[np.int64]
    shown: tuple[int, ...]
    settings: dict[str, Any]
    sources: dict[str, str]
    versions: dict[str, str]
    warnings: tuple[str, ...]
    created: str
    seconds: float

    def __repr__(self) -> str:
        return table_text(self)

    def to_frame(self) -> pd.DataFrame:
        """Return the numbers of every method as a data frame; needs pandas.

        Returns
        -------
        frame : DataFrame
            A row for each method, by its short name; every metric with the ends of its interval,
            p-values, the NLL minus that of the baseline, and seconds. Errors are in units of one.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "to_frame needs pandas; install it with: pip install pandas"
            ) from error
        return pd.DataFrame.from_records(table_records(self), index="method")

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def methods(self) -> tuple[str, ...]:
        """Short names of the methods that were judged."""
        return tuple(result.method for result in self.results)

    @property
    def baseline(self) -> str:
        """What methods are compared with: temperature scaling, unless it failed."""
        return BASELINE if BASELINE in self.methods else UNCALIBRATED

    def result(self, method: str) -> MethodResult:
        """Return the result of a method by its short name."""
        simplex.check_option("method", method, self.methods)
        return self.results[self.methods.index(method)]
