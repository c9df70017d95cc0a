"""Calibrators as ONNX graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant import __version__, errors
from calibrant import _extras as extras
from calibrant import _simplex as simplex
from calibrant.export._pipeline import check_input, describe, take_calibrator, write_rows

try:
    import onnx
    from onnx import TensorProto, checker, defs, helper
except ImportError as error:
    raise extras.needed(error, "calibrant.export.to_onnx", "onnx") from error

from calibrant.export._onnx_graph import REAL, SINGLE, OnnxOperations, Tensor
from calibrant.export._onnx_pair_operations import PairOperations

if TYPE_CHECKING:
    from calibrant._calibrators.base import Calibrator
    from calibrant.export._operations import Rounding

FIRST_OPSET = 16
"""The oldest that has sums over groups."""

ONNX_DTYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}
OUTPUT = "calibrated"

MOST_TOLERANCE = 0.01
"""Thresholds that are lowered by more are others."""

OF_DIVISION = 2.0**-51
"""How far quotients are off in runtimes that multiply by the reciprocal instead (tract)."""

ROUNDED = 2.0**-23
"""How far probabilities in float32 may be off by rounding alone."""


def to_onnx(
    calibrator: Calibrator,
    *,
    input: str | None = None,  # noqa: A002  (its name in a graph)
    opset: int = 18,
    dtype: str = "float32",
    precision: str = "float64",
    tolerance: float = 0.0,
) -> onnx.ModelProto:
    """Return a calibrator as an ONNX model, which gives what ``predict_proba`` gives.

    Parameters
    ----------
    calibrator : Calibrator
        A fitted calibrator.
    input : {"probabilities", "logits"}, optional
        What the graph is given; by default what the calibrator was fitted to. A calibrator of
        probabilities can be given logits, of which the graph takes the softmax.
    opset : int, default=18
        Version of the standard operators, 16 or later. The graph has no others.
    dtype : {"float32", "float64"}, default="float32"
        Type of what goes in and comes out. The graph computes in float64 either way, as
        ``predict_proba`` does: a score in float32 is on the same side of every threshold.
    precision : {"float64", "float32"}, default="float64"
        The longest numbers in the graph. Some runtimes (OpenVINO) read float64 as float32 in
        silence, and are off by whole steps then. With ``"float32"`` the graph has sums of two
        numbers in float32 instead, with 44 bits or more: it takes longer, and gives what
        ``predict_proba`` gives.
    tolerance : float, default=0
        How far logits may be off from those that the calibrator was fitted to, since another
        runtime or processor computes them; of probabilities, their logarithms. Thresholds of step
        functions, which are scores of the fit, are lowered by that much, so that these scores stay
        on their side. Scores as near below a threshold are taken to be at it.

    Returns
    -------
    model : onnx.ModelProto
        One input, named as its kind, of shape (rows, n_classes), and one output, ``calibrated``,
        of the same shape; the number of rows is free. ``metadata_props`` have the classes in the
        order of the columns, the method, the version and the digest of the model file.

    Raises
    ------
    ExportError
        If the calibrator, or a part of it, has no formula.

    Notes
    -----
    A graph cannot refuse a row. One that ``predict_proba`` refuses comes out as NaN, except that
    sums up to 0.01 away from 1 are normalised, whether or not their cells were rounded. In float32
    the result is that of ``predict_proba`` for scores in float32. Scores that were rounded to
    float32 may be on another side of a threshold than before.

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
    check_opset(opset)
    simplex.check_option("dtype", dtype, tuple(ONNX_DTYPES))
    check_precision(precision, dtype)
    simplex.check_number("tolerance", tolerance, low=0.0, high=MOST_TOLERANCE)
    ops: OnnxOperations
    if precision == "float32":
        ops = PairOperations(calibrator.n_features_in_, opset)
        scores = Tensor(ops, kind, SINGLE, ops.n_classes)
    else:
        ops = OnnxOperations(calibrator.n_features_in_, opset)
        scores = Tensor(ops, kind, REAL, ops.n_classes)
        if dtype == "float32":
            scores = ops.real(scores)
    ops.rounding = _rounding(ops.rounding, dtype, kind, tolerance)
    out, _ = write_rows(ops, calibrator, scores, kind, computed=tolerance > 0)
    if precision == "float32":
        ops.node("Identity", [out.high], SINGLE)
    elif dtype == "float32":
        ops.node("Cast", [out], to=ONNX_DTYPES[dtype])
    ops.nodes[-1].output[0] = OUTPUT
    ops.drop_unused()
    shape = ["rows", ops.n_classes]
    given, found = (
        helper.make_tensor_value_info(name, ONNX_DTYPES[dtype], shape) for name in (kind, OUTPUT)
    )
    graph = helper.make_graph(
        ops.nodes, "calibrant", [given], [found], list(ops.constants.values())
    )
    return _finish(graph, opset, describe(calibrator) | {"calibrant.input": kind})


def check_opset(opset: int) -> None:
    """Refuse a version that lacks an operator, or that is not known."""
    newest = defs.onnx_opset_version()
    simplex.check_number("opset", opset, low=FIRST_OPSET, high=newest, whole=True)


def check_precision(precision: str, dtype: str) -> None:
    """Refuse a precision that is not known, or that the scores do not have."""
    simplex.check_option("precision", precision, tuple(ONNX_DTYPES))
    if precision == "float32" and dtype != "float32":
        raise errors.ParameterError(
            f"precision='float32' is for graphs without {dtype}; leave out dtype={dtype!r}"
        )


def _rounding(own: Rounding, dtype: str, kind: str, tolerance: float) -> Rounding:
    """Tell how far the scores may be off."""
    if not tolerance:
        return own
    rounded = dtype == "float32" and kind == "probabilities" and tolerance >= ROUNDED
    return own._replace(
        of_logits=max(tolerance, own.of_logits),
        of_cells=ROUNDED if rounded else 0.0,
        of_numbers=max(own.of_numbers, OF_DIVISION),
    )


def _finish(graph: Any, opset: int, about: dict[str, str]) -> onnx.ModelProto:
    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(
        graph,
        opset_imports=imports,
        ir_version=helper.find_min_ir_version_for(imports),
        producer_name="calibrant",
        producer_version=__version__,
    )
    helper.set_model_props(model, about)
    checker.check_model(model)
    return model
