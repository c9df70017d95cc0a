"""States that are damaged, foreign or of another model are refused with a reason."""

import json

import numpy as np
import pytest

from calibrant import errors
from calibrant.monitor import CalibrationMonitor
from monitor.streams import shifted


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """The state of a monitor with a change."""
    path = tmp_path_factory.mktemp("states") / "state.json"
    rng, monitor = np.random.default_rng(0), CalibrationMonitor(model="a")
    for power in (1.0, 0.3, 0.3):
        p, y = shifted(rng, 500, 3, power=power)
        monitor.update(p, y, np.arange(500), batch=str(p[0]))
    assert monitor.status().change_row
    monitor.save(path)
    return path.read_text()


def refused(path, text):
    """Return why a text is refused."""
    path.write_text(text)
    with pytest.raises(errors.StatisticsError, match="is not the state of a monitor") as caught:
        CalibrationMonitor.load(path)
    assert str(path) in str(caught.value)
    assert "restore it from a backup" in str(caught.value)
    return str(caught.value)


def test_damaged_and_foreign_texts_are_refused(tmp_path, text):
    path = tmp_path / "state.json"
    head, body = text.split("\n", 1)
    newer = json.dumps(json.loads(head) | {"version": 99})
    assert "checksum" in refused(path, text.replace('"alpha":0.01', '"alpha":0.02'))
    assert "calibrant.monitor, version 5" in refused(path, f"{newer}\n{body}")
    for other in ("", '{"a": 1}\n', "[" * 100_000, '{"a":' * 100_000, "[]", "3", "null", '"text"'):
        refused(path, other)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(errors.StatisticsError, match="is not the state of a monitor"):
        CalibrationMonitor.load(path)


def test_a_state_knows_its_model(tmp_path, text):
    path = tmp_path / "state.json"
    path.write_text(text)
    assert CalibrationMonitor.load(path, model="a").model == "a"
    assert CalibrationMonitor.load(path).model == "a"
    with pytest.raises(errors.StatisticsError, match=r"of the model a, not of two.*new state"):
        CalibrationMonitor.load(path, model="two")
    CalibrationMonitor().save(path)
    assert CalibrationMonitor.load(path, model="two").model == "two"
