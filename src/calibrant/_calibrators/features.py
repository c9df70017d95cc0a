"""``FeatureCalibrator``: probabilities from the score and from what stands beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from calibrant import _threads as threads
from calibrant import errors
from calibrant._calibrators import composition as parts
from calibrant._calibrators.auto import AutoCalibrator
from calibrant._calibrators.base import Calibrator, log_of
from calibrant._calibrators.classifier_folds import takes_features, takes_groups
from calibrant._calibrators.feature_report import FeatureReport, report_of
from calibrant._calibrators.feature_search import FeatureSearch, in_order
from calibrant._calibrators.parameters import choice, fitted, leading, number
from calibrant._gate import FeatureColumn, encode_columns, learn_columns, read_columns
from calibrant._maps.base import require
from calibrant._maps.features import BoostedTrees, FeatureMap, LinearLogits
from calibrant._progress import progress
from calibrant._solvers.feature_learners import Boosting, Foreign, ForeignMap, Ridge
from calibrant.scale import as_chunks, is_elsewhere

if TYPE_CHECKING:
    from collections.abc import Iterator

    from calibrant._gate import SimplexBatch
    from calibrant._maps.base import CalibrationMap

LEARNERS = {"trees": Boosting(), "linear": Ridge(0.1), "loose linear": Ridge(1.0)}
"""Learners of the pool. Others, of other sizes, gained less than two tenths of a per cent more on
validation parts of 38 data sets (docs/evidence/features.md)."""


class FeatureCalibrator(parts.Composed):
    """Calibrated probabilities from the scores and from features of the same rows.

    Of one score a calibrator makes all that can be made of it. What stands beside the score says
    more: the features that the classifier was given, the group, the time, other signals of a
    language model. Boosted trees and linear maps, which read the scores and the features, are
    judged on rows that they have not seen, together with a calibrator of the scores alone: with q_0
    what that says of a class and q_j what learner j does, the result is in proportion to

        (share * p + (1 - share) * q_0) ** sharpness,    p to the product of q_j ** powers_j.

    The powers have the largest held-out likelihood, with a price for leaving the score alone, and
    the share grows with what the features gained: where they say nothing, it is 0.

    Parameters
    ----------
    calibrator : Calibrator, optional
        Calibrator of the scores alone; by default ``AutoCalibrator()``.
    learner : classifier, optional
        Classifier with ``predict_proba`` instead of these learners. It reads log-odds of the
        scores (of several classes, centred logarithms) and the features, NaN where they are
        missing.
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
    trees_ : list of BoostedTrees
    linear_ : list of LinearLogits
        Fitted learners that are used.
    report_ : FeatureReport
        What was gained on held-out rows, and which features matter; print it.
    solver_report_ : SolverReport
        Convergence of the powers.

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
    stands_alone = False
    _most_points = 0
    # What scikit-learn's routing passes on unless it is told otherwise.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"features": True, "sample_weight": True}
    __metadata_request__predict_proba: ClassVar[dict[str, bool]] = {"features": True}
    __metadata_request__predict = __metadata_request__predict_proba
    __metadata_request__predict_log_proba = __metadata_request__predict_proba
    __metadata_request__transform = __metadata_request__predict_proba

    calibrator: Any = leading(default=None, kw_only=False)
    learner: Any = leading(default=None, kw_only=False)
    cv: int = number(default=5, low=2, whole=True)
    caution: float = number(default=20.0)
    verbose: bool = choice(default=False)
    calibrator_: Calibrator = fitted()
    columns_: list[FeatureColumn] = fitted()
    powers_: NDArray[np.float64] = fitted()
    share_: float = fitted()
    sharpness_: float = fitted()
    trees_: list[BoostedTrees] = fitted()
    linear_: list[LinearLogits] = fitted()
    report_: FeatureReport = fitted()
    map_: FeatureMap = fitted()

    @property
    def _inner(self) -> Calibrator:
        return AutoCalibrator() if self.calibrator is None else self.calibrator

    def _check_parameters(self) -> None:
        super()._check_parameters()
        inner = self._inner
        if (
            not isinstance(inner, Calibrator)
            or takes_groups(inner)
            or takes_features(inner)
            or inner.method == "masked"  # the pool would give absent options a probability
        ):
            raise errors.ParameterError(
                f"calibrator={errors.in_words(self.calibrator)} must be a calibrator of scores "
                "alone, such as AutoCalibrator()"
            )
        inner._check_parameters()  # noqa: SLF001  (ours)
        given = self.learner
        if given is not None and (
            isinstance(given, type)
            or not hasattr(given, "predict_proba")
            or not is_classifier(given)
        ):
            raise errors.ParameterError(
                f"learner={errors.in_words(self.learner)} must be a classifier with predict_proba, "
                "such as sklearn.ensemble.RandomForestClassifier()"
            )

    def _n_parameters(self, n_classes: int) -> int:
        return self._inner._n_parameters(n_classes)  # noqa: SLF001

    def _peak_bytes(self, n_rows: int, n_classes: int) -> int:
        return super()._peak_bytes(n_rows, n_classes) + self._inner._peak_bytes(n_rows, n_classes)  # noqa: SLF001

    def fit(
        self, scores: Any, y: Any = None, sample_weight: Any = None, *, features: Any = None
    ) -> Self:
        """Fit the calibrator of the scores alone and the learners.

        Parameters
        ----------
        scores, y, sample_weight
            As in every calibrator; arrays in memory.
        features : array-like or data frame of shape (n_rows, n_features)
            What else is known of each row: numbers, booleans, text or times; missing values may
            be left as they are.

        Returns
        -------
        self : object
            The fitted calibrator.
        """
        if as_chunks(scores, y, sample_weight) is not None:
            raise _not_chunked("fit to a sample of the rows in memory")
        return self._fit_rows(
            scores, y, sample_weight, features=features, given_weight=sample_weight
        )

    def partial_fit(self, *_: Any, **__: Any) -> Self:
        """Refuse to add rows: none of those before are kept with their features."""
        raise errors.ContainerError(
            "FeatureCalibrator has no partial_fit, as it keeps no features of earlier rows; call "
            "fit with all rows"
        )

    def _fit_parts(
        self, batch: SimplexBatch, features: Any = None, given_weight: Any = None
    ) -> dict[str, Any]:
        used = np.ones(batch.n_rows, bool)
        if given_weight is not None:
            used = np.asarray(given_weight, dtype=np.float64) > 0.0
        given = {name: col[used] for name, col in read_columns(features, len(used)).items()}
        columns = learn_columns(given)
        rows = in_order(batch, encode_columns(given, columns))
        learners: dict[str, Any] = dict(LEARNERS)
        if self.learner is not None:
            learners = {type(self.learner).__name__: Foreign(self.learner)}
        with progress("FeatureCalibrator", 3, verbose=self.verbose) as start:
            start("scores alone")
            search = FeatureSearch(rows, self.cv)
            score = search.fit_score(self._inner)
            start("learners in folds")
            search.fit_learners(learners)
            found = search.choose(self.caution)
            start("learners")
            whole = list(threads.each(lambda name: rows.fit(learners[name]), found.names))
        return {
            "calibrator_": score,
            "columns_": columns,
            "powers_": found.powers,
            "share_": found.share,
            "sharpness_": found.sharpness,
            "trees_": [fit for fit in whole if isinstance(fit, BoostedTrees)],
            "linear_": [fit for fit in whole if isinstance(fit, LinearLogits)],
            "_foreign": [fit for fit in whole if isinstance(fit, ForeignMap)],
            "report_": report_of(search, found, columns),
            "solver_report_": found.report,
        }

    def _compose(self, found: dict[str, Any]) -> CalibrationMap:
        learners = (*found["trees_"], *found["linear_"], *found.get("_foreign", ()))
        score, width = found["calibrator_"], sum(column.width for column in found["columns_"])
        k = len(score.classes_)
        n_inputs, n_outputs = width + (1 if k == 2 else k), 1 if k == 2 else k
        for learner in learners:
            if not isinstance(learner, ForeignMap):
                require(learner.n_inputs <= n_inputs, "a learner reads columns that there are not")
                require(learner.n_outputs == n_outputs, "a learner is of other classes")
        numbers = found["powers_"], found["share_"], found["sharpness_"]
        return FeatureMap((parts.stage_of(score),), learners, *numbers)

    def _complaints(self, batch: SimplexBatch, fitted: dict[str, Any]) -> Iterator[Warning]:
        """Yield what the fit of the scores alone has to say; then one's own."""
        score = fitted["calibrator_"]
        yield from score._complaints(batch, vars(score))  # noqa: SLF001  (ours)
        yield from super()._complaints(batch, fitted)

    def _warn_of_shares(self, batch: SimplexBatch, found: CalibrationMap) -> None:
        super()._warn_of_shares(batch, found.stages[0])  # type: ignore[attr-defined]

    def _calibrate(self, scores: Any, matrix: NDArray[Any]) -> Iterator[tuple[slice, Any, Any]]:
        given = read_columns(vars(self)["_features"], len(matrix))
        self.__dict__["_by_row"] = (encode_columns(given, self.columns_),)
        yield from super()._calibrate(scores, matrix)

    def _with(self, features: Any, scores: Any) -> Self:
        """Return the fit as it is now, which knows the features of the rows to predict."""
        if is_elsewhere(scores):
            raise _not_chunked("predict partitions of rows in memory")
        taken = self._take()
        taken.__dict__["_features"] = features
        return taken

    def predict_proba(self, scores: Any, features: Any = None) -> NDArray[Any]:
        """Return calibrated probabilities.

        Parameters
        ----------
        scores : array-like of shape (n_rows, n_classes)
            Predictions of the same kind as at ``fit``.
        features : array-like or data frame of shape (n_rows, n_features)
            Features of the same rows; a data frame may have its columns in any order, and others.

        Returns
        -------
        probabilities : ndarray of shape (n_rows, n_classes)
            Rows that sum to 1, columns in the order of ``classes_``.
        """
        return Calibrator.predict_proba(self._with(features, scores), scores)

    def predict_log_proba(self, scores: Any, features: Any = None) -> NDArray[Any]:
        """Return the logarithms of the calibrated probabilities."""
        return log_of(self.predict_proba(scores, features))

    def transform(self, scores: Any, features: Any = None) -> NDArray[Any]:
        """Return calibrated probabilities; ``predict_proba`` for pipelines."""
        return self.predict_proba(scores, features)

    def predict(self, scores: Any, features: Any = None) -> NDArray[Any]:
        """Return the label of the largest calibrated probability."""
        return Calibrator.predict(self._with(features, scores), scores)


def _not_chunked(remedy: str) -> errors.ContainerError:
    start = "scores is in chunks, which FeatureCalibrator does not accept"
    return errors.ContainerError(f"{start}: {remedy}")
