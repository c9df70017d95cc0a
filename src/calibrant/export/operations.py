"""The operations that maps write their formulas with, whoever carries them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Value = Any
"""A matrix of rows, a column of one number a row, or a constant: what operations take and return.

Values have the operators ``+ - * /`` and ``> >= < <= == & |``, with each other and with numbers,
which broadcast as numpy's do. Real values have 64 bits, or are ``pairs`` of 32, unless they are
rounded to ``single``.
"""


class Rounding(NamedTuple):
    """How far scores that are computed may be off from those that a map was fitted to.

    Attributes
    ----------
    of_logits : float
        Error of logits: it moves a probability p by p (1 - p) of it.
    of_cells : float
        Error of the probabilities themselves.
    of_numbers : float
        Error of any number, as a part of it; near 1 it is smaller, since pairs are longer there.
    """

    of_logits: float = 2.0**-40
    of_cells: float = 0.0
    of_numbers: float = 0.0


class Operations(Protocol):
    """What can be done with values besides their operators.

    numpy, an ONNX graph and a graph of PyTorch have these in common. A formula is made of them
    alone, once, for rows that are not known yet: nothing in it may depend on what is in a row.
    """

    n_classes: int
    rounding: Rounding
    pairs: bool
    """Whether real values are sums of two numbers of 32 bits: ``row_sum`` is exact to 40 bits, and
    keys are of 32 bits."""

    def fitted(self, name: str, value: ArrayLike) -> Value:
        """Give a number or an array of the fit, which has a name there."""

    def inside(self, name: str) -> Any:
        """Put a name before those of all that is fitted, in a ``with`` statement."""

    def exp(self, x: Value) -> Value:
        """Take e to the power of each cell."""

    def log(self, x: Value) -> Value:
        """Take the logarithm of each cell."""

    def sqrt(self, x: Value) -> Value:
        """Take the square root of each cell; the last bits do not count."""

    def single(self, x: Value) -> Value:
        """Round each cell to 32 bits: enough for a key, which is quicker to find then."""

    def floor(self, x: Value) -> Value:
        """Round each cell down; it stays a real number."""

    def sigmoid(self, x: Value) -> Value:
        """Take 1 / (1 + exp(-x)) of each cell."""

    def softmax(self, x: Value) -> Value:
        """Take the softmax of each row; a cell of minus infinity becomes 0.

        Of ``pairs`` it has 32 bits, for results.
        """

    def maximum(self, a: Value, b: Value) -> Value:
        """Take the larger of two cells."""

    def minimum(self, a: Value, b: Value) -> Value:
        """Take the smaller of two cells."""

    def where(self, condition: Value, a: Value, b: Value) -> Value:
        """Take a cell of ``a`` where the condition holds, else one of ``b``."""

    def whole(self, x: Value) -> Value:
        """Round towards zero, to whole numbers; conditions are 1 and 0."""

    def real(self, x: Value) -> Value:
        """Turn whole numbers or conditions into real ones."""

    def row_sum(self, x: Value) -> Value:
        """Add up each row, whole or real, to a column."""

    def row_max(self, x: Value) -> Value:
        """Find the largest cell of each row, as a column."""

    def row_min(self, x: Value) -> Value:
        """Find the smallest cell of each row, as a column."""

    def cumulative(self, x: Value) -> Value:
        """Add up each row from the left, one cell after the other."""

    def matmul(self, x: Value, matrix: Value) -> Value:
        """Multiply rows by a matrix."""

    def sort(self, x: Value) -> tuple[Value, Value]:
        """Sort each row, the largest first and ties by column; also tell the columns."""

    def spread(self, x: Value, columns: Value) -> Value:
        """Undo a sort: put the cells of each row into the columns that they came from."""

    def group_sums(self, x: Value, groups: Value) -> Value:
        """Give each cell the sum over its group, cells of a row with the same whole number."""

    def shift(self, x: Value) -> Value:
        """Move each row to the right by a cell; the first becomes 0."""

    def take(self, table: Value, index: Value) -> Value:
        """Take entries of a table, a constant of one dimension, by whole numbers."""
