"""``calibrant inspect`` can be read: a fact in a line, parts indented."""

import numpy as np

import calibrant
from calibrant._cli.reading import outline
from calibrant.model_file import describe, save
from conftest import simulate


def test_facts_stand_in_short_lines_and_parts_are_indented(tmp_path):
    save(calibrant.AutoCalibrator(cv=2).fit(*simulate(600, 4)), tmp_path / "m")
    found = describe(tmp_path / "m")
    lines = outline(found)
    assert lines[0] == "method: auto"
    assert lines[-1] == f"sha256: {found['sha256']}"
    assert max(map(len, lines)) <= 130
    assert not any(sign in "\n".join(lines) for sign in ("{", "None", "nan"))
    heads = [place for place, line in enumerate(lines) if line.startswith("parts ")]
    assert [lines[place + 1] for place in heads] == [
        f"  role: {part['role']}" for part in found["parts"]
    ]


def test_many_classes_are_cut_and_names_cannot_leave_their_line(tmp_path):
    names = np.array([f"class\n\x1b[2J {i:03d}" for i in range(30)])
    scores, y = simulate(600, 30)
    save(calibrant.TemperatureScaling(classes=names).fit(scores, names[y]), tmp_path / "m")
    lines = outline(describe(tmp_path / "m"))
    assert not any("\x1b" in line or "\n" in line for line in lines)
    assert any(line.startswith("classes: ") and line.endswith(", ...]") for line in lines)
    assert "n_classes: 30" in lines
