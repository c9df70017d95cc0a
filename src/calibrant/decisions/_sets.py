"""Sets of classes that hold the label: by the probabilities, or with a guarantee by labels."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import betaincinv
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from calibrant import _gate as gate
from calibrant import errors
from calibrant._calibrators.parameters import Parameters, choice, leading
from calibrant._gate import check_weights
from calibrant._predictions import read_predictions
from calibrant._result import Estimate, Result, doc, result
from calibrant.decisions._costs import add_up, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from calibrant._maps.base import Floats, Wholes
    from calibrant._predictions import Predictions

ROUNDING = 1e-12
"""Sums of probabilities that differ by less are equal."""


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
        sizes = self.sizes
        facts = f"{len(sizes)} rows, coverage={self.coverage:g}, mean size {sizes.mean():.3g}"
        if self.held is None:
            return f"PredictionSets({facts}, sizes {sizes.min()} to {sizes.max()})"
        value, low, high = self.measured
        return f"PredictionSets({facts}, measured coverage {value:.4f} [{low:.4f}, {high:.4f}])"


def mass_above(rows: Floats) -> Floats:
    """Return the sum of the larger probabilities of its row for each cell."""
    order = np.argsort(-rows, axis=1, kind="stable")
    values = np.take_along_axis(rows, order, axis=1)
    above = np.zeros_like(values)
    np.cumsum(values[:, :-1], axis=1, out=above[:, 1:])
    place = np.zeros(values.shape, dtype=np.int64)
    place[:, 1:] = np.where(values[:, 1:] < values[:, :-1], np.arange(1, rows.shape[1]), 0)
    first = np.maximum.accumulate(place, axis=1)  # of those that tie
    result = np.empty_like(rows)
    np.put_along_axis(result, order, np.take_along_axis(above, first, axis=1), axis=1)
    return result


SCORES: dict[str, Callable[[Floats], Floats]] = {"lac": lambda rows: 1.0 - rows, "aps": mass_above}
"""Nonconformity scores of each cell."""


def _make(
    predictions: Predictions, is_labelled: bool, weight: Any, coverage: float, rule: Any
) -> PredictionSets:
    """Return the sets of cells whose score is below a limit, with their coverage of the labels."""
    score, most = rule
    parts = gate.chunks(*predictions.rows.shape)  # since scores need several copies
    members = np.concatenate([score(predictions.rows[part]) <= most for part in parts])
    held, measured = None, Estimate(math.nan, math.nan, math.nan)
    if is_labelled:
        held = members[np.arange(len(members)), predictions.class_index]
        w = check_weights(weight, len(held))
        w = w / w.max()
        size = float(w.sum())
        value = min(float(w[held].sum()) / size, 1.0)
        n = size * size / float(w @ w)  # as many rows of equal weight tell as much
        low = betaincinv(n * value, n - n * value + 1.0, 0.025) if value > 0.0 else 0.0
        high = betaincinv(n * value + 1.0, n - n * value, 0.975) if value < 1.0 else 1.0
        measured = Estimate(value, float(low), float(high))
    return PredictionSets(members, predictions.classes.copy(), float(coverage), held, measured)


def prediction_sets(
    y_proba: ArrayLike,
    coverage: float = 0.9,
    *,
    y_true: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Any = None,
) -> PredictionSets:
    """Return sets of the most probable classes, whose probabilities sum to ``coverage`` or more.

    The sets contain the label that often if the cumulative probabilities are calibrated, as by
    ``SortedCumulativeIsotonic``; pass ``y_true`` to measure it. :class:`ConformalSets` has a
    guarantee.

    Parameters
    ----------
    y_proba : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
        Predicted probabilities, with columns in the order of the sorted labels (or of ``classes``);
        a single column is the positive class of two, as in scikit-learn.
    coverage : float, default=0.9
        Requested share of sets that contain the label, in (0, 1].
    y_true : array-like of shape (n_rows,), optional
        True labels, to measure the coverage.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of rows in the measured coverage.
    classes, pos_label : optional
        Label of each column, and that of a single column, as of :func:`calibrant.metrics.evaluate`.

    Returns
    -------
    PredictionSets
        Boolean matrix (``members``), ``sizes``, ``labels()`` and the measured coverage. Tied
        classes are in a set together.

    Examples
    --------
    >>> from calibrant.decisions import prediction_sets
    >>> sets = prediction_sets([[0.6, 0.3, 0.1], [0.95, 0.03, 0.02]], 0.9, y_true=[1, 0])
    >>> sets.members
    array([[ True,  True, False],
           [ True, False, False]])
    >>> sets
    PredictionSets(2 rows, coverage=0.9, mean size 1.5, measured coverage 1.0000 [0.1581, 1.0000])
    """
    check_coverage(coverage)
    rule = mass_above, math.nextafter(coverage - ROUNDING, 0.0)
    predictions = rows_of(y_proba, y_true, classes, pos_label)
    return _make(predictions, y_true is not None, sample_weight, coverage, rule)


def check_coverage(coverage: Any) -> None:
    """Refuse a share of sets that is none, or nothing."""
    gate.check_number("coverage", coverage, low=0.0, high=1.0)
    if coverage == 0:
        raise errors.ParameterError("coverage=0 is too small; pass a share above 0, such as 0.9")


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
        on average; some may be empty. "aps": the sum of all larger probabilities, which gives the
        sets of :func:`prediction_sets` at another level; the most probable class is always
        included.

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
        check_coverage(self.coverage)
        predictions = read_predictions(y_true, y_proba, None, classes, pos_label)
        add_up(predictions, {})  # warns if its columns look permuted
        n_rows, score = predictions.n_rows, SCORES[self.score]
        scores = np.empty(n_rows)
        for part in gate.chunks(*predictions.rows.shape):
            cells = score(predictions.rows[part])
            scores[part] = cells[np.arange(len(cells)), predictions.class_index[part]]
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

    def predict_set(
        self,
        y_proba: ArrayLike,
        y_true: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> PredictionSets:
        """Return the set of each row, and the measured coverage if labels are given.

        Parameters
        ----------
        y_proba : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
            Probabilities, columns in the order of ``classes_``.
        y_true : array-like of shape (n_rows,), optional
            Labels.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of rows in the measured coverage.

        Returns
        -------
        PredictionSets
        """
        check_is_fitted(self)
        rule = SCORES[self.score], self.quantile_
        predictions = rows_of(y_proba, y_true, self.classes_)
        return _make(predictions, y_true is not None, sample_weight, self.coverage, rule)


@result()
class SetSizes(Result):
    """Sets of the most probable classes of one method."""

    coverage: float = doc("Share of the sets that are to hold the label.")
    measured: Estimate = doc("Share of them that do.")
    mean_size: float = doc("Classes in a set, on average.")

    def __str__(self) -> str:
        share = self.measured
        return (
            f"sets for {100 * self.coverage:g}%: they hold the label of {share.value:.1%} "
            f"({share.low:.1%} .. {share.high:.1%}) of the rows, with {self.mean_size:.2f} classes "
            "on average."
        )


def set_sizes(
    y: ArrayLike,
    rows: ArrayLike,
    coverage: float,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
) -> SetSizes:
    """Measure how many sets of the most probable classes hold the label, and how large they are."""
    result = prediction_sets(rows, coverage, y_true=y, sample_weight=sample_weight, classes=classes)
    weight = check_weights(sample_weight, len(result.sizes))
    return SetSizes(coverage, result.measured, float(weight @ result.sizes / weight.sum()))
