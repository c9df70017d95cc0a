"""CalibratedClassifier: what scikit-learn's own tests do not ask, and where it differs."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from calibrant import (
    AutoCalibrator,
    CalibratedClassifier,
    FlattenedIsotonic,
    OneVsRestIsotonic,
    OneVsRestPlatt,
    TemperatureScaling,
)
from calibrant._calibrators.classifier_folds import class_scores
from calibrators.catalogue import quiet
from conftest import refuses

pytestmark = quiet

ensembles = pytest.mark.parametrize("ensemble", ["auto", True, False])


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order] + np.random.default_rng(1).normal(0, 4, X.shape), y[order]
    return X[:900], y[:900], X[900:], y[900:]


@parametrize_with_checks(
    [
        CalibratedClassifier(calibrator="ts", cv=3),
        CalibratedClassifier(LogisticRegression(), "structured", cv=3, ensemble=True),
    ]
)
def test_passes_every_check_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("ensemble", [True, False])
def test_agrees_with_scikit_learn_on_temperature(digits, ensemble):
    """The same folds, the same logits, the same convex problem."""
    X, y, X_new, _ = digits
    ours = CalibratedClassifier(
        LogisticRegression(max_iter=500),
        TemperatureScaling(prior_strength=0),
        ensemble=ensemble,
        cv=3,
    )
    theirs = CalibratedClassifierCV(
        LogisticRegression(max_iter=500), method="temperature", ensemble=ensemble, cv=3
    )
    with np.errstate(all="ignore"):
        a = ours.fit(X / 16, y).predict_proba(X_new / 16)
        b = theirs.fit(X / 16, y).predict_proba(X_new / 16)
    np.testing.assert_allclose(a, b, atol=2e-4)


def test_a_frozen_estimator_is_not_fitted_again(digits):
    X, y, X_new, _ = digits
    fitted = GaussianNB().fit(X[:500], y[:500])
    model = CalibratedClassifier(FrozenEstimator(fitted), "ts").fit(X[500:], y[500:])
    assert len(model.calibrated_classifiers_) == 1
    scores = fitted.predict_proba(X[500:])
    direct = TemperatureScaling(normalize=None).fit(scores, y[500:])
    expected = direct.predict_proba(fitted.predict_proba(X_new))
    np.testing.assert_array_equal(model.predict_proba(X_new), expected)


@pytest.mark.parametrize("calibrator", [TemperatureScaling(), FlattenedIsotonic()])
def test_a_class_missing_from_the_calibration_set_of_a_frozen_estimator(digits, calibrator):
    """scikit-learn 1.9 raises IndexError here."""
    X, y, X_new, _ = digits
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    keep = y != 3
    model = CalibratedClassifier(frozen, calibrator).fit(X[keep], y[keep])
    out = model.predict_proba(X_new)
    assert model.classes_.tolist() == list(range(10))
    assert out.shape == (len(X_new), 10)
    np.testing.assert_allclose(out.sum(axis=1), 1)
    assert out[:, 3].max() > 0.5


def test_binary_margins_are_two_columns():
    X, y = make_classification(200, random_state=0)
    svm = LinearSVC(random_state=0).fit(X, y)
    scores, kind = class_scores(svm, X, np.array([0, 1]))
    assert kind == "logits"
    assert scores[:, 1].tolist() == svm.decision_function(X).tolist()
    assert not scores[:, 0].any()


def test_an_estimator_without_scores_is_named(digits):
    """As one whose ``predict_proba`` exists for soft votes only."""
    X, y, *_ = digits
    hard = VotingClassifier([("bayes", GaussianNB())], voting="hard")
    with pytest.raises(AttributeError, match="VotingClassifier"):
        CalibratedClassifier(hard).fit(X, y)


def test_a_search_reaches_both_parts(digits):
    X, y, X_new, _ = digits
    search = GridSearchCV(
        CalibratedClassifier(GaussianNB(), TemperatureScaling(), cv=3),
        {"estimator__var_smoothing": [1e-9, 1e-2], "calibrator": [FlattenedIsotonic()]},
        cv=2,
        scoring="neg_log_loss",
    )
    assert search.fit(X, y).predict_proba(X_new).shape == (len(X_new), 10)
    assert clone(search.best_estimator_).get_params()["calibrator__min_probability"] == 1e-12


def test_weights_are_routed_only_to_those_that_ask_for_them(digits):
    """With metadata routing the calibrator has them in any case."""
    X, y, X_new, _ = digits
    weight = np.random.default_rng(0).uniform(0.1, 3, len(y))
    with config_context(enable_metadata_routing=True):
        asks = GaussianNB().set_fit_request(sample_weight=True)
        declines = GaussianNB().set_fit_request(sample_weight=False)
        routed = [
            CalibratedClassifier(base, cv=3).fit(X, y, sample_weight=weight)
            for base in (asks, declines)
        ]
    first = [model.calibrated_classifiers_[0].estimator for model in routed]
    plain = CalibratedClassifier(GaussianNB(), cv=3).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(plain.predict_proba(X_new), routed[0].predict_proba(X_new))
    assert first[0].class_count_.sum() != first[1].class_count_.sum() == 600
    unweighted = CalibratedClassifier(GaussianNB(), cv=3).fit(X, y)
    assert not np.array_equal(unweighted.predict_proba(X_new), routed[1].predict_proba(X_new))


def test_the_default_is_a_linear_machine_with_the_automatic_choice():
    X, y = make_classification(120, n_features=5, random_state=0)
    pair = CalibratedClassifier(cv=3).fit(X, y).calibrated_classifiers_[0]
    assert isinstance(pair.estimator, LinearSVC)
    assert isinstance(pair.calibrator, AutoCalibrator)


@ensembles
def test_weights_of_classes_are_undone_by_default(ensemble):
    """6 % positives, of which a balanced logistic regression makes a third."""
    X, y = make_classification(3000, weights=[0.95], flip_y=0.02, class_sep=0.6, random_state=0)
    base = LogisticRegression(class_weight="balanced")
    raw = base.fit(X[:1500], y[:1500]).predict_proba(X[1500:])
    assert raw[:, 1].mean() > 4 * y.mean()
    model = CalibratedClassifier(base, ensemble=ensemble).fit(X[:1500], y[:1500])
    out = model.predict_proba(X[1500:])
    assert abs(out[:, 1].mean() - y[1500:].mean()) < 0.02
    plain = LogisticRegression().fit(X[:1500], y[:1500]).predict_proba(X[1500:])
    assert log_loss(y[1500:], out) < 1.05 * log_loss(y[1500:], plain)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("sigmoid", OneVsRestPlatt),
        ("isotonic", OneVsRestIsotonic),
        ("temperature", TemperatureScaling),
        ("fir", FlattenedIsotonic),
    ],
)
def test_methods_have_the_names_of_scikit_learn_too(digits, name, method):
    X, y, new, _ = digits
    wanted = CalibratedClassifier(GaussianNB(), method(), cv=2).fit(X, y).predict_proba(new)
    for model in (
        CalibratedClassifier(GaussianNB(), name, cv=2),
        CalibratedClassifier(GaussianNB(), method=name, cv=2),
    ):
        assert model.fit(X, y).predict_proba(new).tobytes() == wanted.tobytes()
    assert clone(model).method == name


@pytest.mark.parametrize(
    ("parameters", "argument"),
    [
        ({"calibrator": "nothing"}, "calibrator"),
        ({"calibrator": ""}, "calibrator"),
        ({"method": "nothing"}, "method"),
        ({"method": "sigmoid", "calibrator": "ts"}, "calibrator"),
        ({"calibrator": FlattenedIsotonic}, "calibrator"),
        ({"cv": "prefit"}, "cv"),
        ({"cv": GroupKFold(3)}, "cv"),
        ({"response_method": "scores"}, "response_method"),
    ],
)
def test_parameters_are_refused(digits, parameters, argument):
    X, y, *_ = digits
    with refuses(argument):
        CalibratedClassifier(GaussianNB(), **parameters).fit(X, y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_rare_class_keeps_its_share_when_logarithms_are_averaged(n_classes):
    """Classifiers differ most on a small probability, of which a geometric mean loses most."""
    weights = [0.95] if n_classes == 2 else [0.85, 0.11]
    X, y = make_classification(
        6000, n_informative=4, n_classes=n_classes, weights=weights, class_sep=0.7, random_state=0
    )
    base = DecisionTreeClassifier(min_samples_leaf=10, random_state=0)
    model = CalibratedClassifier(base, "structured").fit(X[:3000], y[:3000])
    new, true = X[3000:], y[3000:]
    pairs = model.calibrated_classifiers_
    wanted = np.mean([pair.predict_proba(new).mean(axis=0) for pair in pairs], axis=0)
    out = model.predict_proba(new)
    np.testing.assert_allclose(out.mean(axis=0), wanted, rtol=0.04)
    model.class_offsets_ = np.zeros(n_classes)
    plain = model.predict_proba(new)
    assert plain[:, -1].mean() < 0.93 * wanted[-1]
    assert log_loss(true, out) < log_loss(true, plain)


def test_groups_go_to_a_splitter_that_splits_by_them(digits):
    X, y, *_ = digits
    groups = np.arange(len(y)) // 10
    model = CalibratedClassifier(GaussianNB(), "ts", cv=GroupKFold(3)).fit(X, y, groups=groups)
    rows = [test for _, test in GroupKFold(3).split(X, y, groups)]
    splits = [(np.setdiff1d(np.arange(len(y)), test), test) for test in rows]
    same = CalibratedClassifier(GaussianNB(), "ts", cv=splits).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), same.predict_proba(X))


@pytest.mark.parametrize("cv", [5, KFold(3)])
def test_groups_that_nothing_takes_are_refused(digits, cv):
    X, y, *_ = digits
    with refuses("groups"):
        CalibratedClassifier(GaussianNB(), "ts", cv=cv).fit(X, y, groups=y)


@ensembles
def test_response_method_chooses_the_scores(ensemble):
    X, y = make_classification(200, random_state=0)
    kinds = {"auto": "logits", "decision_function": "logits", "predict_proba": "probabilities"}
    found = {}
    for method, kind in kinds.items():
        model = CalibratedClassifier(
            LogisticRegression(), "ts", cv=2, ensemble=ensemble, response_method=method
        ).fit(X, y)
        assert {one.scores for one in model.calibrators_} == {kind}
        assert len(model.calibrators_) == (2 if ensemble is True else 1)
        assert len(model.calibrated_classifiers_) == (2 if ensemble else 1)
        found[method] = model.predict_proba(X)
    np.testing.assert_array_equal(found["decision_function"], found["auto"])
    np.testing.assert_allclose(found["predict_proba"], found["auto"], atol=1e-6)


def test_a_response_method_that_is_not_there_is_named():
    X, y = make_classification(60, random_state=0)
    model = CalibratedClassifier(GaussianNB(), "ts", cv=2, response_method="decision_function")
    with pytest.raises(AttributeError, match="decision_function"):
        model.fit(X, y)
