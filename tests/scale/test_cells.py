from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.kernels import cells as kernels
from calibrant.scale.cells import LEVELS, MOST_BINS, CellCounts
from calibrant.simplex import SimplexBatch, check_batch
from conftest import each_real_file, load_real

SCORES = [0.0, 5e-324, 1e-310, 1e-200, 2.0**-64, 1e-9, 0.1, np.nextafter(0.1, 1), 0.25, 0.499]
SCORES += [0.5, np.nextafter(0.5, 1), 0.7, 0.9, 1 - 1e-9, 1 - 2.0**-53, 1.0]


@st.composite
def sets(draw):
    """Two columns, a row and its rest: any scores, ties, weights that are no whole numbers."""
    scores = st.sampled_from(SCORES) | st.floats(0, 1)
    p = np.array(draw(st.lists(scores, min_size=1, max_size=30)))
    y = draw(st.lists(st.integers(0, 1), min_size=len(p), max_size=len(p)))
    weight = draw(st.lists(st.sampled_from([1.0, 2.0, 0.3, 700.1]), min_size=len(p), max_size=30))
    weight = np.resize(weight, len(p))
    rows = np.column_stack([p, 1.0 - p])
    return SimplexBatch(rows, "probabilities", np.array(y), weight, np.arange(2))


def count(batch, most=MOST_BINS):
    found = CellCounts(most)
    found.add(batch)
    return found


def same(a, b):
    x, y = a.arrays(), b.arrays()
    return x["level"] == y["level"] and x["records"].tobytes() == y["records"].tobytes()


@given(sets())
def test_few_scores_have_bins_of_their_own_and_exact_sums(batch):
    found = count(batch)
    bins = found.bins()
    assert found.level == 0
    assert bins.is_pure.all()
    expected = {}
    for i, row in enumerate(batch.scores):
        for j, score in enumerate(row):
            sums = expected.setdefault(score, [Fraction(0)] * 4)
            weight = Fraction(round(Fraction(batch.weight[i]) * 2**32), 2**32)
            mass = Fraction(np.rint((batch.weight[i] * score % 1) * 2.0**32)) / 2**32
            sums[0] += weight
            sums[1] += weight * (batch.class_index[i] == j)
            sums[2] += mass + int(batch.weight[i] * score)
            sums[3] += weight * (score == row.max() and score not in row[:j])
    scores = sorted(expected)
    assert bins.smallest.tolist() == bins.starts.tolist() == scores
    sums = np.array([[float(number) for number in expected[score]] for score in scores])
    assert (
        np.column_stack([bins.cells, bins.labels, bins.mass, bins.tops]).tolist() == sums.tolist()
    )


@given(sets(), st.integers(1, 12), st.randoms(use_true_random=False))
def test_neither_order_nor_chunks_nor_merges_change_a_bit(batch, most, random):
    whole = count(batch, most)
    order = np.array(random.sample(range(batch.n_rows), batch.n_rows))
    cut = random.randrange(batch.n_rows + 1)
    first, second = (count(batch.take(part), most) for part in (order[:cut], order[cut:]))
    second.merge(first)
    assert same(whole, second)
    again = CellCounts(most)
    for row in order:
        again.add(batch.take([row]))
    assert same(whole, again)
    loaded = whole.empty()
    loaded.restore(whole.arrays())
    assert same(whole, loaded)


def n_bins(scores, level):
    keys = np.empty(len(scores), dtype=np.int64)
    kernels.find_keys(scores, LEVELS[level], keys)
    return len(np.unique(keys))


@given(sets(), st.integers(1, 12))
def test_bins_are_as_narrow_as_may_be(batch, most):
    found = count(batch, most)
    scores = batch.scores.ravel()
    last = len(LEVELS) - 1
    assert n_bins(scores, found.level) == len(found.bins().cells)
    assert n_bins(scores, found.level) <= most or found.level == last
    assert found.level == 0 or n_bins(scores, found.level - 1) > most


@given(sets(), st.integers(1, 12))
def test_bins_are_intervals_with_the_scores_that_came(batch, most):
    bins = count(batch, most).bins()
    assert np.all(bins.smallest[1:] > bins.largest[:-1])
    scores = batch.scores.ravel()
    labels = batch.scores[np.arange(batch.n_rows), batch.class_index]
    for low, high, start, weight in zip(
        bins.smallest, bins.largest, bins.starts, bins.labels, strict=True
    ):
        inside = labels[(labels >= low) & (labels <= high)]
        assert {low, high} <= {*scores}
        assert start == (inside.min() if weight > 0 else low)


def test_widest_bins_are_narrow_in_the_odds_and_symmetric():
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.random(20_000), np.exp2(-64 * rng.random(20_000))])
    scores = np.unique(np.concatenate([scores, 1.0 - scores]))[1:-1]
    keys, mirrored = np.empty((2, len(scores)), dtype=np.int64)
    kernels.find_keys(scores, LEVELS[-1], keys)
    kernels.find_keys(1.0 - scores, LEVELS[-1], mirrored)
    exact = 1.0 - (1.0 - scores) == scores
    same_bin = keys[1:] == keys[:-1]
    assert np.array_equal(same_bin[exact[1:]], (mirrored[1:] == mirrored[:-1])[exact[1:]])
    pairs = np.flatnonzero(same_bin)
    odds = np.minimum(scores[1:] / scores[:-1], (1 - scores[:-1]) / (1 - scores[1:]))
    small = np.minimum(scores, 1.0 - scores)[:-1]
    assert odds[pairs].max() <= 1 + 2.0**-8
    assert odds[pairs][small[pairs] > 2.0**-26].max() <= 1 + 2.0**-10
    assert odds[pairs][small[pairs] > 1 / 32].max() <= 1 + 2.0**-12


