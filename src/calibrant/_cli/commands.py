"""The commands, each a few lines over the library, which they import when they run."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibrant._cli.chunked import (
    Fitted,
    chunks_option,
    evaluate_chunks,
    evaluate_file,
    fit_chunks,
    is_of_tables,
)
from calibrant._cli.demo import demo
from calibrant._cli.export import export
from calibrant._cli.judge import judge
from calibrant._cli.reading import Reading, file_argument, path_argument, reading_options
from calibrant._cli.showing import NotConvergedError, inspection_text, json_option, naming, show
from calibrant._progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable


BAD_ROWS = click.Choice(["error", "skip", "nan"])

part_option = click.option(
    "--part", type=click.Choice(["val", "test"]), help="Part of an npz file with val_* and test_*."
)


class MethodChoice(click.Choice):  # type: ignore[type-arg]  # it takes none before click 8.2
    """The name of a method; those that there are get imported when they are asked for."""

    def __init__(self) -> None:
        self.case_sensitive = True

    @cached_property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """Every method."""
        from calibrant._calibrators.methods import methods

        return tuple(methods())


def _check_jobs(_: click.Context, __: click.Parameter, jobs: int) -> int:
    if jobs == 0:
        raise click.BadParameter("0 is no number of threads; use 1 or more, or -1 for all cores")
    return jobs


def jobs_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--jobs``, and all that it does so many threads."""
    help_text = "Number of threads; -1 is all cores. It changes no number."

    @click.option("-j", "--jobs", type=int, default=1, callback=_check_jobs, help=help_text)
    @wraps(command)
    def run(*, jobs: int, **options: Any) -> Any:
        from calibrant import _threads as threads

        with threads.jobs(jobs):
            return command(**options)

    return run


@click.command()
@click.argument("file", type=file_argument)
@part_option
@reading_options()
@click.option("--bins", default=15, help="Number of bins of the ECEs.")
@click.option(
    "--resamples", type=click.IntRange(min=0), default=200, help="Of the intervals; 0 for none."
)
@click.option("--seed", default=0, help="Seed of the bootstrap.")
@click.option("--ordered", is_flag=True, help="Classes are in order: with the RPS.")
@chunks_option
@jobs_option
@json_option
def evaluate(
    file: Path, part: str | None, reading: Reading, chunks: bool, as_json: bool, **draws: int
) -> None:
    """Measure how honest the probabilities in FILE, or in a directory of tables, are.

    \b
    Example:
      calibrant evaluate predictions.csv
    """  # noqa: D301
    from calibrant._cli.showing import evaluation_table

    if chunks or is_of_tables(file):
        source = str(file)
        result, test, shares = evaluate_chunks(file, part, reading, **draws)
    else:
        with progress_bar(f"reading {file}"):
            found = reading.read(file, part=part, usual_part="test", positive_last=True)
        source = found.place.source
        with progress_bar(f"measuring {source}") as advance, found.explained():
            result, test, shares = evaluate_file(found, advance, **draws)
    summary = {
        "source": source,
        **result.to_dict(),
        "p_value": None if test is None else test.p_value,
        "shares": shares.to_dict(),
    }
    show(summary, as_json, evaluation_table(source, result, test, shares))


