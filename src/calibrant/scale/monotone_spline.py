"""The monotone spline from statistics: rows that are kept, and derivatives over all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from calibrant.scale.regression import means_of_all
from calibrant.scale.spline_sums import (
    InformationCells,
    LogCells,
    SplineSums,
    features,
    read_logs,
)
from calibrant.scale.statistics import ROUNDS, ZERO_PROBABILITY, Number, Solution, Statistics
from calibrant.scale.temperature import (
    MOST_PASSES,
    counting_zeros,
    fit_sample,
    judge,
    standing_for,
)
from calibrant.scale.temperature_sums import KNOWN, ZERO_LABEL, TemperatureSums, at
from calibrant.solvers.pseudo_rows import AT_SCORES, AT_TEMPERATURE
from calibrant.solvers.spline_steps import step_spline
from calibrant.solvers.spline_whole import (
    Frame,
    SplineFit,
    fit_spline,
    solve_monotone_spline,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.maps.logits import TemperatureMap
    from calibrant.scale.parts import Part
    from calibrant.simplex import SimplexBatch

    Array = NDArray[np.float64]

RIDGE = 0.1
"""Caution in the estimate of a gradient."""

ENOUGH = 1 << 14
"""Rows that tell where knots are; with fewer, all rows are asked in a pass of their own."""


class SplineStatistics(Statistics):
    """Statistics of the monotone spline."""

    method = "spline"
    allowed: ClassVar = {
        "n_knots": Number(low=1, high=1000, whole=True),
        "strength": Number(infinite=True, words=("cv",)),
        "prior_strength": Number(high=1e12),
        "tol": Number(),
        "max_rounds": ROUNDS,
        "zero_probability": ZERO_PROBABILITY,
    }

    def _start(self) -> list[Part]:
        settings = self.n_classes, self.scores, self.options.get("zero_probability")
        return [self._keep(), TemperatureSums(*settings), LogCells(*settings)]

    @property
    def _solver_options(self) -> dict[str, Any]:
        strength = self.options.get("strength", "cv")
        return {
            "n_knots": int(self.options.get("n_knots", 12)),
            "strength": None if isinstance(strength, str) else float(strength),
            "prior_strength": float(self.options.get("prior_strength", AT_TEMPERATURE)),
            "tol": float(self.options.get("tol", 1e-8)),
            "max_rounds": int(self.options.get("max_rounds", 100)),
        }

    def _solution(self) -> Solution:
        """Fit to all rows counted so far."""
        if "spline" in self.parts:
            return self._next_solution()
        if "information" in self.parts:
            return self._solution_with_knots()
        return self._first_solution()

    def _first_solution(self) -> Solution:
        zero, batch = self.options.get("zero_probability"), self.kept_batch()
        if self.kept.is_complete:
            found, report = solve_monotone_spline(
                batch, zero_probability=zero, **self._solver_options
            )
            return Solution({"map_": found, "solver_report_": report})
        start = fit_sample(self, zero_probability=zero)
        fit = self.fit(start.map)
        zero_logit = start.map.zero_logit
        if self.kept.n_rows < ENOUGH:
            sums: Any = self.parts["temperature"]
            settings = self.n_classes, self.scores, zero_logit, fit.frame.scale
            parts: list[Part] = [InformationCells(*settings), at(start.map, sums, start.strength)]
        else:
            own = self._sums_at(zero_logit, fit.frame, fit.slopes)
            parts = [own, *counting_zeros(self, start)]
        return Solution(self._fitted(fit), self.next_pass(*parts))

    def _solution_with_knots(self) -> Solution:
        """Fit again, with the temperature and with the knots that all rows ask for."""
        first: Any = self.before
        information: Any = self.parts["information"]
        sums: list[Any] = [self.parts["temperature"]]
        temperature = judge(first, sums, AT_SCORES).better
        knots = information.knots(self._solver_options["n_knots"])
        fit = first.fit(temperature, scale=information.log_scale, knots=knots)
        part = self._sums_at(temperature.zero_logit, fit.frame, fit.slopes)
        return Solution(self._fitted(fit), self.next_pass(part))

    def fit(self, temperature: TemperatureMap, **frame: Any) -> SplineFit:
        """Fit to the rows that were kept in a first pass, with the estimated gradient of all."""
        batch = self.kept_batch()

        def gradient_of_all(frame: Frame, slopes: Array) -> Array:
            return self._estimate(batch, frame, slopes, temperature.zero_logit)

        return fit_spline(
            batch,
            temperature,
            weight=self.weight,
            gradient_of_all=gradient_of_all,
            **frame,
            **self._solver_options,
        )

    def _fitted(self, fit: SplineFit) -> dict[str, Any]:
        notes = *fit.report.notes, standing_for(self.passes()[0])
        return {"map_": fit.map, "solver_report_": replace(fit.report, notes=notes)}

    def _sums_at(self, zero_logit: float, frame: Frame, slopes: Array) -> SplineSums:
        return SplineSums(self.n_classes, self.scores, zero_logit, *frame, slopes)

    def _estimate(
        self, batch: SimplexBatch, frame: Frame, slopes: Array, zero_logit: float
    ) -> Array:
        """Estimate the gradient of all rows from the rows kept and the log-probabilities of all.

        Labels and the scores' own expectations are known; what is expected at other slopes differs
        from these in proportion to what it does in the rows that were kept.
        """
        cells: Any = self.parts["log-cells"]
        sums: Any = self.parts["temperature"]
        size, index = len(slopes), batch.class_index
        logs = read_logs(batch.scores, self.scores, zero_logit)
        bounded = np.maximum(cells.logs(batch.scores), -cells.depth)
        here = self._sums_at(zero_logit, frame, slopes).terms(logs, index)
        at_scores, flat = (
            self._sums_at(zero_logit, frame, np.full(size, slope)).terms(bounded, index)
            for slope in (1.0 / frame.scale, 0.0)
        )
        wanted, expected, uniform = (one[:, 1 : size + 1] for one in (here, at_scores, flat))
        of_labels, of_scores, of_cells = cells.feature_sums(frame)
        of_zero = features(np.array([frame.scale * zero_logit]), frame.knots)[0]
        of_labels = of_labels + sums.values()[ZERO_LABEL] * of_zero
        shared = sums.terms(batch, slice(None))[0][:, KNOWN]
        shared_means = sums.values()[KNOWN] / self.weight
        found = np.empty(size)
        for b in range(size):
            known = np.column_stack([expected[:, b], uniform[:, b], shared])
            pair = np.array([of_scores[b], of_cells[b] / self.n_classes]) / self.weight
            means = np.append(pair, shared_means)
            found[b] = means_of_all(known, wanted[:, b : b + 1], batch.weight, means, RIDGE)[0]
        gradient: Array = found - of_labels / self.weight
        return gradient

    def _next_solution(self) -> Solution:
        """Better the slopes, unless all rows prove that this is not needed."""
        passes = self.passes()
        first = passes[0]
        sums: Any = self.parts["spline"]
        options, prior = self._solver_options, None
        if "spline" not in passes[-2].parts:  # all rows tell what the rows kept only guessed
            prior = options["prior_strength"], self.weight
        step = step_spline(
            first.kept_batch(),
            sums.frame,
            sums.zero_logit,
            sums.reference(self.weight),
            options["tol"],
            prior,
        )
        notes = standing_for(first), f"all {self.n_rows} rows were read {len(passes)} times"
        report = replace(step.report, rounds=len(passes), notes=notes)
        fitted = {"map_": sums.map, "solver_report_": report}
        zero_logit = sums.zero_logit
        if "temperature" in self.parts:
            parts: list[Any] = [self.parts["temperature"]]
            zero_logit = judge(first, parts, AT_SCORES).better.zero_logit
        elif report.converged or len(passes) >= MOST_PASSES:
            return Solution(fitted)
        part = self._sums_at(zero_logit, step.frame, step.better)
        return Solution(fitted, self.next_pass(part))
