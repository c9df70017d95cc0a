"""Text tables, arrays and archives: what is read, and what is refused with its place."""

import gzip
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrant._files import tables
from calibrant._files.align import align
from calibrant._files.formats import FORMATS, read_columns, read_prediction_file
from calibrant._files.source import Request
from calibrant.errors import NonFiniteError
from conftest import tells

P = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])
GOOD = "label,ant,bee,cow\nant,0.7,0.2,0.1\nbee,0.1,0.8,0.1\n"


def read_file(path, **asked):
    return read_prediction_file(Path(path), Request(**asked))


def read_text(tmp_path, text, name="p.csv", **options):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_file(path, **options)


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        "\ufeff" + GOOD,
        GOOD.replace("\n", "\r\n"),
        GOOD.replace("\n", "\r"),
        GOOD.rstrip("\n"),
        GOOD + "\n\n",
        GOOD.replace("0.7", '"0.7"'),
        GOOD.replace("0.7", "7e-1"),
        GOOD.replace("ant,bee", '"ant",bee'),
        "ant,bee,cow,label\n0.7,0.2,0.1,ant\n0.1,0.8,0.1,bee\n",
        "ant,label,bee,cow\n0.7,ant,0.2,0.1\n0.1,bee,0.8,0.1\n",
    ],
    ids=["plain", "bom", "crlf", "cr", "no newline", "empty lines", "quoted", "power", "name",
         "label last", "label between"],
)  # fmt: skip
def test_text_that_is_read(tmp_path, text):
    found = read_text(tmp_path, text)
    np.testing.assert_array_equal(found.scores, P)
    assert found.labels.tolist() == ["ant", "bee"]
    assert found.place.names == ["ant", "bee", "cow"]


@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.csv.gz", "p.tsv.gz"])
@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_separators_are_seen_in_the_header(tmp_path, sign, name):
    text = GOOD.replace(",", sign).encode()
    found = read_text(tmp_path, gzip.compress(text) if name.endswith("gz") else text, name)
    np.testing.assert_array_equal(found.scores, P)
    assert found.place.names == ["ant", "bee", "cow"]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", ["is empty"]),
        ("0.7,0.2,0.1\n0.1,0.8,0.1\n", ["line 1", "0.7, 0.2, 0.1"]),
        (GOOD.replace("0.8", "much"), ["line 3, column 'bee'", "'much'", "--ignore"]),
        (GOOD.replace("0.8", '"0,8"'), ["line 3, column 'bee'", "'0,8'", "decimal point"]),
        (GOOD.replace(",", ";").replace(".", ","), ["line 2, column 'ant'", "'0,7'"]),
        (GOOD.replace("0.1,0.8", "0.8"), ["line 3", "4 columns", "3"]),
        (GOOD.replace("bee,cow", "bee,bee"), ["line 1", "'bee'", "twice"]),
        (GOOD.replace("bee,cow", "bee,"), ["line 1", "column 4"]),
        (GOOD.replace("\nbee", "\n\nbee").replace("0.8", "x"), ["line 4, column 'bee'", "'x'"]),
        ("label,note\nant,x\n", ["no columns of scores"]),
        (GOOD.encode("utf-16"), ["p.csv", "UTF-8"]),
        (GOOD.encode() + b"b\xe4e,0.1,0.8,0.1\n", ["UTF-8"]),
        (GOOD.replace("bee,0.1", '"bee,0.1'), ["UTF-8"]),
    ],
)
def test_text_that_is_refused_with_its_place(tmp_path, text, facts):
    with tells(*facts):
        read_text(tmp_path, text)


def test_a_missing_cell_is_no_number(tmp_path):
    for cell in ("", "NA", "null", "-"):
        found = read_text(tmp_path, GOOD.replace("0.8", cell))
        with tells("p.csv, line 3, column 'bee'", error=NonFiniteError):
            align(found).check()


def test_rows_of_very_many_columns(tmp_path):
    names = ",".join(f"class_{i:05d}" for i in range(12_000))
    row = ",".join(["0.0200000000000000000000000"] * 12_000)
    found = read_text(tmp_path, f"label,{names}\nclass_00007,{row}\n")
    assert found.scores.shape == (1, 12_000)


def test_a_row_longer_than_a_block_is_refused_with_a_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "BLOCK_BYTES", 100)
    with tells("close the quotes"):
        read_text(tmp_path, GOOD + f'"{"x" * 500},0.1,0.8,0.1\n')