@click.command()
@click.argument("val", type=file_argument)
@click.option("-m", "--method", type=MethodChoice(), default="auto")
@click.option("-o", "--output", type=path_argument, required=True, help="Model file.")
@part_option
@reading_options()
@chunks_option
@click.option(
    "--statistics",
    "kept",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Keep in this file what was counted: the next run counts new files only.",
)
@click.option(
    "--decay", type=click.FloatRange(0, 1), default=1.0, help="Factor on the weight of older rows."
)
@click.option("--strict", is_flag=True, help="Write nothing and exit with 5 if not converged.")
@jobs_option
@json_option
def fit(
    val: Path,
    method: str,
    output: Path,
    part: str | None,
    reading: Reading,
    chunks: bool,
    kept: Path | None,
    decay: float,
    strict: bool,
    as_json: bool,
) -> None:
    """Fit a calibrator to the predictions and labels in VAL, a file or a directory of tables.

    \b
    Example:
      calibrant fit val.npz -o model.calibrant
      calibrant fit days/ -o model.calibrant -m na-fir --statistics days.statistics
    """  # noqa: D301
    from calibrant._atomic_file import only_one

    _check_output(output, val, reading.labels, kept)
    if not chunks and not is_of_tables(val) and kept is not None:
        raise click.UsageError("--statistics needs a directory, or --chunks")
    with nullcontext() if kept is None else only_one(kept):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if chunks or is_of_tables(val):
                fitted = fit_chunks(method, val, part, reading, kept, decay)
            else:
                fitted = _fit_file(method, val, part, reading)
        result = _save_fit(fitted, method, output, caught, strict)
    rows = f"{fitted.n_rows:,}"
    if fitted.n_rows < fitted.n_read:
        rows += f" of {fitted.n_read:,}"
    show(result, as_json, f"{output}: {method} fitted to {rows} rows of {fitted.source}")


def _save_fit(
    fitted: Fitted,
    method: str,
    output: Path,
    caught: list[warnings.WarningMessage],
    strict: bool,
) -> dict[str, Any]:
    """Write the model file, and return what ``--json`` says of it; tell what was warned of."""
    from calibrant import model_file
    from calibrant.errors import ConvergenceWarning

    stuck = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    texts = [str(warning.message) for warning in caught]
    for text in texts:
        click.echo(f"calibrant: warning: {text}", err=True)
    if stuck and strict:
        raise NotConvergedError(f"{stuck[0].message}; {output} was not written (--strict)")
    return {
        "method": method,
        "rows": fitted.n_rows,
        "rows_read": fitted.n_read,
        "classes": len(fitted.calibrator.classes_),
        "model": str(output),
        "sha256": model_file.save(fitted.calibrator, output),
        "converged": not stuck,
        "warnings": texts,
    }


def _fit_file(method: str, val: Path, part: str | None, reading: Reading) -> Fitted:
    """Fit to a file that is read whole."""
    from calibrant._calibrators.methods import make_calibrator

    with progress_bar(f"reading {val}"):
        found = reading.read(val, part=part, usual_part="val")
    told: dict[str, Any] = {"scores": found.kind, "classes": found.classes}
    told |= {"normalize": found.normalize, "has_absent": found.has_absent}
    calibrator = make_calibrator(method, **told)
    with (
        progress_bar(f"fitting {method} to {found.place.source}"),
        found.explained(),
    ):
        calibrator.fit(found.scores, found.y)
    return Fitted(calibrator, len(found.y), len(found.y), found.place.source)


def _check_output(output: Path, *inputs: Path | None) -> None:
    """Refuse to write over an input; only ``apply`` writes to standard output."""
    from calibrant._files.apply import refuse_inputs

    if str(output) == "-":
        raise click.UsageError("this is not written to standard output; name a file")
    refuse_inputs(output, *inputs)


@click.command(name="apply")
@click.argument("model", type=path_argument)
@click.argument("file", type=file_argument)
@click.option(
    "-o", "--output", type=file_argument, required=True, help="New file; - is standard output."
)
@part_option
@reading_options("normalize", "label_column", "columns", "ignore")
@click.option(
    "--on-bad-row", type=BAD_ROWS, default="error", help="For a row that is no distribution."
)
@click.option("--sha256", help="Refuse a model file with another digest.")
@jobs_option
@json_option
def apply_command(
    model: Path,
    file: Path,
    output: Path,
    part: str | None,
    reading: Reading,
    on_bad_row: str,
    sha256: str | None,
    as_json: bool,
) -> None:
    """Calibrate the predictions in FILE, or in all tables of a directory, with MODEL.

    \b
    Example:
      calibrant apply model.calibrant test.npz -o calibrated.npz
    """  # noqa: D301
    from calibrant import model_file
    from calibrant._files.apply import apply_directory, apply_file, refuse_inputs

    refuse_inputs(output, model)
    with naming(model):
        calibrator = model_file.load(model, sha256=sha256)
    if reading.normalize and calibrator.scores != "probabilities":
        raise click.UsageError(
            f"--normalize is for probabilities; {model} takes {calibrator.scores}"
        )
    if reading.normalize:
        calibrator.set_params(normalize="rows")
    options: dict[str, Any] = {"selection": reading.selection, "on_bad_row": on_bad_row}
    with progress_bar(f"calibrating {file}") as advance:
        if is_of_tables(file):
            if part is not None:
                raise click.UsageError(f"--part is for npz files; {file} is a directory")
            done = apply_directory(calibrator, file, output, progress=advance, **options)
        else:
            options |= {"part": part, "tell": reading.tell}
            done = apply_file(calibrator, file, output, progress=advance, **options)
    if done.n_bad_rows:
        from calibrant.errors import number_of  # numpy comes with it

        marked = "left out" if on_bad_row == "skip" else "marked with NaN"
        bad = number_of(done.n_bad_rows, "bad row")
        click.echo(f"calibrant: {bad} {marked}: {done.where}", err=True)
    result = {"output": str(output), "rows": done.n_rows, "bad_rows": done.n_bad_rows}
    show(result, as_json, f"{output}: {done.n_rows:,} rows", to_stderr=str(output) == "-")


