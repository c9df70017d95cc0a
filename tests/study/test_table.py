"""The table of a study, and its files, which come back as they were written."""

import math

import pytest

from calibrant.errors import DataError
from calibrant.study import read_table, write_table
from study.small_tables import rows

LINES = [
    ("mnist", "lenet", "ts", "nll", 0.1 + 0.2, 1e-3, "calibrant 0.1.0; numpy 2.4.0"),
    ("mnist", "lenet", "fir", "nll", 5e-324, 1 / 3, "calibrant 0.1.0"),
    ('odd, "name"', "a_b\nc", "na-fir", "conf-ece-10", -1.7976931348623157e308, 0.0, ""),
    ("ünïcode", "模型", "ms", "tece", 1.0, 2.0, "v"),
    ("NA", "null", "nan", "nll", math.nan, math.nan, "v"),
]
SUFFIXES = pytest.mark.parametrize("suffix", ["csv", "parquet"])


def test_rows_and_names_are_in_a_fixed_order():
    table = rows(LINES)
    assert rows(reversed(LINES)) == table
    assert table != rows(LINES[1:])
    assert table.methods == ["na-fir", "fir", "ts", "ms", "nan"]  # the paper's order, then others
    assert table.datasets == sorted(line[0] for line in LINES[1:])
    assert table.cases[0] == ("NA", "null")
    assert table.metrics == ["conf-ece-10", "nll", "tece"]
    assert table.wide("nll", ["ts", "fir"]).loc["mnist", "lenet"].tolist() == [0.1 + 0.2, 5e-324]
    assert table.wide("nll").shape == (4, 5)
    assert table.seconds(["fir"]).loc[("mnist", "lenet"), "fir"] == 1 / 3


def test_a_number_that_is_there_twice_is_refused():
    with pytest.raises(DataError, match=r"'fir', 'nll'.* twice"):
        rows([*LINES, LINES[1]])


@SUFFIXES
@pytest.mark.parametrize("lines", [LINES, []])
def test_every_bit_comes_back(tmp_path, suffix, lines):
    table = rows(lines)
    path = write_table(table, tmp_path / f"t.{suffix}")
    assert path == tmp_path / f"t.{suffix}"
    assert read_table(path) == table


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
        write_table(rows(LINES), tmp_path / "t.xlsx")
    with pytest.raises(DataError, match=r"'\.xlsx' is not known"):
        read_table(tmp_path / "t.xlsx")
    assert not list(tmp_path.iterdir())
