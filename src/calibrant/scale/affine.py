"""Vector scaling from statistics: rows that are kept, and the gradient over all at one map."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from calibrant.kernels.exact_sums import affine_terms, class_terms
from calibrant.maps.logits import AffineMap, TemperatureMap
from calibrant.scale.outer_sums import OuterSums
from calibrant.scale.parts import SummedPart
from calibrant.scale.regression import means_of_all
from calibrant.scale.statistics import ROUNDS, ZERO_PROBABILITY, Number, Solution, Statistics
from calibrant.scale.temperature import (
    MOST_PASSES,
    counting_zeros,
    fit_sample,
    judge,
    standing_for,
)
from calibrant.scale.temperature_sums import TemperatureSums, check_settings
from calibrant.scale.wide_sums import WideSums
from calibrant.simplex import small_chunks, to_logits
from calibrant.solvers.affine import Reference, RidgePenalty, fit_affine, prepare, solve_affine
from calibrant.solvers.affine_steps import step_affine
from calibrant.solvers.pseudo_rows import AT_SCORES

ROUNDING = 1e-9
"""Part of the loss that two points may differ by and be as good."""

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.scale.parts import Part
    from calibrant.simplex import SimplexBatch

    Array = NDArray[np.float64]

Q, QZ, SPREAD, SPREAD_ZZ, Z, IS_ZERO, LABEL_Z, LABEL_ZERO, N_KINDS = range(9)
KNOWN = [Q, QZ, SPREAD, SPREAD_ZZ, Z]
"""What is counted of each class."""

MOST_BENT = 128
"""Most classes of which all pairs are counted, for the Hessian."""

STAGES = 2
"""Fits to the rows that were kept, each with the gradient of all rows estimated at the last."""

RIDGE, PROXIMAL = 0.1, 1.0
"""Caution in the estimate, and pull to where it was made, in errors of the rows' curvature."""

DAMPING = 0.01
"""Part of the curvature that is added to it after a step that went too far; then tenfold."""


class ClassSums(SummedPart):
    """Exact sums by class: of scores, of logits and of logits times scores, and of the label's.

    Parameters
    ----------
    n_classes : int
    kind : {"probabilities", "logits"}
    zero_probability : float, optional
        What a smaller score is read as; without it exact zeros are counted by themselves.
    """

    name = "classes"

    def __init__(self, n_classes: int, kind: str, zero_probability: float | None = None) -> None:
        check_settings(n_classes, kind, zero_probability)
        self.n_classes, self.kind, self.zero_probability = n_classes, kind, zero_probability
        self._sums = WideSums(n_classes * N_KINDS)
        super().__init__({"sums": self._sums})

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        names = "n_classes", "kind", "zero_probability"
        return {name: getattr(self, name) for name in names}

    def terms(self, batch: SimplexBatch, own: slice) -> Array:
        """Return what some of the rows add to each sum."""
        lowest = -math.inf if self.zero_probability is None else math.log(self.zero_probability)
        logits = to_logits(batch.scores[own], self.kind, lowest)
        terms = np.empty((*logits.shape, N_KINDS))
        class_terms(logits, batch.class_index[own], terms)
        return terms

    def add(self, batch: SimplexBatch) -> None:
        """Count the rows of a checked chunk."""
        for own in small_chunks(batch.n_rows, batch.n_classes * N_KINDS):
            terms = self.terms(batch, own)
            self._sums.add_rows(terms.reshape(len(terms), -1), batch.weight[own])

    def values(self) -> Array:
        """Return the sums of each class."""
        return self._sums.values().reshape(self.n_classes, N_KINDS)


