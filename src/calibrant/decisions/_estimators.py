"""Estimators that decide: by costs (``CostSensitive``), or as sets (``ConformalSets``)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from calibrant import errors
from calibrant._calibrators.parameters import Parameters
from calibrant._gate import check_number, column_names, is_single
from calibrant._predictions import read_predictions
from calibrant._result import Result, doc, result
from calibrant.decisions._costs import (
    action_costs,
    expected_cost,
    has_one_column,
    of_counted_rows,
    read_costs,
    split_pos_label,
    warn_of_permutation,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

    from calibrant._predictions import Predictions
    from calibrant._types import Bools, Label, Labels, Wholes
    from calibrant.decisions._costs import Costs, CostTable


class Predicting(Protocol):
    """A classifier or calibrator."""

    classes_: Labels

    def predict_proba(self, X: ArrayLike, /) -> ArrayLike:
        """Return probabilities."""


class CostSensitive(Parameters, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Make decisions with the smallest expected cost.

    Parameters
    ----------
    costs : array-like of shape (n_classes, n_actions), data frame or mapping
        Costs of each true class (row, in the order of ``classes_``) and action (column). Rows of a
        data frame are matched by name, and its columns name the actions. For two classes, a mapping
        with ``"false_positive"`` and ``"false_negative"``. Negative costs are gains. Costs that
        differ by row, as :func:`expected_cost` takes them, are those of the rows that are
        predicted.
    estimator : classifier or calibrator, optional
        Estimator with ``predict_proba``. ``fit`` fits a copy of it; a fitted one needs no ``fit``.
        Without one, ``predict`` takes probabilities, and there is nothing to fit.
    actions : array-like of shape (n_actions,), optional
        Value that ``predict`` returns for each column of the costs; for costs by name, for the
        negative and the positive class. By default the classes if there is one column for each,
        otherwise column numbers.
    abstain : float, optional
        Cost of not deciding: ``predict`` returns ``"abstain"`` where it is the smallest. For a cost
        that depends on the class, add a column to ``costs``.
    classes : array-like of shape (n_classes,), optional
        Label of each column of the probabilities, if there is no estimator; the last of two is the
        positive one. By default 0, 1, ..., or the names of the columns of a data frame.
    pos_label : object, optional
        Positive class of costs by name. Not needed for 0 and 1, -1 and 1, or False and True, where
        it is the larger one, nor with ``classes``, or those of a calibrator.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    actions_ : ndarray
        Possible results of ``predict``, with abstaining last.
    threshold_ : float
        For two classes and two actions: the second action is taken if the probability of the second
        class (or of ``pos_label``) exceeds this.

    Notes
    -----
    The first of equally cheap actions is taken. Decisions cost least if the probabilities are
    calibrated; :func:`value_of_calibration` measures the gain.

    Examples
    --------
    >>> from calibrant.decisions import CostSensitive
    >>> model = CostSensitive({"false_positive": 1, "false_negative": 5}, abstain=0.6)
    >>> model.predict([[0.9, 0.1], [0.83, 0.17], [0.2, 0.8]])
    array([0, 'abstain', 1], dtype=object)
    >>> CostSensitive({"false_positive": 1, "false_negative": 4}).threshold_
    0.2
    """

    costs: Costs = field(kw_only=False)
    estimator: Predicting | None = field(default=None, kw_only=False)
    actions: Iterable[object] | None = None
    abstain: float | None = None
    classes: ArrayLike | None = None
    pos_label: Label | None = None

    def fit(self, X: object, y: object, **fit_params: object) -> Self:
        """Fit a copy of the estimator.

        Parameters
        ----------
        X : array-like
            What the estimator takes.
        y : array-like of shape (n_rows,)
            Labels.
        **fit_params : dict
            Passed to the estimator, as ``sample_weight``.

        Returns
        -------
        self : object
        """
        if self.estimator is None:
            raise errors.ParameterError(
                "without an estimator there is nothing to fit; pass probabilities to predict, and "
                "classes= if the columns are not 0, 1, ...",
                argument="estimator",
            )
        fitted = clone(self.estimator).fit(X, y, **fit_params)
        self._read_costs(np.asarray(fitted.classes_), fitted)  # refuses them before a change
        self.estimator_ = fitted
        return self

    def predict(self, X: ArrayLike) -> Labels:
        """Return the action with the smallest expected cost for each row.

        Parameters
        ----------
        X : array-like
            What the estimator takes, or probabilities.

        Returns
        -------
        actions : ndarray of shape (n_rows,)
        """
        predictions, table = self._decide(X)
        costs = action_costs(predictions.rows, table.matrix)
        return np.asarray(table.actions[costs.argmin(axis=1)])

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return minus the mean cost of the decisions, so that larger is better.

        Parameters
        ----------
        X : array-like
            What the estimator takes, or probabilities.
        y : array-like of shape (n_rows,)
            Labels.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows.

        Returns
        -------
        float
        """
        predictions, table = self._decide(X, y, sample_weight)
        costs = of_counted_rows(table, sample_weight).matrix
        return -expected_cost(predictions, costs=costs).realised.value

    def _decide(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> tuple[Predictions, CostTable]:
        """Return the probabilities that decisions are made on, and the costs of their classes."""
        fitted = self._fitted
        y_proba = X if fitted is None else fitted.predict_proba(X)
        classes = self.classes if fitted is None else fitted.classes_
        of_rows, _ = split_pos_label(y_proba, self.costs, self.pos_label)
        predictions = rows_of(y_proba, y, classes, of_rows, sample_weight)
        has_one = has_one_column(y_proba)
        return predictions, self._read_costs(predictions.classes, fitted, has_one=has_one)

    def _read_costs(self, classes: Labels, fitted: object, *, has_one: bool = False) -> CostTable:
        """Return the costs of these classes."""
        # A calibrator that was given classes has the positive one last.
        given = self.classes if fitted is None else getattr(fitted, "classes", None)
        is_ordered = has_one or given is not None
        is_ordered |= is_single(getattr(fitted, "scores", ""))
        pos_label = None if has_one else self.pos_label  # that of the column is the last class
        return read_costs(self.costs, classes, self.abstain, self.actions, pos_label, is_ordered)

    @property
    def _fitted(self) -> Predicting | None:
        """The estimator that predicts, or None."""
        if self.estimator is None:
            return None
        estimator: Predicting = getattr(self, "estimator_", self.estimator)
        check_is_fitted(estimator)
        return estimator

    @property
    def classes_(self) -> Labels:
        """The labels."""
        fitted = self._fitted
        if fitted is not None or self.classes is not None:
            return np.asarray(self.classes if fitted is None else fitted.classes_)
        return np.arange(2 if isinstance(self.costs, Mapping) else np.shape(self.costs)[-2])

    @property
    def actions_(self) -> Labels:
        """Possible results of ``predict``."""
        return self._read_costs(self.classes_, self._fitted).actions

    @property
    def threshold_(self) -> float:
        """Probability of the second class above which its action is taken."""
        try:
            return self._read_costs(self.classes_, self._fitted).threshold
        except errors.ParameterError as error:
            raise AttributeError(f"threshold_: {error}") from error


def rows_of(
    y_proba: ArrayLike,
    y_true: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
    sample_weight: object = None,
) -> Predictions:
    """Return rows as metrics read them; without labels, names of columns are the classes."""
    shape, known = np.shape(y_proba), None if classes is None else np.asarray(classes)
    n_columns = shape[1] if len(shape) == 2 else 1
    if known is not None and len(known) != max(2, n_columns):
        shown = errors.some_in_words(known)
        problem = f"y_proba has shape {shape} but there are {len(known)} classes, {shown}"
        raise errors.ShapeError(problem, remedy="pass one column for each", argument="y_proba")
    if y_true is None:
        if known is None:
            names = column_names(y_proba) if n_columns > 1 else None
            known = np.asarray(names or np.arange(max(2, n_columns)))
        y_true = np.repeat(known[:1], shape[0] if shape else 1)  # any will do
    return read_predictions(y_true, y_proba, sample_weight, known, pos_label)


@result(eq=False)
class PredictionSets(Result):
    """Sets of classes, one for each row; arrays are read-only."""

    members: Bools = doc("Whether each class is in the set of each row.")
    classes: Labels = doc("Label of each column.")
    coverage: float = doc("Requested share of sets that contain the label.")

    @property
    def sizes(self) -> Wholes:
        """Number of classes in each set."""
        return np.asarray(np.count_nonzero(self.members, axis=1))

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
        check_number("coverage", self.coverage, low=math.ulp(0.0), high=1.0)
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
