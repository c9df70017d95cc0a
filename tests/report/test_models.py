"""Many models on the same tasks: numbers, intervals, and directories as tools leave them."""

import gzip
import io
import json
import shutil
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

from calibrant import TemperatureScaling, errors
from calibrant._cli import main
from calibrant.metrics import confidence_ece, negative_log_likelihood
from calibrant.report import ModelAnswers, compare_models, read_answers, write_models
from calibrant.report._models import _interval
from conftest import refuses

CUT = Path(__file__).parents[1] / "data"
QUICK = TemperatureScaling()


def draw(seed=0, n=300, sharp=2.0):
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1.5, (n, 4))
    y = np.array([rng.choice(4, p=p) for p in softmax(z, axis=1)])
    return sharp * z, y


def answers(z, y, model, task="", **others):
    return ModelAnswers(z, y, model, task, kind="logits", classes=range(4), **others)


def test_numbers_are_those_of_metrics():
    z, y = draw()
    (row,) = compare_models([answers(z, y, "m")], calibrator=QUICK).rows
    p = softmax(z, axis=1)
    assert row.accuracy.value == np.mean(p.argmax(axis=1) == y)
    assert row.error == pytest.approx(confidence_ece(y, p), abs=1e-12)
    assert row.nll == pytest.approx(negative_log_likelihood(y, p), abs=1e-12)
    assert row.confidence == pytest.approx(p.max(axis=1).mean())
    assert row.overconfidence.value == pytest.approx(row.confidence - row.accuracy.value)
    assert row.slope == pytest.approx(0.5, rel=0.25)
    gaps = p.mean(axis=0) - np.eye(4)[y].mean(axis=0)
    assert row.bias == pytest.approx(dict(zip("0123", gaps, strict=True)))
    assert row.favour == max(row.bias.values()) == row.bias[row.favourite]
    order = np.argsort(-p.max(axis=1))
    shares = np.cumsum((p.argmax(axis=1) == y)[order]) / np.arange(1, len(y) + 1)
    assert row.answered == np.flatnonzero(shares >= 0.95).max(initial=-1) / len(y) + 1 / len(y)
    assert row.nll_calibrated < row.nll
    assert row.error_calibrated < row.error


def test_absent_options_stay_absent():
    z, y = draw()
    narrow = (np.arange(len(y)) % 3 == 0) & (y < 2)
    z[narrow, 3] = -np.inf
    z[0] = [900.0, 0.0, -900.0, -900.0]  # whose softmax is 0, and which are there
    y[0] = 3
    (row,) = compare_models([answers(z, y, "m")]).rows
    assert np.isfinite(row.nll_calibrated)
    assert row.nll_calibrated < row.nll


def test_intervals_of_clusters_hold_where_those_of_questions_do_not():
    """Questions of a document are right together; the truth is that of all documents."""
    rng, hits = np.random.default_rng(0), np.zeros(2)
    document = np.repeat(np.arange(30), 10)
    for _ in range(400):
        hard = rng.normal(0, 1.5, (30, 1, 1)) + rng.normal(0, 1.5, (30, 1, 2))
        p = np.broadcast_to(1 / (1 + np.exp(-(hard + np.array([1.0, 0.0])))), (30, 10, 2))
        right = (rng.random(p.shape) < p).reshape(300, 2).astype(float)
        for own, clusters in enumerate((document, np.arange(300))):
            gap = _interval(right[:, 0] - right[:, 1], 0.95, clusters, (1.0, -1.0))
            hits[own] += gap.low <= 0.1427 <= gap.high  # the mean of 4 million documents
    assert 0.92 <= hits[0] / 400 <= 0.98
    assert hits[1] / 400 < 0.8


def test_clusters_are_used_by_accuracies_and_differences():
    z, y = draw()
    document = np.repeat(np.arange(30), 10)
    order = np.argsort(z.argmax(axis=1) == y, kind="stable")  # whole documents are right, or wrong
    z, y = z[order], y[order]
    both = [answers(z, y, "a"), answers(z[::-1], y, "b")]
    plain = compare_models(both, calibrator=QUICK)
    wide = compare_models([replace(one, clusters=document) for one in both], calibrator=QUICK)
    for one, other in (
        (plain.rows[0].accuracy, wide.rows[0].accuracy),
        (plain.differences[0].difference, wide.differences[0].difference),
    ):
        assert one.value == other.value
        assert other.high - other.low > 1.5 * (one.high - one.low)


def test_repeated_samples_of_a_question_are_one_item():
    z, y = draw(n=100)
    once = compare_models([answers(z, y, "m")], calibrator=QUICK).rows[0]
    often = [np.repeat(own, 3, axis=0) for own in (z, y, np.arange(100))]
    (row,) = compare_models([answers(*often[:2], "m", items=often[2])], calibrator=QUICK).rows
    assert row.accuracy == once.accuracy
    assert row.overconfidence == pytest.approx(once.overconfidence, rel=0.02)
    assert row.n_rows == 300


