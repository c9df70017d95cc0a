"""Reliability diagrams: what was predicted against what happened."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibrant import _drawing as style
from calibrant._predictions import source_of
from calibrant._text import p_words, percent, shorten
from calibrant.errors import ParameterError
from calibrant.metrics import reliability_curve

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D
    from numpy.typing import ArrayLike

    from calibrant._predictions import Predictions
    from calibrant._types import Floats, Label, Labels
    from calibrant.metrics import ReliabilityCurve, Seed
    from calibrant.scale import Chunks


class Classifier(Protocol):
    """What a diagram needs of an estimator."""

    classes_: Labels

    def predict_proba(self, X: Any, /) -> ArrayLike:
        """Return the probability of each class, in the order of ``classes_``."""


CURVE, REFERENCE, BARS = "calibrant-curve", "calibrant-reference", "calibrant-bars"
COUNTS = "calibrant-counts"
"""Marks of what was drawn, so that a second curve on the same axes can join the first."""

HEIGHT_OF_SIZES = 0.14
"""Height of the fullest bin, of that of the diagram."""

NARROWEST_BIN = 1e-3
"""Least width of a bin, of that of the diagram, by which its rows are divided."""

RARE, SMALLEST = 0.1, 1e-5
"""Share of the rows below which a class has logarithmic axes, and where these begin at least."""

COUNTED_WIDTH = 7.0
"""Points of width that a bin needs for the number of its rows, which is written upwards."""

UNINFORMATIVE = 0.75
"""Length of a consistency bar from which a bin has too few rows to tell: the line skips it."""


def find_lower_end(curves: Iterable[ReliabilityCurve]) -> float:
    """Return where the axes of diagrams begin: at a power of ten if their class is rare, else at 0.

    On linear axes all points of a rare class lie in one corner. Of several diagrams the median
    counts: one that gives almost nothing to some rows would squeeze the others.
    """
    least = []
    for curve in curves:
        seen = curve.weight > 0
        happened = np.sum(curve.weight[seen] * curve.frequency[seen])
        if is_confidence(curve) or not 0 < happened < RARE * curve.weight.sum():
            return 0.0
        x = curve.mean_probability[seen]
        least.append(x[x > 0].min(initial=1.0))
    smallest = min(max(float(np.median(least)), SMALLEST), RARE)
    return float(10.0 ** math.floor(math.log10(smallest)))


def draw_reliability(
    curve: ReliabilityCurve,
    ax: Axes | None = None,
    *,
    title: str | None = None,
    notes: Sequence[str] | None = (),
    place: int = 0,
    smallest: float | None = None,
) -> Axes:
    """Draw one reliability diagram, with its error printed in it.

    Grey bars show the range of a calibrated classifier; points outside are filled. Bars along the
    bottom show where the rows are. The diagram of a class says how many rows there are and how many
    of them have this label; over bins of equal width it has the number of rows in each.

    Parameters
    ----------
    curve : ReliabilityCurve
        From :func:`calibrant.metrics.reliability_curve`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    title : str, optional
        Title above the diagram.
    notes : sequence of str, optional
        Lines printed under the error, such as the NLL; None prints neither.
    place : int, default=0
        Number of the curve among several, which sets its colour and marker.
    smallest : float, optional
        Power of ten at which logarithmic axes begin; bins in which the class never came are drawn
        at the edge. 0 is for linear axes. By default axes are logarithmic for a class that less
        than a tenth of the rows have, whose points lie in one corner of linear axes.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from calibrant.metrics import reliability_curve
    >>> from calibrant.plots import draw_reliability
    >>> curve = reliability_curve([0, 1], [[0.9, 0.1], [0.2, 0.8]], n_bins=2)
    >>> ax = draw_reliability(curve, title="two rows")  # doctest: +SKIP
    """
    ax = style.axes_or_new(ax, (3.8, 3.9))
    smallest = find_lower_end([curve]) if smallest is None else smallest
    draw_frame(ax, curve, smallest=smallest)
    draw_bars(ax, curve)
    draw_line(ax, curve, style.look(place))
    draw_counts(ax, curve)
    if notes is not None:
        _print_lines(ax, curve, notes)
    style.add_heading(ax, title)
    return ax


def draw_reliability_grid(
    curves: Mapping[str, ReliabilityCurve],
    *,
    notes: Mapping[str, Sequence[str]] | None = None,
    n_columns: int = 3,
    title: str | None = None,
) -> Figure:
    """Draw reliability diagrams side by side, one for each method.

    Parameters
    ----------
    curves : mapping of str to ReliabilityCurve
        From :func:`calibrant.metrics.reliability_curve`, of the same rows, by name.
    notes : mapping of str to sequence of str, optional
        Lines printed in the diagrams, by the same names.
    n_columns : int, default=3
        Diagrams in a row.
    title : str, optional
        Title of the figure.

    Returns
    -------
    figure : matplotlib Figure

    Examples
    --------
    >>> from calibrant.metrics import reliability_curve
    >>> from calibrant.plots import draw_reliability_grid
    >>> curve = reliability_curve([0, 1], [[0.9, 0.1], [0.2, 0.8]])
    >>> figure = draw_reliability_grid({"a": curve})  # doctest: +SKIP
    """
    if not curves:
        raise ParameterError("curves is empty; pass at least one", argument="curves")
    figure, axes = style.new_grid(len(curves), n_columns, (3.1, 3.2))
    smallest = find_lower_end(curves.values())  # the same axes for all
    for ax, (name, curve) in zip(axes, curves.items(), strict=True):
        lines = (notes or {}).get(name, ())
        draw_reliability(curve, ax, title=name, notes=lines, smallest=smallest)
    finish_grid(figure, next(iter(curves.values())), title)
    return figure


class ReliabilityDisplay:
    """Reliability diagram of a classifier with any number of classes.

    Make one with :meth:`from_estimator` or :meth:`from_predictions`, or of a curve with other
    options; pass the axes of the first to the next to compare them in one diagram.

    Parameters
    ----------
    curve : ReliabilityCurve
        From :func:`calibrant.metrics.reliability_curve`.
    estimator_name : str, optional
        Name in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure of the axes.

    Examples
    --------
    >>> from calibrant.plots import ReliabilityDisplay
    >>> display = ReliabilityDisplay.from_predictions(
    ...     [0, 1], [[0.9, 0.1], [0.2, 0.8]], n_bins=2
    ... )  # doctest: +SKIP
    """

    line_: Line2D
    ax_: Axes
    figure_: Figure | SubFigure

    def __init__(self, curve: ReliabilityCurve, *, estimator_name: str | None = None) -> None:
        self.curve = curve
        self.estimator_name = estimator_name

    @property
    def prob_pred(self) -> Floats:
        """Mean prediction of each bin that is not empty."""
        return self.curve.mean_probability[self.curve.weight > 0]

    @property
    def prob_true(self) -> Floats:
        """Observed frequency in each bin that is not empty."""
        return self.curve.frequency[self.curve.weight > 0]

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        ref_line: bool = True,
        **kwargs: Any,
    ) -> ReliabilityDisplay:
        """Draw the diagram, on axes of its own or together with others.

        Parameters
        ----------
        ax
            As in :func:`draw_reliability`.
        name : str, optional
            Name in the legend; ``estimator_name`` by default.
        ref_line : bool, default=True
            Whether to draw the diagonal.
        **kwargs
            Passed to ``matplotlib.pyplot.plot``.

        Returns
        -------
        display : ReliabilityDisplay
        """
        self.ax_ = style.axes_or_new(ax, (4.6, 4.6))
        self.figure_ = self.ax_.figure
        place = sum(line.get_gid() == CURVE for line in self.ax_.lines)
        smallest = find_lower_end([self.curve])
        if place > 0:  # axes stay linear or logarithmic, and may begin lower
            known = self.ax_.get_xlim()[0] if self.ax_.get_xscale() == "log" else 0.0
            smallest = min(known, smallest or known)
        draw_frame(self.ax_, self.curve, ref_line=ref_line, smallest=smallest)
        if place == 0:
            draw_bars(self.ax_, self.curve)
            draw_counts(self.ax_, self.curve)
        else:  # bars of several curves would hide each other; hollow points say as much
            marks = [*self.ax_.collections, *self.ax_.texts]
            for drawn in [one for one in marks if one.get_gid() in {BARS, COUNTS}]:
                drawn.remove()
        name = self.estimator_name if name is None else name
        facts = ", ".join(facts_of(self.curve))
        label = style.literal(facts if name is None else f"{shorten(name)}\n{facts}")
        self.line_ = draw_line(self.ax_, self.curve, style.look(place), label=label, **kwargs)
        style.add_legend(self.ax_)
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: Classifier,
        X: object,
        y: ArrayLike,
        *,
        kind: object = None,
        n_bins: int = 15,
        strategy: Literal["uniform", "quantile"] | None = None,
        n_resamples: int = 1000,
        random_state: Seed = 0,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        name: str | None = None,
        ref_line: bool = True,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> ReliabilityDisplay:
        """Draw the diagram of a fitted classifier or calibrator.

        Parameters
        ----------
        estimator : object
            Has ``predict_proba`` and ``classes_``.
        X : array-like
            Its input: features, or scores if it is a calibrator.
        y : array-like of shape (n_rows,)
            True labels.
        kind, n_bins, n_resamples, random_state, sample_weight
            As in :func:`calibrant.metrics.reliability_curve`.
        strategy
            As in :meth:`from_predictions`.
        classes : array-like of shape (n_classes,), optional
            Label of each column; ``classes_`` of the estimator by default.
        name : str, optional
            Name in the legend; that of its class by default.
        ref_line, ax, **kwargs
            As in :meth:`plot`.

        Returns
        -------
        display : ReliabilityDisplay
        """
        check_is_fitted(estimator)
        return cls.from_predictions(
            y,
            estimator.predict_proba(X),
            kind=kind,
            n_bins=n_bins,
            strategy=strategy,
            n_resamples=n_resamples,
            random_state=random_state,
            sample_weight=sample_weight,
            classes=estimator.classes_ if classes is None else classes,
            name=type(estimator).__name__ if name is None else name,
            ref_line=ref_line,
            ax=ax,
            **kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike | Predictions | Chunks,
        y_proba: ArrayLike | None = None,
        *,
        kind: object = None,
        n_bins: int = 15,
        strategy: Literal["uniform", "quantile"] | None = None,
        n_resamples: int = 1000,
        random_state: Seed = 0,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        pos_label: Label | None = None,
        name: str | None = None,
        ref_line: bool = True,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> ReliabilityDisplay:
        """Draw the diagram of predictions.

        Parameters
        ----------
        y_true, y_proba, kind, n_bins, n_resamples, random_state, sample_weight, classes, pos_label
            As in :func:`calibrant.metrics.reliability_curve`.
        strategy : {"uniform", "quantile"}, optional
            As there. By default a class of two has bins of equal mass, as in
            :func:`calibrant.metrics.positive_ece`, and everything else bins of equal width.
        name, ref_line, ax, **kwargs
            As in :meth:`plot`.

        Returns
        -------
        display : ReliabilityDisplay
        """
        rows = source_of(y_true, y_proba, sample_weight, classes, pos_label).in_memory()
        if strategy is None:  # a class of two may be rare
            is_class = rows.n_classes == 2 and not (isinstance(kind, str) and kind == "confidence")
            strategy = "quantile" if is_class else "uniform"
        curve = reliability_curve(
            rows,
            kind=kind,
            n_bins=n_bins,
            strategy=strategy,
            n_resamples=n_resamples,
            random_state=random_state,
        )
        display = cls(curve, estimator_name=name)
        return display.plot(ax, ref_line=ref_line, **kwargs)


def facts_of(curve: ReliabilityCurve) -> list[str]:
    """Return the error of a curve and its p-value, in words."""
    name = "conf-ECE" if is_confidence(curve) else "ECE"
    p = p_words(curve.p_value)
    return [f"{name} {percent(curve.ece)}", *([p] if p else [])]


def _print_lines(ax: Axes, curve: ReliabilityCurve, notes: Sequence[str]) -> None:
    """Print error and notes in the upper left corner, or at the lower right if the curve is there.

    Of a class, they also say how many rows have its label.
    """
    x, y = curve.mean_probability, curve.frequency
    lines = facts_of(curve)
    if not is_confidence(curve):
        happened = np.nansum(curve.weight * np.where(curve.weight > 0, y, 0.0))
        lines.append(f"{happened:,.0f} of {curve.weight.sum():,.0f} rows")
    lines += notes
    informative = ~(curve.consistency_high - curve.consistency_low >= UNINFORMATIVE)
    above = np.count_nonzero(informative & (x < 0.55) & (y > 0.6))
    below = np.count_nonzero(informative & (x > 0.45) & (y < 0.55))
    is_right = above > below
    at = (0.96, 0.04 + HEIGHT_OF_SIZES) if is_right else (0.04, 0.96)
    box = {"boxstyle": "round,pad=0.35", "fc": "white", "ec": style.PALE, "alpha": 0.9}
    words = ax.text(*at, style.literal("\n".join(lines)), transform=ax.transAxes)
    words.set(fontsize=8.5 if len(lines) < 5 else 7, bbox=box, zorder=5)
    words.set(ha="right", va="bottom") if is_right else words.set(ha="left", va="top")


def is_confidence(curve: ReliabilityCurve) -> bool:
    """Whether a curve is of the confidence, not of a class."""
    return isinstance(curve.kind, str) and curve.kind == "confidence"


def draw_frame(
    ax: Axes, curve: ReliabilityCurve, *, ref_line: bool = True, smallest: float = 0.0
) -> None:
    """Draw axes and diagonal, unless an earlier curve has."""
    style.probability_axes(ax, smallest)
    name = f"probability of {style.literal(shorten(str(curve.kind)))}"
    names = ("confidence", "accuracy") if is_confidence(curve) else (name, "observed frequency")
    ax.set(xlabel=names[0], ylabel=names[1])
    if ref_line and not any(line.get_gid() == REFERENCE for line in ax.lines):
        ends = [SMALLEST if smallest > 0.0 else 0.0, 1]  # a later curve may move the axes
        ax.plot(ends, ends, ":", color=style.GREY, linewidth=1.2, gid=REFERENCE)


def draw_bars(ax: Axes, curve: ReliabilityCurve) -> None:
    """Draw where points would lie if the predictions were right."""
    low, high = curve.consistency_low, curve.consistency_high
    wide = np.where(high - low >= UNINFORMATIVE, 1.0, 4.0)
    x, low, high = (np.maximum(v, ax.get_xlim()[0]) for v in (curve.mean_probability, low, high))
    ax.vlines(x, low, high, color=style.PALE, linewidth=wide, zorder=1.5, gid=BARS)


def draw_line(
    ax: Axes, curve: ReliabilityCurve, look: style.Look, *, label: str = "_", **kwargs: Any
) -> Line2D:
    """Draw the curve, with points that are larger for more rows and filled outside their bars."""
    seen = curve.weight > 0
    x, y, share = (v[seen] for v in (curve.mean_probability, curve.frequency, curve.weight))
    low, high = curve.consistency_low[seen], curve.consistency_high[seen]
    inside = (y >= low) & (y <= high)
    options = {**look._asdict(), "gid": CURVE, "linewidth": 1.2, "zorder": 3, **kwargs}
    edge = ax.get_xlim()[0]  # 0, or the lower end of logarithmic axes, which have no place for 0
    informative = ~(high - low >= UNINFORMATIVE) & (y >= edge)
    x, y = np.maximum(x, edge), np.maximum(y, edge)
    # Its marker is for the legend: the points below have sizes of their own.
    (line,) = ax.plot(x[informative], y[informative], label=label, markevery=[], **options)
    colour = line.get_color()
    faces = ["white" if hollow else colour for hollow in inside]
    points = ax.scatter(x, y, 10 + 40 * np.sqrt(share / share.max()), marker=line.get_marker())
    points.set(facecolors=faces, edgecolors=colour, linewidths=1.2, zorder=3.1, clip_on=False)
    # Where the rows are, along the bottom: their share is the area over a bin.
    edges = np.maximum(curve.edges, edge)
    widths = np.diff(np.log(edges) if ax.get_xscale() == "log" else edges)
    # Bins of zeros, and those below the first number of logarithmic axes, have no width to be seen.
    density = np.where(widths > 0.0, curve.weight, 0.0)
    density /= np.maximum(widths, NARROWEST_BIN * widths.sum())
    height = HEIGHT_OF_SIZES * density / max(density.max(), np.finfo(np.float64).tiny)
    bars = ax.stairs(height, edges, fill=True, color=colour, alpha=0.2, linewidth=0, zorder=1)
    bars.set_transform(ax.get_xaxis_transform())
    return line


def draw_counts(ax: Axes, curve: ReliabilityCurve) -> None:
    """Write the number of rows over each bin of a class, unless all have about the same."""
    seen = curve.weight > 0
    if is_confidence(curve) or curve.weight[seen].max() < 2 * curve.weight[seen].min():
        return
    edges = np.maximum(curve.edges, ax.get_xlim()[0])
    edges = np.log(edges) if ax.get_xscale() == "log" else edges
    place = ax.get_window_extent().width * 72 / ax.figure.dpi / np.ptp(edges)
    middle = (edges[1:] + edges[:-1]) / 2
    for j in np.flatnonzero(seen & (np.diff(edges) * place >= COUNTED_WIDTH)):
        x = math.exp(middle[j]) if ax.get_xscale() == "log" else middle[j]
        words = ax.text(x, 0.01, f"{curve.weight[j]:,.0f}", gid=COUNTS, clip_on=True)
        words.set(transform=ax.get_xaxis_transform(), ha="center", va="bottom", rotation=90)
        words.set(fontsize=6, color=style.GREY, zorder=2)


def finish_grid(figure: Figure, curve: ReliabilityCurve, title: str | None = None) -> None:
    """Explain the marks of the diagrams, under all of them, and print a title above."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    point = partial(Line2D, [], [], color=style.BLUE, marker="o", markersize=5.5)
    marks: list[object] = [
        Line2D([], [], linestyle=":", color=style.GREY, label="perfectly calibrated"),
        point(linewidth=1.4, label="observed (larger: more rows)"),
    ]
    if np.isfinite(curve.p_value):
        marks += [
            Patch(color=style.PALE, label="95 % range if calibrated"),
            point(linestyle="none", markerfacecolor="white", label="within this range"),
        ]
    n_columns = 2 if figure.get_figwidth() > 4 else 1
    height = 0.2 * len(marks) / n_columns + 0.2 + 0.4 * (title is not None)
    figure.set_figheight(figure.get_figheight() + height)
    figure.legend(
        handles=marks, loc="outside lower center", ncols=n_columns, fontsize=8.5, frameon=False
    )
    if title is not None:
        figure.suptitle(style.literal(title))
