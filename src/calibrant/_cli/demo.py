"""``calibrant demo``: naive Bayes before and after calibration, and what to type next."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calibrant._progress import progress_bar

if TYPE_CHECKING:
    from calibrant.datasets import SplitPredictions

VAL, TEST = "calibrant-demo-val.csv", "calibrant-demo-test.csv"
ROWS = 5_000
"""Rows to train on, as many to calibrate on, and as many to judge on."""


def predictions() -> SplitPredictions:
    """Train naive Bayes on rows of which 15 features are linear combinations of the other five.

    It counts what they say four times. No temperature mends that, and there are enough rows to tell
    methods apart.
    """
    import numpy as np
    from sklearn.datasets import make_classification
    from sklearn.naive_bayes import GaussianNB

    from calibrant.datasets import SplitPredictions

    told = {"n_features": 20, "n_informative": 5, "n_redundant": 15, "n_clusters_per_class": 1}
    rows, labels = make_classification(3 * ROWS, n_classes=5, random_state=0, **told)
    (train, val, new), (y_train, y, new_y) = np.split(rows, 3), np.split(labels, 3)
    classifier = GaussianNB().fit(train, y_train)
    return SplitPredictions(classifier.predict_proba(val), y, classifier.predict_proba(new), new_y)


def next_commands(home: Path, method: str) -> list[str]:
    """Return the command lines that fit a method to the files of the demo and apply it."""
    # Who ran "python -m calibrant" may not have the command itself in PATH.
    python = sys.executable.removeprefix(f"{Path.cwd()}{os.sep}")
    command = ["calibrant"] if shutil.which("calibrant") else [python, "-m", "calibrant"]
    names = VAL, TEST, "model.calibrant", "calibrated.csv"
    val, test, model, out = (n if home == Path.cwd() else str(home / n) for n in names)
    option = [] if method == "auto" else ["--method", method]  # the default
    fit, apply = ["fit", val, *option, "-o", model], ["apply", model, test, "-o", out]
    return [shlex.join([*command, *words]) for words in (fit, apply)]


@click.command()
def demo() -> None:
    """Calibrate an over-confident classifier and show what comes of it.

    Writes a report and the predictions of the classifier into this directory.

    \b
    Example:
      calibrant demo
    """  # noqa: D301
    from rich.console import Console
    from rich.text import Text

    from calibrant._cli.showing import comparison_table, key_table, write_columns
    from calibrant.report import compare, write_report

    with progress_bar("training a classifier") as advance:
        scores, y, new_scores, new_y = predictions()
        comparison = compare(y, scores, new_y, new_scores, n_resamples=100, progress=advance)
    here = Path.cwd()
    home = here if os.access(here, os.W_OK) else Path(tempfile.mkdtemp())
    for name, p, labels in ((VAL, scores, y), (TEST, new_scores, new_y)):
        columns = {f"prob_{j}": p[:, j] for j in range(p.shape[1])}
        write_columns(home / name, {**columns, "label": labels})
    verdict = comparison.verdict
    commands = next_commands(home, verdict.applied)
    report = home / "calibrant-demo.html"
    write_report(report, comparison, title="The demo: naive Bayes", commands=commands)

    console = Console(highlight=False, soft_wrap=True)
    console.print(
        "Naive Bayes takes features for independent; here 15 of 20 repeat the other five.\n"
        f"Trained on {ROWS:,} simulated rows, calibrated on {len(y):,}, judged on "
        f"{len(new_y):,} others.\n"
    )
    console.print(Text(verdict.headline), soft_wrap=False)
    console.print(key_table(comparison))
    console.print(comparison_table(comparison, verdict.listed), soft_wrap=False)
    console.print(f"\nReport: {report.as_uri()}")
    console.print(
        "Next, with the predictions of this demo, then with a file of your own (a column\n"
        "of probabilities for each class, and one of labels):\n"
    )
    for line in commands:
        console.print(Text(f"  {line}"))
