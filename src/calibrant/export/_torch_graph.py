"""The operations of formulas as nodes of a graph of PyTorch (``torch.fx``)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _extras as extras
from calibrant.export._operations import Rounding

try:
    import torch
    from torch import fx, nn
    from torch.fx.proxy import GraphAppendingTracer
except ImportError as error:
    raise extras.needed(error, "calibrant.export.to_torch", "torch") from error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike

REAL, WHOLE = torch.float64, torch.int64
NUMBER = int | float


def _by_row(function: Any, **options: Any) -> Any:
    """Make a method of what works along the cells of each row."""
    return staticmethod(lambda x: function(x, 1, **options))


def _cast(dtype: torch.dtype) -> Any:
    return staticmethod(lambda x: x.to(dtype))


class TorchOperations:
    """Nodes of a graph and the numbers that they use, as formulas ask for them.

    Values are proxies of tensors, which have the operators.

    Attributes
    ----------
    scores : Proxy
        What the graph is given.
    """

    pairs = False

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes
        self.rounding = Rounding()
        self.scores: Any
        self._graph = fx.Graph()
        self._tracer = GraphAppendingTracer(self._graph)
        self._root = nn.Module()
        self._prefix: tuple[str, ...] = ()
        self.scores = self._proxy(self._graph.placeholder("scores"))

    def _proxy(self, node: fx.Node) -> fx.Proxy:
        return fx.Proxy(node, self._tracer)

    def finish(self, result: fx.Proxy) -> fx.GraphModule:
        """Return the module whose result this is, with numbers as buffers."""
        self._graph.output(result.node)
        self._graph.eliminate_dead_code()
        self._graph.lint()
        return fx.GraphModule(self._root, self._graph, "Formula")

    def fitted(self, name: str, value: ArrayLike) -> fx.Proxy:
        """Give a number or an array of the fit: a buffer, in modules named as what it is in."""
        home = self._root
        for part in self._prefix:
            if part not in home._modules:  # noqa: SLF001  (as register_module has it)
                home.register_module(part, nn.Module())
            home = home.get_submodule(part)
        home.register_buffer(name, torch.tensor(np.asarray(value)))
        return self._proxy(self._graph.get_attr(".".join((*self._prefix, name))))

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Put a name before those of all that is fitted."""
        self._prefix = (*self._prefix, name)
        yield
        self._prefix = self._prefix[:-1]

    exp, log, sqrt = map(staticmethod, (torch.exp, torch.log, torch.sqrt))
    sigmoid, matmul, take = map(staticmethod, (torch.sigmoid, torch.matmul, torch.take))
    softmax, cumulative = _by_row(torch.softmax), _by_row(torch.cumsum)
    row_sum, row_max, row_min = (
        _by_row(reduce, keepdim=True) for reduce in (torch.sum, torch.amax, torch.amin)
    )
    single, whole, real = map(_cast, (torch.float32, WHOLE, REAL))

    @staticmethod
    def floor(x: Any) -> Any:
        """Round each cell down, with the derivative of a cell that is not rounded.

        Formulas round what they add up, so that their sums are exact; the derivative of the sum
        is that of any other.
        """
        return x + (torch.floor(x) - x).detach()

    @staticmethod
    def maximum(a: Any, b: Any) -> Any:
        """Take the larger of two cells."""
        return torch.clamp(a, min=b) if isinstance(b, NUMBER) else torch.maximum(a, b)

    @staticmethod
    def minimum(a: Any, b: Any) -> Any:
        """Take the smaller of two cells."""
        return torch.clamp(a, max=b) if isinstance(b, NUMBER) else torch.minimum(a, b)

    @staticmethod
    def where(condition: Any, a: Any, b: Any) -> Any:
        """Take a cell of one or the other; two numbers alone would become float32."""
        if isinstance(a, NUMBER) and isinstance(b, NUMBER):
            b = torch.full_like(condition, float(b), dtype=REAL)
        return torch.where(condition, a, b)

    @staticmethod
    def sort(x: Any) -> tuple[Any, Any]:
        """Sort each row, the largest first and ties by column."""
        found = torch.sort(x, dim=1, descending=True, stable=True)
        return found[0], found[1]

    @staticmethod
    def spread(x: Any, columns: Any) -> Any:
        """Undo a sort."""
        return torch.scatter(x, 1, columns, x)

    @staticmethod
    def group_sums(x: Any, groups: Any) -> Any:
        """Give each cell the sum over its group."""
        sums = torch.scatter_add(torch.zeros_like(x), 1, groups, x)
        return torch.gather(sums, 1, groups)

    @staticmethod
    def shift(x: Any) -> Any:
        """Move each row to the right by a cell."""
        return nn.functional.pad(x, (1, -1))
