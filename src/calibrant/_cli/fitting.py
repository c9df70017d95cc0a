"""``calibrant fit``, ``inspect`` and ``export``: a model file is made, shown and exported."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from calibrant._cli.options import (
    KINDS,
    PATH,
    SCORES,
    command,
    model_argument,
    output_option,
    shared,
    split_names,
)
from calibrant._cli.reading import naming_file, outline, read_any, show, tell
from calibrant._progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from calibrant._calibrators.base import Calibrator
    from calibrant._files.align import Aligned
    from calibrant._files.chunks import FileChunks
    from calibrant._files.source import Request
    from calibrant._types import Label


@command()
@click.argument("val", type=PATH)
@click.option("-m", "--method", default="auto", help="Short name of the method to fit.")
@output_option("Model file to write.")
@shared("part", *SCORES, "groups", "features")
@click.option(
    "--priors", metavar="CLASS=SHARE,...", help="Class frequencies of new rows, if they differ."
)
@shared("jobs", "as_json")
def fit(val: Path, method: str, output: Path, request: Request, priors: str | None) -> None:
    """Fit a calibrator to the predictions and labels in VAL.

    VAL is a file or a directory of tables. If not all rows fit into memory, the fit is to a sample.

    \b
    Example:
      calibrant fit val.npz -o model.calibrant
      calibrant fit days/ -o model.calibrant
      calibrant fit val.csv -o model.calibrant --columns score --features age,plan
    """  # noqa: D301
    from calibrant import FeatureCalibrator, model_file
    from calibrant.errors import ConvergenceWarning

    if (request.groups is not None) + bool(request.features) + (priors is not None) > 1:
        fault = "--groups, --features and --priors exclude each other"
        raise click.UsageError(f"{fault}; name the group a feature, or fit each group alone")
    with warnings.catch_warnings(record=True) as caught, progress_bar(f"reading {val}") as advance:
        warnings.simplefilter("always")
        data = read_any(
            val,
            replace(request, usual_part="val"),
            needs_all=priors is not None,
            positive_last=False,
            progress=advance,
        )
        advance(0, None, f"fitting {method} to {data.source}")
        calibrator = _fit(method, data, priors)
    texts = [str(warning.message) for warning in caught]
    for text in texts:
        tell(f"warning: {text}")
    n_rows, n_read = data.count_rows()
    result = {
        "method": method,
        "rows": n_rows,
        "rows_read": n_read,
        "classes": len(calibrator.classes_),
        "model": str(output),
        "sha256": model_file.save(calibrator, output),
        "converged": not any(issubclass(w.category, ConvergenceWarning) for w in caught),
        "warnings": texts,
    }
    fitted, of_all, why = method, f"{n_rows:,} rows of {data.source}", ""
    if n_rows < n_read:
        of_all = f"{n_rows:,} of {n_read:,} rows of {data.source}, sampled by content"
    if isinstance(calibrator, FeatureCalibrator):
        report = calibrator.report_
        result["features"] = {
            "share": report.share,
            "nll": report.nll,
            "score_nll": report.score_nll,
            "importances": {one.feature: one.loss for one in report.importances},
        }
        fitted, why = f"{method} and {', '.join(request.features)}", f". {report.why}"
    show(result, f"{output}: {fitted} fitted to {of_all}{why}")


def _fit(method: str, data: Aligned | FileChunks, priors: str | None) -> Calibrator:
    """Fit a method to rows, with the class frequencies, groups or features that were given."""
    from calibrant import Chain, FeatureCalibrator, GroupedCalibrator, PriorShift
    from calibrant._calibrators.methods import make_calibrator

    def of_these(make: Callable[..., Calibrator], *parts: object) -> Calibrator:
        kind, classes, normalize = data.rows.kind, data.classes, data.normalize
        return make(*parts, scores=kind, classes=classes, normalize=normalize)

    calibrator = of_these(partial(make_calibrator, method, has_absent=data.rows.has_absent))
    by_row: dict[str, object] = {}
    if priors is not None:
        shift = PriorShift(to_priors=_read_priors(priors, data.classes or data.labels().tolist()))
        calibrator = of_these(Chain, [calibrator, shift])
    if data.features is not None:
        calibrator, by_row = of_these(FeatureCalibrator, calibrator), {"features": data.features}
    if data.groups is not None:
        calibrator, by_row = of_these(GroupedCalibrator, calibrator), {"groups": data.groups}
    with data.explained():
        calibrator.fit(*data.to_fit(), **by_row)
    return calibrator


def _read_priors(text: str, classes: Sequence[str | int]) -> dict[Label, float]:
    """Return the share of each class, as ``no=0.98,yes=0.02`` says it."""
    by_text = {str(label): label for label in classes}
    priors: dict[Label, float] = {}
    for part in split_names(text):
        name, _, share = part.rpartition("=")
        try:
            priors[by_text.get(name.strip(), name.strip())] = float(share)
        except ValueError:
            raise click.UsageError(
                f"--priors {text!r}: {part!r} is not CLASS=SHARE; write no=0.98,yes=0.02, or "
                "estimate them from unlabelled rows with PriorShift().adapt(...) in Python"
            ) from None
    return priors


@command()
@model_argument
@shared("as_json")
def inspect(model: Path) -> None:
    """Show what the file MODEL contains.

    \b
    Example:
      calibrant inspect model.calibrant
    """  # noqa: D301
    from calibrant import model_file

    with naming_file(model):
        facts = model_file.describe(model)
    show(facts, "\n".join(outline(facts)))


@command()
@model_argument
@output_option("File to write: .onnx or .pt2.")
@click.option(
    "--input", "kind", type=KINDS, help="Scores that the graph takes; by default those of the fit."
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    default="float32",
    help="Type of the input and output.",
)
@click.option("--behind", type=PATH, help="ONNX file of a classifier to merge with.")
@shared("as_json")
def export(model: Path, output: Path, kind: str | None, dtype: str, behind: Path | None) -> None:
    """Export MODEL to ONNX or PyTorch, to run without calibrant.

    \b
    Examples:
      calibrant export model.calibrant -o model.onnx
      calibrant export model.calibrant --behind network.onnx -o whole.onnx
    """  # noqa: D301
    from calibrant import export as graphs
    from calibrant import model_file
    from calibrant._atomic_file import replace_file

    if output.suffix not in (".onnx", ".pt2"):
        raise click.UsageError(f"{output} must end with .onnx or .pt2")
    if output.suffix == ".pt2" and behind is not None:
        raise click.UsageError(f"--behind is for ONNX; {output} is a PyTorch program")
    if behind is not None and dtype != "float32":
        raise click.UsageError("--dtype is that of the classifier with --behind; leave it out")
    with naming_file(model):
        calibrator = model_file.load(model)
    if output.suffix == ".pt2":
        graphs.save_pt2(graphs.to_torch(calibrator, input=kind), output, dtype=dtype)
    else:
        if behind is None:
            graph = graphs.to_onnx(calibrator, input=kind, dtype=dtype)
        else:
            graph = graphs.merge_onnx(behind, calibrator, input=kind)
        with replace_file(output) as file:
            file.write(graph.SerializeToString())
    n_classes, n_bytes = len(calibrator.classes_), output.stat().st_size
    result = {
        "output": str(output),
        "method": calibrator.method,
        "classes": n_classes,
        "input": str(behind or kind or calibrator.scores),
        "bytes": n_bytes,
    }
    text = (
        f"{output}: {calibrator.title} of {n_classes:,} classes, from {result['input']} to "
        f"calibrated probabilities, {n_bytes:,} bytes"
    )
    show(result, text)
