"""Calibrators as ONNX graphs, alone or behind the graph of a classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, checker, compose, defs, helper, numpy_helper

from calibrant import __version__, errors
from calibrant import _gate as gate
from calibrant.export._formulas import Operations
from calibrant.export._pipeline import check_input, metadata, take_calibrator, write_rows

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, DTypeLike

    from calibrant._calibrators.base import Calibrator

FIRST_OPSET = 16
"""The oldest version of the standard operators that has sums over groups."""

CONDITION, WHOLE = TensorProto.BOOL, TensorProto.INT32
SINGLE, REAL = TensorProto.FLOAT, TensorProto.DOUBLE
TYPES = {CONDITION: np.bool_, WHOLE: np.int32, SINGLE: np.float32, REAL: np.float64}

FACTORS = ("inverse_temperature", "scale")
"""Numbers that logits are multiplied by. ONNX Runtime leaves out a lone factor that is 1 in single
precision, also where others are in double: one for each class stays."""

ONNX_DTYPES = {"float32": SINGLE, "float64": REAL}
OUTPUT_TYPES = {one: one for one in ONNX_DTYPES.values()}
OUTPUT_TYPES |= dict.fromkeys((TensorProto.FLOAT16, TensorProto.BFLOAT16), SINGLE)
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
        Type of the input and output; the graph computes in float64, as ``predict_proba`` does.
    precision : {"float64", "float32"}, default="float64"
        Type of real numbers inside the graph. "float32" is for runtimes that silently read float64
        as float32 (OpenVINO). Its results are within 1e-5 of ``predict_proba``, for logits times
        coefficients up to 100 in size. What would move to another side of a threshold is refused:
        methods with steps, and curves of single probabilities of three classes or more.
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
    sums up to 0.01 away from 1 are normalised. A score that another runtime computed may be on
    another side of a threshold; those of the fit stay on theirs, as thresholds lie between them.

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
    >>> network = onnx.parser.parse_model('''<ir_version: 8, opset_import: ["" : 18]>
    ...     network (float[rows, 3] features) => (float[rows, 3] scores) {
    ...         scores = Add(features, features)
    ...     }''')
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
    dtype = _check_output(scores, gate.n_columns_of(kind, calibrator.n_features_in_))
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
    if precision == "float32" and dtype == REAL:
        message = "precision='float32' is for scores of 32 bits or fewer; these have 64 (float64)"
        raise errors.ParameterError(message, argument="precision", value=precision)
    n_classes = calibrator.n_features_in_
    width = gate.n_columns_of(kind, n_classes)
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


def _find_output(model: onnx.ModelProto, name: str | None) -> onnx.ValueInfoProto:
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


def _check_output(scores: onnx.ValueInfoProto, width: int) -> int:
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


# Nodes and constants


def _operator(kind: str, *, is_swapped: bool = False) -> Callable[[Tensor, Tensor | float], Tensor]:
    is_condition = kind in ("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And")

    def add_node(self: Tensor, other: Tensor | float) -> Tensor:
        values = [self, self.ops.value(other, self.type)]
        type = CONDITION if is_condition else self.type  # noqa: A001  (what ONNX calls it)
        return self.ops.node(kind, values[::-1] if is_swapped else values, type)

    return add_node


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value in a graph: its name and the type of its cells. Its operators add nodes."""

    ops: OnnxOperations
    name: str
    type: int

    __add__ = _operator("Add")
    __sub__, __rsub__ = _operator("Sub"), _operator("Sub", is_swapped=True)
    __mul__ = __rmul__ = _operator("Mul")
    __truediv__ = _operator("Div")
    __gt__, __ge__ = _operator("Greater"), _operator("GreaterOrEqual")
    __lt__, __le__ = _operator("Less"), _operator("LessOrEqual")
    __and__ = _operator("And")


def _unary(kind: str, **attributes: int) -> Callable[[OnnxOperations, Tensor], Tensor]:
    """Make a method that adds a node of one value; casts have another type."""
    return lambda ops, x: ops.node(kind, [x], attributes.get("to", x.type), **attributes)


def _binary(kind: str) -> Callable[[OnnxOperations, Tensor, Tensor | float], Tensor]:
    return lambda ops, a, b: ops.node(kind, [a, ops.value(b, a.type)], a.type)


def _reduce(kind: str) -> Callable[[OnnxOperations, Tensor], Tensor]:
    """Make a method that makes a column of rows; before opset 18 some had their axes inside."""

    def add_node(ops: OnnxOperations, x: Tensor) -> Tensor:
        if ops.opset < 18 and kind != "ReduceSum":
            return ops.node(kind, [x], x.type, axes=[1], keepdims=1)
        return ops.node(kind, [x, ops.number([1])], x.type, keepdims=1)

    return add_node


