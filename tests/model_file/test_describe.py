"""What a file holds, in plain values."""

import json

import calibrant
from calibrant.model_file import describe, save
from model_file.catalogue import METHODS, fitted, scores_of


def test_a_description_says_what_is_in_the_file(tmp_path):
    path = tmp_path / "model.calibrant"
    scores, y = scores_of()
    calibrator = calibrant.TemperatureScaling(tol=1e-6).fit(scores, y)
    digest = save(calibrator, path)
    found = describe(path)
    assert found["method"] == "ts"
    assert found["class"] == "TemperatureScaling"
    assert found["parameters"]["tol"] == 1e-6
    assert found["classes"] == [0, 1, 2]
    assert found["n_classes"] == 3
    assert found["fitted"]["inverse_temperature_"] == calibrator.inverse_temperature_
    assert found["reports"]["solver_report_"]["solver"] == "newton"
    assert found["parts"] == []
    assert found["arrays"] == {"vector/0": ("int64", (3,))}
    assert found["bytes"] == path.stat().st_size
    assert found["format"] == "1.0"
    assert found["library"] == f"calibrant {calibrant.__version__}"
    assert found["sha256"] == digest


def test_every_description_is_json(tmp_path):
    path = tmp_path / "model.calibrant"
    for method in METHODS:
        save(fitted(method), path)
        assert json.loads(json.dumps(describe(path)))["method"] == method
