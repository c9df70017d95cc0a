"""Segments that bins make, and exact sums over all rows by segment."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.scale import segments
from calibrant.scale.cells import CellCounts
from calibrant.scale.segments import Segments, SegmentSums
from calibrant.simplex import SimplexBatch, check_batch, softmax, to_logits
from calibrant.solvers.normalization_aware.rows import segment_rows
from conftest import each_real_file, load_real, simulate


def bins_of(batch, most=1 << 17):
    cells = CellCounts(most)
    cells.add(batch)
    return cells.bins()


@each_real_file
def test_bins_of_single_scores_make_the_segments_of_the_fit_in_memory(name):
    p, y = load_real(name)["val"]
    batch = check_batch(p[:400], y[:400], classes=np.arange(p.shape[1]))
    found = Segments.of(bins_of(batch))
    wanted = segment_rows(batch, fill_gaps=True)
    assert found.whole.starts.tolist() == wanted.starts.tolist()
    assert found.empty.tolist() == wanted.empty.tolist()
    assert found.whole.labels.tolist() == wanted.positives(wanted.weight).tolist()
    assert found.whole.cells.tolist() == wanted.exposures(wanted.weight).tolist()
    tops = np.searchsorted(found.whole.edges, batch.scores.max(axis=1), side="right") - 1
    assert found.whole.tops.tolist() == np.bincount(tops, minlength=len(found.whole.tops)).tolist()
    assert found.is_exact.all()
    assert found.binning(found.whole.labels, found.whole.labels, 1.0) is None


def test_the_scores_themselves_are_the_first_point_of_reference():
    p, y = simulate(2000, 5)
    found = Segments.of(bins_of(check_batch(p, y)))
    segment = np.searchsorted(found.whole.edges, p.ravel(), side="right") - 1
    mass = np.bincount(segment, p.ravel(), minlength=len(found.whole.starts))
    np.testing.assert_allclose(found.scores.shares, mass, rtol=1e-9, atol=2.0**-31)
    np.testing.assert_allclose(found.scores.values, mass / found.whole.cells, rtol=1e-8)
    assert found.scores.exposures is found.whole.cells


def test_many_bins_are_merged_into_segments_of_alike_many_labels(monkeypatch):
    monkeypatch.setattr(segments, "MOST_SEGMENTS", 50)
    p, y = simulate(4000, 4)
    found = Segments.of(bins_of(check_batch(p, y)))
    octaves = np.exp2(-np.arange(1.0, 200.0))
    starts = np.setdiff1d(found.whole.starts, octaves)
    assert len(starts) in (50, 51)
    own = p[np.arange(4000), y]
    assert set(starts[1:]) <= set(own)
    labels = np.histogram(own, np.append(starts, 1.1))[0]
    assert labels.max() <= 81
    segment = np.searchsorted(found.whole.edges, own, side="right") - 1
    assert found.whole.labels.tolist() == np.bincount(segment).tolist()
    assert found.is_exact.tolist() == (found.whole.labels <= 1).tolist()


SMALL = [0.0, 1e-320, 1e-30, 1e-9, 0.01, 0.3, 0.5, 0.7, 1.0]


@st.composite
def problems(draw):
    n_classes = draw(st.integers(2, 4))
    n_rows = draw(st.integers(1, 12))
    cells = st.sampled_from(SMALL) | st.floats(0, 1)
    row = st.lists(cells, min_size=n_classes, max_size=n_classes).filter(lambda r: sum(r) > 1e-3)
    rows = np.array(draw(st.lists(row, min_size=n_rows, max_size=n_rows)))
    rows /= rows.sum(axis=1, keepdims=True)
    weight = np.array(draw(st.lists(st.sampled_from([1.0, 2.5, 300.0]), min_size=n_rows)))
    starts = np.array([0.0, *sorted(draw(st.sets(st.sampled_from(SMALL[1:]), max_size=5)))])
    logs = np.sort(draw(st.lists(st.floats(-400, 0), min_size=len(starts), max_size=len(starts))))
    values = np.exp(logs - logs[-1])
    batch = SimplexBatch(
        rows,
        "probabilities",
        np.zeros(n_rows, np.int64),
        np.resize(weight, n_rows),
        np.arange(n_classes),
    )
    return batch, starts, values


def part_of(batch, starts, values, beta=0.8):
    return SegmentSums(batch.n_classes, batch.kind, starts, values, beta, -40.0)


@given(problems())
def test_sums_are_those_of_rows_and_cells(problem):
    batch, starts, values = problem
    part = part_of(*problem)
    part.add(batch)
    index = np.searchsorted(starts, batch.scores, side="right") - 1
    mapped = values[index]
    totals = mapped.sum(axis=1)
    shares = batch.weight[:, None] * mapped / totals[:, None]
    logits = 0.8 * to_logits(batch.scores, batch.kind, -40.0)
    prior = np.exp(logits - logits.max(axis=1, keepdims=True)) + 2.0**-40
    prior *= batch.weight[:, None] / prior.sum(axis=1, keepdims=True)
    for found, wanted in ((part.shares(), shares), (part.prior_mass(), prior)):
        sums = np.bincount(index.ravel(), wanted.ravel(), minlength=len(starts))
        np.testing.assert_allclose(found, sums, rtol=1e-12, atol=batch.scores.size * 2.0**-44)
    rounding = 1e-9 * batch.weight.sum()
    assert part.log_totals == pytest.approx(batch.weight @ np.log(totals), abs=rounding)


@given(problems(), st.randoms(use_true_random=False))
def test_neither_order_nor_chunks_nor_bytes_change_a_sum(problem, random):
    batch = problem[0]
    whole = part_of(*problem)
    whole.add(batch)
    order = np.array(random.sample(range(batch.n_rows), batch.n_rows))
    cut = random.randrange(batch.n_rows + 1)
    first, second = part_of(*problem), part_of(*problem)
    first.add(batch.take(order[:cut]))
    second.add(batch.take(order[cut:]))
    second.merge(first)
    loaded = SegmentSums(**whole.settings())
    loaded.restore(whole.arrays())
    for other in (second, loaded):
        assert other.settings() == whole.settings()
        for name, array in whole.arrays().items():
            assert other.arrays()[name].tobytes() == array.tobytes()


def test_logits_are_mapped_as_their_probabilities():
    logits = np.random.default_rng(0).normal(0, 3, (50, 4))
    logits[3, 1] = -np.inf
    batch = check_batch(logits, np.arange(50) % 4, kind="logits")
    rows = batch.with_probabilities(softmax(logits))
    starts, values = np.array([0.0, 0.1, 0.5]), np.array([0.01, 0.2, 1.0])
    found, wanted = part_of(batch, starts, values), part_of(rows, starts, values)
    found.add(batch)
    wanted.add(rows)
    assert found.shares().tolist() == wanted.shares().tolist()
    np.testing.assert_allclose(found.prior_mass(), wanted.prior_mass(), rtol=1e-9)


def test_without_a_prior_it_is_not_counted():
    p, y = simulate(20, 3)
    part = SegmentSums(3, "probabilities", np.array([0.0, 0.4]), np.array([0.5, 1.0]))
    part.add(check_batch(p, y))
    assert part.shares().sum() == pytest.approx(20.0)
    assert part.arrays()["sums"].shape == (2, 2, 1)
    part.scale(0.5)
    assert part.shares().sum() == pytest.approx(10.0)


SETTINGS = {
    "n_classes": 3,
    "kind": "probabilities",
    "starts": np.array([0.0, 0.4]),
    "values": np.array([0.5, 1.0]),
}
WRONG = [
    {"n_classes": 1},
    {"n_classes": "three"},
    {"kind": "odds"},
    {"starts": np.array([0.1, 0.4])},
    {"starts": np.array([-0.0, 0.4])},
    {"starts": np.array([0.0, 0.0])},
    {"starts": np.array([0.0, 1.5])},
    {"starts": np.array([0.0, np.nan])},
    {"starts": np.array([])},
    {"starts": "no base64!"},
    {"starts": "AAAA"},
    {"values": np.array([0.0, 1.0])},
    {"values": np.array([1.0, 0.5])},
    {"values": np.array([0.5, 0.9])},
    {"values": np.array([0.5, 0.7, 1.0])},
    {"inverse_temperature": -1.0},
    {"inverse_temperature": np.nan},
    {"zero_logit": np.inf},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_settings_that_no_pass_has_are_refused(wrong):
    with pytest.raises(ValueError):
        SegmentSums(**(SETTINGS | wrong))


@pytest.mark.parametrize(
    "damage",
    [
        lambda a: a.pop("logs"),
        lambda a: a.update(sums=a["sums"][:1]),
        lambda a: a.update(sums=a["sums"][:, :1]),
        lambda a: a.update(sums=a["sums"].astype(float)),
        lambda a: a.update(sums=-a["sums"]),
        lambda a: a.update(logs=a["logs"][:1]),
        lambda a: a.update(logs=np.array([0, 1 << 40])),
    ],
)
def test_damaged_sums_are_refused(damage):
    p, y = simulate(20, 3)
    part = SegmentSums(**SETTINGS)
    part.add(check_batch(p, y))
    arrays = part.arrays()
    damage(arrays)
    with pytest.raises((ValueError, KeyError)):
        SegmentSums(**SETTINGS).restore(arrays)
