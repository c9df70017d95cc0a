"""Modules of PyTorch as files that PyTorch reads without this package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant import extras, simplex
from calibrant.atomic_file import replace_file

try:
    import torch
except ImportError as error:
    raise extras.needed(error, "calibrant.export.save_pt2", "torch") from error

if TYPE_CHECKING:
    import os

    from calibrant.export.torch import CalibratorModule

DTYPES = {"float32": torch.float32, "float64": torch.float64}
CHECK = torch.ops.aten._assert_tensor_metadata.default  # noqa: SLF001  (an operator's name)
VALUE = "val"
"""What is known of the value of a node, which is written to a file with it."""


def save_pt2(
    module: CalibratorModule, path: str | os.PathLike[str], *, dtype: str = "float32"
) -> None:
    """Write a module to a file that ``torch.export.load`` reads, whole or not at all.

    Parameters
    ----------
    module : CalibratorModule
        What ``to_torch`` returned.
    path : path-like
        The file to write or replace; ``.pt2`` is the usual end of its name.
    dtype : {"float32", "float64"}, default="float32"
        Type of what goes in and comes out; another is refused when the program runs.

    Notes
    -----
    The number of rows is free. What reads the file needs PyTorch alone. It holds no path and no
    name of a user; ``extra_files`` of ``torch.export.load`` give ``calibrant.classes``,
    ``calibrant.method``, ``calibrant.input``, ``calibrant.version`` and ``calibrant.sha256``.

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
    >>> found = program(torch.tensor(scores))
    >>> bool(abs(found.numpy() - calibrator.predict_proba(scores)).max() < 1e-12)
    True
    """
    simplex.check_option("dtype", dtype, tuple(DTYPES))
    scores = torch.full((2, module.n_classes), 1.0 / module.n_classes, dtype=DTYPES[dtype])
    program = torch.export.export(
        module,
        (scores.to(module.digest.device),),
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
        node.meta = {VALUE: node.meta[VALUE]} if VALUE in node.meta else {}
        if node.target is CHECK:
            node.kwargs = {"dtype": node.kwargs["dtype"]}
