"""Names of columns against labels: one rule for frames and files."""

import numpy as np
import pytest

from calibrant._gate._columns import are_sorted, match_columns, order_of
from calibrant.errors import ColumnNameError


@pytest.mark.parametrize(
    ("names", "labels", "classes"),
    [
        (["emu", "cat"], ["cat", "emu"], ["emu", "cat"]),
        (["prob_emu", "prob_cat"], ["cat", "emu"], ["emu", "cat"]),
        (["prob_cat", "prob_cow"], ["cat", "cow"], ["cat", "cow"]),
        (["p_b", "p_a", "p_c"], ["a", "c"], ["b", "a", "c"]),
        (["data_a", "data_b"], ["a"], ["a", "b"]),
        (["p1", "p0"], [0, 1], [1, 0]),
        (["p1", "p11", "p111"], [1, 11], [1, 11, 111]),
        (["c_10", "c_02", "c_01"], [1, 2, 10], [10, 2, 1]),
        (["p-1", "p0", "p1"], [-1, 0, 1], [-1, 0, 1]),
        (["10.0", "2.0"], [2, 10], [10, 2]),
        (["p3", "p1"], [1.0, 3.0], [3.0, 1.0]),
        (["x1_p2", "x1_p1"], [1, 2], [2, 1]),
        (["p01", "p02"], ["01", "02"], ["01", "02"]),
        ([2, 1, 0], [0, 1], [2, 1, 0]),
        (["True", "False"], [False, True], [True, False]),
        (["aa", "aaa"], ["a", "aa"], ["a", "aa"]),
    ],
)
def test_names_with_one_prefix_are_matched(names, labels, classes):
    match = match_columns(names, labels)
    assert match.columns == list(range(len(names)))
    assert match.classes == classes
    assert [type(c) for c in match.classes] == [type(labels[0])] * len(classes)


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["p0", "p1"], ["cat", "emu"]),
        (["p_cat", "q_emu"], ["cat", "emu"]),
        (["p0", "p1", "p2"], [1, 2, 3]),
        ([0, 1, 2], [1, 2, 3]),
        (["first", "second"], [0, 1]),
        (["p_1", "p_2", "p_3"], ["01", "1", "2"]),
        (["Cat", "Emu"], ["cat", "emu"]),
        (["cat_p", "emu_p"], ["cat", "emu"]),
        (["p1_b", "p0_b"], [0, 1]),
        ([], []),
    ],
)
def test_names_that_say_nothing(names, labels):
    assert match_columns(names, labels) is None


def test_other_columns_are_left_out():
    names = ["id", "prob_emu", "fold", "prob_cat", "prob_dog"]
    match = match_columns(names, ["cat", "emu"])
    assert (match.columns, match.classes) == ([1, 3, 4], ["emu", "cat", "dog"])
    match = match_columns(["fold", "p1", "p0", "id"], [0, 1])
    assert (match.columns, match.classes) == ([1, 2], [1, 0])
    match = match_columns(["fold", "1", "0"], [0, 1])
    assert (match.columns, match.classes) == ([1, 2], [1, 0])


@pytest.mark.parametrize("labels", [["cat", "emu"], [0, 1]])
def test_two_sets_of_columns_are_ambiguous(labels):
    names = [f"{kind}_{label}" for kind in ("prob", "logit") for label in labels]
    with pytest.raises(ColumnNameError):
        match_columns(names, labels)


def test_order_of_columns():
    assert order_of(
        ["prob_emu", "prob_dog", "prob_cat"], np.array(["cat", "dog", "emu"])
    ).tolist() == [2, 1, 0]
    assert order_of(["x", "y"], np.array(["cat", "emu"])) is None


def test_many_names_take_no_time():
    """Linear: a quadratic rule would not end."""
    names = [f"{'a' * 20}_b{i}" for i in range(20_000)]
    labels = [f"b{i}" for i in range(0, 20_000, 2)]
    assert len(match_columns(names, labels).columns) == 20_000
    assert len(match_columns(names, list(range(10_000))).columns) == 20_000
    assert match_columns([f"x{i}_1" for i in range(20_000)], [1, -2]) is None


@pytest.mark.parametrize(
    ("names", "answer"),
    [
        (["p0", "p1"], True),
        (["p1", "p0"], False),
        ([f"p{i}" for i in range(12)], True),
        (["a", "B"], False),
        (["B", "a"], True),
        ([0, 1, 2], True),
        ([2, 1], False),
        ([("a", 1), ("b", 0)], True),
    ],
)
def test_sorted_names(names, answer):
    assert are_sorted(names) is answer
