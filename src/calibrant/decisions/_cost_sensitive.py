"""``CostSensitive``: decisions of least expected cost, as a classifier of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from calibrant import errors
from calibrant._calibrators.parameters import Parameters
from calibrant._gate import is_single
from calibrant.decisions._cost_tables import (
    action_costs,
    has_one_column,
    read_costs,
    split_pos_label,
)
from calibrant.decisions._costs import expected_cost, of_counted_rows, rows_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._predictions import Predictions
    from calibrant._types import Label, Labels
    from calibrant.decisions._cost_tables import CostTable


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

    costs: Any = field(kw_only=False)
    estimator: Any = field(default=None, kw_only=False)
    actions: Any = None
    abstain: float | None = None
    classes: Any = None
    pos_label: Label | None = None

    def fit(self, X: object, y: object, **fit_params: Any) -> Self:
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
                "classes= if the columns are not 0, 1, ..."
            )
        fitted = clone(self.estimator).fit(X, y, **fit_params)
        self._read_costs(np.asarray(fitted.classes_), fitted)  # refuses them before a change
        self.estimator_ = fitted
        return self

    def predict(self, X: object) -> Labels:
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

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
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
        costs = of_counted_rows(table.matrix, sample_weight)
        return -expected_cost(predictions, costs=costs).realised.value

    def _decide(
        self, X: object, y: object = None, sample_weight: object = None
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
    def _fitted(self) -> Any:
        """The estimator that predicts, or None."""
        if self.estimator is None:
            return None
        estimator = getattr(self, "estimator_", self.estimator)
        check_is_fitted(estimator)
        return estimator

    @property
    def classes_(self) -> Labels:
        """The labels."""
        if self._fitted is not None:
            return np.asarray(self._fitted.classes_)
        if self.classes is not None:
            return np.asarray(self.classes)
        return np.arange(2 if isinstance(self.costs, Mapping) else np.shape(self.costs)[-2])

    @property
    def actions_(self) -> NDArray[Any]:
        """Possible results of ``predict``."""
        return self._read_costs(self.classes_, self._fitted).actions

    @property
    def threshold_(self) -> float:
        """Probability of the second class above which its action is taken."""
        try:
            return self._read_costs(self.classes_, self._fitted).threshold
        except errors.ParameterError as error:
            raise AttributeError(f"threshold_: {error}") from error
