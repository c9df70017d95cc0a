"""``CalibrationMonitor``: what users pass, what is refused, what is kept and told."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from calibrant import errors
from calibrant.monitor import CalibrationMonitor, write_page
from calibrant.monitor._evidence import MeanSequence
from conftest import refuses
from monitor.streams import calibrated, shifted

NAMES = np.array(["ant", "bee", "cow"])
DATES = np.array(["2026-01-05", "2026-01-06", "2026-01-07"], dtype="datetime64[D]")


@pytest.fixture
def rows():
    return calibrated(np.random.default_rng(0), 400, 3)


def test_containers_labels_and_columns_agree(rows):
    p, y = rows
    plain = CalibrationMonitor().update(p, y)
    assert plain.accuracy.value == np.mean(p.argmax(axis=1) == y)
    assert plain.confidence.value == pytest.approx(p.max(axis=1).mean())
    assert plain.accuracy.low < plain.accuracy.value < plain.accuracy.high
    frame = pd.DataFrame(p, columns=NAMES, index=np.arange(400)[::-1])[["cow", "ant", "bee"]]
    labels = pd.Series(NAMES[y], index=np.arange(400) + 7)
    with pytest.warns(errors.ColumnOrderWarning):
        named = CalibrationMonitor().update(frame, labels)
    as_lists = CalibrationMonitor().update(p.tolist(), NAMES[y].tolist())
    for status in (named, as_lists):
        assert status.log_e_value == pytest.approx(plain.log_e_value, abs=1e-12)


def test_intervals_hold_at_all_times():
    """Two hundred streams, looked at twenty times each: misses at 0.05 are far fewer."""
    missed = 0
    for seed in range(200):
        p, y = calibrated(np.random.default_rng([7, seed]), 1000, 2)
        gap, found = MeanSequence(-1.0, 1.0), []
        for values in np.split((p.argmax(axis=1) == y) - p.max(axis=1), 20):
            gap.count(values)
            found.append(gap.estimate(0.05))
        missed += any(not one.low <= 0.0 <= one.high for one in found)
    assert missed <= 16


def test_what_came_though_it_was_impossible_is_bounded_evidence():
    monitor = CalibrationMonitor(classes=[0, 1, 2])
    status = monitor.update([[1.0, 0.0, 0.0]], [2])
    assert 1.0 < status.log_e_value <= -math.log(1e-6)
    assert status.alarm


@pytest.mark.parametrize(
    ("argument", "row", "options"),
    [
        ("time", None, {"time": [1.0, 2.0]}),
        ("time", None, {"time": ["2026-01-05"] * 7 + ["monday"] * 393}),
        ("time", 1, {"time": ["2026-01-05", "NaT"] * 200}),
        ("time", 1, {"time": [1.0, np.nan] * 200}),
        ("classes", None, {"y": DATES[[0, 1, 2, 0] * 100]}),
        ("scores", None, {"y": NAMES[[0] * 400]}),
        ("y", 2, {"y": [0, 1, np.nan, 2] * 100}),
        ("scores", 0, {"probabilities": np.ones((400, 3))}),
        ("scores", None, {"probabilities": np.empty((0, 3)), "y": []}),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(rows, argument, row, options):
    p, y = rows
    monitor = CalibrationMonitor()
    with refuses(argument, errors.DataError, row=row):
        monitor.update(**({"probabilities": p, "y": y} | options))
    with refuses("batch", value=7):
        monitor.update(p, y, batch=7)
    assert monitor.status().n_rows == 0
    assert monitor.update(p, y).n_rows == 400


def test_other_classes_are_refused(rows):
    monitor = CalibrationMonitor()
    monitor.update(*rows)
    with refuses("y", errors.LabelError):
        monitor.update(rows[0], rows[1] + 1)
    for update in (monitor.update_unlabelled, lambda p: monitor.update(p, [0])):
        with pytest.raises(errors.ParameterError, match="2 columns"):
            update([[0.5, 0.5]])


def test_times_of_all_kinds_agree(rows):
    times = pd.date_range("2026-01-05", periods=400, freq="min")
    seconds = (times - pd.Timestamp("1970-01-01")).total_seconds().to_numpy()
    kinds = [times, times.astype(str), times.tz_localize("UTC").tz_convert("Asia/Tokyo")]
    kinds += [times.strftime("%Y-%m-%dT%H:%M+00:00"), list(seconds)]
    p, y = rows
    order = np.random.default_rng(0).permutation(400)
    expected = CalibrationMonitor().update(p[order], y[order], time=seconds[order])
    assert expected != CalibrationMonitor().update(p, y)
    for kind in kinds:
        told = np.asarray(kind)[order]
        assert CalibrationMonitor().update(p[order], y[order], time=told) == expected


def test_parameters_are_checked():
    for alpha in (0.0, 1.0, math.nan, "0.01", True):
        with refuses("alpha"):
            CalibrationMonitor(alpha)
    with refuses("model"):
        CalibrationMonitor(model=3)
    with refuses("classes", errors.LabelError):
        CalibrationMonitor(classes=DATES)


def test_a_batch_counts_once(rows):
    p, y = rows
    monitor = CalibrationMonitor()
    before = monitor.update(p, y)
    for order in (slice(None), slice(None, None, -1), np.random.default_rng(1).permutation(400)):
        with pytest.raises(errors.RepeatedBatchError):
            monitor.update(p[order], y[order])
    assert monitor.status() == before
    assert monitor.update(p[::-1], y[::-1], again=True).n_rows == 800
    assert monitor.update(p, y, time=np.arange(400)).n_rows == 1200
    assert monitor.update(p, y, time=np.arange(400, 800)).n_rows == 1600
    for _ in range(3):  # so few kinds of rows that equal ones are common
        monitor.update(p[:5], y[:5])
        monitor.update(np.tile(p[:1], (50, 1)), [0] * 50)
    assert monitor.status().n_rows == 1600 + 3 * 55


def test_a_batch_is_known_by_its_name():
    q, y = np.repeat([0.2, 0.7], 30), np.tile([0, 1], 30)
    monitor = CalibrationMonitor(classes=[0, 1])
    monitor.update(q, y, batch="monday")
    with pytest.raises(errors.RepeatedBatchError):
        monitor.update(q, y, batch="monday")
    assert monitor.update(q, y, batch="tuesday").n_rows == 120
    assert monitor.update(q, y, batch="monday", again=True).n_rows == 180


def test_the_oldest_batches_are_forgotten(rows, monkeypatch):
    monkeypatch.setattr("calibrant.monitor._monitor.MOST_DIGESTS", 2)
    monitor = CalibrationMonitor(classes=range(3))
    p, y = rows
    for start in (0, 100, 200, 0):
        status = monitor.update(p[start : start + 100], y[start : start + 100])
    assert status.n_rows == 400


@pytest.mark.parametrize("labels", [np.arange(3), NAMES, np.array([False, True])])
def test_a_state_goes_on_where_it_was(tmp_path, labels):
    k = len(labels)
    rng = np.random.default_rng(1)
    p, y = shifted(rng, 900, k, power=0.7)
    parts = np.split(np.arange(900), 3)
    whole, resumed = CalibrationMonitor(0.02), CalibrationMonitor(0.02)
    for part in parts:
        whole.update(p[part], labels[y[part]], part)
        resumed.save(tmp_path / "state.json")
        resumed = CalibrationMonitor.load(tmp_path / "state.json")
        resumed.update(p[part], labels[y[part]], part)
    assert resumed.status() == whole.status()
    assert np.array_equal(resumed.periods_.table, whole.periods_.table)
    resumed.save(tmp_path / "again.json")
    again = CalibrationMonitor.load(tmp_path / "again.json")
    with pytest.raises(errors.RepeatedBatchError):
        again.update(p[parts[0]], labels[y[parts[0]]], parts[0])


@pytest.mark.parametrize("k", [16, 2000])
def test_the_largest_state_is_below_a_megabyte(tmp_path, k):
    monitor = CalibrationMonitor(classes=range(k))
    monitor.update(*calibrated(np.random.default_rng(k), 60, k))
    monitor._digests = ["0123456789abcdef"] * 4096
    monitor.save(tmp_path / "state.json")
    assert (tmp_path / "state.json").stat().st_size <= 1_000_000
    CalibrationMonitor.load(tmp_path / "state.json")


def test_rows_without_labels():
    rng = np.random.default_rng(3)
    monitor = CalibrationMonitor(classes=NAMES)
    p, y = calibrated(rng, 3000, 3)
    alone = monitor.update_unlabelled(p)
    assert alone.priors is None
    assert math.isnan(alone.p_value)
    monitor.update(p, NAMES[y])
    status = monitor.status()
    same = monitor.update_unlabelled(calibrated(rng, 2000, 3)[0])
    assert same.p_value > 0.01
    assert same.accuracy == pytest.approx(p.max(axis=1).mean(), abs=0.02)
    q = calibrated(rng, 6000, 3)[0]
    more = q[rng.random(6000) < q[:, 2] + 0.2]  # more rows of the third class
    report = monitor.update_unlabelled(more)
    assert report.p_value < 1e-6
    assert report.priors[2] > 0.34
    assert monitor.status() == status  # no evidence
    assert report.confusion.sum() == pytest.approx(len(more))
    top = more.argmax(axis=1)
    np.testing.assert_allclose(report.confusion[:, 1], more[top == 1].sum(axis=0))


def test_metrics_are_flat_numbers(rows):
    found = CalibrationMonitor().update(*rows).metrics()
    assert all(name.startswith("calibrant_") for name in found)
    assert all(type(value) is float and math.isfinite(value) for value in found.values())
    assert found["calibrant_n_rows"] == 400.0
    assert {"calibrant_alarm", "calibrant_gap_low", "calibrant_power"} <= found.keys()
    json.dumps(found, allow_nan=False)


def test_periods_are_few_and_add_up():
    rng = np.random.default_rng(4)
    monitor, n_rows = CalibrationMonitor(classes=range(2)), 0
    for size in rng.integers(1, 60, 400):
        p, y = calibrated(rng, size, 2)
        monitor.update(p, y, time=np.arange(n_rows, n_rows + size))
        n_rows += size
    periods = monitor.periods_
    assert len(periods.table) <= 64
    assert periods.column("rows").sum() == n_rows
    assert periods.column("log_e")[-1] == monitor.status().log_e_value
    assert periods.column("hits").sum() == pytest.approx(monitor.status().accuracy.value * n_rows)


def test_a_page_of_nothing_and_of_some_rows(tmp_path, rows):
    monitor = CalibrationMonitor(classes=range(3))
    write_page(tmp_path / "empty.html", monitor)
    text = (tmp_path / "empty.html").read_text()
    assert "No alarm" in text
    assert 'id="evidence"' not in text
    monitor.update(*rows)
    write_page(tmp_path / "page.html", monitor, source="<model & co>")
    text = (tmp_path / "page.html").read_text()
    assert "&lt;model &amp; co&gt;" in text
    assert 'id="accuracy"' in text
    assert "fitted best by the power" in text


# States of a file


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


def test_damaged_and_foreign_states_are_refused_with_a_reason(tmp_path, text):
    path = tmp_path / "state.json"
    head, body = text.split("\n", 1)
    newer = json.dumps(json.loads(head) | {"version": 99})
    faults = {
        text.replace('"alpha":0.01', '"alpha":0.02'): "checksum",
        f"{newer}\n{body}": "calibrant.monitor, version 5",
    }
    others = "", '{"a": 1}\n', "[" * 100_000, '{"a":' * 100_000, "[]", "3", "null", '"text"', "\xff"
    for content in (*faults, *others):
        path.write_text(content, encoding="latin-1")
        with pytest.raises(errors.StatisticsError, match=r"state\.json is not") as caught:
            CalibrationMonitor.load(path)
        assert faults.get(content, "") in str(caught.value)


def test_a_state_knows_its_model(tmp_path, text):
    path = tmp_path / "state.json"
    path.write_text(text)
    assert CalibrationMonitor.load(path, model="a").model == "a"
    assert CalibrationMonitor.load(path).model == "a"
    with pytest.raises(errors.StatisticsError, match="of the model a, not of two"):
        CalibrationMonitor.load(path, model="two")
    CalibrationMonitor().save(path)
    assert CalibrationMonitor.load(path, model="two").model == "two"
