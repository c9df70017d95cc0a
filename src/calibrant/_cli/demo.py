"""``calibrant demo``: naive Bayes before and after calibration, and what to type next."""

from __future__ import annotations

from pathlib import Path

import click

from calibrant._progress import progress_bar

VAL, TEST = "calibrant-demo-val.csv", "calibrant-demo-test.csv"
COMMANDS = (
    f"calibrant fit {VAL} -o model.calibrant",
    f"calibrant apply model.calibrant {TEST} -o calibrated.csv",
)


@click.command()
def demo() -> None:
    """Calibrate an over-confident classifier and show what comes of it.

    Writes a report and the predictions of the classifier into this directory.

    \b
    Example:
      calibrant demo
    """  # noqa: D301
    from calibrant._cli.measuring import describe
    from calibrant._cli.showing import write_columns
    from calibrant.datasets import naive_bayes
    from calibrant.report import compare, write_report

    with progress_bar("training a classifier") as advance:
        scores, y, new_scores, new_y = naive_bayes()
        comparison = compare(y, scores, new_y, new_scores, n_resamples=100, progress=advance)
    for name, p, labels in ((VAL, scores, y), (TEST, new_scores, new_y)):
        columns = {f"prob_{j}": p[:, j] for j in range(p.shape[1])}
        write_columns(Path(name), {**columns, "label": labels})
    report = Path("calibrant-demo.html")
    write_report(report, comparison, title="The demo: naive Bayes", commands=COMMANDS)
    click.echo(
        "Naive Bayes takes features for independent; here 15 of 20 repeat the other five.\n"
        f"Trained on {len(y):,} simulated rows, calibrated on {len(y):,}, judged on "
        f"{len(new_y):,} others.\n\n{describe(comparison)}\n\n"
        f"Report: {report.resolve().as_uri()}\n"
        "Next, with the predictions of this demo, then with a file of your own:\n"
    )
    for line in COMMANDS:
        click.echo(f"  {line}")
