"""What a fitted calibrator does to a probability."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit, logit
from sklearn.utils.validation import check_is_fitted

from calibrant import errors, simplex
from calibrant.plots import style
from calibrant.step_function import RankedStepFunction, StepFunction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

MOST_CURVES = 6
"""More maps than this, one per class, are drawn as quantiles over the classes."""

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
    kind : {"step", "ranks", "classes", "line", "spline", "affine"}
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


@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    """Result of :func:`compute_effect`; arrays have one number per bin.

    Attributes
    ----------
    before : ndarray
        Mean confidence before, in bins of equal mass.
    low, median, high : ndarray
        The 5 %, 50 % and 95 % quantiles of what became of it: the probability of the same class.
    changed : float
        Share of rows whose most probable class is another one now.
    """

    before: NDArray[np.float64]
    low: NDArray[np.float64]
    median: NDArray[np.float64]
    high: NDArray[np.float64]
    changed: float

    def __post_init__(self) -> None:
        style.freeze(self)


def compute_map(calibrator: Any) -> CalibrationMap | None:
    """Return the calibration map of a fitted calibrator as lines to draw.

    Parameters
    ----------
    calibrator : Calibrator
        Fitted.

    Returns
    -------
    map : CalibrationMap or None
        None for a calibrator without a map of one or two variables, such as a mixture: see
        :func:`compute_effect`.

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
    if "coef_" in found and "intercept_" in found:
        return _affine_map(calibrator)
    if "knots_" in found and "slopes_" in found:
        return _spline_map(calibrator.knots_, calibrator.slopes_)
    if "inverse_temperature_" in found:
        return _temperature_map(float(calibrator.inverse_temperature_))
    return None


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
    if len(values) == 1:
        curves = [MapCurve("all classes", x, values[0])]
        note = "One map for all classes."
    elif len(values) <= MOST_CURVES:
        names = [str(name) for name in calibrator.classes_]
        names = (
            names if len(names) == len(values) else [f"group {i + 1}" for i in range(len(values))]
        )
        curves = [MapCurve(name, x, y) for name, y in zip(names, values, strict=True)]
        note = "One map for each of them; rows are divided by their sums afterwards."
    else:
        low, median, high = np.quantile(values, [0.1, 0.5, 0.9], axis=0)
        curves = [
            MapCurve("median", x, median),
            MapCurve("a tenth is above", x, high),
            MapCurve("a tenth is below", x, low),
        ]
        note = f"Quantiles of {len(values)} maps; rows are divided by their sums afterwards."
    return CalibrationMap("classes", tuple(curves), "probability before", "map of the class", note)


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


def compute_effect(
    before: Any, after: Any, *, n_bins: int = 20, sample_weight: Any = None
) -> Effect:
    """Summarise what became of the confidence of each row, whatever the method.

    Parameters
    ----------
    before, after : array-like of shape (n_rows, n_classes)
        Probabilities before and after calibration.
    n_bins : int, default=20
        Number of bins, of equal mass.
    sample_weight : array-like of shape (n_rows,), optional
        Weight of each row.

    Returns
    -------
    Effect
        Frozen numbers, to print or to draw.

    Examples
    --------
    >>> from calibrant.plots import compute_effect
    >>> effect = compute_effect([[0.9, 0.1], [0.4, 0.6]], [[0.7, 0.3], [0.55, 0.45]], n_bins=2)
    >>> effect.before, effect.median, effect.changed
    (array([0.6, 0.9]), array([0.45, 0.7 ]), 0.5)
    """
    simplex.check_number("n_bins", n_bins, low=1, whole=True)
    old, new = simplex.check_scores(before), simplex.check_scores(after)
    if old.shape != new.shape or not len(old):
        raise errors.ShapeError(f"before has shape {old.shape}, after {new.shape}; make them alike")
    weight = np.ones(len(old)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    top = old.argmax(axis=1)
    rows = np.arange(len(old))
    x, y = old[rows, top], new[rows, top]
    order = np.argsort(x, kind="stable")
    middle = np.cumsum(weight[order]) - weight[order] / 2
    bins = np.minimum((n_bins * middle / weight.sum()).astype(np.int64), int(n_bins) - 1)
    parts = [order[bins == b] for b in range(int(n_bins))]
    parts = [part for part in parts if weight[part].sum() > 0]
    quantiles = np.array([_quantiles(y[part], weight[part]) for part in parts])
    low, median, high = quantiles.T.copy()
    return Effect(
        np.array([np.average(x[part], weights=weight[part]) for part in parts]),
        low,
        median,
        high,
        changed=float(weight @ (y < new.max(axis=1)) / weight.sum()),
    )


def _quantiles(values: NDArray[np.float64], weight: NDArray[np.float64]) -> Sequence[float]:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order]) / weight.sum()
    places = np.searchsorted(reached, [0.05, 0.5, 0.95])
    found: list[float] = values[order][np.minimum(places, len(values) - 1)].tolist()
    return found


def draw_map(found: CalibrationMap, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw a calibration map.

    Parameters
    ----------
    found : CalibrationMap
        From :func:`compute_map`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    title : str, optional
        Printed above.

    Returns
    -------
    ax : matplotlib Axes
    """
    ax = style.axes_or_new(ax, (4.2, 4.4))
    style.tidy(ax)
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
    ax.set_xlabel(found.x_label)
    ax.set_ylabel(found.y_label)
    ax.legend(fontsize=8, framealpha=0.9)
    style.head(ax, title or "", textwrap.wrap(found.note, 52))
    return ax


def draw_effect(effect: Effect, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw what became of the confidence, with the middle nine tenths of the rows as a band.

    Parameters
    ----------
    effect : Effect
        From :func:`compute_effect`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    title : str, optional
        Printed above.

    Returns
    -------
    ax : matplotlib Axes
    """
    ax = style.axes_or_new(ax)
    style.tidy(ax)
    ax.plot([0, 1], [0, 1], ":", color=style.GREY, linewidth=1.2, label="unchanged")
    band: dict[str, Any] = {
        "color": style.SKY,
        "alpha": 0.35,
        "linewidth": 0,
        "label": "nine rows in ten",
    }
    ax.fill_between(effect.before, effect.low, effect.high, **band)
    ax.plot(effect.before, effect.median, "o-", color=style.BLUE, markersize=4, label="median")
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.set_xlabel("confidence before")
    ax.set_ylabel("probability of the same class after")
    ax.legend(fontsize=8, framealpha=0.9, loc="upper left")
    if title is not None:
        style.head(ax, title, [f"{style.percent(effect.changed)} of rows change their class"])
    return ax
