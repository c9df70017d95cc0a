"""Methods under CalArena's contract, and inside probmetrics itself, with arrays and tensors."""

import warnings
from contextlib import suppress

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import calibrant
from calibrant import errors
from calibrant._calibrators.methods import make_calibrator
from calibrant.study import ArenaCalibrator, run_study
from calibrant.study._calarena import METRICS, read_results
from conftest import methods_alone, simulate
from study.hdf5_files import write_benchmark

with warnings.catch_warnings(), suppress(ImportError):
    warnings.simplefilter("ignore")  # of what it imports
    import probmetrics.calibrators  # noqa: F401

pytestmark = [
    pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torchmetrics
]

P, Y = simulate(300, 4)
SINGLE = P.astype(np.float32)
LABELS = Y.astype(np.int32)


@pytest.mark.parametrize("method", methods_alone())
def test_every_method_answers_as_itself(method):
    found = ArenaCalibrator(method).fit(SINGLE, LABELS).predict_proba(SINGLE)
    rows = SINGLE.astype(np.float64)
    own = make_calibrator(method, classes=np.arange(4)).fit(rows, Y)
    np.testing.assert_array_equal(found, own.predict_proba(rows))
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-9)


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_one_column_is_the_second_of_two_classes(shape):
    p, y = simulate(300, 2)
    alone = p[:, 1].reshape(shape)
    found = ArenaCalibrator("fir").fit(alone, y).predict_proba(alone)
    both = np.stack([1 - p[:, 1], p[:, 1]], axis=1)
    np.testing.assert_array_equal(found, calibrant.FlattenedIsotonic().fit(both, y).transform(both))


def test_calibrators_with_parameters_are_left_as_they_were():
    given = calibrant.TemperatureScaling(prior_strength=0.0)
    found = ArenaCalibrator(given).fit(SINGLE, LABELS)
    assert found.calibrator_.prior_strength == clone(found).calibrator.prior_strength == 0.0
    assert not hasattr(given, "map_")
    assert given.classes is None


def test_what_cannot_be_is_said():
    with pytest.raises(errors.ParameterError, match="scores='logits', but CalArena gives prob"):
        ArenaCalibrator(calibrant.TemperatureScaling(scores="logits")).fit(SINGLE, LABELS)
    with pytest.raises(errors.ParameterError, match="'magic'"):
        ArenaCalibrator("magic").fit(SINGLE, LABELS)
    with pytest.raises(NotFittedError):
        ArenaCalibrator().predict_proba(SINGLE)


@pytest.fixture(scope="module")
def ours():
    """Our module for probmetrics, if that is installed."""
    pytest.importorskip("probmetrics.calibrators")
    from calibrant.study import probmetrics

    return probmetrics


@pytest.mark.parametrize("method", methods_alone())
def test_every_method_can_be_entered(method, ours):
    entries = ours.calibrators()
    assert list(entries) == [f"calibrant-{name}" for name in methods_alone()]
    entry = entries[f"calibrant-{method}"]()
    assert type(entry.calibrator) is methods_alone()[method]
    base = ours.theirs.Calibrator
    assert isinstance(entry, base)
    assert (type(entry).fit, type(entry).predict_proba) == (base.fit, base.predict_proba)
    found = clone(entry).fit(SINGLE, Y).predict_proba(SINGLE)
    own = ArenaCalibrator(method).fit(SINGLE, Y).predict_proba(SINGLE)
    np.testing.assert_array_equal(found, own)


def test_tensors_go_the_same_way(ours):
    import torch
    from probmetrics.distributions import CategoricalProbs

    entry = ours.calibrator("ts", prior_strength=0.0)
    rows = CategoricalProbs(torch.as_tensor(P))
    found = entry.fit_torch(rows, torch.as_tensor(Y)).predict_proba_torch(rows).get_probs()
    own = ArenaCalibrator(calibrant.TemperatureScaling(prior_strength=0.0)).fit(P, Y)
    np.testing.assert_array_equal(found.numpy(), own.predict_proba(P))


@pytest.mark.parametrize("n_classes", [2, 5])
def test_numbers_of_result_files_are_those_of_their_metrics(tmp_path, n_classes, ours):
    import torch
    from probmetrics.metrics import Metrics

    arrays = write_benchmark(tmp_path / "toy.h5", {"toy/net": {"n_classes": n_classes}})["toy/net"]
    run_study(tmp_path / "toy.h5", tmp_path / "out", ["ts"], n_jobs=0)
    found = read_results(tmp_path / "out" / "calarena" / "toy")["calibrant-ts"].iloc[0]
    entry = ours.calibrator("ts").fit(arrays["probas_cal"], arrays["labels_cal"])
    rows = entry.predict_proba(arrays["probas_test"])
    expected = Metrics.from_names(list(METRICS)).compute_all_from_labels_probs(
        torch.tensor(arrays["labels_test"], dtype=torch.int64), torch.tensor(rows)
    )
    for metric in METRICS:
        assert found[metric] == pytest.approx(expected[metric].item(), abs=1e-6), metric
