"""``calibrant fit``, and options that it shares with the other commands."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibrant._cli.chunked import Fitted, chunks_option, fit_chunks, is_of_tables
from calibrant._cli.deciding import (
    groups_option,
    priors_option,
    read_groups,
    to_priors,
    without_groups,
)
from calibrant._cli.reading import Reading, file_argument, path_argument, reading_options
from calibrant._cli.showing import NotConvergedError, json_option, show
from calibrant._progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable

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
        raise click.BadParameter("0 is not a number of threads; use 1 or more, or -1 for all cores")
    return jobs


def jobs_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--jobs``, and all that it does so many threads."""
    help_text = "Number of threads; -1 for all cores. Results do not depend on it."

    @click.option("-j", "--jobs", type=int, default=1, callback=_check_jobs, help=help_text)
    @wraps(command)
    def run(*, jobs: int, **options: Any) -> Any:
        from calibrant import _threads as threads

        with threads.jobs(jobs):
            return command(**options)

    return run


@click.command()
@click.argument("val", type=file_argument)
@click.option("-m", "--method", type=MethodChoice(), default="auto", help="Method to fit.")
@click.option("-o", "--output", type=path_argument, required=True, help="Model file to write.")
@part_option
@reading_options()
@chunks_option
@click.option(
    "--statistics",
    "kept",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Keep the counted rows in this file, so that the next run reads new files only.",
)
@click.option(
    "--decay", type=click.FloatRange(0, 1), default=1.0, help="Factor on weights of earlier runs."
)
@click.option("--strict", is_flag=True, help="If not converged, write nothing and exit with 5.")
@groups_option
@priors_option
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
    **used: str | None,
) -> None:
    """Fit a calibrator to the predictions and labels in VAL.

    VAL is a file or a directory of tables.

    \b
    Example:
      calibrant fit val.npz -o model.calibrant
      calibrant fit days/ -o model.calibrant -m na-fir --statistics days.statistics
    """  # noqa: D301
    from calibrant._atomic_file import only_one

    check_output(output, val, reading.labels, kept)
    if not chunks and not is_of_tables(val) and kept is not None:
        raise click.UsageError("--statistics needs a directory, or --chunks")
    if (chunks or is_of_tables(val)) and any(used.values()):
        raise click.UsageError("--groups and --priors need one file, without --chunks")
    with nullcontext() if kept is None else only_one(kept):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if chunks or is_of_tables(val):
                fitted = fit_chunks(method, val, part, reading, kept, decay)
            else:
                fitted = _fit_file(method, val, part, reading, **used)
        result = _save_fit(fitted, method, output, caught, strict)
    rows = f"{fitted.n_rows:,}"
    if fitted.n_rows < fitted.n_read:
        rows += f" of {fitted.n_read:,}"
    show(result, as_json, f"{output}: {method} fitted to {rows} rows of {fitted.source}")


def _save_fit(
    fitted: Fitted, method: str, output: Path, caught: list[warnings.WarningMessage], strict: bool
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


def _fit_file(
    method: str,
    val: Path,
    part: str | None,
    reading: Reading,
    groups: str | None,
    priors: str | None,
) -> Fitted:
    """Fit to a file that is read whole."""
    from calibrant import GroupedCalibrator
    from calibrant._calibrators.methods import make_calibrator

    with progress_bar(f"reading {val}"):
        named = read_groups(val, groups, part or "val")
        reading = without_groups(reading, val, groups)
        told: Any = {"positive_last": reading.positive is not None, "by_name": True}
        found = reading.read(val, part=part, usual_part="val", **told)
    calibrator = make_calibrator(
        method,
        has_absent=found.has_absent,
        scores=found.kind,
        classes=found.classes,
        normalize=found.normalize,
    )
    with progress_bar(f"fitting {method} to {found.place.source}"), found.explained():
        if priors is not None and groups is not None:
            raise click.UsageError("--groups and --priors exclude each other; fit each group alone")
        if priors is not None:
            calibrator = to_priors(calibrator, priors, found, reading)
        by_group = {}
        if groups is not None:
            own = {"scores": calibrator.scores, "classes": calibrator.classes}
            calibrator = GroupedCalibrator(calibrator, normalize=calibrator.normalize, **own)
            by_group["groups"] = named
        calibrator.fit(found.scores, found.y, **by_group)
    return Fitted(calibrator, len(found.y), len(found.y), found.place.source)


def check_output(output: Path, *inputs: Path | None) -> None:
    """Refuse to write over an input; only ``apply`` writes to standard output."""
    from calibrant._files.apply import refuse_inputs

    if str(output) == "-":
        raise click.UsageError("only apply writes to standard output; name a file")
    refuse_inputs(output, *inputs)
