"""Held-out predictions of one method, or of one after the other, with all that they share."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from calibrant import _threads as threads
from calibrant._calibrators.auto_report import BASELINE
from calibrant._calibrators.composition import (
    cross_fit,
    fit_part,
    on_simplex,
    out_of_fold,
    outputs_of,
)
from calibrant._calibrators.methods import make_calibrator
from calibrant._calibrators.structured import StructuredScaling
from calibrant._row_order import sample_rows
from calibrant._solvers.monotone_spline import STRENGTH
from calibrant._solvers.temperature import HELD

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from calibrant._calibrators.base import Calibrator
    from calibrant._maps.logits import TemperatureMap
    from calibrant._simplex import SimplexBatch

TOLERANCE, FOLD_TOLERANCE = 1e-4, 1e-3
"""Certificates asked for of structured scaling, and of all in folds: far below the noise of a
held-out likelihood."""

STAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "identity": ("ts", {"prior_strength": HELD}),
    "ts": ("ts", {}),
    "structured": ("structured", {"tol": TOLERANCE}),
    "structured-wide": ("structured", {"tol": TOLERANCE, "bound": 1e-5}),
    "structured-loose": ("structured", {"tol": TOLERANCE, "strength": 0.5}),
    "na-fir": ("na-fir", {"prior_strength": 30.0}),
    "scir": ("scir", {"prior_share": 0.02}),
    "spline": ("spline", {"strength": STRENGTH}),
    "two-class": ("two-class", {}),
    "ir-ovr": ("ir-ovr", {}),
}
"""What a path is made of: methods with parameters. Scores as they are have T = 1, and a reading of
exact zeros. Logarithms of small probabilities tell of classes in some classifiers, and mislead in
most others: structured scaling is there with its usual bound on them, and with almost none. With
weak penalties it is there, too: where few rows tell of a real bias, the evidence for it is weak.

