"""``ReliabilityDisplay``: reliability diagrams as scikit-learn users expect them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from sklearn.utils.validation import check_is_fitted

from calibrant import _drawing as style
from calibrant._text import shorten
from calibrant.metrics import reliability_curve
from calibrant.plots._reliability import BARS, CURVE, draw_bars, draw_frame, draw_line, facts_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from numpy.typing import ArrayLike

    from calibrant._maps.base import Floats
    from calibrant._predictions import Predictions
    from calibrant.metrics import ReliabilityCurve, Seed
    from calibrant.scale import Chunks


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
    figure_: Any

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
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
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
        draw_frame(self.ax_, self.curve, ref_line=ref_line)
        if place == 0:
            draw_bars(self.ax_, self.curve)
        else:  # bars of several curves would hide each other; hollow points say as much
            for drawn in [one for one in self.ax_.collections if one.get_gid() == BARS]:
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
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        kind: Any = None,
        n_bins: int = 15,
        strategy: Literal["uniform", "quantile"] = "uniform",
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
        kind, n_bins, strategy, n_resamples, random_state, sample_weight
            As in :func:`calibrant.metrics.reliability_curve`.
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
        kind: Any = None,
        n_bins: int = 15,
        strategy: Literal["uniform", "quantile"] = "uniform",
        n_resamples: int = 1000,
        random_state: Seed = 0,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        pos_label: Any = None,
        name: str | None = None,
        ref_line: bool = True,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> ReliabilityDisplay:
        """Draw the diagram of predictions.

        Parameters
        ----------
        y_true, y_proba, kind, n_bins, strategy, n_resamples, random_state
            As in :func:`calibrant.metrics.reliability_curve`.
        sample_weight, classes, pos_label
            As in :func:`calibrant.metrics.reliability_curve`.
        name, ref_line, ax, **kwargs
            As in :meth:`plot`.

        Returns
        -------
        display : ReliabilityDisplay
        """
        curve = reliability_curve(
            y_true,
            y_proba,
            kind=kind,
            n_bins=n_bins,
            strategy=strategy,
            n_resamples=n_resamples,
            random_state=random_state,
            sample_weight=sample_weight,
            classes=classes,
            pos_label=pos_label,
        )
        display = cls(curve, estimator_name=name)
        return display.plot(ax, ref_line=ref_line, **kwargs)
