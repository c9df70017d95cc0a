"""Classes whose calibrated probabilities tie are told apart by their scores."""

import numpy as np
import pytest

from calibrant import FlattenedIsotonic, NormalizationAwareIsotonic
from calibrators.catalogue import CALIBRATORS, make
from conftest import simulate

pytestmark = [
    pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


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
