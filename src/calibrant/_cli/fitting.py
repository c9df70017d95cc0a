"""``calibrant fit``, and options that it shares with the other commands."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibrant._cli.outputs import OutputPath
from calibrant._cli.reading import (
    SCORES,
    Reading,
    file_argument,
    names,
    reading_options,
    serve,
    tell,
)
from calibrant._cli.showing import NotConvergedError, json_option, show
from calibrant._progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibrant._calibrators.base import Calibrator
    from calibrant._files.align import Aligned
    from calibrant._files.chunks import FileChunks


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
@reading_options("part", *SCORES, "groups", "features")
@click.option("--strict", is_flag=True, help="If not converged, write nothing and exit with 5.")
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
    reading: Reading,
    strict: bool,
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
        data, calibrator = _fit(method, val, reading, priors)
    stuck = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    texts = [str(warning.message) for warning in caught]
    for text in texts:
        tell(f"warning: {text}")
    if stuck and strict:
        raise NotConvergedError(f"{stuck[0].message}; {output} was not written (--strict)")
    n_rows, n_read = data.count_rows()
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
    words = f"{n_rows:,} rows of {data.source}"
    if n_rows < n_read:
        words = f"{n_rows:,} of {n_read:,} rows of {data.source}, sampled by content"
    text = f"{output}: {method} fitted to {words}"
    if reading.features is not None:
        report = calibrator.report_  # of a FeatureCalibrator
        result["features"] = {
            "share": report.share,
            "nll": report.nll,
            "score_nll": report.score_nll,
            "importances": {one.feature: one.loss for one in report.importances},
        }
        text = (
            f"{output}: {method} and {', '.join(reading.features)} fitted to {words}. {report.why}"
        )
    show(result, as_json, text)


def _fit(
    method: str, val: Path, reading: Reading, priors: str | None
) -> tuple[Aligned | FileChunks, Calibrator]:
    """Return the rows of a path, in memory or in chunks, and what was fitted to them."""
    from calibrant import FeatureCalibrator, GroupedCalibrator
    from calibrant._calibrators.methods import make_calibrator
    from calibrant._files.align import Aligned

    groups, features = reading.groups, reading.features
    if priors is not None and groups is not None:
        raise click.UsageError("--groups and --priors exclude each other; fit each group alone")
    if features is not None and (groups or priors):
        raise click.UsageError(
            "--features and --groups or --priors exclude each other; name the group a feature"
        )
    with progress_bar(f"reading {val}") as advance:
        data = reading.open(
            val,
            usual_part="val",
            positive_last=reading.positive is not None,
            needs_whole={"--priors": priors},
            progress=advance,
        )
        calibrator = make_calibrator(
            method,
            has_absent=data.has_absent,
            scores=data.kind,
            classes=data.classes,
            normalize=data.normalize,
        )
        advance(0, None, f"fitting {method} to {data.source}")
        with data.explained():
            if not isinstance(data, Aligned):
                return data, calibrator.fit(*data.to_fit())
            if priors is not None:
                calibrator = _with_priors(calibrator, priors, data, reading)
            if features is not None:
                own: Any = _around(FeatureCalibrator, calibrator)
                return data, own.fit(*data.to_fit(), features=data.features(features))
            if groups is not None:
                own = _around(GroupedCalibrator, calibrator)
                return data, own.fit(*data.to_fit(), groups=data.groups(groups))
            return data, calibrator.fit(*data.to_fit())


def _around(
    composition: Callable[..., Calibrator], inner: Calibrator, *stages: Calibrator
) -> Calibrator:
    """Return a composition of calibrators that reads the scores of the first of them."""
    return composition(
        [inner, *stages] if stages else inner,
        scores=inner.scores,
        classes=inner.classes,
        normalize=inner.normalize,
    )


def _with_priors(
    calibrator: Calibrator, priors: str, data: Aligned, reading: Reading
) -> Calibrator:
    """Return the unfitted calibrator with a shift to class frequencies of use behind it."""
    from calibrant import Chain, PriorShift

    path = Path(priors)
    if not path.exists():
        shares = _read_priors(priors, data)
        return _around(Chain, calibrator, PriorShift(to_priors=shares))
    fitted: Any = _around(Chain, calibrator, PriorShift()).fit(data.scores, data.y)
    shift = fitted.calibrators_[-1]
    # The rows are calibrated, and not shifted yet.
    served = serve(fitted, path, replace(reading, part=None, groups=None, features=None))
    shift.adapt(served.probabilities)
    text = ", ".join(
        f"{label} {share:.4g} ({low:.4g} .. {high:.4g})"
        for label, share, low, high in zip(
            fitted.classes_, shift.priors_, shift.priors_low_, shift.priors_high_, strict=True
        )
    )
    changed = "a shift" if shift.p_value_ < shift.alpha else "no shift, so nothing changes"
    tell(f"class frequencies of {path}: {text}; p = {shift.p_value_:.3g}: {changed}")
    return _around(Chain, calibrator, PriorShift(to_priors=shift.to_priors_))


def _read_priors(text: str, data: Aligned) -> dict[Any, float]:
    """Return the share of each class, as ``no=0.98,yes=0.02`` says it."""
    import numpy as np

    from calibrant.errors import ParameterError

    known = np.unique(data.y).tolist() if data.classes is None else data.classes
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
