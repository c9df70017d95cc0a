"""Calibration errors of all classes, and diagrams of the worst."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from calibrant import _drawing as style
from calibrant._gate import check_number
from calibrant._predictions import source_of
from calibrant._result import Result, doc, result
from calibrant._text import percents, shorten
from calibrant.metrics import ClassBins, check_bins, errors_in, reliability_curve
from calibrant.plots._reliability import draw_reliability, finish_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

    from calibrant._predictions import Predictions
    from calibrant._types import Floats, Label, Labels, Wholes
    from calibrant.metrics import ReliabilityCurve, Seed
    from calibrant.scale import Chunks

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
    check_number("n_worst", n_worst, low=0, whole=True)
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
    _draw_overview(summary, axes[0])
    for rank, (ax, (j, curve)) in enumerate(
        zip(axes[1:], summary.curves.items(), strict=True), start=1
    ):
        said, seen = percents(summary.mean_probability[j], summary.frequency[j])
        notes = [f"{said} predicted", f"{seen} observed"]
        numbered = replace(curve, kind="the class")  # whose name is in the title
        title = f"#{rank}: {shorten(str(summary.classes[j]))}"
        draw_reliability(numbered, ax, title=title, notes=notes, smallest=0.0)
    if summary.curves:
        finish_grid(figure, next(iter(summary.curves.values())))
    return figure


def _draw_overview(summary: ClasswiseSummary, ax: Axes) -> None:
    errors = 100 * summary.ece[summary.order]
    ranks = np.arange(1, len(errors) + 1)
    marker = "o" if len(errors) <= FEW else None
    ax.plot(ranks, errors, color=style.BLACK, marker=marker, markersize=3, linewidth=1.2)
    worst = slice(len(summary.curves))
    ax.plot(ranks[worst], errors[worst], "s", color=style.VERMILION, label="with a diagram")
    mean = float(errors.mean())
    ax.axhline(mean, color=style.BLUE, linestyle="--", linewidth=1.2, label=f"mean {mean:.2f} %")
    style.add_heading(ax, f"all {len(errors)} classes")
    ax.set(xlabel="class, the worst first", ylabel="ECE of the class, %")
    ax.set_ylim(bottom=0)
    if len(errors) > FEW:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:g}")
    else:
        ax.locator_params(axis="x", integer=True, min_n_ticks=1)
    style.add_legend(ax)