def test_line_breaks_in_quotes_are_read_beyond_any_block(tmp_path, monkeypatch):
    note = '"said ""no"",\n\nthen, 5\n"'
    rows = [f"{note if i % 3 else 'n'},ant,0.{i:04d},0.5,0.25" for i in range(1, 9000)]
    text = "note,label,ant,bee,cow\n" + "\n".join(rows) + "\n"
    wanted = [float(f"0.{i:04d}") for i in range(1, 9000)]
    assert read_text(tmp_path, text).scores[:, 0].tolist() == wanted
    monkeypatch.setattr(tables, "BLOCK_BYTES", 1 << 16)
    assert read_text(tmp_path, text).scores[:, 0].tolist() == wanted
    bad = text.replace("0.8000,0.5", "0.8000,half")
    line = text[: text.index("0.8000,0.5")].count("\n") + 1
    with tells(f"line {line}, column 'bee'", "'half'"):
        read_text(tmp_path, bad)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
@pytest.mark.parametrize("suffix", [s for known in FORMATS for s in known.suffixes])
def test_pipes_and_empty_directories_are_said_to_be_what_they_are(tmp_path, suffix):
    os.mkfifo(tmp_path / f"p{suffix}")
    (tmp_path / f"d{suffix}").mkdir()
    for name, told in (("p", "is a pipe"), ("d", "is a directory without tables or logs")):
        with tells(f"{name}{suffix} {told}"):
            read_file(tmp_path / f"{name}{suffix}")


def test_arrays(tmp_path):
    np.save(tmp_path / "p.npy", P)
    np.save(tmp_path / "y.npy", [0, 1])
    found = read_file(tmp_path / "p.npy", labels=tmp_path / "y.npy", kind="logits")
    np.testing.assert_array_equal(found.scores, P)
    assert (found.labels.tolist(), found.kind) == ([0, 1], "logits")
    for labels, fact in (([0], "the 2 rows"), ([0j, 1j], "complex")):
        np.save(tmp_path / "y.npy", labels)
        with tells("y.npy", fact):
            read_file(tmp_path / "p.npy", labels=tmp_path / "y.npy")
    with tells("has no labels"):
        align(read_file(tmp_path / "p.npy"))


LOGITS = {"val_logits": np.log(P), "val_labels": [0, 1]}
PARTS = LOGITS | {"test_logits": P, "test_labels": [1, 0]}


@pytest.mark.parametrize(
    ("arrays", "asked", "labels"),
    [
        ({"probs": P, "labels": [0, 1]}, {"usual_part": "val"}, [0, 1]),
        (PARTS, {"part": "test"}, [1, 0]),
        (PARTS, {"usual_part": "test"}, [1, 0]),
        (PARTS, {"part": "val", "kind": "logits"}, [0, 1]),
    ],
)
def test_parts_of_archives(tmp_path, arrays, asked, labels):
    np.savez(tmp_path / "p.npz", **arrays)
    assert read_file(tmp_path / "p.npz", **asked).labels.tolist() == labels


@pytest.mark.parametrize(
    ("arrays", "asked", "facts"),
    [
        ({"probs": P}, {"part": "val"}, ["val_probs"]),
        ({"probs": P}, {"labels": "y.npy"}, ["p.npz", "--labels"]),
        (PARTS, {"part": "val", "kind": "probabilities"}, ["val_probs"]),
        (PARTS, {}, ["val or test", "--part"]),
        (LOGITS, {"usual_part": "test"}, ["test_probs or test_logits", "'val_logits'"]),
        ({"probs": P, "labels": [1j, 2j]}, {}, ["p.npz: labels", "complex"]),
    ],
)
def test_archives_that_lack_what_is_asked_for(tmp_path, arrays, asked, facts):
    np.savez(tmp_path / "p.npz", **arrays)
    with tells(*facts):
        read_file(tmp_path / "p.npz", **asked)


def test_probabilities_come_first_in_an_archive_of_both(tmp_path):
    np.savez(tmp_path / "p.npz", probs=P, logits=np.log(P), labels=[0, 1])
    assert read_file(tmp_path / "p.npz").kind == "probabilities"
    assert read_file(tmp_path / "p.npz", kind="logits").kind == "logits"


def test_a_missing_category_is_no_other_category(tmp_path):
    """Groups and labels may be categories; those of several batches are joined."""
    names = pa.array(["a", None, "b"]).dictionary_encode()
    table = pa.table({"p": [0.5, 0.25, 0.75], "label": ["x", "y", "x"], "group": names})
    path = tmp_path / "p.parquet"
    pq.write_table(table, path, row_group_size=2)
    rows = read_file(path, groups="group")
    assert rows.column("group").tolist() == ["a", None, "b"]
    assert read_columns(path, {"group": "--groups"}).column("group").tolist() == ["a", None, "b"]
    with tells("row 1", "group", "--groups"):
        _ = align(rows, Request(groups="group", positive="y")).groups