def test_models_of_several_tasks_have_a_row_of_all():
    (z, y), (more, labels) = draw(1), draw(2, n=100)
    own = [answers(z, y, "a", "x"), answers(more, labels, "a", "y"), answers(z / 9, y, "b", "x")]
    table = compare_models(own, calibrator=QUICK)
    assert [(row.model, row.task) for row in table.rows] == [
        ("a", "all tasks"),
        ("a", "x"),
        ("b", "x"),
        ("a", "y"),
    ]
    whole, first, _, second = table.rows
    assert whole.accuracy.value == pytest.approx(
        (300 * first.accuracy.value + 100 * second.accuracy.value) / 400
    )
    assert whole.nll == pytest.approx((300 * first.nll + 100 * second.nll) / 400)
    assert [one.task for one in table.differences] == ["x"]
    assert table.differences[0].difference.value == 0.0  # a temperature keeps the answers
    assert table.differences[0].difference.low < 0.0 < table.differences[0].difference.high
    assert table.sorted_by("nll").rows[0].model == "b"
    with refuses("column", value="best"):
        table.sorted_by("best")
    frame = table.to_frame()
    assert frame.shape[0] == 4
    assert frame["accuracy_low"].iloc[0] == whole.accuracy.low
    assert json.loads(json.dumps(table.to_dict()))["rows"][1]["task"] == "x"


def test_many_differences_are_not_all_printed():
    own = [answers(*draw(seed, n=40), f"m{seed}") for seed in range(8)]
    table = compare_models(own, calibrator=QUICK)
    assert len(table.differences) == 28
    assert repr(table).endswith("and 8 more (to_dict, --json)")
    assert len(table.to_dict()["differences"]) == 28


@pytest.mark.parametrize("name", ["items", "clusters"])
def test_items_and_clusters_have_one_for_each_row(name):
    z, y = draw(n=30)
    with refuses(name, errors.ShapeError):
        compare_models([answers(z, y, "m", **{name: [1, 2]})], calibrator=QUICK)
    with refuses("answers"):
        compare_models([answers(z, y, "m")] * 2, calibrator=QUICK)


# Directories


def of_lm_eval(home, task, date, log="lm_eval_letters.jsonl", groups=None):
    """Put a log where lm-evaluation-harness would."""
    home.mkdir(parents=True, exist_ok=True)
    shutil.copy(CUT / "logs" / log, home / f"samples_{task}_{date}.jsonl")
    results = {"model_name": "org/model", "group_subtasks": groups or {}, "results": {}}
    (home / f"results_{date}.json").write_text(json.dumps(results))


OLD, NEW = "2026-11-19T21-50-38.995258", "2026-11-20T08-00-00.000001"


def test_directories_of_lm_eval_have_models_tasks_and_groups(tmp_path):
    home = tmp_path / "org__model"
    groups = {"exam": ["exam_one", "part"], "part": ["exam_two"]}
    for task in ("exam_one", "exam_two"):
        of_lm_eval(home, task, OLD, groups=groups)
    of_lm_eval(home, "texts", OLD, groups=groups)
    of_lm_eval(home, "texts", NEW, "lm_eval_texts.jsonl")
    with pytest.warns(errors.CalibrantWarning, match=f"newer runs .*samples_texts_{OLD}"):
        found = {one.task: one for one in read_answers(tmp_path, clusters="task")}
    assert {one.model for one in found.values()} == {"org/model"}
    assert {task: len(one.labels) for task, one in found.items()} == {"exam": 32, "texts": 16}
    assert len({*found["exam"].items}) == 32
    assert {*found["exam"].clusters} == {"exam_one", "exam_two"}
    table = compare_models([found["texts"]], calibrator=QUICK)
    assert table.rows[0].accuracy.value == 0.1875  # acc of its results


def test_filters_of_lm_eval_are_not_counted_twice(tmp_path):
    lines = (CUT / "logs" / "lm_eval_letters.jsonl").read_text().splitlines()
    copied = [line.replace('"filter": "none"', '"filter": "calibrated"') for line in lines]
    (tmp_path / f"samples_t_{OLD}.jsonl").write_text("\n".join([*lines, *copied]))
    (found,) = read_answers(tmp_path)
    assert (found.model, len(found.labels)) == (tmp_path.name, 16)


@pytest.mark.parametrize("name", ["inspect.eval", "inspect.json"])
def test_logs_of_inspect_name_model_and_task(tmp_path, name):
    shutil.copy(CUT / "logs" / name, tmp_path)
    (found,) = read_answers(tmp_path)
    assert (found.model, found.task) == ("mockllm/model", "task")
    assert compare_models([found], calibrator=QUICK).rows[0].accuracy.value == 0.125