class OnnxOperations(Operations[Tensor]):
    """Nodes and constants of a graph, as formulas ask for them."""

    def __init__(self, n_classes: int, opset: int, type: int = REAL) -> None:  # noqa: A002
        self.n_classes, self.opset, self.type = n_classes, opset, type
        self.is_single, self.smallest = type == SINGLE, float(np.finfo(TYPES[type]).tiny)
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, TensorProto] = {}

    def node(
        self,
        kind: str,
        inputs: Sequence[Tensor | str],
        type: int = REAL,  # noqa: A002  (what ONNX calls it)
        **attributes: object,
    ) -> Tensor:
        """Add a node; return its result."""
        names = [one if isinstance(one, str) else one.name for one in inputs]
        number = len(self.nodes)
        output, name = f"v{number}", "/".join((*self.prefix, f"{kind}_{number}"))
        self.nodes.append(helper.make_node(kind, names, [output], name, **attributes))
        return Tensor(self, output, type)

    def drop_unused(self) -> None:
        """Drop nodes and constants that the last node does not need."""
        needed = {*self.nodes[-1].output}
        kept = []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                needed.update(node.input)
                kept.append(node)
        self.nodes = kept[::-1]
        self.constants = {name: one for name, one in self.constants.items() if name in needed}

    def number(self, value: ArrayLike, dtype: DTypeLike = np.int64) -> str:
        """Name of a constant that is no part of the fit."""
        name = f"c{len(self.constants)}"
        with np.errstate(over="ignore"):  # what is beyond float32 is infinite
            self.constants[name] = numpy_helper.from_array(np.asarray(value, dtype), name)
        return name

    def value(self, value: Tensor | float, type: int) -> Tensor:  # noqa: A002  (what ONNX calls it)
        """Give a tensor of a number; others are what they are."""
        if isinstance(value, Tensor):
            return value
        return Tensor(self, self.number(value, TYPES[type]), type)

    def fitted(self, name: str, value: ArrayLike) -> Tensor:
        path = "/".join((*self.prefix, name))
        array = np.asarray(value)
        if array.dtype.kind == "i":
            array = array.astype(np.int32)
        if array.dtype == np.float64:
            array = array.astype(TYPES[self.type])
        if name in FACTORS and array != 1.0 and np.float32(array) == 1.0:
            array = np.full(self.n_classes, array)
        array = np.ascontiguousarray(array)
        self.constants[path] = numpy_helper.from_array(array, path)
        return Tensor(self, path, helper.np_dtype_to_tensor_dtype(array.dtype))

    exp, log, floor = _unary("Exp"), _unary("Log"), _unary("Floor")
    whole, softmax = _unary("Cast", to=WHOLE), _unary("Softmax", axis=1)
    maximum, minimum = _binary("Max"), _binary("Min")
    row_sum, row_max, row_min = _reduce("ReduceSum"), _reduce("ReduceMax"), _reduce("ReduceMin")

    def real(self, x: Tensor) -> Tensor:
        return self.node("Cast", [x], self.type, to=self.type)

    def sigmoid(self, x: Tensor) -> Tensor:
        """Take 1 / (1 + exp(-x)) of each cell; some runtimes have no Sigmoid of float64."""
        return self.value(1.0, x.type) / (self.exp(0.0 - x) + 1.0)

    def where(self, condition: Tensor, a: Tensor | float, b: Tensor | float) -> Tensor:
        first, second = self.value(a, self.type), self.value(b, self.type)
        return self.node("Where", [condition, first, second], first.type)

    def cumulative(self, x: Tensor) -> Tensor:
        return self.node("CumSum", [x, self.number(1)], x.type)

    def matmul(self, x: Tensor, matrix: Tensor) -> Tensor:
        return self.node("MatMul", [x, matrix], x.type)

    def sort(self, x: Tensor) -> tuple[Tensor, Tensor]:
        cells = self.node("TopK", [x, self.number([self.n_classes])], x.type, axis=1)
        columns = Tensor(self, f"{cells.name}b", TensorProto.INT64)
        self.nodes[-1].output.append(columns.name)  # the second result
        return cells, columns

    def spread(self, x: Tensor, columns: Tensor) -> Tensor:
        return self.node("ScatterElements", [x, columns, x], x.type, axis=1)

    def group_sums(self, x: Tensor, groups: Tensor) -> Tensor:
        given = [x * 0.0, groups, x]
        sums = self.node("ScatterElements", given, x.type, axis=1, reduction="add")
        return self.node("GatherElements", [sums, groups], x.type, axis=1)

    def shift(self, x: Tensor) -> Tensor:
        """Move each row to the right by a cell; some runtimes abort where a pad is negative."""
        first, second, last = (self.number([one]) for one in (0, 1, self.n_classes - 1))
        column = self.node("Slice", [x, first, second, second], x.type)
        others = self.node("Slice", [x, first, last, second], x.type)
        return self.node("Concat", [column - column, others], x.type, axis=1)

    def take(self, table: Tensor, index: Tensor) -> Tensor:
        """Take entries of a table; GatherElements of one dimension is faster than Gather."""
        flat = self.node("Reshape", [index, self.number([-1])], WHOLE)
        taken = self.node("GatherElements", [table, flat], table.type, axis=0)
        shape = self.node("Shape", [index])
        return self.node("Reshape", [taken, shape], table.type)
