import gzip
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from calibrant._files import tables
from calibrant._files.align import align
from calibrant._files.columns import Request
from calibrant._files.predictions import open_source
from calibrant.errors import NonFiniteError, PredictionFileError

P = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])
GOOD = "label,ant,bee,cow\nant,0.7,0.2,0.1\nbee,0.1,0.8,0.1\n"


def read_file(path, **said):
    with open_source(Path(path), Request(**said)) as source:
        return source.read()


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
    ("text", "message"),
    [
        ("", "is empty"),
        ("0.7,0.2,0.1\n0.1,0.8,0.1\n", "line 1: 0.7, 0.2, 0.1 ... are numbers"),
        (
            GOOD.replace("0.8", "much"),
            "line 3, column 'bee': invalid value 'much'; .*--ignore 'bee'",
        ),
        (GOOD.replace("0.8", '"0,8"'), "line 3, column 'bee': .*'0,8'; write .*decimal point"),
        (
            GOOD.replace(",", ";").replace(".", ","),
            "line 2, column 'ant': .*'0,7'; .*decimal point",
        ),
        (GOOD.replace("0.1,0.8", "0.8"), "line 3: Expected 4 columns, got 3"),
        (GOOD.replace("bee,cow", "bee,bee"), "'bee' appears twice"),
        (GOOD.replace("bee,cow", "bee,"), "column 4 has no name"),
        (GOOD.replace("\nbee", "\n\nbee").replace("0.8", "x"), "line 4, column 'bee': .*'x'"),
        ("label,ant\nant,1\n", "two or more classes"),
        ("id,y_true,y_pred\nx,0,0.25\n", "has no columns of scores"),
        (GOOD.encode("utf-16"), r"p\.csv cannot be read: it is not UTF-8 text; save it as UTF-8"),
        (GOOD.replace("bee,0.1", '"bee,0.1'), "close the quotes|in UTF-8"),
    ],
)
def test_text_that_is_refused_with_its_place(tmp_path, text, message):
    with pytest.raises(PredictionFileError, match=message):
        read_text(tmp_path, text)


def test_a_missing_cell_is_no_number(tmp_path):
    for cell in ("", "NA", "null", "-"):
        found = read_text(tmp_path, GOOD.replace("0.8", cell))
        with pytest.raises(NonFiniteError, match=r"p\.csv, line 3, column 'bee' is nan"):
            align(found).check()


def test_headers_and_rows_longer_than_fields_and_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "BLOCK_BYTES", 100)
    names = ",".join(f"class_{i:05d}" for i in range(12_000))
    row = ",".join(["0.0200000000000000000000000"] * 12_000)
    found = read_text(tmp_path, f"label,{names}\nclass_00007,{row}\n")
    assert found.scores.shape == (1, 12_000)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
@pytest.mark.parametrize("suffix", ["npz", "npy", "csv", "jsonl", "parquet", "arrow"])
def test_pipes_and_directories_are_said_to_be_what_they_are(tmp_path, suffix):
    os.mkfifo(tmp_path / f"p.{suffix}")
    (tmp_path / f"d.{suffix}").mkdir()
    for name, told in (("p", "is a pipe; save it"), ("d", "is a directory")):
        with pytest.raises(PredictionFileError, match=rf"{name}\.{suffix} {told}"):
            read_file(tmp_path / f"{name}.{suffix}")


def test_arrays(tmp_path):
    np.save(tmp_path / "p.npy", P)
    np.save(tmp_path / "y.npy", [0, 1])
    found = read_file(tmp_path / "p.npy", labels=tmp_path / "y.npy", kind="logits")
    np.testing.assert_array_equal(found.scores, P)
    assert found.labels.tolist() == [0, 1]
    assert found.kind == "logits"
    with pytest.raises(PredictionFileError, match="has no labels"):
        read_file(tmp_path / "p.npy").require_labels()


def test_archives(tmp_path):
    path = tmp_path / "p.npz"
    np.savez(path, probs=P, logits=np.log(P), labels=[0, 1])
    assert read_file(path).kind == "probabilities"
    assert read_file(path, kind="logits").kind == "logits"
    assert read_file(path, usual_part="val").labels.tolist() == [0, 1]
    with pytest.raises(PredictionFileError, match=r"no val_probs .*; write one"):
        read_file(path, part="val")
    with pytest.raises(PredictionFileError, match=r"p\.npz is no npy file; leave out --labels"):
        read_file(path, labels=path)
    np.savez(path, val_logits=np.log(P), val_labels=[0, 1], test_logits=P, test_labels=[1, 0])
    assert read_file(path, part="test").labels.tolist() == [1, 0]
    assert read_file(path, usual_part="test").labels.tolist() == [1, 0]
    with pytest.raises(PredictionFileError, match="no val_probs"):
        read_file(path, part="val", kind="probabilities")
    with pytest.raises(PredictionFileError, match="choose val or test with --part"):
        read_file(path)
    np.savez(path, val_logits=np.log(P), val_labels=[0, 1])
    with pytest.raises(PredictionFileError, match=r"no test_probs or test_logits, but 'val_"):
        read_file(path, usual_part="test")


def test_nothing_is_unpickled(tmp_path):
    np.save(tmp_path / "p.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(PredictionFileError, match="never unpickled"):
        read_file(tmp_path / "p.npy")
    np.savez(tmp_path / "p.npz", probs=np.array([[{}]], dtype=object))
    with pytest.raises(PredictionFileError, match=r"probs .* never unpickled"):
        read_file(tmp_path / "p.npz")


ROWS = "".join(f"{'ab'[i % 2]},0.25,0.75\n" for i in range(200))


def test_a_label_as_long_as_a_book_is_refused_and_not_made_an_array_of(tmp_path):
    """One of 3 MB among 200 rows took 2.5 GB: every row of an array of text is as wide."""
    path = tmp_path / "p.csv"
    path.write_text("label,a,b\n" + ROWS.replace("b,", "x" * 3_000_000 + ",", 1))
    found = read_file(path)
    tracemalloc.start()
    with pytest.raises(
        PredictionFileError, match=r"row 1 .*: the label has 3,000,000 characters"
    ) as told:
        align(found)
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()
    assert len(str(told.value)) < 1000


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
    with pytest.raises(PredictionFileError, match=rf"line {line}, column 'bee': .*'half'"):
        read_text(tmp_path, bad)
