"""``calibrant fit``, and options that it shares with the other commands."""

from __future__ import annotations

import warnings
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibrant._cli.outputs import OutputPath
from calibrant._cli.reading import (
    Reading,
    features_option,
    file_argument,
    groups_option,
    names,
    reading_options,
    serve,
)
from calibrant._cli.showing import NotConvergedError, json_option, show
from calibrant._progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibrant._calibrators.base import Calibrator
    from calibrant._files.align import Aligned
    from calibrant._files.chunks import FileChunks

part_option = click.option(
    "--part", type=click.Choice(["val", "test"]), help="Part of an npz file with val_* and test_*."
)


class MethodChoice(click.Choice):  # type: ignore[type-arg]  # it takes none before click 8.2
    """The name of a method; those that there are get imported when they are asked for."""

    def __init__(self) -> None:
        self.case_sensitive = True

    @cached_property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """Every method, those of the study last."""
        from calibrant._calibrators.methods import methods

        return tuple(methods() | methods(study=True))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Take the name of a method; the study is imported only where it is none of the others."""
        from calibrant._calibrators.methods import methods

        return value if value in methods() else super().convert(value, param, ctx)


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
@click.option("-o", "--output", type=OutputPath(), required=True, help="Model file to write.")
@part_option
@reading_options()
@click.option("--strict", is_flag=True, help="If not converged, write nothing and exit with 5.")
@groups_option
@features_option
@click.option(
    "--priors",
    metavar="CLASS=SHARE,...|FILE",
    help="Class frequencies of new rows, or a file of unlabelled rows to estimate them from.",
)
@jobs_option
@json_option
def fit(
    val: Path,
    method: str,
    output: Path,
    part: str | None,
    reading: Reading,
    strict: bool,
    groups: str | None,
    features: tuple[str, ...] | None,
    priors: str | None,
    as_json: bool,
) -> None:
    """Fit a calibrator to the predictions and labels in VAL.

    VAL is a file or a directory of tables. If not all rows fit into memory, the fit is to a sample.

    \b
    Example:
      calibrant fit val.npz -o model.calibrant
      calibrant fit days/ -o model.calibrant
      calibrant fit val.csv -o model.calibrant --columns score --features age,plan
    """  # noqa: D301
    from calibrant import model_file
    from calibrant.errors import ConvergenceWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found, calibrator = _fit(method, val, part, reading, groups, features, priors)
    stuck = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    texts = [str(warning.message) for warning in caught]
    for text in texts:
        click.echo(f"calibrant: warning: {text}", err=True)
    if stuck and strict:
        raise NotConvergedError(f"{stuck[0].message}; {output} was not written (--strict)")
    n_rows, n_read = found.count_rows()
    result = {
        "method": method,
        "rows": n_rows,
        "rows_read": n_read,
        "classes": len(calibrator.classes_),
        "model": str(output),
        "sha256": model_file.save(calibrator, output),
        "converged": not stuck,
        "warnings": texts,
    }
    words = f"{n_rows:,} rows of {found.source}"
    if n_rows < n_read:
        words = f"{n_rows:,} of {n_read:,} rows of {found.source}, sampled by content"
    text = f"{output}: {method} fitted to {words}"
    if features is not None:
        report = calibrator.report_  # of a FeatureCalibrator
        result["features"] = {
            "share": report.share,
            "nll": report.nll,
            "score_nll": report.score_nll,
            "importances": {one.feature: one.loss for one in report.importances},
        }
        text = f"{output}: {method} and {', '.join(features)} fitted to {words}. {report.why}"
    show(result, as_json, text)


def _fit(
    method: str,
    val: Path,
    part: str | None,
    reading: Reading,
    groups: str | None,
    features: tuple[str, ...] | None,
    priors: str | None,
) -> tuple[Aligned | FileChunks, Calibrator]:
    """Return the rows of a path, in memory or in chunks, and what was fitted to them."""
    from calibrant import FeatureCalibrator, GroupedCalibrator
    from calibrant._calibrators.methods import make_calibrator
    from calibrant._files.align import Aligned
    from calibrant._files.values import features_of

    if priors is not None and groups is not None:
        raise click.UsageError("--groups and --priors exclude each other; fit each group alone")
    if features is not None and (groups or priors):
        raise click.UsageError(
            "--features and --groups or --priors exclude each other; name the group a feature"
        )
    with progress_bar(f"reading {val}") as advance:
        found = reading.open(
            val,
            part=part,
            usual_part="val",
            positive_last=reading.positive is not None,
            needs_whole={"--groups": groups, "--priors": priors, "--features": features},
            progress=advance,
            beside=({} if groups is None else {groups: "--groups"})
            | dict.fromkeys(features or (), "--features"),
        )
        calibrator = make_calibrator(
            method,
            has_absent=found.has_absent,
            scores=found.kind,
            classes=found.classes,
            normalize=found.normalize,
        )
        advance(0, None, f"fitting {method} to {found.source}")
        with found.explained():
            if priors is not None and isinstance(found, Aligned):
                calibrator = to_priors(calibrator, priors, found, reading)
            if features is not None and isinstance(found, Aligned):
                reader = FeatureCalibrator(
                    calibrator,
                    scores=calibrator.scores,
                    classes=calibrator.classes,
                    normalize=calibrator.normalize,
                )
                table = features_of(found.beside, features)
                return found, reader.fit(*found.to_fit(), features=table)
            if groups is None or not isinstance(found, Aligned):
                return found, calibrator.fit(*found.to_fit())
            grouped = GroupedCalibrator(
                calibrator,
                scores=calibrator.scores,
                classes=calibrator.classes,
                normalize=calibrator.normalize,
            )
            return found, grouped.fit(*found.to_fit(), groups=found.groups(groups))


def to_priors(calibrator: Calibrator, priors: str, found: Aligned, reading: Reading) -> Calibrator:
    """Return the unfitted calibrator with a shift to class frequencies of use behind it."""
    from calibrant import Chain, PriorShift

    def chain(shift: PriorShift) -> Chain:
        return Chain(
            [calibrator, shift],
            scores=calibrator.scores,
            classes=calibrator.classes,
            normalize=calibrator.normalize,
        )

    path = Path(priors)
    if not path.exists():
        return chain(PriorShift(to_priors=_read_priors(priors, found)))
    fitted = chain(PriorShift()).fit(found.scores, found.y)
    shift = fitted.calibrators_[-1]
    shift.adapt(serve(fitted, path, None, reading).probabilities)  # they are not shifted yet
    text = ", ".join(
        f"{label} {share:.4g} ({low:.4g} .. {high:.4g})"
        for label, share, low, high in zip(
            fitted.classes_, shift.priors_, shift.priors_low_, shift.priors_high_, strict=True
        )
    )
    changed = "a shift" if shift.p_value_ < shift.alpha else "no shift, so nothing changes"
    reading.tell(f"class frequencies of {path}: {text}; p = {shift.p_value_:.3g}: {changed}")
    return chain(PriorShift(to_priors=shift.to_priors_))


def _read_priors(text: str, found: Aligned) -> dict[Any, float]:
    """Return the share of each class, as ``no=0.98,yes=0.02`` says it."""
    import numpy as np

    from calibrant.errors import ParameterError

    known = np.unique(found.y).tolist() if found.classes is None else found.classes
    by_text, priors = {str(label): label for label in known}, {}
    for part in names(text):
        name, _, share = part.rpartition("=")
        try:
            priors[by_text.get(name.strip(), name.strip())] = float(share)
        except ValueError:
            raise ParameterError(
                f"--priors {text!r} is not a file, and {part!r} in it is not CLASS=SHARE; write "
                "no=0.98,yes=0.02, or name a file of unlabelled rows"
            ) from None
    return priors
