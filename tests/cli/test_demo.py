import re

import pytest

from calibrant._calibrators.methods import methods
from calibrant._cli.main import run


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("demo"))
        lines = []
        patch.setattr("rich.console.Console.print", lambda _, thing, **__: lines.append(thing))
        assert run(["demo"]) == 0
    return lines


def test_the_table_has_all_methods_and_marks_the_best(printed):
    table, *lines = printed[1].renderables
    assert table.row_count == len(methods()) + 1
    for column in table.columns[1:-1]:
        cells = [str(cell) for cell in column.cells]
        values = [float(cell.strip(" *")) for cell in cells]
        starred = {float(cell.strip(" *")) for cell in cells if cell.endswith("*")}
        assert starred == {max(values) if "accuracy" in column.header else min(values)}
    assert not [line for line in lines if "failed" in str(line)]
    assert "over-confident by" in str(lines[0])
    assert re.fullmatch(r"Report: file://.*/calibrant-demo\.html", printed[-1])
