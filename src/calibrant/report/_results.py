"""``Comparison``: how every method did, as frozen numbers and as a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from calibrant import _simplex as simplex
from calibrant._extras import needed
from calibrant._trial import UNCALIBRATED
from calibrant.metrics._result import doc, result
from calibrant.metrics._table import METRICS, headline, metrics_of
from calibrant.plots._style import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from calibrant._calibrators.base import Calibrator
    from calibrant.metrics._reliability import ReliabilityCurve
    from calibrant.metrics._shares import ClassShares
    from calibrant.metrics._significance import CalibrationTest
    from calibrant.metrics._table import Evaluation, Metric
    from calibrant.plots._classwise import ClasswiseSummary
    from calibrant.plots._confidence import ConfidenceHistogram, Effect, TopRCurve
    from calibrant.plots._maps import MapPicture
    from calibrant.report._judge import Difference

BASELINE = "ts"


@result(eq=False, repr=False)
class MethodResult:
    """How one method did on the test part."""

    method: str = doc("Its short name; 'uncalibrated' for the predictions as they came.")
    title: str = doc("Name of its class.")
    evaluation: Evaluation = doc("Every metric, with intervals.")
    difference: Difference | None = doc("Its NLL minus that of temperature scaling.")
    curve: ReliabilityCurve = doc("Of what the verdict goes by, with the p-value of its error.")
    shares: ClassShares = doc("How often every class was predicted and came.")
    classwise_test: CalibrationTest | None = doc("None without resamples, and of two classes.")
    confidence: ConfidenceHistogram = doc("With the accuracy and the mean confidence.")
    classwise: ClasswiseSummary = doc("Errors of all classes, and diagrams of some.")
    top_r: TopRCurve | None = doc("None of two classes.")
    effect: Effect | None = doc("What became of the confidences.")
    map: MapPicture | None = doc("The fitted map, where it can be drawn.")
    calibrator: Calibrator | None = doc("Fitted.")
    fit_seconds: float
    predict_seconds: float
    warnings: tuple[str, ...] = doc("What was warned of while it was fitted and judged.")

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


@result()
class Failure:
    """A method that could not be fitted or judged."""

    method: str = doc("As in :class:`MethodResult`.")
    title: str = doc("As in :class:`MethodResult`.")
    error: str = doc("Class of the error.")
    message: str = doc("What it said.")


@result(eq=False, repr=False)
class Comparison:
    """Result of :func:`compare`.

    ``print`` shows it as a table.
    """

    results: tuple[MethodResult, ...] = doc("The uncalibrated predictions, then all methods.")
    failures: tuple[Failure, ...] = doc("Methods that could not be judged.")
    classes: NDArray[Any] = doc("Label of each column.")
    val_counts: NDArray[np.int64] = doc("Rows of each class in the calibration part.")
    test_counts: NDArray[np.int64] = doc("And in the test part.")
    shown: tuple[int, ...] = doc("Columns of the classes that have diagrams.")
    settings: dict[str, Any] = doc("What was asked for: bins, resamples, seed and so on.")
    sources: dict[str, str] = doc("Names of what was read, such as file names.")
    versions: dict[str, str] = doc("Of the libraries.")
    warnings: tuple[str, ...] = doc("What was warned of when the data was read.")
    created: str = doc("Date and time, UTC.")
    seconds: float = doc("Of everything.")

    def __repr__(self) -> str:
        columns = [["method", *(shorten(result.method) for result in self.results)]]
        for name, best in best_texts(self.results).items():
            texts = [METRICS[name].text(getattr(r.evaluation, name).value) for r in self.results]
            stars = (f"{text}{'*' if text == best else ' '}" for text in texts)
            columns.append([f"{METRICS[name].heading} ", *stars])
        columns.append(["fit, s", *(f"{result.fit_seconds:.2f}" for result in self.results)])
        widths = [max(map(len, column)) for column in columns]
        lines = [
            "  ".join([first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]).rstrip()
            for first, *others in zip(*columns, strict=True)
        ]
        lines += [f"{f.method} failed: {f.error}: {f.message}" for f in self.failures]
        n_val, n_test = self.settings["n_val"], self.settings["n_test"]
        sizes = f"{n_val:,} rows to fit, {n_test:,} to judge, {self.n_classes:,} classes"
        return "\n".join([*lines, f"{sizes}; * the best"])

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
            raise needed(error, "to_frame", "cli") from error
        return pd.DataFrame([_record(result) for result in self.results]).set_index("method")

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


def best_texts(results: Sequence[MethodResult]) -> dict[str, str]:
    """Return the best value of each metric, as it is printed."""
    return {
        name: metric.text(metric.best(getattr(r.evaluation, name).value for r in results))
        for name, metric in metrics_of(results[0].evaluation.n_classes).items()
    }


def _record(result: MethodResult) -> dict[str, Any]:
    """Numbers of a method by name, in units of one."""
    record: dict[str, Any] = {"method": result.method, "class": result.title}
    for name, estimate in result.evaluation.estimates().items():
        record |= {name: estimate.value, f"{name}_low": estimate.low}
        record[f"{name}_high"] = estimate.high
    record |= {f"{name}_p_value": p for name, p in result.p_values.items()}
    gap = result.difference
    record["nll_difference"] = 0.0 if gap is None else gap.value
    record["nll_difference_p_value"] = math.nan if gap is None else gap.p_value
    return record | {"fit_seconds": result.fit_seconds, "predict_seconds": result.predict_seconds}
