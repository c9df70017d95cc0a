"""``CalibratedClassifier``: a classifier and a calibrator, cross-validated or already fitted."""

from __future__ import annotations

from dataclasses import field
from inspect import signature
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, TransformerMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Bunch, get_tags, indexable
from sklearn.utils import metadata_routing as routing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from calibrant import _gate as gate
from calibrant import _notices as notices
from calibrant import _threads as threads
from calibrant._calibrators import classifier_folds as folds
from calibrant._calibrators.base import Calibrator, log_of
from calibrant._calibrators.classifier_folds import CalibratedPair, Folds
from calibrant._calibrators.features import FeatureCalibrator
from calibrant._calibrators.methods import make_calibrator, methods
from calibrant._calibrators.parameters import (
    Parameters,
    choice,
    number_of_jobs,
    replace_state,
    take_state,
    wrong,
)
from calibrant._kernels.rows import top_columns
from calibrant.errors import CalibrantWarning, ParameterError, in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sklearn.model_selection import BaseCrossValidator
    from sklearn.utils import Tags

    from calibrant._types import Floats, Labels, Wholes


Found = TypeVar("Found")

OF_SCIKIT_LEARN = {"sigmoid": "platt-ovr", "isotonic": "ir-ovr", "temperature": "ts"}
"""The methods of scikit-learn's ``CalibratedClassifierCV``, by the names that it has for them."""


