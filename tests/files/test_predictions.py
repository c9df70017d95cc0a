import gzip
import io
import os
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from calibrant._files import text as text_tables
from calibrant._files.align import align
from calibrant._files.columns import Request
from calibrant._files.predictions import open_source
from calibrant.errors import PredictionFileError

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


@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.csv.gz", "p.tsv.gz", "p"])
@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
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
        (GOOD.replace("0.8", "much"), "line 3, column 'bee': 'much' is not a number"),
        (GOOD.replace("0.8", ""), "line 3, column 'bee': '' is not .* .fill it, drop the row"),
        (GOOD.replace("0.8", '"0,8"'), "line 3, column 'bee': '0,8' .*the same way, with a point"),
        (GOOD.replace("0.1,0.8", "0.8"), "line 3 has 3 columns, but the header has 4"),
        (GOOD.replace("0.8", "0.8,9"), "line 3 has 5 columns, but the header has 4"),
        (GOOD.replace("bee,cow", "bee,bee"), "'bee' appears twice"),
        (GOOD.replace("bee,cow", "bee,"), "column 4 has no name"),
        (GOOD.replace(",0.8", ",80%"), "line 3, column 'bee': '80%' .* percent .*--normalize"),
        (GOOD.replace("\nbee", "\n\nbee").replace("0.8", "x"), "line 4, column 'bee': 'x'"),
        ("label,ant\nant,1\n", "two or more classes"),
        ("label,ant,bee\nant,1,NA\nbee,0,NA\n", "line 2, column 'bee': 'NA' is not a number"),
        (GOOD.replace("0.8", "1 000.8"), "'1 000.8' is not a number"),
    ],
)
def test_text_that_is_refused_with_its_place(tmp_path, text, message):
    with pytest.raises(PredictionFileError, match=message):
        read_text(tmp_path, text)


def test_headers_and_rows_longer_than_fields_and_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("calibrant._files.text.BLOCK_BYTES", 100)
    names = ",".join(f"class_{i:05d}" for i in range(12_000))
    row = ",".join(["0.0200000000000000000000000"] * 12_000)
    found = read_text(tmp_path, f"label,{names}\nclass_00007,{row}\n")
    assert found.scores.shape == (1, 12_000)


def test_standard_input(monkeypatch):
    stream = type("Stdin", (), {"buffer": io.BytesIO(GOOD.encode())})()
    monkeypatch.setattr("sys.stdin", stream)
    np.testing.assert_array_equal(read_file("-").scores, P)
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(PredictionFileError, match="standard input is closed"):
        read_file("-")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_pipe_with_a_bad_cell_is_not_waited_for_again(tmp_path):
    pipe, caught = tmp_path / "pipe.csv", []
    os.mkfifo(pipe)

    def read():
        try:
            read_file(pipe)
        except PredictionFileError as error:
            caught.append(str(error))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    pipe.write_text(GOOD.replace("0.8", "much"))
    reader.join(60)
    assert "pipe.csv, line 3, column 'bee': 'much' is not a number" in caught[0]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
@pytest.mark.parametrize("suffix", ["npz", "npy", "parquet", "arrow"])
def test_pipes_and_directories_are_said_to_be_what_they_are(tmp_path, suffix):
    os.mkfifo(tmp_path / f"p.{suffix}")
    (tmp_path / f"d.{suffix}").mkdir()
    for name, told in (("p", "is a pipe; save it"), ("d", "cannot be read: Is a directory")):
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
    with pytest.raises(PredictionFileError, match="no part 'val'; leave out --part"):
        read_file(path, part="val")
    assert read_file(path, usual_part="val").labels.tolist() == [0, 1]
    np.savez(path, val_logits=np.log(P), val_labels=[0, 1], test_logits=P, test_labels=[1, 0])
    assert read_file(path, part="test").labels.tolist() == [1, 0]
    assert read_file(path, usual_part="test").labels.tolist() == [1, 0]
    with pytest.raises(PredictionFileError, match="no probabilities"):
        read_file(path, part="val", kind="probabilities")
    with pytest.raises(PredictionFileError, match="choose one with --part"):
        read_file(path)
    np.savez(path, val_logits=np.log(P), val_labels=[0, 1])
    for named in ({"part": "test"}, {"usual_part": "test"}):
        with pytest.raises(PredictionFileError, match=r"has val_.* but no test_probs"):
            read_file(path, **named)
    np.savez(path, other=P)
    with pytest.raises(PredictionFileError, match="has the arrays other"):
        read_file(path)


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


