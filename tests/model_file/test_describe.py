"""What a file holds, in plain values, and what the page says of it."""

import json
from pathlib import Path

import calibrant
from calibrant._maps.logits import MAX_KNOTS
from calibrant.model_file import _format as frame
from calibrant.model_file import describe, save
from conftest import needs_pages
from model_file.catalogue import METHODS, fitted, scores_of


def test_a_description_says_what_is_in_the_file(tmp_path):
    path = tmp_path / "model.calibrant"
    scores, y = scores_of()
    calibrator = calibrant.TemperatureScaling(tol=1e-6).fit(scores, y)
    digest = save(calibrator, path)
    found = describe(path)
    assert found["parameters"]["tol"] == 1e-6
    assert found["reports"]["solver_report_"]["solver"] == "newton"
    assert found["fitted"]["inverse_temperature_"] == calibrator.inverse_temperature_
    del found["parameters"], found["reports"], found["fitted"]
    what = {"method": "ts", "class": "TemperatureScaling", "classes": [0, 1, 2], "n_classes": 3}
    library = f"calibrant {calibrant.__version__}"
    file = {"format": "1.1", "library": library, "bytes": path.stat().st_size, "sha256": digest}
    assert found == what | file | {"parts": [], "sample": None}


def test_every_description_is_json(tmp_path):
    path = tmp_path / "model.calibrant"
    for method in METHODS:
        save(fitted(method), path)
        assert json.loads(json.dumps(describe(path)))["method"] == method


def test_a_description_says_what_each_part_is_for(tmp_path):
    save(fitted("auto"), tmp_path / "model.calibrant")
    parts = describe(tmp_path / "model.calibrant")["parts"]
    assert [part["role"] for part in parts[:4]] == ["paths_"] * 4
    assert (parts[-1]["role"], parts[-1]["method"]) == ("shared_part_", "ts")


@needs_pages
def test_the_page_has_the_frame_and_the_limits_of_the_code():
    page = Path(__file__).parents[2] / "docs" / "reference" / "model-files.md"
    told = [
        frame.MAGIC.hex(" ").upper(),
        f"version {frame.MAJOR}.{frame.MINOR}",
        f"{frame.MAX_FILE // 2**30} GiB",
        f"{frame.MAX_HEADER // 2**20} MiB",
        f"| arrays | {frame.MAX_ARRAYS};",
        f"2 to {frame.MAX_CLASSES:,}",
        f"{frame.MAX_LABEL:,} bytes",
        f"{frame.MAX_LABEL_TABLE // 2**20} MiB",
        f"nested {frame.MAX_NESTING} deep",
        f"| binary maps (one-vs-rest, sCW, M2B) | {frame.MAX_MAPS:,} |",
        f"| cells of one row | {frame.MAX_CELLS:,};",
        f"| knots of a spline | {MAX_KNOTS:,} |",
    ]
    assert [words for words in told if words not in page.read_text()] == []
