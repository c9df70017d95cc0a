"""What a fitted calibrator does to a probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit, logit
from sklearn.utils.validation import check_is_fitted

from calibrant import errors, simplex
from calibrant.calibrators.state import take_state
from calibrant.maps.steps import RankedStepFunction, StepFunction
from calibrant.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

MOST_CURVES = 6
"""More maps than this, one per class, are drawn as quantiles over the classes."""

MOST_SECTIONS, MOST_CELLS = 50, 20_000_000
"""Classes that a calibrator without a map of its own is tried on, and cells of the rows for it."""

SMALLEST = 1e-6
"""Lower end of a logarithmic axis of probabilities."""


class MapCurve(NamedTuple):
    """One line of a picture, or points if ``is_line`` is false."""

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    is_line: bool = True


@dataclass(frozen=True, slots=True)
class CalibrationMap:
    """Result of :func:`compute_map`: lines of a picture, and the words around it.

    Attributes
    ----------
    kind : {"step", "ranks", "classes", "line", "spline", "affine", "section"}
        What the calibrator's map is.
    curves : tuple of MapCurve
        Names and read-only coordinates; steps are spelled out, two points for each.
    x_label, y_label : str
        Names of the axes.
    note : str
        What the picture shows, in a sentence.
    is_log : bool
        Whether both axes are logarithmic.
    has_identity : bool
        Whether the diagonal means "unchanged".
    """

    kind: str
    curves: tuple[MapCurve, ...]
    x_label: str
    y_label: str
    note: str
    is_log: bool = False
    has_identity: bool = True

    def __post_init__(self) -> None:
        for curve in self.curves:
            curve.x.setflags(write=False)
            curve.y.setflags(write=False)


def compute_map(calibrator: Any) -> CalibrationMap:
    """Return the calibration map of a fitted calibrator as lines to draw.

    Chains, mixtures and ``AutoCalibrator`` have no map of one or two variables. Theirs is a
    section: what becomes of one class's probability where the others share the rest alike.

    Parameters
    ----------
    calibrator : Calibrator
        Fitted.

    Returns
    -------
    map : CalibrationMap
        Frozen lines, to draw. :func:`compute_effect` shows what becomes of rows as they are.

    Examples
    --------
    >>> from calibrant import FlattenedIsotonic
    >>> from calibrant.datasets import overconfident_digits
    >>> from calibrant.plots import compute_map
    >>> scores, y, _, _ = overconfident_digits()
    >>> compute_map(FlattenedIsotonic().fit(scores, y)).kind
    'step'
    """
    check_is_fitted(calibrator, "classes_")
    found = vars(calibrator)
    step = found.get("step_function_")
    if isinstance(step, StepFunction):
        return _step_map(step)
    if isinstance(step, RankedStepFunction):
        return _rank_map(step)
    if "curves_" in found and all(map(callable, found["curves_"])):
        return _class_map(calibrator)
    affine = _affine_map(calibrator) if "coef_" in found and "intercept_" in found else None
    if affine is not None:
        return affine
    if "knots_" in found and "slopes_" in found:
        return _spline_map(calibrator.knots_, calibrator.slopes_)
    if "inverse_temperature_" in found:
        return _temperature_map(float(calibrator.inverse_temperature_))
    if found.get("scores") in simplex.KINDS:
        return _section_map(calibrator)
    raise errors.ParameterError(
        f"calibrator is a {type(calibrator).__name__}, which does not map scores; pass the fitted "
        "calibrator in it, such as calibrated_classifiers_[0].calibrator"
    )


def _steps(
    thresholds: NDArray[np.float64], values: NDArray[np.float64], first: float = 0.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Corners of a step function from ``first`` to 1."""
    start = int(np.searchsorted(thresholds, first, side="right")) - 1
    thresholds, values = thresholds[start:], values[start:]
    x = np.repeat(np.maximum(np.append(thresholds, 1.0), first), 2)[1:-1]
    return x, np.repeat(values, 2)


