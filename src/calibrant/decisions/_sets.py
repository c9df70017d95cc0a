"""``ConformalSets``: sets of classes that hold the label with a guaranteed probability."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.stats import binomtest
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from calibrant import _gate as gate
from calibrant import errors
from calibrant._calibrators.parameters import Parameters, choice, leading
from calibrant._predictions import read_predictions
from calibrant._result import Estimate, Result, doc, result
from calibrant.decisions._costs import add_up, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from calibrant._maps.base import Floats, Wholes


@result(eq=False, repr=False)
class PredictionSets(Result):
    """Sets of classes, one for each row; arrays are read-only."""

    members: NDArray[Any] = doc("Whether each class is in the set of each row.")
    classes: NDArray[Any] = doc("Label of each column.")
    coverage: float = doc("Requested share of sets that contain the label.")
    held: NDArray[Any] | None = doc("Whether each set contains the label; None without labels.")
    measured: Estimate = doc("Measured coverage with an exact interval; NaN without labels.")

    @property
    def sizes(self) -> Wholes:
        """Number of classes in each set."""
        counts: Wholes = np.count_nonzero(self.members, axis=1)
        return counts

    def labels(self) -> list[NDArray[Any]]:
        """Return the labels in each set, in the order of the columns."""
        ends = np.cumsum(self.sizes)[:-1]
        return np.split(self.classes[np.nonzero(self.members)[1]], ends)

    def __repr__(self) -> str:
        facts = (
            f"{len(self.members)} rows, coverage={self.coverage:g}, "
            f"mean size {self.sizes.mean():.3g}"
        )
        if self.held is not None:
            value, low, high = self.measured
            facts += f", measured coverage {value:.4f} [{low:.4f}, {high:.4f}]"
        return f"PredictionSets({facts})"


def mass_above(rows: Floats) -> Floats:
    """Return the sum of the larger probabilities of its row for each cell."""
    order = np.argsort(-rows, axis=1, kind="stable")
    values = np.take_along_axis(rows, order, axis=1)
    above = np.zeros_like(values)
    np.cumsum(values[:, :-1], axis=1, out=above[:, 1:])
    # Cells that tie have the sum of the first of them.
    place = np.zeros(values.shape, dtype=np.int64)
    place[:, 1:] = np.where(values[:, 1:] < values[:, :-1], np.arange(1, rows.shape[1]), 0)
    first = np.maximum.accumulate(place, axis=1)
    result = np.empty_like(rows)
    np.put_along_axis(result, order, np.take_along_axis(above, first, axis=1), axis=1)
    return result


SCORES: dict[str, Callable[[Floats], Floats]] = {"lac": lambda rows: 1.0 - rows, "aps": mass_above}
"""Nonconformity scores of each cell."""


class ConformalSets(Parameters, BaseEstimator):
    """Sets of classes that contain the label with a guaranteed probability (split-conformal).

    For rows that are exchangeable with those of ``fit``, the set contains the label with a
    probability of at least ``coverage``, however wrong the probabilities are.

    Parameters
    ----------
    coverage : float, default=0.9
        Requested share of sets that contain the label, in (0, 1].
    score : {"lac", "aps"}, default="lac"
        Conformity score. "lac": one minus the probability of a class, which gives the smallest sets
        on average; some may be empty. "aps": the sum of all larger probabilities; the most probable
        class is always included.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    quantile_ : float
        Largest score in a set: the ceil((n + 1) coverage)-th smallest score of the n labels;
        infinite if there are too few rows.
    n_rows_ : int
        Number of rows at ``fit``.

    Notes
    -----
    Both are deterministic. The probability is over the rows of ``fit``, too: given them, the
    coverage of rows to come is Beta(r, n + 1 - r) with r = ceil((n + 1) coverage), or larger where
    scores tie. Fit to rows that neither the classifier nor a calibrator has seen.

    References
    ----------
    .. [1] M. Sadinle, J. Lei and L. Wasserman, "Least Ambiguous Set-Valued Classifiers With
       Bounded Error Levels", Journal of the American Statistical Association 114, 2019.
    .. [2] Y. Romano, M. Sesia and E. J. Candès, "Classification with Valid and Adaptive Coverage",
       NeurIPS 2020.

    Examples
    --------
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.decisions import ConformalSets
    >>> y_proba, y = simulated_scores(4000)
    >>> conformal = ConformalSets(0.9).fit(y_proba[:2000], y[:2000])
    >>> sets = conformal.predict_set(y_proba[2000:], y[2000:])
    >>> sets.measured.value
    0.905
    """

    coverage: float = leading(default=0.9, kw_only=False)
    score: str = choice(tuple(SCORES), default="lac")

    def fit(
        self,
        y_proba: ArrayLike,
        y_true: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        pos_label: Any = None,
    ) -> Self:
        """Fit the quantile of the scores of the labels.

        Parameters
        ----------
        y_proba : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
            Probabilities, as metrics take them.
        y_true : array-like of shape (n_rows,)
            Labels.
        classes, pos_label : optional
            As metrics take them.

        Returns
        -------
        self : object
        """
        self._check_parameters()
        gate.check_number("coverage", self.coverage, low=math.ulp(0.0), high=1.0)
        predictions = read_predictions(y_true, y_proba, None, classes, pos_label)
        add_up(predictions, {})  # warns if its columns look permuted
        n_rows, score = predictions.n_rows, SCORES[self.score]
        scores = np.empty(n_rows)
        for part in gate.chunks(*predictions.rows.shape):
            cells = score(predictions.rows[part])
            scores[part] = cells[np.arange(len(cells)), predictions.class_index[part]]
        # Without the tolerance, 0.9 * 10 rounds up to the tenth row.
        rank = math.ceil((n_rows + 1) * self.coverage - 1e-9)
        if rank > n_rows:
            warnings.warn(
                f"coverage={self.coverage:g} needs more than {errors.number_of(n_rows, 'row')}, "
                "so every set has all classes; add rows, or use "
                f"coverage={math.floor(1e6 * n_rows / (n_rows + 1)) / 1e6:g}",  # rounded down
                errors.SmallSampleWarning,
                stacklevel=2,
            )
        self.quantile_ = float(np.sort(scores)[rank - 1]) if rank <= n_rows else math.inf
        self.classes_, self.n_rows_ = predictions.classes, n_rows
        return self

    def predict_set(self, y_proba: ArrayLike, y_true: ArrayLike | None = None) -> PredictionSets:
        """Return the set of each row, and the measured coverage if labels are given.

        Parameters
        ----------
        y_proba : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
            Probabilities, columns in the order of ``classes_``.
        y_true : array-like of shape (n_rows,), optional
            Labels.

        Returns
        -------
        PredictionSets
        """
        check_is_fitted(self)
        predictions = rows_of(y_proba, y_true, self.classes_)
        score, rows = SCORES[self.score], predictions.rows
        # In parts, since scores need several copies of the rows.
        parts = gate.chunks(*rows.shape)
        members = np.concatenate([score(rows[part]) <= self.quantile_ for part in parts])
        held, measured = None, Estimate(math.nan, math.nan, math.nan)
        if y_true is not None:
            held = members[np.arange(len(members)), predictions.class_index]
            interval = binomtest(int(held.sum()), len(held)).proportion_ci()
            measured = Estimate(float(held.mean()), float(interval.low), float(interval.high))
        classes = predictions.classes.copy()
        return PredictionSets(members, classes, float(self.coverage), held, measured)
