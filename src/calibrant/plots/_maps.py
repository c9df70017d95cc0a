"""Pictures of fitted maps: lines from the probability before to that after."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit, logit
from sklearn.utils.validation import check_is_fitted

from calibrant import _drawing as style
from calibrant import _gate as gate
from calibrant import _maps as maps
from calibrant import errors
from calibrant._result import doc, result
from calibrant._text import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from calibrant._maps.base import Floats

MOST_CURVES = 6
"""More maps than this, one per class, are drawn as quantiles over the classes."""

MOST_SECTIONS, MOST_CELLS = 50, 20_000_000
"""Classes that a map without a picture of its own is tried on, and cells of the rows for it."""

SMALLEST = 1e-6
"""Lower end of a logarithmic axis of probabilities."""

DIVIDED = "rows are divided by their sums afterwards."


class MapCurve(NamedTuple):
    """One line of a picture, or points if ``is_line`` is false."""

    name: str
    x: Floats
    y: Floats
    is_line: bool = True


@result()
class MapPicture:
    """Result of :func:`compute_map`: lines of a picture, and the words around it."""

    kind: str = doc("Kind of the map.")
    curves: tuple[MapCurve, ...] = doc("Name and coordinates of each line; steps are written out.")
    note: str = doc("Description of the picture, in one sentence.")
    x_label: str = doc("Names of the axes.", default="probability before")
    y_label: str = doc("Names of the axes.", default="g(probability)")
    is_log: bool = doc("Whether both axes are logarithmic.", default=False)
    has_identity: bool = doc("Whether the diagonal means 'unchanged'.", default=True)

    def __post_init__(self) -> None:
        for curve in self.curves:
            curve.x.setflags(write=False)
            curve.y.setflags(write=False)


def compute_map(calibrator: Any) -> MapPicture:
    """Return the calibration map of a fitted calibrator as lines to draw.

    Chains, mixtures and ``AutoCalibrator`` have no map of one or two variables. For these a section
    is returned: the probability of one class where the others share the rest equally.

    Parameters
    ----------
    calibrator : Calibrator
        Fitted.

    Returns
    -------
    picture : MapPicture
        Lines to draw.

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
    fitted = getattr(calibrator, "map_", None)
    if not isinstance(fitted, maps.CalibrationMap):
        raise errors.ParameterError(
            f"calibrator is a {type(calibrator).__name__}, which does not map scores; pass one of "
            "its fitted calibrators, such as calibrated_classifiers_[0].calibrator"
        )
    names = [str(name) for name in calibrator.classes_]
    return _curve_of_two(fitted, names[1]) if len(names) == 2 else _picture(fitted, names)


def _curve_of_two(fitted: maps.CalibrationMap, name: str) -> MapPicture:
    """Return the curve p -> q of the positive class, which is all there is to a map of two."""
    tail = np.logspace(np.log10(SMALLEST), -3, 60)  # rare classes are seen on logarithmic axes
    x = np.unique(np.concatenate([tail, _grid(), 1.0 - tail]))
    y = _of_rows(fitted, np.stack([1.0 - x, x], axis=1))[:, 1]
    note = "What each predicted probability becomes."
    words = f"probability of {shorten(name)}"
    curve = MapCurve(words, x, y)
    return MapPicture("two classes", (curve,), note, f"{words} before", f"{words} after")


def _of_rows(fitted: maps.CalibrationMap, rows: Floats) -> Floats:
    """Map rows of probabilities by a map of probabilities or of logits."""
    if fitted.kind == "logits":
        with np.errstate(divide="ignore"):
            rows = np.maximum(np.log(rows), gate.LOG_OF_ZERO)
    return fitted(gate.check_scores(rows, fitted.kind))


