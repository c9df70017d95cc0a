"""A calibrator behind the graph of a classifier, in one ONNX model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant import _extras as extras
from calibrant import errors
from calibrant.export._onnx import FIRST_OPSET, ONNX_DTYPES, OUTPUT, to_onnx
from calibrant.export._pipeline import take_calibrator

try:
    import onnx
    from onnx import TensorProto, checker, compose, helper
except ImportError as error:
    raise extras.needed(error, "calibrant.export.merge_onnx", "onnx") from error

if TYPE_CHECKING:
    import os

    from calibrant._calibrators.base import Calibrator

NODE_PREFIX = "calibrant/"

OF_FLOAT32 = 2.0**-17
"""How far logits of a network in float32 are off in another runtime, with room to spare."""

HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
"""Types of scores that are cast to float32: probabilities in 16 bits would be rounded to 1e-3."""


def merge_onnx(
    model: onnx.ModelProto | str | os.PathLike[str],
    calibrator: Calibrator,
    *,
    input: str | None = None,  # noqa: A002  (its name in a graph)
    output: str | None = None,
    precision: str = "float64",
    tolerance: float | None = None,
) -> onnx.ModelProto:
    """Put a calibrator behind a classifier: one model, from features to calibrated probabilities.

    Parameters
    ----------
    model : onnx.ModelProto or path-like
        The classifier, as any exporter writes it.
    calibrator : Calibrator
        A fitted calibrator of its scores.
    input : {"probabilities", "logits"}, optional
        What the classifier returns; by default what the calibrator was fitted to.
    output : str, optional
        Name of the scores among the outputs of the classifier, if it has several.
    precision : {"float64", "float32"}, default="float64"
        The longest numbers that the calibrator computes with, as of ``to_onnx``.
    tolerance : float, optional
        How far logits may be off from those that the calibrator was fitted to, as of ``to_onnx``.
        By default 2 ** -17, 8e-6, of scores in float32 or shorter, which no two runtimes compute
        alike, and 0 of others.

    Returns
    -------
    model : onnx.ModelProto
        The inputs are those of the classifier. The outputs are ``calibrated`` and those of the
        classifier other than its scores. Scores of 16 bits are cast, and ``calibrated`` is float32.

    Raises
    ------
    ExportError
        If the classifier has no such output, or one of another type or number of classes.

    Examples
    --------
    >>> import onnx
    >>> from calibrant import TemperatureScaling
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.export import merge_onnx
    >>> features, scores = (
    ...     onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["rows", 3])
    ...     for name in ("features", "scores")
    ... )
    >>> double = onnx.helper.make_node("Add", ["features", "features"], ["scores"])
    >>> graph = onnx.helper.make_graph([double], "network", [features], [scores])
    >>> network = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])
    >>> calibrator = TemperatureScaling().fit(*simulated_scores(500))
    >>> merged = merge_onnx(network, calibrator, input="logits")
    >>> [value.name for value in merged.graph.input], [v.name for v in merged.graph.output]
    (['features'], ['calibrated'])
    """
    calibrator = take_calibrator(calibrator)
    if not isinstance(model, onnx.ModelProto):
        model = onnx.load(model)
    scores = _find_output(model, output)
    dtype = _check_output(scores, calibrator.n_features_in_)
    opset = _opset(model)
    if tolerance is None:
        tolerance = OF_FLOAT32 if dtype == "float32" else 0.0
    own = to_onnx(
        calibrator,
        input=input,
        opset=opset,
        dtype=dtype,
        precision=precision,
        tolerance=tolerance,
    )
    first = onnx.ModelProto()
    first.CopyFrom(model)
    first.ir_version = own.ir_version = max(first.ir_version, own.ir_version)
    given = scores.name
    if scores.type.tensor_type.elem_type in HALVES:
        given = _cast_output(first.graph, given)
    inlet = own.graph.input[0].name
    merged = compose.merge_models(
        first, own, io_map=[(given, inlet)], prefix2=NODE_PREFIX, producer_name="calibrant"
    )
    imports = {one.domain: one for one in merged.opset_import}  # each is there twice
    del merged.opset_import[:]
    merged.opset_import.extend(imports.values())
    _rename_output(merged.graph, NODE_PREFIX + OUTPUT)
    checker.check_model(merged)
    return merged


def _find_output(model: onnx.ModelProto, name: str | None) -> Any:
    found = {value.name: value for value in model.graph.output}
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    if name not in found:
        among = errors.some_in_words([*found])
        raise errors.ExportError(
            f"the model has {len(found)} outputs, {among}; say which are the scores with output="
            if name is None
            else f"output={name!r} is no output of the model; it has {among}"
        )
    return found[name]


def _check_output(scores: Any, n_classes: int) -> str:
    """Refuse scores that the calibrator does not take; return their type."""
    tensor = scores.type.tensor_type
    types = {number: name for name, number in ONNX_DTYPES.items()} | dict.fromkeys(
        HALVES, "float32"
    )
    dtype = types.get(tensor.elem_type)
    if dtype is None:
        kind = TensorProto.DataType.Name(tensor.elem_type).lower()
        raise errors.ExportError(
            f"output {scores.name!r} is of type {kind}; scores are real numbers of 16, 32 or 64 "
            "bits: choose another output"
        )
    sizes = [d.dim_value or None for d in tensor.shape.dim]
    known = tensor.HasField("shape")
    if known and (len(sizes) != 2 or sizes[1] not in (None, n_classes)):
        shape = ", ".join(str(size or "?") for size in sizes)
        raise errors.ExportError(
            f"output {scores.name!r} has shape ({shape}); the calibrator takes (rows, {n_classes})"
        )
    return dtype


def _cast_output(graph: Any, name: str) -> str:
    """Put a cast to float32 behind an output, in its place; return its new name."""
    new = f"{NODE_PREFIX}{name}"
    (value,) = (one for one in graph.output if one.name == name)
    value.name, value.type.tensor_type.elem_type = new, TensorProto.FLOAT
    node = helper.make_node(
        "Cast", [name], [new], f"{NODE_PREFIX}Cast_scores", to=TensorProto.FLOAT
    )
    graph.node.append(node)
    return new


def _opset(model: onnx.ModelProto) -> int:
    """Version of the standard operators of a model, which the merged one has as well."""
    found = [one.version for one in model.opset_import if one.domain in ("", "ai.onnx")]
    opset = found[0] if found else FIRST_OPSET
    if opset < FIRST_OPSET:
        raise errors.ExportError(
            f"the model has opset {opset}, and a calibrator needs {FIRST_OPSET} or later; "
            f"convert it first: onnx.version_converter.convert_version(model, {FIRST_OPSET})"
        )
    return opset


def _rename_output(graph: Any, old: str) -> None:
    """Give the probabilities their plain name, unless the classifier has that already."""
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    if OUTPUT in taken | {value.name for value in graph.input}:
        return
    for node in graph.node:
        node.output[:] = [OUTPUT if name == old else name for name in node.output]
    for value in graph.output:
        if value.name == old:
            value.name = OUTPUT
