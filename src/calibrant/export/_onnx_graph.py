"""The operations of formulas as nodes of an ONNX graph, all of the standard domain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from calibrant.export._formula_parts import Operations

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

FIRST_OPSET = 16
"""The oldest version of the standard operators that has sums over groups."""

CONDITION, WHOLE = TensorProto.BOOL, TensorProto.INT32
SINGLE, REAL = TensorProto.FLOAT, TensorProto.DOUBLE
TYPES = {CONDITION: np.bool_, WHOLE: np.int32, SINGLE: np.float32, REAL: np.float64}

CONDITIONS = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal", "And", "Or")
"""Operators whose result is a condition."""

FACTORS = ("inverse_temperature", "scale")
"""Numbers that logits are multiplied by. ONNX Runtime leaves out a lone factor that is 1 in single
precision, also where others are in double: one for each class stays."""


def _operator(kind: str, *, is_swapped: bool = False) -> Callable[[Any, Any], Any]:
    def add_node(self: Any, other: Any) -> Any:
        return self.ops.binary(kind, *((other, self) if is_swapped else (self, other)))

    return add_node


def _method(name: str, kind: str, **attributes: Any) -> Any:
    """Make a method that adds a node of some kind by another method."""
    return lambda self, *values: getattr(self, name)(kind, *values, **attributes)


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value in a graph: its name and the type of its cells. Its operators add nodes."""

    ops: OnnxOperations
    name: str
    type: int

    __add__ = __radd__ = _operator("Add")
    __sub__, __rsub__ = _operator("Sub"), _operator("Sub", is_swapped=True)
    __mul__ = __rmul__ = _operator("Mul")
    __truediv__ = _operator("Div")
    __gt__, __ge__ = _operator("Greater"), _operator("GreaterOrEqual")
    __lt__, __le__ = _operator("Less"), _operator("LessOrEqual")
    __eq__ = _operator("Equal")
    __and__, __or__ = _operator("And"), _operator("Or")
    __hash__ = None  # type: ignore[assignment]


class OnnxOperations(Operations):
    """Nodes and constants of a graph, as formulas ask for them."""

    def __init__(self, n_classes: int, opset: int, type: int = REAL) -> None:  # noqa: A002
        super().__init__(n_classes)
        self.opset, self.type, self.is_single = opset, type, type == SINGLE
        self.smallest = float(np.finfo(TYPES[type]).tiny)
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, TensorProto] = {}

    def node(
        self,
        kind: str,
        inputs: Sequence[Tensor | str],
        type: int = REAL,  # noqa: A002  (what ONNX calls it)
        outputs: Sequence[str] = (),
        **attributes: Any,
    ) -> Tensor:
        """Add a node; return its first result. ``outputs`` are the names of others."""
        names = [one if isinstance(one, str) else one.name for one in inputs]
        number = len(self.nodes)
        output, name = f"v{number}", "/".join((*self.prefix, f"{kind}_{number}"))
        self.nodes.append(helper.make_node(kind, names, [output, *outputs], name, **attributes))
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

    def number(self, value: ArrayLike, dtype: Any = np.int64) -> str:
        """Name of a constant that is no part of the fit."""
        name = f"c{len(self.constants)}"
        with np.errstate(over="ignore"):  # what is beyond float32 is infinite
            self.constants[name] = numpy_helper.from_array(np.asarray(value, dtype), name)
        return name

    def value(self, value: Any, type: int) -> Tensor:  # noqa: A002  (what ONNX calls it)
        """Give a tensor of a number; others are what they are."""
        if isinstance(value, Tensor):
            return value
        return Tensor(self, self.number(value, TYPES[type]), type)

    def binary(self, kind: str, a: Any, b: Any) -> Any:
        """Add a node of two values, of which one may be a number."""
        operand = a.type if isinstance(a, Tensor) else b.type
        values = [self.value(a, operand), self.value(b, operand)]
        return self.node(kind, values, CONDITION if kind in CONDITIONS else operand)

    def fitted(self, name: str, value: ArrayLike) -> Any:
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

    def unary(self, kind: str, x: Any, **attributes: Any) -> Any:
        """Add a node of one value; casts have another type."""
        return self.node(kind, [x], attributes.get("to", x.type), **attributes)

    def reduce(self, kind: str, x: Any) -> Any:
        """Add a node that makes a column of rows; before opset 18 some had their axes inside."""
        if self.opset < 18 and kind != "ReduceSum":
            return self.node(kind, [x], x.type, axes=[1], keepdims=1)
        return self.node(kind, [x, self.number([1])], x.type, keepdims=1)

    exp, log, floor = (_method("unary", kind) for kind in ("Exp", "Log", "Floor"))
    whole = _method("unary", "Cast", to=WHOLE)
    softmax = _method("unary", "Softmax", axis=1)
    maximum, minimum = _method("binary", "Max"), _method("binary", "Min")
    row_sum, row_max, row_min = (
        _method("reduce", f"Reduce{kind}") for kind in ("Sum", "Max", "Min")
    )

    def real(self, x: object) -> Any:
        return self.unary("Cast", x, to=self.type)

    def sigmoid(self, x: Any) -> Any:
        """Take 1 / (1 + exp(-x)) of each cell; some runtimes have no Sigmoid of float64."""
        return self.value(1.0, x.type) / (self.exp(0.0 - x) + 1.0)

    def where(self, condition: Tensor, a: object, b: object) -> Any:
        values = [self.value(a, self.type), self.value(b, self.type)]
        return self.node("Where", [condition, *values], values[0].type)

    def cumulative(self, x: Any) -> Any:
        return self.node("CumSum", [x, self.number(1)], x.type)

    def matmul(self, x: Any, matrix: Any) -> Any:
        return self.node("MatMul", [x, matrix], x.type)

    def sort(self, x: Any) -> tuple[Any, Tensor]:
        columns = Tensor(self, f"v{len(self.nodes)}b", TensorProto.INT64)
        sizes = [x, self.number([self.n_classes])]
        return self.node("TopK", sizes, x.type, [columns.name], axis=1), columns

    def spread(self, x: Any, columns: Tensor) -> Any:
        return self.node("ScatterElements", [x, columns, x], x.type, axis=1)

    def group_sums(self, x: Any, groups: Tensor) -> Any:
        given = [x * 0.0, groups, x]
        sums = self.node("ScatterElements", given, x.type, axis=1, reduction="add")
        return self.node("GatherElements", [sums, groups], x.type, axis=1)

    def shift(self, x: Any) -> Any:
        """Move each row to the right by a cell; some runtimes abort where a pad is negative."""
        first, second, last = (self.number([one]) for one in (0, 1, self.n_classes - 1))
        column = self.node("Slice", [x, first, second, second], x.type)
        others = self.node("Slice", [x, first, last, second], x.type)
        return self.node("Concat", [column - column, others], x.type, axis=1)

    def take(self, table: Any, index: Tensor) -> Any:
        """Take entries of a table; GatherElements of one dimension is faster than Gather."""
        flat = self.node("Reshape", [index, self.number([-1])], WHOLE)
        taken = self.node("GatherElements", [table, flat], table.type, axis=0)
        return self.node("Reshape", [taken, self.node("Shape", [index])], table.type)
