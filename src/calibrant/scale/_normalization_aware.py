"""NA-FIR of more rows than memory holds: kept rows on the segments of all, corrected by passes."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from calibrant import errors
from calibrant._objectives.normalization_aware import SegmentObjective, segment_starts
from calibrant._solvers.merged_rows import choice_rows
from calibrant._solvers.normalization_aware import solve_normalization_aware
from calibrant._solvers.normalization_aware.kept import fit_normalization_aware, spread_rows
from calibrant._solvers.normalization_aware.prior import choose_strength
from calibrant._solvers.report import Binning
from calibrant.scale._isotonic import FLATTENED_CELLS
from calibrant.scale._score_table import ScoreTable
from calibrant.scale._surrogate import (
    LARGEST_WEIGHT,
    NOISE,
    ObjectiveSums,
    Surrogate,
    SurrogateStatistics,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._maps.logits import TemperatureMap
    from calibrant._solvers.normalization_aware.prior import PriorChoice
    from calibrant.scale._parts import Part
    from calibrant.scale._score_table import ScoreCells
    from calibrant.scale._statistics import Solution
    from calibrant.scale._surrogate import KeptSolver

    Array = NDArray[np.float64]

MOST_SEGMENTS = 1 << 15
"""Segments that start at labels; where more cells of the table have labels, some are merged."""


class NormalizationAwareStatistics(SurrogateStatistics):
    """What NA-FIR needs to know of a calibration set: rows while they fit, then counts as well."""

    method = "na-fir"

    def __init__(self, classes: Any, **options: Any) -> None:
        solver = options.get("solver", "exact")
        if solver != "exact":
            raise errors.ParameterError(
                f"solver={errors.in_words(solver)} needs all rows in memory; for chunks use "
                "solver='exact'"
            )
        super().__init__(classes, **options)

    @property
    def _prior_strength(self) -> float | None:
        strength = self.options.get("prior_strength", "cv")
        return None if strength == "cv" else float(strength)

    def _start(self) -> list[Part]:
        return [self._keep(), ScoreTable(1, FLATTENED_CELLS)]

    def solution(self) -> Solution:
        """Fit to all rows counted so far."""
        is_first = self.surrogate is None and "kept" in self.parts
        if is_first and self._prior_strength == 0.0 and not self.kept.is_complete:
            raise errors.ParameterError(
                f"prior_strength=0 needs all rows, but {self.kept.n_rows:,} of {self.n_rows:,} "
                "were kept: without pseudo-observations the optimum lies at infinity and depends "
                "on every row; pass prior_strength=1 or more, or statistics(classes, "
                "max_rows=...) that keep all rows"
            )
        return super().solution()

    def fit_kept(self) -> dict[str, Any]:
        """Fit the rows that were kept, as if there were no others."""
        found, report, choice = solve_normalization_aware(
            self.kept_batch(),
            prior_strength=self._prior_strength,
            tol=float(self.options.get("tol", 1e-8)),
            max_rounds=self.options.get("max_rounds"),
        )
        if not self.kept.is_complete:
            note = f"{self.kept.n_rows} rows stand for {self.n_rows}"
            report = replace(report, notes=(*report.notes, note))
        fitted = {"map_": found, "solver_report_": report}
        return _with_prior(fitted, self._prior_strength, choice)

    def _solution(self) -> Solution:
        """Fit to all rows counted so far; the temperature of the prior is found first."""
        found = super()._solution()
        if self.surrogate is None or "temperature" in self.parts:
            return found
        solver: Any = self.surrogate.solver
        return replace(found, found=_with_prior(found.fitted, *solver.keywords["chosen"]))

    def _begin(self, temperature: TemperatureMap | None) -> Surrogate:
        """Fit the rows that were kept, spread over the scores of all."""
        first: Any = self.passes()[0]
        cells = first.parts["scores"].cells()
        tol = max(float(self.options.get("tol", 0.0)), NOISE / math.sqrt(self.n_rows))
        kept = spread_rows(first.kept_batch(), cells.scores, cells.sums[:, 0])
        return SegmentSurrogate.start(self._solver(temperature), kept, self.weight, tol)

    def _solver(self, temperature: TemperatureMap | None) -> KeptSolver:
        first: Any = self.passes()[0]
        prior: Any = temperature
        strength, choice, note = self._prior_strength, None, ""
        if strength is None:
            kept = first.kept_batch()
            rows = choice_rows(kept)
            choice = choose_strength(kept if rows is None else kept.take(rows), prior)
            strength = choice.best
            note = ", the strength chosen by cross-validation on the kept rows"
        segments, binning = find_segments(first.parts["scores"].cells())
        starts, empty, cells = segments
        objective = SegmentObjective(starts, empty, cells, prior, strength / self.weight)
        beta = prior.inverse_temperature
        note = f"prior of {strength:g} pseudo-observations, 1/T = {beta:.4g}{note}"
        return partial(
            _fit, made=objective, binning=binning, chosen=(strength, choice), notes=(note,)
        )


class SegmentSurrogate(Surrogate):
    """NA-FIR of all rows, pass after pass; the first tells what they want by segment."""

    same: ClassVar[float] = 1e-6  # violations tell more than such a difference of losses

    @property
    def is_done(self) -> bool:
        """Whether all rows have proved a fit, or two passes have not bettered it by half."""
        found = [self.violation(one) for one in self.judged]
        is_stuck = len(found) > 3 and min(found[-2:]) > 0.5 * min(found[:-2])
        return is_stuck or super().is_done

    def _combine(self) -> tuple[Array, Array]:
        """Return a linear term for the next fit, and the best point, which it starts from.

        Anderson's acceleration of the fixed point at which a fit had the linear term it wants;
        points themselves are not combined, since they would not increase.
        """
        best: Any = self.best
        ordered: list[Any] = [best, *(one for one in self.judged[::-1] if one is not best)]
        terms = np.stack([one.fit.linear_term for one in ordered])
        residuals = np.stack([one.kept_gradient - one.gradient for one in ordered]) - terms
        used, residual = terms[0], residuals[0]
        for n in range(len(ordered), 1, -1):
            moved = residuals[1:n] - residual
            share = np.linalg.lstsq(moved.T, -residual, rcond=1e-10)[0]
            if np.all(np.abs(share) <= LARGEST_WEIGHT):
                used, residual = used + share @ (terms[1:n] - used), residual + share @ moved
                break
        return used + self.damping * residual, best.fit.point

    def judge(self, sums: ObjectiveSums) -> Surrogate:
        """Take what a pass has counted, and fit again unless that is not needed."""
        known, fit = self, self.fit
        if sums.curvature is not None:  # the targets, of the first pass
            objective = replace(fit.objective, target=sums.curvature / self.weight)
            known = replace(self, fit=fit._replace(objective=objective))
        return super(SegmentSurrogate, known).judge(sums)


def _fit(
    kept: Any,
    *,
    made: Any,
    binning: Any,
    chosen: Any,  # noqa: ARG001  (is told)
    objective: Any = None,
    **known: Any,
) -> Any:
    """Fit kept rows on segments that were made before, by a prior that was ``chosen``."""
    found = fit_normalization_aware(kept, objective=objective or made, **known)
    return found._replace(report=replace(found.report, binning=binning))


def _with_prior(
    fitted: dict[str, Any], strength: float | None, choice: PriorChoice | None
) -> dict[str, Any]:
    return fitted | {
        "prior_strength_": strength if choice is None else choice.best,
        "cv_results_": None if choice is None else choice.results,
    }


def find_segments(table: ScoreCells) -> tuple[tuple[Array, Array, Array], Binning | None]:
    """Start segments at the labels of a table, or at some of them, and at octaves.

    Returns the starts of those with cells, of octaves without, the weight of the cells and of the
    labels of each; and a bound on what it cost that labels of several scores share a segment: from
    a score inside, the sum of residuals that optimality is judged by lies below that of the next
    segment by the labels of this one at most.
    """
    weight, labels = np.ascontiguousarray(table.sums.T)
    scores, holds = table.scores, labels > 0.0
    before = np.cumsum(labels[holds]) - labels[holds]
    place = np.floor(before * (MOST_SEGMENTS / np.sum(labels)))
    starts = scores[holds][np.append(True, place[1:] > place[:-1])]
    starts = segment_starts(starts, float(scores[scores > 0.0][0]))
    segment = np.searchsorted(starts, scores, side="right") - 1
    cells = np.bincount(segment, weight, minlength=len(starts)).astype(np.float64)
    seen = cells > 0.0
    several = np.bincount(segment[holds], minlength=len(starts)) > 1
    several |= np.bincount(segment, holds & (table.is_single == 0), minlength=len(starts)) > 0
    binning = None
    if several.any():
        inside = np.bincount(segment, labels, minlength=len(starts))[several]
        n_segments = int(np.count_nonzero(seen))
        binning = Binning(n_segments, float(inside.max()) / float(np.sum(labels)))
    empty = starts[~seen]
    return (starts[seen], empty[empty > 0.0], cells[seen]), binning
