"""Held-out predictions of the candidates of ``AutoCalibrator``, with all that they share."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from calibrant import _threads as threads
from calibrant._calibrators.composition import cross_fit, fit_part, on_simplex, outputs_of
from calibrant._calibrators.methods import make_calibrator
from calibrant._calibrators.scaling import StructuredScaling
from calibrant._row_order import sample_rows
from calibrant._solvers.monotone_spline import STRENGTH
from calibrant._solvers.rows import AT_SCORES, to_points
from calibrant._solvers.temperature import HELD
from calibrant._types import Floats, Wholes

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibrant._calibrators.base import Calibrator
    from calibrant._gate import SimplexBatch
    from calibrant._maps.logits import TemperatureMap
    from calibrant._solvers.structured import StructuredFit

# Every constant of AutoCalibrator: name, value, what it means, and where the pages say how it was
# chosen. "Step" is that of docs/explanation/auto.md; "choices" is docs/evidence/choices.md.
BASELINE = "ts"  # candidate that all others are compared with: step 4
OF_TWO = "two-class"  # candidate that the mixture of two classes is shrunk to: "Two classes"
STRUCTURED = ("structured", "structured-wide", "structured-loose")  # distinguish classes: step 1
NAMES = ("ts", "identity", "na-fir", *STRUCTURED)  # default candidates: step 1
NAMES_OF_MANY = ("ts", "identity", "na-fir", "structured", "structured-wide")  # of > MANY classes
MANY = 100  # number of classes above which other candidates cost more time than they gain: step 1
NAMES_OF_TWO = ("ts", "two-class", "ir-ovr")  # default candidates of two classes: "Two classes"
FAVOURED = ("ts", *STRUCTURED)  # candidates that share the prior of the weights: step 3
PLAIN = ("ts", "identity")  # candidates that need no final stage: step 7
TOLERANCE = 1e-4  # certificate asked of structured scaling, far below the noise of a likelihood,
FOLD_TOLERANCE = 1e-3  # and of every candidate in folds: step 2
MOST_CELLS_JUDGED = 1 << 18  # cells of the sample that candidates are judged on, but at least
LEAST_ROWS_JUDGED = 5000  # this many rows: "With many rows"
POINTS_JUDGED = 4096  # points of two classes that they are judged on; a fit to all rows has more
PRICED_CELLS, PRICED_ROWS = 1 << 13, 64  # on which leaving the reference is priced: step 4
FLOOR_LOSS = 0.01  # nats that the smallest probability of the mixture may cost: step 6
LEAST_WEIGHT = 1e-3  # candidates and final stages of a smaller weight are left out: choices

CANDIDATES: dict[str, tuple[str, dict[str, float]]] = {
    "identity": ("ts", {"prior_strength": HELD}),
    "ts": ("ts", {}),
    "structured": ("structured", {"tol": TOLERANCE}),
    "structured-wide": ("structured", {"tol": TOLERANCE, "bound": 1e-5}),
    "structured-loose": ("structured", {"tol": TOLERANCE, "strength": 0.5}),
    "na-fir": ("na-fir", {"prior_strength": AT_SCORES}),
    "scir": ("scir", {"prior_share": 0.05}),
    "spline": ("spline", {"strength": STRENGTH}),
    "two-class": ("two-class", {}),
    "ir-ovr": ("ir-ovr", {}),
}
"""Method and parameters of each candidate.

