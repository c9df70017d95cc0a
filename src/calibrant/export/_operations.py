"""The operations that maps write their formulas with, whoever carries them out."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Value = Any
"""A matrix of rows, a column of one number a row, or a constant: what operations take and return.

Values have the operators ``+ - * /`` and ``> >= < <= == & |``, with each other and with numbers,
which broadcast as numpy's do. Real values have 64 bits, unless the graph ``is_single``.
"""


class Operations:
    """Operations on values besides their operators.

    numpy, an ONNX graph and a graph of PyTorch have these in common. A formula is made of them
    alone, once, for rows that are not known yet: nothing in it may depend on what is in a row.

    n_classes               number of classes
    is_single               whether real values have 32 bits, which are too few for steps
    smallest                smallest positive number that counts as one
    fitted(name, value)     a number or an array of the fit, which has a name there
    inside(name)            puts a name before those of all that is fitted, in a ``with`` statement
    exp(x), log(x), sigmoid(x), floor(x)
                            of each cell; what is rounded down stays a real number
    whole(x), real(x)       rounded towards zero to whole numbers, conditions are 1 and 0; and back
    softmax(x)              of each row; a cell of minus infinity becomes 0
    maximum(a, b), minimum(a, b), where(condition, a, b)
                            of two cells
    row_sum(x), row_max(x), row_min(x)
                            of each row, as a column
    cumulative(x)           sums of each row from the left, one cell after the other
    matmul(x, matrix)       rows times a matrix
    sort(x)                 each row, the largest first and ties by column; also the columns
    spread(x, columns)      undoes a sort: puts cells into the columns that they came from
    group_sums(x, groups)   for each cell the sum over its group: cells with the same number
    shift(x)                each row moved to the right by a cell; the first becomes 0
    take(table, index)      entries of a table, a constant of one dimension, by whole numbers
    """

    is_single = False
    smallest = 2.0**-1022

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes
        self.prefix: tuple[str, ...] = ()

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        before = self.prefix
        self.prefix = (*before, name)
        yield
        self.prefix = before

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