@click.command()
@click.argument("val", type=file_argument)
@click.argument("test", type=file_argument, required=False)
@click.option("--methods", help="Comma-separated; all by default.")
@click.option("--report", type=path_argument, help="Write a page to this HTML file.")
@click.option(
    "--split",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Share of the rows of VAL to fit to; the others are the test.",
)
@reading_options()
@click.option("--test-labels", type=file_argument, help="A npy file with the labels of TEST.")
@click.option("--seed", default=0, help="Seed of the resampling and the split.")
@jobs_option
@json_option
def compare(
    val: Path,
    test: Path | None,
    methods: str | None,
    report: Path | None,
    split: float | None,
    reading: Reading,
    test_labels: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Fit every method to VAL and judge it on TEST.

    VAL alone is enough if it is an npz file with val_* and test_* arrays, or with --split.

    \b
    Example:
      calibrant compare val.npz test.npz --report report.html
    """  # noqa: D301
    from calibrant import report as reports
    from calibrant._calibrators.masked import CAPABLE
    from calibrant._calibrators.methods import make_calibrator
    from calibrant._calibrators.methods import methods as all_methods
    from calibrant._cli.compared import how_to_apply, read_two
    from calibrant._cli.showing import comparison_numbers, comparison_table

    if report is not None:
        _check_output(report, val, test, reading.labels, test_labels)
    with progress_bar("reading"):
        two = read_two(val, test, reading, test_labels=test_labels, split=split, seed=seed)
    chosen: Any = methods.split(",") if methods else list(all_methods())
    if two.val.has_absent or two.test.has_absent:
        names = ["ts", *(chosen if methods else CAPABLE)]
        chosen = {name: make_calibrator(name, has_absent=True) for name in names}
    with progress_bar("comparing") as advance:
        comparison = reports.compare(
            two.val.y,
            two.val.scores,
            two.test.y,
            two.test.scores,
            chosen,
            scores=two.val.kind,
            classes=two.val.classes,
            normalize=two.val.normalize,
            random_state=seed,
            sources=two.sources,
            progress=advance,
        )
    for text in comparison.warnings:
        click.echo(f"calibrant: warning: {text}", err=True)
    if report is not None:
        lines = how_to_apply(comparison, val, test, reading)
        reports.write_report(report, comparison, commands=lines)
    show(comparison_numbers(comparison), as_json, comparison_table(comparison))
    if report is not None and not as_json:
        click.echo(f"Report: {report.resolve().as_uri()}")


@click.command()
@click.argument("model", type=path_argument)
@json_option
def inspect(model: Path, as_json: bool) -> None:
    """Say what MODEL is, without applying it.

    \b
    Example:
      calibrant inspect model.calibrant
    """  # noqa: D301
    from calibrant import model_file

    with naming(model):
        found = model_file.describe(model)
    show(found, as_json, inspection_text(found))


ALL = [evaluate, fit, apply_command, compare, judge, inspect, export, demo]