def test_runs_of_helm_name_model_and_task(tmp_path):
    shutil.copytree(CUT / "logs" / "helm", tmp_path / "runs" / "simple_mcqa")
    (tmp_path / "runs" / "simple_mcqa" / "stats.json").write_text("[{}]")
    (found,) = read_answers(tmp_path)
    assert (found.model, found.task) == ("simple/model1", "simple_mcqa")
    (row,) = compare_models([found], calibrator=QUICK).rows
    assert row.accuracy.value == 0.375  # exact_match of its stats
    assert row.overconfidence.value == pytest.approx(0.3739156249166674)  # ece_1_bin


def test_epochs_are_repeated_samples_of_a_question(tmp_path):
    samples = [
        {
            "id": q,
            "epoch": epoch,
            "output": {"choices": [{"message": {"content": "x"}}]},
            "target": "x",
            "scores": {"match": {"value": "IC"[(q + epoch) % 3 > 0], "answer": f"{q * epoch % 2}"}},
        }
        for q in range(20)
        for epoch in range(3)
    ]
    log = {"eval": {"model": "m", "task": "t", "created": "2026"}, "samples": samples}
    (tmp_path / "a.json").write_text(json.dumps(log))
    (found,) = read_answers(tmp_path)
    (row,) = compare_models([found], calibrator=QUICK).rows
    assert row.n_rows == 60
    assert row.accuracy.value == pytest.approx(2 / 3)
    assert len({*found.items}) == 20


def test_what_cannot_be_read_is_told(tmp_path):
    text = {"filtered_resps": ["42"], "target": "42", "doc_id": 0}
    for home in (tmp_path, tmp_path / "none"):
        with pytest.raises(errors.PredictionFileError):
            read_answers(home)
    (tmp_path / f"samples_gsm8k_{OLD}.jsonl").write_text(json.dumps(text))
    with pytest.raises(errors.PredictionFileError, match="generated text"):
        read_answers(tmp_path)
    of_lm_eval(tmp_path, "letters", OLD)
    for content in (json.dumps(text), '{"probs": [0.5, 0.5]}\n'):
        (tmp_path / f"samples_gsm8k_{OLD}.jsonl").write_text(content)
        with pytest.warns(errors.CalibrantWarning, match="1 log left out"):
            (found,) = read_answers(tmp_path)
        assert found.task == "letters"


def run(*words):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main.run([str(word) for word in words])
    return code, out.getvalue(), err.getvalue()


def test_the_command_reads_calls_and_shows(tmp_path):
    page, table = tmp_path / "models.html", tmp_path / "models.csv"
    words = ("compare-models", CUT / "models", "--clusters", "subject", "-m", "ts")
    code, out, _ = run(*words, "--sort", "error", "--report", page, "-o", table)
    assert code == 0
    found = read_answers(CUT / "models", clusters="subject")
    expected = compare_models(found, calibrator=TemperatureScaling())
    assert out.startswith(repr(expected.sorted_by("error")))
    frame = pd.read_csv(table)
    assert frame["model"].tolist() == [row.model for row in expected.sorted_by("error").rows]
    text = page.read_text()
    assert text.count("<svg") == 1
    assert "<script" not in text
    assert all(f"<bdi>{row.model}</bdi>" in text for row in expected.rows)
    shown = json.loads(run(*words, "--json")[1])
    assert shown["rows"] == json.loads(json.dumps(expected.to_dict()["rows"]))
    assert len(shown["differences"]) == 6
    code, _, err = run("compare-models", CUT / "models", "--clusters", "author")
    assert code == 3
    assert "'author' is missing" in err
    code, _, err = run("compare-models", CUT / "models", "-o", CUT / "models" / "x.csv")
    assert "is also an input" in err


def test_probabilities_confidences_and_names_with_signs(tmp_path):
    rng = np.random.default_rng(0)
    home = tmp_path / "a <b>"
    home.mkdir()
    rows = [{"confidence": float(c), "correct": bool(rng.random() < c)} for c in rng.random(60)]
    packed = "\n".join(json.dumps(row) for row in rows).encode()
    (home / "stated.jsonl.gz").write_bytes(gzip.compress(packed))
    (tmp_path / "mistral-7b-v0.1.jsonl").write_text('{"probs": [0.5, 0.5], "label": 0}\n' * 30)
    narrow = [{"probs": {"A": 0.4, "B": 0.6}, "label": "A"}] * 3
    wide = [{"probs": {"A": 0.2, "B": 0.0, "C": 0.8}, "label": "C"}] * 30
    text = "\n".join(json.dumps(row) for row in narrow + wide)
    (home / "options.jsonl").write_text(text)
    plain, options, stated = sorted(read_answers(tmp_path), key=lambda one: one.task)
    assert (plain.model, plain.task) == ("mistral-7b-v0.1", "")
    assert (options.kind, options.classes, stated.task) == ("logits", ["A", "B", "C"], "stated")
    assert np.isneginf(np.asarray(options.scores)).sum() == 3
    table = compare_models([stated], calibrator=QUICK)
    assert table.rows[0].favourite == ""
    assert table.rows[0].accuracy.value == np.mean([row["correct"] for row in rows])
    write_models(tmp_path / "page.html", table)
    assert "<b>" not in (tmp_path / "page.html").read_text()
