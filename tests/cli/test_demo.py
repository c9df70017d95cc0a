import re

import pytest

from calibrant.calibrators.methods import methods
from calibrant.cli.main import run


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("demo"))
        lines = []
        patch.setattr("rich.console.Console.print", lambda _, thing, **__: lines.append(thing))
        assert run(["demo"]) == 0
    return lines


def test_table_has_a_row_for_each_method_and_the_uncalibrated(printed):
    table = printed[1].renderables[0]
    assert table.row_count == len(methods()) + 1


def test_every_column_marks_its_best(printed):
    for column in printed[1].renderables[0].columns[1:-1]:
        cells = [str(cell) for cell in column.cells]
        values = [float(cell.strip(" *")) for cell in cells]
        starred = {float(cell.strip(" *")) for cell in cells if cell.endswith("*")}
        assert starred == {max(values) if "accuracy" in column.header else min(values)}


def test_summary_is_two_lines_about_the_table(printed):
    first, second = printed[2].splitlines()
    assert re.search(r"over-confident by \d+ points", first)
    assert "best NLL" in second
    assert "conf-ECE" in second


def test_it_ends_with_the_path_of_its_report(printed):
    assert re.fullmatch(r"Report: file://.*/calibrant-demo\.html", printed[-1])


def test_no_method_failed(printed):
    assert not [thing for thing in printed[1].renderables if "failed" in str(thing)]
