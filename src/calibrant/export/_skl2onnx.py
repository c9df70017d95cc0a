"""``CalibratedClassifier`` for skl2onnx, which converts whole pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import skl2onnx
from onnx import TensorProto, helper, numpy_helper
from skl2onnx import _parse as parsing
from skl2onnx.common.data_types import (
    DoubleTensorType,
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
    guess_proto_type,
)
from skl2onnx.common.utils_classifier import get_label_classes
from sklearn import ensemble, svm, tree
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from calibrant import errors
from calibrant._calibrators.classifier import CalibratedClassifier
from calibrant._calibrators.classifier_folds import LEAST_PROBABILITY
from calibrant.export._onnx import FIRST_OPSET, REAL, OnnxOperations, Tensor
from calibrant.export._pipeline import take_calibrator, write_rows

if TYPE_CHECKING:
    from skl2onnx.common._container import ModelComponentContainer as Container
    from skl2onnx.common._topology import Operator, Scope, Variable
    from sklearn.base import BaseEstimator

    from calibrant._types import Labels

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

MARGINS_OF_TREES = (ensemble.GradientBoostingClassifier, ensemble.AdaBoostClassifier)
"""Classifiers that hold others, and whose margins skl2onnx converts."""

SCORE_ERROR = 2.0**-18
"""Relative error of scores that a graph computes in float32, with room to spare."""


def register_skl2onnx() -> None:
    """Teach skl2onnx to convert a ``CalibratedClassifier``, alone and inside of pipelines.

    ``skl2onnx.to_onnx`` then converts a ``CalibratedClassifier`` over any classifier that it can
    convert, with all its folds. There are two outputs, as of its classifiers: the labels of
    ``predict`` and the probabilities of ``predict_proba``. Its options ``zipmap``, ``nocl`` and
    ``output_class_labels`` are there as well. Calibrators are computed in float64, whatever goes
    in. For a calibrator on its own there is :func:`to_onnx`.

    Notes
    -----
    A graph cannot refuse a row: probabilities of a row that ``predict_proba`` refuses are NaN, and
    its label means nothing.

    Examples
    --------
    >>> import onnxruntime
    >>> import skl2onnx
    >>> from sklearn.linear_model import LogisticRegression
    >>> from calibrant import CalibratedClassifier
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.export import register_skl2onnx
    >>> register_skl2onnx()
    >>> X, y = simulated_scores(600)
    >>> model = CalibratedClassifier(LogisticRegression(), "fir", cv=3).fit(X, y)
    >>> graph = skl2onnx.to_onnx(model, X[:1], options={"zipmap": False}, target_opset=18)
    >>> session = onnxruntime.InferenceSession(graph.SerializeToString())
    >>> labels, probabilities = session.run(None, {"X": X})
    >>> bool(abs(probabilities - model.predict_proba(X)).max() < 1e-9)
    True
    """
    skl2onnx.update_registered_converter(
        CalibratedClassifier,
        "CalibrantClassifier",
        _set_types,
        _convert_classifier,
        parser=_parse,
        options={  # as of its own classifiers
            "zipmap": [True, False, "columns"],
            "nocl": [True, False],
            "output_class_labels": [False, True],
        },
    )


def _parse(
    scope: Scope, model: CalibratedClassifier, inputs: list[Variable], **options: object
) -> list[Variable]:
    """Parse as a classifier."""
    check_is_fitted(model, "classes_")
    _labels(scope, model)  # refused before skl2onnx rounds them
    parse = parsing._parse_sklearn_classifier  # noqa: SLF001  (as its own parsers do)
    variables: list[Variable] = parse(scope, model, inputs, **options)
    return variables


def _labels(scope: Scope, model: CalibratedClassifier) -> Labels:
    """Return the classes as whole numbers or texts, which ONNX has; refuse others."""
    classes: Labels = np.asarray(get_label_classes(scope, model))
    kind = classes.dtype.kind
    if kind == "U" or (kind == "O" and all(isinstance(one, str) for one in classes)):
        return classes.astype(object)
    if kind in "biuf":
        with np.errstate(invalid="ignore"):
            whole = classes.astype(np.int64)
        if np.array_equal(whole, classes):
            return whole
    raise errors.ExportError(
        f"classes_ of {type(model).__name__} are {errors.in_words(classes)}, but labels in ONNX "
        "are 64-bit integers or strings; fit to such labels, or use the option nocl=True to get "
        "class numbers"
    )


def _set_types(operator: Operator) -> None:
    """Tell skl2onnx the types and shapes of both outputs."""
    n_rows = operator.inputs[0].get_first_dimension()
    labels = _labels(operator.scope_inst, operator.raw_operator)
    kind = StringTensorType if labels.dtype == object else Int64TensorType
    operator.outputs[0].set_type(kind([n_rows]))
    operator.outputs[1].type.shape = [n_rows, len(labels)]


def _convert_classifier(scope: Scope, operator: Operator, container: Container) -> None:  # noqa: ARG001
    model = operator.raw_operator
    if container.target_opset < FIRST_OPSET:
        raise errors.ExportError(
            f"target_opset={container.target_opset} lacks operators that calibrators need; pass "
            f"target_opset={FIRST_OPSET} or later"
        )
    ops = OnnxOperations(len(model.classes_), container.target_opset)
    parts, all_scores = [], []
    for i, pair in enumerate(model.calibrated_classifiers_):
        if not pair.is_known.all():
            raise errors.ExportError(
                "a classifier of a fold was not trained on all classes; fit with a cv= whose folds "
                "all have them, such as StratifiedKFold"
            )
        calibrator = take_calibrator(pair.calibrator)
        is_margin = pair.response_method == "decision_function"
        name = declare_scores(operator, container, pair.estimator, is_margin=is_margin)
        with ops.inside(f"fold{i}"):
            scores = ops.real(Tensor(ops, name, REAL))
            if is_margin and len(model.classes_) == 2:  # softmax([0, z]) is sigmoid(z)
                margin = ops.node("Gather", [scores, ops.number([-1])], axis=1)
                how = ops.number([0, 1, 0, 0]), ops.number(0.0, np.float64)
                scores = ops.node("Pad", [margin, *how])
            parts.append(write_rows(ops, calibrator, scores, calibrator.map_.kind))
        all_scores.append(scores)
    n_folds = float(len(parts))
    if model.pooling_ == "logarithms":  # as ``average_logarithms``
        logs = [ops.log(ops.maximum(part, LEAST_PROBABILITY)) for part in parts]
        mean = sum(logs[1:], logs[0]) / n_folds
        powers = ops.exp(mean + ops.fitted("offsets", model.class_offsets_))
        probabilities = powers / ops.row_sum(powers)
    else:
        probabilities = sum(parts[1:], parts[0]) / n_folds
    average = sum(all_scores[1:], all_scores[0]) / n_folds
    _finish(operator, container, probabilities, average)


def _write_top_columns(ops: OnnxOperations, probabilities: Tensor, scores: Tensor) -> Tensor:
    """Write ``_kernels.rows.top_columns``, where scores have a relative error of SCORE_ERROR.

    Of probabilities that are equal up to rounding it is the one of the largest score, then the
    first.
    """
    largest = ops.row_max(probabilities)
    # Not times 1 - 16 eps, which onnxruntime takes for 1 in float32, and leaves out.
    top = largest - largest * float(16 * np.finfo(np.float64).eps)
    finite = ops.maximum(scores, -1e300)  # as others are not
    candidates = ops.where(probabilities >= top, finite, -np.inf)
    largest = ops.row_max(candidates)
    size = ops.maximum(largest, 0.0 - largest)
    candidates = ops.real(candidates >= largest - size * SCORE_ERROR)
    return ops.node("ArgMax", [candidates], TensorProto.INT64, axis=1, keepdims=0)


def _finish(
    operator: Operator, container: Container, probabilities: Tensor, scores: Tensor
) -> None:
    """Write down labels, and give all nodes and constants to skl2onnx under names of its own."""
    ops, scope = probabilities.ops, operator.scope_inst
    kept = guess_proto_type(operator.outputs[1].type)
    classes = _labels(scope, operator.raw_operator)
    ops.constants["classes"] = numpy_helper.from_array(classes, "classes")
    best = _write_top_columns(ops, probabilities, scores)
    outputs = [
        ops.node("Gather", ["classes", best], TensorProto.INT64, axis=0),
        ops.node("Cast", [probabilities], kept, to=kept),
    ]
    made = [*ops.constants, *(name for node in ops.nodes for name in node.output)]
    names = {name: scope.get_unique_variable_name(f"calibrant_{name}") for name in made}
    for result, wanted in zip(outputs, operator.outputs, strict=True):
        names[result.name] = wanted.full_name
    for name, tensor in ops.constants.items():
        tensor.name = names[name]
        container.initializers.append(tensor)  # its own method loses texts
    for node in ops.nodes:
        container.add_node(
            node.op_type,
            [names.get(name, name) for name in node.input],
            [names[name] for name in node.output],
            name=scope.get_unique_operator_name(f"calibrant_{node.op_type}"),
            **{one.name: helper.get_attribute_value(one) for one in node.attribute},
        )


# The scores that a CalibratedClassifier calibrates, out of converters of skl2onnx


def unwrap(estimator: BaseEstimator) -> BaseEstimator:
    """Return what predicts, of classifiers that only hold another one."""
    from sklearn.model_selection._search import BaseSearchCV  # a slow import

    while isinstance(estimator, FrozenEstimator | BaseSearchCV):
        is_frozen = isinstance(estimator, FrozenEstimator)
        estimator = estimator.estimator if is_frozen else estimator.best_estimator_
    return estimator


def contains(estimator: BaseEstimator, kinds: tuple[type, ...]) -> bool:
    """Whether a classifier, or one that is part of it, is of these kinds."""
    estimator = unwrap(estimator)
    parts: list[object] = [*getattr(estimator, "estimators_", [])]
    if isinstance(estimator, Pipeline):
        parts.append(estimator.steps[-1][1])
    if isinstance(estimator, ensemble.StackingClassifier):
        parts.append(estimator.final_estimator_)
    return isinstance(estimator, kinds) or any(contains(part, kinds) for part in parts)


def declare_scores(
    operator: Operator, container: Container, estimator: BaseEstimator, *, is_margin: bool
) -> str:
    """Have skl2onnx convert a fitted classifier; return the name of its scores.

    They are those of ``decision_function`` or of ``predict_proba``; a margin of two classes is the
    last column.
    """
    scope, inputs, estimator = operator.scope_inst, operator.inputs, unwrap(estimator)
    while isinstance(estimator, Pipeline):
        for _, step in estimator.steps[:-1]:
            if step is not None and step != "passthrough":
                step = unwrap(step)  # noqa: PLW2901
                inputs = parsing._parse_sklearn(scope, step, inputs)  # noqa: SLF001
        estimator = unwrap(estimator.steps[-1][1])
    # The option raw_scores is accepted, and forgotten, by classifiers that hold others; those of a
    # support vector machine with probabilities are no margins.
    forgets = hasattr(estimator, "estimators_") and not isinstance(estimator, MARGINS_OF_TREES)
    kept = container.has_options(estimator, "raw_scores") and not forgets
    if is_margin and (not kept or getattr(estimator, "probability", False) is True):
        raise errors.ExportError(
            f"the calibrator was fitted to decision_function of {errors.in_words(estimator)}, "
            "which skl2onnx does not convert; fit with response_method='predict_proba'"
        )
    for name, value in (("zipmap", False), ("raw_scores", is_margin)):
        if container.has_options(estimator, name):
            for holder in (scope, container):
                holder.add_options(id(estimator), {name: value})
    if contains(estimator, SINGLE):
        inputs = [_as_float(scope, one) for one in inputs]
    return str(parsing._parse_sklearn(scope, estimator, inputs)[1].full_name)  # noqa: SLF001


def _as_float(scope: Scope, variable: Variable) -> Variable:
    """Cast features to float32: trees read them so, and skl2onnx mixes both types else."""
    if not isinstance(variable.type, DoubleTensorType):
        return variable
    cast = scope.declare_local_operator("SklearnCast")
    cast.inputs = [variable]
    result = scope.declare_local_variable("features", FloatTensorType(variable.type.shape))
    cast.outputs.append(result)
    return result
