"""Curves of a fitted SCIR map, rank by rank, as in the left panel of the paper's Figure 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibrant.plots import style
from calibrant.simplex import check_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.calibrators.sorted_cumulative import SortedCumulativeIsotonic

# Okabe and Ito's palette without yellow: told apart with any colour vision.
COLOURS = ("#000000", "#E69F00", "#0072B2", "#56B4E9", "#CC79A7", "#009E73", "#D55E00")


@dataclass(frozen=True, slots=True)
class RankCurve:
    """Steps of one rank.

    Attributes
    ----------
    rank : int
        How many classes are summed.
    q : ndarray of shape (n_steps + 1,)
        Where the steps start and, last, where the axis ends.
    value : ndarray of shape (n_steps + 1,)
        Calibrated probability from each ``q`` on; the last one is repeated.
    is_pooled : bool
        Whether higher ranks share the curve (``max_rank``).
    """

    rank: int
    q: NDArray[np.float64]
    value: NDArray[np.float64]
    is_pooled: bool


def compute_rank_curves(
    calibrator: SortedCumulativeIsotonic, n_ranks: int = 5
) -> tuple[RankCurve, ...]:
    """Fitted curves g(., r) of the first ranks.

    Parameters
    ----------
    calibrator : SortedCumulativeIsotonic
        A fitted calibrator.
    n_ranks : int, default=5
        How many ranks; fewer if there are not as many.

    Returns
    -------
    curves : tuple of RankCurve
        One curve for each rank, from q = r / k, the least that r classes of k can sum to, to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.calibrators.sorted_cumulative import SortedCumulativeIsotonic
    >>> from calibrant.plots.rank_curves import compute_rank_curves
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet(np.ones(3), size=1000)
    >>> y = (p.cumsum(axis=1) > rng.random((1000, 1))).argmax(axis=1)
    >>> curves = compute_rank_curves(SortedCumulativeIsotonic(prior_share=0.1).fit(p, y))
    >>> [curve.rank for curve in curves]
    [1, 2]
    >>> bool(curves[0].q[0] == 1 / 3)
    True
    """
    check_is_fitted(calibrator, "step_function_")
    check_number("n_ranks", n_ranks, low=1, whole=True)
    function, n_classes = calibrator.step_function_, calibrator.n_features_in_
    curves = []
    for rank in range(1, min(n_ranks, function.n_ranks) + 1):
        thresholds, values = function.curve(rank)
        least = rank / n_classes
        inside = thresholds > least
        q = np.concatenate([[least], thresholds[inside], [1.0]])
        first = values[np.count_nonzero(~inside) - 1]
        value = np.concatenate([[first], values[inside]])
        is_pooled = rank == function.n_ranks < n_classes - 1
        curves.append(RankCurve(rank, q, np.append(value, value[-1]), is_pooled))
    return tuple(curves)


def draw_rank_curves(curves: tuple[RankCurve, ...], ax: Any = None) -> Any:
    """Draw curves of ``compute_rank_curves``; the diagonal is a classifier that needs no map.

    Neighbouring ranks share most of their steps, so higher ranks are drawn wider, and below.

    Parameters
    ----------
    curves : tuple of RankCurve
        What to draw.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    ax : matplotlib Axes
        Where it was drawn.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from calibrant.plots.rank_curves import RankCurve, draw_rank_curves
    >>> curve = RankCurve(1, np.array([0.25, 0.5, 1.0]), np.array([0.2, 0.6, 0.6]), False)
    >>> draw_rank_curves((curve,)).get_ylabel()
    'calibrated probability of the top r classes'
    """
    ax = style.axes_or_new(ax, (5.2, 4.4))
    style.tidy(ax)
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1, zorder=1)
    for i, curve in enumerate(curves):
        name = f"r = {curve.rank}{' and more' if curve.is_pooled else ''}"
        ax.step(
            curve.q,
            curve.value,
            where="post",
            color=COLOURS[i % len(COLOURS)],
            linewidth=1.2 + 1.4 * i,
            zorder=3 - 0.01 * i,
            label=name,
        )
    ax.set(xlim=(0, 1), ylim=(0, 1.02))
    style.name_axes(
        ax, "sum q of the r largest probabilities", "calibrated probability of the top r classes"
    )
    style.add_legend(ax, title="rank")
    return ax