class AffineSums(SummedPart):
    """Exact sums of the loss of softmax(coef z + intercept), of its gradient and its Hessian.

    Parameters
    ----------
    n_classes : int
    kind : {"probabilities", "logits"}
    coef, intercept : array-like of shape (n_classes,)
    zero_logit : float
        The map at which they are taken.
    inverse_temperature : float
        That of temperature scaling, for who asked for these sums.
    unit : float
        That of logits in the Hessian, which is counted of not too many classes.
    """

    name = "affine"

    def __init__(
        self,
        n_classes: int,
        kind: str,
        coef: Any,
        intercept: Any,
        zero_logit: float,
        inverse_temperature: float,
        unit: float,
    ) -> None:
        check_settings(n_classes, kind, zero_logit, inverse_temperature, unit)
        coef, intercept = np.asarray(coef, np.float64), np.asarray(intercept, np.float64)
        self.map = AffineMap(coef, intercept, zero_logit, kind)
        if self.map.coef.shape != (n_classes,) or not unit > 0.0:
            raise ValueError(f"a map of {self.map.coef.shape} slopes for {n_classes} classes")
        self.n_classes, self.kind, self.unit = n_classes, kind, unit
        self.inverse_temperature = inverse_temperature
        self.is_bent = n_classes <= MOST_BENT
        self._sums = WideSums((5 if self.is_bent else 2) * n_classes + 1)
        size = 2 * n_classes if self.is_bent else 0
        self._outer = OuterSums(size, size, is_fine=False)
        super().__init__({"sums": self._sums}, {"": self._outer})

    @property
    def temperature(self) -> TemperatureMap:
        """Temperature scaling, where this started."""
        return TemperatureMap(self.inverse_temperature, self.map.zero_logit, self.kind)

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        return {
            "n_classes": self.n_classes,
            "kind": self.kind,
            "coef": self.map.coef,
            "intercept": self.map.intercept,
            "zero_logit": self.map.zero_logit,
            "inverse_temperature": self.inverse_temperature,
            "unit": self.unit,
        }

    def add(self, batch: SimplexBatch) -> None:
        """Count the rows of a checked chunk."""
        k = self.n_classes
        for own in small_chunks(batch.n_rows, 8 * k):
            logits = to_logits(batch.scores[own], self.kind, self.map.zero_logit)
            terms, q = np.empty((len(logits), 2 * k + 1)), np.empty_like(logits)
            index, weight = batch.class_index[own], batch.weight[own]
            affine_terms(logits, index, self.map.coef, self.map.intercept, terms, q)
            if self.is_bent:
                logits /= self.unit
                bent = np.hstack([q * logits, q])
                self._outer.add(bent, bent, weight)
                terms = np.hstack([terms, bent[:, :k] * logits, bent])
            self._sums.add_rows(terms, weight)

    def reference(self, weight: float) -> Reference:
        """Return the map with its gradient over all rows."""
        means, k = self._sums.values() / weight, self.n_classes
        slopes, intercepts = means[1 : 2 * k + 1].reshape(2, k)
        hessian = None
        if self.is_bent:
            square, mixed, plain = (np.diag(part) for part in means[2 * k + 1 :].reshape(3, k))
            hessian = np.block([[square, mixed], [mixed, plain]]) - self._outer.values() / weight
        return Reference(self.map, float(means[0]), slopes, intercepts, hessian, self.unit)


