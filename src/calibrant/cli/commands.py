"""The commands, each a few lines over the library, which they import when they run."""

from __future__ import annotations

import json
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from calibrant.calibrators.methods import METHODS, make_calibrator
from calibrant.cli.progress import progress_bar
from calibrant.cli.tables import comparison_numbers, comparison_table, evaluation_table

if TYPE_CHECKING:
    from collections.abc import Iterator

EXIT_NOT_CONVERGED = 5

file_argument = click.Path(path_type=Path, allow_dash=True)
scores_option = click.option(
    "--scores",
    type=click.Choice(["probabilities", "logits"]),
    help="What the scores are; npz files say it themselves.",
)
label_option = click.option(
    "--label-column", default="label", show_default=True, help="Column of a table with the labels."
)
labels_option = click.option("--labels", type=file_argument, help="A npy file with the labels.")
part_option = click.option(
    "--part", type=click.Choice(["val", "test"]), help="Part of an npz file with val_* and test_*."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Put the path of a model file before what is wrong with it."""
    from calibrant.errors import ModelFileError

    try:
        yield
    except ModelFileError as error:
        raise type(error)(f"{path}: {error}") from error


def _show(result: Any, as_json: bool, table: Any) -> None:
    if as_json:
        click.echo(json.dumps(result, allow_nan=True))
    else:
        Console().print(table, markup=False, soft_wrap=isinstance(table, str))


@click.command()
@click.argument("file", type=file_argument)
@part_option
@scores_option
@label_option
@labels_option
@click.option("--bins", default=15, show_default=True, help="Number of bins of the ECEs.")
@click.option("--seed", default=0, show_default=True, help="Seed of the bootstrap.")
@json_option
def evaluate(
    file: Path,
    part: str | None,
    scores: str | None,
    label_column: str,
    labels: Path | None,
    bins: int,
    seed: int,
    as_json: bool,
) -> None:
    """Measure how honest the probabilities in FILE are.

    \b
    Example:
      calibrant evaluate predictions.csv
    """  # noqa: D301
    from calibrant import metrics, simplex
    from calibrant.files.align import align
    from calibrant.files.predictions import read_predictions

    found = read_predictions(
        file, part=part or "test", kind=scores, label_column=label_column, labels=labels
    )
    y, classes = align(found)
    matrix = found.scores
    if found.kind == "logits":
        matrix = simplex.softmax(simplex.check_scores(matrix, "logits"))
    result = metrics.evaluate(y, matrix, n_bins=bins, random_state=seed, classes=classes)
    test = metrics.calibration_test(y, matrix, n_bins=bins, random_state=seed, classes=classes)
    summary = {"source": found.source, **result.to_dict(), "p_value": test.p_value}
    _show(summary, as_json, evaluation_table(found.source, result, test))


@click.command()
@click.argument("val", type=file_argument)
@click.option(
    "-m", "--method", type=click.Choice(list(METHODS)), default="na-fir", show_default=True
)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Model file.")
@part_option
@scores_option
@label_option
@labels_option
@click.option("--strict", is_flag=True, help="Write nothing and exit with 5 if not converged.")
@json_option
def fit(
    val: Path,
    method: str,
    output: Path,
    part: str | None,
    scores: str | None,
    label_column: str,
    labels: Path | None,
    strict: bool,
    as_json: bool,
) -> int:
    """Fit a calibrator to the predictions and labels in VAL.

    \b
    Example:
      calibrant fit val.npz -m na-fir -o model.calibrant
    """  # noqa: D301
    from calibrant import model_file
    from calibrant.errors import ConvergenceWarning
    from calibrant.files.align import align
    from calibrant.files.predictions import read_predictions

    found = read_predictions(
        val, part=part or "val", kind=scores, label_column=label_column, labels=labels
    )
    y, classes = align(found)
    calibrator = make_calibrator(method, scores=found.kind, classes=classes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrator.fit(found.scores, y)
    stuck = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    for warning in caught:
        click.echo(f"calibrant: warning: {warning.message}", err=True)
    if stuck and strict:
        return EXIT_NOT_CONVERGED
    digest = model_file.save(calibrator, output)
    result = {
        "method": method,
        "rows": len(y),
        "classes": len(calibrator.classes_),
        "model": str(output),
        "sha256": digest,
        "converged": not stuck,
    }
    _show(result, as_json, f"{output}: {method} fitted to {len(y):,} rows of {found.source}")
    return 0


@click.command(name="apply")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("file", type=file_argument)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="New file.")
@part_option
@label_option
@click.option(
    "--on-bad-row",
    type=click.Choice(["error", "skip", "nan"]),
    default="error",
    show_default=True,
    help="What to do with a row that is no distribution.",
)
@click.option("--sha256", help="Refuse a model file with another digest.")
@json_option
def apply_command(
    model: Path,
    file: Path,
    output: Path,
    part: str | None,
    label_column: str,
    on_bad_row: str,
    sha256: str | None,
    as_json: bool,
) -> None:
    """Calibrate the predictions in FILE with MODEL, a chunk of rows at a time.

    \b
    Example:
      calibrant apply model.calibrant test.npz -o calibrated.npz
    """  # noqa: D301
    from calibrant import model_file
    from calibrant.files.apply import apply_file

    with _naming(model):
        calibrator = model_file.load(model, sha256=sha256)
    with progress_bar(f"calibrating {file}") as advance:
        done = apply_file(
            calibrator,
            file,
            output,
            part=part or "test",
            label_column=label_column,
            on_bad_row=on_bad_row,
            progress=advance,
        )
    if done.n_bad_rows:
        click.echo(f"calibrant: {done.n_bad_rows} bad rows: {on_bad_row}", err=True)
    result = {"output": str(output), "rows": done.n_rows, "bad_rows": done.n_bad_rows}
    _show(result, as_json, f"{output}: {done.n_rows:,} rows")


@click.command()
@click.argument("val", type=file_argument)
@click.argument("test", type=file_argument, required=False)
@click.option("--methods", help="Comma-separated; all by default.")
@click.option("--report", type=click.Path(path_type=Path), help="Write a page to this HTML file.")
@scores_option
@label_option
@click.option("--seed", default=0, show_default=True, help="Seed of the resampling.")
@json_option
def compare(
    val: Path,
    test: Path | None,
    methods: str | None,
    report: Path | None,
    scores: str | None,
    label_column: str,
    seed: int,
    as_json: bool,
) -> None:
    """Fit every method to VAL and judge it on TEST.

    VAL alone is enough if it is an npz file with val_* and test_* arrays.

    \b
    Example:
      calibrant compare val.npz test.npz --report report.html
    """  # noqa: D301
    from calibrant import report as reports
    from calibrant.files.align import align
    from calibrant.files.predictions import read_predictions

    parts = [
        read_predictions(path, part=part, kind=scores, label_column=label_column)
        for path, part in ((val, "val"), (test or val, "test"))
    ]
    (y_val, classes), (y_test, _) = (align(part) for part in parts)
    chosen = methods.split(",") if methods else list(METHODS)
    with progress_bar("comparing") as advance:
        comparison = reports.compare(
            y_val,
            parts[0].scores,
            y_test,
            parts[1].scores,
            chosen,
            scores=parts[0].kind,
            classes=classes,
            random_state=seed,
            sources={"calibration": parts[0].source, "test": parts[1].source},
            progress=advance,
        )
    if report is not None:
        reports.write_report(report, comparison)
    _show(comparison_numbers(comparison), as_json, comparison_table(comparison))
    if report is not None and not as_json:
        click.echo(f"Report: {report.resolve().as_uri()}")


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@json_option
def inspect(model: Path, as_json: bool) -> None:
    """Say what MODEL is, without applying it.

    \b
    Example:
      calibrant inspect model.calibrant
    """  # noqa: D301
    from calibrant import model_file

    with _naming(model):
        found = model_file.describe(model)
    lines = "\n".join(f"{key:<16} {value}" for key, value in found.items())
    _show(found, as_json, lines)


@click.command()
def demo() -> int:
    """Train an over-confident network on digits and calibrate it every way.

    \b
    Example:
      calibrant demo
    """  # noqa: D301
    from calibrant.cli.demo import main

    return main()


ALL = [evaluate, fit, apply_command, compare, inspect, demo]
