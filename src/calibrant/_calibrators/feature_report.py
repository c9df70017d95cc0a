"""What ``FeatureCalibrator`` gained from the features, and which of them matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibrant._html import table

if TYPE_CHECKING:
    from calibrant._calibrators.feature_search import Choice, FeatureSearch
    from calibrant._gate import FeatureColumn

MOST_ROWS = 2000
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


@dataclass(frozen=True, slots=True)
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

    def __str__(self) -> str:
        (head, *rows), (second, *features) = self._tables()
        lines = [f"{head[0]:<24}{head[1]:>9}{head[2]:>9}"]
        lines += [f"{name:<24}{nll:>9}{power:>9}" for name, nll, power in rows]
        if features:
            lines += ["", f"{second[0]:<24}{second[1]:>18}"]
            lines += [f"{name:<24.24}{loss:>18}" for name, loss in features]
        return "\n".join([*lines, "", self.why])

    def _repr_html_(self) -> str:
        (head, *rows), (second, *features) = self._tables()
        shown = table(head, rows, [] if features else [self.why])
        return shown + (table(second, features, [self.why]) if features else "")

    def _tables(self) -> tuple[list[list[str]], list[list[str]]]:
        """Return the texts of both tables, heads first."""
        names = ["scores alone", *self.learners]
        nlls, powers = [self.score_nll, *self.learner_nlls], list(self.powers)
        rows = [["prediction", "NLL", "power"]]
        for name, nll, power in zip(names, nlls, powers, strict=True):
            rows.append([name, f"{nll:.4f}", f"{power:.2f}"])
        rows.append(["result", f"{self.nll:.4f}", ""])
        features = [["feature", "NLL if shuffled"]]
        features += [[one.feature, f"{one.loss:+.4f}"] for one in self.importances[:SHOWN]]
        return rows, features


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
    names = np.unique(search.folds)
    order = np.random.default_rng(0).permutation(len(some))

    def predict(shown: np.ndarray) -> list[np.ndarray]:
        learnt = [search.learnt[name][some].copy() for name in choice.names]
        for i, fold in enumerate(names):
            own = folds == fold  # none of those of a second dealing
            if not own.any():
                continue
            for rows, name in zip(learnt, choice.names, strict=True):
                rows[own] = search.fits[name][i](np.ascontiguousarray(shown[own]))
        return learnt

    usual = search.loss(search.combine(choice, predict(inputs), some), some)
    found, start = [], inputs.shape[1] - sum(column.width for column in columns)
    for column in columns:
        own = slice(start, start + column.width)
        shuffled = inputs.copy()
        shuffled[:, own] = inputs[order, own]
        loss = search.loss(search.combine(choice, predict(shuffled), some), some)
        found.append(Importance(column.name, (loss - usual) / weight))
        start += column.width
    return sorted(found, key=lambda one: -one.loss)
