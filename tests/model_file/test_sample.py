"""Rows of ``partial_fit`` in a file: they go on as if they had never left, or are refused."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant
from calibrant.model_file import describe, dumps, loads, save
from calibrant.scale import RowSample
from hostile_files.cases import arrays, header, numbers
from hostile_files.frame import take_apart
from hostile_files.judge import judge, storm
from model_file.catalogue import assert_same_calibrator, breaks, make, quietly, scores_of

SCORES, Y = scores_of(n_rows=600)
LOGITS = np.log(SCORES)
WEIGHT = np.random.default_rng(0).choice([0.0, 0.3, 1.0, 2.0, 5.5], 600)

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")


def count_day(calibrator, day, decay=1.0, scores=SCORES, y=Y):
    """Count a hundred rows more."""
    rows = slice(100 * day, 100 * (day + 1))
    return quietly(
        calibrator.partial_fit, scores[rows], y[rows], sample_weight=WEIGHT[rows], decay=decay
    )


def daily(method="ts", decay=1.0):
    """A calibrator after two days, which holds all of their rows."""
    calibrator = make(method)
    for day in range(2):
        count_day(calibrator, day, decay)
    return calibrator


def cut(decay=1.0):
    """A calibrator whose sample does not hold every row."""
    sample = RowSample([0, 1, 2], max_cells=240)
    for rows in (slice(0, 150), slice(150, 400)):
        sample.scale(decay).update(SCORES[rows], Y[rows], WEIGHT[rows])
    calibrator = quietly(calibrant.TemperatureScaling().fit, sample)
    calibrator.sample_ = sample
    return calibrator


@pytest.mark.parametrize("decay", [1.0, 0.9])
@pytest.mark.parametrize("method", ["ts", "fir", "structured", "cut"])
def test_partial_fit_goes_on_with_the_same_bits(method, decay):
    calibrator = cut(decay) if method == "cut" else daily(method, decay)
    loaded = loads(dumps(calibrator, sample=True))
    assert_same_calibrator(calibrator, loaded)
    assert repr(loaded.sample_) == repr(calibrator.sample_)
    for one in (calibrator, loaded):
        count_day(one, 4, 0.7)
    assert dumps(loaded, sample=True) == dumps(calibrator, sample=True)


@pytest.mark.parametrize(
    ("parameters", "scores", "y"),
    [
        ({"scores": "logits"}, LOGITS, Y),
        ({"scores": "positive"}, SCORES[:, 0], (Y == 0).astype(int)),
        ({"scores": "decision"}, LOGITS[:, 0], Y == 0),
        ({"normalize": "rows"}, 7.0 * SCORES, Y),
        ({}, SCORES, np.array(["a", "b", "c"], dtype=object)[Y]),
    ],
)
def test_every_kind_of_scores_and_labels_goes_on(parameters, scores, y):
    calibrator = count_day(calibrant.TemperatureScaling(**parameters), 0, 1.0, scores, y)
    loaded = loads(dumps(calibrator, sample=True))
    for one in (calibrator, loaded):
        count_day(one, 1, 0.9, scores, y)
    assert dumps(loaded, sample=True) == dumps(calibrator, sample=True)


def test_without_it_a_file_has_no_rows(tmp_path):
    path, calibrator = tmp_path / "model.calibrant", daily()
    assert not hasattr(loads(dumps(calibrator)), "sample_")
    assert "sample" not in take_apart(dumps(calibrator)).header
    save(calibrator, path, sample=True)
    assert path.read_bytes() == dumps(calibrator, sample=True)
    n_kept = int(np.count_nonzero(WEIGHT[:200]))
    assert describe(path)["sample"] == {"n_rows": n_kept, "n_kept": n_kept}
    assert describe(path)["format"] == "1.1"
    save(calibrator, path)
    assert (describe(path)["sample"], describe(path)["format"]) == (None, "1.1")


@st.composite
def histories(draw):
    """A few updates of few distinct rows, with weights of all kinds and decays between them."""
    k = draw(st.integers(2, 3))
    weights = st.sampled_from([0.25, 0.3, 1.0, 2.0])
    row = st.tuples(
        st.lists(st.integers(1, 3), min_size=k, max_size=k), st.integers(0, k - 1), weights
    )
    day = st.tuples(st.sampled_from([1.0, 0.8, 1e-200]), st.lists(row, min_size=1, max_size=12))
    return k, draw(st.integers(1, 8)) * k, draw(st.lists(day, min_size=2, max_size=5))


def counted(sample, days):
    for decay, rows in days:
        scores = np.array([parts for parts, _, _ in rows], dtype=float)
        labels, weight = [label for _, label, _ in rows], [own for _, _, own in rows]
        sample.scale(decay).update(scores / scores.sum(axis=1, keepdims=True), labels, weight)
    return sample


@given(histories(), st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_any_sample_has_a_state_that_goes_on_as_it_does(history, n_before):
    k, max_cells, days = history
    sample = counted(RowSample(range(k), max_cells=max_cells), days[:n_before])
    again = RowSample.from_state(
        sample.state(),
        range(k),
        n_rows=sample.n_rows,
        scores="probabilities",
        normalize=None,
        max_cells=max_cells,
    )
    one, two = (counted(own, days[n_before:]).state() for own in (copy.copy(sample), again))
    assert [array.tobytes() for array in one] == [array.tobytes() for array in two]


def shortened(name):
    """Drop the last entry of an array."""
    return lambda f: f.replace_array(f"sample/{name}", f.array(f"sample/{name}")[:-1])


def entry(**fields):
    """Set fields of the sample in the header."""
    return lambda f: f.header["sample"].update(fields)


FORGED = {
    "a score above one": ("fitted", numbers("rows", (3, 0), 1.5)),
    "a score that is no number": ("fitted", numbers("rows", (3, 0), np.nan)),
    "a row off the simplex": ("fitted", numbers("rows", 3, [0.3, 0.3, 0.401])),
    "a label beyond the classes": ("fitted", numbers("class_index", -1, 3)),
    "a weight of zero": ("fitted", numbers("weight", 3, 0.0)),
    "a negative weight": ("fitted", numbers("weight", 3, -1.0)),
    "a huge weight": ("fitted", numbers("weight", 3, 1e300)),
    "half a count": ("fitted", numbers("times", 3, 1.5)),
    "a count that is not in the total": ("fitted", numbers("times", 3, 5000.0)),
    "a total below the rows": ("fitted", numbers("totals", (1, 0), -1e6)),
    "a total that is no number": ("fitted", numbers("totals", (1, 2), np.nan)),
    "an infinite total": ("fitted", numbers("totals", 1, np.inf)),
    "fewer rows than are kept": ("fitted", entry(n_rows=3)),
    "no room for the classes": ("fitted", entry(max_cells=2)),
    "fewer labels than rows": ("fitted", shortened("class_index")),
    "fewer bounds than classes": ("fitted", shortened("bounds")),
    "rows without columns": ("fitted", arrays(sample__rows=np.ones(24))),
    "a number of rows that is true": ("fields", entry(n_rows=True)),
    "an unknown field": ("fields", entry(colour="blue")),
    "a sample that is none": ("fields", header(sample=[])),
    "rows in a file of version 1.0": ("fields", lambda f: setattr(f, "minor", 0)),
    "an array that is missing": ("arrays", lambda f: f.entry("times").update(name="other")),
    "hashes that are fractions": ("arrays", lambda f: f.entry("hashes").update(dtype="float64")),
}


@pytest.mark.parametrize(("rule", "forge"), FORGED.values(), ids=FORGED)
def test_a_forged_sample_is_refused(rule, forge):
    frame = take_apart(dumps(daily(), sample=True))
    forge(frame)
    with breaks(rule) as caught:
        loads(frame.assemble())
    assert len(str(caught.value)) < 500


def test_forged_hashes_and_bounds_are_harmless():
    """They say which rows are kept from now on, as forged rows do."""
    frame = take_apart(dumps(cut(), sample=True))
    for change in (numbers("hashes", slice(5), 7), numbers("bounds", slice(None), 0)):
        change(frame)
        again = loads(frame.assemble())
        assert np.isfinite(count_day(again, 5).temperature_)


def test_damaged_samples_are_refused_or_harmless():
    files = [dumps(one, sample=True) for one in (daily(), cut())]
    assert {judge(data) for data in files} == {"loaded"}
    outcomes = storm(files, 300, "samples")
    assert min(outcomes["fitted"], outcomes["loaded"]) > 20


def test_what_is_no_sample_of_the_calibrator_is_not_saved():
    calibrator = daily()
    calibrator.normalize = "rows"
    with breaks("savable"):
        dumps(calibrator, sample=True)
    for none in (RowSample([0, 1, 2]), {"rows": 3}):
        calibrator.sample_ = none
        with breaks("savable"):
            dumps(calibrator, sample=True)
