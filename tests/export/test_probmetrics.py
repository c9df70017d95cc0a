"""Our methods inside probmetrics itself, with arrays and with tensors."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from calibrant._calibrators.methods import methods
from calibrant.export import ArenaCalibrator
from conftest import simulate

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what it imports
    theirs = pytest.importorskip("probmetrics.calibrators")
    torch = pytest.importorskip("torch")

from probmetrics.distributions import CategoricalProbs
from probmetrics.metrics import Metrics

from calibrant.export import probmetrics
from calibrant.study import run_study
from calibrant.study._calarena import METRICS, read_results
from files.hdf5_files import write_benchmark

pytestmark = [
    pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torchmetrics
]

P, Y = simulate(300, 4)
SINGLE = P.astype(np.float32)


@pytest.mark.parametrize("method", methods())
def test_every_method_can_be_entered(method):
    entry = probmetrics.calibrators()[f"calibrant-{method}"]()
    assert isinstance(entry, theirs.Calibrator)
    found = clone(entry).fit(SINGLE, Y).predict_proba(SINGLE)
    own = ArenaCalibrator(method).fit(SINGLE, Y).predict_proba(SINGLE)
    np.testing.assert_array_equal(found, own)


def test_tensors_go_the_same_way():
    entry = probmetrics.calibrator("ts")
    rows = CategoricalProbs(torch.as_tensor(P))
    found = entry.fit_torch(rows, torch.as_tensor(Y)).predict_proba_torch(rows).get_probs()
    own = ArenaCalibrator("ts").fit(P, Y).predict_proba(P)
    np.testing.assert_array_equal(found.numpy(), own)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_numbers_of_result_files_are_those_of_their_metrics(tmp_path, n_classes):
    arrays = write_benchmark(tmp_path / "toy.h5", {"toy/net": {"n_classes": n_classes}})["toy/net"]
    run_study(tmp_path / "toy.h5", tmp_path / "out", ["ts"], n_jobs=0)
    found = read_results(tmp_path / "out" / "calarena" / "toy")["calibrant-ts"].iloc[0]
    entry = probmetrics.calibrator("ts").fit(arrays["probas_cal"], arrays["labels_cal"])
    rows = entry.predict_proba(arrays["probas_test"])
    expected = Metrics.from_names(list(METRICS)).compute_all_from_labels_probs(
        torch.tensor(arrays["labels_test"], dtype=torch.int64), torch.tensor(rows)
    )
    for metric in METRICS:
        assert found[metric] == pytest.approx(expected[metric].item(), abs=1e-6), metric