def _step_map(step: StepFunction) -> CalibrationMap:
    inner = step.thresholds[step.thresholds > 0]
    first = max(SMALLEST, float(inner[0]) / 2 if len(inner) else SMALLEST)
    x, y = _steps(step.thresholds, step.values, first)
    seen = y > 0
    return CalibrationMap(
        "step",
        (MapCurve(f"{step.n_blocks} steps", x[seen], np.maximum(y[seen], SMALLEST)),),
        "probability before",
        "g(probability)",
        "One step function for all classes; rows are divided by their sums afterwards.",
        is_log=True,
    )


def _rank_map(step: RankedStepFunction) -> CalibrationMap:
    ranks = [r for r in (1, 2, 3, 5, 10, 20, 50, 100) if r <= step.n_ranks][:MOST_CURVES]
    return CalibrationMap(
        "ranks",
        tuple(MapCurve(f"r = {r}", *_steps(*step.curve(r))) for r in ranks),
        "q: sum of the r largest probabilities",
        "g(q, r)",
        "Calibrated probability that the label is among the r most probable classes.",
    )


def _grid() -> NDArray[np.float64]:
    """Probabilities close together near 0 and 1, where maps are steep."""
    return np.concatenate([[0.0], 1.0 / (1.0 + np.exp(-np.linspace(-9, 9, 181))), [1.0]])


def _class_map(calibrator: Any) -> CalibrationMap:
    x = _grid()
    values = np.array([np.asarray(curve(x), dtype=np.float64) for curve in calibrator.curves_])
    names = [str(name) for name in calibrator.classes_]
    if len(values) == 1:
        names, note = ["all classes"], "One map for all classes."
    elif len(values) <= MOST_CURVES:
        if len(names) != len(values):
            names = [f"group {i + 1}" for i in range(len(values))]
        note = "One map for each of them; rows are divided by their sums afterwards."
    else:
        note = f"Quantiles of {len(values)} maps; rows are divided by their sums afterwards."
    curves = _lines_or_quantiles(names, x, values)
    return CalibrationMap("classes", curves, "probability before", "map of the class", note)


def _lines_or_quantiles(
    names: list[str], x: NDArray[np.float64], values: NDArray[np.float64]
) -> tuple[MapCurve, ...]:
    """Return a line for each of a few maps, or quantiles over many."""
    if len(values) <= MOST_CURVES:
        return tuple(MapCurve(name, x, y) for name, y in zip(names, values, strict=True))
    low, median, high = np.quantile(values, [0.1, 0.5, 0.9], axis=0)
    return (
        MapCurve("median", x, median),
        MapCurve("a tenth is above", x, high),
        MapCurve("a tenth is below", x, low),
    )


