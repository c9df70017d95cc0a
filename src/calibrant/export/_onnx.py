"""Calibrators as ONNX graphs, alone or behind the graph of a classifier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx
from onnx import TensorProto, checker, compose, defs, helper

from calibrant import __version__, errors
from calibrant import _gate as gate
from calibrant.export._onnx_graph import FIRST_OPSET, OnnxOperations, Tensor
from calibrant.export._pipeline import check_input, metadata, n_columns, take_calibrator, write_rows

if TYPE_CHECKING:
    import os

    from calibrant._calibrators.base import Calibrator

ONNX_DTYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}
OUTPUT_TYPES = {one: one for one in ONNX_DTYPES.values()}
OUTPUT_TYPES |= dict.fromkeys((TensorProto.FLOAT16, TensorProto.BFLOAT16), TensorProto.FLOAT)
"""Type of the probabilities for each type of scores: 16 bits would round them to 1e-3."""

OUTPUT = "calibrated"

NODE_PREFIX = "calibrant/"
"""Prefix of the names of a calibrator's nodes, behind a classifier."""


def to_onnx(
    calibrator: Calibrator,
    *,
    input: str | None = None,  # noqa: A002  (its name in a graph)
    dtype: str = "float32",
    precision: str = "float64",
    opset: int = 18,
) -> onnx.ModelProto:
    """Return a calibrator as an ONNX model, with the results of ``predict_proba``.

    Parameters
    ----------
    calibrator : Calibrator
        A fitted calibrator.
    input : {"probabilities", "logits", "positive", "decision"}, optional
        Kind of the input; by default that of the fit. For a calibrator of probabilities it may be
        "logits", of which the graph takes the softmax. "positive" and "decision" are one column,
        for the second of two classes.
    dtype : {"float32", "float64"}, default="float32"
        Type of the input and output. The graph computes in float64 in both cases, as
        ``predict_proba`` does: a score in float32 is on the same side of every threshold.
    precision : {"float64", "float32"}, default="float64"
        Type of real numbers inside the graph. "float32" is for runtimes that silently read float64
        as float32 (OpenVINO). Its results are within 1e-5 of ``predict_proba``, for logits times
        coefficients up to 100 in size. Methods with steps, and curves of single probabilities of
        three classes or more, are refused: their scores would be on another side of a threshold.
    opset : int, default=18
        Version of the standard operators, 16 or later; no other operators are used.

    Returns
    -------
    model : onnx.ModelProto
        One input, named as its kind, of shape (rows, n_classes), or (rows, 1) of one column, and
        one output, ``calibrated``, of shape (rows, n_classes); the number of rows is free.
        ``metadata_props`` have the classes in the order of the columns, the method and the version.

    Raises
    ------
    ExportError
        If the calibrator, or a part of it, has no formula, or none in float32.

    Notes
    -----
    A graph cannot refuse a row. One that ``predict_proba`` refuses comes out as NaN, except that
    sums up to 0.01 away from 1 are normalised. A score that was rounded to float32, or computed by
    another runtime, may be on another side of a threshold than before; thresholds lie between
    scores of the fit, so that these stay on their side.

    Examples
    --------
    >>> import onnxruntime
    >>> from calibrant import FlattenedIsotonic
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.export import to_onnx
    >>> scores, y = simulated_scores(1000)
    >>> calibrator = FlattenedIsotonic().fit(scores, y)
    >>> model = to_onnx(calibrator, dtype="float64")
    >>> session = onnxruntime.InferenceSession(model.SerializeToString())
    >>> (calibrated,) = session.run(None, {"probabilities": scores})
    >>> bool(abs(calibrated - calibrator.predict_proba(scores)).max() < 1e-12)
    True
    """
    calibrator = take_calibrator(calibrator)
    kind = check_input(calibrator, input)
    gate.check_option("dtype", dtype, tuple(ONNX_DTYPES))
    gate.check_number("opset", opset, low=FIRST_OPSET, high=defs.onnx_opset_version(), whole=True)
    return _make_model(calibrator, kind, ONNX_DTYPES[dtype], precision, opset)


