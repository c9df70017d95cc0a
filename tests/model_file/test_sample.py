"""Rows of ``partial_fit`` in a file: they go on as if they had never left, or are refused."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant
from calibrant import errors
from calibrant.model_file import _format as frame_module
from calibrant.model_file import describe, digest, dumps, load, loads, save
from calibrant.scale import RowSample
from hostile_files.frame import take_apart
from hostile_files.judge import MEMORY_PER_BYTE, cost, storm
from model_file.catalogue import assert_same_calibrator, breaks, make, quietly, scores_of

GOLDEN = Path(__file__).parent / "golden"
SCORES, Y = scores_of(n_rows=600)
LOGITS = np.log(SCORES)
WEIGHT = np.random.default_rng(0).choice([0.0, 0.3, 1.0, 2.0, 5.5], 600)
N_KEPT = int(np.count_nonzero(WEIGHT[:200]))
"""Rows of two days."""

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")


def days(calibrator, scores=SCORES, y=Y, weight=WEIGHT, decay=1.0, n_days=2):
    """A calibrator after some days of a hundred rows each, without a warning of few rows."""
    for day in range(n_days):
        own = slice(100 * day, 100 * (day + 1))
        quietly(calibrator.partial_fit, scores[own], y[own], sample_weight=weight[own], decay=decay)
    return calibrator


def cut(max_cells=240, decay=1.0):
    """A calibrator whose sample does not hold every row."""
    sample = RowSample([0, 1, 2], max_cells=max_cells)
    for own in (slice(0, 150), slice(150, 400)):
        sample.scale(decay).update(SCORES[own], Y[own], WEIGHT[own])
    calibrator = quietly(calibrant.TemperatureScaling().fit, sample)
    calibrator.sample_ = sample
    return calibrator


def go_on(calibrator, decay):
    """Bytes of everything after one more day."""
    own = slice(400, 600)
    again = copy.deepcopy(calibrator)
    quietly(again.partial_fit, SCORES[own], Y[own], sample_weight=WEIGHT[own], decay=decay)
    return dumps(again, sample=True)


@pytest.mark.parametrize("decay", [1.0, 0.9])
@pytest.mark.parametrize("method", ["ts", "fir", "vs", "ir-ovr", "structured"])
def test_partial_fit_goes_on_with_the_same_bits(method, decay):
    calibrator = days(make(method), decay=decay)
    loaded = loads(dumps(calibrator, sample=True))
    assert_same_calibrator(calibrator, loaded)
    assert dumps(loaded, sample=True) == dumps(calibrator, sample=True)
    for next_decay in (1.0, 0.7):
        assert go_on(loaded, next_decay) == go_on(calibrator, next_decay)
    assert (loaded.sample_.n_rows, loaded.sample_.n_kept) == (
        calibrator.sample_.n_rows,
        calibrator.sample_.n_kept,
    )


@pytest.mark.parametrize("decay", [1.0, 0.8])
def test_a_cut_sample_goes_on_with_the_same_bits(decay):
    calibrator = cut(decay=decay)
    assert not calibrator.sample_.is_complete
    loaded = loads(dumps(calibrator, sample=True))
    assert (loaded.sample_.n_kept, loaded.sample_.max_cells) == (80, 240)
    assert go_on(loaded, 0.9) == go_on(calibrator, 0.9)
    other = RowSample([0, 1, 2], max_cells=240).update(SCORES, Y)
    merged = [copy.copy(own.sample_).merge(other).batch() for own in (calibrator, loaded)]
    for name in ("scores", "class_index", "weight", "unit"):
        assert getattr(merged[0], name).tobytes() == getattr(merged[1], name).tobytes()


@pytest.mark.parametrize(
    ("parameters", "scores", "y"),
    [
        ({"scores": "logits"}, LOGITS, Y),
        ({"scores": "positive"}, SCORES[:, 0], (Y == 0).astype(int)),
        ({"scores": "decision", "classes": ["no", "yes"]}, LOGITS[:, 0] + 1.0, Y == 0),
        ({"normalize": "rows"}, 7.0 * SCORES, Y),
        ({}, SCORES, np.array(["a", "b", "c"])[Y]),
        ({}, SCORES, np.array(["a", "b", "c"], dtype=object)[Y]),
    ],
)
def test_every_kind_of_scores_and_labels_goes_on(parameters, scores, y):
    if "classes" in parameters:
        y = np.array(parameters["classes"])[y.astype(int)]
    calibrator = days(calibrant.TemperatureScaling(**parameters), scores, y, decay=0.9)
    loaded = loads(dumps(calibrator, sample=True))
    for own in (calibrator, loaded):
        quietly(own.partial_fit, scores[200:300], y[200:300], sample_weight=WEIGHT[200:300])
    assert dumps(loaded, sample=True) == dumps(calibrator, sample=True)
    assert loaded.sample_.classes.dtype == calibrator.sample_.classes.dtype


def test_without_it_a_file_is_as_before(tmp_path):
    calibrator = days(calibrant.TemperatureScaling())
    with_rows, without = dumps(calibrator, sample=True), dumps(calibrator)
    assert take_apart(without).minor == 0
    assert "sample" not in take_apart(without).header
    assert take_apart(with_rows).minor == frame_module.WITH_SAMPLE
    assert "sample_" not in vars(loads(without))
    plain = copy.copy(calibrator)
    del plain.sample_
    assert dumps(plain) == without
    with breaks("savable", match="holds no rows, which only partial_fit keeps"):
        dumps(plain, sample=True)
    path = tmp_path / "model.calibrant"
    assert save(calibrator, path, sample=True) == digest(calibrator, sample=True)
    assert path.read_bytes() == with_rows
    assert describe(path)["sample"] == {"n_rows": N_KEPT, "n_kept": N_KEPT}
    assert describe(path)["format"] == "1.1"
    save(calibrator, path)
    assert (describe(path)["sample"], describe(path)["format"]) == (None, "1.0")
    with pytest.warns(errors.ForgottenRowsWarning):
        load(path).partial_fit(SCORES, Y)


def test_a_golden_file_goes_on_for_ever(monkeypatch):
    path = GOLDEN / "ts-sample.calibrant"
    expected = json.loads(path.with_suffix(".json").read_text())
    calibrator = load(path, sha256=expected["sha256"])
    assert repr(calibrator.sample_) == "RowSample(30 kept of 50 rows, 3 classes)"
    monkeypatch.setattr(frame_module, "__version__", describe(path)["library"].split()[1])
    assert dumps(calibrator, sample=True) == path.read_bytes()
    rows, y = np.array(expected["rows"]), np.array(expected["y"])
    quietly(calibrator.partial_fit, rows, y, decay=0.5)
    assert calibrator.temperature_ == pytest.approx(expected["temperature"], rel=1e-9)
    assert calibrator.sample_.batch().weight.tolist() == expected["weight"]


@st.composite
def histories(draw):
    """A few updates of few distinct rows, with weights of all kinds and decays between them."""
    k = draw(st.integers(2, 3))
    rows = st.lists(st.integers(1, 3), min_size=k, max_size=k)
    weights = st.sampled_from([0.25, 0.3, 1.0, 2.0, 1.25])
    row = st.tuples(rows, st.integers(0, k - 1), weights)
    steps = st.tuples(
        st.sampled_from([1.0, 0.8, 0.5, 1e-200]), st.lists(row, min_size=1, max_size=12)
    )
    return k, draw(st.integers(1, 8)) * k, draw(st.lists(steps, min_size=2, max_size=5))


def counted(sample, steps):
    for decay, rows in steps:
        scores = np.array([own for own, _, _ in rows], dtype=float)
        scores /= scores.sum(axis=1, keepdims=True)
        labels, weight = [label for _, label, _ in rows], [own for _, _, own in rows]
        sample.scale(decay).update(scores, labels, weight)
    return sample


@given(histories(), st.integers(0, 4))
@settings(max_examples=300, deadline=None)
def test_any_sample_has_a_state_that_goes_on_as_it_does(history, n_before):
    k, max_cells, steps = history
    sample = counted(RowSample(range(k), max_cells=max_cells), steps[:n_before])
    again = RowSample.from_state(sample.state()) if n_before else sample
    one, two = (counted(own, steps[n_before:]).state() for own in (copy.copy(sample), again))
    assert one.keys() == two.keys()
    for name, value in one.items():
        assert np.asarray(value).tobytes() == np.asarray(two[name]).tobytes(), name


def test_the_limits_of_memory_hold_for_rows():
    rng = np.random.default_rng(0)
    p = rng.random(200_000)
    rows, y = np.column_stack([1.0 - p, p]), (rng.random(200_000) < p).astype(int)
    data = dumps(calibrant.TemperatureScaling().partial_fit(rows, y), sample=True)
    assert cost(data) <= MEMORY_PER_BYTE * len(data)


# What a forger may try.


def put(name, place, value):
    """Change a number of an array."""

    def forge(frame):
        values = frame.array(f"sample/{name}")
        values[place] = value
        frame.put(f"sample/{name}", values)

    return forge


def shortened(name):
    return lambda frame: frame.replace_array(f"sample/{name}", frame.array(f"sample/{name}")[:-1])


def put_in_header(name, value):
    return lambda frame: frame.header["sample"].update({name: value})


def swap_hashes(frame):
    values = frame.array("sample/hashes")
    frame.put("sample/hashes", np.concatenate([values[1::-1], values[2:]]))


def repeat_a_row(frame):
    for name in ("rows", "hashes", "class_index", "weight", "times"):
        values = frame.array(f"sample/{name}")
        values[1] = values[0]
        frame.put(f"sample/{name}", values)


def flat(frame):
    frame.replace_array("sample/rows", frame.array("sample/rows").reshape(-1))


def of_version_0(frame):
    frame.minor = 0


def without_a_fit(frame):
    frame.part().update(fitted=None, classes=None, feature_names=None)


VALUE, HEADER, LAYOUT = "fitted", "fields", "arrays"
FORGED = {
    "a score above one": (put("rows", (3, 0), 1.5), VALUE, r"scores\[3, 0\] is 1.5"),
    "a score that is no number": (put("rows", (3, 0), np.nan), VALUE, "NaN or infinity"),
    "a row that sums to 0.9": (put("rows", 3, [0.3, 0.3, 0.3]), VALUE, "sums to 0.9"),
    "a negative zero": (put("rows", 0, [-0.0, 0.25, 0.75]), VALUE, "simplex|-0.0"),
    "a label beyond the classes": (put("class_index", -1, 3), VALUE, "not among"),
    "a weight of zero": (put("weight", 3, 0.0), VALUE, "weight 0"),
    "a negative weight": (put("weight", 3, -1.0), VALUE, "not negative"),
    "a huge weight": (put("weight", 3, 1e60), VALUE, "too large a weight"),
    "half a count": (put("times", 3, 1.5), VALUE, "no positive whole number"),
    "a count that is not in the total": (put("times", 3, 50.0), VALUE, "less weight than"),
    "rows in another order": (swap_hashes, VALUE, "not in their order"),
    "a row twice": (repeat_a_row, VALUE, "not distinct"),
    "a row above its bound": (put("bounds", 0, 5), VALUE, "above the bound"),
    "a total below the rows": (put("counts", 1, 1.0), VALUE, "less weight than its"),
    "a total above the rows": (put("counts", 1, 1e6), VALUE, "more weight than these"),
    "half a whole weight": (put("counts", 1, 0.5), VALUE, "no whole number"),
    "a rest that is not exact": (put("rests", (1, 1), 0.5), VALUE, "no exact sum"),
    "fewer rows than are kept": (put_in_header("n_rows", 3), VALUE, "n_rows=3 must be"),
    "no room for the classes": (put_in_header("max_cells", 2), VALUE, "max_cells=2 must be"),
    "a number of rows that is true": (put_in_header("n_rows", True), HEADER, "of type bool"),
    "an unknown field": (put_in_header("colour", "blue"), HEADER, "'colour'"),
    "fewer labels than rows": (shortened("class_index"), VALUE, "shapes"),
    "fewer bounds than classes": (shortened("bounds"), VALUE, "shapes"),
    "rows without columns": (flat, LAYOUT, "1 dimensions"),
    "rows in a file of version 1.0": (of_version_0, HEADER, r"1\.0 has no field 'sample'"),
    "rows without a fit": (without_a_fit, "parts", "no fitted calibrator"),
}


@pytest.mark.parametrize(("forge", "rule", "words"), FORGED.values(), ids=FORGED)
def test_a_forged_sample_is_refused(forge, rule, words):
    frame = take_apart(dumps(days(calibrant.TemperatureScaling()), sample=True))
    assert loads(frame.assemble()).sample_.n_kept == N_KEPT
    forge(frame)
    with pytest.raises(errors.ModelFileError, match=words) as caught:
        loads(frame.assemble())
    assert caught.value.rule == rule
    assert len(str(caught.value)) < 500


def test_what_a_cut_sample_may_not_claim():
    whole = take_apart(dumps(cut(), sample=True))
    assert whole.array("sample/bounds").tolist() != [-1, -1, -1]
    put("bounds", slice(None), -1)(whole)
    with breaks("fitted", match="more weight than these"):
        loads(whole.assemble())


def test_damaged_samples_are_refused_or_harmless():
    files = [dumps(own, sample=True) for own in (days(calibrant.TemperatureScaling()), cut())]
    outcomes = storm(files, 400, "samples", 20)
    assert min(outcomes["fitted"], outcomes["loaded"]) > 20


def test_rows_of_another_calibrator_are_not_saved():
    calibrator = days(calibrant.TemperatureScaling())
    calibrator.normalize = "rows"
    with breaks("savable", match="other classes, scores or normalize"):
        dumps(calibrator, sample=True)
    calibrator.normalize = None
    calibrator.sample_._counts[0] += 1.0
    with breaks("fitted", match="more weight than these"):
        dumps(calibrator, sample=True)
    calibrator.sample_ = {"rows": 3}
    with breaks("savable", match="sample_ is a dict"):
        dumps(calibrator, sample=True)
    calibrator.sample_ = RowSample([0, 1, 2])
    with breaks("savable", match="sample_ has no rows"):
        dumps(calibrator, sample=True)
