"""Calibrators as modules of PyTorch, and as files that PyTorch reads without this package."""

from __future__ import annotations

from operator import methodcaller
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from torch import fx, nn
from torch.fx.proxy import GraphAppendingTracer

from calibrant import _gate as gate
from calibrant import errors
from calibrant._atomic_file import replace_file
from calibrant.export._formulas import Operations
from calibrant.export._pipeline import check_input, metadata, take_calibrator, write_rows

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from calibrant._calibrators.base import Calibrator

REAL, WHOLE = torch.float64, torch.int64
NUMBER = int | float
TORCH_DTYPES = {"float32": torch.float32, "float64": torch.float64}
TYPE_CHECK = torch.ops.aten._assert_tensor_metadata.default  # noqa: SLF001  (an operator's name)


def to_torch(
    calibrator: Calibrator,
    *,
    input: str | None = None,  # noqa: A002  (its name in a graph)
) -> CalibratorModule:
    """Return a calibrator as a PyTorch module, with the results of ``predict_proba``.

    Parameters
    ----------
    calibrator : Calibrator
        A fitted calibrator.
    input : {"probabilities", "logits", "positive", "decision"}, optional
        Kind of the input; by default that of the fit. For a calibrator of probabilities it may be
        "logits", of which the module takes the softmax. "positive" and "decision" are one column,
        for the second of two classes.

    Returns
    -------
    module : CalibratorModule
        Takes scores of shape (rows, n_classes), or (rows, 1) of one column, of any floating-point
        type, and returns probabilities of shape (rows, n_classes) and the same type.

    Raises
    ------
    ExportError
        If the calibrator, or a part of it, has no formula.

    Notes
    -----
    What is fitted are buffers, which ``torch.export`` and ``torch.compile`` take along. They stay
    in float64, whatever the network around the module is changed to, and the module computes in
    float64, as ``predict_proba`` does. It therefore needs a device with float64, which Apple's
    graphics processors do not have: keep it on the processor there. Cumulative sums of a GPU
    (``scir``) may differ in the last bit, and so be on the other side of a threshold.

    A module cannot refuse a row. One that ``predict_proba`` refuses comes out as NaN, except that
    sums up to 0.01 away from 1 are normalised. Derivatives with respect to scores are those of the
    formula: of steps they are zero.

    Examples
    --------
    >>> import torch
    >>> from calibrant import TemperatureScaling
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.export import to_torch
    >>> scores, y = simulated_scores(1000)
    >>> calibrator = TemperatureScaling().fit(scores, y)
    >>> module = to_torch(calibrator)
    >>> module
    CalibratorModule(method='ts', n_classes=3, input='probabilities')
    >>> result = module(torch.tensor(scores))
    >>> bool(abs(result.numpy() - calibrator.predict_proba(scores)).max() < 1e-12)
    True
    """
    calibrator = take_calibrator(calibrator)
    return CalibratorModule(calibrator, check_input(calibrator, input))


def _by_row(
    function: Callable[..., torch.Tensor], **options: bool
) -> staticmethod[[torch.Tensor], torch.Tensor]:
    """Make a method of what works along the cells of each row."""
    return staticmethod(lambda x: function(x, 1, **options))


