"""``CalibratedClassifier``: a classifier and a calibrator, cross-validated or already fitted."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Bunch, get_tags, indexable
from sklearn.utils._indexing import _safe_indexing
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, check_is_fitted

from calibrant import notices, simplex, threads
from calibrant.calibrators.base import Calibrator, log_of
from calibrant.calibrators.methods import make_calibrator, methods
from calibrant.calibrators.scaling import TemperatureScaling
from calibrant.calibrators.state import replace_state, take_state
from calibrant.errors import CalibrantWarning, ParameterError, in_words
from calibrant.kernels.rows import top_columns
from calibrant.labels import check_weights, refuse_missing, require_labels
from calibrant.progress import progress

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class CalibratedPair:
    """A fitted classifier with the calibrator of its scores."""

    estimator: Any
    calibrator: Calibrator
    classes: NDArray[Any]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Calibrated probabilities, one column for each of ``classes``."""
        return self.predict_both(X)[0]

    def predict_both(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Calibrated probabilities, and the scores of the classifier."""
        scores, _ = class_scores(self.estimator, X, self.classes)
        return self.calibrator.predict_proba(scores), scores


def class_scores(estimator: Any, X: Any, classes: NDArray[Any]) -> tuple[NDArray[np.float64], str]:
    """Scores of a fitted classifier with a column for every class, and their kind.

    A class that the classifier never saw gets probability zero, or a logit of minus infinity.
    """
    if hasattr(estimator, "decision_function"):
        kind, missing = "logits", -np.inf
        found = np.asarray(estimator.decision_function(X), dtype=np.float64)
        if found.ndim == 1:  # one margin for two classes: softmax([0, z]) is sigmoid(z)
            found = np.column_stack([np.zeros_like(found), found])
    elif hasattr(estimator, "predict_proba"):
        kind, missing = "probabilities", 0.0
        found = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    else:
        raise AttributeError(
            f"{type(estimator).__name__} has none of the following attributes: "
            "decision_function, predict_proba"
        )
    out = np.full((len(found), len(classes)), missing)
    out[:, np.searchsorted(classes, estimator.classes_)] = found
    return out, kind


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier whose probabilities are calibrated.

    Follows scikit-learn's ``CalibratedClassifierCV``, with any calibrator of this package.

    Parameters
    ----------
    estimator : classifier, optional
        With ``decision_function`` (read as logits) or ``predict_proba``. A
        ``sklearn.frozen.FrozenEstimator`` is not fitted again: all of the data calibrate it. By
        default a linear support vector machine.
    calibrator : Calibrator or str, optional
        A calibrator, or the short name of a method, as "auto" or "na-fir". Its ``scores`` and
        ``classes`` are set to fit. By default ``TemperatureScaling()``, and not "auto", which takes
        several hundred times as long, again in each fold, where few rows are left to learn from.
    cv : int, splitter or iterable, default=5
        How to split the data into a part to train on and a part to calibrate on.
    ensemble : bool or "auto", default="auto"
        True keeps a classifier and a calibrator for each fold and averages them. False fits one
        calibrator to the predictions of all folds and one classifier to all data. "auto" is
        False for a frozen estimator and else True.
    n_jobs : int, optional
        Folds worked on at once, by processes of joblib, in which a calibrator has one thread. What
        is not done fold by fold, as predictions, has as many threads, unless the calibrator has an
        ``n_jobs`` of its own. The number changes no bit.
    verbose : bool, default=False
        Whether to say on standard error how far a fit is.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    calibrated_classifiers_ : list of CalibratedPair
        One for each fold, or only one.

    Notes
    -----
    A fold without some class is no error: the classifier trained there gives that class
    probability zero, and the average over folds does not.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from calibrant import CalibratedClassifier, FlattenedIsotonic
    >>> X, y = load_digits(return_X_y=True)
    >>> model = CalibratedClassifier(GaussianNB(), FlattenedIsotonic()).fit(X[:1000], y[:1000])
    >>> model.predict_proba(X[1000:]).shape
    (797, 10)
    """

    def __init__(
        self,
        estimator: Any = None,
        calibrator: Any = None,
        *,
        cv: Any = 5,
        ensemble: bool | str = "auto",
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.cv = cv
        self.ensemble = ensemble
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _get_estimator(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        from sklearn.svm import LinearSVC

        default = LinearSVC(random_state=0)
        return default.set_fit_request(sample_weight=True) if _routing_enabled() else default

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit the classifier and its calibrator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Whatever the estimator takes.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            Used by the calibrator, and by the estimator if it takes weights.
        **fit_params : dict
            Passed to the estimator.

        Returns
        -------
        self : object
        """
        calibrator = self._check_parameters()
        require_labels(y)
        refuse_missing(np.asarray(y))
        check_classification_targets(y)
        X, y = indexable(X, y)
        labels = np.asarray(y)
        weight = check_weights(sample_weight, len(labels))
        estimator = self._get_estimator()
        routed = self._route(estimator, sample_weight, fit_params)
        classes = np.unique(labels)
        if isinstance(estimator, FrozenEstimator):  # it may know classes that are not here
            classes = np.union1d(classes, estimator.classes_)
        job = _Job(estimator, calibrator, X, labels, weight, classes, routed.estimator.fit)
        with threads.jobs(self.n_jobs):
            if isinstance(estimator, FrozenEstimator):
                everything = np.arange(len(labels))
                pairs = [job.run(everything, everything)]
            else:
                pairs = self._cross_validate(job, routed.splitter.split)
        found = {"classes_": classes, "calibrated_classifiers_": pairs}
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(pairs[0].estimator, name):
                found[name] = getattr(pairs[0].estimator, name)
        replace_state(self, found)
        return self

    def _check_parameters(self) -> Calibrator:
        """Refuse parameters outside their documented values; return the calibrator."""
        simplex.check_option("ensemble", self.ensemble, ("auto", True, False))
        simplex.check_option("verbose", self.verbose, (True, False))
        threads.check_jobs("n_jobs", self.n_jobs)
        if isinstance(self.cv, str):
            remedy = (
                "for a classifier that is fitted already, pass FrozenEstimator(estimator) from "
                "sklearn.frozen"
                if self.cv == "prefit"
                else "pass a number of folds or a splitter"
            )
            raise ParameterError(f"cv={in_words(self.cv)} is not known; {remedy}")
        if self.calibrator is None:
            return TemperatureScaling()
        if isinstance(self.calibrator, str):
            simplex.check_option("calibrator", self.calibrator, tuple(methods()))
            return make_calibrator(self.calibrator)
        if not isinstance(self.calibrator, Calibrator):
            raise ParameterError(
                f"calibrator={in_words(self.calibrator)} is no calibrator and no name of one"
            )
        return self.calibrator

    def _route(self, estimator: Any, sample_weight: Any, fit_params: dict[str, Any]) -> Any:
        if _routing_enabled():
            return process_routing(self, "fit", sample_weight=sample_weight, **fit_params)
        takes_weights = "sample_weight" in signature(estimator.fit).parameters
        if sample_weight is not None and not takes_weights:
            notices.warn(
                CalibrantWarning(
                    f"{type(estimator).__name__} does not take sample_weight; the weights are used "
                    "for the calibration only"
                )
            )
        if sample_weight is not None and takes_weights:
            fit_params = fit_params | {"sample_weight": sample_weight}
        return Bunch(splitter=Bunch(split={}), estimator=Bunch(fit=fit_params))

    def _cross_validate(self, job: _Job, split_params: dict[str, Any]) -> list[CalibratedPair]:
        from sklearn.model_selection import check_cv  # a slow import, which names need not wait for

        with warnings.catch_warnings():
            # Fewer members of a class than folds: it is missing somewhere, which is fine here.
            warnings.filterwarnings("ignore", message="The least populated class")
            splits = list(
                check_cv(self.cv, job.y, classifier=True).split(job.X, job.y, **split_params)
            )
        is_ensemble = self.ensemble in ("auto", True)
        work = job.run if is_ensemble else job.predict
        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator")
        parts: list[Any] = []
        with progress("CalibratedClassifier", len(splits), verbose=self.verbose) as start:
            results = parallel(delayed(work)(train, test) for train, test in splits)
            for i in range(len(splits)):
                start(f"fold {i}")
                parts.append(next(results))
        if is_ensemble:
            return parts
        rows = np.concatenate([test for _, test in splits])
        scores = np.concatenate([scores for scores, _ in parts])
        calibrator = job.calibrate(scores, parts[0][1], rows)
        return [CalibratedPair(job.train(np.arange(len(job.y))), calibrator, job.classes)]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Calibrated probabilities, averaged over the folds of an ensemble.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Whatever the estimator takes.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        return take_state(self)._averages(X)[0]  # noqa: SLF001  (itself)

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Logarithms of the calibrated probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Whatever the estimator takes.

        Returns
        -------
        logs : ndarray of shape (n_samples, n_classes)
        """
        return log_of(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Label of the largest calibrated probability; of those that tie, of the largest score.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Whatever the estimator takes.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        self = take_state(self)  # noqa: PLW0642
        probabilities, scores = self._averages(X)
        best = np.empty(len(scores), dtype=np.int64)
        top_columns(probabilities, scores, best)
        found: NDArray[Any] = self.classes_[best]
        return found

    def _averages(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Calibrated probabilities, and scores, averaged over the folds of an ensemble."""
        check_is_fitted(self)
        with threads.jobs(self.n_jobs):
            both = [pair.predict_both(X) for pair in self.calibrated_classifiers_]
        probabilities, scores = (
            sum(parts[1:], parts[0]) / len(parts) for parts in zip(*both, strict=True)
        )
        return probabilities, scores

    def get_metadata_routing(self) -> MetadataRouter:
        """Where metadata goes: to the estimator's ``fit`` and the splitter's ``split``."""
        fit = MethodMapping().add(caller="fit", callee="fit")
        split = MethodMapping().add(caller="fit", callee="split")
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self._get_estimator(), method_mapping=fit)
            .add(splitter=self.cv, method_mapping=split)
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self._get_estimator()).input_tags.sparse
        return tags


@dataclass(frozen=True, slots=True)
class _Job:
    """What every fold needs."""

    estimator: Any
    calibrator: Calibrator
    X: Any
    y: NDArray[Any]
    weight: NDArray[np.float64]
    classes: NDArray[Any]
    fit_params: dict[str, Any]

    def train(self, rows: NDArray[np.int64]) -> Any:
        """Fit a copy of the classifier to some rows; metadata of one value per row is cut alike."""
        own = _check_method_params(self.X, self.fit_params, indices=rows)
        return clone(self.estimator).fit(_safe_indexing(self.X, rows), self.y[rows], **own)

    def predict(
        self, train: NDArray[np.int64], test: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], str]:
        """Scores of some rows by a classifier that was fitted to others."""
        return class_scores(self.train(train), _safe_indexing(self.X, test), self.classes)

    def calibrate(
        self, scores: NDArray[np.float64], kind: str, rows: NDArray[np.int64]
    ) -> Calibrator:
        """Fit a copy of the calibrator to scores of some rows."""
        copy = clone(self.calibrator).set_params(scores=kind, classes=self.classes)
        fitted: Calibrator = copy.fit(scores, self.y[rows], self.weight[rows])
        return fitted

    def run(self, train: NDArray[np.int64], test: NDArray[np.int64]) -> CalibratedPair:
        """Train on some rows and calibrate on others."""
        estimator = self.train(train)
        scores, kind = class_scores(estimator, _safe_indexing(self.X, test), self.classes)
        return CalibratedPair(estimator, self.calibrate(scores, kind, test), self.classes)