def test_a_row_that_no_block_holds_is_told(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("label,a,b,note\na,0.25,0.75,n\nb,0.25,0.75," + "n" * 40_000_000 + "\n")
    with pytest.raises(PredictionFileError, match=r"p\.csv has a row that is longer than 16 MiB"):
        read_file(path)


def test_line_breaks_in_quotes_are_read_beyond_any_block(tmp_path, monkeypatch):
    note = '"said ""no"",\n\nthen, 5\n"'
    rows = [f"{note if i % 3 else 'n'},ant,0.{i:04d},0.5,0.25" for i in range(1, 9000)]
    text = "note,label,ant,bee,cow\n" + "\n".join(rows) + "\n"
    wanted = [float(f"0.{i:04d}") for i in range(1, 9000)]
    assert read_text(tmp_path, text).scores[:, 0].tolist() == wanted
    monkeypatch.setattr(text_tables, "BLOCK_BYTES", 1 << 16)
    assert read_text(tmp_path, text).scores[:, 0].tolist() == wanted
    bad = text.replace("0.8000,0.5", "0.8000,half")
    line = text[: text.index("0.8000,0.5")].count("\n") + 1
    with pytest.raises(PredictionFileError, match=rf"line {line}, column 'bee': 'half'"):
        read_text(tmp_path, bad)


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace(",", ";").replace(".", ","),
        GOOD.replace(",", "\t").replace(".", ","),
        GOOD.replace("0.7", '"0,7"')
        .replace("0.2", '"0,2"')
        .replace("0.1", '"0,1"')
        .replace("0.8", '"0,8"'),
    ],
    ids=["semicolons", "tabs", "quoted"],
)
def test_decimal_commas_are_read(tmp_path, text):
    np.testing.assert_array_equal(read_text(tmp_path, text).scores, P)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            GOOD.replace(",", ";").replace("0.8", "0,8"),
            "line 3, column 'bee': '0,8' .*with a point",
        ),
        (
            GOOD.replace(",", ";").replace(".", ",")
            + "cow;0,1;0,1;0,8\n" * text_tables.SAMPLE_ROWS
            + "cow;0,1;0.1;0,8\n",
            "line 104, column 'bee': '0.1' .*all decimals in the same way",
        ),
        (GOOD.encode("utf-16"), r"p\.csv, line 1 is not UTF-8 text; save the table as UTF-8"),
    ],
    ids=["a comma", "a point", "utf-16"],
)
def test_other_ways_of_writing_are_refused_by_name(tmp_path, text, message):
    with pytest.raises(PredictionFileError, match=message):
        read_text(tmp_path, text)


def test_fractions_under_the_name_of_predicted_labels_are_asked_about(tmp_path):
    for text in ("id,y_true,y_pred\nx,0,0.25\n", "label,a,b,y_pred\na,0.75,0.25,0.75\n"):
        with pytest.raises(PredictionFileError, match=r"'y_pred' has the name .*--columns"):
            read_text(tmp_path, text)
    with pytest.raises(PredictionFileError, match=r"no columns of scores \('y_pred' holds predict"):
        read_text(tmp_path, "id,y_true,y_pred\nx,0,0\ny,1,1\n")


@pytest.mark.parametrize("name", ["p.csv", "p.csv.gz", "-"])
def test_no_thread_in_the_background_holds_what_is_of_python(tmp_path, monkeypatch, name):
    """One that waits for the interpreter when it ends aborts the process: exit 134, not 3."""
    seen = []

    def watched(file, *options):
        seen.append(file)
        return whole(file, *options)

    whole = pa.csv.open_csv
    monkeypatch.setattr(pa.csv, "open_csv", watched)
    text = GOOD.encode()
    if name == "-":
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
        read_file("-")
    else:
        read_text(tmp_path, gzip.compress(text) if name.endswith("gz") else text, name)
    own = (pa.OSFile, pa.CompressedInputStream, pa.BufferReader)
    assert [type(file) in own for file in seen] == [True]
