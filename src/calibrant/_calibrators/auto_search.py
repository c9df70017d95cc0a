"""Held-out predictions of the candidates of ``AutoCalibrator``, with all that they share."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from calibrant import _threads as threads
from calibrant._calibrators.auto_report import BASELINE
from calibrant._calibrators.composition import cross_fit, fit_part, on_simplex, outputs_of
from calibrant._calibrators.methods import make_calibrator
from calibrant._calibrators.structured import StructuredScaling
from calibrant._gate import SimplexBatch
from calibrant._row_order import sample_rows
from calibrant._solvers.monotone_spline import STRENGTH
from calibrant._solvers.rows import AT_SCORES, to_points
from calibrant._solvers.temperature import HELD

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibrant._calibrators.base import Calibrator
    from calibrant._maps.logits import TemperatureMap
    from calibrant._solvers.structured import StructuredFit

TOLERANCE, FOLD_TOLERANCE = 1e-4, 1e-3
"""Certificates asked for of structured scaling, and of all in folds: far below the noise of a
held-out likelihood."""

CANDIDATES: dict[str, tuple[str, dict[str, Any]]] = {
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

No candidate chooses a parameter by folds of its own: the weights of the mixture do what a prior
towards temperature scaling would do. On validation parts of real classifiers this is as good as
choosing the parameters by cross-validation in each fold (``tools/measure_auto.py``).
"""

FINISH: dict[str, tuple[str, dict[str, Any]]] = {
    "spline": ("spline", {"strength": 1.0}),
    "structured": ("structured", {"tol": TOLERANCE}),
}
"""Final stages, fitted to the mixture one after the other: an average of calibrated probabilities
is under-confident."""

MOST_CELLS_JUDGED = 1 << 18
LEAST_ROWS_JUDGED = 5000
"""Candidates are judged on a sample of at most this many cells, but at least this many rows."""

POINTS_JUDGED = 4096
"""Points of two classes that candidates are judged on; what is fitted to all rows has more."""


def make_candidate(name: str, *, in_folds: bool = False) -> Calibrator:
    """Return the unfitted calibrator of a candidate, or as it is fitted in folds."""
    method, parameters = CANDIDATES[name]
    calibrator = make_calibrator(method, **parameters)
    if in_folds and method != "ts" and getattr(calibrator, "tol", np.inf) < FOLD_TOLERANCE:
        calibrator.set_params(tol=FOLD_TOLERANCE)
    return calibrator


def most_judged(n_classes: int) -> int:
    """Return how many different rows candidates are judged on, if there are more."""
    return max(MOST_CELLS_JUDGED // n_classes, LEAST_ROWS_JUDGED)


def judged_rows(batch: SimplexBatch) -> SimplexBatch:
    """Return the rows that candidates are judged on, by their content; all, if they are few."""
    most = most_judged(batch.n_classes)
    if batch.n_rows <= most:
        return batch
    chosen = sample_rows(batch.scores, batch.kind, most)
    return batch if chosen.all() else batch.take(chosen)


class Dealt(NamedTuple):
    """Rows that are judged, the fold of each, and whether they are all that there are."""

    batch: SimplexBatch
    folds: NDArray[np.int64]
    is_all: bool


class Search:
    """Candidates, fitted without each fold and judged on it.

    Parameters
    ----------
    batch : SimplexBatch
        All rows.
    n_folds : int
    dealt : Dealt, optional
        Rows to judge, where somebody else judges the same ones; by default a sample by content.

    Attributes
    ----------
    batch : SimplexBatch
        Rows that candidates are judged on; ``folds`` has the fold of each.
    n_rows : int
        Number of these rows, before repeats were dealt to several folds.
    held_out : dict of str to SimplexBatch
        Probabilities of the rows by each candidate, from fits without the fold of a row.
    seconds : dict of str to float
        Time that each candidate took.
    total_weight : float
        Weight of all rows, judged or not.
    """

    def __init__(self, batch: SimplexBatch, n_folds: int, dealt: Dealt | None = None) -> None:
        self._all, self.n_folds = batch, n_folds
        self.total_weight = float(batch.weight.sum())
        if dealt is None:
            judged = to_points(judged_rows(batch), POINTS_JUDGED)
            self.n_rows, self._judges_all = judged.n_rows, judged is batch
            self.batch, self.folds = judged.in_folds(n_folds)
        else:
            self.batch, self.folds, self._judges_all = dealt
            self.n_rows = self.batch.n_rows
        self.seconds: dict[str, float] = {}
        self.held_out: dict[str, SimplexBatch] = {}
        self._wholes: dict[str, Calibrator] = {}  # fits to all rows that are judged
        self._by_evidence: StructuredFit | None = None  # the last one with penalties by evidence

    def hold_out(self, names: list[str], start: Callable[[str], None]) -> None:
        """Predict each row by every candidate, fitted without the fold of the row.

        The first of ``names`` is temperature scaling, from which others start. ``start`` is told
        of each candidate.
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

    def _fit_before_folds(self, name: str) -> dict[str, Any]:
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

    def of_labels(self, names: list[str]) -> NDArray[np.float64]:
        """Return the probability of each row's label by each candidate, from a fit without it."""
        cells = np.arange(self.batch.n_rows), self.batch.class_index
        return np.column_stack([self.held_out[name].scores[cells] for name in names])

    def mix(self, weights: dict[str, float]) -> NDArray[np.float64]:
        """Return held-out outputs of a mixture of candidates."""
        parts = [weight * self.held_out[name].scores for name, weight in weights.items()]
        return np.sum(parts, axis=0)  # type: ignore[no-any-return]

    def fit_final_stages(self, weights: dict[str, float], stages: list[str]) -> list[Calibrator]:
        """Fit stages, one after the other, to held-out outputs of a mixture of candidates."""
        batch = self.batch.with_probabilities(self.mix(weights))
        fitted: list[Calibrator] = []
        for name in stages:
            batch = on_simplex(batch)
            method, parameters = FINISH[name]
            fitted.append(fit_part(make_calibrator(method, **parameters), batch))
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