class VectorStatistics(Statistics):
    """Statistics of vector scaling."""

    method = "vs"
    allowed: ClassVar = {
        "ridge": Number(),
        "tol": Number(),
        "max_rounds": ROUNDS,
        "zero_probability": ZERO_PROBABILITY,
    }

    def _start(self) -> list[Part]:
        zero = self.options.get("zero_probability")
        return [
            self._keep(),
            TemperatureSums(self.n_classes, self.scores, zero),
            ClassSums(self.n_classes, self.scores, zero),
        ]

    @property
    def _penalty(self) -> RidgePenalty:
        return RidgePenalty(float(self.options.get("ridge", 0.0)))

    @property
    def _tol(self) -> float:
        return float(self.options.get("tol", 1e-6))

    def _solution(self) -> Solution:
        """Fit to all rows counted so far."""
        return self._first_solution() if self.before is None else self._next_solution()

    def _first_solution(self) -> Solution:
        zero, batch = self.options.get("zero_probability"), self.kept_batch()
        rounds = int(self.options.get("max_rounds", 500))
        options: Any = {"penalty": self._penalty, "tol": self._tol, "max_rounds": rounds}
        if self.kept.is_complete:
            found, report = solve_affine(batch, full=False, zero_probability=zero, **options)
            return Solution({"map_": found, "solver_report_": report})
        fit = fit_sample(self, zero_probability=zero)
        k, present = self.n_classes, self.labels > 0.0
        slopes = np.full(k, fit.map.inverse_temperature)
        found = AffineMap(slopes, np.zeros(k), fit.map.zero_logit, self.scores)
        options["proximal"] = PROXIMAL
        for _ in range(STAGES):
            options["reference"] = estimate_gradient(self, found, batch)
            found, report = fit_affine(batch, fit.map, present, full=False, **options)
        report = replace(report, notes=(*report.notes, standing_for(self)))
        unit = prepare(batch, fit.map, present, None, full=False)[1]
        part = sums_at(found, fit.map.inverse_temperature, unit)
        parts = [part, *counting_zeros(self, fit)]
        return Solution({"map_": found, "solver_report_": report}, self.next_pass(*parts))

    def _next_solution(self) -> Solution:
        """Step from the best point so far, unless all rows prove that none is needed."""
        passes = self.passes()
        first, present = passes[0], self.labels > 0.0
        sums: list[Any] = [one.parts["affine"] for one in passes[1:]]
        losses = [self._loss(one) for one in sums]
        best = len(sums) - 1
        for place in range(len(sums) - 1):
            if sums[place].map.zero_logit == sums[-1].map.zero_logit:
                best = (
                    place if losses[place] < losses[best] - ROUNDING * abs(losses[best]) else best
                )
        since = len(sums) - 1 - best
        step = step_affine(
            first.kept_batch(),
            sums[best].temperature,
            present,
            sums[best].reference(self.weight),
            penalty=self._penalty,
            tol=self._tol,
            damping=DAMPING * 10.0 ** (since - 1) if since else 0.0,
        )
        notes = standing_for(first), f"all {self.n_rows} rows were read {len(passes)} times"
        report = replace(step.report, rounds=len(passes), notes=notes)
        fitted = {"map_": sums[best].map, "solver_report_": report}
        better, temperature = step.better, sums[best].temperature
        if "temperature" in self.parts:
            parts: list[Any] = [self.parts["temperature"]]
            temperature = judge(first, parts, AT_SCORES).better
            better = replace(better, zero_logit=temperature.zero_logit)
        elif report.converged or len(passes) >= MOST_PASSES:
            return Solution(fitted)
        part = sums_at(better, temperature.inverse_temperature, sums[best].unit)
        return Solution(fitted, self.next_pass(part))

    def _loss(self, sums: AffineSums) -> float:
        penalty = replace(self._penalty, unit=1.0)
        return sums.reference(self.weight).loss + penalty(sums.map.coef, sums.map.intercept)[0]


def sums_at(found: AffineMap, inverse_temperature: float, unit: float) -> AffineSums:
    """Return empty sums at a map."""
    k = found.n_classes
    settings = k, found.kind, found.coef, found.intercept, found.zero_logit
    return AffineSums(*settings, inverse_temperature, unit)


def estimate_gradient(statistics: Statistics, found: AffineMap, batch: SimplexBatch) -> Reference:
    """Estimate the gradient of all rows at a map, from the rows kept and the sums by class."""
    part: Any = statistics.parts["classes"]
    weight, zero, n_classes = statistics.weight, found.zero_logit, statistics.n_classes
    sums, terms = part.values() / weight, part.terms(batch, slice(None))
    logits, q = to_logits(batch.scores, batch.kind, zero), found(batch.scores)
    found_means = np.empty((n_classes, 4))
    for j in range(n_classes):
        known, means = terms[:, j, KNOWN], sums[j, KNOWN]
        known[:, -1] += zero * terms[:, j, IS_ZERO]
        means[-1] += zero * sums[j, IS_ZERO]
        own, z = q[:, j], logits[:, j]
        spread = own * (1.0 - own)
        wanted = np.column_stack([own * z, own, spread * z**2, spread])
        found_means[j] = means_of_all(known, wanted, batch.weight, means, RIDGE)
    slopes, intercepts, *curvature = found_means.T
    slopes = slopes - sums[:, LABEL_Z] - zero * sums[:, LABEL_ZERO]
    intercepts = intercepts - statistics.labels / weight
    return Reference(found, math.nan, slopes, intercepts, curvature=np.array(curvature))
