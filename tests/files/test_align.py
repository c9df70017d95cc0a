"""Labels and columns of files: which belongs to which, and what is refused."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrant._files.align import align
from calibrant._files.formats import read_prediction_file
from calibrant._files.source import Request
from conftest import tells

ROWS = [(0.7, 0.2, 0.1), (0.1, 0.8, 0.1), (0.2, 0.2, 0.6)]
ANIMALS = ("cat", "dog", "emu")
FOLD = [(0, 1, 2)]


def table(tmp_path, head, labels=ANIMALS, more=(), rows=ROWS, like=None, **asked):
    """Write a table with the label first and more columns last, and align it."""
    columns = [labels, *zip(*rows, strict=True), *more]
    lines = [head, *(",".join(map(str, row)) for row in zip(*columns, strict=True))]
    return text(tmp_path, "\n".join(lines) + "\n", like=like, **asked)


def text(tmp_path, content, like=None, **asked):
    """Write a table, and align it."""
    path, request = tmp_path / "p.csv", Request(**asked)
    path.write_text(content)
    return align(read_prediction_file(path, request), request, like=like)


def archive(tmp_path, probs=ROWS, **arrays):
    """Write an archive, and align it."""
    np.savez(tmp_path / "p.npz", probs=probs, **arrays)
    return align(read_prediction_file(tmp_path / "p.npz"))


@pytest.mark.parametrize(
    ("head", "labels", "y", "classes"),
    [
        ("label,cat,dog,emu", ANIMALS, [*ANIMALS], [*ANIMALS]),
        ("label,p_emu,p_cat,p_dog", ANIMALS, [*ANIMALS], ["emu", "cat", "dog"]),
        ("label,p1,p0,p2", (0, 1, 2), [0, 1, 2], [1, 0, 2]),
        ("label,0,1,2", (0, 1, 2), [0, 1, 2], [0, 1, 2]),
        ("label,0,1,10", ("0.0", "1.0", "10.0"), [0, 1, 10], [0, 1, 10]),
        ("label,x,y,z", ("0.0", "1.0", "2.0"), [0, 1, 2], None),
        ("label,p_5,p_7,p_9", (5, 5, 9), [5, 5, 9], [5, 7, 9]),
        ("label,cat,dog,emu", ("cat", "dog", "cat"), ["cat", "dog", "cat"], [*ANIMALS]),
        ("label,first,second,third", ANIMALS, [*ANIMALS], None),
        ("y,cat,dog,emu", ANIMALS, [*ANIMALS], [*ANIMALS]),  # labels by the name of the column
        ("TARGET,cat,dog,emu", ANIMALS, [*ANIMALS], [*ANIMALS]),
        ("answer,cat,dog,emu", ANIMALS, [*ANIMALS], [*ANIMALS]),  # or as the only text
        ("label,x,y,z", (0, 1, 2), [0, 1, 2], None),  # a class may be called y
    ],
)
def test_columns_and_labels_are_matched(tmp_path, head, labels, y, classes):
    found = table(tmp_path, head, labels)
    assert found.y.tolist() == y
    assert found.classes == classes
    np.testing.assert_array_equal(np.asarray(found.scores), ROWS)
    assert found.rows.place.names == head.split(",")[1:]


def test_the_label_column_among_others(tmp_path):
    ids = [("a", "b", "c")]
    assert table(tmp_path, "target,p0,p1,p2,id", (0, 1, 2), ids).y.tolist() == [0, 1, 2]
    with tells("has no labels", "--label-column"):
        table(tmp_path, "answer,cat,dog,emu,id", more=ids)
    found = table(tmp_path, "answer,cat,dog,emu,id", more=ids, label="answer")
    assert found.y.tolist() == [*ANIMALS]
    with tells("'target', 'y'", "--label-column"):
        table(tmp_path, "target,cat,dog,emu,y", (0, 1, 2), FOLD)
    with tells("'truth'", "--label-column"):
        table(tmp_path, "label,cat,dog,emu", label="truth")


@pytest.mark.parametrize("name", ["y_pred", "Prediction", "Unnamed: 0"])
def test_predicted_labels_and_an_index_are_no_scores(tmp_path, name):
    found = table(tmp_path, f"y_true,cat,dog,emu,{name}", (0, 1, 0), [(1, 1, 0)])
    assert (found.y.tolist(), found.rows.place.names) == ([0, 1, 0], [*ANIMALS])
    path = tmp_path / "p.csv"
    path.write_text("y_pred,p_cat,p_dog\ncat,0.75,0.25\n")
    assert read_prediction_file(path).labels is None
    found = text(tmp_path, ",cat,dog,label\n0,0.7,0.3,cat\n1,0.2,0.8,dog\n")
    assert found.rows.place.names == ["cat", "dog"]


@pytest.mark.parametrize("head", ["p_cat,p_dog,p_emu", "0,1,2", "p0,p1,p2"])
def test_other_columns_of_numbers_are_named_and_refused(tmp_path, head):
    labels = ANIMALS if "cat" in head else (0, 1, 2)
    with tells("p.csv", "'fold'", "--ignore"):
        table(tmp_path, f"label,{head},fold", labels, FOLD)
    for chosen in ({"ignore": ("f*",)}, {"columns": tuple(head.split(","))}):
        found = table(tmp_path, f"label,{head},fold", labels, FOLD, **chosen)
        assert found.rows.place.names == head.split(",")


def test_columns_that_cannot_be_matched_have_to_be_chosen_where_no_sum_tells_them(tmp_path):
    content = "id,score,label\n1000,0.25,0\n1001,0.5,1\n1002,0.125,0\n"
    for words in ({"kind": "logits"}, {"normalize": True}):
        with tells("'id', 'score'", "--columns"):
            text(tmp_path, content, **words)
        chosen = text(tmp_path, content, columns=("id", "score"), **words)
        assert chosen.rows.scores.shape == (3, 2)
    with tells("p.csv, line 2, column 'id' is 1000.0"):
        text(tmp_path, content).check()


def test_columns_are_in_the_order_in_which_they_are_chosen(tmp_path):
    asked = {"columns": ("z", "x"), "ignore": ("y",), "classes": ("dog", "cat")}
    found = table(tmp_path, "label,x,y,z", ("cat", "dog", "dog"), **asked)
    assert (found.classes, found.rows.place.names) == (["dog", "cat"], ["z", "x"])
    np.testing.assert_array_equal(found.rows.scores, np.array(ROWS)[:, [2, 0]])


@pytest.mark.parametrize("columns", [(), ("*",)])
def test_a_class_that_no_row_has_completes_the_rows(tmp_path, columns):
    found = table(tmp_path, "label,cat,dog,emu", ("cat", "cat", "dog"), columns=columns)
    assert found.classes == ["cat", "dog", "emu"]


@pytest.mark.parametrize("labels", [("0.0", "nan", "2.0"), ("0.0", "", "2.0"), ("cat", "", "emu")])
def test_a_missing_label_is_named_by_its_line(tmp_path, labels):
    with tells("p.csv, line 3", "missing"):
        table(tmp_path, "label,cat,dog,emu", labels)
    with tells("line 5", "missing"):  # as an editor counts
        text(tmp_path, 'note,label,cat,dog\n"a\nb",cat,0.7,0.3\n\nc,,0.5,0.5\n')


def test_another_part_has_the_same_classes(tmp_path):
    val = table(tmp_path, "label,p0,p1,p2", (0, 1, 2))
    other = table(tmp_path, "label,p2,p0,p1", ("2.0", "0.0", "0"), like=val)
    assert other.y.tolist() == [2, 0, 0]
    with tells("line 3", "'x'"):
        table(tmp_path, "label,p0,p1,p2", (0, "x", 2), like=val)
    val = table(tmp_path, "label,a,b,c", (0, 1, 1))  # no label of the last class
    assert table(tmp_path, "label,a,b,c", (0, 1, 2), like=val).y.tolist() == [0, 1, 2]
    with tells("4 columns", "3 classes"):
        table(tmp_path, "label,a,b,c,d", (0, 1, 2), [(0.1, 0.2, 0.3)], like=val)
    with tells("line 5", "label 9"):  # more labels than columns
        table(tmp_path, "label,a,b,c", (0, 1, 2, 9), rows=[*ROWS, ROWS[0]])


@pytest.mark.parametrize(
    ("labels", "facts"),
    [
        (["cat", None], ("row 1", "missing")),
        ([0.0, None], ("row 1", "missing")),
        ([None, 1], ("row 0", "missing")),
        (np.array(["2026-01-01"] * 2, "M8[ns]"), ("datetime64", "--label-column")),
        ([["cat"], ["dog"]], ("object", "--label-column")),
    ],
)
def test_labels_of_parquet_that_are_missing_or_of_other_types(tmp_path, labels, facts):
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table({"label": labels, "cat": [0.7, 0.3], "dog": [0.3, 0.7]}), path)
    with tells(*facts):
        align(read_prediction_file(path))


@pytest.mark.parametrize(
    ("labels", "classes", "y", "known"),
    [
        (["cat", "emu", "cat"], ["emu", "cat", "dog"], ["cat", "emu", "cat"], None),
        ([1, 0, 1], ["emu", "cat", "dog"], ["cat", "emu", "cat"], None),
        ([9, 5, 9], [5, 7, 9], [9, 5, 9], [5, 7, 9]),
        ([9.0, 5.0, 9.0], [9, 7, 5], [9, 5, 9], [9, 7, 5]),
        ([2, 0, 1], [1, 2, 0], [2, 0, 1], [1, 2, 0]),
        ([1, 2, 1], ["c1", "c2", "c3"], ["c2", "c3", "c2"], None),
        ([0, 0, 0], ["1", "x", "y"], ["1", "1", "1"], None),
        (["9", "5", "9"], ["9", "7", "5"], [9, 5, 9], [9, 7, 5]),
    ],
)
def test_classes_of_an_archive(tmp_path, labels, classes, y, known):
    found = archive(tmp_path, labels=labels, classes=classes)
    assert found.y.tolist() == y
    assert found.classes == (classes if known is None else known)


@pytest.mark.parametrize(
    ("labels", "classes", "facts"),
    [
        (["cat", "cow", "cat"], ["emu", "cat", "dog"], ("row 1", "'cow'")),
        ([0, 3, 1], ["emu", "cat", "dog"], ("row 1", "'3'")),
        ([0, -1, 1], ["emu", "cat", "dog"], ("row 1", "'-1'")),
        ([0, 1, 2], [1, 2, 3], ("row 0", "label 0", "1, 2, 3")),
        ([0, 1, 2], ["a", "a", "b"], ("same name",)),
    ],
)
def test_labels_of_an_archive_that_are_no_classes(tmp_path, labels, classes, facts):
    with tells(*facts):
        archive(tmp_path, labels=labels, classes=classes)


def test_classes_that_are_told(tmp_path):
    found = table(tmp_path, "label,x,z,y", classes=["cat", "emu", "dog"])
    assert found.classes == ["cat", "emu", "dog"]
    for classes, facts in (
        (["cat", "emu"], ("3 columns", "--classes", "2 classes")),
        (["a", "emu", "dog"], ("line 2", "'cat'")),
    ):
        with tells(*facts):
            table(tmp_path, "label,x,z,y", classes=classes)


def test_a_label_as_long_as_a_book_is_refused_and_not_made_an_array_of(tmp_path):
    """One of 3 MB among 200 rows took 2.5 GB: every row of an array of text is as wide."""
    rows = "".join(f"{'ab'[i % 2]},0.25,0.75\n" for i in range(200))
    path = tmp_path / "p.csv"
    path.write_text("label,a,b\n" + rows.replace("b,", "x" * 3_000_000 + ",", 1))
    found = read_prediction_file(path)
    tracemalloc.start()
    with tells("3,000,000") as told:
        align(found)
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()
    assert len(str(told.value)) < 1000
