import re

import pytest

from calibrant.calibrators.methods import METHODS
from calibrant.cli import demo


@pytest.fixture(scope="module")
def printed():
    with pytest.MonkeyPatch.context() as patch:
        lines = []
        patch.setattr("rich.console.Console.print", lambda _, thing, **__: lines.append(thing))
        assert demo.main() == 0
    return lines


def test_table_has_a_row_for_each_method_and_the_uncalibrated(printed):
    assert printed[0].row_count == len(METHODS) + 1


def test_every_column_marks_its_best(printed):
    for column in printed[0].columns[1:-1]:
        cells = [re.sub(r"\[.*?\]", "", cell) for cell in column.cells]
        values = [float(cell.strip(" *")) for cell in cells]
        starred = {float(cell.strip(" *")) for cell in cells if cell.endswith("*")}
        assert starred == {max(values) if "accuracy" in column.header else min(values)}


def test_summary_is_two_lines_about_the_table(printed):
    first, second = printed[1].splitlines()
    assert re.search(r"over-confident by \d+ points", first)
    assert "best NLL" in second
    assert "conf-ECE" in second
