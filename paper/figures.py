"""Draw the figures of the paper on a real classifier: ``python paper/figures.py DIR [NAME] [OUT]``.

DIR holds prediction files, NAME is one of them (``ng20_fasttext``: the data and one of the models
of the paper, whose own BERT is not to be had), OUT a directory (``docs/images``).

- ``paper-figure-1.png``: reliability diagrams of the confidence of eight methods with p-values.
- ``paper-figure-2a.png``: SCIR's curves of the first ranks, and those of all ranks.
- ``paper-figure-2b.png``: FIR's and NA-FIR's predictions by uncalibrated ones, in 30 bins of
  equal width from 0.01 to 1, above the number of cells of each bin.

The p-values and what Figure 2b says in numbers are printed as tables.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import NullFormatter

from calibrant.metrics import confidence_ece, reliability_curve
from calibrant.plots import draw_reliability_grid
from calibrant.study._cell import Cell, _prepare
from calibrant.study._files import look_at
from calibrant.study._methods import PAPER_ESTIMATORS
from calibrant.study._tables import method_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

IMAGES = Path(__file__).parents[1] / "docs" / "images"
NAME = "ng20_fasttext"
N_BINS = 30
LOWEST = 0.01
FIRST_RANKS = 5


def fit_all(path: Path) -> tuple[NDArray[Any], dict[str, Matrix], Any]:
    """Return labels, test predictions of every column of the paper, and the fitted SCIR."""
    file, found, scir = look_at(path), {}, None
    labels: NDArray[Any] = np.empty(0)
    for column in ("uncalibrated", *(m for m in PAPER_ESTIMATORS if m != "uncalibrated")):
        method = PAPER_ESTIMATORS[column]
        calibrator, fit, (labels, scores, _) = _prepare(Cell(file, method, 0))
        if calibrator is None or fit is None:
            found[column] = scores / scores.sum(axis=1, keepdims=True)
            continue
        fit()
        found[column] = calibrator.predict_proba(scores)
        scir = calibrator if column == "scir" else scir
    return labels, found, scir


def figure_1(labels: NDArray[Any], found: dict[str, Matrix]) -> tuple[Figure, list[str]]:
    """Draw the reliability diagrams; return them and a table of p-values."""
    titles = {method_title(m): rows for m, rows in found.items()}
    curves = {
        name: reliability_curve(labels, rows, kind="confidence") for name, rows in titles.items()
    }
    lines = ["| method | conf-ECE % | p-value |", "|---|---:|---:|"]
    for name, curve in curves.items():
        error = 100 * confidence_ece(labels, titles[name])
        lines.append(f"| {name} | {error:.2f} | {curve.p_value:.3f} |")
    return draw_reliability_grid(curves, n_columns=4), lines


def figure_2a(scir: Any) -> Figure:
    """Draw g(q, r) of the first ranks, as in the paper, and of all."""
    function = scir.step_function_
    q = np.linspace(0.0, 1.0, 1001)
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 4.2), sharey=True, layout="constrained")
    for ax, n in zip(axes, (min(FIRST_RANKS, function.n_ranks), function.n_ranks), strict=True):
        colors = mpl.colormaps["viridis"](np.linspace(0.0, 0.9, n))
        for rank in range(1, n + 1):
            label = f"r = {rank}" if n <= FIRST_RANKS else None
            values = function(q, np.full(len(q), rank))
            ax.plot(q, values, color=colors[rank - 1], lw=1.3, label=label)
        ax.plot([0, 1], [0, 1], color="grey", lw=0.8, ls=":")
        ax.set_title(f"the first {n} ranks" if n <= FIRST_RANKS else f"all {n} ranks")
        ax.set_xlabel("q: sum of the r largest probabilities")
    axes[0].legend(fontsize=8, frameon=False)
    axes[0].set_ylabel("g(q, r)")
    return figure


def figure_2b(found: dict[str, Matrix]) -> tuple[Figure, list[str]]:
    """Draw mean predictions by uncalibrated ones; return them and a table of a few bins."""
    raw = found["uncalibrated"].ravel()
    kept = raw >= LOWEST
    edges = np.linspace(LOWEST, 1.0, N_BINS + 1)
    place = np.clip(np.searchsorted(edges, raw[kept], side="right") - 1, 0, N_BINS - 1)
    counts = np.bincount(place, minlength=N_BINS)
    middle = (edges[:-1] + edges[1:]) / 2
    figure, (top, low) = plt.subplots(
        2, 1, figsize=(6.5, 5.2), sharex=True, height_ratios=(3, 1), layout="constrained"
    )
    means = {}
    for column, color in (("fir", "#D55E00"), ("na-fir", "#0072B2")):
        values = found[column].ravel()[kept]
        with np.errstate(invalid="ignore"):
            means[column] = np.bincount(place, values, N_BINS) / counts
        top.plot(
            middle, means[column], "o-", ms=3.5, lw=1.2, color=color, label=method_title(column)
        )
    top.plot([0, 1], [0, 1], color="grey", lw=0.8, ls=":")
    top.legend(frameon=False)
    top.set_ylabel("mean calibrated probability")
    low.bar(middle, counts, width=0.9 * (edges[1] - edges[0]), color="#BBBBBB")
    low.set_yscale("log")
    low.yaxis.set_minor_formatter(NullFormatter())
    low.set(xlabel="uncalibrated probability", ylabel="cells")
    lines = ["| uncalibrated | cells | FIR | NA-FIR |", "|---|---:|---:|---:|"]
    for j in range(0, N_BINS, 5):
        both = f"{means['fir'][j]:.3f} | {means['na-fir'][j]:.3f}"
        lines.append(f"| {edges[j]:.3f} to {edges[j + 1]:.3f} | {counts[j]:,} | {both} |")
    return figure, lines


def main() -> None:
    """Draw what the command line names."""
    if len(sys.argv) not in {2, 3, 4}:
        sys.exit(__doc__)
    warnings.simplefilter("ignore")
    mpl.use("Agg")
    directory = Path(sys.argv[1])
    name = sys.argv[2] if len(sys.argv) > 2 else NAME
    out = Path(sys.argv[3]) if len(sys.argv) > 3 else IMAGES
    labels, found, scir = fit_all(directory / f"{name}.npz")
    first, p_values = figure_1(labels, found)
    second, bins = figure_2b(found)
    for number, figure in (("1", first), ("2a", figure_2a(scir)), ("2b", second)):
        figure.savefig(out / f"paper-figure-{number}.png", dpi=80)
        plt.close(figure)
    print(f"`{name}`, its {len(labels):,} test rows:", "", *p_values, "", *bins, sep="\n")


if __name__ == "__main__":
    main()
