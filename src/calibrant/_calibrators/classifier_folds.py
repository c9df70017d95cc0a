"""What ``CalibratedClassifier`` does in a fold: train on some rows, calibrate on others."""

from __future__ import annotations

from dataclasses import dataclass, field
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils._indexing import _safe_indexing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_method_params

from calibrant import _notices as notices
from calibrant._calibrators.base import Calibrator
from calibrant._labels import refuse_missing, require_labels
from calibrant.errors import (
    ClassCountError,
    LabelError,
    MissingClassWarning,
    ParameterError,
    in_words,
    number_of,
    some_in_words,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


LEAST_PROBABILITY = float(np.finfo(np.float64).tiny)
"""A probability of zero has this logarithm."""


@dataclass(frozen=True, slots=True)
class CalibratedPair:
    """A fitted classifier with the calibrator of its scores."""

    estimator: Any
    calibrator: Calibrator
    classes: NDArray[Any]

    def predict_proba(self, X: Any, **params: Any) -> NDArray[np.float64]:
        """Calibrated probabilities, one column for each of ``classes``."""
        return self.predict_both(X, **params)[0]

    def predict_both(
        self, X: Any, **params: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Calibrated probabilities, and the scores of the classifier."""
        scores, _ = class_scores(self.estimator, X, self.classes)
        calibrated = self.calibrator.predict_proba(scores, **params)
        if not self.is_known.all():
            calibrated = without_unknown(calibrated, self.is_known)
        return calibrated, scores

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """Whether the classifier was trained on a class."""
        return np.isin(self.classes, self.estimator.classes_)


def without_unknown(
    probabilities: NDArray[np.float64], is_known: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Give classes that a classifier was not trained on probability zero; rows sum to 1 again."""
    rest = np.where(is_known, probabilities, 0.0)
    total = rest.sum(axis=1, keepdims=True)
    even = is_known / is_known.sum()  # where nothing else is left, as in scikit-learn
    return np.where(total > 0.0, rest / np.where(total > 0.0, total, 1.0), even)


def average_logarithms(
    parts: Sequence[NDArray[np.float64]], is_known: Sequence[NDArray[np.bool_]]
) -> NDArray[np.float64]:
    """Geometric mean of probabilities over classifiers, normalised.

    The arithmetic mean of probabilities that are right is too flat: where classifiers differ, each
    knows something that the others do not. A class is averaged over the classifiers that know it;
    one that none of them knows has probability zero.
    """
    shares = known_shares(is_known)
    logs = np.zeros_like(parts[0])
    for part, share in zip(parts, shares, strict=True):
        logs += np.log(np.maximum(part, LEAST_PROBABILITY)) * share
    mean = np.where(shares.any(axis=0), np.exp(logs), 0.0)
    averaged: NDArray[np.float64] = mean / mean.sum(axis=1, keepdims=True)
    return averaged


def known_shares(is_known: Sequence[NDArray[np.bool_]]) -> NDArray[np.float64]:
    """Share of each classifier in the average of each class: 0 if it does not know the class."""
    known = np.asarray(is_known)
    shares: NDArray[np.float64] = known / np.maximum(known.sum(axis=0), 1)
    return shares


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
        outputs = estimator.predict_proba(X)
        if isinstance(outputs, list) and np.ndim(outputs) > 2:  # a matrix for each output
            raise _several_outputs(estimator, f"predict_proba returns {len(outputs)} matrices")
        found = np.asarray(outputs, dtype=np.float64)
    else:
        raise AttributeError(
            f"{type(estimator).__name__} has none of the following attributes: "
            "decision_function, predict_proba"
        )
    out = np.full((len(found), len(classes)), missing)
    out[:, np.searchsorted(classes, estimator.classes_)] = found
    return out, kind


def _several_outputs(estimator: Any, what: str) -> LabelError:
    inner = getattr(estimator, "estimator", estimator)
    return LabelError(
        f"{what}, but CalibratedClassifier calibrates one output; pass one label per row, or "
        "calibrate each output with "
        f"sklearn.multioutput.MultiOutputClassifier(CalibratedClassifier({type(inner).__name__}(...)))"
    )


class FoldPrediction(NamedTuple):
    """A fitted classifier, its scores of held-out rows, and if it knows the class of each."""

    estimator: Any
    scores: NDArray[np.float64]
    kind: str
    is_known: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Folds:
    """What every fold of a fit needs."""

    estimator: Any
    calibrator: Calibrator
    X: Any
    y: NDArray[Any]
    weight: NDArray[np.float64]
    classes: NDArray[Any]
    fit_params: dict[str, Any]
    calibrator_params: dict[str, Any] = field(default_factory=dict)

    def train(self, rows: NDArray[np.int64]) -> Any:
        """Fit a copy of the classifier to some rows; metadata of one value per row is cut alike."""
        own = _check_method_params(self.X, self.fit_params, indices=rows)
        return clone(self.estimator).fit(_safe_indexing(self.X, rows), self.y[rows], **own)

    def predict(self, train: NDArray[np.int64], test: NDArray[np.int64]) -> FoldPrediction:
        """Train on some rows and predict others."""
        estimator = self.train(train)
        scores, kind = class_scores(estimator, _safe_indexing(self.X, test), self.classes)
        return FoldPrediction(
            estimator, scores, kind, np.isin(self.y[test].ravel(), estimator.classes_)
        )

    def calibrate(self, parts: Sequence[FoldPrediction], rows: NDArray[np.int64]) -> Calibrator:
        """Fit a copy of the calibrator to predictions for some rows, but not of unknown classes."""
        scores = np.concatenate([part.scores for part in parts])
        is_known = np.concatenate([part.is_known for part in parts])
        if not is_known.all():
            names = some_in_words(np.unique(self.y[rows[~is_known]]))
            problem = f"of classes that the classifier of their fold was not trained on ({names})"
            remedy = "use a cv that has all classes in every training part, such as StratifiedKFold"
            if not is_known.any():
                raise LabelError(f"all {len(rows)} calibration rows are {problem}; {remedy}")
            notices.warn(
                MissingClassWarning(
                    f"{(~is_known).sum()} of {len(rows)} calibration rows are {problem}: they are "
                    f"left out, and that classifier gives these classes probability 0; {remedy}"
                )
            )
        copy = clone(self.calibrator).set_params(scores=parts[0].kind, classes=self.classes)
        rows = rows[is_known]
        own = _check_method_params(self.X, self.calibrator_params, indices=rows)
        own["sample_weight"] = self.weight[rows]
        fitted: Calibrator = copy.fit(scores[is_known], self.y[rows], **own)
        return fitted

    def run(self, train: NDArray[np.int64], test: NDArray[np.int64]) -> CalibratedPair:
        """Train on some rows and calibrate on others."""
        part = self.predict(train, test)
        return CalibratedPair(part.estimator, self.calibrate([part], test), self.classes)


def takes_groups(calibrator: Any) -> bool:
    """Whether a calibrator is fitted with groups."""
    return isinstance(calibrator, Calibrator) and "groups" in signature(calibrator.fit).parameters


def keep_warnings(work: Any, *rows: NDArray[np.int64]) -> tuple[Any, list[Warning]]:
    """Do the work of a fold, in any process; return what it warns of, for the user's line."""
    with notices.kept() as kept:
        return work(*rows), kept


def read_labels(y: Any, estimator: Any) -> NDArray[Any]:
    """Return the labels, one for each row, or say what is wrong with them."""
    require_labels(y)
    labels = np.asarray(y)
    refuse_missing(labels)
    if labels.ndim == 2 and labels.shape[1] > 1:
        raise _several_outputs(estimator, f"y has shape {labels.shape}")
    if type(estimator).__name__ == "MultiOutputClassifier":  # which is slow to import
        raise _several_outputs(estimator, "estimator is a MultiOutputClassifier")
    check_classification_targets(y)
    return labels


def refuse_too_many_folds(cv: Any, labels: NDArray[Any], ensemble: bool | str) -> None:
    """Refuse more folds than the smallest class has rows, as scikit-learn does."""
    if type(cv).__name__ == "LeaveOneOut" and ensemble is True:
        raise ParameterError(
            "LeaveOneOut cross-validation does not allow all classes to be present in test "
            'splits, which ensemble=True calibrates on; use ensemble="auto", or another cv'
        )
    n_folds = 5 if cv is None else getattr(cv, "n_splits", cv)
    values, counts = np.unique(labels, return_counts=True)
    if len(values) == 1:
        raise ClassCountError(
            f"every label is {in_words(values[0])}: one class, but a classifier needs two"
        )
    least = int(np.argmin(counts))
    if isinstance(n_folds, int | np.integer) and counts[least] < n_folds:
        remedy = f"use cv={counts[least]}" if counts[least] > 1 else "drop this class, or add rows"
        rows = number_of(int(counts[least]), "row")
        raise ParameterError(
            f"Requesting {n_folds}-fold cross-validation but provided less than {n_folds} examples "
            f"for at least one class: {in_words(values[least])} has {rows}; {remedy}"
        )
