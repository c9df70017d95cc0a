"""Calibrators as ONNX graphs, alone or behind the graph of a classifier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx
from onnx import TensorProto, checker, compose, defs, helper

from calibrant import __version__, errors
from calibrant import _gate as gate
from calibrant.export._onnx_graph import REAL, OnnxOperations, Tensor
from calibrant.export._pipeline import (
    check_input,
    describe,
    n_columns,
    take_calibrator,
    write_rows,
)

if TYPE_CHECKING:
    import os

    from calibrant._calibrators.base import Calibrator

FIRST_OPSET = 16
"""The oldest that has sums over groups."""

ONNX_DTYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}
OUTPUT = "calibrated"

NODE_PREFIX = "calibrant/"
"""Prefix of the names of a calibrator's nodes, behind a classifier."""

HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
"""Types of scores that are cast to float32: probabilities in 16 bits would be rounded to 1e-3."""


def to_onnx(
    calibrator: Calibrator,
    *,
    input: str | None = None,  # noqa: A002  (its name in a graph)
    opset: int = 18,
    dtype: str = "float32",
    precision: str = "float64",
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
    opset : int, default=18
        Version of the standard operators, 16 or later; no other operators are used.
    dtype : {"float32", "float64"}, default="float32"
        Type of the input and output. The graph computes in float64 in both cases, as
        ``predict_proba`` does: a score in float32 is on the same side of every threshold.
    precision : {"float64", "float32"}, default="float64"
        Type of real numbers inside the graph. "float32" is for runtimes that silently read float64
        as float32 (OpenVINO). Its results are within 1e-5 of ``predict_proba``, for logits times
        coefficients up to 100 in size. Methods with steps, and curves of single probabilities of
        three classes or more, are refused: their scores would be on another side of a threshold.

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
    sums up to 0.01 away from 1 are normalised, whether or not their cells were rounded. In float32
    the result is that of ``predict_proba`` for scores in float32. A score that was rounded to
    float32, or computed by another runtime, may be on another side of a threshold than before.
    Thresholds lie between scores of the fit, so that these stay on their side.

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
    newest = defs.onnx_opset_version()
    gate.check_number("opset", opset, low=FIRST_OPSET, high=newest, whole=True)
    gate.check_option("dtype", dtype, tuple(ONNX_DTYPES))
    gate.check_option("precision", precision, tuple(ONNX_DTYPES))
    if precision == "float32" and dtype != "float32":
        raise errors.ParameterError(
            f"precision='float32' is for graphs without {dtype}; leave out dtype={dtype!r}"
        )
    n_classes, width = calibrator.n_features_in_, n_columns(calibrator, kind)
    ops = OnnxOperations(n_classes, opset, ONNX_DTYPES[precision])
    scores = Tensor(ops, kind, ONNX_DTYPES[dtype], width)
    out, _ = write_rows(ops, calibrator, ops.real(scores), kind)
    ops.node("Cast", [out], to=ONNX_DTYPES[dtype])
    ops.nodes[-1].output[0] = OUTPUT
    ops.drop_unused()
    given, result = (
        helper.make_tensor_value_info(name, ONNX_DTYPES[dtype], ["rows", size])
        for name, size in ((kind, width), (OUTPUT, n_classes))
    )
    constants = list(ops.constants.values())
    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(
        helper.make_graph(ops.nodes, "calibrant", [given], [result], constants),
        opset_imports=imports,
        ir_version=helper.find_min_ir_version_for(imports),
        producer_name="calibrant",
        producer_version=__version__,
    )
    helper.set_model_props(model, describe(calibrator) | {"calibrant.input": kind})
    checker.check_model(model)
    return model


def merge_onnx(
    model: onnx.ModelProto | str | os.PathLike[str],
    calibrator: Calibrator,
    *,
    input: str | None = None,  # noqa: A002  (its name in a graph)
    output: str | None = None,
    column: int | None = None,
    precision: str = "float64",
) -> onnx.ModelProto:
    """Merge a calibrator into a classifier: one model from features to calibrated probabilities.

    Parameters
    ----------
    model : onnx.ModelProto or path-like
        Classifier, from any exporter.
    calibrator : Calibrator
        Fitted calibrator of its scores.
    input : {"probabilities", "logits", "positive", "decision"}, optional
        Kind of the scores of the classifier; by default that of the fit.
    output : str, optional
        Name of the scores among the outputs of the classifier, if it has several.
    column : int, optional
        For a calibrator of one column, "positive" or "decision": which column of the scores it is,
        if they have several; usually 1.
    precision : {"float64", "float32"}, default="float64"
        Type of real numbers inside the graph of the calibrator, as in ``to_onnx``.

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
    n_taken = n_columns(calibrator, check_input(calibrator, input))
    width = n_taken if column is None else _check_column(column, scores, n_taken)
    dtype = _check_output(scores, width)
    second = to_onnx(calibrator, input=input, opset=_opset(model), dtype=dtype, precision=precision)
    first = onnx.ModelProto()
    first.CopyFrom(model)
    first.ir_version = second.ir_version = max(first.ir_version, second.ir_version)
    joints = [(_read_scores(first.graph, scores.name, column), second.graph.input[0].name)]
    merged = compose.merge_models(
        first, second, io_map=joints, prefix2=NODE_PREFIX, producer_name="calibrant"
    )
    imports = {one.domain: one for one in merged.opset_import}  # each is there twice
    del merged.opset_import[:]
    merged.opset_import.extend(imports.values())
    _rename_output(merged.graph, NODE_PREFIX + OUTPUT)
    checker.check_model(merged)
    return merged


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


def _check_column(column: Any, scores: Any, width: int) -> int | None:
    """Refuse a column that is not there, or not asked for; return how many there are."""
    if width > 1:
        raise errors.ParameterError(
            f"column={column!r} is for a calibrator of one column; this one takes {width}: leave "
            "it out"
        )
    sizes = [d.dim_value or None for d in scores.type.tensor_type.shape.dim]
    n_given = sizes[1] if len(sizes) == 2 else None
    gate.check_number("column", column, low=0, high=(n_given or 2**31) - 1, whole=True)
    return n_given


def _check_output(scores: Any, width: int | None) -> str:
    """Refuse scores that the calibrator does not take; return their type."""
    tensor = scores.type.tensor_type
    types = dict.fromkeys((TensorProto.FLOAT, *HALVES), "float32") | {REAL: "float64"}
    dtype = types.get(tensor.elem_type)
    if dtype is None:
        kind = TensorProto.DataType.Name(tensor.elem_type).lower()
        raise errors.ExportError(
            f"output {scores.name!r} is of type {kind}; scores must be floats of 16, 32 or 64 "
            "bits: choose another output"
        )
    sizes = [d.dim_value or None for d in tensor.shape.dim]
    if tensor.HasField("shape") and (len(sizes) != 2 or sizes[1] not in (None, width)):
        shape = ", ".join(str(size or "?") for size in sizes)
        remedy = "; name one of the columns as column=" if width == 1 else ""
        raise errors.ExportError(
            f"output {scores.name!r} has shape ({shape}); the calibrator takes (rows, {width})"
            f"{remedy}"
        )
    return dtype


def _add_behind(graph: Any, name: str, kind: str, *others: str, **attributes: Any) -> Any:
    """Put a node behind an output, in its place; return the output."""
    new = f"{NODE_PREFIX}{kind}_{name.removeprefix(NODE_PREFIX)}"
    graph.node.append(helper.make_node(kind, [name, *others], [new], new, **attributes))
    (value,) = (one for one in graph.output if one.name == name)
    value.name = new
    return value


def _read_scores(graph: Any, name: str, column: int | None) -> str:
    """Cast scores of 16 bits, and take one column if that is asked for; return the new name."""
    (value,) = (one for one in graph.output if one.name == name)
    if value.type.tensor_type.elem_type in HALVES:
        value = _add_behind(graph, name, "Cast", to=TensorProto.FLOAT)
        value.type.tensor_type.elem_type = TensorProto.FLOAT
    if column is not None:
        index = helper.make_tensor(f"{NODE_PREFIX}column", TensorProto.INT64, [1], [int(column)])
        graph.initializer.append(index)
        value = _add_behind(graph, value.name, "Gather", index.name, axis=1)
        kind = value.type.tensor_type.elem_type
        value.CopyFrom(helper.make_tensor_value_info(value.name, kind, ["rows", 1]))
    return str(value.name)


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
