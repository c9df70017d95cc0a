"""Tables of a study come back as they were written."""

import math

import pytest

from calibrant.errors import DataError
from calibrant.study import StudyRow, StudyTable, read_table, write_table

ROWS = [
    StudyRow("mnist", "lenet", "ts", "nll", 0.1 + 0.2, 1e-3, "calibrant 0.1.0; numpy 2.4.0"),
    StudyRow("mnist", "lenet", "fir", "nll", 5e-324, 1 / 3, "calibrant 0.1.0"),
    StudyRow('odd, "name"', "a_b\nc", "na-fir", "conf-ece-10", -1.7976931348623157e308, 0.0, ""),
    StudyRow("ünïcode", "模型", "ms", "tece", 1.0, 2.0, "v"),
]
SUFFIXES = pytest.mark.parametrize("suffix", ["csv", "parquet"])


@SUFFIXES
def test_every_bit_comes_back(tmp_path, suffix):
    table = StudyTable.of(ROWS)
    path = write_table(table, tmp_path / f"t.{suffix}")
    assert path == tmp_path / f"t.{suffix}"
    assert read_table(path) == table


@SUFFIXES
def test_nan_comes_back(tmp_path, suffix):
    failed = StudyRow("a", "b", "ms", "nll", math.nan, math.nan, "v")
    (row,) = read_table(write_table(StudyTable.of([failed]), tmp_path / f"t.{suffix}")).rows
    assert math.isnan(row.value)
    assert math.isnan(row.seconds)


@SUFFIXES
def test_a_table_without_rows_comes_back(tmp_path, suffix):
    assert read_table(write_table(StudyTable(()), tmp_path / f"t.{suffix}")).rows == ()


def test_other_tools_read_it(tmp_path):
    pandas = pytest.importorskip("pandas")
    table = StudyTable.of(ROWS)
    csv = pandas.read_csv(write_table(table, tmp_path / "t.csv"))
    parquet = pandas.read_parquet(write_table(table, tmp_path / "t.parquet"))
    expected = ["dataset", "model", "method", "metric", "value", "seconds", "versions"]
    assert list(csv.columns) == list(parquet.columns) == expected
    exact = [row.value for row in table.rows]
    assert parquet["value"].tolist() == exact
    assert csv["value"].tolist() == pytest.approx(exact, rel=1e-15)


def test_rows_are_sorted_whatever_their_order_in_the_file(tmp_path):
    path = write_table(StudyTable(tuple(reversed(ROWS))), tmp_path / "t.csv")
    assert read_table(path) == StudyTable.of(ROWS)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", b"a,b\n1,2\n"),
        ("t.csv", b"dataset,model,method,metric,value,seconds,versions\na,b,ts,nll,x,1,v\n"),
        ("t.csv", b"dataset,model,method,metric,value,seconds,versions\na,b,ts\n"),
        ("t.csv", b"\xff\xfe\x00"),
        ("t.parquet", b"PAR1 cut off"),
        ("t.parquet", b""),
    ],
)
def test_other_files_are_errors_that_name_the_file(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=f"{name} is not a table"):
        read_table(tmp_path / name)


def test_suffix_says_the_format(tmp_path):
    with pytest.raises(DataError, match=r"'\.xlsx' is not known"):
        write_table(StudyTable(()), tmp_path / "t.xlsx")
    with pytest.raises(DataError, match=r"'\.xlsx' is not known"):
        read_table(tmp_path / "t.xlsx")
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_table(tmp_path, monkeypatch):
    path = write_table(StudyTable.of(ROWS), tmp_path / "t.csv")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_table(StudyTable(()), path)
    assert read_table(path) == StudyTable.of(ROWS)
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]
