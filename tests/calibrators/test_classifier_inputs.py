"""CalibratedClassifier takes whatever its estimator takes, and gives what it should."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import VotingClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from calibrant import (
    CalibratedClassifier,
    OneVsRestIsotonic,
    OneVsRestPlatt,
    StructuredScaling,
    TemperatureScaling,
)

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")

ensembles = pytest.mark.parametrize("ensemble", ["auto", True, False])
methods = pytest.mark.parametrize(
    "calibrator", [TemperatureScaling(), OneVsRestPlatt(), OneVsRestIsotonic(), StructuredScaling()]
)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    X = X + np.random.default_rng(1).normal(0, 4, X.shape)
    return X[:900], y[:900], X[900:], y[900:]


@ensembles
def test_sparse_features_and_missing_values_are_the_estimators_business(ensemble):
    X, y = make_classification(120, n_features=5, random_state=0)
    plain = CalibratedClassifier(LinearSVC(random_state=0), cv=3, ensemble=ensemble).fit(X, y)
    sparse = CalibratedClassifier(LinearSVC(random_state=0), cv=3, ensemble=ensemble)
    out = sparse.fit(csr_array(X), y).predict_proba(csr_array(X))
    np.testing.assert_allclose(out, plain.predict_proba(X), atol=1e-3)
    X[0, 0] = np.nan
    holes = make_pipeline(SimpleImputer(), GaussianNB())
    model = CalibratedClassifier(holes, cv=3, ensemble=ensemble).fit(X, y)
    assert np.all(np.isfinite(model.predict_proba(X)))


@pytest.mark.parametrize("shape", [(30, 5, 2), (30, 5, 2, 3)])
def test_features_may_have_more_dimensions(shape):
    class Sums(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):  # noqa: ARG002
            self.classes_ = np.unique(y)
            return self

        def decision_function(self, X):
            return X.reshape(len(X), -1).sum(axis=1)

    X = np.random.default_rng(0).normal(size=shape)
    model = CalibratedClassifier(Sums(), cv=3).fit(X, np.arange(30) % 2)
    assert model.predict_proba(X).shape == (30, 2)


def test_features_may_be_dictionaries():
    """scikit-learn#8710 and #19637: in a pipeline that is fitted already, at fit and predict."""
    X = [{"state": state, "age": age} for state in ("NY", "TX", "VT") for age in (1, 2, 3, 4)]
    y = np.arange(12) % 2
    pipeline = make_pipeline(DictVectorizer(), LogisticRegression()).fit(X, y)
    model = CalibratedClassifier(FrozenEstimator(pipeline)).fit(X, y)
    assert not hasattr(model, "n_features_in_")
    assert model.predict_proba(X).shape == (12, 2)
    assert set(model.predict(X)) <= {0, 1}


def test_attributes_are_those_of_the_estimator_and_inconsistent_features_are_refused():
    X, y = make_classification(60, n_features=5, random_state=0)
    assert CalibratedClassifier(LinearSVC(), cv=2).fit(X, y).n_features_in_ == 5
    frozen = CalibratedClassifier(FrozenEstimator(LinearSVC().fit(X, y)))
    with pytest.raises(ValueError, match="X has 3 features, but LinearSVC is expecting 5"):
        frozen.fit(X[:, :3], y)


def test_an_estimator_whose_predict_proba_is_conditional():
    """As VotingClassifier's, which exists for soft votes only."""
    X, y = make_classification(60, n_features=5, random_state=0)
    parts = [(str(i), LogisticRegression(C=10.0**i)) for i in range(3)]
    soft = FrozenEstimator(VotingClassifier(parts, voting="soft").fit(X, y))
    assert CalibratedClassifier(soft).fit(X, y).predict_proba(X).shape == (60, 2)
    hard = FrozenEstimator(VotingClassifier(parts, voting="hard").fit(X, y))
    with pytest.raises(AttributeError, match="none of the following"):
        CalibratedClassifier(hard).fit(X, y)


@pytest.mark.parametrize("hold", [list, np.asarray])
def test_fit_parameters_are_cut_to_the_fold_if_they_have_a_value_per_row(digits, hold):
    """scikit-learn#12384; one of another length is passed as it is."""
    X, y, *_ = digits
    seen = []

    class Checking(GaussianNB):
        def fit(self, X, y, per_row=None, other=None):
            seen.append((len(X), len(per_row), len(other)))
            assert np.array_equal(per_row, y)
            return super().fit(X, y)

    CalibratedClassifier(Checking(), cv=3).fit(X, y, per_row=hold(y), other=np.ones(901))
    assert seen == [(600, 600, 901)] * 3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@methods
def test_large_decision_values_keep_their_order(calibrator):
    """scikit-learn#26766: margins of 1e5 and more."""
    y = np.repeat([1, 0], [134, 66])
    X = 1e5 * y[:, None] + np.random.default_rng(0).normal(size=(200, 1))
    base = SGDClassifier(loss="squared_hinge", tol=1e-2, random_state=0)
    assert np.abs(clone(base).fit(X, y).decision_function(X)).max() > 1e4
    out = CalibratedClassifier(base, calibrator, cv=3).fit(X, y).predict_proba(X)
    assert np.all(np.isfinite(out))
    assert roc_auc_score(y, out[:, 1]) == 1.0


@pytest.mark.parametrize("weighted", [False, True])
def test_features_and_scores_in_single_precision(digits, weighted):
    """scikit-learn#28245 and #28247."""
    X, y, X_new, _ = digits
    weight = {"sample_weight": np.ones(len(y), dtype=np.float32)} if weighted else {}

    class Single(GaussianNB):
        def predict_proba(self, X):
            return super().predict_proba(X).astype(np.float32)

    model = CalibratedClassifier(Single(), OneVsRestPlatt(), cv=3).fit(X, y, **weight)
    double = CalibratedClassifier(GaussianNB(), OneVsRestPlatt(), cv=3).fit(X, y, **weight)
    np.testing.assert_allclose(model.predict_proba(X_new), double.predict_proba(X_new), atol=1e-3)


def test_frames_as_output_of_transformers_change_nothing(digits):
    """Neither within the estimator, nor asked for everywhere: probabilities stay arrays."""
    X, y, X_new, _ = digits
    frame = pd.DataFrame(X, columns=[f"pixel {i}" for i in range(64)])
    new = pd.DataFrame(X_new, columns=frame.columns)
    plain = make_pipeline(StandardScaler(), GaussianNB())
    wanted = CalibratedClassifier(plain, "ts", cv=3).fit(X, y).predict_proba(X_new)
    named = make_pipeline(StandardScaler().set_output(transform="pandas"), GaussianNB())
    out = CalibratedClassifier(named, "ts", cv=3).fit(frame, y).predict_proba(new)
    np.testing.assert_allclose(out, wanted, atol=1e-12)  # frames are in the order of columns
    with config_context(transform_output="pandas"):
        out = CalibratedClassifier(plain, "ts", cv=3).fit(frame, y).predict_proba(new)
    assert isinstance(out, np.ndarray)
    np.testing.assert_allclose(out, wanted, atol=1e-12)
