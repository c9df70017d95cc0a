"""Errors say what is wrong, where, and what to do; messages say values as Python writes them."""

import pickle

import numpy as np
import pytest

from calibrant import errors
from calibrant._gate import _simplex as simplex
from conftest import refuses

NAMES = np.array(["ant", "bee", "cat", "dog"])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.str_("cat"), "'cat'"),
        (np.float32(0.5), "0.5"),
        (np.int64(3), "3"),
        (np.bool_(True), "True"),
        (np.longdouble(2), "2.0"),
        ([np.float64(1), (np.str_("a"),)], "[1.0, ('a',)]"),
        (np.arange(9), "[0, 1, 2, 3, 4, ...]"),
        ("cat", "'cat'"),
        (None, "None"),
    ],
)
def test_a_value_is_written_as_python_writes_it(value, words):
    assert errors.in_words(value) == words


def test_of_many_values_the_first_are_named():
    assert errors.some_in_words(NAMES) == "'ant', 'bee', 'cat', 'dog'"
    assert errors.some_in_words(np.arange(6)) == "0, 1, 2, 3, 4, ..."


EVEN = np.full((4, 4), 0.25)


def put(place, value):
    changed = EVEN.copy()
    changed[place] = value
    return changed


def check(scores=EVEN, y=NAMES, weight=None, **options):
    return simplex.check_batch(scores, y, weight, **options)


PLACES = [
    (lambda: check(put((2, 1), 1.5)), "scores", 2, 1, 1.5, "did you mean scores='logits'?"),
    (lambda: check(put((2, 1), np.inf)), "scores", 2, 1, np.inf, "remove or repair the row"),
    (lambda: check(put(3, 0.5)), "scores", 3, None, None, "normalize='rows'"),
    (lambda: check([0.1, 7.0], [0, 1], kind="positive"), "scores", 1, None, 7.0, "by 100"),
    (lambda: check(y=[0, 1, None, 2]), "y", 2, None, None, "drop rows without a label"),
    (lambda: check(y=[0, 0.5, 1, 2]), "y", 1, None, 0.5, "not probabilities"),
    (lambda: check(weight=[1.0, 1.0, -2.0, 1.0]), "sample_weight", 2, None, None, ""),
]


@pytest.mark.parametrize(("act", "argument", "row", "column", "value", "remedy"), PLACES)
def test_errors_carry_what_their_messages_say(act, argument, row, column, value, remedy):
    with pytest.raises(errors.DataError) as caught:
        act()
    error = caught.value
    assert (error.argument, error.row, error.column, error.value) == (argument, row, column, value)
    assert remedy in error.remedy
    cell = f"{argument}[{row}]" if column is None else f"{argument}[{row}, {column}]"
    assert str(error) == f"{cell} {error.message}"
    assert error.message.endswith(error.remedy)
    again = pickle.loads(pickle.dumps(error))  # as processes send it
    assert (type(again), str(again), again.place(7)) == (type(error), str(error), error.place(7))


class Columns(errors.Arguments):
    scores = "the table"
    if_logits = "use --scores logits"

    def place(self, argument, row, column=None):  # noqa: ARG002
        return f"line {row + 2}"


def test_messages_use_the_names_of_whoever_asked():
    for given in (put((2, 1), 1.5), put((2, 1), np.nan)):
        with errors.naming(Columns()), refuses("scores", errors.DataError, row=2) as caught:
            simplex.check_batch(given, NAMES)
        assert str(caught.value).startswith("line 4 is ")
        with refuses("scores", errors.DataError, row=2) as caught:
            simplex.check_scores(given)
        assert str(caught.value).startswith("scores[2, 1] is ")
