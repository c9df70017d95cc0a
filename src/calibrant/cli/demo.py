"""``make demo``: an over-confident network on the digits of scikit-learn, and every calibrator."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from calibrant import metrics
from calibrant.calibrators.methods import METHODS, make_calibrator
from calibrant.datasets import overconfident_digits
from calibrant.errors import ConvergenceWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from calibrant.datasets import Predictions

UNCALIBRATED = "uncalibrated"

COLUMNS: dict[str, tuple[Callable[..., float], float, str, bool]] = {
    # heading: (metric, factor, format, whether more is better)
    "accuracy %": (metrics.accuracy, 100.0, ".1f", True),
    "NLL": (metrics.negative_log_likelihood, 1.0, ".3f", False),
    "Brier": (metrics.brier_score, 1.0, ".4f", False),
    "conf-ECE %": (metrics.confidence_ece, 100.0, ".1f", False),
    "cw-ECE %": (metrics.classwise_ece, 100.0, ".2f", False),
    "TECE %": (metrics.thresholded_ece, 100.0, ".1f", False),
}


@dataclass(frozen=True, slots=True)
class Result:
    """One row of the table."""

    method: str
    values: dict[str, float]
    seconds: float


def run(predictions: Predictions) -> Iterator[Result]:
    """Fit every calibrator and judge it on the test part, one after the other."""
    scores, y, new_scores, new_y = predictions
    yield Result(UNCALIBRATED, _measure(new_y, new_scores), 0.0)
    for method in METHODS:
        calibrator = make_calibrator(method)
        started = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            calibrator.fit(scores, y)
        seconds = perf_counter() - started
        yield Result(method, _measure(new_y, calibrator.predict_proba(new_scores)), seconds)


def _measure(y: NDArray[Any], scores: NDArray[np.float64]) -> dict[str, float]:
    return {name: factor * f(y, scores) for name, (f, factor, _, _) in COLUMNS.items()}


def best(results: list[Result]) -> dict[str, float]:
    """Return the best value of each column, as it is printed."""
    chosen = {}
    for name, (_, _, form, more) in COLUMNS.items():
        values = [float(format(result.values[name], form)) for result in results]
        chosen[name] = max(values) if more else min(values)
    return chosen


def build_table(results: list[Result]) -> Table:
    """Lay out the results, with the best of each column in bold and starred."""
    table = Table(
        title="Digits: fitted on the calibration part, judged on the test part (* best)",
        box=box.SIMPLE_HEAD,
        collapse_padding=True,
        pad_edge=False,
    )
    table.add_column("method", no_wrap=True)
    for name in [*COLUMNS, "fit s"]:
        table.add_column(name, justify="right")
    top = best(results)
    for result in results:
        cells = []
        for name, (_, _, form, _) in COLUMNS.items():
            text = format(result.values[name], form)
            cells.append(f"[bold green]{text}*[/]" if float(text) == top[name] else f"{text} ")
        table.add_row(result.method, *cells, f"{result.seconds:.2f}")
    return table


def summarise(results: list[Result], predictions: Predictions) -> str:
    """Say in two lines what the table shows."""
    raw = results[0].values
    gap = 100 * float(predictions.new_scores.max(axis=1).mean()) - raw["accuracy %"]
    lead = min(results[1:], key=lambda result: result.values["NLL"])
    sure = min(results[1:], key=lambda result: result.values["conf-ECE %"])
    return (
        f"The network is over-confident by {gap:.0f} points: on {len(predictions.new_y)} test "
        f"images it is right {raw['accuracy %']:.0f} % of the time and says "
        f"{raw['accuracy %'] + gap:.0f} %.\n"
        f"{lead.method} has the best NLL, {lead.values['NLL']:.3f} instead of {raw['NLL']:.3f}; "
        f"{sure.method} the best conf-ECE, {sure.values['conf-ECE %']:.1f} % instead of "
        f"{raw['conf-ECE %']:.1f} %."
    )


def main() -> int:
    """Run the demo; return the exit code."""
    console = Console()
    columns = (
        TextColumn("{task.description:28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("training a network", total=len(METHODS) + 2)
        predictions = overconfident_digits()
        bar.advance(task)
        results = []
        for result in run(predictions):
            results.append(result)
            bar.update(task, description=f"calibrating: {result.method}", advance=1)
    console.print(build_table(results))
    console.print(summarise(results, predictions), highlight=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
