"""``calibrant demo``: an over-confident network on scikit-learn's digits, and every calibrator."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calibrant._progress import progress_bar

if TYPE_CHECKING:
    from calibrant.report._results import Comparison


def summarise(comparison: Comparison) -> str:
    """Say in two lines what the table shows."""
    raw, *methods = comparison.results
    accuracy = 100 * raw.evaluation.accuracy.value
    confidence = 100 * raw.confidence.mean_confidence
    lead = min(methods, key=lambda r: r.evaluation.negative_log_likelihood.value)
    sure = min(methods, key=lambda r: r.evaluation.confidence_ece.value)
    return (
        f"The network is over-confident by {confidence - accuracy:.0f} points: on "
        f"{raw.evaluation.n_rows} test images it is right {accuracy:.0f} % of the time and says "
        f"{confidence:.0f} %.\n"
        f"{lead.method} has the best NLL, {lead.evaluation.negative_log_likelihood.value:.3f} "
        f"instead of {raw.evaluation.negative_log_likelihood.value:.3f}; {sure.method} the best "
        f"conf-ECE, {100 * sure.evaluation.confidence_ece.value:.1f} % instead of "
        f"{100 * raw.evaluation.confidence_ece.value:.1f} %."
    )


@click.command()
def demo() -> None:
    """Train an over-confident network on digits and calibrate it every way.

    \b
    Example:
      calibrant demo
    """  # noqa: D301
    from rich.console import Console

    from calibrant._cli.showing import comparison_table
    from calibrant.datasets import overconfident_digits
    from calibrant.report import compare, write_report

    console = Console()
    with progress_bar("training a network") as advance:
        scores, y, new_scores, new_y = overconfident_digits()
        comparison = compare(
            y, scores, new_y, new_scores, sources={"test": "digits"}, progress=advance
        )
    console.print("Digits: fitted on the calibration part, judged on the test part (* best)")
    console.print(comparison_table(comparison))
    console.print(summarise(comparison), highlight=False, soft_wrap=True)
    here = Path.cwd()
    home = here if os.access(here, os.W_OK) else Path(tempfile.mkdtemp())
    path = home / "calibrant-demo.html"
    write_report(path, comparison, title="The digits demo")
    console.print(f"Report: {path.as_uri()}", highlight=False, soft_wrap=True)
