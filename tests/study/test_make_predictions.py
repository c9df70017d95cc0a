"""Prediction files from classifiers of one's own."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC

from calibrant._files.align import align
from calibrant._files.formats import read_prediction_file
from calibrant._files.request import Request
from calibrant.errors import LabelError, ShapeError
from calibrant.study import from_estimator, from_torch
from calibrant.study._make_predictions import split_rows


def blobs(n_rows=200, names=("ant", "bee", "cow")):
    rng = np.random.default_rng(0)
    y = rng.integers(0, len(names), n_rows)
    return rng.normal(size=(n_rows, 2)) + 2 * y[:, None], np.array(names)[y]


def test_a_quarter_is_val_and_every_row_is_in_one_part():
    val, test = split_rows(101, seed=3)
    assert len(val) == 25
    assert sorted([*val, *test]) == list(range(101))
    assert (np.diff(val) > 0).all()
    assert (np.diff(test) > 0).all()
    assert np.array_equal(val, split_rows(101, seed=3)[0])
    assert not np.array_equal(val, split_rows(101, seed=2)[0])


def test_estimator_gives_its_probabilities(tmp_path):
    X, y = blobs()
    model = GaussianNB().fit(X[:100], y[:100])
    path = from_estimator(model, X[100:], y[100:], tmp_path / "blobs_nb.npz", seed=4)
    val, test = split_rows(100, 4)
    with np.load(path) as file:
        np.testing.assert_array_equal(file["val_probs"], model.predict_proba(X[100:][val]))
        np.testing.assert_array_equal(file["test_probs"], model.predict_proba(X[100:][test]))
        np.testing.assert_array_equal(file["classes"], model.classes_)
        np.testing.assert_array_equal(file["val_labels"], y[100:][val])
        np.testing.assert_array_equal(file["test_labels"], y[100:][test])


@pytest.mark.parametrize(
    "names",
    [
        ("ant", "bee", "cow"),
        np.array(["ant", "bee", "cow"], dtype=object),  # as in a data frame
        (1, 2, 30),  # which columns are not numbered by
        (0.0, 1.0, 20.0),
        (False, True),
    ],
)
def test_labels_and_class_names_are_those_that_the_reader_reads(tmp_path, names):
    X, y = blobs(names=names)
    model = GaussianNB().fit(X, y)
    path = from_estimator(model, X[:50], y[:50], tmp_path / "blobs_nb.npz", test=(X, y))
    found = read_prediction_file(path, Request(part="test"))
    assert found.place.names == [str(name) for name in model.classes_]
    aligned = align(found)
    columns = [aligned.classes.index(label) for label in aligned.y.tolist()]
    assert columns == [list(names).index(label) for label in y]


def test_without_probabilities_decision_values_are_logits_and_parts_may_be_given_apart(tmp_path):
    X, y = blobs()
    model = RidgeClassifier().fit(X, y)
    path = from_estimator(model, X[:40], y[:40], tmp_path / "a_b.npz", test=(X[40:], y[40:]))
    with np.load(path) as file:
        np.testing.assert_array_equal(file["val_logits"], model.decision_function(X[:40]))
        np.testing.assert_array_equal(file["test_logits"], model.decision_function(X[40:]))
        assert "val_probs" not in file


def test_decision_value_of_two_classes_becomes_two_columns(tmp_path):
    X, y = blobs(names=("no", "yes"))
    model = RidgeClassifier().fit(X, y)
    with np.load(from_estimator(model, X, y, tmp_path / "blobs_ridge.npz")) as file:
        margins = model.decision_function(X[split_rows(len(y))[1]])
        np.testing.assert_array_equal(file["test_logits"], np.stack([0 * margins, margins], 1))


def test_pairwise_decision_values_are_refused(tmp_path):
    X, y = blobs(names=("a", "b", "c", "d"))
    model = SVC(decision_function_shape="ovo").fit(X, y)
    with pytest.raises(ShapeError, match="6 columns for 4 classes"):
        from_estimator(model, X, y, tmp_path / "a_b.npz")


def test_a_label_that_the_estimator_does_not_know_is_an_error(tmp_path):
    X, y = blobs()
    model = GaussianNB().fit(X[y != "cow"], y[y != "cow"])
    with pytest.raises(LabelError, match="'cow'"):
        from_estimator(model, X, y, tmp_path / "a_b.npz")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def network():
    """Doubles its input; must be asked in evaluation mode, without gradients."""
    torch = pytest.importorskip("torch")

    class Network(torch.nn.Module):
        def __init__(self, wrap=lambda found: found):
            super().__init__()
            self.factor, self.wrap = torch.nn.Parameter(torch.tensor(2.0)), wrap

        def forward(self, inputs):
            assert not self.training
            assert not torch.is_grad_enabled()
            return self.wrap(self.factor * inputs)

    def batches(scores, labels):
        both = torch.tensor(scores, dtype=torch.float32).split(16), torch.tensor(labels).split(16)
        return list(zip(*both, strict=True))

    return Network, batches


@pytest.mark.parametrize("wrap", [lambda t: t, lambda t: SimpleNamespace(logits=t)])
def test_torch_model_gives_its_logits(network, tmp_path, wrap):
    make, batches = network
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(100, 5)), rng.integers(0, 5, 100)
    model = make(wrap)
    path = from_torch(model, batches(scores, labels), tmp_path / "a_net.npz", seed=2)
    val, test = split_rows(100, 2)
    with np.load(path) as file:
        assert file["val_logits"].dtype == np.float32
        np.testing.assert_array_equal(file["val_logits"], 2 * scores[val].astype(np.float32))
        np.testing.assert_array_equal(file["test_labels"], labels[test])
    assert model.training  # as it was
    path = from_torch(model, batches(scores, labels), path, test=batches(-scores, labels))
    with np.load(path) as file:
        np.testing.assert_array_equal(file["test_logits"], -2 * scores.astype(np.float32))


@pytest.mark.parametrize(
    ("scores", "labels", "error"),
    [(np.eye(4), [0, 1, 2, 4], LabelError), (np.ones(4), [0, 1, 0, 1], ShapeError)],
)
def test_torch_output_that_does_not_fit_the_labels_is_an_error(
    network, tmp_path, scores, labels, error
):
    make, batches = network
    model = make()
    with pytest.raises(error):
        from_torch(model, batches(scores, labels), tmp_path / "a_net.npz")
    assert model.training
    assert not list(tmp_path.iterdir())