def test_zero_one_and_a_half_have_bins_of_their_own_however_wide_they_are():
    near = np.array([0.0, 5e-324, np.nextafter(0.5, 0), 0.5, np.nextafter(0.5, 1), 1 - 2.0**-53, 1])
    assert n_bins(near, len(LEVELS) - 1) == len(near)


def test_there_are_never_too_many_bins():
    """So no data can ask for bins that are wider than the widest."""
    octaves = np.sum(1 << (52 - LEVELS[-1][:-1].astype(int)))
    assert octaves + 1023 - 64 + 2 <= MOST_BINS
    assert np.all(np.diff(LEVELS, axis=0) >= 0)
    assert not LEVELS[0].any()


def test_many_cells_are_counted_as_few_at_a_time_are():
    """More than are looked at beforehand, and than there is room for at first."""
    rng = np.random.default_rng(1)
    p = rng.random(150_000) ** 30
    rows = np.column_stack([p, 1.0 - p])
    y = rng.integers(0, 2, len(p))
    batch = SimplexBatch(rows, "probabilities", y, np.ones(len(p)), np.arange(2))
    whole, parts = count(batch, 90_000), CellCounts(90_000)
    for start in range(0, len(p), 40_000):
        parts.add(batch.take(slice(start, start + 40_000)))
    assert 0 < whole.level < len(LEVELS) - 1
    assert same(whole, parts)
    assert whole.bins().cells.sum() == 300_000


def test_logits_are_counted_as_their_probabilities():
    logits = np.array([[0.0, 1.0, -np.inf], [3.0, 3.0, 3.0]])
    found = count(check_batch(logits, [0, 1], kind="logits", classes=np.arange(3))).bins()
    assert found.smallest[0] == 0.0
    assert np.isclose(found.mass.sum(), 2.0)
    assert found.cells.tolist() == [1.0, 1.0, 3.0, 1.0]


@each_real_file
def test_labels_and_mass_of_real_rows_are_all_there(name):
    p, y = load_real(name)["val"]
    bins = count(check_batch(p, y, classes=np.arange(p.shape[1]))).bins()
    assert bins.labels.sum() == len(p)
    assert bins.cells.sum() == p.size
    assert bins.tops.sum() == len(p)
    assert abs(bins.mass.sum() - len(p)) <= p.size * 2.0**-33 + 1e-9 * len(p)


def test_scaled_weights_are_rounded_and_empty_bins_dropped():
    p = np.array([[0.25, 0.75], [0.125, 0.875]])
    batch = SimplexBatch(p, "probabilities", np.array([0, 1]), np.array([1.0, 2.0]), np.arange(2))
    found = count(batch)
    found.scale(0.5)
    assert found.bins().cells.tolist() == [1.0, 0.5, 0.5, 1.0]
    assert found.bins().labels.tolist() == [0.0, 0.5, 0.0, 1.0]
    found.scale(2.0**-33)
    found.scale(0.5)
    assert len(found.bins().cells) == 0
    found.add(batch)
    assert same(found, count(batch))


def change(name, edit):
    def changed(arrays):
        arrays[name] = edit(arrays[name])

    return changed


def put(row, column, value):
    def edit(records):
        records[row, column] = value
        return records

    return change("records", edit)


NAN, TWO = (int(np.array(x).view(np.int64)) for x in (np.nan, 2.0))

DAMAGES = {
    "no records": lambda arrays: arrays.pop("records"),
    "no level": lambda arrays: arrays.pop("level"),
    "level too high": change("level", lambda _: np.array(len(LEVELS))),
    "level below zero": change("level", lambda _: np.array(-1)),
    "a column too few": change("records", lambda r: r[:, 1:]),
    "floats": change("records", lambda r: r.astype(float)),
    "out of order": change("records", lambda r: r[::-1]),
    "twice": change("records", lambda r: np.concatenate([r, r[-1:]])),
    "another bin": put(0, 0, 7),
    "negative weight": put(0, 1, -1),
    "too large a rest": put(0, 2, 1 << 32),
    "no weight": change("records", lambda r: r * (np.arange(12) != 1)),
    "a score above one": put(-1, 9, TWO),
    "a score that is none": put(-1, 9, NAN),
    "a negative score": put(0, 9, -5),
    "smallest above largest": put(1, 10, 0),
    "a label nobody counted": put(0, 11, 0),
    "a label outside": put(1, 11, 0),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_counts_are_refused(damage):
    p = np.array([[0.25, 0.75], [0.125, 0.875]])
    batch = SimplexBatch(p, "probabilities", np.array([0, 1]), np.ones(2), np.arange(2))
    arrays = count(batch).arrays()
    damage(arrays)
    with pytest.raises((ValueError, KeyError)):
        CellCounts().restore(arrays)


@pytest.mark.parametrize("most", [0, 1 << 18, 10.5, "many", None])
def test_a_number_of_bins_that_is_none_is_refused(most):
    with pytest.raises(ValueError, match="bins"):
        CellCounts(most)
