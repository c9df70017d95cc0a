"""``calibrant demo``: naive Bayes before and after calibration, and what to type next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from calibrant._progress import progress_bar

if TYPE_CHECKING:
    from calibrant.datasets import SplitPredictions

VAL, TEST = "calibrant-demo-val.csv", "calibrant-demo-test.csv"
COMMANDS = (
    f"calibrant fit {VAL} -o model.calibrant",
    f"calibrant apply model.calibrant {TEST} -o calibrated.csv",
)
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

    rows, labels = make_classification(
        3 * ROWS,
        n_classes=5,
        n_features=20,
        n_informative=5,
        n_redundant=15,
        n_clusters_per_class=1,
        random_state=0,
    )
    (train, val, new), (y_train, y, new_y) = np.split(rows, 3), np.split(labels, 3)
    classifier = GaussianNB().fit(train, y_train)
    return SplitPredictions(classifier.predict_proba(val), y, classifier.predict_proba(new), new_y)


@click.command()
def demo() -> None:
    """Calibrate an over-confident classifier and show what comes of it.

    Writes a report and the predictions of the classifier into this directory.

    \b
    Example:
      calibrant demo
    """  # noqa: D301
    from rich.console import Console

    from calibrant._cli.measuring import comparison_table
    from calibrant._cli.showing import write_columns
    from calibrant.report import compare, write_report

    with progress_bar("training a classifier") as advance:
        scores, y, new_scores, new_y = predictions()
        comparison = compare(y, scores, new_y, new_scores, n_resamples=100, progress=advance)
    for name, p, labels in ((VAL, scores, y), (TEST, new_scores, new_y)):
        columns = {f"prob_{j}": p[:, j] for j in range(p.shape[1])}
        write_columns(Path(name), {**columns, "label": labels})
    report = Path("calibrant-demo.html")
    write_report(report, comparison, title="The demo: naive Bayes", commands=COMMANDS)
    click.echo(
        "Naive Bayes takes features for independent; here 15 of 20 repeat the other five.\n"
        f"Trained on {ROWS:,} simulated rows, calibrated on {len(y):,}, judged on "
        f"{len(new_y):,} others.\n"
    )
    Console().print(comparison_table(comparison))
    click.echo(f"\nReport: {report.resolve().as_uri()}")
    click.echo("Next, with the predictions of this demo, then with a file of your own:\n")
    for line in COMMANDS:
        click.echo(f"  {line}")
