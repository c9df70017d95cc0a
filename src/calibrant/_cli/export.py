"""``calibrant export``: a model file as a graph for other runtimes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from calibrant._cli.outputs import OutputPath
from calibrant._cli.reading import path_argument
from calibrant._cli.showing import json_option, naming, show

if TYPE_CHECKING:
    from pathlib import Path

SUFFIXES = (".onnx", ".pt2")
KINDS = click.Choice(["probabilities", "logits", "positive", "decision"])
DTYPES = click.Choice(["float32", "float64"])


@click.command()
@click.argument("model", type=path_argument)
@click.option(
    "-o", "--output", type=OutputPath(), required=True, help="File to write: .onnx or .pt2."
)
@click.option(
    "--input", "given", type=KINDS, help="Scores that the graph takes; those of the fit by default."
)
@click.option("--dtype", type=DTYPES, help="Type of the input and output; float32 by default.")
@click.option("--behind", type=path_argument, help="ONNX file of a classifier to merge with.")
@click.option("--scores", help="Output of --behind that holds the scores.")
@json_option
def export(
    model: Path, output: Path, given: str | None, as_json: bool, dtype: str | None, **others: Any
) -> None:
    """Export MODEL to ONNX or PyTorch, to run without calibrant.

    \b
    Examples:
      calibrant export model.calibrant -o model.onnx
      calibrant export model.calibrant --behind network.onnx -o whole.onnx
    """  # noqa: D301
    from calibrant import model_file

    options, behind = {"dtype": dtype, **others}, others["behind"]
    _check_options(output, options)
    with naming(model):
        calibrator = model_file.load(model)
    if output.suffix == ".pt2":
        from calibrant.export import save_pt2, to_torch

        save_pt2(to_torch(calibrator, input=given), output, dtype=dtype or "float32")
    else:
        _write_onnx(calibrator, output, given, options)
    kind = given or calibrator._kind  # noqa: SLF001  (ours)
    result = {
        "output": str(output),
        "method": calibrator.method,
        "classes": len(calibrator.classes_),
        "input": kind if behind is None else str(behind),
        "bytes": output.stat().st_size,
    }
    text = (
        f"{output}: {calibrator.title} of {len(calibrator.classes_):,} classes, from "
        f"{result['input']} to calibrated probabilities, {result['bytes']:,} bytes"
    )
    show(result, as_json, text)


def _check_options(output: Path, options: dict[str, Any]) -> None:
    if output.suffix not in SUFFIXES:
        raise click.UsageError(f"{output} must end with {' or '.join(SUFFIXES)}")
    told = [name for name, value in options.items() if value is not None]
    foreign = [name for name in told if name != "dtype"]
    if output.suffix == ".pt2" and foreign:
        raise click.UsageError(f"--{foreign[0]} is for ONNX; {output} is a PyTorch program")
    if options["behind"] is None and options["scores"] is not None:
        raise click.UsageError("--scores names an output of the classifier; pass --behind, too")
    if options["behind"] is not None and options["dtype"] is not None:
        raise click.UsageError("--behind sets the type; leave out --dtype")


def _write_onnx(calibrator: Any, output: Path, given: str | None, options: dict[str, Any]) -> None:
    from calibrant import export as graphs
    from calibrant._atomic_file import replace_file

    behind, output_of = options.pop("behind"), options.pop("scores")
    told = {name: value for name, value in options.items() if value is not None}
    if behind is not None:
        graph = graphs.merge_onnx(behind, calibrator, input=given, output=output_of, **told)
    else:
        graph = graphs.to_onnx(calibrator, input=given, **told)
    with replace_file(output) as file:
        file.write(graph.SerializeToString())