class CalibratedClassifier(
    Parameters, ClassifierMixin, TransformerMixin, MetaEstimatorMixin, BaseEstimator
):
    """Classifier with calibrated probabilities.

    Follows scikit-learn's ``CalibratedClassifierCV``, with any calibrator of this package.

    Parameters
    ----------
    estimator : classifier, optional
        Classifier with ``decision_function`` (read as logits) or ``predict_proba``. A
        ``sklearn.frozen.FrozenEstimator`` is not fitted again: all data are used for calibration.
        By default a linear support vector machine.
    calibrator : Calibrator or str, optional
        Calibrator, or the short name of a method such as "structured" or "na-fir"; scikit-learn's
        "sigmoid", "isotonic" and "temperature" are accepted, too. Its ``scores`` and ``classes``
        are set to match the classifier. By default ``AutoCalibrator()``.
    cv : int, splitter or iterable, default=5
        Cross-validation splitting into training and calibration parts. Every class needs at least
        as many rows as there are folds.
    ensemble : bool or "auto", default="auto"
        "auto" keeps the classifier of each fold, fits one calibrator to the predictions for all
        held-out rows, and averages the logarithms of the calibrated probabilities, with an offset
        for each class that keeps the class shares. True is as in scikit-learn: each classifier has
        its own calibrator, and probabilities are averaged, which makes them under-confident. False
        fits one classifier to all data, with the calibrator of "auto".
    n_jobs : int, optional
        Number of folds that are fitted in parallel by joblib, each with one thread for the
        calibrator, and number of threads of predictions, unless the calibrator has its own
        ``n_jobs``. Results do not depend on it.
    method : str, optional
        Name of a method, as in scikit-learn; an alternative to ``calibrator``.
    response_method : {"auto", "decision_function", "predict_proba"}, default="auto"
        Which scores of the classifier are calibrated. "auto" takes ``decision_function`` if there
        is one, as that of LightGBM, else ``predict_proba``.
    features : bool, default=False
        Whether the calibrator reads ``X`` beside the scores: it is then a
        :class:`FeatureCalibrator` around ``calibrator``, fitted to the scores of held-out rows.
        ``X`` must be a dense array or a data frame.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    calibrated_classifiers_ : list of CalibratedPair
        One pair for each fold, or a single one. With ``ensemble="auto"`` they share a calibrator.
    calibrators_ : list of Calibrator
        The calibrators of these pairs, each once.
    pooling_ : {"logarithms", "probabilities"}
        Whether logarithms or probabilities are averaged over the folds.
    class_offsets_ : ndarray of shape (n_classes,)
        Added to averaged logarithms, whose mean probabilities would else be too small for rare
        classes; zeros where probabilities are averaged.

    Notes
    -----
    A splitter may leave a class out of the rows that a fold's classifier is trained on. As in
    scikit-learn that classifier gives the class probability zero. In the average it has more: with
    "auto" the mean is over the classifiers that know the class, with True over all of them. Rows of
    such a class are left out of the calibration of that classifier, with a warning.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from calibrant import CalibratedClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = CalibratedClassifier(GaussianNB()).fit(X[:1000], y[:1000])
    >>> model.predict_proba(X[1000:]).shape
    (797, 10)
    """

    estimator: BaseEstimator | None = field(default=None, kw_only=False)
    calibrator: Calibrator | str | None = field(default=None, kw_only=False)
    cv: int | BaseCrossValidator | Iterable[tuple[Wholes, Wholes]] | None = 5
    ensemble: bool | str = choice(("auto", True, False), default="auto")
    n_jobs: int | None = number_of_jobs(default=None)
    method: str | None = None
    response_method: str = choice(("auto", "decision_function", "predict_proba"), default="auto")
    features: bool = choice(default=False)

    def _get_estimator(self) -> BaseEstimator:
        if self.estimator is not None:
            return self.estimator
        from sklearn.svm import LinearSVC

        default = LinearSVC(random_state=0)
        is_routed = get_config()["enable_metadata_routing"]
        return default.set_fit_request(sample_weight=True) if is_routed else default

    def fit(self, X: object, y: object, sample_weight: object = None, **fit_params: object) -> Self:
        """Fit the classifier and its calibrator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Whatever the estimator takes.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            Sample weights, used by the calibrator, and by the estimator if it takes weights.
        **fit_params : dict
            Passed to the estimator. ``groups``, the group of each row, goes to a ``cv`` that splits
            by them, such as ``GroupKFold()``, and to the calibrator. With metadata routing, all go
            to whoever requests them.
        """
        calibrator = self._find_calibrator()
        estimator = self._get_estimator()
        labels = folds.check_target(y, estimator)
        X, _ = indexable(X, y)
        weight = gate.check_weights(sample_weight, len(labels))
        routed = self._route(estimator, calibrator, sample_weight, fit_params)
        classes = np.unique(labels)
        if isinstance(estimator, FrozenEstimator):  # it may know classes that are not here
            classes = np.union1d(classes, estimator.classes_)
        job = Folds(
            estimator,
            calibrator,
            X,
            labels,
            weight,
            classes,
            fit_params=routed.estimator.fit,
            calibrator_params=routed.calibrator.fit,
            response_method=self.response_method,
        )
        with threads.jobs(self.n_jobs):
            if isinstance(estimator, FrozenEstimator):
                everything = np.arange(len(labels))
                pairs, offsets = [job.run(everything, everything)], None
            else:
                pairs, offsets = self._cross_validate(job, routed.splitter.split)
        result = {
            "classes_": classes,
            "calibrated_classifiers_": pairs,
            "pooling_": "probabilities" if offsets is None else "logarithms",
            "class_offsets_": np.zeros(len(classes)) if offsets is None else offsets,
        }
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(pairs[0].estimator, name):
                result[name] = getattr(pairs[0].estimator, name)
        replace_state(self, result)
        return self

    def _find_calibrator(self) -> Calibrator:
        """Refuse parameters outside their documented values; return the calibrator."""
        self._check_parameters()
        if isinstance(self.cv, str):
            problem = "is not known; pass a number of folds or a splitter; if the estimator is "
            problem += "fitted already, pass sklearn.frozen.FrozenEstimator(estimator)"
            raise wrong("cv", self.cv, problem)
        if self.method is not None and self.calibrator is not None:
            problem = f"and method={in_words(self.method)} mean the same; pass one of them"
            raise wrong("calibrator", self.calibrator, problem)
        argument = "calibrator" if self.method is None else "method"
        given: object = self.calibrator if self.method is None else self.method
        if given is None:
            result = make_calibrator("auto")
        elif isinstance(given, str):
            if given not in (*methods(), *OF_SCIKIT_LEARN):
                gate.check_option(argument, given, (*methods(study=True), *OF_SCIKIT_LEARN))
            result = make_calibrator(OF_SCIKIT_LEARN.get(given, given))
        elif isinstance(given, Calibrator):
            result = given
        else:
            raise wrong(argument, given, "is neither a calibrator nor a method")
        needs_features = self.features and result.beside != "features"
        return FeatureCalibrator(result) if needs_features else result

    def _route(
        self,
        estimator: BaseEstimator,
        calibrator: Calibrator,
        sample_weight: object,
        fit_params: dict[str, object],
    ) -> Bunch:
        if get_config()["enable_metadata_routing"]:
            routed = routing.process_routing(self, "fit", sample_weight=sample_weight, **fit_params)
            return Bunch(**{"calibrator": Bunch(fit={})} | routed)
        own = {name: fit_params[name] for name in ("groups",) if name in fit_params}
        to_splitter = own if folds.splits_by_groups(self.cv) else {}
        if own and "groups" not in signature(estimator.fit).parameters:
            if not (to_splitter or calibrator.beside == "groups"):
                raise ParameterError(
                    f"groups is given, but neither cv={in_words(self.cv)} nor the calibrator takes "
                    "it; pass cv=sklearn.model_selection.GroupKFold() to keep the rows of a group "
                    "in one fold, or calibrator=GroupedCalibrator(...) for a map of each group",
                    argument="groups",
                )
            del fit_params["groups"]
        takes_weights = "sample_weight" in signature(estimator.fit).parameters
        if sample_weight is not None and not takes_weights:
            message = f"{type(estimator).__name__} does not take sample_weight; the weights are "
            notices.warn(CalibrantWarning(f"{message}used for the calibration only"))
        if sample_weight is not None and takes_weights:
            fit_params = fit_params | {"sample_weight": sample_weight}
        parts = {"estimator": Bunch(fit=fit_params), "calibrator": Bunch(fit=own)}
        return Bunch(splitter=Bunch(split=to_splitter), **parts)

    def _cross_validate(
        self, job: Folds, split_params: dict[str, object]
    ) -> tuple[list[CalibratedPair], Floats | None]:
        """Return the calibrated classifiers, and offsets of the mean of their logarithms."""
        from sklearn.model_selection import check_cv  # a slow import, which names need not wait for

        folds.refuse_too_many_folds(self.cv, job.y, self.ensemble)
        if folds.needs_groups(self.cv) and split_params.get("groups") is None:
            problem = "needs the group of each row; call fit(X, y, groups=groups)"
            raise wrong("cv", self.cv, problem)
        splits = list(check_cv(self.cv, job.y, classifier=True).split(job.X, job.y, **split_params))
        if self.ensemble is True:
            return self._each_fold(job.run, splits), None
        parts = self._each_fold(job.predict, splits)
        rows = np.concatenate([test for _, test in splits])
        calibrator = job.calibrate(parts, rows)
        if self.ensemble is False:
            trained = job.train(np.arange(len(job.y)))
            return [CalibratedPair(trained, calibrator, job.classes)], None
        pairs = [CalibratedPair(part.estimator, calibrator, job.classes) for part in parts]
        return pairs, job.find_offsets(pairs, parts, rows) if len(pairs) > 1 else None

    def _each_fold(
        self, work: Callable[[Wholes, Wholes], Found], splits: list[tuple[Wholes, Wholes]]
    ) -> list[Found]:
        """Return what the work returns for each fold."""
        parts: list[Found] = []
        complaints: dict[type[Warning], Warning] = {}
        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator")
        for part, kept in parallel(delayed(folds.keep_warnings)(work, *split) for split in splits):
            parts.append(part)
            for warning in kept:
                complaints.setdefault(type(warning), warning)
        for warning in complaints.values():  # one of a kind: folds are much alike
            notices.warn(warning)
        return parts

    def predict_proba(self, X: object, **params: object) -> Floats:
        """Return calibrated probabilities, averaged over the folds of an ensemble.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Whatever the estimator takes.
        **params : dict
            ``groups`` of the rows, for a calibrator that takes them.
        """
        return take_state(self)._averages(X, **params)[0]  # noqa: SLF001  (itself)

    def predict_log_proba(self, X: object, **params: object) -> Floats:
        """Return the logarithms of the calibrated probabilities."""
        return log_of(self.predict_proba(X, **params))

    def transform(self, X: object, **params: object) -> Floats:
        """Return calibrated probabilities; ``predict_proba`` for pipelines and ``set_output``."""
        return self.predict_proba(X, **params)

    def get_feature_names_out(self, input_features: object = None) -> Labels:  # noqa: ARG002
        """Return the names of the columns of ``transform``: the classes."""
        check_is_fitted(self)
        return np.array([str(label) for label in self.classes_], dtype=object)

    @property
    def calibrators_(self) -> list[Calibrator]:
        """Fitted calibrators: one for all folds, or one for each with ``ensemble=True``."""
        check_is_fitted(self)
        pairs = self.calibrated_classifiers_
        return list({id(pair.calibrator): pair.calibrator for pair in pairs}.values())

    def predict(self, X: object, **params: object) -> Labels:
        """Label of the largest calibrated probability; of those that tie, of the largest score."""
        self = take_state(self)  # noqa: PLW0642
        probabilities, scores = self._averages(X, **params)
        best = np.empty(len(scores), dtype=np.intp)
        top_columns(probabilities, scores, best)
        labels: Labels = self.classes_[best]
        return labels

    def _averages(self, X: object, **params: object) -> tuple[Floats, Floats]:
        """Calibrated probabilities, and scores, averaged over the folds of an ensemble."""
        check_is_fitted(self)
        with threads.jobs(self.n_jobs):
            both = [pair.predict_both(X, **params) for pair in self.calibrated_classifiers_]
        parts, scores = zip(*both, strict=True)
        average = sum(scores[1:], scores[0]) / len(scores)
        if self.pooling_ == "logarithms":
            known = [pair.is_known for pair in self.calibrated_classifiers_]
            return folds.average_logarithms(parts, known, self.class_offsets_), average
        return sum(parts[1:], parts[0]) / len(parts), average

    def get_metadata_routing(self) -> routing.MetadataRouter:
        """Where metadata goes: to the estimator's ``fit``, the splitter's ``split``, and groups."""
        fit = routing.MethodMapping().add(caller="fit", callee="fit")
        split = routing.MethodMapping().add(caller="fit", callee="split")
        router = (
            routing.MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self._get_estimator(), method_mapping=fit)
            .add(splitter=self.cv, method_mapping=split)
        )
        # Other calibrators get the weights alone, which need no request.
        if getattr(self.calibrator, "beside", None) == "groups":
            own = routing.MethodMapping().add(caller="fit", callee="fit")
            for name in ("predict_proba", "predict", "predict_log_proba"):
                own.add(caller=name, callee="predict_proba")
            router.add(calibrator=self.calibrator, method_mapping=own)
        return router

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self._get_estimator()).input_tags.sparse
        return tags
