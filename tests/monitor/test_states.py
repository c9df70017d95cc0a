"""States that are damaged, foreign, or edited and signed again are refused with a reason."""

import json

import numpy as np
import pytest

from calibrant import errors
from calibrant.monitor import CalibrationMonitor, _state
from monitor.streams import honest, shifted


def sign(body):
    """Text of a state with a checksum that is right, whatever is in it."""
    head = {"format": _state.FORMAT, "version": _state.VERSION, "sha256": _state._digest(body)}
    return f"{json.dumps(head)}\n{body}\n"


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """The state of a monitor with a change and groups."""
    path = tmp_path_factory.mktemp("states") / "state.json"
    rng, monitor = np.random.default_rng(0), CalibrationMonitor(model="a")
    for power in (1.0, 0.3, 0.3):
        p, y = shifted(rng, 500, 3, power=power)
        monitor.update(p, y, np.arange(500), groups=np.arange(500) % 2, batch=str(p[0]))
    monitor.update_unlabelled(honest(rng, 50, 3)[0])
    assert monitor.status().changes
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
    assert "calibrant.monitor, version 4" in refused(path, f"{newer}\n{body}")
    for other in ("", '{"a": 1}\n', "[" * 100_000, '{"a":' * 100_000, "[]", "3", "null", '"text"'):
        refused(path, other)
        refused(path, sign(other))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(errors.StatisticsError, match="is not the state of a monitor"):
        CalibrationMonitor.load(path)


def spots(node):
    """Every key of a tree with the object that has it; an array is one value."""
    for key, value in node.items():
        yield node, key
        if isinstance(value, dict) and "base64" not in value:
            yield from spots(value)


WRONG = [True, -1.5, 10**400, "x", [], {}, [None], {"a": "b"}, float("inf")]
WRONG += [{"dtype": "<f8", "shape": [1], "base64": "AAAAAAAA8H8="}]


def test_values_of_another_type_or_shape_are_refused(tmp_path, text):
    """Each field in turn is left out, and replaced by a value that it cannot have."""
    path, state = tmp_path / "state.json", json.loads(text.split("\n", 1)[1])
    free = state["_digests"]["known"], state["_groups"]  # which have any number of names
    checked = [spot for spot in spots(state) if not any(spot[0] is own for own in free)]
    assert len(checked) > 100
    for number, (node, key) in enumerate(checked):
        kept = node.pop(key)
        refused(path, sign(json.dumps(state)))
        others = [other for other in WRONG if type(other) is not type(kept)]
        number_or_name = kept is None or isinstance(kept, float | str)
        node[key] = [[[]]] if number_or_name else others[number % len(others)]
        refused(path, sign(json.dumps(state)))
        node[key] = kept
    path.write_text(sign(json.dumps(state)))
    assert CalibrationMonitor.load(path).status().n_rows == 1500


def test_a_state_knows_its_model(tmp_path, text):
    path = tmp_path / "state.json"
    path.write_text(text)
    assert CalibrationMonitor.load(path, model="a").model == "a"
    assert CalibrationMonitor.load(path).model == "a"
    with pytest.raises(errors.StatisticsError, match=r"of the model a, not of two.*new state"):
        CalibrationMonitor.load(path, model="two")
    CalibrationMonitor().save(path)
    assert CalibrationMonitor.load(path, model="two").model == "two"
