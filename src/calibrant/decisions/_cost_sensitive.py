"""``CostSensitive``: decisions of least expected cost, as a classifier of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from calibrant import errors
from calibrant._calibrators.parameters import Parameters, leading
from calibrant._gate import ONE_COLUMN, column_names
from calibrant._predictions import read_predictions
from calibrant.decisions._cost_tables import (
    Positive,
    action_costs,
    n_columns_of,
    read_costs,
    split_positive,
)
from calibrant.decisions._costs import expected_cost, rows_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._maps.base import Floats
    from calibrant.decisions._cost_tables import CostTable

    Labels = tuple[NDArray[Any], Positive]


class CostSensitive(Parameters, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Make decisions with the smallest expected cost.

    Parameters
    ----------
    costs : array-like of shape (n_classes, n_actions), data frame or mapping
        Costs of each true class (row, in the order of ``classes_``) and action (column). Rows of a
        data frame are matched by name, and its columns name the actions. For two classes, a mapping
        with ``"false_positive"`` and ``"false_negative"``. Negative costs are gains. Without an
        estimator a data frame needs ``fit``, or probabilities whose columns have the same names.
        Costs that differ by row, as :func:`expected_cost` takes them, are those of the rows that
        are predicted.
    estimator : classifier or calibrator, optional
        Estimator with ``predict_proba``. ``fit`` fits a copy of it; a fitted one needs no ``fit``.
        Without one, pass probabilities to ``fit`` and ``predict``.
    actions : array-like of shape (n_actions,), optional
        Value that ``predict`` returns for each column of the costs; for costs by name, for the
        negative and the positive class. By default the classes if there is one column for each,
        otherwise column numbers.
    abstain : float, array-like of shape (n_classes,), series or mapping, optional
        Cost of not deciding: ``predict`` returns ``"abstain"`` where it is the smallest. A series
        or a mapping is matched by the names of the classes.
    pos_label : object, optional
        Positive class of costs by name, and that of a single column without an estimator. Not
        needed for 0 and 1, -1 and 1, or False and True, where it is the larger one, nor with
        ``classes`` of ``fit`` or of a calibrator, where it is the last one.

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

    costs: Any = leading(kw_only=False)
    estimator: Any = leading(default=None, kw_only=False)
    actions: Any = None
    abstain: Any = None
    pos_label: Any = None

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
            value = labels = self._read_labels(X, y, **fit_params)
            name = "fitted_labels_"
        else:
            value, name = clone(self.estimator).fit(X, y, **fit_params), "estimator_"
            labels = self._labels_of(value)
        classes, positive = labels
        read_costs(self.costs, classes, self.abstain, self.actions, *positive)
        setattr(self, name, value)  # nothing has changed if the costs are refused
        return self

    def _read_labels(
        self, X: Any, y: Any, sample_weight: Any = None, classes: Any = None, pos_label: Any = None
    ) -> Labels:
        """Return the class of each column of probabilities, and the positive one if known."""
        pos_label = self.pos_label if pos_label is None else pos_label
        of_rows, positive = split_positive(X, self.costs, classes, pos_label)
        return read_predictions(y, X, sample_weight, classes, of_rows).classes, positive

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the action with the smallest expected cost for each row.

        Parameters
        ----------
        X : array-like
            What the estimator takes, or probabilities.

        Returns
        -------
        actions : ndarray of shape (n_rows,)
        """
        costs, table = self._decide(X)
        return np.asarray(table.actions[costs.argmin(axis=1)])

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
        return self._decide(X)[0]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
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
        classes, positive = self._labels()
        if classes is not None:
            self._table()  # refuses costs whose positive class is not known
        result = expected_cost(
            y,
            self._probabilities(X),
            self.costs,
            abstain=self.abstain,
            sample_weight=sample_weight,
            classes=classes,
            pos_label=self.pos_label if classes is None else positive.pos_label,
        )
        return -result.realised.value

    def _decide(self, X: Any) -> tuple[Floats, CostTable]:
        """Return the expected cost of every action for each row, and the costs."""
        y_proba, (classes, _) = self._probabilities(X), self._labels()
        predictions = rows_of(y_proba, classes=classes)
        # Without labels, an array of costs has a row for each column, whatever that is called.
        is_named = isinstance(self.costs, Mapping) or hasattr(self.costs, "columns")
        has_names = n_columns_of(y_proba) > 1 and column_names(y_proba) is not None
        if classes is None and has_names and is_named:
            classes = predictions.classes
        elif classes is None:
            classes = np.arange(predictions.n_classes)
        table = self._table(classes)
        return action_costs(predictions.rows, table.matrix), table

    def _probabilities(self, X: Any) -> Any:
        """Return the probabilities that decisions are made on."""
        y_proba = X if self.estimator is None else self._fitted.predict_proba(X)
        classes, (pos_label, _) = self._labels()
        is_first = classes is not None and pos_label is not None and classes[0] == pos_label
        if is_first and n_columns_of(y_proba) == 1:
            raise errors.ShapeError(
                "X has one column, but fit had two, for the classes "
                f"{errors.some_in_words(classes)}; pass both columns"
            )
        return y_proba

    @property
    def _fitted(self) -> Any:
        """The estimator that predicts."""
        estimator = getattr(self, "estimator_", self.estimator)
        check_is_fitted(estimator)
        return estimator

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels."""
        classes, _ = self._labels()
        if classes is None:
            raise AttributeError("classes_ is not known; call fit with labels first")
        return classes

    @property
    def actions_(self) -> NDArray[Any]:
        """Possible results of ``predict``."""
        return self._table().actions

    @property
    def threshold_(self) -> float:
        """Probability of the second class above which its action is taken."""
        try:
            return self._table().threshold
        except errors.ParameterError as error:
            raise AttributeError(f"threshold_: {error}") from error

    def _labels(self) -> tuple[NDArray[Any] | None, Positive]:
        """Return the labels of the columns, or None before they are known, and the positive one."""
        if self.estimator is not None:
            return self._labels_of(self._fitted)
        labels: Labels | tuple[None, Positive]
        labels = getattr(self, "fitted_labels_", (None, Positive(self.pos_label)))
        return labels

    def _labels_of(self, fitted: Any) -> Labels:
        """Return those of an estimator; the last of ``classes`` of a calibrator is positive."""
        is_single = getattr(fitted, "scores", None) in ONE_COLUMN
        is_ordered = is_single or getattr(fitted, "classes", None) is not None
        return np.asarray(fitted.classes_), Positive(self.pos_label, is_ordered)

    def _table(self, columns: NDArray[Any] | None = None) -> CostTable:
        """Return the costs of the labels, or of these columns; without any, classes are numbers."""
        known, positive = self._labels()
        classes = known if columns is None else columns
        if classes is None:
            shape = (2,) if isinstance(self.costs, Mapping) else np.shape(self.costs)
            classes = np.arange(max(shape[-2:][:1], default=0))
        rows = [*getattr(self.costs, "index", [])] if hasattr(self.costs, "columns") else []
        if known is None and {*map(str, rows)} - {*map(str, classes)}:
            raise errors.NotFittedError(
                f"costs has the rows {errors.some_in_words(rows)}, but it is not known which "
                "column of X belongs to which row; call fit with labels, or pass X as a data "
                "frame whose columns have the names of these rows"
            )
        return read_costs(self.costs, classes, self.abstain, self.actions, *positive)
