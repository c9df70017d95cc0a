"""``calibration_segments``: which rows, told by their features, have wrong predictions."""

import datetime as dt
import json
from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats

from calibrant import errors
from calibrant._gate._features import columns_by_name
from calibrant.metrics import Predictions, calibration_segments
from calibrant.metrics._segment_search import (
    RowErrors,
    _drift,
    _normal_scores,
    _pairs_of_conditions,
    _Scan,
)
from calibrant.metrics._segments import LEVELS, bin_feature, merge_equal_rows
from conftest import refuses


def draw(seed, n_rows=3000, error=0.2):
    """Labels, predictions, a frame of mixed features, and the rows of a planted segment."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, n_rows).astype(float)
    age[rng.random(n_rows) < 0.1] = np.nan
    frame = pd.DataFrame({"age": age, "plan": rng.choice(["prepaid", "contract"], n_rows)})
    frame["is_new"] = rng.random(n_rows) < 0.5
    frame["since"] = np.datetime64("2020-01-01", "s") + rng.integers(0, 10**8, n_rows)
    p = rng.uniform(0.02, 0.25, n_rows)
    planted = ((frame["age"] < 35) & (frame["plan"] == "prepaid")).to_numpy()
    return (rng.random(n_rows) < p + error * planted).astype(int), p, frame, planted


Y, P, FRAME, PLANTED = draw(0)
FOUND = calibration_segments(Y, P, FRAME)


def rows_of(segment, frame):
    """Whether each row meets the conditions, read literally."""
    held = np.ones(len(frame), dtype=bool)
    for feature, operator, value in segment.conditions:
        column = frame[feature]
        held &= {
            "=": lambda c, v: c == v,
            "<": lambda c, v: c < v,
            ">=": lambda c, v: c >= v,
            "is missing": lambda c, _: c.isna(),
        }[operator](column, value).to_numpy()
    return held


def test_a_planted_segment_is_found_and_described():
    worst = FOUND.segments[0]
    rows = rows_of(worst, FRAME)
    assert (rows & PLANTED).sum() > 0.6 * (rows | PLANTED).sum()
    assert worst.predicted < 0.2 < worst.observed.low < worst.observed.value < worst.observed.high
    assert worst.p_value <= FOUND.alpha
    assert worst.n_rows == rows.sum()
    assert {c.feature for c in worst.conditions} == {"age", "plan"}
    said, seen = round(100 * worst.predicted), round(100 * worst.observed.value)
    line = str(FOUND).splitlines()[0]
    assert line.startswith(f"{worst.condition}:")
    assert f"says {said} %, is {seen} % (" in line
    assert f"{worst.n_rows:.0f} rows, p < 0.001" in line


def test_it_is_a_frame_and_plain_values():
    frame = FOUND.to_frame()
    assert frame["segment"].tolist() == [own.condition for own in FOUND.segments]
    assert frame["observed_low"][0] == FOUND.segments[0].observed.low
    plain = json.loads(json.dumps(FOUND.to_dict()))
    assert plain["segments"][0]["conditions"][0]["feature"] == "age"


def test_sums_of_conditions_are_those_of_brute_force():
    rng = np.random.default_rng(1)
    columns = {"a": rng.integers(0, 12, 40).astype(float), "b": rng.choice(["u", "v", "w"], 40)}
    columns["a"][:6] = np.nan
    features = [bin_feature(name, own, np.ones(40), 1) for name, own in columns.items()]
    every = features[0]._replace(codes=np.zeros(40, int), n_bins=1, conditions=[(None, np.ones(1))])
    terms = rng.normal(size=40)
    events = Predictions.read(rng.random(40) < 0.5, np.full(40, 0.5)).events(1)
    scan = _Scan.of(RowErrors.of(events), events.weight, [every, *features], 1)
    n_rows, sums = scan.sums(np.ones(40), terms)
    frame = pd.DataFrame(columns)
    masks = [np.ones(40, dtype=bool)]
    n_cuts = features[0].n_bins - 2
    for feature in features:
        for condition, _ in feature.conditions:
            segment = type("Own", (), {"conditions": [condition]})
            masks.append(rows_of(segment, frame))
    assert len(masks) == len(n_rows) == 1 + 2 * n_cuts + 1 + 3
    for i, one in enumerate(masks):
        for j, two in enumerate(masks):
            assert n_rows[i, j] == (one & two).sum()
            assert sums[i, j] == pytest.approx(terms[one & two].sum())
    allowed = {(i, j) for i, j in zip(*_pairs_of_conditions(n_rows, 3), strict=True)}
    for i, j in combinations(range(1, len(masks)), 2):
        both = (masks[i] & masks[j]).sum()
        is_smaller = both < 0.9 * min(masks[i].sum(), masks[j].sum())
        assert ((i, j) in allowed) == (both >= 3 and is_smaller)


def test_the_largest_error_is_that_of_brute_force():
    y, p, frame, _ = draw(3, 400)
    found = calibration_segments(y, p, frame[["plan", "is_new"]], min_rows=10)
    masks = [frame[name] == value for name in ("plan", "is_new") for value in frame[name].unique()]
    masks = [np.ones(400, dtype=bool), *(own.to_numpy() for own in masks)]
    sizes = [abs((y - p)[own].sum()) / np.sqrt((p * (1 - p))[own].sum()) for own in masks]
    assert found.error == pytest.approx(max(sizes))
    null = np.random.default_rng(4).random((4000, 400)) < p
    drawn = np.max(
        [abs((null - p)[:, own].sum(1)) / np.sqrt((p * (1 - p))[own].sum()) for own in masks],
        axis=0,
    )
    assert found.error_null.value == pytest.approx(drawn.mean(), abs=0.1)
    assert found.error_p_value == pytest.approx((drawn >= found.error).mean(), abs=0.05)


@pytest.mark.parametrize(
    ("n", "p", "sign"),
    [(400, 0.02, 1), (400, 0.12, 1), (400, 0.12, -1), (100, 0.5, 1), (100, 0.9, -1)],
)
def test_statistics_are_normal_scores_of_the_exact_tail(n, p, sign):
    """A segment of equal predictions has a binomial number of events."""
    variance, third = n * p * (1 - p), n * p * (1 - p) * (1 - 2 * p)
    for wanted in (2.0, 3.0, 4.0):
        gap = round(n * p + sign * wanted * variance**0.5) - n * p
        hits = n * p + gap
        of_point = stats.binom.pmf(hits, n, p)
        beyond = stats.binom.sf(hits, n, p) if sign > 0 else stats.binom.cdf(hits - 1, n, p)
        found = _normal_scores(*(np.array([number]) for number in (gap, variance, third)))[0]
        exact = stats.norm.isf(beyond + 0.5 * of_point)
        assert exact - 0.4 <= found <= exact + 0.15  # of few events it is careful


def test_statistics_of_all_segments_are_those_of_brute_force():
    source = Predictions.read(Y, P)
    by_name = columns_by_name(FRAME, len(Y))
    binned = [bin_feature(name, x, source.weight, 50) for name, x in by_name.items()]
    events, features = merge_equal_rows(source.events(1), binned)
    errors = RowErrors.of(events)
    scan = _Scan.of(errors, events.weight, features, 50)
    p, hits, weight = events
    found = scan.statistics(errors)
    drift = _drift(events) / weight
    conditions = [(own.codes, *held) for own in features for held in own.conditions]

    def score(gap, v, third):
        z, g = abs(gap) / v**0.5, np.sign(gap) * third / v**1.5
        return 6 / g * (np.cbrt(1 + g * z / 2) - 1) + g / 6

    n_decided = 0
    for i in np.random.default_rng(0).integers(0, len(found), 60):
        pair = [conditions[scan.one[i]], conditions[scan.two[i]]]
        rows = np.all([bins[codes] for codes, _, bins in pair], axis=0)
        w, q, y = weight[rows], p[rows], hits[rows]
        v = q * (1 - q)
        gap = w @ (y - q)
        expected = score(gap, w @ v, w @ (v * (1 - 2 * q)))
        least = 0.05 * (weight @ (p * (1 - p))) / weight.sum()
        s = np.maximum(v, least) ** -0.5
        scaled = min((w @ ((y - q - own) * s) for own in (0.0, drift[rows])), key=abs)
        if gap * scaled > 0 and abs(gap) >= 2 * (w @ v) ** 0.5:
            n_decided += 1
            expected = max(expected, score(scaled, w @ (v * s**2), w @ (v * s**3 * (1 - 2 * q))))
        assert found[i] == pytest.approx(expected, rel=1e-9)
        assert errors.statistic(rows) == pytest.approx(found[i], rel=1e-9)
    assert n_decided > 5


def test_the_drift_is_the_slope_of_all_rows_and_no_shift():
    rng = np.random.default_rng(0)
    x = rng.normal(-1.0, 1.5, 20_000)
    y = rng.random(20_000) < 1 / (1 + np.exp(-(0.4 + 0.6 * x)))
    p = 1 / (1 + np.exp(-x))
    drift = _drift(Predictions.read(y, p).events(1))
    assert drift.sum() == pytest.approx(0.0, abs=1e-6)
    slope = np.diff(np.log((p + drift) / (1 - p - drift))[[0, 1]]) / np.diff(x[[0, 1]])
    assert slope == pytest.approx(0.6, abs=0.04)
    right = _drift(Predictions.read(rng.random(20_000) < p, p).events(1))
    assert abs(right).max() < 0.01
    assert not _drift(Predictions.read(y, np.full(20_000, 0.3)).events(1)).any()


def test_right_predictions_have_no_segment():
    """At 5 %, more than 4 of 20 data sets have a chance below 1 %."""
    results = [calibration_segments(*draw(100 + i, 600, error=0.0)[:3]) for i in range(20)]
    assert sum(len(own.segments) > 0 for own in results) <= 4
    assert sum(own.error_p_value <= 0.05 for own in results) <= 4
    quiet = next(own for own in results if not own.segments)
    assert "No segments of" in str(quiet)
    assert f"An error of {100 * quiet.detectable:.2g} points in a tenth" in str(quiet)
    # Six standard deviations of the mean of 60 rows, whose variance is that of the predictions.
    y, p, features, *_ = draw(100, 600, error=0.0)
    variance = np.mean(p * (1.0 - p))
    known = calibration_segments(y, p, features).detectable
    assert known == pytest.approx(6.0 * np.sqrt(variance / 60.0), rel=1e-12)


def test_a_p_value_is_the_share_of_draws_with_a_larger_segment():
    """Of 199 draws and the data, so that it counts in steps of 1 / 200."""
    results = [calibration_segments(*draw(200 + i, 1200, 0.09)[:3], alpha=0.3) for i in range(6)]
    chances = [segment.p_value for own in results for segment in own.segments]
    steps = [200 * chance for chance in chances if chance > 0.02]
    assert len(steps) >= 2
    assert steps == pytest.approx(np.round(steps), abs=1e-9)
    assert all(type(chance) is float for chance in chances)


def test_segments_that_are_wrong_are_found_in_most_draws():
    hits = 0
    for seed in range(200, 210):
        y, p, frame, planted = draw(seed)
        rows = [rows_of(own, frame) for own in calibration_segments(y, p, frame).segments]
        hits += any((own & planted).sum() >= 0.3 * (own | planted).sum() for own in rows)
    assert hits >= 9


def test_predictions_that_are_wrong_everywhere_are_told_as_such():
    y, p, frame, _ = draw(5, error=0.0)
    found = calibration_segments(y, p / 2, frame)
    assert found.segments[0].condition == "all rows"


def test_frames_of_all_libraries_give_the_same():
    told = {"classes": [0, 1]}
    for frame in (pl.from_pandas(FRAME), pa.Table.from_pandas(FRAME)):
        assert calibration_segments(Y, P, frame, **told) == FOUND
    zoned = FRAME.assign(since=FRAME["since"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
    typed = FRAME.astype({"age": "Int64", "plan": "category", "is_new": "boolean"})
    objects = FRAME.astype(object).where(FRAME.notna(), None)
    for frame in (zoned, typed, objects):
        assert calibration_segments(Y, P, frame) == FOUND


def test_arrays_and_lists_have_numbered_columns():
    rows = FRAME[["age", "plan"]].to_numpy(dtype=object)
    found = calibration_segments(Y, P, rows)
    assert {c.feature for c in found.segments[0].conditions} == {"x0", "x1"}
    assert calibration_segments(Y, P, rows.tolist()) == found


def test_what_is_missing_is_a_segment_of_its_own():
    wrong = np.where(FRAME["age"].isna(), P + 0.4, P)
    y = (np.random.default_rng(7).random(len(P)) < P).astype(int)
    frame = FRAME.assign(nothing=np.nan, none=None)
    found = calibration_segments(y, wrong, frame)
    assert [own.condition for own in found.segments] == ["age is missing"]
    assert found == calibration_segments(y, wrong, FRAME)
    words = FRAME["age"].isna().map({True: None, False: "known"}).rename("text").to_frame()
    assert [c.condition for c in calibration_segments(y, wrong, words).segments] == [
        "text is missing"
    ]


def test_thresholds_have_few_digits_and_dates_are_days():
    rng = np.random.default_rng(0)
    amounts = bin_feature("amount", rng.lognormal(10, 0.6, 5000), np.ones(5000), 50)
    assert all(len(f"{c.value:.15g}") <= 6 for c, _ in amounts.conditions)
    dates = bin_feature("since", FRAME["since"].to_numpy(), np.ones(len(FRAME)), 50)
    assert all(dt.date.fromisoformat(c.value) for c, _ in dates.conditions)
    few = bin_feature("n", np.array([1, 2, 2, 3, 3, 3]), np.ones(6), 1)
    assert {str(c) for c, _ in few.conditions} >= {"n = 2", "n < 3", "n >= 2"}
    shares = np.bincount(amounts.codes)[: len(LEVELS) + 1] / 5000
    assert shares == pytest.approx(np.diff([0, *LEVELS, 1]), abs=0.031)


def test_a_weight_is_a_repetition_and_the_order_of_rows_changes_nothing():
    y, p, frame, _ = draw(8, 700)
    weight = np.random.default_rng(2).integers(0, 4, 700)
    frame = frame.drop(columns="since")
    weighted = calibration_segments(y, p, frame, sample_weight=weight)
    again = np.repeat(np.arange(700), weight)
    repeated = calibration_segments(y[again], p[again], frame.iloc[again])
    assert weighted == repeated
    assert weighted.n_rows == weight.sum()
    order = np.random.default_rng(3).permutation(len(Y))
    assert calibration_segments(Y[order], P[order], FRAME.iloc[order]) == FOUND
    half = calibration_segments(y, p, frame, sample_weight=np.full(700, 0.5))
    assert half.n_rows == 350


def test_classes_are_chosen_as_in_other_metrics():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([4, 2, 1], 3000)
    y = (proba.cumsum(axis=1) > rng.random((3000, 1))).argmax(axis=1)
    group = rng.choice(["a", "b"], 3000)
    said = proba.copy()
    said[group == "a"] = said[group == "a"][:, [1, 0, 2]]
    names = np.array(["cat", "dog", "eel"])[y]
    frame = pd.DataFrame({"group": group})
    top = calibration_segments(names, said, frame)
    assert top.kind == "confidence"
    assert top.segments[0].condition == "group = a"
    cats = calibration_segments(names, said, frame, kind="cat")
    assert cats.segments[0].predicted < cats.segments[0].observed.value
    assert not calibration_segments(names, said, frame, kind="eel").segments
    read = Predictions.read(names, said)
    assert calibration_segments(read, features=frame) == top


def test_many_features_and_many_rows():
    rng = np.random.default_rng(0)
    y, p, frame, _ = draw(9, 30_000, error=0.1)
    wide = pd.DataFrame(rng.normal(size=(30_000, 40))).add_prefix("noise ").join(frame)
    found = calibration_segments(y, p, wide)
    assert {c.feature for c in found.segments[0].conditions} == {"age", "plan"}
    assert found.error_p_value < 0.01


def test_identifiers_and_hard_predictions_do_no_harm():
    ids = pd.DataFrame({"id": [f"row {i}" for i in range(len(Y))]})
    found = calibration_segments(Y, np.full(len(Y), Y.mean()), ids)
    assert not found.segments
    assert found.n_tested == 1  # all rows
    hard = calibration_segments(Y, np.zeros(len(Y)), FRAME)
    assert hard.segments[0].condition == "all rows"
    sure = calibration_segments(Y, np.where(FRAME["age"] < 40, 1.0, 0.0), FRAME)
    assert sure.segments[0].conditions
    small = calibration_segments([0, 1], [0.5, 0.5], [[1], [2]])
    assert (small.segments, small.n_tested) == ((), 0)


@pytest.mark.parametrize(
    ("features", "error"),
    [
        (None, errors.ShapeError),
        ([[1], [[2]], [3]], errors.ContainerError),
        (np.ones((3, 1), complex), errors.ContainerError),
    ],
)
def test_features_that_cannot_be_read_are_refused(features, error):
    """What no columns can be made of is refused for every reader of features."""
    with pytest.raises(error):
        calibration_segments([0, 1, 1], [0.1, 0.5, 0.9], features)


@pytest.mark.parametrize(
    "told", [{"alpha": 0}, {"min_rows": 0}, {"kind": "x"}, {"random_state": "x"}]
)
def test_parameters_are_checked(told):
    ((argument, value),) = told.items()
    with refuses(argument, value=value):
        calibration_segments([0, 1, 1], [0.1, 0.5, 0.9], [[1], [2], [3]], **told)
    with refuses("sample_weight", errors.WeightError):
        calibration_segments([0, 1], [0.1, 0.5], [[1], [2]], sample_weight=[1, 1e12])


def test_rows_of_equal_content_are_one():
    features = [bin_feature("a", np.array([1, 1, 2, 1]), np.ones(4), 1)]
    events = Predictions.read([1, 1, 1, 0], [0.5] * 4).events(1)
    merged, kept = merge_equal_rows(events, features)
    assert merged.weight.tolist() == [1, 2, 1]
    assert kept[1].codes.tolist() == [0, 0, 1]
