"""Pictures of fitted maps, errors of all classes, curves of decisions, and segments of rows."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import replace
from functools import singledispatch
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibrant import _drawing as style
from calibrant import _gate as gate
from calibrant import _maps as maps
from calibrant import errors
from calibrant._predictions import source_of
from calibrant._result import Result, doc, result
from calibrant._text import amount, p_words, percents, shorten
from calibrant.metrics import ClassBins, check_bins, errors_in, reliability_curve
from calibrant.plots._reliability import draw_reliability, finish_grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

    from calibrant._calibrators.base import Calibrator
    from calibrant._predictions import Predictions
    from calibrant._types import Floats, Label, Labels, Wholes
    from calibrant.decisions import CostCurve, DecisionCurve, RiskCoverage
    from calibrant.metrics import ReliabilityCurve, Seed, SegmentTable
    from calibrant.scale import Chunks

    Curve = DecisionCurve | CostCurve | RiskCoverage

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
    ax, title
        As in :func:`draw_reliability`.
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


FEW = 50
"""Classes that have a marker each, on a linear axis."""

DIAGRAM_BINS = 8
"""Bins of a diagram: few rows of a class have a probability that is not near zero."""


@result(eq=False)
class ClasswiseSummary(Result):
    """Result of :func:`compute_classwise`; arrays have one number per class."""

    classes: Labels = doc("Label of each column.")
    ece: Floats = doc("Calibration error of each class's probability.")
    mean_probability: Floats = doc("Mean probability of each class.")
    frequency: Floats = doc("Share of rows of each class.")
    order: Wholes = doc("Column numbers by decreasing error; ties in the order of the columns.")
    curves: dict[int, ReliabilityCurve] = doc(
        "Curves of the worst classes by column, in eight bins."
    )


def compute_classwise(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    n_worst: int = 8,
    n_bins: int = 15,
    n_resamples: int = 200,
    random_state: Seed = 0,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> ClasswiseSummary:
    """Compute the calibration error of every class, and diagrams of the worst.

    Parameters
    ----------
    y_true, y_proba, n_bins, random_state, sample_weight, classes, pos_label
        As in :func:`calibrant.metrics.reliability_curve`.
    n_worst : int, default=8
        Number of classes that get a diagram.
    n_resamples : int, default=200
        Number of resamples for the consistency bars and the p-values; 0 for none.

    Returns
    -------
    ClasswiseSummary
        Frozen numbers, to print or to draw. The mean of ``ece`` is
        :func:`calibrant.metrics.classwise_ece`.

    Notes
    -----
    Errors and shares of chunks are those of all rows; their diagrams are those of a sample.

    Examples
    --------
    >>> from calibrant.plots import compute_classwise
    >>> y_proba = [[0.7, 0.2, 0.1], [0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]
    >>> summary = compute_classwise([0, 1, 1, 2], y_proba, n_worst=1)
    >>> summary.classes[summary.order], summary.ece[summary.order].round(3)
    (array([1, 0, 2]), array([0.225, 0.15 , 0.125]))
    """
    check_bins(n_bins)
    gate.check_number("n_worst", n_worst, low=0, whole=True)
    source = source_of(y_true, y_proba, sample_weight, classes, pos_label)
    sums = source.add_up({"bins": ClassBins(int(n_bins))})["bins"]
    ece = errors_in(sums)
    weight, happened, said = sums.sum(axis=1).T
    order = np.argsort(-ece.round(12), kind="stable")  # both of two are equal but for rounding
    curves = {}
    if n_worst > 0:  # without, chunks need not be sampled
        rows = source.in_memory()
        # Columns are asked for by number: a class may be called "confidence".
        numbered = replace(rows, classes=np.arange(rows.n_classes))
        curves = {
            j: reliability_curve(
                numbered,
                kind=j,
                n_bins=DIAGRAM_BINS,
                n_resamples=n_resamples,
                random_state=random_state,
            )
            for j in order[: int(n_worst)].tolist()
        }
    shares = said / weight, happened / weight
    return ClasswiseSummary(source.classes.copy(), ece, *shares, order, curves)


def draw_classwise(summary: ClasswiseSummary) -> Figure:
    """Draw the errors of all classes, and the diagrams of those that have one.

    Parameters
    ----------
    summary : ClasswiseSummary
        From :func:`compute_classwise`.

    Returns
    -------
    figure : matplotlib Figure

    Examples
    --------
    >>> from calibrant.plots import compute_classwise, draw_classwise
    >>> summary = compute_classwise([0, 1], [[0.9, 0.1], [0.2, 0.8]])
    >>> figure = draw_classwise(summary)  # doctest: +SKIP
    """
    figure, axes = style.new_grid(1 + len(summary.curves), 3, (3.1, 3.2))
    overview, *panels = axes
    percent = 100 * summary.ece[summary.order]
    ranks = np.arange(1, len(percent) + 1)
    marker = "o" if len(percent) <= FEW else None
    overview.plot(ranks, percent, color=style.BLACK, marker=marker, markersize=3, linewidth=1.2)
    worst, mean = slice(len(panels)), float(percent.mean())
    overview.plot(ranks[worst], percent[worst], "s", color=style.VERMILION, label="with a diagram")
    label = f"mean {mean:.2f} %"
    overview.axhline(mean, color=style.BLUE, linestyle="--", linewidth=1.2, label=label)
    style.add_heading(overview, f"all {len(percent)} classes")
    overview.set(xlabel="class, the worst first", ylabel="ECE of the class, %")
    overview.set_ylim(bottom=0)
    if len(percent) > FEW:
        overview.set_xscale("log")
        overview.xaxis.set_major_formatter("{x:g}")
    else:
        overview.locator_params(axis="x", integer=True, min_n_ticks=1)
    style.add_legend(overview)
    for rank, (ax, (j, curve)) in enumerate(zip(panels, summary.curves.items(), strict=True), 1):
        said, seen = percents(summary.mean_probability[j], summary.frequency[j])
        notes = [f"{said} predicted", f"{seen} observed"]
        numbered = replace(curve, kind="the class")  # whose name is in the title
        title = f"#{rank}: {shorten(str(summary.classes[j]))}"
        draw_reliability(numbered, ax, title=title, notes=notes, smallest=0.0)
    if summary.curves:
        finish_grid(figure, next(iter(summary.curves.values())))
    return figure


MOST_POINTS = 1000
"""Points of a curve that are drawn; the eye sees no more."""


def draw_decisions(
    curves: Curve | Mapping[str, Curve], ax: Axes | None = None, *, title: str | None = None
) -> Axes:
    """Draw net benefit or cost over thresholds, or the error rate over the share of rows kept.

    A decision curve has a 95 % interval as a band, and stands beside acting on all rows and on
    none; a cost curve has the optimal threshold of the costs.

    Parameters
    ----------
    curves : DecisionCurve, CostCurve or RiskCoverage, or mapping of str to them
        From :func:`calibrant.decisions.decision_curve`, :func:`~calibrant.decisions.cost_curve` or
        :func:`~calibrant.decisions.risk_coverage`; several of one kind by name, of the same rows.
    ax, title
        As in :func:`draw_reliability`.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from calibrant.decisions import decision_curve
    >>> from calibrant.plots import draw_decisions
    >>> ax = draw_decisions(decision_curve([0, 1], [0.2, 0.7]))  # doctest: +SKIP
    """
    # The classes of curves are in a room above this one, so their fields tell what they show.
    named: dict[str, Any] = dict(curves) if isinstance(curves, Mapping) else {"": curves}
    if not named:
        raise errors.ParameterError("curves is empty; pass at least one", argument="curves")
    ax = style.axes_or_new(ax, (5.2, 3.8))
    values = []
    for place, (name, curve) in enumerate(named.items()):
        look, facts = style.look(place), ""
        if hasattr(curve, "net_benefit"):
            x, y = curve.thresholds, curve.net_benefit
            low, high = (y + sign * 1.96 * curve.spread for sign in (-1, 1))
            ax.fill_between(x, low, high, color=look.color, alpha=0.12, linewidth=0)
        elif hasattr(curve, "cost"):
            x, y = curve.thresholds, curve.cost
            least = amount(curve.best_cost, curve.best_cost)
            facts = f"least {least} at {curve.best_threshold:.2f}"
        else:
            x, y = curve.coverage, curve.risk
            facts = f"area {curve.aurc:.4f}, excess {curve.excess:.4f}"
        some = np.unique(np.linspace(0, len(x) - 1, min(len(x), MOST_POINTS)).astype(np.int64))
        label = "\n".join(filter(None, (shorten(name), facts))) or "act above the threshold"
        (line,) = ax.plot(x[some], y[some], **look._asdict(), label=style.literal(label))
        line.set(linewidth=1.4, markersize=4, markevery=max(1, len(some) // 12))
        values.append(y)
    # What they are compared with, and the names of the axes, are the same for all.
    if hasattr(curve, "net_benefit"):
        x, y = curve.thresholds, curve.treat_all
        ax.plot(x, y, color=style.GREY, linestyle="--", linewidth=1.2, label="act on all")
        ax.axhline(0.0, color=style.GREY, linestyle=":", linewidth=1.2, label="act on none")
        top = max(float(y.max()) for y in values)
        ax.set_ylim(-0.25 * max(top, 0.01), 1.15 * max(top, curve.prevalence, 0.01))
        ax.set(xlabel="threshold probability", ylabel="net benefit")
    elif hasattr(curve, "cost"):
        label = f"by the costs: {curve.threshold:.3f}"
        ax.axvline(curve.threshold, color=style.GREY, linestyle="--", linewidth=1.2, label=label)
        ax.set_ylim(bottom=min(0.0, *(float(y.min()) for y in values)))
        ax.set(xlabel="threshold probability", ylabel="mean cost per row")
    else:
        ax.set_xlim(0, 1)
        ax.set_ylim(bottom=0)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
        ax.set(xlabel="coverage: share of rows kept", ylabel="risk: share of them wrong")
    style.add_legend(ax)
    style.add_heading(ax, title)
    return ax


MOST_DRAWN, LETTERS = 12, 34
"""Segments that are drawn, and letters of a line of their names."""


def draw_segments(segments: SegmentTable, ax: Axes | None = None) -> Axes:
    """Draw predicted and observed shares of segments of rows, a line for each, the worst first.

    Parameters
    ----------
    segments : SegmentTable
        From :func:`calibrant.metrics.calibration_segments`.
    ax
        As in :func:`draw_reliability`.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from calibrant.metrics import calibration_segments
    >>> from calibrant.plots import draw_segments
    >>> found = calibration_segments([0, 1] * 50, [0.2, 0.7] * 50, [["a"], ["b"]] * 50)
    >>> ax = draw_segments(found)  # doctest: +SKIP
    """
    shown = segments.segments[:MOST_DRAWN]
    ax = style.axes_or_new(ax, (6.4, 1.3 + 0.5 * max(len(shown), 2)))
    y = np.arange(len(shown))
    said = np.array([100 * own.predicted for own in shown])
    seen, low, high = 100 * np.array([own.observed for own in shown]).reshape(-1, 3).T
    ax.hlines(y, low, high, color=style.BLUE, linewidth=1.6)
    level = f"observed, {100 * (1 - segments.alpha):g} % interval"
    ax.plot(seen, y, "o", color=style.BLUE, markersize=6, label=level)
    (points,) = ax.plot(said, y, "D", markersize=5.5, label="predicted")
    points.set(color=style.VERMILION, markerfacecolor="white", markeredgewidth=1.4)
    names = []
    for own in shown:
        name = "\n".join(textwrap.wrap(shorten(own.condition, 2 * LETTERS), LETTERS))
        names.append(style.literal(f"{name}\n{own.n_rows:,.7g} rows, {p_words(own.p_value)}"))
    ax.set_yticks(y, names, fontsize=8)
    ax.set(ylim=(max(len(shown), 2) - 0.5, -0.5))
    kind = style.literal(shorten(str(segments.kind)))
    share = "of rows that are right" if kind == "confidence" else f"of {kind}"
    ax.set_xlabel(f"share {share}, %")
    if shown:
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize=8, frameon=False)
    else:
        words = "\n".join(textwrap.wrap(segments.describe()[0], LETTERS))
        ax.set_xticks([])
        ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center", va="center")
    return ax
