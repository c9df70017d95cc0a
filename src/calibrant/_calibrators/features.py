"""``FeatureCalibrator``: probabilities from the score and from what stands beside it."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, ClassVar, Self

from sklearn.base import ClassifierMixin, is_classifier

from calibrant import _threads as threads
from calibrant._calibrators.around import AroundWithColumns
from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.composition import stage_of
from calibrant._calibrators.feature_search import FeatureReport, FeatureSearch, in_order, report_of
from calibrant._calibrators.parameters import choice, fitted, number, wrong
from calibrant._gate import FeatureColumn, encode_columns, learn_columns, read_columns
from calibrant._maps.base import ensure
from calibrant._maps.features import BoostedTrees, FeatureMap, LinearLogits
from calibrant._progress import progress
from calibrant._solvers.feature_learners import Boosting, OtherClassifier, OtherMap, Ridge
from calibrant._types import Array, Floats, Labels

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._maps.base import CalibrationMap

LEARNERS: dict[str, Boosting | Ridge] = {
    "trees": Boosting(),
    "linear": Ridge(0.1),
    "loose linear": Ridge(1.0),
}
"""Learners of the pool. Others, of other sizes, gained less than two tenths of a per cent more on
validation parts of 38 data sets (docs/evidence/features.md)."""

# Of fewer rows in all and than that of each input, the loose linear map learns what is chance.
FEW_ROWS, ROWS_OF_AN_INPUT = 250, 5


class FeatureCalibrator(AroundWithColumns):
    """Calibrated probabilities from the scores and from features of the same rows.

    Features are whatever is known of a row beside its score: what the classifier was given, the
    group, the time. Boosted trees and linear maps read the scores and the features, and are judged
    on held-out rows, together with a calibrator of the scores alone. With q_0 the probability of a
    class by this calibrator, and q_j by learner j, the result is in proportion to

        (share * p + (1 - share) * q_0) ** sharpness,    p to the product of q_j ** powers_j.

    The powers have the largest held-out likelihood, with a price for leaving the score alone. The
    share grows with what the features gained: where they say nothing, it is 0.

    Parameters
    ----------
    calibrator : Calibrator, optional
        Calibrator of the scores alone; by default ``AutoCalibrator()``.
    learner : classifier, optional
        Classifier with ``predict_proba`` instead of these learners. It reads log-odds of the scores
        (of several classes, centred logarithms) and the features, NaN where they are missing.
    cv : int, default=5
        Number of folds.
    caution : float, default=20.0
        Number of pseudo-observations, labelled as the calibrator of the scores alone says, that
        shrink the result towards it.
    verbose : bool, default=False
        Whether to print the progress of a fit on standard error.

    Attributes
    ----------
    calibrator_ : Calibrator
        The fitted calibrator of the scores alone.
    columns_ : list of FeatureColumn
        Names of the features that are read, and the categories of those that are text.
    powers_ : ndarray
        Powers of the calibrator and of each learner that is used.
    share_ : float
        Weight of the pool in the result; 0 where the scores alone are as good.
    sharpness_ : float
        Power to which the result is raised, by the held-out likelihood; 1 changes nothing.
    trees_, linear_ : list of BoostedTrees, list of LinearLogits
        Fitted learners that are used.
    report_ : FeatureReport
        What was gained on held-out rows, and which features matter; print it.

    Notes
    -----
    Columns of text are read by category; those with fewer than 10 rows are read as one. Missing
    values may be left as they are. A data frame is read by the names of its columns.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import FeatureCalibrator
    >>> rng = np.random.default_rng(0)
    >>> age = rng.uniform(20, 80, 4000)
    >>> scores = rng.uniform(size=4000)  # which know nothing of the age
    >>> y = rng.uniform(size=4000) < np.where(age > 60, scores, scores / 2)
    >>> calibrator = FeatureCalibrator(scores="positive", classes=[False, True])
    >>> calibrator = calibrator.fit(scores, y, features=age[:, None])
    >>> young, old = calibrator.predict_proba([0.8, 0.8], features=[[30], [70]])[:, 1]
    >>> bool(young < 0.5 < old)
    True
    """

    method = "features"
    title = "Features"
    beside = "features"
    # scikit-learn's routing passes these on unless a user sets other requests.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"features": True, "sample_weight": True}
    __metadata_request__predict_proba: ClassVar[dict[str, bool]] = {"features": True}
    __metadata_request__predict = __metadata_request__predict_proba

    learner: ClassifierMixin | None = field(default=None, kw_only=False)
    cv: int = number(default=5, low=2, whole=True)
    caution: float = number(default=20.0)
    verbose: bool = choice(default=False)
    calibrator_: Calibrator = fitted()
    columns_: list[FeatureColumn] = fitted()
    powers_: Floats = fitted()
    share_: float = fitted()
    sharpness_: float = fitted()
    trees_: list[BoostedTrees] = fitted()
    linear_: list[LinearLogits] = fitted()
    report_: FeatureReport = fitted()
    map_: FeatureMap = fitted()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        given = self.learner
        is_instance = not isinstance(given, type) and hasattr(given, "predict_proba")
        if given is not None and not (is_instance and is_classifier(given)):
            problem = "must be a classifier with predict_proba, such as "
            raise wrong("learner", given, f"{problem}sklearn.ensemble.RandomForestClassifier()")

    def fit(
        self,
        scores: object,
        y: object = None,
        sample_weight: object = None,
        *,
        features: object = None,
        groups: object = None,
    ) -> Self:
        """Fit the calibrator of the scores alone and the learners.

        Parameters
        ----------
        scores, y, sample_weight
            As in every calibrator; arrays in memory.
        features : array-like or data frame of shape (n_rows, n_features)
            What else is known of each row: numbers, booleans, text or times; missing values may
            be left as they are.
        groups : array-like of shape (n_rows,), optional
            Image, document or patient that each row belongs to, which is held out whole.
        """
        return self._fit_beside(scores, y, sample_weight, features, groups)

    def _solve(
        self, batch: SimplexBatch, given: object = None, given_weight: object = None
    ) -> dict[str, object]:
        used = self._is_used(batch, given_weight)
        features = {name: col[used] for name, col in read_columns(given, len(used)).items()}
        columns = learn_columns(features)
        rows = in_order(batch, encode_columns(features, columns))
        pool: dict[str, Boosting | Ridge | OtherClassifier] = {**LEARNERS}
        n_rows, n_inputs = rows.inputs.shape
        if n_rows < FEW_ROWS and n_rows <= ROWS_OF_AN_INPUT * n_inputs:
            del pool["loose linear"]
        if self.learner is not None:
            pool = {type(self.learner).__name__: OtherClassifier(self.learner)}
        with progress("FeatureCalibrator", 3, verbose=self.verbose) as start:
            start("scores alone")
            search = FeatureSearch(rows, self.cv)
            score = search.fit_score(self._inner)
            start("learners in folds")
            search.fit_learners(pool)
            chosen = search.choose(self.caution)
            start("learners")
            learners = list(threads.each(lambda name: rows.fit(pool[name]), chosen.names))
        return {
            "calibrator_": score,
            "columns_": columns,
            "powers_": chosen.powers,
            "share_": chosen.share,
            "sharpness_": chosen.sharpness,
            "trees_": [learner for learner in learners if isinstance(learner, BoostedTrees)],
            "linear_": [learner for learner in learners if isinstance(learner, LinearLogits)],
            "others_": [learner for learner in learners if isinstance(learner, OtherMap)],
            "report_": report_of(search, chosen, columns),
            "solver_report_": chosen.report,
        }

    def _compose(self) -> CalibrationMap:
        ours: list[BoostedTrees | LinearLogits] = [*self.trees_, *self.linear_]
        names = {column.name for column in self.columns_}
        ensure(len(names) == len(self.columns_), "a name of columns_ is repeated")
        score, width = self.calibrator_, sum(column.width for column in self.columns_)
        n_outputs = 1 if len(score.classes_) == 2 else len(score.classes_)
        for learner in ours:
            is_covered = learner.n_inputs <= width + n_outputs
            ensure(is_covered, "a learner reads columns that there are not")
            ensure(learner.n_outputs == n_outputs, "a learner is of other classes")
        numbers = self.powers_, self.share_, self.sharpness_
        learners = (*ours, *getattr(self, "others_", ()))  # which no file holds
        return FeatureMap((stage_of(score),), learners, *numbers)

    def _read_beside(self, n_rows: int, given: object) -> tuple[Array, ...]:
        return (encode_columns(read_columns(given, n_rows), self.columns_),)

    def predict_proba(self, scores: object, features: object = None) -> Floats:
        """Return calibrated probabilities.

        Parameters
        ----------
        scores : array-like of shape (n_rows, n_classes)
            Predictions of the same kind as at ``fit``.
        features : array-like or data frame of shape (n_rows, n_features)
            Features of the same rows; a data frame may have its columns in any order, and others.
        """
        return self._predict_proba(scores, features)

    def predict(self, scores: object, features: object = None) -> Labels:
        """Return the label of the largest calibrated probability."""
        return self._predict(scores, features)
