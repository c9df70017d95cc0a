"""skl2onnx with ``CalibratedClassifier``: labels and probabilities."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import ensemble
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from calibrant import CalibratedClassifier
from calibrant._calibrators.classifier_folds import class_scores
from calibrant.errors import ExportError
from export.cases import TOLERANCES, softmax

onnxruntime = pytest.importorskip("onnxruntime")
skl2onnx = pytest.importorskip("skl2onnx")

from calibrant.export import register_skl2onnx  # noqa: E402

register_skl2onnx()

pytestmark = pytest.mark.filterwarnings("ignore:Attribute `prob:FutureWarning")  # which it reads

OPSET = 18


def problem(n_classes=3, n_rows=300):
    return make_classification(
        n_rows, 6, n_informative=5, n_redundant=0, n_classes=n_classes, random_state=0
    )


def calibrated(estimator, method="fir", n_classes=3, **parameters):
    """Fit to features that float32 holds, so that both types ask about the same rows."""
    X, y = problem(n_classes)
    X = X.astype(np.float32).astype(np.float64)
    parameters = {"cv": 2} | parameters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows
        return CalibratedClassifier(estimator, method, **parameters).fit(X, y), X


def run(model, rows, *, target_opset=OPSET, dtype="float64", **options):
    """All outputs of a converted model."""
    rows = np.asarray(rows, dtype)
    options = {id(model): {"zipmap": False} | options}
    graph = skl2onnx.to_onnx(model, rows[:1], options=options, target_opset=target_opset)
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    return session.run(None, {"X": rows})


def assert_converts(model, rows, dtype="float64", tolerance=1e-12, **options):
    labels, probabilities = run(model, rows, dtype=dtype, **options)
    wanted = model.predict_proba(rows)
    assert probabilities.shape == wanted.shape
    assert probabilities.dtype == dtype
    assert np.abs(probabilities - wanted).max() <= tolerance
    np.testing.assert_array_equal(labels, model.predict(rows))


def clear_rows(model, X):
    """Rows without a score just below a threshold, that rounding alone keeps from being at it."""
    clear = np.ones(len(X), bool)
    for pair in model.calibrated_classifiers_:
        scores, kind = class_scores(pair.estimator, X, pair.classes)
        cells = softmax(scores) if kind == "logits" else scores
        thresholds = pair.calibrator.step_function_.thresholds
        above = np.r_[thresholds, 2.0][np.searchsorted(thresholds, cells, side="right")]
        clear &= (above - cells > 1e-5 * above).all(axis=1)
    return clear


# Classifiers


ESTIMATORS = {
    "logistic": LogisticRegression(),
    "svm": LinearSVC(),
    "kernel": SVC(),
    "sgd": make_pipeline(StandardScaler(), SGDClassifier(alpha=0.1, random_state=0)),
    "bayes": GaussianNB(),
    "bernoulli": BernoulliNB(),
    "neighbours": KNeighborsClassifier(),
    "network": MLPClassifier((8,), max_iter=20, random_state=0),
    "tree": DecisionTreeClassifier(max_depth=4, random_state=0),
    "forest": ensemble.RandomForestClassifier(15, max_depth=5, random_state=0),
    "boosting": ensemble.GradientBoostingClassifier(n_estimators=5, random_state=0),
    "adaboost": ensemble.AdaBoostClassifier(n_estimators=5, random_state=0),
    "bagging": ensemble.BaggingClassifier(DecisionTreeClassifier(max_depth=3), 5, random_state=0),
    "vote": ensemble.VotingClassifier(
        [("a", GaussianNB()), ("b", LogisticRegression())], voting="soft", flatten_transform=False
    ),
    "pipeline": make_pipeline(StandardScaler(), "passthrough", LogisticRegression()),
    "search": GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression()),
        {"logisticregression__C": [0.1]},
        cv=2,
    ),
}
SINGLE = {"kernel", "tree", "forest", "boosting", "adaboost", "bagging", "bernoulli"}


@pytest.mark.filterwarnings("ignore:Liblinear|Stochastic|The SAMME|lbfgs")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator(name, n_classes):
    """Steps: a score that was on another side of a threshold would be off by far more."""
    model, X = calibrated(ESTIMATORS[name], n_classes=n_classes)
    clear = clear_rows(model, X)
    assert clear.mean() > 0.9
    assert_converts(model, X[clear], tolerance=1e-7 if name in SINGLE else 1e-12)
    labels, probabilities = run(model, X[clear], dtype="float32")
    assert probabilities.dtype == np.float32
    gap = np.abs(probabilities - model.predict_proba(X[clear])).max(axis=1)
    assert (gap > 1e-6).sum() <= 2  # logits of 100 are off by more than others
    assert (labels != model.predict(X[clear])).sum() <= 1


@pytest.mark.parametrize("one_each", ["auto", True, False])
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("method", ["na-fir", "scir", "ts", "vs", "spline", "hb-ovr"])
def test_methods_over_folds(method, dtype, one_each):
    model, X = calibrated(GaussianNB(), method, cv=3, ensemble=one_each)
    assert len(model.calibrated_classifiers_) == (3 if one_each else 1)
    assert_converts(model, X, dtype, TOLERANCES[dtype])


def test_frozen_estimators():
    X, y = problem()
    scaler = FrozenEstimator(StandardScaler().fit(X))
    classifier = make_pipeline(scaler, LogisticRegression()).fit(X[:150], y[:150])
    assert_converts(CalibratedClassifier(FrozenEstimator(classifier), "fir").fit(X, y), X)


def test_folds_that_never_saw_a_class_are_refused():
    y = problem()[1]
    rows = np.arange(len(y))
    splits = [(rows[np.isin(y, seen)], rows) for seen in [(0, 1), (0, 1, 2)]]
    model, X = calibrated(GaussianNB(), cv=splits)
    with pytest.raises(ExportError, match="cv="):
        run(model, X)


@pytest.mark.parametrize(
    "names",
    [["a", "bé", "c" * 300], [-(2**62), 5, 2**53 + 1], [0.0, 1.0, 7.0], [False, True, True]],
)
def test_labels(names):
    X, y = problem()
    y = np.asarray(names)[y]
    model = CalibratedClassifier(LogisticRegression(), "fir", cv=2).fit(X, y)
    assert_converts(model, X)


def test_labels_that_onnx_does_not_have():
    X, y = problem(4)
    model = CalibratedClassifier(LogisticRegression(), "ts", cv=2).fit(X, y.astype(str))
    for classes in ([0.5, 1.0, 2.0, 3.0], np.array([1, "a", 2, 3], object)):
        model.classes_ = np.asarray(classes)
        with pytest.raises(ExportError, match="nocl=True"):
            run(model, X)
    labels, _ = run(model, X, nocl=True)
    np.testing.assert_array_equal(model.classes_[labels], model.predict(X))


def test_options_and_opsets_and_default_names():
    model, X = calibrated(LogisticRegression())
    _, *columns = run(model, X, zipmap="columns")
    np.testing.assert_allclose(np.column_stack(columns), model.predict_proba(X), rtol=0, atol=1e-12)
    graph = skl2onnx.to_onnx(model, X[:1].astype(np.float32))
    assert [one.name for one in graph.graph.output] == ["output_label", "output_probability"]
    assert_converts(model, X, target_opset=21)
    assert_converts(model, X, target_opset=16)
    with pytest.raises(ExportError, match="target_opset=15"):
        run(model, X, target_opset=15)


# Pipelines


@pytest.mark.parametrize("inside", [True, False])
def test_columns_of_a_data_frame(inside):
    X, y = problem()
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    frame["word"] = np.array(["u", "v", "w"])[np.arange(len(y)) % 3]
    columns = ColumnTransformer(
        [("numbers", StandardScaler(), ["a", "b"]), ("word", OneHotEncoder(), ["word"])]
    )
    if inside:
        model = CalibratedClassifier(make_pipeline(columns, LogisticRegression()), "fir", cv=2)
    else:
        model = make_pipeline(columns, CalibratedClassifier(LogisticRegression(), "fir", cv=2))
    model.fit(frame, y)
    graph = skl2onnx.to_onnx(model, frame[:1], options={"zipmap": False}, target_opset=OPSET)
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    given = {one.name: frame[[one.name]].to_numpy() for one in session.get_inputs()}
    labels, probabilities = session.run(None, given)
    np.testing.assert_allclose(probabilities, model.predict_proba(frame), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(labels, model.predict(frame))


# What cannot be converted


@pytest.mark.parametrize(
    "estimator",
    [
        QuadraticDiscriminantAnalysis(),
        OneVsRestClassifier(LinearSVC()),
        ensemble.BaggingClassifier(LogisticRegression(), 2),
        ensemble.StackingClassifier([("a", GaussianNB())], LogisticRegression(), cv=2),
        SVC(probability=True),
    ],
    ids=["discriminant", "rest", "bagging", "stack", "probability"],
)
def test_margins_that_skl2onnx_does_not_have(estimator):
    """It would give other numbers without a word."""
    model, X = calibrated(estimator, "ts")
    with pytest.raises(ExportError, match=type(estimator).__name__):
        run(model, X)


def test_probabilities_are_calibrated_where_they_are_asked_for():
    """GradientBoosting has both; decision_function of what holds it is not converted."""
    model, X = calibrated(
        ensemble.GradientBoostingClassifier(n_estimators=4), response_method="predict_proba"
    )
    assert {pair.calibrator.scores for pair in model.calibrated_classifiers_} == {"probabilities"}
    assert_converts(model, X, dtype="float32", tolerance=1e-5)
    bagged = ensemble.BaggingClassifier(make_pipeline(LogisticRegression()), 2, random_state=0)
    model, X = calibrated(bagged, "ts", response_method="predict_proba")
    assert_converts(model, X, tolerance=1e-6)
