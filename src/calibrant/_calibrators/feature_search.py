"""What ``FeatureCalibrator`` learns from held-out rows: powers of the learners, and their share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from calibrant import _threads as threads
from calibrant._calibrators import composition as parts
from calibrant._calibrators.auto import AutoCalibrator
from calibrant._calibrators.auto_search import Dealt, Search, most_judged
from calibrant._gate import softmax
from calibrant._kernels.rows import row_hashes
from calibrant._maps.features import bounded_logs, learner_inputs, raised
from calibrant._solvers.log_pool import solve_log_pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from calibrant._calibrators.base import Calibrator
    from calibrant._gate import SimplexBatch
    from calibrant._solvers.report import SolverReport

    Array = NDArray[np.float64]
    Learnt = Callable[[Array], Array]

RIDGE = 3.0
"""Nats that a power which is 1 away from the score alone costs."""

CLEAR_GAIN = 6.0
"""Held-out gain of the features, in nats, at which the pool has half of the weight."""

SHARPNESS_PRICE, PRICE_OF_FEW = 30.0, 1000.0
"""The result is raised to the power s for the price, in nats, of (a + b / E) log(s)^2, with E the
held-out loss: a pool that is held to the scores is too timid, and few errors do not prove it."""

LEAST_SHARE = 1e-3
"""A pool of a smaller weight, and a learner of a smaller power, are left out."""


class FeatureRows(NamedTuple):
    """Rows, and what learners read of them."""

    batch: SimplexBatch
    inputs: Array

    def take(self, rows: NDArray[Any]) -> FeatureRows:
        """Return some of the rows, by index or mask."""
        return FeatureRows(self.batch.take(rows), self.inputs[rows])

    def fit(self, learner: Any) -> Learnt:
        """Fit a learner."""
        batch = self.batch
        learnt: Learnt = learner.fit(self.inputs, batch.class_index, batch.weight, batch.n_classes)
        return learnt


def in_order(batch: SimplexBatch, features: Array) -> FeatureRows:
    """Return the rows in an order that depends on their content alone."""
    features = np.where(np.isnan(features), np.nan, features)  # one NaN of the many
    content = np.column_stack([batch.scores, batch.weight, features + 0.0])  # no -0.0
    hashes = row_hashes(np.ascontiguousarray(content).view(np.int64), batch.class_index)
    order = np.lexsort((batch.class_index, hashes))
    batch = batch.take(order)
    return FeatureRows(batch, learner_inputs(batch.scores, batch.kind, features[order]))


@dataclass(frozen=True, slots=True)
class Choice:
    """How learners and the calibrator of the scores alone are combined.

    Attributes
    ----------
    names : list of str
        Learners that are used.
    powers : ndarray
        Powers in the pool: of the calibrator of the scores alone, then of each of these.
    share : float
        Weight of the pool in the mean of both.
    sharpness : float
        Power to which that mean is raised.
    gain : float
        What the features gained on held-out rows, in nats.
    report : SolverReport
        Convergence of the powers.
    """

    names: list[str]
    powers: Array
    share: float
    sharpness: float
    gain: float
    report: SolverReport


class FeatureSearch:
    """Learners and a calibrator of the scores alone, fitted without each fold and judged on it.

    Attributes
    ----------
    judged : FeatureRows
        Rows that are judged: all, or a sample; ``folds`` has the fold of each.
    score : ndarray
        Probabilities of these rows by the calibrator of the scores alone.
    fits : dict of str to list
        Fits of each learner, by fold.
    learnt : dict of str to ndarray
        Probabilities of the rows by each learner, from the fit without their fold.
    """

    def __init__(self, rows: FeatureRows, n_folds: int) -> None:
        self._all = rows
        n_rows = min(rows.batch.n_rows, most_judged(rows.batch.n_classes))
        some = rows.batch.take(slice(0, n_rows))  # a random sample, as the order is by hashes
        row, self.folds, weight = some.deal(n_folds)
        self.judged = FeatureRows(replace(some.take(row), weight=weight), rows.inputs[row])
        self._judges_all = n_rows == rows.batch.n_rows
        self.score = np.empty((0, 0))
        self.fits: dict[str, list[Learnt]] = {}
        self.learnt: dict[str, Array] = {}

    def fit_score(self, calibrator: Calibrator) -> Calibrator:
        """Fit the calibrator of the scores alone to all rows, and without each fold."""
        rows, judged = parts.on_simplex(self._all.batch), self.judged.batch
        if isinstance(calibrator, AutoCalibrator):
            dealt = Dealt(judged, self.folds, self._judges_all)
            search = Search(rows, calibrator.cv, dealt)
            fitted = parts.fit_part(calibrator, rows, search=search)
            self.score = fitted._held_out(search)  # noqa: SLF001  (ours)
        else:
            fitted = parts.fit_part(calibrator, rows)
            self.score = parts.out_of_fold(calibrator, judged, self.folds)
        return fitted

    def fit_learners(self, learners: dict[str, Any]) -> None:
        """Fit every learner without each fold; one that cannot be fitted without some is left out.

        A learner needs two classes at least.
        """
        names = np.unique(self.folds)
        trained = [self.judged.take(self.folds != fold) for fold in names]
        if len(names) < 2 or any(len(np.unique(t.batch.class_index)) < 2 for t in trained):
            return
        tasks = [(name, i) for name in learners for i in range(len(names))]
        found = threads.each(lambda task: trained[task[1]].fit(learners[task[0]]), tasks)
        for (name, i), fit in zip(tasks, found, strict=True):
            own = self.folds == names[i]
            self.fits.setdefault(name, []).append(fit)
            self.learnt.setdefault(name, np.empty_like(self.score))[own] = fit(
                self.judged.inputs[own]
            )

    def choose(self, caution: float) -> Choice:
        """Return the powers of the largest held-out likelihood, and the share of the pool.

        With G the gain of the pool over the score alone, raised to the power that suits it best,
        the share is G / (G + ``CLEAR_GAIN``): what mere boldness gains is not the features' merit.
        """
        batch, names = self.judged.batch, list(self.learnt)
        logs = bounded_logs([self.score, *self.learnt.values()])
        rows = logs, batch.class_index, batch.weight
        powers, report = solve_log_pool(*rows, strength=caution, ridge=RIDGE)
        alone, _ = solve_log_pool(logs[:, :, :1], *rows[1:], strength=0.0, ridge=0.0)
        gain = self.loss(softmax(logs[:, :, :1] @ alone)) - self.loss(softmax(logs @ powers))
        share = gain / (gain + CLEAR_GAIN) if gain > 0.0 else 0.0
        kept = powers[1:] >= LEAST_SHARE
        if share < LEAST_SHARE or not kept.any():
            return Choice([], np.ones(1), 0.0, 1.0, max(gain, 0.0), report)
        used = [name for name, is_used in zip(names, kept, strict=True) if is_used]
        found = Choice(used, powers[np.append(True, kept)], share, 1.0, gain, report)
        mean = self.combine(found, [self.learnt[name] for name in used], slice(None))
        return replace(found, sharpness=self._sharpness(mean))

    def _sharpness(self, mean: Array) -> float:
        """Return the power s of least loss of mean^s, with its price."""
        logs = bounded_logs([mean])[:, :, 0]
        price = SHARPNESS_PRICE + PRICE_OF_FEW / max(self.loss(mean), 1.0)

        def value(log_s: float) -> float:
            return self.loss(softmax(np.exp(log_s) * logs)) + price * log_s**2

        return float(np.exp(minimize_scalar(value, bounds=(-1.0, 1.0), method="bounded").x))

    def combine(self, choice: Choice, learnt: list[Array], rows: NDArray[Any] | slice) -> Array:
        """Return what a choice makes of some rows, with what its learners say of them."""
        score = self.score[rows]
        pool = softmax(bounded_logs([score, *learnt]) @ choice.powers)
        mean: Array = choice.share * pool + (1.0 - choice.share) * score
        return raised(mean, choice.sharpness)

    def loss(self, probabilities: Array, rows: NDArray[Any] | slice = slice(None)) -> float:
        """Return the NLL of some of the judged rows, in nats."""
        batch = self.judged.batch.take(rows)
        own = probabilities[np.arange(batch.n_rows), batch.class_index]
        return -float(batch.weight @ np.log(np.maximum(own, 1e-300)))
