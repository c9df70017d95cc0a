"""Labels and columns of files: which belongs to which, and what is refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrant._files.align import align
from calibrant._files.columns import Request
from calibrant._files.predictions import read_prediction_file
from calibrant.errors import PredictionFileError, RangeError

ROWS = [(0.7, 0.2, 0.1), (0.1, 0.8, 0.1), (0.2, 0.2, 0.6)]


def table(tmp_path, head, labels=("cat", "dog", "emu"), more=(), name="p.csv", rows=ROWS, **named):
    """Write and read a table with the label first and more columns last."""
    lines = [
        ",".join(map(str, [label, *row, *(column[i] for column in more)]))
        for i, (label, row) in enumerate(zip(labels, rows, strict=True))
    ]
    path = tmp_path / name
    path.write_text("\n".join([head, *lines]) + "\n")
    return read_prediction_file(path, Request(**named))


@pytest.mark.parametrize(
    ("head", "labels", "y", "classes"),
    [
        ("label,cat,dog,emu", ("cat", "dog", "emu"), ["cat", "dog", "emu"], ["cat", "dog", "emu"]),
        ("label,p_emu,p_cat,p_dog", ("cat", "dog", "emu"), None, ["emu", "cat", "dog"]),
        ("label,p1,p0,p2", (0, 1, 2), [0, 1, 2], [1, 0, 2]),
        ("label,0,1,2", (0, 1, 2), [0, 1, 2], [0, 1, 2]),
        ("label,0,1,10", ("0.0", "1.0", "10.0"), [0, 1, 10], [0, 1, 10]),
        ("label,x,y,z", ("0.0", "1.0", "2.0"), [0, 1, 2], None),
        ("label,p_5,p_7,p_9", (5, 5, 9), [5, 5, 9], [5, 7, 9]),
        ("label,cat,dog,emu", ("cat", "dog", "cat"), None, ["cat", "dog", "emu"]),
        ("label,first,second,third", ("cat", "dog", "emu"), None, None),
    ],
)
def test_columns_and_labels_are_matched(tmp_path, head, labels, y, classes):
    found = align(table(tmp_path, head, labels))
    assert found.y.tolist() == (list(labels) if y is None else y)
    assert found.classes == classes
    np.testing.assert_array_equal(np.asarray(found.scores), ROWS)
    assert found.place.names == head.split(",")[1:]


@pytest.mark.parametrize("name", ["y", "TARGET", "answer"])
def test_the_label_column_is_found_by_its_name_or_as_the_only_text(tmp_path, name):
    assert align(table(tmp_path, f"{name},cat,dog,emu")).y.tolist() == ["cat", "dog", "emu"]


def test_the_label_column_among_others(tmp_path):
    ids = [("a", "b", "c")]
    found = table(tmp_path, "target,p0,p1,p2,id", (0, 1, 2), ids)
    assert align(found).y.tolist() == [0, 1, 2]
    found = table(tmp_path, "answer,cat,dog,emu,id", more=ids)
    with pytest.raises(PredictionFileError, match=r"has no labels.*--label-column"):
        align(found)
    found = table(tmp_path, "answer,cat,dog,emu,id", more=ids, label="answer")
    assert align(found).y.tolist() == ["cat", "dog", "emu"]
    with pytest.raises(PredictionFileError, match=r"'target', 'y' may all .*--label-column"):
        table(tmp_path, "target,cat,dog,emu,y", (0, 1, 2), [(0, 1, 2)])
    with pytest.raises(PredictionFileError, match=r"no column 'truth' \(--label-column\)"):
        table(tmp_path, "label,cat,dog,emu", label="truth")
    found = table(tmp_path, "label,x,y,z", (0, 1, 2))  # a class may be called y
    assert align(found).place.names == ["x", "y", "z"]


@pytest.mark.parametrize("index", ["", "Unnamed: 0"])
def test_an_index_that_pandas_wrote_is_no_class(tmp_path, index):
    path = tmp_path / "p.csv"
    path.write_text(f"{index},cat,dog,label\n0,0.7,0.3,cat\n1,0.2,0.8,dog\n")
    found = align(read_prediction_file(path))
    assert found.place.names == ["cat", "dog"]


@pytest.mark.parametrize("head", ["p_cat,p_dog,p_emu", "0,1,2", "p0,p1,p2"])
def test_other_columns_of_numbers_are_named_and_refused(tmp_path, head):
    labels = ("cat", "dog", "emu") if "cat" in head else (0, 1, 2)
    found = table(tmp_path, f"label,{head},fold", labels, [(0, 1, 2)])
    with pytest.raises(PredictionFileError, match=r"p\.csv: columns 'fold' match no label.*ignore"):
        align(found)
    for selection in ({"ignore": ("f*",)}, {"columns": tuple(head.split(","))}):
        found = align(table(tmp_path, f"label,{head},fold", labels, [(0, 1, 2)], **selection))
        assert found.place.names == head.split(",")


def test_columns_that_cannot_be_matched_have_to_be_chosen_where_no_sum_tells_them(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("id,score,label\n1000,0.25,0\n1001,0.5,1\n1002,0.125,0\n")
    for words in ({"kind": "logits"}, {}):
        with pytest.raises(PredictionFileError, match=r"are not named after the labels.*--columns"):
            align(read_prediction_file(path, Request(**words)), normalize=None if words else "rows")
        chosen = Request(columns=("id", "score"), **words)
        assert align(read_prediction_file(path, chosen)).matrix.shape == (3, 2)
    with pytest.raises(RangeError, match=r"p\.csv, line 2, column 'id' is 1000\.0"):
        align(read_prediction_file(path)).check()
    with pytest.raises(PredictionFileError, match=r"one column of scores, 'score'"):
        read_prediction_file(path, Request(kind="logits", ignore=("id",)))


def test_a_class_that_no_row_has_completes_the_rows(tmp_path):
    assert align(table(tmp_path, "label,cat,dog,emu", ("cat", "cat", "dog"))).classes[2] == "emu"
    found = table(tmp_path, "label,cat,dog,emu", ("cat", "cat", "dog"), columns=("*",))
    assert align(found).classes == ["cat", "dog", "emu"]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (("cat", "", "emu"), "line 3: the label is missing"),
        (("0.0", "nan", "2.0"), "line 3: the label is missing"),
        (("0.0", "", "2.0"), "line 3: the label is missing"),
        (("cat", "dgo", "emu"), "line 3: the label 'dgo' is not among the classes 'cat'"),
    ],
)
def test_labels_that_are_none_are_named_by_their_line(tmp_path, labels, message):
    with pytest.raises(PredictionFileError, match=rf"p\.csv, {message}"):
        align(table(tmp_path, "label,cat,dog,emu", labels))


def test_another_part_has_the_same_classes(tmp_path):
    val = align(table(tmp_path, "label,p0,p1,p2", (0, 1, 2)))
    assert align(table(tmp_path, "label,p2,p0,p1", ("2.0", "0.0", "0")), like=val).y.tolist() == [
        2,
        0,
        0,
    ]
    with pytest.raises(PredictionFileError, match="line 3: the label 'x' is not among"):
        align(table(tmp_path, "label,p0,p1,p2", (0, "x", 2)), like=val)
    val = align(table(tmp_path, "label,a,b,c", (0, 1, 1)))  # no label of the last class
    assert align(table(tmp_path, "label,a,b,c", (0, 1, 2)), like=val).y.tolist() == [0, 1, 2]
    with pytest.raises(PredictionFileError, match="4 columns of scores, but the model has 3"):
        align(table(tmp_path, "label,a,b,c,d", (0, 1, 2), [(0.1, 0.2, 0.3)]), like=val)


def test_more_labels_than_columns(tmp_path):
    np.savez(tmp_path / "p.npz", probs=np.tile(ROWS, (2, 1)), labels=[0, 1, 2, 9, 1, 0])
    with pytest.raises(PredictionFileError, match=r"row 3 \(from 0\): the label 9 is not among"):
        align(read_prediction_file(tmp_path / "p.npz"))
    found = table(tmp_path, "label,a,b,c", (0, 1, 2, 9), rows=[*ROWS, ROWS[0]])
    with pytest.raises(PredictionFileError, match="line 5: the label 9 is not among"):
        align(found)


def test_lines_are_counted_as_an_editor_does(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text('note,label,cat,dog\n"a\nb",cat,0.7,0.3\n\nc,,0.5,0.5\n')
    with pytest.raises(PredictionFileError, match="line 5: the label is missing"):
        align(read_prediction_file(path))


@pytest.mark.parametrize("labels", [["cat", None], [0.0, None], [None, 1]])
def test_null_labels_of_parquet_are_refused(tmp_path, labels):
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table({"label": labels, "cat": [0.7, 0.3], "dog": [0.3, 0.7]}), path)
    with pytest.raises(PredictionFileError, match=rf"row {labels.index(None)} .*label is missing"):
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
    np.savez(tmp_path / "p.npz", probs=ROWS, labels=labels, classes=classes)
    found = align(read_prediction_file(tmp_path / "p.npz"))
    assert found.y.tolist() == y
    assert found.classes == (classes if known is None else known)


def test_labels_of_an_archive_that_are_no_classes(tmp_path):
    names = ["emu", "cat", "dog"]
    np.savez(tmp_path / "p.npz", probs=ROWS, labels=["cat", "cow", "cat"], classes=names)
    with pytest.raises(PredictionFileError, match=r"row 1 \(from 0\): the label 'cow' is not"):
        align(read_prediction_file(tmp_path / "p.npz"))
    for labels, message in (([0, 3, 1], "label '3'"), ([0, -1, 1], "label '-1'")):
        np.savez(tmp_path / "p.npz", probs=ROWS, labels=labels, classes=names)
        with pytest.raises(PredictionFileError, match=rf"row 1 .*{message} is not among"):
            align(read_prediction_file(tmp_path / "p.npz"))
    np.savez(tmp_path / "p.npz", probs=ROWS, labels=[0, 1, 2], classes=[1, 2, 3])
    with pytest.raises(PredictionFileError, match="label 0 is not among the classes 1, 2, 3"):
        align(read_prediction_file(tmp_path / "p.npz"))
    np.savez(tmp_path / "p.npz", probs=ROWS, labels=[0, 1, 2], classes=["a", "a", "b"])
    with pytest.raises(PredictionFileError, match="the same name twice"):
        read_prediction_file(tmp_path / "p.npz")


def test_classes_that_are_told(tmp_path):
    found = align(table(tmp_path, "label,x,z,y"), classes=["cat", "emu", "dog"])
    assert found.classes == ["cat", "emu", "dog"]
    with pytest.raises(PredictionFileError, match="3 columns of scores, but --classes names 2"):
        align(table(tmp_path, "label,x,z,y"), classes=["cat", "emu"])
    with pytest.raises(PredictionFileError, match="line 2: the label 'cat' is not among"):
        align(table(tmp_path, "label,x,z,y"), classes=["a", "emu", "dog"])


def test_y_true_holds_the_labels_and_y_pred_never_scores(tmp_path):
    path = tmp_path / "p.csv"
    rows = ["0,1,0.25,0.75", "1,1,0.5,0.5", "0,0,0.875,0.125"]
    path.write_text("\n".join(["y_true,y_pred,p0,p1", *rows]) + "\n")
    found = align(read_prediction_file(path))
    assert found.y.tolist() == [0, 1, 0]
    assert found.place.names == ["p0", "p1"]
    path.write_text("\n".join(["y_true,Prediction,p0,p1", *rows]) + "\n")
    assert align(read_prediction_file(path)).place.names == ["p0", "p1"]
    path.write_text("y_pred,p_cat,p_dog\ncat,0.75,0.25\n")
    assert read_prediction_file(path).labels is None


@pytest.mark.parametrize(
    ("labels", "kind"),
    [(np.array(["2026-01-01"] * 2, "M8[ns]"), "datetime64"), ([["cat"], ["dog"]], "object")],
)
def test_labels_of_other_types_are_named(tmp_path, labels, kind):
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table({"label": labels, "cat": [0.7, 0.3], "dog": [0.3, 0.7]}), path)
    with pytest.raises(PredictionFileError, match=rf"labels of type {kind}.*--label-column"):
        align(read_prediction_file(path))
