"""``calibrant study``, ``compare-models`` and ``demo``: many files, many models, and none."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import click

from calibrant._cli.options import PATH, OutputPath, command, output_option, shared
from calibrant._cli.reading import show, tell, write_columns
from calibrant._progress import progress_bar

VAL, TEST = "calibrant-demo-val.csv", "calibrant-demo-test.csv"
COMMANDS = (
    f"calibrant fit {VAL} -o model.calibrant",
    f"calibrant apply model.calibrant {TEST} -o calibrated.csv",
)
"""What the demo says to type next."""


@command()
@click.argument("directory", metavar="DIR", type=PATH)
@output_option("Directory to write to.")
@click.option("--methods", help="Separated by commas, or 'all'; by default the paper's and auto.")
@click.option(
    "-j", "--jobs", type=click.IntRange(min=1), help="Number of processes; one per core by default."
)
@click.option("--retry-failed", is_flag=True, help="Run cells that failed again.")
@click.option("--table-only", is_flag=True, help="Write only the table of numbers.")
@click.option(
    "--against",
    type=PATH,
    help="Directory of CalArena's results for an HDF5 file; adds win rates against them.",
)
@shared("seed", "as_json")
def study(
    directory: Path,
    output: Path,
    methods: str | None,
    jobs: int | None,
    seed: int,
    retry_failed: bool,
    table_only: bool,
    against: Path | None,
) -> None:
    """Fit every method to every file in DIR and evaluate it, as in the paper.

    DIR has files dataset_model.npz with the arrays val_labels, test_labels and val_probs,
    test_probs (or val_logits, test_logits), or is an HDF5 file of CalArena, whose result files
    are written to OUT/calarena. Finished cells are kept in OUT/cells: run the same command again
    after a crash, or with more files or methods, to continue.

    \b
    Example:
      calibrant study predictions -o out
      calibrant study cv-multiclass.h5 -o out --against CalArena/results/cv-multiclass
    """  # noqa: D301
    from calibrant import study as library

    if against is not None:  # before a long run
        if directory.suffix.lower() not in {".h5", ".hdf5"}:
            raise click.UsageError(f"--against needs an HDF5 file of CalArena; {directory} is none")
        library.read_results(against)
    chosen = methods.split(",") if methods and methods != "all" else methods
    started = time.monotonic()
    with progress_bar("study") as advance:
        table = library.run_study(
            directory,
            output,
            chosen,
            n_jobs=jobs,
            seed=seed,
            retry_failed=retry_failed,
            progress=advance,
            message=tell,
        )
    written = []
    if not table_only:
        with progress_bar("drawing"):
            written = library.write_outputs(table, output)
    n_classifiers, n_methods = len(table.cases), len(table.methods)
    lost = table.frame[(table.frame["metric"] == "nll") & table.frame["value"].isna()]
    failures = (lost["dataset"] + "_" + lost["model"] + ": " + lost["method"]).tolist()
    seconds = time.monotonic() - started
    duration = timedelta(seconds=round(seconds))
    lines = [f"{output}: {n_classifiers} classifiers x {n_methods} methods in {duration}"]
    if failures:
        n_cells = n_classifiers * n_methods
        lines.append(f"{len(failures)} of {n_cells} cells failed: see study.log")
    rates: list[dict[str, object]] = []
    for metric in () if against is None else ("brier", "logloss"):  # the two proper scores
        won = library.win_rates(against, output / "calarena" / directory.stem, metric=metric)
        won = won.reset_index()
        n_experiments = int(won.pop("experiments")[0])
        methods_won = won.to_dict("records")
        rates.append({"metric": metric, "experiments": n_experiments, "methods": methods_won})
        lines.append(f"Win rates by {metric}, {n_experiments} experiments:")
        line = "  {score:.3f} ({lower:.2f} to {upper:.2f})  {method}"
        lines += [line.format(**rate) for rate in methods_won]
    result = {
        "output": str(output),
        "classifiers": n_classifiers,
        "methods": table.methods,
        "failures": failures,
        "written": [str(path) for path in written],
        "win_rates": rates,
        "seconds": seconds,
    }
    lines += [f"Report: {path}" for path in written if path.suffix == ".html"]
    show(result, "\n".join(lines))


@command("compare-models")
@click.argument("directories", type=PATH, nargs=-1, required=True, metavar="DIRECTORY...")
@click.option(
    "--clusters",
    metavar="NAME",
    help="Field with the document or topic of each question, which intervals are drawn by; 'task' "
    "for the tasks of a group.",
)
@click.option("--method", "-m", default="auto", help="Method of calibration.")
@click.option(
    "--sort", metavar="COLUMN", help="Order of the rows, the largest first: such as error or slope."
)
@click.option("--report", type=OutputPath(), help="Write a page to this HTML file.")
@output_option("Table of all numbers.", required=False)
@shared("level", "jobs", "as_json")
def compare_models(
    directories: tuple[Path, ...],
    clusters: str | None,
    method: str,
    sort: str | None,
    level: float,
    report: Path | None,
    output: Path | None,
) -> None:
    """Compare models by the logs in DIRECTORY, before and after calibration.

    Output of lm-evaluation-harness (--log_samples), Inspect and HELM is read as it lies; other logs
    are DIRECTORY/model/task.jsonl. Differences are those on the same questions.

    \b
    Example:
      calibrant compare-models results --report models.html -o models.csv
    """  # noqa: D301
    from calibrant import report as reports
    from calibrant._calibrators.methods import make_calibrator

    answers = [one for path in directories for one in reports.read_answers(path, clusters=clusters)]
    calibrator = make_calibrator(method)
    table = reports.compare_models(answers, calibrator=calibrator, confidence_level=level)
    if sort is not None:
        table = table.sorted_by(sort)
    if output is not None:
        write_columns(output, table.to_frame())
    if report is not None:
        reports.write_models(report, table)
    sources = {"sources": [str(path) for path in directories]}
    show(sources | table.to_dict(), repr(table), report)


@click.command()
def demo() -> None:
    """Calibrate an over-confident classifier and show what comes of it.

    Writes a report and the predictions of the classifier into this directory.

    \b
    Example:
      calibrant demo
    """  # noqa: D301
    from calibrant._cli.measuring import describe
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
