"""What classes and maps say of themselves is measured: order, ties, names without effect."""

import numpy as np
import pytest

from calibrant import FlattenedIsotonic, NormalizationAwareIsotonic
from calibrators.catalogue import CALIBRATORS, ORDER_PRESERVING, PERMUTATION_INVARIANT, make
from conftest import simulate

pytestmark = [
    pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

# The paper's Table 1: order preserving, permutation invariant.
TABLE_1 = {
    "ts": (True, True),
    "vs": (False, False),
    "ms": (False, False),
    "ir-ovr": (False, False),
    "fir": (True, True),
    "na-fir": (True, True),
    "scir": (False, True),
}


def test_the_promises_of_the_paper():
    promises = {
        c.method: (c.keeps_order, c.same_for_all_classes) for c in CALIBRATORS if c.in_paper
    }
    assert promises == TABLE_1


@pytest.fixture(scope="module")
def tilted():
    """Predictions with a bias for class 0, which only a method that sees classes can remove."""
    p, y = simulate(3000, 4, seed=1)
    p = p * np.array([3.0, 1.0, 1.0, 0.5])
    return p / p.sum(axis=1, keepdims=True), y


@pytest.mark.parametrize("cls", CALIBRATORS)
def test_maps_are_what_they_promise(cls, tilted):
    """In order, and the same for all classes: permuting those of a row permutes its output."""
    p, y = tilted
    calibrator = make(cls).fit(p, y)
    out = calibrator.predict_proba(p)
    order, columns = np.argsort(p, axis=1), [2, 0, 3, 1]
    keeps_order = bool(np.all(np.diff(np.take_along_axis(out, order, axis=1), axis=1) >= 0))
    gap = np.abs(calibrator.predict_proba(p[:, columns]) - out[:, columns]).max()
    assert keeps_order is calibrator.map_.keeps_order is (cls in ORDER_PRESERVING)
    is_same = bool(gap < 1e-12)
    assert is_same is calibrator.map_.same_for_all_classes is (cls in PERMUTATION_INVARIANT)


@pytest.mark.parametrize("kind", ["probabilities", "logits"])
@pytest.mark.parametrize("cls", CALIBRATORS)
def test_ties_are_broken_by_the_score(cls, kind):
    p, y = simulate(400, 4)
    scores = p if kind == "probabilities" else np.log(p)
    calibrator = make(cls, scores=kind).fit(scores, y)
    out, labels = calibrator.predict_proba(scores), calibrator.predict(scores)
    tied = out >= out.max(axis=1, keepdims=True) * (1 - 1e-14)
    assert labels.tolist() == np.where(tied, p, -1).argmax(axis=1).tolist()


@pytest.mark.parametrize("calibrator", [FlattenedIsotonic(), NormalizationAwareIsotonic()])
def test_labels_do_not_depend_on_names(calibrator):
    """Names sort the columns; the same data with others must not predict others."""
    p, y = simulate(300, 5)
    names, others = np.array(list("abcde")), np.array(list("ecadb"))
    order = np.argsort(others)
    two = calibrator.fit(p[:, order], others[y]).predict(p[:, order])
    one = calibrator.fit(p, names[y]).predict(p)
    top = np.sort(calibrator.predict_proba(p))[:, -2:]
    assert np.any(np.isclose(top[:, 0], top[:, 1], rtol=1e-14))
    assert np.searchsorted(names, one).tolist() == [others.tolist().index(t) for t in two]
