"""What ``CalibratedClassifier`` does in a fold: train on some rows, calibrate on others."""

from __future__ import annotations

from dataclasses import dataclass, field
from inspect import signature
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils._indexing import _safe_indexing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_method_params

from calibrant import _notices as notices
from calibrant._calibrators.base import Calibrator
from calibrant._gate import refuse_missing, require_labels
from calibrant._solvers.class_offsets import correct_shares, solve_class_offsets
from calibrant.errors import (
    LabelError,
    MissingClassWarning,
    ParameterError,
    ShapeError,
    in_words,
    number_of,
    some_in_words,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from calibrant._types import Bools, Floats, Labels, Wholes


Found = TypeVar("Found")

LEAST_PROBABILITY = float(np.finfo(np.float64).tiny)  # a probability of zero has its logarithm
MOST_CELLS_COMPARED = 1 << 18  # probabilities on which shares of classes are compared, but at least
LEAST_ROWS_COMPARED = 5000  # this many rows


@dataclass(frozen=True, slots=True)
class CalibratedPair:
    """A fitted classifier with the calibrator of its scores."""

    estimator: BaseEstimator
    calibrator: Calibrator
    classes: Labels

    def predict_proba(self, X: object, **params: object) -> Floats:
        """Calibrated probabilities, one column for each of ``classes``."""
        return self.predict_both(X, **params)[0]

    def predict_both(self, X: object, **params: object) -> tuple[Floats, Floats]:
        """Calibrated probabilities, and the scores of the classifier."""
        scores, _ = class_scores(self.estimator, X, self.classes, self.response_method)
        if self.calibrator.beside == "features":
            params["features"] = X
        calibrated = self.calibrator.predict_proba(scores, **params)
        if not self.is_known.all():  # classes that it was not trained on have probability zero
            rest = np.where(self.is_known, calibrated, 0.0)
            total = rest.sum(axis=1, keepdims=True)
            even = self.is_known / self.is_known.sum()  # where nothing is left, as in scikit-learn
            calibrated = np.where(total > 0.0, rest / np.where(total > 0.0, total, 1.0), even)
        return calibrated, scores

    @property
    def response_method(self) -> str:
        """Method of the classifier whose scores the calibrator takes."""
        return "decision_function" if self.calibrator.scores == "logits" else "predict_proba"

    @property
    def is_known(self) -> Bools:
        """Whether the classifier was trained on a class."""
        return np.isin(self.classes, self.estimator.classes_)


def average_logarithms(
    parts: Sequence[Floats], is_known: Sequence[Bools], offsets: Floats
) -> Floats:
    """Geometric mean of probabilities over classifiers, times exp(offsets), normalised.

    The arithmetic mean of probabilities that are right is too flat: where classifiers differ, each
    knows something that the others do not. A class is averaged over the classifiers that know it;
    one that none of them knows has probability zero.
    """
    logs = np.zeros_like(parts[0])
    for part, share in zip(parts, known_shares(is_known), strict=True):
        logs += np.log(np.maximum(part, LEAST_PROBABILITY)) * share
    logs = logs + offsets
    mean = np.where(np.any(is_known, axis=0), np.exp(logs), 0.0)
    averaged: Floats = mean / mean.sum(axis=1, keepdims=True)
    return averaged


def known_shares(is_known: Sequence[Bools]) -> Floats:
    """Share of each classifier in the average of each class: 0 if it does not know the class."""
    known = np.asarray(is_known)
    shares: Floats = known / np.maximum(known.sum(axis=0), 1)
    return shares


def class_scores(
    estimator: BaseEstimator, X: object, classes: Labels, response_method: str = "auto"
) -> tuple[Floats, str]:
    """Scores of a fitted classifier with a column for every class, and their kind.

    A class that the classifier never saw gets probability zero, or a logit of minus infinity.
    """
    known = ("decision_function", "predict_proba")
    asked = known if response_method == "auto" else (response_method,)
    method = next((name for name in asked if hasattr(estimator, name)), None)
    if method == "decision_function":
        kind, missing = "logits", -np.inf
        result = np.asarray(estimator.decision_function(X), dtype=np.float64)
        if result.ndim == 1:  # one margin for two classes: softmax([0, z]) is sigmoid(z)
            result = np.column_stack([np.zeros_like(result), result])
    elif method == "predict_proba":
        kind, missing = "probabilities", 0.0
        outputs = estimator.predict_proba(X)
        if isinstance(outputs, list) and np.ndim(outputs) > 2:  # a matrix for each output
            raise _several_outputs(estimator, f"predict_proba returns {len(outputs)} matrices")
        result = np.asarray(outputs, dtype=np.float64)
    else:
        raise AttributeError(
            f"{type(estimator).__name__} has none of the following attributes: {', '.join(asked)}"
        )
    out = np.full((len(result), len(classes)), missing)
    out[:, np.searchsorted(classes, estimator.classes_)] = result
    return out, kind


def _several_outputs(estimator: object, what: str) -> LabelError:
    inner = getattr(estimator, "estimator", estimator)
    return LabelError(
        f"{what}, but CalibratedClassifier calibrates one output; pass one label per row, or "
        "calibrate each output with "
        f"sklearn.multioutput.MultiOutputClassifier(CalibratedClassifier({type(inner).__name__}(...)))"
    )


class FoldPrediction(NamedTuple):
    """A fitted classifier, its scores of held-out rows, and if it knows the class of each."""

    estimator: BaseEstimator
    scores: Floats
    kind: str
    is_known: Bools


@dataclass(frozen=True, slots=True)
class Folds:
    """What every fold of a fit needs."""

    estimator: BaseEstimator
    calibrator: Calibrator
    X: object
    y: Labels
    weight: Floats
    classes: Labels
    fit_params: dict[str, object]
    calibrator_params: dict[str, object] = field(default_factory=dict)
    response_method: str = "auto"

    def train(self, rows: Wholes) -> BaseEstimator:
        """Fit a copy of the classifier to some rows; metadata of one value per row is cut alike."""
        own = _check_method_params(self.X, self.fit_params, indices=rows)
        return clone(self.estimator).fit(_safe_indexing(self.X, rows), self.y[rows], **own)

    def predict(self, train: Wholes, test: Wholes) -> FoldPrediction:
        """Train on some rows and predict others."""
        estimator = self.train(train)
        X = _safe_indexing(self.X, test)
        scores, kind = class_scores(estimator, X, self.classes, self.response_method)
        return FoldPrediction(
            estimator, scores, kind, np.isin(self.y[test].ravel(), estimator.classes_)
        )

    def calibrate(self, parts: Sequence[FoldPrediction], rows: Wholes) -> Calibrator:
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
        is_one = "groups" in own and len(set(own["groups"])) == 1
        if is_one and copy.beside != "groups":  # none can be held out
            del own["groups"]
        if copy.beside == "features":
            own["features"] = _safe_indexing(self.X, rows)
        fitted: Calibrator = copy.fit(scores[is_known], self.y[rows], **own)
        return fitted

    def find_offsets(
        self, pairs: Sequence[CalibratedPair], parts: Sequence[FoldPrediction], rows: Wholes
    ) -> Floats:
        """Offsets with which averaged logarithms keep the shares of the classes.

        By which factor a geometric mean is too small is seen on all rows, though all classifiers
        but one were trained on a row: on 29 tables and nine kinds of classifiers that of new rows
        was within 1 % on average. How far an offset moves a share is seen on held-out rows, as
        predictions for training rows may be certain and hardly move. A calibrator that tells
        classes apart is also corrected by what it predicts of these too much or too little.
        """
        calibrator, is_known = pairs[0].calibrator, [pair.is_known for pair in pairs]
        most = max(MOST_CELLS_COMPARED // len(self.classes), LEAST_ROWS_COMPARED)
        step = -(-len(self.y) // most)
        some = np.arange(0, len(self.y), step)
        known_rows = np.concatenate([part.is_known for part in parts])
        rows = rows[known_rows][::step]
        with notices.kept():  # what there is to say of these rows was said at the fit
            X, own = _safe_indexing(self.X, some), self._of_rows(some)
            outputs = [pair.predict_proba(X, **own) for pair in pairs]
            scores = np.concatenate([part.scores for part in parts])[known_rows][::step]
            held_out = calibrator.predict_proba(scores, **self._of_rows(rows))
        plain = average_logarithms(outputs, is_known, np.zeros(len(self.classes)))
        weight, means = self.weight[some], np.sum(known_shares(is_known)[:, None] * outputs, axis=0)
        factors = weight @ means / np.maximum(weight @ plain, LEAST_PROBABILITY)
        weight = self.weight[rows]
        shares = weight @ held_out * factors
        if not calibrator.map_.same_for_all_classes:
            labels = np.searchsorted(self.classes, self.y[rows].ravel())
            shares = correct_shares(shares, held_out, labels, weight)
        logs = np.log(np.maximum(held_out, LEAST_PROBABILITY))
        return solve_class_offsets(logs, weight, shares)

    def _of_rows(self, rows: Wholes) -> dict[str, object]:
        """Return what the calibrator takes besides scores to predict these rows."""
        if self.calibrator.beside == "features":
            return {"features": _safe_indexing(self.X, rows)}
        cut = _check_method_params(self.X, self.calibrator_params, indices=rows)
        return {"groups": cut["groups"]} if self.calibrator.beside == "groups" else {}

    def run(self, train: Wholes, test: Wholes) -> CalibratedPair:
        """Train on some rows and calibrate on others."""
        part = self.predict(train, test)
        return CalibratedPair(part.estimator, self.calibrate([part], test), self.classes)


def needs_groups(cv: object) -> bool:
    """Whether a splitter asks for groups by itself, as scikit-learn's that split by them do."""
    routing = getattr(cv, "get_metadata_routing", None)
    return routing is not None and routing().split.requests.get("groups") is True


def splits_by_groups(cv: object) -> bool:
    """Whether a splitter uses groups: others of scikit-learn take them and warn."""
    if type(cv).__module__.partition(".")[0] == "sklearn" or not hasattr(cv, "split"):
        return needs_groups(cv)
    return "groups" in signature(cv.split).parameters


def keep_warnings(
    work: Callable[[Wholes, Wholes], Found], train: Wholes, test: Wholes
) -> tuple[Found, list[Warning]]:
    """Do the work of a fold, in any process; return what it warns of, for the user's line."""
    with notices.kept() as kept:
        return work(train, test), kept


def check_target(y: object, estimator: object) -> Labels:
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


def refuse_too_many_folds(cv: object, labels: Labels, ensemble: bool | str) -> None:
    """Refuse more folds than the smallest class has rows, as scikit-learn does."""
    if type(cv).__name__ == "LeaveOneOut" and ensemble is True:
        raise ParameterError(
            "LeaveOneOut cross-validation does not allow all classes to be present in test "
            'splits, which ensemble=True calibrates on; use ensemble="auto", or another cv',
            argument="cv",
        )
    n_folds = 5 if cv is None else getattr(cv, "n_splits", cv)
    values, counts = np.unique(labels, return_counts=True)
    if len(values) == 1:
        raise ShapeError(
            f"every label is {in_words(values[0])}: one class, but a classifier needs two"
        )
    least = int(np.argmin(counts))
    if isinstance(n_folds, int | np.integer) and counts[least] < n_folds:
        remedy = f"use cv={counts[least]}" if counts[least] > 1 else "drop this class, or add rows"
        rows = number_of(int(counts[least]), "row")
        raise ParameterError(
            f"Requesting {n_folds}-fold cross-validation but provided less than {n_folds} examples "
            f"for at least one class: {in_words(values[least])} has {rows}; {remedy}",
            argument="cv",
            value=n_folds,
        )
