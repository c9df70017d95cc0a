"""Curves of decisions: net benefit, cost or risk, of one method or several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _drawing as style
from calibrant import errors
from calibrant._text import amount, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calibrant._types import Floats
    from calibrant.decisions import CostCurve, DecisionCurve, RiskCoverage

    Curve = DecisionCurve | CostCurve | RiskCoverage

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
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    title : str, optional
        Title above the diagram.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from calibrant.decisions import decision_curve
    >>> from calibrant.plots import draw_decisions
    >>> ax = draw_decisions(decision_curve([0, 1], [0.2, 0.7]))  # doctest: +SKIP
    """
    named: dict[str, Any] = dict(curves) if isinstance(curves, Mapping) else {"": curves}
    if not named:
        raise errors.ParameterError("there is nothing to draw; pass at least one result")
    ax = style.axes_or_new(ax, (5.2, 3.8))
    for place, (name, curve) in enumerate(named.items()):
        x, y, facts = _points(curve)
        some = np.unique(np.linspace(0, len(x) - 1, min(len(x), MOST_POINTS)).astype(np.int64))
        label = "\n".join(filter(None, (shorten(name), facts))) or "act above the threshold"
        look = style.look(place)
        (line,) = ax.plot(x[some], y[some], **look._asdict(), label=style.literal(label))
        line.set(linewidth=1.4, markersize=4, markevery=max(1, len(some) // 12))
        if _kind(curve) == "net benefit":
            low, high = (y + sign * 1.96 * curve.spread for sign in (-1, 1))
            ax.fill_between(x, low, high, color=look.color, alpha=0.12, linewidth=0)
    _draw_beside(ax, curve, [_points(one)[1] for one in named.values()])
    style.add_legend(ax)
    style.add_heading(ax, title)
    return ax


def _kind(curve: object) -> str:
    """Return what a curve shows; its class is in a room above this one, so its fields tell."""
    if hasattr(curve, "net_benefit"):
        return "net benefit"
    return "cost" if hasattr(curve, "cost") else "risk"


def _points(curve: Any) -> tuple[Floats, Floats, str]:
    """Return the coordinates of a curve, and its numbers for the legend."""
    kind = _kind(curve)
    if kind == "net benefit":
        return curve.thresholds, curve.net_benefit, ""
    if kind == "cost":
        facts = f"least {amount(curve.best_cost, curve.best_cost)} at {curve.best_threshold:.2f}"
        return curve.thresholds, curve.cost, facts
    return curve.coverage, curve.risk, f"area {curve.aurc:.4f}, excess {curve.excess:.4f}"


def _draw_beside(ax: Axes, curve: Any, values: list[Floats]) -> None:
    """Draw what curves are compared with, and name the axes."""
    kind = _kind(curve)
    if kind == "net benefit":
        x, y = curve.thresholds, curve.treat_all
        ax.plot(x, y, color=style.GREY, linestyle="--", linewidth=1.2, label="act on all")
        ax.axhline(0.0, color=style.GREY, linestyle=":", linewidth=1.2, label="act on none")
        top = max(float(y.max()) for y in values)
        ax.set_ylim(-0.25 * max(top, 0.01), 1.15 * max(top, curve.prevalence, 0.01))
        ax.set(xlabel="threshold probability", ylabel="net benefit")
    elif kind == "cost":
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
