"""States that were edited and signed again: refused with a reason, or monitors that go on."""

import base64
import copy
import json
import random

import numpy as np
import pytest

from calibrant import errors
from calibrant.monitor import CalibrationMonitor, _state, write_page
from monitor.streams import honest, shifted

WRONG = [None, True, -1, 0, 1, 2.5, -1e300, 1e308, 10**400, "", "x", [], {}, [None], [[[]]]]
WRONG += [float("nan"), float("inf"), {"dtype": "<f8", "shape": [1], "base64": "AAAAAAAA8D8="}]


def sign(state):
    """Text of a state with a checksum that is right, whatever is in it."""
    body = json.dumps(state)
    head = {"format": _state.FORMAT, "version": _state.VERSION, "sha256": _state._digest(body)}
    return f"{json.dumps(head)}\n{body}\n"


def read(path):
    return json.loads(path.read_text().split("\n", 1)[1])


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """Raw states: of a change and groups, and of rows without labels alone."""
    folder, found = tmp_path_factory.mktemp("states"), []
    rng = np.random.default_rng(0)
    full, empty = CalibrationMonitor(model="a"), CalibrationMonitor(classes=list("ab"))
    for power in (1.0, 0.3, 0.3):
        p, y = shifted(rng, 500, 3, power=power)
        told = {"time": np.arange(500), "groups": np.arange(500) % 2, "batch": str(p[0])}
        full.update(p, y, **told)
    full.update_unlabelled(honest(rng, 50, 3)[0])
    empty.update_unlabelled(honest(rng, 50, 2)[0])
    assert full.status().changes
    for monitor in (full, empty):
        monitor.save(folder / "state.json")
        found.append(read(folder / "state.json"))
    return found


def spots(node):
    """Every container of a tree with each of its keys."""
    for key in node if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], dict | list) and node[key]:
            yield from spots(node[key])


def mutate(state, rng):
    """Replace, remove, exchange or scale what one spot of the tree holds."""
    state = copy.deepcopy(state)
    node, key = rng.choice(list(spots(state)))
    value, how = node[key], rng.randrange(4)
    if isinstance(value, dict) and "base64" in value and rng.random() < 0.8:
        data = np.frombuffer(base64.b64decode(value["base64"]), value["dtype"]).copy()
        if len(data):
            bad = [np.nan, np.inf, -1.0, 1e9, -1e200, 0.0, 3.0]
            with np.errstate(all="ignore"):
                data[rng.randrange(len(data))] = np.float64(rng.choice(bad)).astype(data.dtype)
        value["base64"] = base64.b64encode(data.tobytes()).decode()
    elif how == 0 and isinstance(value, int | float):
        node[key] = value * rng.choice([-1, 2, 1e6, 0.5]) + rng.choice([0, 1])
    elif how == 1:
        del node[key]
    elif how == 2:
        other, place = rng.choice(list(spots(state)))
        node[key] = copy.deepcopy(other[place])
    else:
        node[key] = rng.choice(WRONG)
    return state


@pytest.mark.filterwarnings("error")
@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
def test_signed_states_are_refused_or_go_on(states, tmp_path):
    refused, used, path = 0, 0, tmp_path / "state.json"
    rng = np.random.default_rng(1)
    for seed in range(300):
        state = mutate(states[seed % 2 if seed % 10 == 1 else 0], random.Random(seed))
        path.write_text(sign(state))
        try:
            monitor = CalibrationMonitor.load(path)
        except errors.StatisticsError as error:
            refused += str(path) in str(error) and "restore it from a backup" in str(error)
            continue
        used += 1
        k = 3 if monitor.classes_ is None else len(monitor.classes_)
        p, y = honest(rng, 60, k)
        labels = y if monitor.classes_ is None else monitor.classes_[y]
        try:
            monitor.update(p, labels, groups=np.arange(60) % 2)
            monitor.update_unlabelled(honest(rng, 30, k)[0])
            monitor.save(path)
            CalibrationMonitor.load(path)
            if seed % 20 == 0:
                write_page(tmp_path / "page.html", monitor)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    assert refused + used == 300
    assert min(refused, used) > 20


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[]", "3", "null", '"text"'])
def test_texts_that_are_no_states(tmp_path, text):
    path = tmp_path / "state.json"
    for whole in (text, sign({})[: -len("{}\n")] + text):
        path.write_text(whole)
        with pytest.raises(errors.StatisticsError, match="is not the state of a monitor"):
            CalibrationMonitor.load(path)
    head = {"format": _state.FORMAT, "version": _state.VERSION, "sha256": _state._digest(text)}
    path.write_text(f"{json.dumps(head)}\n{text}\n")
    with pytest.raises(errors.StatisticsError, match="is not the state of a monitor"):
        CalibrationMonitor.load(path)


def test_a_state_knows_its_model(tmp_path):
    path = tmp_path / "state.json"
    monitor = CalibrationMonitor(model="one")
    monitor.update(*honest(np.random.default_rng(0), 100, 3))
    monitor.save(path)
    assert CalibrationMonitor.load(path, model="one").model == "one"
    assert CalibrationMonitor.load(path).model == "one"
    with pytest.raises(errors.StatisticsError, match=r"of the model one, not of two.*new state"):
        CalibrationMonitor.load(path, model="two")
    CalibrationMonitor().save(path)
    assert CalibrationMonitor.load(path, model="two").model == "two"
    with pytest.raises(errors.ParameterError, match="model=3 must be text"):
        CalibrationMonitor(model=3)
