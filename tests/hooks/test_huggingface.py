"""A module in the layout of Hugging Face's ``evaluate``."""

import pytest

from calibrant.datasets import simulated_scores
from calibrant.hooks import module_path
from calibrant.metrics import confidence_ece, negative_log_likelihood

evaluate = pytest.importorskip("evaluate")
pytestmark = pytest.mark.filterwarnings("ignore")  # those of other packages are theirs


def test_it_is_loaded_and_computes_what_metrics_do(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    scores, y = simulated_scores(200)
    metric = evaluate.load(module_path(), cache_dir=str(tmp_path))
    found = metric.compute(predictions=scores.tolist(), references=y.tolist(), n_bins=10)
    assert found["confidence_ece"] == pytest.approx(confidence_ece(y, scores, n_bins=10))
    assert found["negative_log_likelihood"] == pytest.approx(negative_log_likelihood(y, scores))
    assert set(found) >= {"classwise_ece", "brier_score"}