class TorchOperations(Operations[torch.Tensor]):
    """Nodes of a graph and the numbers that they use, as formulas ask for them.

    Values are proxies of tensors, which have the operators; ``scores`` is what the graph is given.
    """

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes
        self._graph = fx.Graph()
        self._tracer = GraphAppendingTracer(self._graph)
        self._root = nn.Module()
        self.scores = fx.Proxy(self._graph.placeholder("scores"), self._tracer)

    def finish(self, result: fx.Proxy) -> fx.GraphModule:
        """Return the module whose result this is, with numbers as buffers."""
        self._graph.output(result.node)
        self._graph.eliminate_dead_code()
        self._graph.lint()
        return fx.GraphModule(self._root, self._graph, "Formula")

    def fitted(self, name: str, value: ArrayLike) -> torch.Tensor:
        """Give a number or an array of the fit: a buffer, in modules named as what it is in."""
        home = self._root
        for part in self.prefix:
            if part not in home._modules:  # noqa: SLF001  (as register_module has it)
                home.register_module(part, nn.Module())
            home = home.get_submodule(part)
        home.register_buffer(name, torch.tensor(np.asarray(value)))
        return fx.Proxy(self._graph.get_attr(".".join((*self.prefix, name))), self._tracer)

    exp, log = map(staticmethod, (torch.exp, torch.log))
    sigmoid, matmul, take = map(staticmethod, (torch.sigmoid, torch.matmul, torch.take))
    softmax, cumulative = _by_row(torch.softmax), _by_row(torch.cumsum)
    row_sum, row_max, row_min = (
        _by_row(reduce, keepdim=True) for reduce in (torch.sum, torch.amax, torch.amin)
    )
    whole, real = (staticmethod(methodcaller("to", dtype)) for dtype in (WHOLE, REAL))

    @staticmethod
    def floor(x: torch.Tensor) -> torch.Tensor:
        """Round each cell down, with the derivative of a cell that is not rounded.

        Formulas round what they add up, so that their sums are exact; the derivative of the sum
        is that of any other.
        """
        return x + (torch.floor(x) - x).detach()

    @staticmethod
    def maximum(a: torch.Tensor, b: torch.Tensor | float) -> torch.Tensor:
        return torch.clamp(a, min=b) if isinstance(b, NUMBER) else torch.maximum(a, b)

    @staticmethod
    def minimum(a: torch.Tensor, b: torch.Tensor | float) -> torch.Tensor:
        return torch.clamp(a, max=b) if isinstance(b, NUMBER) else torch.minimum(a, b)

    @staticmethod
    def where(
        condition: torch.Tensor, a: torch.Tensor | float, b: torch.Tensor | float
    ) -> torch.Tensor:
        """Take a cell of one or the other; two numbers alone would become float32."""
        if isinstance(a, NUMBER) and isinstance(b, NUMBER):
            b = torch.full_like(condition, float(b), dtype=REAL)
        return torch.where(condition, a, b)

    @staticmethod
    def sort(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        result = torch.sort(x, dim=1, descending=True, stable=True)
        return result[0], result[1]

    @staticmethod
    def group_sums(x: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
        return torch.gather(torch.scatter_add(torch.zeros_like(x), 1, groups, x), 1, groups)

    spread = staticmethod(lambda x, columns: torch.scatter(x, 1, columns, x))
    shift = staticmethod(lambda x: nn.functional.pad(x, (1, -1)))


class CalibratorModule(nn.Module):
    """A fitted calibrator, as ``to_torch`` makes it.

    It tells its ``classes``, ``method``, ``n_classes`` and kind of ``input``, and what files say of
    it (``about``).
    """

    _device: torch.Tensor

    def __init__(self, calibrator: Calibrator, kind: str) -> None:
        super().__init__()
        self.classes = calibrator.classes_.tolist()
        self.method = calibrator.method or type(calibrator).__name__
        self.n_classes = int(calibrator.n_features_in_)
        self.input, self.n_columns = kind, gate.n_columns_of(kind, self.n_classes)
        ops = TorchOperations(self.n_classes)
        self.map = ops.finish(write_rows(ops, calibrator, ops.scores, kind))
        self.about = metadata(calibrator)
        # An empty buffer tells the device of maps without numbers, too.
        self.register_buffer("_device", torch.empty(0, dtype=WHOLE), persistent=False)

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        """Return calibrated probabilities, one row for each row of scores.

        A row that ``predict_proba`` refuses comes out as NaN.
        """
        if scores.dim() != 2 or scores.shape[1] != self.n_columns:
            raise errors.ShapeError(
                f"{self!r} got scores of shape {tuple(scores.shape)}; it takes (rows, "
                f"{self.n_columns})"
            )
        if not scores.is_floating_point():
            raise errors.ContainerError(f"{self!r} got scores of {scores.dtype}, not floats")
        result: torch.Tensor = self.map(scores.to(REAL)).to(scores.dtype)
        if scores.requires_grad and torch.is_grad_enabled() and not result.requires_grad:
            # Steps do not depend on scores as far as torch can see; their derivative is zero.
            nowhere = torch.zeros_like(result, dtype=torch.bool)
            result = torch.where(nowhere, scores, result)
        return result

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Self:  # noqa: ARG002
        """Move to another device; types stay, since rounded thresholds are other thresholds."""
        device = fn(self._device).device
        for module in self.modules():
            for name, buffer in module.named_buffers(recurse=False):
                moved = fn(buffer)
                is_same = moved.dtype == buffer.dtype
                setattr(module, name, moved if is_same else buffer.to(device))
        return self

    def __repr__(self) -> str:
        facts = f"method={self.method!r}, n_classes={self.n_classes}, input={self.input!r}"
        return f"{type(self).__name__}({facts})"


def save_pt2(
    module: CalibratorModule, path: str | os.PathLike[str], *, dtype: str = "float32"
) -> None:
    """Write a module to a file for ``torch.export.load``, atomically.

    Parameters
    ----------
    module : CalibratorModule
        Module returned by ``to_torch``.
    path : path-like
        File to write or replace, usually with the suffix ``.pt2``.
    dtype : {"float32", "float64"}, default="float32"
        Type of the input and output; the program refuses other types.

    Notes
    -----
    The number of rows is free. What reads the file needs PyTorch alone; ``extra_files`` of
    ``torch.export.load`` give ``calibrant.classes``, ``calibrant.method`` and
    ``calibrant.version``. It holds no path and no name of a user.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import torch
    >>> from calibrant import TemperatureScaling
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.export import save_pt2, to_torch
    >>> scores, y = simulated_scores(1000)
    >>> calibrator = TemperatureScaling().fit(scores, y)
    >>> path = Path(tempfile.mkdtemp()) / "model.pt2"
    >>> save_pt2(to_torch(calibrator), path, dtype="float64")
    >>> program = torch.export.load(path).module()
    >>> result = program(torch.tensor(scores))
    >>> bool(abs(result.numpy() - calibrator.predict_proba(scores)).max() < 1e-12)
    True
    """
    gate.check_option("dtype", dtype, tuple(TORCH_DTYPES))
    scores = torch.full((2, module.n_columns), 1.0 / module.n_classes, dtype=TORCH_DTYPES[dtype])
    program = torch.export.export(
        module,
        (scores.to(module._device.device),),  # noqa: SLF001  (ours)
        dynamic_shapes={"scores": {0: torch.export.Dim("rows")}},
    )
    _forget(program)
    with replace_file(path) as file:
        torch.export.save(program, file, extra_files=module.about)


def _forget(program: torch.export.ExportedProgram) -> None:
    """Drop what tells where a program was made, and on which device it has to run."""
    program.example_inputs = None
    for graph_module in program.graph_module.modules():
        graph_module.meta = {}
    for node in program.graph.nodes:
        node.meta = {key: node.meta[key] for key in ("val",) if key in node.meta}
        if node.target is TYPE_CHECK:
            node.kwargs = {"dtype": node.kwargs["dtype"]}
