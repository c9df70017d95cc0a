"""Calibration errors of all classes, and diagrams of the worst."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _drawing as style
from calibrant._gate import check_number
from calibrant._predictions import read
from calibrant._result import Result, doc, result
from calibrant._text import p_words, percent, shorten
from calibrant.metrics import ClassBins, check_bins, errors_in, reliability_curve
from calibrant.plots._reliability import add_legend, draw_panel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike, NDArray

    from calibrant._maps.base import Floats, Wholes
    from calibrant._predictions import Predictions
    from calibrant.metrics import ReliabilityCurve, Seed
    from calibrant.scale import Chunks

FEW = 50
"""Classes that have a marker each, on a linear axis."""


@result(eq=False)
class ClasswiseSummary(Result):
    """Result of :func:`compute_classwise`; arrays have one number per class."""

    classes: NDArray[Any] = doc("Label of each column.")
    ece: Floats = doc("Calibration error of each class's probability.")
    mean_probability: Floats = doc("Mean probability of each class.")
    frequency: Floats = doc("Share of rows of each class.")
    order: Wholes = doc("Column numbers by decreasing error; ties in the order of the columns.")
    curves: dict[int, ReliabilityCurve] = doc(
        "Curves by column, of the worst or of the chosen classes."
    )


def compute_classwise(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    n_worst: int = 8,
    columns: Sequence[int] | None = None,
    n_bins: int = 15,
    diagram_bins: int = 8,
    n_resamples: int = 200,
    random_state: Seed = 0,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Any = None,
) -> ClasswiseSummary:
    """Compute the calibration error of every class, and diagrams of the worst.

    Parameters
    ----------
    y_true, y_proba, n_bins, random_state, sample_weight, classes, pos_label
        As in :func:`calibrant.metrics.reliability_curve`.
    n_worst : int, default=8
        Number of classes that get a diagram.
    columns : sequence of int, optional
        Columns that get a diagram, instead of the worst.
    diagram_bins : int, default=8
        Number of bins of the diagrams and their p-values: a class has few rows whose probability is
        not near zero, too few for ``n_bins``.
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
    check_number("n_worst", n_worst, low=0, whole=True)
    source = read(y_true, y_proba, sample_weight, classes, pos_label)
    sums = source.add_up({"bins": ClassBins(int(n_bins))})["bins"]
    ece = errors_in(sums)
    weight, happened, said = sums.sum(axis=1).T
    order = np.argsort(-ece.round(12), kind="stable")  # both of two are equal but for rounding
    shown = order[: int(n_worst)].tolist() if columns is None else [int(j) for j in columns]
    curves = {}
    if shown:  # without, chunks need not be sampled
        curves = class_curves(
            source.in_memory(),
            shown,
            n_bins=diagram_bins,
            n_resamples=n_resamples,
            random_state=random_state,
        )
    shares = said / weight, happened / weight
    return ClasswiseSummary(source.classes.copy(), ece, *shares, order, curves)


def class_curves(
    rows: Predictions,
    columns: Sequence[int],
    *,
    n_bins: int = 8,
    n_resamples: int,
    random_state: Seed,
) -> dict[int, ReliabilityCurve]:
    """Reliability curves of some classes, by column."""
    # Columns are asked for by number: a class may be called "confidence".
    numbered = replace(rows, classes=np.arange(rows.n_classes))
    return {
        j: reliability_curve(
            numbered, kind=j, n_bins=n_bins, n_resamples=n_resamples, random_state=random_state
        )
        for j in columns
    }


def draw_classwise(
    summary: ClasswiseSummary, *, n_columns: int = 3, title: str | None = None
) -> Figure:
    """Draw the errors of all classes, and the diagrams of those that have one.

    Parameters
    ----------
    summary : ClasswiseSummary
        From :func:`compute_classwise`.
    n_columns : int, default=3
        Diagrams in a row; the first is the overview of all classes.
    title : str, optional
        Title of the figure.

    Returns
    -------
    figure : matplotlib Figure

    Examples
    --------
    >>> from calibrant.plots import compute_classwise, draw_classwise
    >>> summary = compute_classwise([0, 1], [[0.9, 0.1], [0.2, 0.8]])
    >>> figure = draw_classwise(summary)  # doctest: +SKIP
    """
    n_panels = 1 + len(summary.curves)
    figure, axes = style.new_grid(n_panels, min(n_columns, n_panels), (3.1, 3.6))
    _draw_overview(summary, axes[0])
    ranks = {int(j): place + 1 for place, j in enumerate(summary.order)}
    for ax, (j, curve) in zip(axes[1:], summary.curves.items(), strict=True):
        error, chance = percent(summary.ece[j], 2), p_words(curve.p_value)
        said, seen = summary.mean_probability[j], summary.frequency[j]
        lines = [
            f"ECE {error}, {chance}" if chance else f"ECE {error}",
            f"predicted {percent(said)}, observed {percent(seen)}",
        ]
        draw_panel(curve, ax)
        style.add_heading(ax, f"#{ranks[j]}: {shorten(str(summary.classes[j]))}", lines)
        ax.set_xlabel("probability of the class")
    if summary.curves:
        add_legend(figure, next(iter(summary.curves.values())))
    style.add_title(figure, title)
    return figure


def _draw_overview(summary: ClasswiseSummary, ax: Axes) -> None:
    errors = 100 * summary.ece[summary.order]
    ranks = np.arange(1, len(errors) + 1)
    marker = "o" if len(errors) <= FEW else None
    ax.plot(ranks, errors, color=style.BLACK, marker=marker, markersize=3, linewidth=1.2)
    has_diagram = np.isin(summary.order, list(summary.curves))
    x, y = ranks[has_diagram], errors[has_diagram]
    ax.plot(x, y, "s", color=style.VERMILION, markersize=5, label="with a diagram")
    mean = float(errors.mean())
    ax.axhline(mean, color=style.BLUE, linestyle="--", linewidth=1.2, label=f"mean {mean:.2f} %")
    style.add_heading(ax, f"all {len(errors)} classes")
    ax.set(xlabel="class, the worst first", ylabel="ECE of the class, %")
    ax.set_ylim(bottom=0)
    style.number_ranks(ax, len(errors), FEW)
    style.add_legend(ax)
