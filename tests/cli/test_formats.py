"""A format of tables is one row: all commands read and write it, and messages name it."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import dataset

from calibrant._files import formats
from calibrant._files.formats import read_prediction_file, table_format
from calibrant._files.tables import ArrowTable, open_text
from calibrant.errors import PredictionFileError
from conftest import simulate, tells
from whole_files import MAKERS, SUFFIXES

P, Y = simulate(300, 3)
NAMES = ["ant", "bee", "cow"]
FRAME = pd.DataFrame(P, columns=NAMES).assign(label=np.array(NAMES)[Y], id=np.arange(300) % 7)


class LinesTable:
    """A toy: a list of values in JSON a line, first of names."""

    def __init__(self, path):
        self.path = path
        with open_text(path) as file:
            self.names, *self._rows = map(json.loads, file)
        for line, row in enumerate(self._rows, start=2):
            if len(row) != len(self.names):
                raise PredictionFileError(f"{path}, line {line} has {len(row)} values")
        first = dict(zip(self.names, self._rows[0], strict=True))
        is_text = {name: isinstance(value, str) for name, value in first.items()}
        self.samples = {name: None if is_text[name] else [str(first[name])] for name in first}

    def batches(self, columns, _):
        for start in range(0, len(self._rows), 100):
            rows = [
                dict(zip(self.names, row, strict=True)) for row in self._rows[start : start + 100]
            ]
            yield pa.RecordBatch.from_pylist(
                [{name: row[name] for name in columns} for row in rows]
            )

    def locate(self, rows):
        return [f"{self.path}, line {row + 2}" for row in rows]


def open_whole(path):
    """The same toy by a function, which reads it at once."""
    with open_text(path) as file:
        names, *rows = map(json.loads, file)
    table = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    return ArrowTable(path, dataset.dataset(table))


def write_lines(file, _, schema, tables):
    file.write(json.dumps(schema.names).encode() + b"\n")
    for table in tables:
        for row in table.to_pylist():
            file.write(json.dumps([*row.values()]).encode() + b"\n")


@pytest.fixture(params=[LinesTable, open_whole])
def toy(request, monkeypatch):
    """The row, and nothing else."""
    row = table_format((".toy", ".toy.gz"), request.param, write_lines)
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, row))
    return request.param


def write(path, frame):
    with path.open("wb") as file:
        table = pa.Table.from_pandas(frame, preserve_index=False)
        write_lines(file, path, table.schema, [table])
    return path


@pytest.mark.usefixtures("toy")
def test_commands_read_and_write_a_new_format(tmp_path, call):
    FRAME.to_csv(tmp_path / "p.csv", index=False)
    (tmp_path / "days").mkdir()
    write(tmp_path / "days" / "1.toy", FRAME[:150])
    write(tmp_path / "days" / "2.toy", FRAME[150:])
    path, words = write(tmp_path / "p.toy", FRAME), ["--ignore", "id", "--json"]
    wanted = call("evaluate", tmp_path / "p.csv", *words).json
    for other in (path, tmp_path / "days"):
        found = call("evaluate", other, *words).json
        assert found["n_rows"] == 300
        for name in ("accuracy", "brier_score", "confidence_ece"):
            assert found[name]["value"] == pytest.approx(wanted[name]["value"], rel=1e-12)
    call("fit", path, "-m", "ts", *words, "-o", tmp_path / "m")
    for source, target in ((path, "o.toy.gz"), (tmp_path / "p.csv", "o.toy"), (path, "o.csv")):
        out = tmp_path / target
        call("apply", tmp_path / "m", source, "--ignore", "id", "-o", out)
        found = formats.open_table(out)
        whole = pa.Table.from_batches(found.batches(found.names, NAMES)).to_pandas()
        assert whole.columns.tolist() == FRAME.columns.tolist()
        assert whole["label"].tolist() == FRAME["label"].tolist()
    call("apply", tmp_path / "m", tmp_path / "days", "--ignore", "id", "-o", tmp_path / "o")
    halves = [read_prediction_file(tmp_path / "o" / f"{i}.toy").scores for i in (1, 2)]
    np.testing.assert_array_equal(
        np.concatenate(halves)[:, :3], read_prediction_file(tmp_path / "o.toy").scores[:, :3]
    )
    words = ["decide", tmp_path / "m", path, "--ignore", "id", "--coverage", "0.9"]
    call(*words, "--calibration", path, "-o", tmp_path / "sets.toy")
    assert "set" in formats.open_table(tmp_path / "sets.toy").names


def test_messages_name_the_new_format(toy, tmp_path, call):
    path = write(tmp_path / "p.toy", FRAME)
    call("fit", path, "-m", "ts", "--ignore", "id", "-o", tmp_path / "m")
    words = ["decide", tmp_path / "m", path, "--ignore", "id", "--coverage", "0.9"]
    told = call(*words, "--calibration", path, "-o", tmp_path / "o.txt", code=2).err
    assert ".toy" in told
    with tells(".toy"):
        formats.copy_rows(path, [0], tmp_path / "o.txt")
    with tells(".toy"):
        read_prediction_file(write(tmp_path / "p.txt", FRAME))
    bad = write(tmp_path / "bad.toy", FRAME.assign(ant=FRAME.ant.mask(FRAME.index == 170, 7.0)))
    place = "line 172" if toy is LinesTable else "row 170 (from 0)"
    assert f"bad.toy, {place}" in call("evaluate", bad, "--ignore", "id", code=3).err


def test_a_reader_may_tell_the_line_of_what_is_damaged(toy, tmp_path):
    path = write(tmp_path / "p.toy", FRAME)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:5], "[0.5]", *lines[5:]]))
    with tells("p.toy, line 6 has 1 values" if toy is LinesTable else "p.toy cannot be read"):
        read_prediction_file(path)
    path.write_text("\n".join([*lines[:5], "{"]))
    with tells("p.toy cannot be read: it is damaged"):
        read_prediction_file(path)


def test_every_format_that_is_written_is_tried():
    """By the tests that ask ``whole_files``, which has what writes each by other libraries."""
    assert {suffix.removesuffix(".gz") for suffix in SUFFIXES} == {*MAKERS}
