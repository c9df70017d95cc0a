"""SCIR from statistics: the fit in memory while all rows are kept, then one to a grid."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from calibrant.maps.cells import RankedSteps
from calibrant.scale.ranks import RankGrid, usual_cells
from calibrant.scale.statistics import ZERO_PROBABILITY, Number, Solution, Statistics
from calibrant.scale.temperature import MOST_PASSES, fit_sample, judge
from calibrant.scale.temperature_sums import TemperatureSums, at
from calibrant.solvers.pseudo_rows import AT_SCORES
from calibrant.solvers.sorted_cumulative import solve_sorted_cumulative
from calibrant.solvers.sorted_cumulative.fit import accumulate, raise_to_even
from calibrant.solvers.sorted_cumulative.grid import fit_grid
from calibrant.solvers.sorted_cumulative.prior import choose_prior_share

if TYPE_CHECKING:
    from calibrant.maps.logits import TemperatureMap
    from calibrant.scale.parts import Part

ENOUGH = 100_000
"""Rows that tell the temperature so well that another pass would not change a prediction's NLL."""

NEAR = 1e-3
"""Violation at a temperature from which Newton's step needs no proof."""


class SortedCumulativeStatistics(Statistics):
    """What SCIR needs to know of a calibration set: a grid of (q, rank), and some of the rows.

    Once not all rows are kept, those that are choose the prior share, and the regression is that
    of the grid. The temperature of the prior is that of all rows, as far as one pass tells it; if
    few rows were kept, a second pass tells it better.

    Parameters
    ----------
    classes, scores, normalize, max_rows
        As for all ``Statistics``.
    **options
        ``prior_share``, ``max_rank`` and ``zero_probability`` of ``SortedCumulativeIsotonic``.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.scale.sorted_cumulative import SortedCumulativeStatistics
    >>> scores, y = simulated_scores(3000)
    >>> one = SortedCumulativeStatistics([0, 1, 2], max_rows=1000).update(scores[:2000], y[:2000])
    >>> other = one.empty().update(scores[2000:], y[2000:])
    >>> one.merge(other).solve()(np.array([[0.9, 0.08, 0.02]])).round(1)
    array([[0.6, 0.2, 0.2]])
    """

    method = "scir"
    allowed: ClassVar = {
        "prior_share": Number(high=1.0, words=("cv",)),
        "max_rank": Number(low=1, whole=True, optional=True),
        "zero_probability": ZERO_PROBABILITY,
    }
    found: dict[str, Any] | None = None
    """What the first pass has found, if this is a later one: it betters the temperature of it."""

    @property
    def _max_rank(self) -> int | None:
        found: int | None = self.options.get("max_rank")
        return found

    def _start(self) -> list[Part]:
        zero, n_ranks = self.options.get("zero_probability"), self.n_classes - 1
        n_ranks = n_ranks if self._max_rank is None else min(self._max_rank, n_ranks)
        return [
            self._keep(),
            TemperatureSums(self.n_classes, self.scores, zero),
            RankGrid(self.n_classes, n_ranks, usual_cells(n_ranks)),
        ]

    def _solution(self) -> Solution:
        """Fit to all rows counted so far; a further pass betters the temperature alone."""
        if self.found is not None:
            return self._with_better_temperature(self.found)
        given, zero = self.options.get("prior_share", "cv"), self.options.get("zero_probability")
        share, choice = None if given == "cv" else float(given), None
        batch = self.kept_batch()
        if self.kept.is_complete:
            found, report, choice = solve_sorted_cumulative(
                batch, prior_share=share, max_rank=self._max_rank, zero_probability=zero
            )
            return Solution({"map_": found, "solver_report_": report, "prior_report_": choice})
        if share is None:
            share, choice = choose_prior_share(batch, accumulate(batch), self._max_rank, zero)
        ranks: Any = self.parts["ranks"]
        function, report = raise_to_even(*fit_grid(ranks.grid()), self.n_classes)
        fit = fit_sample(self, zero_probability=zero)
        found = RankedSteps(
            function, share, fit.map.inverse_temperature, fit.map.zero_logit, self.scores
        )
        fitted = {"map_": found, "solver_report_": report, "prior_report_": choice}
        is_rough = batch.n_rows < ENOUGH
        return Solution(fitted, self._again(fitted, fit.map, fit.strength) if is_rough else None)

    def _with_better_temperature(self, fitted: dict[str, Any]) -> Solution:
        """Take the step that all rows ask for; how far it was says whether to look there again."""
        first, *others = self.passes()
        sums: list[Any] = [one.parts["temperature"] for one in others]
        judged = judge(first, sums, AT_SCORES)
        prior, again = judged.better, None
        if judged.steps[-1].violation > NEAR and len(sums) < MOST_PASSES:
            again = self._again(fitted, prior, judged.strength)
        scale, zero_logit = prior.inverse_temperature, prior.zero_logit
        found = replace(fitted["map_"], inverse_temperature=scale, zero_logit=zero_logit)
        return Solution(fitted | {"map_": found}, again)

    def _again(self, fitted: dict[str, Any], prior: TemperatureMap, strength: float) -> Self:
        first: Any = self.passes()[0].parts["temperature"]
        again = self.next_pass(at(prior, first, strength))
        again.found = fitted
        return again

    def empty(self) -> Self:
        """Return statistics that ask for the same and have counted nothing."""
        found = super().empty()
        found.found = None  # is not sent anywhere
        return found
