"""Structured scaling from statistics: rows that are kept, and the gradient over all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from calibrant.scale.statistics import ROUNDS, ZERO_PROBABILITY, Number, Solution, Statistics
from calibrant.scale.structured_sums import StructuredSums
from calibrant.scale.temperature import (
    MOST_PASSES,
    counting_zeros,
    fit_sample,
    judge,
    standing_for,
)
from calibrant.scale.temperature_sums import TemperatureSums
from calibrant.simplex import LOG_OF_ZERO
from calibrant.solvers.pseudo_rows import AT_SCORES, AT_TEMPERATURE
from calibrant.solvers.structured_steps import step_structured
from calibrant.solvers.structured_whole import (
    PENALTIES,
    Frame,
    StructuredFit,
    fit_structured,
    solve_structured,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.scale.parts import Part
    from calibrant.simplex import SimplexBatch
    from calibrant.solvers.structured_likelihood import Likelihood
    from calibrant.solvers.structured_steps import Reference

    Array = NDArray[np.float64]

MOST_CLASSES = 200
"""Most classes of which "auto" fits a matrix."""

LARGEST_RATIO = 4.0
"""How far the curvature of all rows may be from that of those kept; more would be an accident."""

ROUGH = 1e-2
"""Violation at which penalties are chosen."""

ENOUGH = 1 << 14
"""Rows beside which penalties hardly matter; with fewer, all rows are asked in a pass for them."""


FORMS = ("auto", "matrix", "diagonal")


class StructuredStatistics(Statistics):
    """Statistics of structured scaling."""

    method = "structured"
    allowed: ClassVar = {
        "form": FORMS,
        "strength": Number(high=1e12, words=("evidence",)),
        "bound": Number(high=1.0),
        "prior_strength": Number(high=1e12),
        "tol": Number(),
        "max_rounds": ROUNDS,
        "zero_probability": ZERO_PROBABILITY,
    }

    @property
    def _is_full(self) -> bool:
        form = self.options.get("form", "auto")
        return form == "matrix" or (form == "auto" and self.n_classes <= MOST_CLASSES)

    @property
    def _solver_options(self) -> dict[str, Any]:
        strength = self.options.get("strength", "evidence")
        return {
            "full": self._is_full,
            "strength": None if isinstance(strength, str) else float(strength),
            "prior_strength": float(self.options.get("prior_strength", AT_TEMPERATURE)),
            "bound": float(self.options.get("bound", 0.02)),
            "tol": float(self.options.get("tol", 1e-6)),
            "max_rounds": int(self.options.get("max_rounds", 100)),
        }

    def _start(self) -> list[Part]:
        settings = self.n_classes, self.scores, self.options.get("zero_probability")
        as_they_are = 1.0, LOG_OF_ZERO, 1.0, self._solver_options["bound"]
        frame = Frame(*as_they_are, PENALTIES, np.zeros(2), is_flat=False)
        return [self._keep(), TemperatureSums(*settings), self._sums_at(self._theta(), frame)]

    def _solution(self) -> Solution:
        """Fit to all rows counted so far."""
        if self.before is None:
            return self._first_solution()
        sums: Any = self.parts["structured"]
        at_start = np.array_equal(sums.theta, self._theta())
        return self._second_solution() if at_start else self._next_solution()

    def _theta(self) -> Array:
        """Parameters of temperature scaling."""
        k = self.n_classes
        theta = np.zeros(2 + (k * k if self._is_full else k) + k)
        theta[0] = 1.0
        return theta

    def _first_solution(self) -> Solution:
        zero, options = self.options.get("zero_probability"), self._solver_options
        batch = self.kept_batch()
        if self.kept.is_complete:
            found, report = solve_structured(batch, zero_probability=zero, **options)
            return Solution({"map_": found, "solver_report_": report})
        start = fit_sample(self, zero_probability=zero)
        alone = fit_structured(batch, start.map, **options | {"tol": ROUGH})
        fit = fit_structured(
            batch,
            start.map,
            weight=self.weight,
            scale=alone.frame.scale,
            penalties=alone.frame.penalties,
            matching=self._estimate,
            **options,
        )
        theta = fit.theta if self.kept.n_rows >= ENOUGH else self._theta()
        parts = [self._sums_at(theta, fit.frame), *counting_zeros(self, start)]
        return Solution(self._fitted(fit), self.next_pass(*parts))

    def _second_solution(self) -> Solution:
        """Fit again, with what all rows say of temperature scaling: penalties come from it."""
        first: Any = self.before
        sums: Any = self.parts["structured"]
        found = sums.reference(self.weight)
        fit = fit_structured(
            first.kept_batch(),
            sums.frame.temperature(self.scores),
            weight=self.weight,
            scale=sums.frame.scale,
            matching=lambda *_: (found.theta, found.gradient, found.rest),
            **self._solver_options,
        )
        part = self._sums_at(fit.theta, self._with_zeros(fit.frame))
        return Solution(self._fitted(fit), self.next_pass(part))

    def _with_zeros(self, frame: Frame) -> Frame:
        """Read zeros as all rows ask for, if this pass has counted them."""
        if "temperature" not in self.parts:
            return frame
        parts: list[Any] = [self.parts["temperature"]]
        better = judge(self.passes()[0], parts, AT_SCORES).better
        return frame._replace(zero_logit=better.zero_logit)

    def _fitted(self, fit: StructuredFit) -> dict[str, Any]:
        notes = *fit.report.notes, standing_for(self.passes()[0])
        return {"map_": fit.map, "solver_report_": replace(fit.report, notes=notes)}

    def _sums_at(self, theta: Array, frame: Frame) -> StructuredSums:
        settings: list[Any] = [self.n_classes, self.scores, self._is_full, theta, *frame]
        return StructuredSums(*settings)

    def _estimate(self, batch: SimplexBatch, likelihood: Likelihood) -> tuple[Array, Array, Array]:
        """Estimate what all rows say of temperature scaling, from what they say of the scores.

        The gradient of the rows kept is corrected by a multiple of what it lacks at the scores as
        they are; one multiple for all parameters of a kind, by the likeness of both in the rows.
        """
        part: Any = self.parts["structured"]
        of_all, here = part.reference(self.weight), part.empty()
        here.add(batch)
        of_kept = here.reference(float(np.sum(batch.weight)))
        start = self._theta()
        gradient = likelihood.value(start).gradient
        _, rest = likelihood.curvature()
        factors = self._factors(batch, likelihood, gradient, of_kept)
        lacking = of_all.gradient - of_kept.gradient
        ratio = of_all.rest / np.maximum(of_kept.rest, 1e-300)
        rest = rest * np.clip(ratio, 1.0 / LARGEST_RATIO, LARGEST_RATIO)
        return start, gradient + factors[likelihood.kinds()] * lacking, rest

    def _factors(
        self, batch: SimplexBatch, likelihood: Likelihood, gradient: Array, at_scores: Reference
    ) -> Array:
        """Slopes of regressions of gradients on those at the scores, for each kind of parameter."""
        part: Any = self.parts["structured"]
        common, r1, _, x1 = part.terms(batch, slice(None))
        share, x, u = likelihood.share, likelihood.x, likelihood.logits
        r = likelihood.weighted / share[:, None]
        r[np.arange(len(r)), batch.class_index] -= 1.0

        def likeness(one: Array, other: Array, means: Array, other_means: Array) -> float:
            return float(share @ (one * other)) - float(means @ other_means)

        k, g, g1 = self.n_classes, gradient, at_scores.gradient
        rows = [
            (np.sum(r * u, axis=1), common[:, 1], g[:1], g1[:1]),
            (np.sum(r * x, axis=1), np.sum(r1 * x1, axis=1), g[1:2], g1[1:2]),
        ]
        found = [likeness(a, b, m, n) / max(likeness(b, b, n, n), 1e-300) for a, b, m, n in rows]
        products = [np.sum(a * b, axis=1) for a, b in ((r * x, r1 * x1), (r1 * x1, r1 * x1))]
        slopes, slopes1 = g[2:-k], g1[2:-k]
        if self._is_full:
            on = np.eye(k, dtype=bool).ravel()
            pairs = [
                np.sum(a * b, axis=1) * np.sum(c * d, axis=1)
                for a, b, c, d in ((r, r1, x, x1), (r1, r1, x1, x1))
            ]
            off = [a - b for a, b in zip(pairs, products, strict=True)]
            parts = [(products, slopes[on], slopes1[on]), (off, slopes[~on], slopes1[~on])]
        else:
            parts = [(products, slopes, slopes1), (products, slopes, slopes1)]
        intercepts = [np.sum(r * r1, axis=1), np.sum(r1 * r1, axis=1)]
        parts.append((intercepts, g[-k:], g1[-k:]))
        for (mixed, square), means, other in parts:
            above = float(share @ mixed) - float(means @ other)
            below = float(share @ square) - float(other @ other)
            found.append(above / max(below, 1e-300))
        return np.array(found)

    def _next_solution(self) -> Solution:
        """Step from the best point so far, unless all rows prove that none is needed."""
        passes = self.passes()
        first = passes[0]
        sums: list[Any] = [one.parts["structured"] for one in passes[1:]]
        frame = sums[-1].frame
        same = [one for one in sums if one.frame.zero_logit == frame.zero_logit]
        step = step_structured(
            first.kept_batch(),
            frame,
            [one.reference(self.weight) for one in same],
            self.weight,
            self._solver_options["tol"],
            full=self._is_full,
        )
        names = zip(("diagonal", "off-diagonal", "intercept"), frame.penalties[2:], strict=True)
        notes = (
            "penalties in rows: " + ", ".join(f"{name} {value:.3g}" for name, value in names),
            standing_for(first),
            f"all {self.n_rows} rows were read {len(passes)} times",
        )
        report = replace(step.report, rounds=len(passes), notes=notes)
        fitted = {"map_": same[step.best].map, "solver_report_": report}
        is_last = report.converged or len(passes) >= MOST_PASSES
        if is_last and "temperature" not in self.parts:
            return Solution(fitted)
        frame = self._with_zeros(frame._replace(is_flat=step.is_flat))
        return Solution(fitted, self.next_pass(self._sums_at(step.better, frame)))
