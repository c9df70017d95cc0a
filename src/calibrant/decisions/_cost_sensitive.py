"""``CostSensitive``: decisions of least expected cost, as a classifier of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from calibrant import errors
from calibrant._calibrators.parameters import Parameters, leading
from calibrant.decisions._costs import (
    action_costs,
    cheapest,
    expected_cost,
    read_costs,
    read_rows,
    threshold_of,
)
from calibrant.metrics._predictions import read_predictions
from calibrant.scale._chunks import is_dask

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._maps.base import Floats
    from calibrant.decisions._costs import CostTable
    from calibrant.metrics._predictions import Predictions


class CostSensitive(Parameters, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Decisions of least expected cost, on the probabilities of a classifier or a calibrator.

    Parameters
    ----------
    costs : array-like of shape (n_classes, n_actions), data frame or mapping
        Rows are true classes, in the order of ``classes_``; columns are actions. The rows of a
        data frame are found by their names, and its columns name the actions. Of two classes, the
        costs of ``"false_positive"`` and ``"false_negative"`` by name. Negative costs are gains.
    estimator : classifier or calibrator, optional
        Has ``predict_proba``. ``fit`` fits a copy of it; one that is fitted already needs no
        ``fit``. Without one, what is passed to ``fit`` and ``predict`` are probabilities.
    actions : array-like of shape (n_actions,), optional
        What ``predict`` returns for each column of the costs. By default the classes where there
        is one column for each, else the numbers of the columns.
    abstain : float or array-like of shape (n_classes,), optional
        Cost of leaving a row to somebody else: ``predict`` returns ``"abstain"`` where that is the
        least.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    actions_ : ndarray
        What ``predict`` may return, abstaining last.
    threshold_ : float
        Of two classes and two actions: the second is taken where its class has a larger
        probability than this.

    Notes
    -----
    The first of equally cheap actions is taken. Decisions cost least if the probabilities are
    calibrated: :func:`value_of_calibration` says how much that is worth.

    Examples
    --------
    >>> from calibrant.decisions import CostSensitive
    >>> model = CostSensitive({"false_positive": 1, "false_negative": 5}, abstain=0.6)
    >>> model.predict([[0.9, 0.1], [0.83, 0.17], [0.2, 0.8]])
    array([0, 'abstain', 1], dtype=object)
    >>> CostSensitive({"false_positive": 1, "false_negative": 4}).threshold_
    0.2
    """

    costs: Any = leading(kw_only=False)
    estimator: Any = leading(default=None, kw_only=False)
    actions: Any = None
    abstain: Any = None

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Fit a copy of the estimator; without one, learn the labels of the columns.

        Parameters
        ----------
        X : array-like
            What the estimator takes, or probabilities.
        y : array-like of shape (n_rows,)
            Labels.
        **fit_params : dict
            Passed to the estimator, as ``sample_weight``; without one, ``classes`` or
            ``pos_label``, as metrics take them.

        Returns
        -------
        self : object
        """
        if self.estimator is None:
            name, found = "fitted_classes_", read_predictions(y, X, **fit_params).classes
        else:
            name, found = "estimator_", clone(self.estimator).fit(X, y, **fit_params)
        classes = np.asarray(getattr(found, "classes_", found))
        read_costs(self.costs, classes, self.abstain, self.actions)
        setattr(self, name, found)  # nothing has changed if the costs are refused
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the action of least expected cost for each row.

        Parameters
        ----------
        X : array-like
            What the estimator takes, or probabilities; of a Dask array the actions are one.

        Returns
        -------
        actions : ndarray of shape (n_rows,)
        """
        if is_dask(X):
            from calibrant.scale.dask import map_rows

            lazy: NDArray[Any] = map_rows(self, "predict", X, self.actions_.dtype, None)
            return lazy
        predictions, table = self._read(self._probabilities(X))
        return table.actions[cheapest(predictions, table.matrix)]

    def expected_costs(self, X: Any) -> Floats:
        """Return the expected cost of every action for each row.

        Parameters
        ----------
        X : array-like
            What the estimator takes, or probabilities.

        Returns
        -------
        costs : ndarray of shape (n_rows, n_actions)
        """
        predictions, table = self._read(self._probabilities(X))
        return np.concatenate([action_costs(c.rows, table.matrix) for c in predictions.chunks()])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return minus the mean cost of the decisions by the labels, so that more is better.

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
        told = {"abstain": self.abstain, "sample_weight": sample_weight, "n_resamples": 0}
        rows, known = self._probabilities(X), self._known()
        return -expected_cost(y, rows, self.costs, classes=known, **told).realised.value

    def _probabilities(self, X: Any) -> Any:
        """Return what the decisions are made on."""
        return X if self.estimator is None else self._fitted.predict_proba(X)

    def _read(self, y_proba: Any) -> tuple[Predictions, CostTable]:
        """Return checked probabilities, columns in the order of the classes, and the costs."""
        predictions = read_rows(y_proba, classes=self._known())
        return predictions, self._table(predictions.n_classes)

    @property
    def _fitted(self) -> Any:
        """The estimator that predicts."""
        found = getattr(self, "estimator_", self.estimator)
        check_is_fitted(found)
        return found

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels."""
        if self.estimator is not None:
            return np.asarray(self._fitted.classes_)
        if "fitted_classes_" not in vars(self):
            raise AttributeError("classes_ is not known; without an estimator fit tells the labels")
        return np.asarray(self.fitted_classes_)

    @property
    def actions_(self) -> NDArray[Any]:
        """What ``predict`` may return."""
        return self._table().actions

    @property
    def threshold_(self) -> float:
        """Probability of the second class above which its action is taken."""
        try:
            return threshold_of(self._table().matrix)
        except errors.ParameterError as error:
            raise AttributeError(f"threshold_: {error}") from error

    def _known(self) -> Any:
        """Return the labels of the columns, or None where nobody has told them."""
        if self.estimator is None and "fitted_classes_" not in vars(self):
            return list(self.costs.index) if hasattr(self.costs, "columns") else None
        return self.classes_

    def _table(self, n_classes: int | None = None) -> CostTable:
        """Return the costs; without known labels columns have numbers."""
        known = self._known()
        if known is None:
            shape = (2,) if isinstance(self.costs, Mapping) else np.shape(self.costs)
            known = np.arange(max(shape[:1], default=0) if n_classes is None else n_classes)
        return read_costs(self.costs, np.asarray(known), self.abstain, self.actions)
