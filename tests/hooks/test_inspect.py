"""Inspect runs with a mock model: confidences, metrics, and a calibrator in the scorer."""

import math

import numpy as np
import pytest

from calibrant import TemperatureScaling
from calibrant._cli import main
from calibrant.metrics import positive_ece
from calibrant.model_file import load, save
from calibrant.report import compare_models, read_answers

inspect_ai = pytest.importorskip("inspect_ai")
from inspect_ai.dataset import MemoryDataset, Sample  # noqa: E402
from inspect_ai.model import (  # noqa: E402
    ChatCompletionChoice,
    ChatMessageAssistant,
    Logprob,
    Logprobs,
    ModelOutput,
    ModelUsage,
    TopLogprob,
    get_model,
)
from inspect_ai.scorer import choice  # noqa: E402
from inspect_ai.solver import multiple_choice  # noqa: E402

from calibrant.hooks import confident_choice  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # those of other packages are theirs

N = 120
USAGE = ModelUsage(input_tokens=9, output_tokens=2, total_tokens=11)  # else tokens are counted
RNG = np.random.default_rng(0)
PROBABILITIES = RNG.dirichlet([0.4] * 4, N)
TARGETS = ["ABCD"[RNG.choice(4, p=0.4 * p + 0.15)] for p in PROBABILITIES]


def answer(p, words="ANSWER: "):
    """What a model says that names the most probable letter, with its log-probabilities."""
    letter = "ABCD"[int(np.argmax(p))]
    listed = [
        TopLogprob(token=name, logprob=math.log(max(x, 1e-9)))
        for name, x in zip("ABCD", p, strict=True)
    ]
    tokens = [Logprob(token=word, logprob=-0.1, top_logprobs=[]) for word in words.split(" ")]
    tokens.append(Logprob(token=" " + letter, logprob=math.log(max(p)), top_logprobs=listed))
    choice = ChatCompletionChoice(
        message=ChatMessageAssistant(content=f"{words}{letter}"), logprobs=Logprobs(content=tokens)
    )
    return ModelOutput(model="mock", choices=[choice], usage=USAGE)


def run(tmp_path, scorer, outputs, epochs=1):
    samples = [Sample(input=f"q{i}", choices=list("wxyz"), target=t) for i, t in enumerate(TARGETS)]
    task = inspect_ai.Task(
        dataset=MemoryDataset(samples),
        solver=multiple_choice(),
        scorer=scorer,
        name="toy",
        epochs=epochs,
    )
    model = get_model("mockllm/model", custom_outputs=outputs)
    (log,) = inspect_ai.eval(
        task, model=model, log_dir=str(tmp_path / "logs"), display="none", max_samples=1
    )
    assert log.status == "success", log.error.traceback
    return log


def metrics_of(log):
    return {name: m.value for name, m in log.results.scores[0].metrics.items()}


def test_a_run_has_calibrated_and_uncalibrated_results(tmp_path):
    first = run(tmp_path, confident_choice(), [answer(p) for p in PROBABILITIES])
    confidence, right = (
        PROBABILITIES.max(axis=1),
        np.array([t == "ABCD"[p.argmax()] for t, p in zip(TARGETS, PROBABILITIES, strict=True)]),
    )
    found = metrics_of(first)
    assert found["accuracy"] == pytest.approx(right.mean())
    exact = positive_ece(right, confidence, classes=[False, True])
    assert found["calibration_error"] == pytest.approx(exact, abs=1e-6)
    assert found["overconfidence"] == pytest.approx(confidence.mean() - right.mean(), abs=1e-6)
    fitted = TemperatureScaling(scores="positive", classes=[False, True]).fit(confidence, right)
    save(fitted, tmp_path / "right.calibrant")
    again = run(
        tmp_path,
        confident_choice(str(tmp_path / "right.calibrant")),
        [answer(p) for p in PROBABILITIES],
    )
    score = again.samples[0].scores["confident_choice"]
    sample = int(str(again.samples[0].id)) - 1
    expected = fitted.predict_proba([confidence[sample]])[0, 1]
    assert score.metadata["calibrated"] == pytest.approx(expected, abs=1e-6)
    both = metrics_of(again)
    assert {name: both[name] for name in found} == found  # side by side
    calibrated = fitted.predict_proba(confidence)[:, 1]
    exact = positive_ece(right, calibrated, classes=[False, True])
    assert both["calibration_error_after"] == pytest.approx(exact, abs=1e-6)
    gap = calibrated.mean() - right.mean()
    assert both["overconfidence_after"] == pytest.approx(gap, abs=1e-6)
    assert abs(gap) < found["overconfidence"]


def test_a_calibrator_may_be_fitted_to_the_log_of_a_run(tmp_path):
    first = run(tmp_path, confident_choice(), [answer(p) for p in PROBABILITIES])
    path = tmp_path / "model.calibrant"
    assert main.run(["fit", first.location, "-m", "ts", "-o", str(path)]) == 0
    again = run(tmp_path, confident_choice(str(path)), [answer(p) for p in PROBABILITIES])
    fitted = load(path)
    sample = again.samples[0]
    p = PROBABILITIES[int(str(sample.id)) - 1]
    expected = fitted.predict_proba([np.log(p)])[0].max()
    found = sample.scores["confident_choice"].metadata["calibrated"]
    assert found == pytest.approx(expected, abs=1e-4)
    both = metrics_of(again)
    assert both["calibration_error_after"] < both["calibration_error"]
    (answers,) = read_answers(tmp_path / "logs", clusters=None)
    row = compare_models([answers], calibrator=TemperatureScaling()).rows[0]
    assert row.accuracy.value == both["accuracy"]  # of the newer log


def test_a_model_that_reasons_first_is_read_by_its_last_letter(tmp_path):
    words = "A is tempting but ANSWER: "
    log = run(tmp_path, confident_choice(), [answer(p, words) for p in PROBABILITIES])
    found = {int(str(s.id)) - 1: s.scores["confident_choice"].metadata for s in log.samples}
    for i, p in enumerate(PROBABILITIES):
        assert found[i]["confidence"] == pytest.approx(p.max(), abs=1e-5)


def test_without_log_probabilities_there_is_no_confidence(tmp_path):
    outputs = [ModelOutput.from_content("mock", f"ANSWER: {t}") for t in TARGETS]
    for output in outputs:
        output.usage = USAGE
    found = metrics_of(run(tmp_path, confident_choice(), outputs))
    assert found["accuracy"] == 1.0
    assert math.isnan(found["calibration_error"])


def test_epochs_without_log_probabilities_agree_or_not(tmp_path):
    """The confidence is the share of a question's answers that are alike; accuracy is Inspect's."""
    rng = np.random.default_rng(2)
    outputs = [ModelOutput.from_content("mock", f"ANSWER: {x}") for x in rng.choice([*"ABCD"], 360)]
    for output in outputs:
        output.usage = USAGE
    log = run(tmp_path, choice(), outputs, epochs=3)
    (answers,) = read_answers(tmp_path / "logs")
    row = compare_models([answers], calibrator=TemperatureScaling()).rows[0]
    assert (row.model, row.task, row.n_rows) == ("mockllm/model", "toy", 360)
    assert len({*answers.items}) == N
    assert row.accuracy.value == pytest.approx(metrics_of(log)["accuracy"], abs=1e-12)
    assert {round(3 * share) for share in answers.scores} == {1, 2, 3}
