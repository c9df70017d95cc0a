"""Logs of evaluations: each layout against the numbers of the tool that wrote it."""

import gzip
import io
import json
import math
import shutil
import zipfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from calibrant import model_file
from calibrant._cli import main
from calibrant._files.formats import open_source, read_prediction_file
from calibrant._files.source import Request
from conftest import tells

LOGS = Path(__file__).parents[1] / "data" / "logs"


def write(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def log_of(tmp_path, *records, **asked):
    """Write records and read them."""
    return read_prediction_file(write(tmp_path / "log.jsonl", *records), Request(**asked))


def run(*words):
    """What a command prints, and its exit code."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main.run([str(word) for word in words])
    return SimpleNamespace(exit_code=code, stdout=out.getvalue(), stderr=err.getvalue())


def accuracy_of(log):
    return np.mean([log.place.names[j] for j in log.scores.argmax(axis=1)] == log.labels)


NAMES = ["lm_eval_letters.jsonl", "lm_eval_texts.jsonl", "inspect.eval", "inspect.json"]


@pytest.mark.parametrize(
    ("name", "reported", "classes"),
    [
        ("lm_eval_letters.jsonl", 0.3125, list("ABCDE")),  # acc of its results_*.json
        ("lm_eval_texts.jsonl", 0.1875, list("01234")),
        ("inspect.eval", 0.125, list("ABCD")),  # accuracy of its header
        ("inspect.json", 0.125, list("ABCD")),
    ],
)
def test_the_accuracy_is_the_tools_own(name, reported, classes):
    source = open_source(LOGS / name, Request())
    log = source.read()
    assert accuracy_of(log) == reported
    assert log.place.names == classes
    assert log.kind == "logits"
    assert log.has_absent
    assert "fewer" in source.note
    found = json.loads(run("evaluate", LOGS / name, "--resamples", 0, "--json").stdout)
    assert found["accuracy"]["value"] == reported


def lm_eval(lls, texts, target, **others):
    return {
        "doc_id": 0,
        "target": target,
        "arguments": [["Question?", f" {text}"] for text in texts],
        "resps": [[[ll, False]] for ll in lls],
        "filtered_resps": [[ll, False] for ll in lls],
        **others,
    }


def test_older_samples_of_lm_eval_have_lists_and_numbers(tmp_path):
    rows = lm_eval([-1.0, -2.0], "AB", 1), lm_eval([-3.0, -2.0, -1.0], "ABC", "C")
    log = log_of(tmp_path, *rows)
    np.testing.assert_array_equal(log.scores, [[-1, -2, -math.inf], [-3, -2, -1]])
    assert log.labels.tolist() == ["B", "C"]


def test_a_target_in_digits_is_a_place_unless_the_log_says_else(tmp_path):
    """Options 1, 2, 3 and the target 1: ``acc`` tells which of them was meant."""
    place = lm_eval([-3.0, -1.0, -2.0], "123", "1", acc=1.0)
    text = lm_eval([-1.0, -3.0, -2.0], "123", "1", acc=1.0)
    log = log_of(tmp_path, place, text)
    assert log.labels.tolist() == ["2", "1"]
    wrong = lm_eval([-1.0, -3.0], "AB", "B", acc=1.0)
    with tells("line 1", "'B'", "1.0"):
        log_of(tmp_path, wrong)


def test_one_continuation_for_several_options_is_refused(tmp_path):
    for texts in ("xxxx", "xyxy"):  # winogrande, and options with and without the question
        with tells("line 1", "options"):
            log_of(tmp_path, lm_eval([-1.0, -2.0, -5.0, -5.0], texts, 1))


def chat(label, tokens, **others):
    """A completion of OpenAI: the token and the listed ones at each place."""
    content = [
        {
            "token": token,
            "logprob": listed.get(token, -1.0),
            "top_logprobs": [{"token": t, "logprob": p} for t, p in listed.items()],
        }
        for token, listed in tokens
    ]
    return {"choices": [{"logprobs": {"content": content}}], "label": label, **others}


def test_letters_with_and_without_a_space_are_one_option(tmp_path):
    listed = {"A": math.log(0.4), " A": math.log(0.2), "\u0120B": math.log(0.3)}
    log = log_of(tmp_path, chat("B", [("A", listed)]))
    assert log.place.names == ["A", "B"]
    np.testing.assert_allclose(np.exp(log.scores), [[0.6, 0.3]])


def test_options_that_are_not_listed_share_the_rest(tmp_path):
    """At most as much each as the least that is listed."""
    for label, listed, shares in (
        ("D", {"A": 0.5, "The": 0.3, "B": 0.1}, [0.5, 0.1, 0.05, 0.05]),
        ("B", {"A": 1.0}, [1.0, 1e-12]),
        ("C", {"A": 0.5, "B": 0.01}, [0.5, 0.01, 0.01]),
    ):
        logs = {token: math.log(p) for token, p in listed.items()}
        log = log_of(tmp_path, chat(label, [("A", logs)]))
        np.testing.assert_allclose(np.exp(log.scores), [shares])


def test_the_answer_is_the_token_that_is_an_option(tmp_path):
    listed = {"B": math.log(0.7), "A": math.log(0.2)}
    said = [("Answer", {"Answer": -0.1}), (":", {":": -0.1}), (" B", listed | {" B": -9.0})]
    log = log_of(tmp_path, chat("A", said), chat("B", said))
    np.testing.assert_allclose(np.exp(log.scores[0]), [0.2, 0.7 + math.exp(-9.0)])
    both = [("A", {"A": -0.1}), ("so", {"so": -0.1}), ("**B**", {"**B**": -0.3, "A": -1.5})]
    log = log_of(tmp_path, chat("A", said), chat("B", both))  # reasons first
    np.testing.assert_allclose(log.scores[1], [-1.5, -0.3])
    with tells("line 1", "'A', 'B'"):
        log_of(tmp_path, chat("B", [("I", {"I": -0.1})]))


def test_responses_are_read_below_their_envelope(tmp_path):
    chats = chat("B", [("A", {"A": -0.5, "B": -1.5})])
    for record in (chats, {"response": {"body": chats}, "label": "B"}):
        log = log_of(tmp_path, record)
        np.testing.assert_allclose(log.scores, [[-0.5, -1.5]])
        assert log.labels.tolist() == ["B"]


def test_the_answer_that_inspect_has_read_is_looked_for(tmp_path):
    """Whatever letters come after it."""
    tokens = [("B", {"B": -0.2, "A": -2.0}), ("A", {"A": -0.1, "B": -3.0})]
    output = {"choices": chat("B", tokens)["choices"]}
    sample = {"id": 1, "choices": ["x", "y"], "target": "B", "output": output}
    scores = {"choice": {"value": "C", "answer": "B"}}
    log = log_of(tmp_path, sample | {"scores": scores}, sample)
    np.testing.assert_allclose(log.scores, [[-2.0, -0.2], [-0.1, -3.0]])


TOP = [{"token": "A", "logprob": -0.5, "bytes": None}, {"token": "B", "logprob": -1.5}]
TOKEN = {"token": "A", "logprob": -0.5, "bytes": None, "top_logprobs": TOP}
MESSAGE = {"type": "message", "content": [{"type": "output_text", "logprobs": [TOKEN]}]}
LEGACY = {"tokens": ["A"], "token_logprobs": [-0.5], "top_logprobs": [{"A": -0.5, "B": -1.5}]}
OLD_LLAMA = [{"tok_str": "A", "prob": math.exp(-0.5)}, {"tok_str": "B", "prob": math.exp(-1.5)}]
NEW_LLAMA = [{"token": own["tok_str"], "prob": own["prob"]} for own in OLD_LLAMA]
SAMPLED = {"token": "A", "prob": math.exp(-0.5), "top_probs": NEW_LLAMA}


@pytest.mark.parametrize(
    "answer",
    [
        {"object": "response", "output": [{"type": "reasoning", "summary": []}, MESSAGE]},
        {"response": {"status_code": 200, "body": {"output": [MESSAGE]}}, "error": None},
        {"object": "text_completion", "choices": [{"text": "A", "logprobs": LEGACY}]},
        {"content": "A", "completion_probabilities": [TOKEN | {"id": 319}]},
        {"content": "A", "completion_probabilities": [{"content": "A", "probs": OLD_LLAMA}]},
        {"content": "A", "completion_probabilities": [SAMPLED]},
    ],
    ids=["responses", "batch", "completions", "llama.cpp", "llama.cpp of 2023", "after sampling"],
)
def test_layouts_of_servers_have_the_same_scores(tmp_path, answer):
    log = log_of(tmp_path, answer | {"label": "B"})
    assert log.place.names == ["A", "B"]
    np.testing.assert_allclose(log.scores, [[-0.5, -1.5]])


def test_labels_of_a_batch_come_from_another_file(tmp_path):
    body = chat("x", [("A", {"A": -0.5, "B": -1.5})])
    del body["label"]
    lines = [
        {"id": f"batch_req_{i}", "custom_id": f"q{i}", "response": {"body": body}, "error": None}
        for i in range(3)
    ]
    path = write(tmp_path / "batch.jsonl", *lines)
    table = tmp_path / "labels.csv"
    table.write_text("custom_id,label\nq2,B\nq1,A\nq0,A\n")
    own = [{"custom_id": f"q{i}", "label": "AAB"[i]} for i in range(3)]
    for labels in (table, write(tmp_path / "labels.jsonl", *own)):
        log = read_prediction_file(path, Request(labels=labels))
        assert log.labels.tolist() == ["A", "A", "B"]
    assert run("evaluate", path, "--labels", table, "--resamples", 0).exit_code == 0
    table.write_text("custom_id,label\nq2,B\n")
    with tells("line 1", "labels.csv", "'q0'"):
        read_prediction_file(path, Request(labels=table))
    table.write_text("name,label\nq2,B\n")
    with tells("labels.csv", "'custom_id'"):
        read_prediction_file(path, Request(labels=table))


def test_instances_of_helm_have_the_numbers_of_its_report(tmp_path):
    """Its stats.json: exact_match .375, max_prob .7489156, ece_1_bin .3739156."""
    path = LOGS / "helm" / "per_instance_stats.json"
    log = read_prediction_file(path)
    assert log.is_stated
    right, sure = np.mean(log.labels == "true"), log.scores[:, 1].mean()
    assert (right, sure) == (0.375, pytest.approx(0.7489156249166673, abs=1e-15))
    assert abs(sure - right) == pytest.approx(0.3739156249166674, abs=1e-15)
    records = json.loads(path.read_text())
    again = [*records, records[0] | {"perturbation": {}}]
    (tmp_path / "a.json").write_text(json.dumps(again))
    assert len(read_prediction_file(tmp_path / "a.json").scores) == 8
    (tmp_path / "b.json").write_text(json.dumps([{"instance_id": "id1", "stats": []}]))
    with tells("record 0", "max_prob", "exact_match"):
        read_prediction_file(tmp_path / "b.json")


def test_repeated_samples_agree_or_not(tmp_path):
    """Epochs of Inspect without log-probabilities, and plain records."""
    answers = [("q1", "B", True), ("q1", "B", True), ("q1", "A", False), ("q2", "C", False)]
    plain = [{"id": q, "answer": a, "correct": right} for q, a, right in answers]
    inspect = [
        {
            "id": q,
            "epoch": i,
            "output": {"choices": [{"message": {"content": a}}]},
            "target": "x",
            "scores": {"match": {"value": "IC"[right], "answer": a}},
        }
        for i, (q, a, right) in enumerate(answers)
    ]
    for rows in (plain, inspect):
        log = log_of(tmp_path, *rows)
        assert log.is_stated
        np.testing.assert_allclose(log.scores[:, 1], [2 / 3, 2 / 3, 1 / 3, 1.0])
        assert log.labels.tolist() == ["true", "true", "false", "false"]
    partial = inspect[0] | {"scores": {"match": {"value": 0.5, "answer": "B"}}}
    with tells("line 1", "0.5"):
        log_of(tmp_path, partial, *inspect[1:])


def test_plain_records(tmp_path):
    rows = [{"probs": {"cat": 0.7, "dog": 0.3}, "label": "dog"}]
    rows.append({"probs": {"dog": 0.5, "cat": 0.25, "emu": 0.25}, "label": "cat"})
    log = log_of(tmp_path, *rows)
    assert (log.kind, log.place.names) == ("probabilities", ["dog", "cat", "emu"])
    np.testing.assert_array_equal(log.scores, [[0.3, 0.7, 0], [0.5, 0.25, 0.25]])
    lists = {"logits": [1, 2, None], "label": 1}, {"logits": [1, 2, 3], "label": "2"}
    log = log_of(tmp_path, *lists)
    np.testing.assert_array_equal(log.scores, [[1, 2, -math.inf], [1, 2, 3]])
    assert log.labels.tolist() == ["1", "2"]
    own = {"mine": [0.5, 0.5], "options": ["x", " y"], "gold": "y"}
    chosen = log_of(tmp_path, own, label="gold", columns=("mine",))
    assert (chosen.place.names, chosen.labels.tolist()) == (["x", "y"], ["y"])


def test_a_label_is_the_name_of_an_option_or_a_number_beside_a_list(tmp_path):
    keys = {"probs": {"1": 0.7, "2": 0.2, "3": 0.1}, "label": 1}
    assert log_of(tmp_path, keys).labels.tolist() == ["1"]
    with tells("line 1", "label 0"):
        log_of(tmp_path, keys | {"label": 0})
    texts = {"probs": [0.7, 0.3], "options": ["3", "1"]}
    for label, name in ((1, "1"), ("1", "1"), (0, "3")):
        log = log_of(tmp_path, texts | {"label": label})
        assert log.labels.tolist() == [name]


def test_completions_have_the_options_that_their_record_lists(tmp_path):
    """Letters for texts: two for two of them, and a D that is never right is there."""
    two = chat("A", [("A", {"A": -0.2, "B": -2.0})], options=["yes", "no"])
    four = chat("C", [("B", {"B": -0.9, "D": -1.0})], options=["p", "q", "r", "s"])
    log = log_of(tmp_path, two, four)
    assert log.place.names == list("ABCD")
    assert log.has_absent
    np.testing.assert_array_equal(np.isneginf(log.scores), [[0, 0, 1, 1], [0, 0, 0, 0]])
    assert log.scores[1, 3] == pytest.approx(-1.0)
    model = log_of(tmp_path, two, classes=list("ABCDE"))
    np.testing.assert_array_equal(np.isneginf(model.scores), [[0, 0, 1, 1, 1]])


def test_objects_of_the_top_classes_have_the_union_of_their_names(tmp_path):
    log = log_of(
        tmp_path,
        {"probs": {"cat": 0.7, "dog": 0.3}, "label": "cat"},
        {"probs": {"dog": 0.6, "bird": 0.4}, "label": "bird"},
        {"probs": {"bird": 0.8, "cat": 0.2}, "label": "cat"},
    )
    assert log.place.names == ["bird", "cat", "dog"]
    assert log.labels.tolist() == ["cat", "bird", "cat"]
    np.testing.assert_array_equal(log.scores, [[0, 0.7, 0.3], [0.4, 0, 0.6], [0.8, 0.2, 0]])
    texts = [{"probs": {f"a{i}": 0.7, f"b{i}": 0.3}, "label": f"a{i}"} for i in range(9)]
    with tells("line 2", "'a1'"):
        log_of(tmp_path, *texts)


def test_a_zero_that_is_written_is_no_absent_option(tmp_path):
    rng = np.random.default_rng(0)
    rows = [{"probs": {"A": 0.0, "B": 0.4, "C": 0.6}, "label": "A"}]
    for _ in range(60):
        p = rng.dirichlet(np.ones(3)).tolist()
        rows.append({"probs": dict(zip("ABC", p, strict=True)), "label": "ABC"[rng.integers(3)]})
    rows.append({"probs": {"A": 0.4, "B": 0.6}, "label": "B"})
    path = write(tmp_path / "a.jsonl", *rows)
    np.testing.assert_array_equal(np.argwhere(read_prediction_file(path).scores == 0.0), [[61, 2]])
    assert run("fit", path, "-m", "ts", "-o", tmp_path / "m.calibrant").exit_code == 0
    assert read_prediction_file(write(path, *rows[:-1])).scores[0, 0] == 0.0


def test_a_stated_confidence_is_a_file_of_two_classes(tmp_path):
    rng = np.random.default_rng(0)
    sure = rng.integers(50, 101, 200)
    right = rng.random(200) < sure / 100 - 0.2
    pairs = zip(sure.tolist(), right.tolist(), strict=True)
    rows = [{"id": "q", "confidence": c, "correct": y} for c, y in pairs]
    path = write(tmp_path / "a.jsonl", *rows)
    log = read_prediction_file(path)
    assert (log.is_stated, log.place.names) == (True, ["false", "true"])
    assert "in percent" in open_source(path, Request()).note
    np.testing.assert_array_equal(log.scores[:, 1], sure / 100)
    np.testing.assert_array_equal(log.labels == "true", right)
    found = json.loads(run("evaluate", path, "--json", "--resamples", 0).stdout)
    assert found["right_answers"]["value"] == pytest.approx(right.mean(), abs=1e-12)
    assert "accuracy" not in found
    model, out = tmp_path / "m.calibrant", tmp_path / "o.jsonl"
    assert run("fit", path, "-o", model).exit_code == 0
    assert run("apply", model, path, "-o", out).exit_code == 0
    honest = [json.loads(line)["probs"]["true"] for line in out.read_text().splitlines()]
    assert abs(np.mean(honest) - right.mean()) < 0.05 < sure.mean() / 100 - right.mean()
    for bad in ({"confidence": 120, "correct": True}, {"confidence": 5, "correct": "maybe"}):
        with tells("line 2"):
            log_of(tmp_path, rows[0], bad)
    with tells("line 1", "0.9"):  # and another is in percent
        log_of(tmp_path, {"confidence": 0.9, "correct": 1}, {"confidence": 95, "correct": 1})


def test_what_a_file_does_not_tell_is_asked_for(tmp_path):
    said = [("A", {"A": -0.1, "B": -3.0})]
    record = {**chat("A", said), "label": None}
    with tells("line 1", "label", "--classes"):
        log_of(tmp_path, record)
    assert log_of(tmp_path, record, classes=[*"ABC"]).place.names == [*"ABC"]
    for kind in ("positive", "decision"):
        with tells("line 1", "--scores probabilities"):
            log_of(tmp_path, {"scores": [0.5, 0.5], "label": 0}, kind=kind)


def test_compressed_lines_and_blank_ones(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(
        gzip.compress(b'\n{"probs": [0.5, 0.5], "label": 0}\n\n{"probs": [2, 0], "label": 1}\n')
    )
    where = read_prediction_file(path).place.where([0, 1])
    assert [own.partition(", ")[2] for own in where] == ["line 2", "line 4"]
    assert "a.jsonl.gz, line 4" in run("evaluate", path).stderr


def test_fit_apply_and_compare_leave_absent_options_out(tmp_path):
    log, model, out = LOGS / "lm_eval_letters.jsonl", tmp_path / "m.calibrant", tmp_path / "o.jsonl"
    assert run("fit", log, "-o", model, "-m", "ts").exit_code == 0
    assert model_file.load(model).method == "masked"
    assert run("apply", model, log, "-o", out).exit_code == 0
    before, after = (
        read_prediction_file(log),
        read_prediction_file(out, Request(classes=list("ABCDE"))),
    )
    np.testing.assert_array_equal(after.scores == 0.0, np.isneginf(before.scores))
    np.testing.assert_allclose(after.scores.sum(axis=1), 1.0)
    np.testing.assert_array_equal(after.scores.argmax(axis=1), before.scores.argmax(axis=1))
    assert run("apply", model, log, "-o", tmp_path / "o.csv").exit_code == 0
    refused = run("fit", log, "-o", model, "-m", "vs")
    assert refused.exit_code != 0
    assert "VectorScaling does not support absent options" in refused.stderr
    two = run("compare", log, "--split", "0.5", "--methods", "fir,vs", "--json")
    shown = json.loads(two.stdout)
    assert "VectorScaling does not support absent options" in json.dumps(shown["failures"])


def test_a_model_of_all_options_gives_absent_ones_nothing(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        {"logits": rng.normal(0, 2, 3).tolist(), "label": int(rng.integers(3))} for _ in range(50)
    ]
    model, out = tmp_path / "m.calibrant", tmp_path / "o.jsonl"
    assert run("fit", write(tmp_path / "a.jsonl", *rows), "-o", model, "-m", "vs").exit_code == 0
    narrow = write(tmp_path / "b.jsonl", {"logits": [1.0, 2.0]}, {"logits": [1.0, 2.0, 0.5]})
    assert run("apply", model, narrow, "-o", out).exit_code == 0
    first, second = (json.loads(line)["probs"] for line in out.read_text().splitlines())
    assert (len(first), len(second)) == (2, 3)
    assert sum(first.values()) == pytest.approx(1.0)


def test_the_logs_below_a_directory_are_one_set_of_rows(tmp_path):
    """As lm-evaluation-harness and Inspect leave their output, with results beside samples."""
    (tmp_path / "model").mkdir()
    for name, new in (("lm_eval_letters.jsonl", "model/samples_a.jsonl"), ("inspect.eval",) * 2):
        shutil.copy(LOGS / name, tmp_path / new)
    (tmp_path / "model" / "results.json").write_text('{"acc": 0.3}')
    source = open_source(tmp_path, Request(groups="file"))
    found, parts = source.read(), [read_prediction_file(LOGS / name) for name in NAMES[::2]]
    assert "2 logs read; ignored 'model/results.json'" in source.note
    assert found.place.names == list("ABCDE")
    files = found.column("file").tolist()
    assert {name: files.count(name) for name in files} == {
        "inspect.eval": len(parts[1].scores),
        "model/samples_a.jsonl": len(parts[0].scores),
    }
    assert found.labels.tolist() == [*parts[1].labels, *parts[0].labels]
    np.testing.assert_array_equal(found.scores[len(parts[1].scores) :], parts[0].scores)
    told = run("evaluate", tmp_path, "--groups", "file", "--json", "--resamples", 0)
    assert {own["group"] for own in json.loads(told.stdout)["by_group"]["rows"]} == {*files}
    write(tmp_path / "b.jsonl", {"probs": {"A": 0.5, "B": 0.5}, "label": "A"})
    with tells("logits", "probabilities"):
        read_prediction_file(tmp_path)
    write(tmp_path / "b.jsonl", lm_eval([-1.0, math.nan], "AB", 1))
    with tells("b.jsonl, line 1", "'B'"):
        read_prediction_file(tmp_path)


GOOD = b'{"probs": {"A": 0.5, "B": 0.5}, "label": "A"}\n'
CHAT = {"choices": [{"logprobs": {"content": [{"token": "A", "logprob": -0.1}]}}], "label": "B"}


def sample(**others):
    usual = {"filtered_resps": [["-1.0", "False"], ["-2.0", "False"]], "target": "0"}
    return json.dumps(usual | {"arguments": [["q", " A"], ["q", " B"]]} | others).encode()


LINES = {
    "nested too deeply": b"[" * 100_000 + b"]" * 100_000,
    "an option twice, by a space": b'{"probs": {"A": 0.5, " A": 0.2, "B": 0.5}, "label": "A"}',
    "no object": b"[0.5, 0.5]",
    "half a line": b'{"probs": {"A": 0.5, "B"',
    "two objects": GOOD.strip() + GOOD,
    "no text": b"\xff\xfe\x00{",
    "NaN": b'{"probs": {"A": NaN, "B": 0.5}, "label": "A"}',
    "infinity": b'{"logits": {"A": -Infinity, "B": 0.5}, "probs": {"A": Infinity, "B": 1}}',
    "text for a score": b'{"probs": {"A": "0.5", "B": 0.5}, "label": "A"}',
    "a number for the scores": b'{"probs": 0.5, "label": "A"}',
    "one option": b'{"probs": {"A": 1.0}, "label": "A"}',
    "no options": b'{"probs": {}, "label": "A"}',
    "another label": b'{"probs": {"A": 0.5, "B": 0.5}, "label": "C"}',
    "a label of an absent option": b'{"probs": {"A": 0.5, "B": 0.5, "C": null}, "label": "C"}',
    "no label": b'{"probs": {"A": 0.5, "B": 0.5}}',
    "two labels": b'{"probs": {"A": 0.5, "B": 0.5}, "label": ["A", "B"]}',
    "more scores than options": b'{"probs": [0.5, 0.5], "options": ["A"], "label": "A"}',
}


OTHERS = {
    "generated text": sample(filtered_resps=["lol"], resps=[["lol"]]),
    "no answers": sample(filtered_resps=[], resps=[]),
    "a word for a log-likelihood": sample(filtered_resps=[["x", "False"], ["-1", "False"]]),
    "NaN of lm-eval": sample(filtered_resps=[["nan", "False"], ["-1", "False"]]),
    "several targets": sample(target="[0, 1]"),
    "a target out of reach": sample(target="7"),
    "acc that contradicts": sample(acc=0.0),
    "no logprobs": json.dumps(CHAT | {"choices": [{"logprobs": {"content": []}}]}).encode(),
    "no letters": json.dumps(
        CHAT | {"choices": [{"logprobs": {"content": [{"token": "I", "logprob": -1}]}}]}
    ).encode(),
    "a logprob of text": json.dumps(
        CHAT | {"choices": [{"logprobs": {"content": [{"token": "A", "logprob": "x"}]}}]}
    ).encode(),
    "a positive logprob": json.dumps(
        CHAT | {"choices": [{"logprobs": {"content": [{"token": "A", "logprob": 3}]}}]}
    ).encode(),
    "null for logprobs": b'{"label": "A", "choices": [{"message": {}, "logprobs": null}]}',
    "null in a batch": b'{"label": "A", "response": {"choices": [{"logprobs": null}]}}',
    "Inspect without choices": b'{"output": {"choices": []}, "target": "A", "choices": []}',
    "Inspect without logprobs": b'{"output": {"choices": []}, "target": "A", "choices": [1, 2]}',
    "nothing known": b'{"question": "?", "answer": "A"}',
    "two fields of scores": b'{"probs": [0.5, 0.5], "scores": [0.5, 0.5], "label": 0}',
}


AFTER = [(GOOD + b"\n" + GOOD, line, 4) for line in LINES.values()]
ALONE = [(b"", line, 1) for line in OTHERS.values()]


@pytest.mark.parametrize(("before", "line", "number"), AFTER + ALONE, ids=[*LINES, *OTHERS])
def test_a_bad_line_is_named_in_a_few_words(tmp_path, before, line, number):
    path = tmp_path / "log.jsonl"
    path.write_bytes(before + line + b"\n")
    with tells(f"{path}, line {number}") as caught:
        read_prediction_file(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


FACTS = {b"": "JSON", b"{}": ".jsonl", b'{"samples": {}}': ".jsonl", b"[]": "no records"}
FACTS |= {b"[3]": "record 0 (from 0) is 3", b"PK no": "damaged", None: "no records"}


@pytest.mark.parametrize(("content", "fact"), FACTS.items())
def test_other_values_of_json_and_archives_that_are_no_logs(tmp_path, content, fact):
    is_archive = content in (b"PK no", None)
    path = tmp_path / ("log.eval" if is_archive else "log.json")
    if content is None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("header.json", "{}")
    else:
        path.write_bytes(content)
    with tells(path.name, fact):
        read_prediction_file(path)
