"""Logs that are damaged, or made to harm: one line with the file, the line and the remedy."""

import json
import re
import zipfile

import pytest

from calibrant._files.logs import read_log
from calibrant.errors import PredictionFileError

GOOD = b'{"probs": {"A": 0.5, "B": 0.5}, "label": "A"}\n'
CHAT = {"choices": [{"logprobs": {"content": [{"token": "A", "logprob": -0.1}]}}], "label": "B"}


def lm_eval(**others):
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


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_bad_line_is_named_with_a_remedy(tmp_path, line):
    path = tmp_path / "log.jsonl"
    path.write_bytes(GOOD + b"\n" + GOOD + line + b"\n")
    with pytest.raises(PredictionFileError) as caught:
        read_log(path)
    text = str(caught.value)
    assert text.startswith(f"{path}, line 4")
    assert re.search(r"; (write|save|keep|fill|remove|name|drop|one option)|not among|write", text)
    assert "\n" not in text
    assert len(text) < 500


OTHERS = {
    "generated text": lm_eval(filtered_resps=["lol"], resps=[["lol"]]),
    "no answers": lm_eval(filtered_resps=[], resps=[]),
    "a word for a log-likelihood": lm_eval(filtered_resps=[["x", "False"], ["-1", "False"]]),
    "NaN of lm-eval": lm_eval(filtered_resps=[["nan", "False"], ["-1", "False"]]),
    "several targets": lm_eval(target="[0, 1]"),
    "a target out of reach": lm_eval(target="7"),
    "acc that contradicts": lm_eval(acc=0.0),
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
    "Inspect without choices": b'{"output": {"choices": []}, "target": "A", "choices": []}',
    "Inspect without logprobs": b'{"output": {"choices": []}, "target": "A", "choices": [1, 2]}',
    "nothing known": b'{"question": "?", "answer": "A"}',
    "two fields of scores": b'{"probs": [0.5, 0.5], "scores": [0.5, 0.5], "label": 0}',
}


@pytest.mark.parametrize("line", OTHERS.values(), ids=OTHERS)
def test_a_record_that_is_no_question_is_named(tmp_path, line):
    path = tmp_path / "log.jsonl"
    path.write_bytes(line + b"\n")
    with pytest.raises(PredictionFileError, match=re.escape(f"{path}, line 1")) as caught:
        read_log(path)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "is not JSON"),
        (b"{}", "is neither"),
        (b'{"samples": {}}', "is neither"),
        (b"[]", "has no records"),
        (b"[3]", r"record 0 \(from 0\) is 3, not a JSON object"),
    ],
)
def test_other_values_of_json(tmp_path, content, fault):
    (tmp_path / "log.json").write_bytes(content)
    with pytest.raises(PredictionFileError, match=fault):
        read_log(tmp_path / "log.json")


def test_archives_that_are_no_logs(tmp_path):
    path = tmp_path / "log.eval"
    path.write_bytes(b"PK no")
    with pytest.raises(PredictionFileError, match="cannot be read as an Inspect log"):
        read_log(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", "{}")
    with pytest.raises(PredictionFileError, match="no records"):
        read_log(path)