None of them chooses a parameter by folds of its own: weights of the mixture do what a prior towards
temperature scaling would do. Within the validation parts of real classifiers this is as good as
choosing the parameters by cross-validation in each fold (``tools/measure_auto.py``).
"""

FINISH: dict[str, tuple[str, dict[str, Any]]] = {
    "spline": ("spline", {"strength": 1.0}),
    "structured": ("structured", {"tol": TOLERANCE}),
}
"""What is fitted to the mixture as a whole, one after the other: an average of honest probabilities
is too timid."""

MOST_CELLS_JUDGED = 1 << 18
LEAST_ROWS_JUDGED = 5000
"""Different rows that candidates are judged on: so many cells of them, but at least these rows."""

ROWS_TO_TRUST_OUTPUTS = 100
"""From here on, outputs for the rows that a first stage was fitted to are as good as held-out ones,
where judging candidates did not need those of all rows."""


def make_stage(name: str, *, in_folds: bool = False) -> Calibrator:
    """Return the unfitted calibrator of a stage, or as it is fitted in folds."""
    method, parameters = STAGES[name]
    stage = make_calibrator(method, **parameters)
    if in_folds and method != "ts" and getattr(stage, "tol", np.inf) < FOLD_TOLERANCE:
        stage.set_params(tol=FOLD_TOLERANCE)
    return stage


def prefixes(path: str) -> list[str]:
    """Return what a path begins with, and itself."""
    first = path.rpartition(" > ")[0]
    return [first, path] if first else [path]


def most_judged(n_classes: int) -> int:
    """How many different rows candidates are judged on, if there are more."""
    return max(MOST_CELLS_JUDGED // n_classes, LEAST_ROWS_JUDGED)


def judged_rows(batch: SimplexBatch) -> SimplexBatch:
    """Return the rows that candidates are judged on, by their content; all, if they are few."""
    most = most_judged(batch.n_classes)
    if batch.n_rows <= most:
        return batch
    chosen = sample_rows(batch.scores, batch.kind, most)
    return batch if chosen.all() else batch.take(chosen)


class Search:
    """Paths, fitted without a fold each and judged on it; first stages are shared between them.

    The second stage of a path is fitted to held-out outputs of the first, and judged on folds of
    these: its few parameters see no row's own label.
    """

    def __init__(self, batch: SimplexBatch, n_folds: int) -> None:
        self._all, self.n_folds = batch, n_folds
        judged = judged_rows(batch)
        self.n_rows, self._judges_all = judged.n_rows, judged is batch
        self.batch, self.folds = judged.in_folds(n_folds)
        self.seconds: dict[str, float] = {}
        self._wholes: dict[str, Calibrator] = {}
        self.held_out: dict[str, SimplexBatch] = {}

    def hold_out(self, paths: list[str], start: Callable[[str], None]) -> None:
        """Find all probabilities of each row on each path, from a fit without the row's fold.

        Paths that begin with another one come after it.
        """
        missing = list(dict.fromkeys(prefix for path in paths for prefix in prefixes(path)))
        missing = [path for path in missing if path not in self.held_out]
        for first in dict.fromkeys(path.rpartition(" > ")[0] for path in missing):
            wave = [path for path in missing if path.rpartition(" > ")[0] == first]
            for path in wave:
                if path in paths:
                    start(path)
            self._hold_out(first, wave)
        for path in missing:  # no candidate: its time is that of the first it leads to
            if path not in paths:
                owner = next(one for one in paths if path in prefixes(one))
                self.seconds[owner] += self.seconds[path]

    def _hold_out(self, first: str, wave: list[str]) -> None:
        """Do so for paths that differ in their last stage."""
        source = self.held_out[first] if first else self.batch
        for path in wave:
            if path.rpartition(" > ")[2] == "identity":  # which has no parameter but one of zeros
                started = perf_counter()
                rows = outputs_of(self._fit_whole(path, source), source.scores)
                self.held_out[path] = self.batch.with_probabilities(rows)
                self.seconds[path] = perf_counter() - started
        wave = [path for path in wave if path not in self.held_out]
        stages = [make_stage(path.rpartition(" > ")[2], in_folds=True) for path in wave]
        begins = wave[:1] == [BASELINE if not first else f"{first} > {BASELINE}"]
        known = self._fit_structured(first, source, wave)
        found_by = cross_fit(
            stages, source, self.folds, begins_with_temperature=begins, known=known
        )
        for path, found in zip(wave, found_by, strict=True):
            self.held_out[path] = self.batch.with_probabilities(found.rows)
            self.seconds[path] = found.seconds + self.seconds.get(path, 0.0)

    def _fit_whole(self, path: str, source: SimplexBatch) -> Calibrator:
        """Fit the last stage of a path to all rows that are judged."""
        if path not in self._wholes:
            stage = make_stage(path.rpartition(" > ")[2])
            self._wholes[path] = fit_part(stage, on_simplex(source))
        return self._wholes[path]

    def _fit_structured(
        self, first: str, source: SimplexBatch, wave: list[str]
    ) -> list[dict[str, Any]]:
        """Fit structured scaling to all rows, which fits without a fold begin with.

        They have its penalties, a few numbers that a row left out has hardly a part in; to find
        them again costs most of the time of a fit. Those of the second begin with the first's.
        """
        known: dict[str, dict[str, Any]] = {}
        like = None
        for path in wave:
            stage = make_stage(path.rpartition(" > ")[2], in_folds=not self._judges_all)
            if isinstance(stage, StructuredScaling):
                started = perf_counter()
                start = self._fit_whole(f"{first} > {BASELINE}" if first else BASELINE, source)
                temperature = cast("TemperatureMap", start.map_)
                whole = stage._fit_whole(on_simplex(source), temperature, like)  # noqa: SLF001
                like = whole if isinstance(stage.strength, str) else like
                self._wholes[path] = fit_part(stage, source, whole=whole)
                known[path] = {"whole": whole, "whole_weight": float(source.weight.sum())}
                self.seconds[path] = perf_counter() - started
        return [known.get(path, {}) for path in wave]

    def own(self, path: str) -> NDArray[np.float64]:
        """Probability of each row's label, from a fit without its fold."""
        rows = np.arange(self.batch.n_rows)
        own: NDArray[np.float64] = self.held_out[path].scores[rows, self.batch.class_index]
        return own

    def finish(self, weights: dict[str, float], stages: list[str]) -> list[Calibrator]:
        """Fit stages, one after the other, to held-out outputs of a mixture of paths."""
        rows = sum(weight * self.held_out[path].scores for path, weight in weights.items())
        batch = self.batch.with_probabilities(np.asarray(rows))
        found: list[Calibrator] = []
        for name in stages:
            batch = on_simplex(batch)
            method, parameters = FINISH[name]
            found.append(fit_part(make_calibrator(method, **parameters), batch))
            batch = batch.with_probabilities(outputs_of(found[-1], batch.scores))
        return found

    def fit(self, paths: list[str]) -> list[list[Calibrator]]:
        """Fit the stages of paths to all rows, the second to held-out outputs of the first."""
        needed = list(dict.fromkeys(prefix for path in paths for prefix in prefixes(path)))
        fitted: dict[str, Calibrator] = {}
        for n_stages in (1, 2):
            wave = [path for path in needed if len(prefixes(path)) == n_stages]
            firsts = dict.fromkeys(path.rpartition(" > ")[0] for path in wave)
            sources = {first: on_simplex(self._whole_source(first, fitted)) for first in firsts}
            starts = {first: fit_part(make_stage(BASELINE), sources[first]) for first in firsts}

            def work(path: str, sources: Any = sources, starts: Any = starts) -> Calibrator:
                first, _, last = path.rpartition(" > ")
                if last == BASELINE:
                    return starts[first]  # type: ignore[no-any-return]
                if self._judges_all and path in self._wholes:
                    return self._wholes[path]
                return fit_part(make_stage(last), sources[first], starts[first].map_)

            fitted |= zip(wave, threads.each(work, wave), strict=True)
        return [[fitted[prefix] for prefix in prefixes(path)] for path in paths]

    def _whole_source(self, first: str, fitted: dict[str, Calibrator]) -> SimplexBatch:
        """Return what the stage after ``first`` is fitted to, where all rows are."""
        if not first:
            return self._all
        if self._judges_all:
            return self.held_out[first]
        batch, stage = self._all, make_stage(first)
        n_parameters = stage._n_parameters(batch.n_classes)  # noqa: SLF001  (ours)
        if batch.n_rows >= ROWS_TO_TRUST_OUTPUTS * n_parameters:
            return batch.with_probabilities(outputs_of(fitted[first], batch.scores))
        batch, folds = batch.in_folds(self.n_folds)
        return batch.with_probabilities(out_of_fold(make_stage(first, in_folds=True), batch, folds))
