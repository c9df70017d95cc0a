"""What ``FeatureCalibrator`` learns from held-out rows: powers of learners, and a report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from calibrant import _threads as threads
from calibrant._calibrators import composition as parts
from calibrant._calibrators.auto import AutoCalibrator
from calibrant._calibrators.auto_search import Dealt, Search, most_judged
from calibrant._gate import softmax
from calibrant._kernels.rows import row_hashes
from calibrant._maps.features import bounded_logs, learner_inputs, raised
from calibrant._result import doc, result
from calibrant._solvers.feature_learners import solve_log_pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibrant._calibrators.base import Calibrator
    from calibrant._gate import FeatureColumn, SimplexBatch
    from calibrant._solvers.feature_learners import Boosting, OtherClassifier, Ridge
    from calibrant._solvers.report import SolverReport
    from calibrant._types import Array, Floats

    Learnt = Callable[[Floats], Floats]
    Learner = Boosting | Ridge | OtherClassifier

# Chosen as docs/evidence/features.md says.
RIDGE = 0.5  # nats that a power which is 1 away from the score alone costs
DOUBT = 2.0  # standard errors of the gain of the features at which the pool has half of the weight,
CLEAR_GAIN = 4.0  # and nats, where the gain is certain
# Price a + b / E, with E the held-out loss, of the squared logarithm of the sharpness: a pool that
# is shrunk to the scores is under-confident, and few errors do not prove it.
SHARPNESS_PRICE, PRICE_OF_FEW = 30.0, 1000.0
FEW_CELLS = 2000  # scores below which rows are dealt twice, as the gain depends on the dealing
LEAST_SHARE = 1e-3  # a pool of a smaller weight, and a learner of a smaller power, are left out
MOST_ROWS_SHUFFLED = 1000  # held-out rows on which the importance of features is measured
SHOWN = 10  # features that are shown; ``importances`` has all


class FeatureRows(NamedTuple):
    """Rows, and what learners read of them."""

    batch: SimplexBatch
    inputs: Floats

    def take(self, rows: Array) -> FeatureRows:
        """Return some of the rows, by index or mask."""
        return FeatureRows(self.batch.take(rows), self.inputs[rows])

    def fit(self, learner: Learner) -> Learnt:
        """Fit a learner."""
        batch = self.batch
        learnt: Learnt = learner.fit(self.inputs, batch.class_index, batch.weight, batch.n_classes)
        return learnt


def in_order(batch: SimplexBatch, features: Floats) -> FeatureRows:
    """Return the rows in an order that depends on their content alone."""
    features = np.where(np.isnan(features), np.nan, features)  # one NaN of the many
    content = np.column_stack([batch.scores, batch.weight, features + 0.0])  # no -0.0
    hashes = row_hashes(np.ascontiguousarray(content).view(np.int64), batch.class_index)
    order = np.lexsort((batch.class_index, hashes))
    batch = batch.take(order)
    return FeatureRows(batch, learner_inputs(batch.scores, batch.kind, features[order]))


@dataclass(frozen=True, slots=True)
class Choice:
    """How learners and the calibrator of the scores alone are combined."""

    names: list[str]  # of the learners that are used
    powers: Floats  # in the pool: of the calibrator of the scores alone, then of each learner
    share: float  # weight of the pool in the mean of both
    sharpness: float  # power to which that mean is raised
    report: SolverReport  # convergence of the powers


class FeatureSearch:
    """Learners and a calibrator of the scores alone, fitted without each fold and judged on it.

    ``judged`` has all rows, or a sample. Few rows are dealt twice, to other folds the second time:
    they are there twice, with the dealing of each in ``dealing`` and its fold in ``folds``.
    ``score`` has the probabilities of these rows by the calibrator of the scores alone, ``learnt``
    those by each learner, from its fit without their fold; ``fits`` has these, by fold.
    """

    def __init__(self, rows: FeatureRows, n_folds: int) -> None:
        self._all = rows
        n_judged = min(rows.batch.n_rows, most_judged(rows.batch.n_classes))
        some = rows.batch.take(slice(0, n_judged))  # a random sample, as the order is by hashes
        self._judges_all = n_judged == rows.batch.n_rows
        # Another number of folds is another dealing by content.
        numbers = [n_folds, n_folds + 1] if some.scores.size < FEW_CELLS else [n_folds]
        row_lists, fold_lists, weights = zip(
            *(some.deal(number) for number in numbers), strict=True
        )
        row, weight = np.concatenate(row_lists), np.concatenate(weights)
        self.judged = FeatureRows(replace(some.take(row), weight=weight), rows.inputs[row])
        self.folds = np.concatenate([folds + i * n_folds for i, folds in enumerate(fold_lists)])
        self.dealing = np.repeat(np.arange(len(numbers)), [len(folds) for folds in fold_lists])
        self._n_dealings, self.n_rows = len(numbers), len(row_lists[0])
        self.score = np.empty((len(row), rows.batch.n_classes))
        self.fits: dict[str, list[Learnt]] = {}
        self.learnt: dict[str, Floats] = {}

    def fit_score(self, calibrator: Calibrator) -> Calibrator:
        """Fit the calibrator of the scores alone to all rows, and without each fold."""
        rows = parts.on_simplex(self._all.batch).merged()
        fits = []
        for i in range(self._n_dealings):
            mine = self.dealing == i
            judged, folds = self.judged.batch.take(mine), self.folds[mine] - self.folds[mine].min()
            if isinstance(calibrator, AutoCalibrator):
                # Its own folds are those of the learners, so that nothing is fitted twice. Rows
                # that features alone tell apart are one.
                keys = np.ascontiguousarray(judged.scores + 0.0).view(np.int64)  # no -0.0
                hashes = row_hashes(keys, judged.class_index + judged.n_classes * folds)
                _, some, place = np.unique(hashes, return_index=True, return_inverse=True)
                weight = np.bincount(place, judged.weight).astype(np.float64)
                merged = replace(judged.take(some), weight=weight)
                search = Search(rows, calibrator.cv, Dealt(merged, folds[some], self._judges_all))
                fits.append(parts.fit_part(calibrator, rows, search=search))
                self.score[mine] = fits[-1]._held_out(search)[place]  # noqa: SLF001  (ours)
            else:
                self.score[mine] = parts.out_of_fold(calibrator, judged, folds)
        return fits[0] if fits else parts.fit_part(calibrator, rows)

    def fit_learners(self, learners: dict[str, Learner]) -> None:
        """Fit every learner without each fold; one that cannot be fitted without some is left out.

        A learner needs two classes at least.
        """
        held = [self.folds == fold for fold in np.unique(self.folds)]
        others = [(self.dealing == self.dealing[rows][0]) & ~rows for rows in held]
        trained = [self.judged.take(rows) for rows in others]
        if len(held) < 2 or any(len(np.unique(t.batch.class_index)) < 2 for t in trained):
            return
        tasks = [(name, fold) for name in learners for fold in range(len(held))]
        fits = threads.each(lambda task: trained[task[1]].fit(learners[task[0]]), tasks)
        for (name, fold), fit in zip(tasks, fits, strict=True):
            self.fits.setdefault(name, []).append(fit)
            learnt = self.learnt.setdefault(name, np.empty_like(self.score))
            learnt[held[fold]] = fit(self.judged.inputs[held[fold]])

    def choose(self, caution: float) -> Choice:
        """Return the powers of the largest held-out likelihood, and the share of the pool.

        With G the gain of the pool over the score alone, raised to the power that suits it best,
        and s its standard error, the share is

            1 / (1 + (DOUBT s / G)^3 + CLEAR_GAIN / G).
        """
        batch, names = self.judged.batch, list(self.learnt)
        weight = batch.weight / self._n_dealings
        logs = bounded_logs([self.score, *self.learnt.values()])
        rows = logs, batch.class_index, weight
        powers, report = solve_log_pool(*rows, strength=caution, ridge=RIDGE)
        alone, _ = solve_log_pool(logs[:, :, :1], *rows[1:], strength=0.0, ridge=0.0)
        labels = np.arange(batch.n_rows), batch.class_index
        pool, score = softmax(logs @ powers), softmax(logs[:, :, :1] @ alone)
        gains = np.log(pool[labels]) - np.log(score[labels])
        gain = float(weight @ gains)
        error = float(np.sqrt(weight @ (gains - gain / weight.sum()) ** 2))
        share = 0.0
        if gain > LEAST_SHARE:  # the share is less than that otherwise
            share = 1.0 / (1.0 + (DOUBT * error / gain) ** 3 + CLEAR_GAIN / gain)
        kept = powers[1:] >= LEAST_SHARE
        if share < LEAST_SHARE or not kept.any():
            return Choice([], np.ones(1), 0.0, 1.0, report)
        used = [name for name, is_used in zip(names, kept, strict=True) if is_used]
        choice = Choice(used, powers[np.append(True, kept)], share, 1.0, report)
        mean = self.combine(choice, [self.learnt[name] for name in used], slice(None))
        # Where the features say little, the result is that of the scores: so is its sharpness.
        return replace(choice, sharpness=self._sharpness(mean) ** share)

    def _sharpness(self, mean: Floats) -> float:
        """Return the power s of least loss of mean^s, with its price."""
        logs = bounded_logs([mean])[:, :, 0]
        price = SHARPNESS_PRICE + PRICE_OF_FEW / max(self.loss(mean), 1.0)

        def value(log_s: float) -> float:
            return self.loss(softmax(np.exp(log_s) * logs)) + price * log_s**2

        return float(np.exp(minimize_scalar(value, bounds=(-1.0, 1.0), method="bounded").x))

    def combine(self, choice: Choice, learnt: list[Floats], rows: Array | slice) -> Floats:
        """Return the result for some rows, from the probabilities of the learners."""
        score = self.score[rows]
        pool = softmax(bounded_logs([score, *learnt]) @ choice.powers)
        mean: Floats = choice.share * pool + (1.0 - choice.share) * score
        return raised(mean, choice.sharpness)

    def loss(self, probabilities: Floats, rows: Array | slice = slice(None)) -> float:
        """Return the NLL of some of the judged rows, in nats."""
        batch = self.judged.batch.take(rows)
        own = probabilities[np.arange(batch.n_rows), batch.class_index]
        return -float(batch.weight @ np.log(np.maximum(own, 1e-300))) / self._n_dealings


@result()
class Importance:
    """What a feature is worth."""

    feature: str = doc("Name of the column.")
    loss: float = doc("By how much the mean held-out NLL grows when the column is shuffled.")


@result(repr=False)
class FeatureReport:
    """What ``FeatureCalibrator`` gained on held-out rows."""

    n_rows: int = doc("Number of held-out rows: all, or a sample.")
    n_folds: int = doc("Number of folds, of two dealings where rows are few.")
    score_nll: float = doc("Mean NLL of the calibrator of the scores alone.")
    nll: float = doc("Mean NLL of the result.")
    share: float = doc("Weight of the pool of all predictions in the result.")
    learners: tuple[str, ...] = doc("Learners in the pool.")
    learner_nlls: tuple[float, ...] = doc("Mean NLL of each of these alone.")
    powers: tuple[float, ...] = doc("Power of the scores in the pool, then of each learner.")
    importances: tuple[Importance, ...] = doc("What each feature is worth, the best one first.")

    @property
    def why(self) -> str:
        """Explanation of the result in a few sentences."""
        judged = f"{self.n_rows:,} held-out rows, {self.n_folds} folds"
        if not self.learners:
            return (
                f"The features add nothing to the scores that is certain ({judged}): the result is "
                f"that of the scores alone, with an NLL of {self.score_nll:.4f}."
            )
        gain = 1.0 - self.nll / self.score_nll if self.score_nll > 0.0 else 0.0
        best = ", ".join(one.feature for one in self.importances[:3] if one.loss > 0.0)
        matter = f" What matters most: {best}." if best else ""
        return (
            f"With the features the NLL is {self.nll:.4f} instead of {self.score_nll:.4f}, "
            f"{gain:.1%} less ({judged}). The pool with {', '.join(self.learners)} has a weight "
            f"of {self.share:.0%}; the scores alone have the rest.{matter}"
        )

    def __repr__(self) -> str:
        names = ["scores alone", *self.learners]
        nlls = [self.score_nll, *self.learner_nlls]
        lines = [f"{'prediction':<24}{'NLL':>9}{'power':>9}"]
        for name, nll, power in zip(names, nlls, self.powers, strict=True):
            lines.append(f"{name:<24}{nll:>9.4f}{power:>9.2f}")
        lines.append(f"{'result':<24}{self.nll:>9.4f}")
        if self.importances:
            lines += ["", f"{'feature':<24}{'NLL if shuffled':>18}"]
            shown = self.importances[:SHOWN]
            lines += [f"{one.feature:<24.24}{one.loss:>+18.4f}" for one in shown]
        return "\n".join([*lines, "", self.why])


def report_of(search: FeatureSearch, choice: Choice, columns: list[FeatureColumn]) -> FeatureReport:
    """Return the report of a search and its choice."""
    total = float(search.judged.batch.weight[search.dealing == 0].sum())
    learnt = [search.learnt[name] for name in choice.names]
    combined = search.combine(choice, learnt, slice(None))
    return FeatureReport(
        n_rows=search.n_rows,
        n_folds=int(search.folds.max()) + 1,
        score_nll=search.loss(search.score) / total,
        nll=search.loss(combined) / total,
        share=choice.share,
        learners=tuple(choice.names),
        learner_nlls=tuple(search.loss(rows) / total for rows in learnt),
        powers=tuple(choice.powers.tolist()),
        importances=tuple(_importances(search, choice, columns)) if choice.names else (),
    )


def _importances(
    search: FeatureSearch, choice: Choice, columns: list[FeatureColumn]
) -> list[Importance]:
    """Return by how much the NLL of held-out rows grows when a feature is shuffled among them."""
    some = np.arange(min(search.n_rows, MOST_ROWS_SHUFFLED))  # of the first dealing
    inputs, folds = search.judged.inputs[some], search.folds[some]
    weight = float(search.judged.batch.weight[some].sum()) / (1 + search.dealing.max())
    order = np.random.default_rng(0).permutation(len(some))

    def loss(inputs: Floats) -> float:
        learnt = [np.empty_like(search.score[some]) for _ in choice.names]
        for i, fold in enumerate(np.unique(search.folds)):
            held = folds == fold  # none of a fold of the second dealing
            if held.any():
                for rows, name in zip(learnt, choice.names, strict=True):
                    rows[held] = search.fits[name][i](np.ascontiguousarray(inputs[held]))
        return search.loss(search.combine(choice, learnt, some), some)

    usual, first = loss(inputs), inputs.shape[1] - sum(column.width for column in columns)
    importances = []
    for column in columns:
        own = slice(first, first + column.width)
        shuffled = inputs.copy()
        shuffled[:, own] = inputs[order, own]
        importances.append(Importance(column.name, (loss(shuffled) - usual) / weight))
        first += column.width
    return sorted(importances, key=lambda one: -one.loss)