def merge_onnx(
    model: onnx.ModelProto | str | os.PathLike[str],
    calibrator: Calibrator,
    *,
    input: str | None = None,  # noqa: A002  (its name in a graph)
    output: str | None = None,
    precision: str = "float64",
) -> onnx.ModelProto:
    """Merge a calibrator into a classifier: one model from features to calibrated probabilities.

    Parameters
    ----------
    model : onnx.ModelProto or path-like
        Classifier, from any exporter, of opset 16 or later.
    calibrator : Calibrator
        Fitted calibrator of its scores.
    input : {"probabilities", "logits", "positive", "decision"}, optional
        Kind of the scores of the classifier; by default that of the fit.
    output : str, optional
        Name of the scores among the outputs of the classifier, if it has several.
    precision : {"float64", "float32"}, default="float64"
        Type of real numbers inside the graph of the calibrator, as in :func:`to_onnx`.

    Returns
    -------
    model : onnx.ModelProto
        The inputs are those of the classifier. The outputs are ``calibrated``, of the type of the
        scores or float32 if these have 16 bits, and those of the classifier other than its scores.

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
    kind = check_input(calibrator, input)
    scores = _find_output(model, output)
    dtype = _check_output(scores, n_columns(calibrator, kind))
    second = _make_model(calibrator, kind, dtype, precision, _opset(model))
    first = onnx.ModelProto()
    first.CopyFrom(model)
    first.ir_version = second.ir_version = max(first.ir_version, second.ir_version)
    second = compose.add_prefix(second, NODE_PREFIX, rename_outputs=False)
    joints = [(scores.name, second.graph.input[0].name)]
    merged = compose.merge_models(first, second, io_map=joints, producer_name="calibrant")
    imports = {one.domain: one for one in merged.opset_import}  # each is there twice
    del merged.opset_import[:]
    merged.opset_import.extend(imports.values())
    checker.check_model(merged)
    return merged


def _make_model(
    calibrator: Calibrator, kind: str, dtype: int, precision: str, opset: int
) -> onnx.ModelProto:
    """Return the graph for scores of a type."""
    gate.check_option("precision", precision, tuple(ONNX_DTYPES))
    if precision == "float32" and dtype == TensorProto.DOUBLE:
        raise errors.ParameterError(
            "precision='float32' is for scores of 32 bits or fewer; these have 64 (float64)"
        )
    n_classes, width = calibrator.n_features_in_, n_columns(calibrator, kind)
    ops = OnnxOperations(n_classes, opset, ONNX_DTYPES[precision])
    result = write_rows(ops, calibrator, ops.real(Tensor(ops, kind, dtype)), kind)
    ops.node("Cast", [result], to=OUTPUT_TYPES[dtype])
    ops.nodes[-1].output[0] = OUTPUT
    ops.drop_unused()
    inputs = [helper.make_tensor_value_info(kind, dtype, ["rows", width])]
    outputs = [helper.make_tensor_value_info(OUTPUT, OUTPUT_TYPES[dtype], ["rows", n_classes])]
    constants = list(ops.constants.values())
    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(
        helper.make_graph(ops.nodes, "calibrant", inputs, outputs, constants),
        opset_imports=imports,
        ir_version=helper.find_min_ir_version_for(imports),
        producer_name="calibrant",
        producer_version=__version__,
    )
    helper.set_model_props(model, metadata(calibrator))
    checker.check_model(model)
    return model


def _find_output(model: onnx.ModelProto, name: str | None) -> Any:
    outputs = {value.name: value for value in model.graph.output}
    if name is None and len(outputs) == 1:
        return next(iter(outputs.values()))
    if name not in outputs:
        among = errors.some_in_words([*outputs])
        raise errors.ExportError(
            f"the model has {len(outputs)} outputs, {among}; name that of the scores as output="
            if name is None
            else f"output={name!r} is not an output of the model; it has {among}"
        )
    return outputs[name]


def _check_output(scores: Any, width: int) -> int:
    """Refuse scores that the calibrator does not take; return their type."""
    tensor = scores.type.tensor_type
    if tensor.elem_type not in OUTPUT_TYPES:
        kind = TensorProto.DataType.Name(tensor.elem_type).lower()
        raise errors.ExportError(
            f"output {scores.name!r} is of type {kind}; scores must be floats of 16, 32 or 64 "
            "bits: choose another output"
        )
    sizes = [d.dim_value or None for d in tensor.shape.dim]
    if tensor.HasField("shape") and (len(sizes) != 2 or sizes[1] not in (None, width)):
        shape = ", ".join(str(size or "?") for size in sizes)
        raise errors.ExportError(
            f"output {scores.name!r} has shape ({shape}); the calibrator takes (rows, {width}): "
            "fit it to all columns of this output"
        )
    return int(tensor.elem_type)


def _opset(model: onnx.ModelProto) -> int:
    """Version of the standard operators of a model, which the merged one has as well."""
    versions = [one.version for one in model.opset_import if one.domain in ("", "ai.onnx")]
    opset = versions[0] if versions else FIRST_OPSET
    if opset < FIRST_OPSET:
        raise errors.ExportError(
            f"the model has opset {opset}, but a calibrator needs {FIRST_OPSET} or later; convert "
            f"it first: onnx.version_converter.convert_version(model, {FIRST_OPSET})"
        )
    return opset