The uncalibrated scores ("identity") have T = 1, and a fitted value of exact zeros. Logarithms of
small probabilities tell of classes in some classifiers and mislead in most others: hence structured
scaling with its usual bound on them, and with almost none ("structured-wide"). Where few rows tell
of a real bias, the evidence for it is weak: hence one with weak penalties ("structured-loose").
No candidate chooses a parameter by folds of its own: the weights of the mixture do that.
"""

FINAL_STAGES: dict[str, tuple[str, dict[str, float]]] = {
    "spline": ("spline", {"strength": 1.0}),
    "structured": ("structured", {"tol": TOLERANCE}),
}
"""Fitted to the mixture one after the other, as an average of calibrated probabilities is
under-confident: step 7."""


def make_candidate(name: str, *, in_folds: bool = False) -> Calibrator:
    """Return the unfitted calibrator of a candidate, or as it is fitted in folds."""
    method, parameters = CANDIDATES[name]
    calibrator: Calibrator = make_calibrator(method).set_params(**parameters)
    if in_folds and method != "ts" and getattr(calibrator, "tol", np.inf) < FOLD_TOLERANCE:
        calibrator.set_params(tol=FOLD_TOLERANCE)
    return calibrator


def most_judged(n_classes: int) -> int:
    """Return how many different rows candidates are judged on, if there are more."""
    return max(MOST_CELLS_JUDGED // n_classes, LEAST_ROWS_JUDGED)


class Dealt(NamedTuple):
    """Rows that are judged, the fold of each, and whether they are all that there are."""

    batch: SimplexBatch
    folds: Wholes
    is_all: bool


class Search:
    """Candidates, fitted without each fold and judged on it.

    ``batch`` has the rows that they are judged on, ``folds`` the fold of each, and ``held_out`` the
    probabilities of these rows by fits without it. Rows are a sample by content, or ``dealt`` by
    somebody else who judges the same ones.
    """

    def __init__(self, batch: SimplexBatch, n_folds: int, dealt: Dealt | None = None) -> None:
        self._all, self.n_folds = batch, n_folds
        self.total_weight = float(batch.weight.sum())  # of all rows, judged or not
        if dealt is None:
            judged, most = batch, most_judged(batch.n_classes)
            if batch.n_rows > most:  # some by their content, but all of those that are equal
                chosen = sample_rows(batch.scores, batch.kind, most)
                judged = batch if chosen.all() else batch.take(chosen)
            judged = to_points(judged, POINTS_JUDGED)
            self.n_rows, self._judges_all = judged.n_rows, judged is batch
            self.batch, self.folds = judged.in_folds(n_folds)
        else:
            self.batch, self.folds, self._judges_all = dealt
            self.n_rows = self.batch.n_rows
        self.seconds: dict[str, float] = {}  # that each candidate took
        self.held_out: dict[str, SimplexBatch] = {}
        self._wholes: dict[str, Calibrator] = {}  # fits to all rows that are judged
        self._by_evidence: StructuredFit | None = None  # the last one with penalties by evidence

    def hold_out(self, names: list[str], start: Callable[[str], None]) -> None:
        """Predict each row by every candidate, fitted without the fold of the row.

        The first of ``names`` is temperature scaling, from which others start. ``start`` is called
        with the name of each candidate.
        """
        for name in names:
            start(name)
        known = [self._fit_before_folds(name) for name in names]
        # The uncalibrated scores have no parameter but one of zeros: there is nothing to hold out.
        in_folds = [i for i, name in enumerate(names) if name != "identity"]
        results = cross_fit(
            [make_candidate(names[i], in_folds=True) for i in in_folds],
            self.batch,
            self.folds,
            begins_with_temperature=True,
            known=[known[i] for i in in_folds],
        )
        for i, result in zip(in_folds, results, strict=True):
            self.held_out[names[i]] = self.batch.with_probabilities(result.rows)
            self.seconds[names[i]] += result.seconds

    def _fit_before_folds(self, name: str) -> dict[str, object]:
        """Fit a candidate to all rows that are judged, and return what its fits in folds need.

        Structured scaling has the penalties of this fit in every fold: they are a few numbers that
        hardly depend on a row, and to find them again costs most of the time of a fit. One with
        penalties by evidence begins with those of the one before.
        """
        started, known = perf_counter(), {}
        candidate = make_candidate(name, in_folds=not self._judges_all)
        if name in (BASELINE, "identity"):
            self._wholes[name] = fit_part(make_candidate(name), on_simplex(self.batch))
        if name == "identity":
            rows = outputs_of(self._wholes[name], self.batch.scores)
            self.held_out[name] = self.batch.with_probabilities(rows)
        if isinstance(candidate, StructuredScaling):
            temperature = cast("TemperatureMap", self._wholes[BASELINE].map_)
            whole = candidate._fit_whole(  # noqa: SLF001  (ours)
                on_simplex(self.batch), temperature, self._by_evidence
            )
            if isinstance(candidate.strength, str):
                self._by_evidence = whole
            self._wholes[name] = fit_part(candidate, self.batch, whole=whole)
            known = {"whole": whole, "whole_weight": float(self.batch.weight.sum())}
        self.seconds[name] = perf_counter() - started
        return known

    def of_labels(self, names: list[str]) -> Floats:
        """Return the probability of each row's label by each candidate, from a fit without it."""
        cells = np.arange(self.batch.n_rows), self.batch.class_index
        return np.column_stack([self.held_out[name].scores[cells] for name in names])

    def mix(self, weights: dict[str, float]) -> Floats:
        """Return held-out outputs of a mixture of candidates."""
        parts = [weight * self.held_out[name].scores for name, weight in weights.items()]
        return np.sum(parts, axis=0)  # type: ignore[no-any-return]

    def fit_final_stages(self, weights: dict[str, float], stages: list[str]) -> list[Calibrator]:
        """Fit stages, one after the other, to held-out outputs of a mixture of candidates."""
        batch = self.batch.with_probabilities(self.mix(weights))
        fitted: list[Calibrator] = []
        for name in stages:
            batch = on_simplex(batch)
            method, parameters = FINAL_STAGES[name]
            fitted.append(fit_part(make_calibrator(method).set_params(**parameters), batch))
            batch = batch.with_probabilities(outputs_of(fitted[-1], batch.scores))
        return fitted

    def fit(self, names: list[str]) -> list[Calibrator]:
        """Fit candidates to all rows; what was fitted to them already is not fitted again."""
        batch = on_simplex(self._all)
        if self._judges_all:
            temperature = self._wholes[BASELINE]
        else:
            temperature = fit_part(make_candidate(BASELINE), batch)

        def work(name: str) -> Calibrator:
            if name == BASELINE:
                return temperature
            if self._judges_all and name in self._wholes:
                return self._wholes[name]
            return fit_part(make_candidate(name), batch, cast("TemperatureMap", temperature.map_))

        return list(threads.each(work, names))
