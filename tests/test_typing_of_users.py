"""What a type checker tells a user who calls the package wrongly: every line below is an error."""

import os
import re
import subprocess
import sys

import pytest

from test_architecture import ROOT

RIGHT = """
import calibrant
from calibrant import datasets, decisions, export, judge, metrics, model_file, monitor, plots
from calibrant import report, scale

scores, y, new_scores, new_y = datasets.overconfident_digits()
ts = calibrant.TemperatureScaling(scores="probabilities", tol=1e-9).fit(scores, y, sample_weight=y)
curve = metrics.reliability_curve(y, scores, n_bins=10, kind="confidence", strategy="quantile")
comparison = report.compare(y, scores, new_y, new_scores, ["ts"], scores="probabilities")
"""

WRONG = """
metrics.confidence_ece(y, scores, n_bin=10)
metrics.confidence_ece(y, scores, n_bins="many")
metrics.classwise_ece(y, scores, norm="l3")
metrics.negative_log_likelihood(y, scores, min_probability="small")
metrics.accuracy(y, scores, weights=y)
metrics.evaluate(y, scores, strategy="kmeans")
metrics.calibration_test(y, scores, metric="top")
metrics.calibration_segments(y, scores, features=scores, alpha="5 %")
calibrant.NormalizationAwareIsotonic(prior=3)
calibrant.TemperatureScaling(tol="tight")
calibrant.TemperatureScaling(scores="logit")
calibrant.TemperatureScaling().fit(scores, y, weights=y)
calibrant.AutoCalibrator(cv="five")
plots.draw_reliability(scores)
plots.compute_classwise(y, scores, n_worst="three")
plots.ReliabilityDisplay.from_predictions(y, scores, strategy="mass")
decisions.decision_curve(y, scores, threshold=0.5)
decisions.expected_cost(y, scores, costs=3.0, confidence="high")
report.compare(y, scores, new_y, new_scores, scores="logit")
report.write_report("page.html", "comparison")
report.compare_models(["model"])
scale.open_tables("predictions", scores="prob_", chunk=5)
export.to_onnx(ts, opset="17")
model_file.save(ts, 3)
model_file.load("model.calibrant", trust=True)
judge.calibrate_judge(y, y, alpha=0.05)
judge.plan_labels(y, n="many")
monitor.CalibrationMonitor(alpha="small")
""".strip().splitlines()


@pytest.mark.slow
def test_a_type_checker_finds_every_wrong_call(tmp_path):
    """Misspelled options, wrong types and wrong words, in every room that users call."""
    pytest.importorskip("mypy")
    path = tmp_path / "wrong.py"
    path.write_text("\n".join([*RIGHT.splitlines(), *WRONG]), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(path)],
        cwd=ROOT,
        env=os.environ | {"MYPYPATH": "src"},
        capture_output=True,
        text=True,
        check=False,
    )
    first = len(RIGHT.splitlines())
    found = {int(line) for line in re.findall(r"wrong\.py:(\d+): error", done.stdout)}
    told = [WRONG[line - first - 1] for line in sorted(found) if line > first]
    assert len(WRONG) >= 20
    assert told == WRONG
    assert min(found) > first, done.stdout
