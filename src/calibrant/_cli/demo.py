"""``calibrant demo``: an over-confident network on scikit-learn's digits, and every calibrator."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click

from calibrant._progress import progress_bar


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
    here = Path.cwd()
    home = here if os.access(here, os.W_OK) else Path(tempfile.mkdtemp())
    path = home / "calibrant-demo.html"
    write_report(path, comparison, title="The digits demo")
    console.print(f"Report: {path.as_uri()}", highlight=False, soft_wrap=True)
