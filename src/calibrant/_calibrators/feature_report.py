"""What ``FeatureCalibrator`` gained from the features, and which of them matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from calibrant._calibrators.feature_search import Choice, FeatureSearch
    from calibrant._gate import FeatureColumn

MOST_ROWS = 1000
"""Held-out rows on which the importance of features is measured."""

SHOWN = 10
"""Features that are shown; ``importances`` has all."""


@dataclass(frozen=True, slots=True)
class Importance:
    """What a feature is worth.

    Attributes
    ----------
    feature : str
        Name of the column.
    loss : float
        By how much the mean NLL of held-out rows grows when the column is shuffled.
    """

    feature: str
    loss: float


@dataclass(frozen=True, slots=True, repr=False)
class FeatureReport:
    """What ``FeatureCalibrator`` gained on held-out rows.

    Attributes
    ----------
    n_rows : int
        Number of held-out rows: all, or a sample.
    n_folds : int
        Number of folds, of two dealings where rows are few.
    score_nll : float
        Mean NLL of the calibrator of the scores alone.
    nll : float
        Mean NLL of the result.
    share : float
        Weight of the pool of all predictions in the result.
    learners : tuple of str
        Learners in the pool.
    learner_nlls : tuple of float
        Mean NLL of each of these alone.
    powers : tuple of float
        Power of the calibrator of the scores in the pool, then of each learner.
    importances : tuple of Importance
        What each feature is worth, the most important one first.
    """

    n_rows: int
    n_folds: int
    score_nll: float
    nll: float
    share: float
    learners: tuple[str, ...]
    learner_nlls: tuple[float, ...]
    powers: tuple[float, ...]
    importances: tuple[Importance, ...]

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
    some = np.arange(min(search.n_rows, MOST_ROWS))  # of the first dealing
    inputs, folds = search.judged.inputs[some], search.folds[some]
    weight = float(search.judged.batch.weight[some].sum()) / (1 + search.dealing.max())
    order = np.random.default_rng(0).permutation(len(some))

    def loss(inputs: np.ndarray) -> float:
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
