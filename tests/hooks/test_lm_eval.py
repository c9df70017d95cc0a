"""The LM Evaluation Harness runs with a mock model: results before and after calibration."""

import json

import numpy as np
import pytest
from scipy.special import softmax

from calibrant import TemperatureScaling
from calibrant.metrics import confidence_ece
from calibrant.model_file import save
from calibrant.report import compare_models, read_answers

lm_eval = pytest.importorskip("lm_eval")
from lm_eval.api.model import LM  # noqa: E402
from lm_eval.loggers import EvaluationTracker  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402
from lm_eval.utils import make_table  # noqa: E402

from calibrant.hooks import add_calibration, register_filter  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # those of other packages are theirs

N = 150
RNG = np.random.default_rng(1)
LOGITS = RNG.normal(0, 3, (N, 3)).round(6)
TARGETS = [int(RNG.choice(3, p=softmax(0.4 * z))) for z in LOGITS]
OPTIONS = ["red", "green", "blue"]


class Mock(LM):
    """Says of each option of a question what the table of logits says."""

    def loglikelihood(self, requests):
        found = []
        for request in requests:
            context, option = request.args
            row = int(context.split("number ")[1].split("?")[0])
            found.append((float(LOGITS[row, OPTIONS.index(option.strip())]), False))
        return found

    def generate_until(self, requests):
        raise NotImplementedError

    def loglikelihood_rolling(self, requests):
        raise NotImplementedError


def run(tmp_path, filters=""):
    rows = [{"question": f"number {i}?", "gold": t} for i, t in enumerate(TARGETS)]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "toy.yaml").write_text(
        "task: toy\ndataset_path: json\n"
        f"dataset_kwargs: {{data_files: {{test: {tmp_path / 'data.jsonl'}}}}}\n"
        "test_split: test\noutput_type: multiple_choice\ndoc_to_text: '{{question}}'\n"
        f"doc_to_target: gold\ndoc_to_choice: {json.dumps(OPTIONS)}\n"
        "metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]\n" + filters
    )
    tasks = TaskManager(include_path=str(tmp_path), include_defaults=False)
    return lm_eval.simple_evaluate(
        model=Mock(), tasks=["toy"], task_manager=tasks, log_samples=True, bootstrap_iters=0
    )


def test_results_have_calibration_before_and_after(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    results = add_calibration(run(tmp_path))
    found = results["results"]["toy"]
    p = softmax(LOGITS, axis=1)
    assert found["acc,none"] == pytest.approx(np.mean(p.argmax(axis=1) == TARGETS))
    assert found["ece,none"] == pytest.approx(confidence_ece(TARGETS, p), abs=1e-9)
    assert found["ece,calibrated"] < found["ece,none"]
    assert found["nll,calibrated"] < found["nll,none"]
    assert "overconfidence" in make_table(results)


def test_the_directory_of_a_run_has_its_accuracy(tmp_path, monkeypatch):
    """Written by the tool: names of models and tasks, and its own report to the digit."""
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    results = run(tmp_path)
    samples = results.pop("samples")
    tracker = EvaluationTracker(output_path=str(tmp_path / "out"))
    tracker.general_config_tracker.model_name_sanitized = "org__mock"
    tracker.save_results_aggregated(results=results, samples=samples)
    tracker.save_results_samples(task_name="toy", samples=samples["toy"])
    (answers,) = read_answers(tmp_path / "out")
    assert (answers.model, answers.task) == ("org__mock", "toy")
    (row,) = compare_models([answers], calibrator=TemperatureScaling()).rows
    assert row.accuracy.value == results["results"]["toy"]["acc,none"]
    assert row.error == pytest.approx(confidence_ece(TARGETS, softmax(LOGITS, axis=1)))


def test_a_filter_calibrates_the_scores_of_a_run(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    fitted = TemperatureScaling(scores="logits").fit(LOGITS, TARGETS)
    save(fitted, tmp_path / "model.calibrant")
    register_filter("calibrant")
    filters = (
        "filter_list:\n- {name: none, filter: [{function: take_first}]}\n- name: calibrated\n"
        f"  filter: [{{function: calibrant, path: {tmp_path / 'model.calibrant'}}}, "
        "{function: take_first}]\n"
    )
    results = run(tmp_path, filters)
    found = results["results"]["toy"]
    assert found["acc,calibrated"] == found["acc,none"]  # a temperature keeps the order
    sample = next(s for s in results["samples"]["toy"] if s["filter"] == "calibrated")
    logs = [pair[0] for pair in sample["filtered_resps"]]
    expected = np.log(fitted.predict_proba([LOGITS[sample["doc_id"]]])[0])
    np.testing.assert_allclose(logs, expected, atol=1e-9)
