"""``ConformalSets``: sets of classes that hold the label with a guaranteed probability."""

from __future__ import annotations

import math
import warnings
from dataclasses import field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from calibrant import _gate as gate
from calibrant import errors
from calibrant._calibrators.parameters import Parameters
from calibrant._predictions import read_predictions
from calibrant._result import Result, doc, result
from calibrant.decisions._costs import rows_of, warn_of_permutation

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from calibrant._types import Label, Labels, Wholes


@result(eq=False)
class PredictionSets(Result):
    """Sets of classes, one for each row; arrays are read-only."""

    members: NDArray[Any] = doc("Whether each class is in the set of each row.")
    classes: Labels = doc("Label of each column.")
    coverage: float = doc("Requested share of sets that contain the label.")

    @property
    def sizes(self) -> Wholes:
        """Number of classes in each set."""
        counts: Wholes = np.count_nonzero(self.members, axis=1)
        return counts

    def labels(self) -> list[Labels]:
        """Return the labels in each set, in the order of the columns."""
        ends = np.cumsum(self.sizes)[:-1]
        return np.split(self.classes[np.nonzero(self.members)[1]], ends)


class ConformalSets(Parameters, BaseEstimator):
    """Sets of classes that contain the label with a guaranteed probability (split-conformal).

    For rows that are exchangeable with those of ``fit``, the set contains the label with a
    probability of at least ``coverage``, however wrong the probabilities are.

    Parameters
    ----------
    coverage : float, default=0.9
        Requested share of sets that contain the label, in (0, 1].

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    quantile_ : float
        Largest score in a set, where the score of a class is one minus its probability: the
        ceil((n + 1) coverage)-th smallest score of the n labels; infinite if there are too few.
    n_rows_ : int
        Number of rows at ``fit``.

    Notes
    -----
    These are the smallest such sets on average; some may be empty. The probability is over the rows
    of ``fit``, too: given them, the coverage of rows to come is Beta(r, n + 1 - r) with
    r = ceil((n + 1) coverage), or larger where scores tie. Fit to rows that neither the classifier
    nor a calibrator has seen.

    References
    ----------
    .. [1] M. Sadinle, J. Lei and L. Wasserman, "Least Ambiguous Set-Valued Classifiers With
       Bounded Error Levels", Journal of the American Statistical Association 114, 2019.

    Examples
    --------
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.decisions import ConformalSets
    >>> y_proba, y = simulated_scores(4000)
    >>> conformal = ConformalSets(0.9).fit(y_proba[:2000], y[:2000])
    >>> sets = conformal.predict_set(y_proba[2000:])
    >>> float(sets.members[range(2000), y[2000:]].mean())
    0.905
    """

    coverage: float = field(default=0.9, kw_only=False)

    def fit(
        self,
        y_proba: ArrayLike,
        y_true: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        pos_label: Label | None = None,
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
        gate.check_number("coverage", self.coverage, low=math.ulp(0.0), high=1.0)
        predictions = read_predictions(y_true, y_proba, None, classes, pos_label)
        warn_of_permutation(predictions)
        n_rows, scores = predictions.n_rows, 1.0 - predictions.own()
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

    def predict_set(self, y_proba: ArrayLike) -> PredictionSets:
        """Return the set of each row.

        Parameters
        ----------
        y_proba : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
            Probabilities, columns in the order of ``classes_``.

        Returns
        -------
        PredictionSets
        """
        check_is_fitted(self)
        predictions = rows_of(y_proba, None, self.classes_)
        members = 1.0 - predictions.rows <= self.quantile_
        return PredictionSets(members, predictions.classes.copy(), float(self.coverage))
