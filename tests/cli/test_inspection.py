"""``calibrant inspect`` can be read: a fact in a line, parts indented, classes said once."""

import numpy as np
import pytest

import calibrant
from calibrant._cli.showing import inspection_text
from calibrant.model_file import describe, save
from conftest import simulate
from model_file.catalogue import METHODS, fitted, scores_of


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.calibrant"


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_told_in_short_lines(path, method):
    save(fitted(method), path)
    found = describe(path)
    text = inspection_text(found)
    lines = text.splitlines()
    assert lines[0].split() == ["method", method]
    assert lines[-1].split() == ["sha256", found["sha256"]]
    assert max(map(len, lines)) <= 110
    assert not any(sign in text for sign in "{}")
    assert "None" not in text
    assert sum(line.split()[0] == "classes" for line in lines) == 1
    parts = [line for line in lines if line.lstrip().startswith("part ")]
    assert [line.split()[2] for line in parts if line.startswith("part ")] == [
        part["method"] for part in found["parts"]
    ]


def test_the_search_of_the_automatic_choice_is_a_table(path):
    scores, y = scores_of()
    calibrator = calibrant.AutoCalibrator(candidates=("na-fir",), cv=2).fit(scores, y)
    save(calibrator, path)
    lines = inspection_text(describe(path)).splitlines()
    (head,) = [i for i, line in enumerate(lines) if line.split()[:2] == ["path", "nll"]]
    rows = lines[head + 1 : head + 1 + len(calibrator.report_.candidates)]
    for row, candidate in zip(rows, calibrator.report_.candidates, strict=True):
        assert row.strip().startswith(candidate.path)
        assert f"{candidate.nll:.4g}" in row
    assert len({len(row) for row in rows}) == 1


def test_many_classes_are_counted_and_names_cannot_leave_their_line(path):
    names = np.array([f"a class\nof a long name\x1b[2J {i:03d}" for i in range(30)])
    scores, y = simulate(600, 30)
    save(calibrant.TemperatureScaling(classes=names).fit(scores, names[y]), path)
    text = inspection_text(describe(path))
    (line,) = [line for line in text.splitlines() if line.startswith("classes")]
    assert line.endswith("(30 in all)")
    assert len(line) < 110
    assert "\x1b" not in text
