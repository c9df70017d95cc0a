"""Pictures of decisions: net benefit, cost and risk, for one method or several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _drawing as style
from calibrant import errors
from calibrant._html import short_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calibrant._maps.base import Floats
    from calibrant.decisions import CostCurve, DecisionCurve, RiskCoverage

MOST_POINTS = 1000
"""Points of a curve that are drawn; the eye sees no more."""


def _by_name(results: Any, ax: Axes | None) -> tuple[dict[str, Any], Axes]:
    """Return results by name, one of them without, and the axes to draw on."""
    named = dict(results) if isinstance(results, Mapping) else {"": results}
    if not named:
        raise errors.ParameterError("there is nothing to draw; pass at least one result")
    return named, style.axes_or_new(ax, (5.2, 3.8))


def _draw_line(ax: Axes, place: int, name: str, facts: str, x: Floats, y: Floats) -> None:
    """Draw one curve of several, with a few of its points marked."""
    some = np.unique(np.linspace(0, len(x) - 1, min(len(x), MOST_POINTS)).astype(np.int64))
    label = style.entry(ax, name, facts) if name and facts else style.literal(name or facts)
    (line,) = ax.plot(x[some], y[some], **style.look(place)._asdict(), linewidth=1.4, label=label)
    line.set(markersize=4, markevery=max(1, len(some) // 12))


def _finish(ax: Axes, x: str, y: str, title: str | None) -> Axes:
    style.name_axes(ax, x, y)
    style.add_legend(ax)
    style.add_heading(ax, title)
    return ax


def draw_decision_curve(
    curves: DecisionCurve | Mapping[str, DecisionCurve],
    ax: Axes | None = None,
    *,
    title: str | None = None,
) -> Axes:
    """Draw the net benefit over thresholds, compared with acting on all rows and on none.

    The band is a 95 % interval of the curve.

    Parameters
    ----------
    curves : DecisionCurve, or mapping of str to DecisionCurve
        From :func:`calibrant.decisions.decision_curve`; several by name, of the same rows.
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
    >>> from calibrant.plots import draw_decision_curve
    >>> ax = draw_decision_curve(decision_curve([0, 1], [0.2, 0.7]))  # doctest: +SKIP
    """
    named, ax = _by_name(curves, ax)
    for place, (name, curve) in enumerate(named.items()):
        _draw_line(
            ax, place, name or "act above the threshold", "", curve.thresholds, curve.net_benefit
        )
        low, high = (curve.net_benefit + sign * 1.96 * curve.spread for sign in (-1, 1))
        color = style.look(place).color
        ax.fill_between(curve.thresholds, low, high, color=color, alpha=0.12, linewidth=0)
    x, y = curve.thresholds, curve.treat_all
    ax.plot(x, y, color=style.GREY, linestyle="--", linewidth=1.2, label="act on all")
    ax.axhline(0.0, color=style.GREY, linestyle=":", linewidth=1.2, label="act on none")
    top = max(float(own.net_benefit.max()) for own in named.values())
    ax.set_ylim(-0.25 * max(top, 0.01), 1.15 * max(top, curve.prevalence, 0.01))
    return _finish(ax, "threshold probability", "net benefit", title)


def draw_cost_curve(
    curves: CostCurve | Mapping[str, CostCurve],
    ax: Axes | None = None,
    *,
    title: str | None = None,
) -> Axes:
    """Draw the mean cost over thresholds, and the optimal threshold of the costs.

    Parameters
    ----------
    curves : CostCurve, or mapping of str to CostCurve
        From :func:`calibrant.decisions.cost_curve`; several by name, of the same costs.
    ax, title : optional
        As in :func:`draw_decision_curve`.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from calibrant.decisions import cost_curve
    >>> from calibrant.plots import draw_cost_curve
    >>> curve = cost_curve([0, 1], [0.2, 0.7], {"false_positive": 1, "false_negative": 5})
    >>> ax = draw_cost_curve(curve)  # doctest: +SKIP
    """
    named, ax = _by_name(curves, ax)
    for place, (name, curve) in enumerate(named.items()):
        facts = f"least {short_number(curve.best_cost)} at {curve.best_threshold:.2f}"
        _draw_line(ax, place, name, facts, curve.thresholds, curve.cost)
    label = f"by the costs: {curve.threshold:.3f}"
    ax.axvline(curve.threshold, color=style.GREY, linestyle="--", linewidth=1.2, label=label)
    ax.set_ylim(bottom=min(0.0, *(float(own.cost.min()) for own in named.values())))
    return _finish(ax, "threshold probability", "mean cost per row", title)


def draw_risk_coverage(
    curves: RiskCoverage | Mapping[str, RiskCoverage],
    ax: Axes | None = None,
    *,
    title: str | None = None,
) -> Axes:
    """Draw the error rate over the share of rows kept, the most confident first.

    Parameters
    ----------
    curves : RiskCoverage, or mapping of str to RiskCoverage
        From :func:`calibrant.decisions.risk_coverage`; several by name.
    ax, title : optional
        As in :func:`draw_decision_curve`.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from calibrant.decisions import risk_coverage
    >>> from calibrant.plots import draw_risk_coverage
    >>> ax = draw_risk_coverage(risk_coverage([0, 1], [0.2, 0.7]))  # doctest: +SKIP
    """
    named, ax = _by_name(curves, ax)
    for place, (name, curve) in enumerate(named.items()):
        facts = f"area {curve.aurc:.4f}, excess {curve.excess:.4f}"
        _draw_line(ax, place, name, facts, curve.coverage, curve.risk)
    ax.set_xlim(0, 1)
    ax.set_ylim(bottom=0)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    return _finish(ax, "coverage: share of rows kept", "risk: share of them wrong", title)