def _section_map(calibrator: Any) -> CalibrationMap:
    """Try a calibrator on rows in which all classes but one have the same probability."""
    n_classes = len(calibrator.classes_)
    x = _grid()[1:-1:3]
    n_tried = min(n_classes, MOST_SECTIONS, max(1, MOST_CELLS // (len(x) * n_classes)))
    tried = np.linspace(0, n_classes - 1, n_tried).astype(np.int64)
    plain = take_state(calibrator)
    vars(plain).pop("feature_names_in_", None)  # the rows are a plain matrix
    values = np.empty((n_tried, len(x)))
    for place, column in enumerate(tried):
        rows = np.repeat((1 - x)[:, None] / (n_classes - 1), n_classes, axis=1)
        rows[:, column] = x
        scores = np.log(rows) if calibrator.scores == "logits" else rows
        values[place] = plain.predict_proba(scores)[:, column]
    names = [str(name) for name in calibrator.classes_[tried]]
    note = "What one class gets where the others share the rest alike"
    if np.ptp(values, axis=0).max() < 1e-3:
        names, values = ["any class"], values[:1]
    note += "." if len(values) <= MOST_CURVES else f": quantiles over {n_tried} classes."
    curves = _lines_or_quantiles(names, x, values)
    return CalibrationMap("section", curves, "probability before", "probability after", note)


def _affine_map(calibrator: Any) -> CalibrationMap | None:
    coef = np.asarray(calibrator.coef_, dtype=np.float64)
    intercept = np.array(calibrator.intercept_, dtype=np.float64)
    n_classes = len(calibrator.classes_)
    if intercept.shape != (n_classes,) or {*coef.shape} - {n_classes} or coef.ndim > 2:
        return None
    slope = np.diag(coef).copy() if coef.ndim == 2 else np.array(coef)
    slope = np.broadcast_to(slope, intercept.shape).copy()
    name = "slope of its own logit" if coef.ndim == 2 else "slope of the logit"
    note = "Each point is a class: to the right it gains, below 1 its differences shrink."
    if "scale_" in vars(calibrator):  # StructuredScaling
        name = "slope of its own probability"
        beta = float(calibrator.inverse_temperature_)
        note = f"Each point is a class, on top of 1/T = {beta:.3g} for all: to the right it gains."
    return CalibrationMap(
        "affine",
        (MapCurve("a class", intercept - intercept.mean(), slope, is_line=False),),
        "intercept, minus the mean",
        name,
        note,
        has_identity=False,
    )


def _spline_map(knots: NDArray[np.float64], slopes: NDArray[np.float64]) -> CalibrationMap:
    """Exponential of theta(log p), with theta(0) = 0."""
    low = np.log(SMALLEST)
    inner = knots[(knots > low) & (knots < 0)]
    nodes = np.concatenate([[low], inner, [0.0]])
    steps = np.diff(nodes) * slopes[np.searchsorted(knots, nodes[:-1], side="right")]
    theta = -np.append(np.cumsum(steps[::-1])[::-1], 0.0)
    grid = np.linspace(low, 0.0, 100)
    y = np.maximum(np.exp(np.interp(grid, nodes, theta)), SMALLEST)
    return CalibrationMap(
        "spline",
        (MapCurve(f"{len(knots)} knots", np.exp(grid), y),),
        "probability before",
        "g(probability)",
        "One smooth map for all classes; rows are divided by their sums afterwards.",
        is_log=True,
    )


def _temperature_map(beta: float) -> CalibrationMap:
    x = _grid()
    y = expit(beta * logit(x)) if beta > 0 else np.full(len(x), 0.5)
    name = f"T = {1 / beta:.3g}" if beta > 0 else "T infinite"
    return CalibrationMap(
        "line",
        (MapCurve(name, x, y),),
        "share before",
        "share after",
        "Of any two classes, the share of one of them.",
    )


def draw_map(found: CalibrationMap, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw a calibration map.

    Parameters
    ----------
    found : CalibrationMap
        From :func:`compute_map`.
    ax, title
        As in :func:`draw_reliability`.

    Returns
    -------
    ax : matplotlib Axes
    """
    ax = style.axes_or_new(ax, (4.2, 4.4))
    if found.is_log:
        ax.set(xscale="log", yscale="log")
    if found.has_identity:
        low = min(curve.x.min() for curve in found.curves)
        ax.plot([low, 1], [low, 1], ":", color=style.GREY, linewidth=1.2, label="unchanged")
    for place, curve in enumerate(found.curves):
        look = style.look(place)
        line = {"linestyle": look.linestyle} if curve.is_line else {"linestyle": "none"}
        marker = None if curve.is_line else look.marker
        label = style.literal(style.shorten(curve.name))
        ax.plot(
            curve.x, curve.y, color=look.color, marker=marker, markersize=5, label=label, **line
        )
    style.name_axes(ax, found.x_label, found.y_label)
    if any(curve.is_line for curve in found.curves):  # points are explained by the note
        style.add_legend(ax)
    style.head(ax, title or "", style.wrap(found.note, style.size_in_points(ax)[0], 8.5))
    return ax
