"""The scores that a ``CalibratedClassifier`` calibrates, out of skl2onnx's own converters."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from skl2onnx import _parse as parsing
from skl2onnx._supported_operators import sklearn_operator_name_map
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType
from sklearn import ensemble, multiclass, svm, tree
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from calibrant import errors
from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.classifier_folds import LEAST_PROBABILITY, known_shares
from calibrant.export._onnx_graph import REAL, OnnxOperations, Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SINGLE = (
    tree.DecisionTreeClassifier,
    ensemble.RandomForestClassifier,
    ensemble.ExtraTreesClassifier,
    ensemble.GradientBoostingClassifier,
    ensemble.HistGradientBoostingClassifier,
    ensemble.AdaBoostClassifier,
    svm.SVC,
    svm.NuSVC,
)
"""Classifiers whose operators in ONNX return float32, whatever they are given."""


def unwrap(estimator: Any) -> Any:
    """Return what predicts, of classifiers that only hold another one."""
    from sklearn.model_selection._search import BaseSearchCV  # a slow import

    while isinstance(estimator, FrozenEstimator | BaseSearchCV):
        is_frozen = isinstance(estimator, FrozenEstimator)
        estimator = estimator.estimator if is_frozen else estimator.best_estimator_
    return estimator


def mark_transformer(scope: Any, part: Any) -> None:
    """Have a calibrator parsed as a transformer, also one at the end of a pipeline."""
    if isinstance(part, Pipeline) and part.steps:
        mark_transformer(scope, part.steps[-1][1])
    elif isinstance(part, Calibrator):
        scope.add_options(id(part), {"transform": True})


def holds(estimator: Any, kinds: tuple[type, ...]) -> bool:
    """Whether a classifier, or one that is part of it, is of these kinds."""
    estimator = unwrap(estimator)
    parts: list[Any] = [*getattr(estimator, "estimators_", [])]
    if isinstance(estimator, Pipeline):
        parts.append(estimator.steps[-1][1])
    if isinstance(estimator, ensemble.StackingClassifier):
        parts.append(estimator.final_estimator_)
    return isinstance(estimator, kinds) or any(holds(part, kinds) for part in parts)


def declare_scores(
    scope: Any, container: Any, estimator: Any, inputs: Any, *, is_margin: bool
) -> str:
    """Have skl2onnx convert a fitted classifier; return the name of its scores.

    They are those of ``decision_function`` or of ``predict_proba``; a margin of two classes is the
    last column.
    """
    estimator = unwrap(estimator)
    while isinstance(estimator, Pipeline):
        for _, step in estimator.steps[:-1]:
            if step is not None and step != "passthrough":
                step = unwrap(step)  # noqa: PLW2901
                mark_transformer(scope, step)
                inputs = parsing._parse_sklearn(scope, step, inputs)  # noqa: SLF001
        estimator = unwrap(estimator.steps[-1][1])
    if is_margin and type(estimator) in sklearn_operator_name_map:
        estimator = _with_margins(container, estimator)
    for name, value in (("zipmap", False), ("raw_scores", is_margin)):
        if container.has_options(estimator, name):
            for holder in (scope, container):
                holder.add_options(id(estimator), {name: value})
    if holds(estimator, SINGLE):
        inputs = [_as_float(scope, one) for one in inputs]
    return str(parsing._parse_sklearn(scope, estimator, inputs)[1].full_name)  # noqa: SLF001


def _as_float(scope: Any, variable: Any) -> Any:
    """Cast features to float32: trees read them so, and skl2onnx mixes both types else."""
    if not isinstance(variable.type, DoubleTensorType):
        return variable
    cast = scope.declare_local_operator("SklearnCast")
    cast.inputs = [variable]
    found = scope.declare_local_variable("features", FloatTensorType(variable.type.shape))
    cast.outputs.append(found)
    return found


def _with_margins(container: Any, estimator: Any) -> Any:
    """Return a classifier whose ``decision_function`` skl2onnx converts; refuse others.

    Its option ``raw_scores`` is accepted, and forgotten, by classifiers that hold others.
    """
    parts = [estimator]
    if isinstance(estimator, ensemble.StackingClassifier):
        parts = [estimator.final_estimator_]
    elif isinstance(estimator, multiclass.OneVsOneClassifier):  # which has no other scores
        parts = estimator.estimators_
    elif isinstance(estimator, multiclass.OneVsRestClassifier | ensemble.BaggingClassifier):
        parts = [estimator, *estimator.estimators_]
    kept = all(
        container.has_options(part, "raw_scores") and not isinstance(part, Pipeline)
        for part in parts
    )
    is_rest = isinstance(estimator, multiclass.OneVsRestClassifier)
    if not kept or (is_rest and holds(estimator, (svm.LinearSVC,))):
        raise errors.ExportError(
            f"the calibrator was fitted to decision_function of {errors.in_words(estimator)}, "
            "which skl2onnx does not convert; fit with response_method='predict_proba', or convert "
            "the classifier with another tool, and merge calibrated_classifiers_[i].calibrator "
            "into it with merge_onnx"
        )
    if getattr(estimator, "probability", False):  # whose raw scores are no margins
        estimator = copy(estimator)
        estimator._probA = estimator._probB = np.empty(0)  # noqa: SLF001
    return estimator


def write_class_scores(
    ops: OnnxOperations, estimator: Any, found: str, classes: NDArray[Any], *, is_margin: bool
) -> Any:
    """Write down ``class_scores``: a column for every class, also one that was never seen."""
    n_known = len(estimator.classes_)
    scores = ops.real(Tensor(ops, found, REAL, n_known))
    if is_margin and n_known == 2:  # softmax([0, z]) is sigmoid(z)
        margin = ops.node("Gather", [scores, ops.number([-1])], width=1, axis=1)
        scores = _pad(ops, margin, [0, 1, 0, 0], 0.0, 2)
    if n_known == len(classes):
        return scores
    scores = _pad(ops, scores, [0, 0, 0, 1], -np.inf if is_margin else 0.0, n_known + 1)
    columns = np.full(len(classes), n_known, np.int64)
    columns[np.searchsorted(classes, estimator.classes_)] = np.arange(n_known)
    return ops.node("Gather", [scores, ops.number(columns)], width=len(classes), axis=1)


def write_known(ops: OnnxOperations, is_known: NDArray[np.bool_], rows: Tensor) -> Any:
    """Write down ``without_unknown``: what a fold's classifier was not trained on has zero."""
    if is_known.all():
        return rows
    rest = rows * ops.fitted("is_known", is_known.astype(np.float64))
    total = ops.row_sum(rest)
    even = ops.fitted("even", is_known / is_known.sum())
    return ops.where(total > 0.0, rest / ops.maximum(total, LEAST_PROBABILITY), even)


def write_average_logarithms(
    ops: OnnxOperations,
    parts: Sequence[Tensor],
    is_known: Sequence[NDArray[np.bool_]],
    offsets: NDArray[np.float64],
) -> Any:
    """Write down ``average_logarithms``."""
    shares = known_shares(is_known)
    logs = [
        ops.log(ops.maximum(part, LEAST_PROBABILITY)) * ops.fitted(f"weight{i}", share)
        for i, (part, share) in enumerate(zip(parts, shares, strict=True))
    ]
    mean = ops.exp(sum(logs[1:], logs[0]) + ops.fitted("offsets", offsets))
    somebody_knows = shares.any(axis=0)
    if not somebody_knows.all():
        mean = mean * ops.fitted("somebody_knows", somebody_knows.astype(np.float64))
    return mean / ops.row_sum(mean)


def _pad(ops: OnnxOperations, x: Tensor, pads: list[int], value: float, width: int) -> Any:
    how = ops.number(pads), ops.number(value, np.float64)
    return ops.node("Pad", [x, *how], width=width)
