"""Pictures of fitted maps: lines from the probability before to that after."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
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

    from calibrant._calibrators.base import Calibrator
    from calibrant._types import Floats


MOST_CURVES = 6
"""More maps than this, one per class, are drawn as quantiles over the classes."""

MOST_SECTIONS, MOST_CELLS = 50, 20_000_000
"""Classes that a map without a picture of its own is tried on, and cells of the rows for it."""

SMALLEST = 1e-6
"""Lower end of a logarithmic axis of probabilities."""

DIVIDED = "rows are divided by their sums afterwards."


class MapCurve(NamedTuple):
    """One line of a picture."""

    name: str
    x: Floats
    y: Floats


@result()
class MapPicture:
    """Result of :func:`compute_map`: lines of a picture, and the words around it."""

    kind: str = doc("Kind of the map.")
    curves: tuple[MapCurve, ...] = doc("Name and coordinates of each line; steps are written out.")
    note: str = doc("Description of the picture, in one sentence.")
    x_label: str = doc("Names of the axes.", default="probability before")
    y_label: str = doc("Names of the axes.", default="g(probability)")
    is_log: bool = doc("Whether both axes are logarithmic.", default=False)


def compute_map(calibrator: Calibrator) -> MapPicture:
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
            "its fitted calibrators, such as calibrated_classifiers_[0].calibrator",
            argument="calibrator",
        )
    names = [str(name) for name in calibrator.classes_]
    if len(names) > 2:
        return _picture(fitted, names)
    x, words = _grid(), f"probability of {shorten(names[1])}"
    curve = MapCurve(words, x, _section(fitted, 1, 2, x))
    note = "What each predicted probability becomes."
    return MapPicture("two classes", (curve,), note, f"{words} before", f"{words} after")


def _section(fitted: maps.CalibrationMap, column: int, n_classes: int, x: Floats) -> Floats:
    """Map probabilities of one class where the others share the rest equally."""
    rows = np.repeat((1 - x)[:, None] / (n_classes - 1), n_classes, axis=1)
    rows[:, column] = x
    if fitted.kind == "logits":
        with np.errstate(divide="ignore"):
            rows = np.maximum(np.log(rows), gate.LOG_OF_ZERO)
    return fitted(gate.check_scores(rows, fitted.kind))[:, column]


@singledispatch
def _picture(fitted: maps.CalibrationMap, names: Sequence[str]) -> MapPicture:
    """Try a map on rows in which all classes but one have the same probability."""
    n_classes = len(names)
    x = _grid()[1:-1:3]
    n_tried = min(n_classes, MOST_SECTIONS, max(1, MOST_CELLS // (len(x) * n_classes)))
    tried = np.linspace(0, n_classes - 1, n_tried).astype(np.int64)
    values = np.array([_section(fitted, column, n_classes, x) for column in tried.tolist()])
    shown = [names[column] for column in tried]
    note = "Probability of one class where the others share the rest equally"
    if np.ptp(values, axis=0).max() < 1e-3:
        shown, values = ["any class"], values[:1]
    if len(values) > MOST_CURVES:
        note += f": quantiles over {n_tried} classes"
        shown = ["median", "a tenth is above", "a tenth is below"]
        values = np.quantile(values, [0.5, 0.9, 0.1], axis=0)
    curves = tuple(MapCurve(name, x, y) for name, y in zip(shown, values, strict=True))
    return MapPicture("section", curves, f"{note}.", y_label="probability after")


@_picture.register(maps.SharedSteps)
def _(fitted: maps.SharedSteps, _: object) -> MapPicture:
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
def _(fitted: maps.RankedSteps, _: object) -> MapPicture:
    step = fitted.step_function
    ranks = [r for r in (1, 2, 3, 5, 10, 20, 50, 100) if r <= step.n_ranks][:MOST_CURVES]
    curves = tuple(MapCurve(f"r = {r}", *_steps(*step.curve(r))) for r in ranks)
    note = "Calibrated probability that the label is among the r most probable classes."
    return MapPicture("ranks", curves, note, "q: sum of the r largest probabilities", "g(q, r)")


def _steps(thresholds: Floats, values: Floats, first: float = 0.0) -> tuple[Floats, Floats]:
    """Corners of a step function from ``first`` to 1."""
    start = int(np.searchsorted(thresholds, first, side="right")) - 1
    thresholds, values = thresholds[start:], values[start:]
    x = np.repeat(np.maximum(np.append(thresholds, 1.0), first), 2)[1:-1]
    return x, np.repeat(values, 2)


def _grid() -> Floats:
    """Probabilities close together near 0 and 1, where maps are steep."""
    return np.concatenate([[0.0], 1.0 / (1.0 + np.exp(-np.linspace(-14, 14, 281))), [1.0]])


def draw_map(
    picture: MapPicture, ax: Axes | None = None, *, title: str | None = None, smallest: float = 0.0
) -> Axes:
    """Draw a calibration map.

    Parameters
    ----------
    picture : MapPicture
        From :func:`compute_map`; ``picture.note`` says in a sentence what is drawn.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    title : str, optional
        Title above the diagram.
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
    ax = style.axes_or_new(ax, (4.2, 4.2))
    if picture.is_log:
        low = min(float(curve.x.min()) for curve in picture.curves)
        ax.set(xscale="log", yscale="log")
        style.print_plain_numbers(ax)
    else:
        low = smallest if picture.kind == "two classes" else 0.0
        style.probability_axes(ax, low)
    ax.plot([low, 1], [low, 1], ":", color=style.GREY, linewidth=1.2, label="unchanged")
    for place, curve in enumerate(picture.curves):
        color, _, linestyle = style.look(place)
        label = style.literal(shorten(curve.name))
        ax.plot(curve.x, curve.y, color=color, linestyle=linestyle, label=label)
    ax.set(xlabel=style.literal(picture.x_label), ylabel=style.literal(picture.y_label))
    style.add_legend(ax)
    style.add_heading(ax, title)
    return ax
