"""Processes that are asked in turn: limits, deaths, and which measurements count."""

import itertools
import sys

import pytest

from benchmarks.scripts import HOME, importing

pytest.importorskip("resource", reason="select knows no pipes on Windows")

with importing() as load:
    workers = load("workers")

PROGRAM = f"""
import os, sys, time
sys.path.insert(0, {str(HOME)!r})
from workers import answer_all

def answer(do, value=None):
    if do == "sleep":
        time.sleep(60)
    if do == "die":
        os._exit(7)
    if do == "fail":
        raise ValueError("no\\n  such thing")
    if do == "pid":
        return os.getpid()
    return [do, value]

answer_all(answer, sys.stdin, sys.stdout)
"""


@pytest.fixture
def worker():
    found = workers.Worker(sys.executable, "-c", PROGRAM)
    yield found
    found.stop()


def test_questions_are_answered_by_one_process(worker):
    assert worker.ask(do="echo", value={"a": 1}) == ["echo", {"a": 1}]
    assert worker.ask(do="echo", value="x" * 200_000)[1] == "x" * 200_000
    assert worker.ask(do="pid") == worker.ask(do="pid")


def test_what_goes_wrong_is_told_and_the_next_question_answered(worker):
    assert worker.ask(do="fail") == {"error": "ValueError: no such thing"}
    first = worker.ask(do="pid")
    with pytest.raises(workers.TooLong):
        worker.ask(0.2, do="sleep")
    assert worker.ask(60, do="pid") != first
    with pytest.raises(RuntimeError, match="exit code 7"):
        worker.ask(do="die")
    assert worker.ask(do="echo") == ["echo", None]


def test_contenders_take_turns_and_the_first_turn_does_not_count():
    turn = itertools.count(1)
    found = workers.in_turn(dict.fromkeys("ab", lambda: next(turn)), 0.0, least=3)
    assert found == {"a": [3, 5, 7], "b": [4, 6, 8]}


def test_a_first_turn_that_took_long_counts():
    contenders = dict.fromkeys("ab", lambda: 9.0)
    found = workers.in_turn(contenders, 0.001, first={"a": 1.0, "b": 2.0})
    assert {name: values[:2] for name, values in found.items()} == {"a": [1, 9], "b": [2, 9]}
