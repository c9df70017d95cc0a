"""The operations of formulas as nodes of an ONNX graph, all of the standard domain."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _extras as extras
from calibrant.export._operations import Rounding

try:
    from onnx import NodeProto, TensorProto, helper, numpy_helper
except ImportError as error:
    raise extras.needed(error, "calibrant.export.to_onnx", "onnx") from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import ArrayLike

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


class GraphValue:
    """A value in a graph: its operators add nodes."""

    ops: OnnxOperations

    __add__ = __radd__ = _operator("Add")
    __sub__, __rsub__ = _operator("Sub"), _operator("Sub", is_swapped=True)
    __mul__ = __rmul__ = _operator("Mul")
    __truediv__ = _operator("Div")
    __gt__, __ge__ = _operator("Greater"), _operator("GreaterOrEqual")
    __lt__, __le__ = _operator("Less"), _operator("LessOrEqual")
    __eq__ = _operator("Equal")
    __and__, __or__ = _operator("And"), _operator("Or")
    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class Tensor(GraphValue):
    """A value in a graph: its name, the type of its cells and the number of its columns.

    One column, or one number, has a dimension less: ONNX Runtime is twenty times slower where the
    last of two dimensions is 1.
    """

    ops: OnnxOperations
    name: str
    type: int
    width: int
    is_column: bool = False


def _unary(kind: str, type_: int | None = None, **attributes: Any) -> Callable[[Any, Any], Any]:
    def add_node(self: Any, x: Any) -> Any:
        return self.node(kind, [x], x.type if type_ is None else type_, **attributes)

    return add_node


class OnnxOperations:
    """Nodes and constants of a graph, as formulas ask for them.

    Attributes
    ----------
    nodes : list of NodeProto
    constants : dict
        Tensors of numbers, by their names.
    rounding : Rounding
        How far scores that are computed may be off.
    """

    pairs = False
    type = REAL
    """Type of real numbers."""

    def __init__(self, n_classes: int, opset: int) -> None:
        self.n_classes = n_classes
        self.opset = opset
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, TensorProto] = {}
        self.rounding = Rounding()
        self._prefix: tuple[str, ...] = ()
        self._columns: dict[str, Tensor] = {}
        self._numbers: dict[tuple[Any, ...], str] = {}

    def node(
        self,
        kind: str,
        inputs: Sequence[Tensor | str],
        type: int = REAL,  # noqa: A002  (what ONNX calls it)
        width: int | None = None,
        **attributes: Any,
    ) -> Tensor:
        """Add a node with one result."""
        return self._add(kind, inputs, [type], width, **attributes)[0]

    def _add(
        self,
        kind: str,
        inputs: Sequence[Tensor | str],
        types: list[int],
        width: int | None,
        **attributes: Any,
    ) -> list[Tensor]:
        names = [one if isinstance(one, str) else one.name for one in inputs]
        number = len(self.nodes)
        outputs = [f"v{number}{'ab'[i] if i else ''}" for i in range(len(types))]
        name = "/".join((*self._prefix, f"{kind}_{number}"))
        self.nodes.append(helper.make_node(kind, names, outputs, name, **attributes))
        given = [one for one in inputs if isinstance(one, Tensor)]
        if width is None:
            width = max(one.width for one in given)
        column = width == 1 and any(one.is_column or one.width > 1 for one in given)
        return [
            Tensor(self, name, kept, width, column)
            for name, kept in zip(outputs, types, strict=True)
        ]

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

    def number(self, value: ArrayLike, dtype: Any) -> str:
        """Name of a constant that is no part of the fit; equal ones are the same."""
        array = np.asarray(value, dtype)
        key = (helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, array.tobytes())
        if key not in self._numbers:
            name = f"c{len(self._numbers)}"
            self._numbers[key] = name
            self.constants[name] = numpy_helper.from_array(array, name)
        return self._numbers[key]

    def _value(self, value: Any, type: int) -> Tensor:  # noqa: A002
        if isinstance(value, Tensor):
            return value
        return Tensor(self, self.number(value, TYPES[type]), type, 1)

    def binary(self, kind: str, a: Any, b: Any) -> Any:
        """Add a node of two values, of which one may be a number."""
        operand = a.type if isinstance(a, Tensor) else b.type
        values = self._aligned(a, b, type=operand)
        return self.node(kind, values, CONDITION if kind in CONDITIONS else operand)

    def _aligned(self, *values: Any, type: int) -> list[Tensor]:  # noqa: A002
        """Give values that broadcast: columns beside rows have two dimensions."""
        tensors = [self._value(one, type) for one in values]
        if all(one.width == 1 for one in tensors):
            return tensors
        return [self._upright(one) if one.is_column else one for one in tensors]

    def _upright(self, column: Tensor) -> Tensor:
        if column.name not in self._columns:
            shape = self.number([-1, 1], np.int64)
            self._columns[column.name] = self.node("Reshape", [column, shape], column.type, 1)
        return self._columns[column.name]

    def fitted(self, name: str, value: ArrayLike) -> Tensor:
        """Give a number or an array of the fit."""
        path = "/".join((*self._prefix, name))
        array = np.asarray(value)
        if array.dtype.kind == "i":
            array = array.astype(np.int32)
        if name in FACTORS and array != 1.0 and np.float32(array) == 1.0:
            array = np.full(self.n_classes, array)
        array = np.ascontiguousarray(array)
        self.constants[path] = numpy_helper.from_array(array, path)
        type_ = helper.np_dtype_to_tensor_dtype(array.dtype)
        return Tensor(self, path, type_, array.shape[-1] if array.ndim else 1)

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Put a name before those of all that is fitted."""
        self._prefix = (*self._prefix, name)
        yield
        self._prefix = self._prefix[:-1]

    exp, log, sqrt, floor = map(_unary, ("Exp", "Log", "Sqrt", "Floor"))
    softmax = _unary("Softmax", axis=1)
    single = _unary("Cast", SINGLE, to=SINGLE)
    whole = _unary("Cast", WHOLE, to=WHOLE)
    real = _unary("Cast", REAL, to=REAL)

    def sigmoid(self, x: Any) -> Any:
        """Take 1 / (1 + exp(-x)) of each cell; some runtimes have no Sigmoid of float64."""
        return self._value(1.0, x.type) / (self.exp(0.0 - x) + 1.0)

    def maximum(self, a: Any, b: Any) -> Any:
        """Take the larger of two cells."""
        return self.binary("Max", a, b)

    def minimum(self, a: Any, b: Any) -> Any:
        """Take the smaller of two cells."""
        return self.binary("Min", a, b)

    def where(self, condition: Tensor, a: Any, b: Any) -> Any:
        """Take a cell of one or the other."""
        values = self._aligned(condition, a, b, type=self.type)
        return self.node("Where", values, values[1].type)

    def _reduce(self, kind: str, x: Tensor) -> Tensor:
        if kind == "ReduceSum" or self.opset >= 18:
            return self.node(kind, [x, self.number([1], np.int64)], x.type, 1, keepdims=0)
        return self.node(kind, [x], x.type, 1, axes=[1], keepdims=0)

    def row_sum(self, x: Any) -> Any:
        """Add up each row."""
        return self._reduce("ReduceSum", x)

    def row_max(self, x: Any) -> Any:
        """Find the largest cell of each row."""
        return self._reduce("ReduceMax", x)

    def row_min(self, x: Any) -> Any:
        """Find the smallest cell of each row."""
        return self._reduce("ReduceMin", x)

    def cumulative(self, x: Tensor) -> Tensor:
        """Add up each row from the left."""
        return self.node("CumSum", [x, self.number(1, np.int64)], x.type)

    def matmul(self, x: Tensor, matrix: Tensor) -> Tensor:
        """Multiply rows by a matrix."""
        return self.node("MatMul", [x, matrix], width=matrix.width)

    def sort(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Sort each row, the largest first and ties by column."""
        all_of_them = self.number([self.n_classes], np.int64)
        found = self._add("TopK", [x, all_of_them], [x.type, TensorProto.INT64], None, axis=1)
        return found[0], found[1]

    def spread(self, x: Tensor, columns: Tensor) -> Tensor:
        """Undo a sort."""
        return self.node("ScatterElements", [x, columns, x], x.type, axis=1)

    def group_sums(self, x: Tensor, groups: Tensor) -> Tensor:
        """Give each cell the sum over its group."""
        nothing = x * 0.0
        sums = self.node("ScatterElements", [nothing, groups, x], x.type, axis=1, reduction="add")
        return self.node("GatherElements", [sums, groups], x.type, axis=1)

    def shift(self, x: Tensor) -> Tensor:
        """Move each row to the right by a cell; some runtimes abort where a pad is negative."""
        first, second, last = (self.number([one], np.int64) for one in (0, 1, x.width - 1))
        # Of two dimensions, so no columns here: their width is that of what they become.
        column = self.node("Slice", [x, first, second, second], x.type)
        others = self.node("Slice", [x, first, last, second], x.type)
        return self.node("Concat", [column - column, others], x.type, axis=1)

    def take(self, table: Tensor, index: Tensor) -> Tensor:
        """Take entries of a table.

        In one dimension, where GatherElements does what Gather does, several times as fast in
        ONNX Runtime.
        """
        if index.is_column:
            return self.node("GatherElements", [table, index], table.type, 1, axis=0)
        flat = self.node("Reshape", [index, self.number([-1], np.int64)], WHOLE)
        taken = self.node("GatherElements", [table, flat], table.type, axis=0)
        shape = self.number([-1, index.width], np.int64)
        return self.node("Reshape", [taken, shape], table.type, index.width)