@singledispatch
def _picture(fitted: maps.CalibrationMap, names: Sequence[str]) -> MapPicture:
    """Try a map on rows in which all classes but one have the same probability."""
    n_classes = len(names)
    x = _grid()[1:-1:3]
    n_tried = min(n_classes, MOST_SECTIONS, max(1, MOST_CELLS // (len(x) * n_classes)))
    tried = np.linspace(0, n_classes - 1, n_tried).astype(np.int64)
    values = np.empty((n_tried, len(x)))
    for place, column in enumerate(tried):
        rows = np.repeat((1 - x)[:, None] / (n_classes - 1), n_classes, axis=1)
        rows[:, column] = x
        values[place] = _of_rows(fitted, rows)[:, column]
    shown = [names[column] for column in tried]
    note = "Probability of one class where the others share the rest equally"
    if np.ptp(values, axis=0).max() < 1e-3:
        shown, values = ["any class"], values[:1]
    note += "." if len(values) <= MOST_CURVES else f": quantiles over {n_tried} classes."
    curves = _lines_or_quantiles(shown, x, values)
    return MapPicture("section", curves, note, y_label="probability after")


@_picture.register(maps.SharedSteps)
def _(fitted: maps.SharedSteps, _: Any) -> MapPicture:
    step = fitted.step_function
    inner = step.thresholds[step.thresholds > 0]
    first = max(SMALLEST, float(inner[0]) / 2 if len(inner) else SMALLEST)
    x, y = _steps(step.thresholds, step.values, first)
    seen = y > 0
    curve = MapCurve(f"{step.n_blocks} steps", x[seen], np.maximum(y[seen], SMALLEST))
    return MapPicture(
        "step", (curve,), f"One step function for all classes; {DIVIDED}", is_log=True
    )


@_picture.register(maps.RankedSteps)
def _(fitted: maps.RankedSteps, _: Any) -> MapPicture:
    step = fitted.step_function
    ranks = [r for r in (1, 2, 3, 5, 10, 20, 50, 100) if r <= step.n_ranks][:MOST_CURVES]
    curves = tuple(MapCurve(f"r = {r}", *_steps(*step.curve(r))) for r in ranks)
    note = "Calibrated probability that the label is among the r most probable classes."
    return MapPicture("ranks", curves, note, "q: sum of the r largest probabilities", "g(q, r)")


@_picture.register(maps.ClasswiseCurves)
@_picture.register(maps.TopLabelMap)
def _(fitted: maps.ClasswiseCurves | maps.TopLabelMap, names: Sequence[str]) -> MapPicture:
    x = _grid()
    values = np.array([np.asarray(curve(x), dtype=np.float64) for curve in fitted.curves])
    note = f"One map for each of them; {DIVIDED}"
    if len(values) == 1:
        names, note = ["all classes"], "One map for all classes."
    elif len(values) > MOST_CURVES:
        note = f"Quantiles of {len(values)} maps; {DIVIDED}"
    elif len(names) != len(values):
        names = [f"group {i + 1}" for i in range(len(values))]
    curves = _lines_or_quantiles(names, x, values)
    return MapPicture("classes", curves, note, y_label="map of the class")


@_picture.register(maps.AffineMap)
@_picture.register(maps.StructuredMap)
def _(fitted: maps.AffineMap | maps.StructuredMap, _: Any) -> MapPicture:
    slope = np.diag(fitted.coef) if fitted.coef.ndim == 2 else fitted.coef
    name = "slope of its own logit" if fitted.coef.ndim == 2 else "slope of the logit"
    note = "Each point is a class: further right its probability rises; below 1 its logits shrink."
    if isinstance(fitted, maps.StructuredMap):
        name = "slope of its own probability"
        beta = fitted.inverse_temperature
        note = (
            f"Each point is a class, in addition to 1/T = {beta:.3g} for all: further right "
            "its probability rises."
        )
    x = fitted.intercept - fitted.intercept.mean()
    curve = MapCurve("a class", x, slope.copy(), is_line=False)
    x_label = "intercept, minus the mean"
    return MapPicture("affine", (curve,), note, x_label, name, has_identity=False)


@_picture.register(maps.SplineMap)
def _(fitted: maps.SplineMap, _: Any) -> MapPicture:
    """Exponential of theta(log p), with theta(0) = 0."""
    knots, low = fitted.knots, np.log(SMALLEST)
    nodes = np.concatenate([[low], knots[(knots > low) & (knots < 0)], [0.0]])
    steps = np.diff(nodes) * fitted.slopes[np.searchsorted(knots, nodes[:-1], side="right")]
    theta = -np.append(np.cumsum(steps[::-1])[::-1], 0.0)
    grid = np.linspace(low, 0.0, 100)
    y = np.maximum(np.exp(np.interp(grid, nodes, theta)), SMALLEST)
    curve = MapCurve(f"{len(knots)} knots", np.exp(grid), y)
    return MapPicture("spline", (curve,), f"One smooth map for all classes; {DIVIDED}", is_log=True)


@_picture.register(maps.TemperatureMap)
def _(fitted: maps.TemperatureMap, _: Any) -> MapPicture:
    x, beta = _grid(), fitted.inverse_temperature
    y = expit(beta * logit(x)) if beta > 0 else np.full(len(x), 0.5)
    curve = MapCurve(f"T = {1 / beta:.3g}" if beta > 0 else "T infinite", x, y)
    note = "Of any two classes, the share of one of them."
    return MapPicture("line", (curve,), note, "share before", "share after")


def _steps(thresholds: Floats, values: Floats, first: float = 0.0) -> tuple[Floats, Floats]:
    """Corners of a step function from ``first`` to 1."""
    start = int(np.searchsorted(thresholds, first, side="right")) - 1
    thresholds, values = thresholds[start:], values[start:]
    x = np.repeat(np.maximum(np.append(thresholds, 1.0), first), 2)[1:-1]
    return x, np.repeat(values, 2)


def _grid() -> Floats:
    """Probabilities close together near 0 and 1, where maps are steep."""
    return np.concatenate([[0.0], 1.0 / (1.0 + np.exp(-np.linspace(-9, 9, 181))), [1.0]])


def _lines_or_quantiles(names: Sequence[str], x: Floats, values: Floats) -> tuple[MapCurve, ...]:
    """Return a line for each of a few maps, or quantiles over many."""
    if len(values) > MOST_CURVES:
        names = ("median", "a tenth is above", "a tenth is below")
        values = np.quantile(values, [0.5, 0.9, 0.1], axis=0)
    return tuple(MapCurve(name, x, y) for name, y in zip(names, values, strict=True))


def draw_map(
    picture: MapPicture,
    ax: Axes | None = None,
    *,
    title: str | None = None,
    show_note: bool = True,
    smallest: float = 0.0,
) -> Axes:
    """Draw a calibration map.

    Parameters
    ----------
    picture : MapPicture
        From :func:`compute_map`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    title : str, optional
        Title above the diagram.
    show_note : bool, default=True
        Whether to print ``picture.note`` above the diagram.
    smallest : float, default=0.0
        Power of ten at which the axes of two classes begin, which are then logarithmic, as in
        :func:`draw_reliability`.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from calibrant.plots import compute_map, draw_map
    >>> ax = draw_map(compute_map(calibrator))  # doctest: +SKIP
    """
    ax = style.axes_or_new(ax, (4.2, 4.4))
    is_point = not any(curve.is_line for curve in picture.curves)
    low = 0.0
    if picture.is_log:
        ax.set(xscale="log", yscale="log")
        low = min(float(curve.x.min()) for curve in picture.curves)
        style.print_plain_numbers(ax)
    elif not is_point:
        low = smallest if picture.kind == "two classes" else 0.0
        style.probability_axes(ax, low)
    if picture.has_identity:
        ax.plot([low, 1], [low, 1], ":", color=style.GREY, linewidth=1.2, label="unchanged")
    for place, curve in enumerate(picture.curves):
        look, label = style.look(place), style.literal(shorten(curve.name))
        look = look._replace(marker="none") if curve.is_line else look._replace(linestyle="none")
        ax.plot(curve.x, curve.y, **look._asdict(), markersize=5, label=label)
    style.name_axes(ax, style.literal(picture.x_label), style.literal(picture.y_label))
    if not is_point:  # the note explains points
        style.add_legend(ax)
    note = style.wrap(picture.note, style.size_in_points(ax)[0], 8.5) if show_note else []
    style.add_heading(ax, title or "", note)
    return ax
