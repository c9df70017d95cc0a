"""SCIR as an estimator: what it survives, what it promises, how well it does on real data."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.calibrators.flattened import FlattenedIsotonic
from calibrant.calibrators.scaling import TemperatureScaling
from calibrant.calibrators.sorted_cumulative import SortedCumulativeIsotonic
from calibrant.errors import ParameterError
from calibrant.maps import cells
from calibrant.scale.isotonic import SortedCumulativeStatistics
from conftest import REAL_FILES, load_real, needs_collection, real_files, simulate

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")


def one_hot(labels, n_classes):
    return np.eye(n_classes)[labels]


def soft(labels, n_classes, confidence=0.7):
    rest = (1 - confidence) / (n_classes - 1)
    return one_hot(labels, n_classes) * (confidence - rest) + rest


def half_precision(n_rows, n_classes):
    p, y = simulate(n_rows, n_classes)
    return p.astype(np.float16), y


def tiny(n_rows, n_classes):
    rng = np.random.default_rng(0)
    p = 10.0 ** -rng.uniform(0, 300, (n_rows, n_classes))
    return p / p.sum(axis=1, keepdims=True), rng.integers(0, n_classes, n_rows)


RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 4, 200)
HARD = {
    "all labels equal": (simulate(200, 4)[0], np.zeros(200, dtype=int)),
    "every prediction right": (soft(LABELS, 4), LABELS),
    "every prediction right and sure": (one_hot(LABELS, 4), LABELS),
    "every prediction wrong": (soft((LABELS + 1) % 4, 4), LABELS),
    "every prediction wrong and sure": (one_hot((LABELS + 1) % 4, 4), LABELS),
    "all scores equal": (np.full((200, 4), 0.25), LABELS),
    "half precision, 10 classes": half_precision(200, 10),
    "half precision, 1,000 classes": half_precision(60, 1000),
    "exact zeros and ones": (one_hot(RNG.integers(0, 4, 200), 4), LABELS),
    "down to 1e-300": tiny(200, 6),
    "one row": (np.array([[0.2, 0.5, 0.3]]), np.array([2])),
    "one row, all alike": (np.full((1, 3), 1 / 3), np.array([0])),
    "two rows": (np.array([[0.2, 0.8], [0.4, 0.6]]), np.array([0, 1])),
    "a class never seen": (simulate(200, 4)[0], np.minimum(LABELS, 2)),
    "two classes": simulate(200, 2),
    "more classes than rows": simulate(20, 300),
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("prior_share", ["cv", 0.0, 0.3, 1.0])
def test_survives(name, prior_share):
    p, y = HARD[name]
    k = p.shape[1]
    calibrator = SortedCumulativeIsotonic(prior_share=prior_share, classes=np.arange(k))
    out = calibrator.fit(p, y).predict_proba(p)
    new = calibrator.predict_proba(np.random.default_rng(1).dirichlet(np.full(k, 0.2), 50))
    for rows in (out, new):
        assert np.all(np.isfinite(rows))
        assert rows.min() > 0
        np.testing.assert_allclose(rows.sum(axis=1, dtype=float), 1, atol=1e-6)
    assert calibrator.solver_report_.converged


def test_every_prediction_right_is_taken_for_certain():
    p, y = HARD["every prediction right"]
    out = SortedCumulativeIsotonic(prior_share=0.0).fit(p, y).predict_proba(p)
    assert np.all(out[np.arange(200), y] > 1 - 1e-9)


def test_every_prediction_wrong_is_believed_no_more_than_chance():
    p, y = HARD["every prediction wrong"]
    out = SortedCumulativeIsotonic(prior_share=0.0).fit(p, y).predict_proba(p)
    np.testing.assert_allclose(out, 1 / 4, rtol=1e-14)


def test_equal_scores_stay_equal():
    p, y = HARD["all scores equal"]
    out = SortedCumulativeIsotonic().fit(p, y).predict_proba(p)
    np.testing.assert_allclose(out, 0.25, rtol=1e-14)


def test_zeros_survive_only_without_prior_and_floor():
    p, y = simulate(300, 6)

    def lowest(**parameters):
        return SortedCumulativeIsotonic(**parameters).fit(p, y).predict_proba(p).min()

    assert lowest(prior_share=0.0, min_probability=0.0) == 0.0
    assert lowest(prior_share=0.0) == pytest.approx(1e-12)
    assert lowest(prior_share=1e-3, min_probability=0.0) > 0.0
    assert lowest(min_probability=0.0) > 0.0


def test_share_of_one_is_temperature_scaling():
    p, y = simulate(500, 6)
    ours = SortedCumulativeIsotonic(prior_share=1.0).fit(p, y)
    theirs = TemperatureScaling().fit(p, y)
    assert ours.inverse_temperature_ == theirs.inverse_temperature_
    np.testing.assert_allclose(ours.predict_proba(p), theirs.predict_proba(p), rtol=1e-11)


def test_logits_give_the_same_map_as_their_softmax():
    p, y = simulate(500, 6)
    by_logits = SortedCumulativeIsotonic(scores="logits", prior_share=0.3).fit(np.log(p), y)
    plain = SortedCumulativeIsotonic(prior_share=0.3).fit(p, y)
    np.testing.assert_allclose(
        by_logits.predict_proba(np.log(p)).mean(), plain.predict_proba(p).mean()
    )
    gaps = np.abs(by_logits.predict_proba(np.log(p)) - plain.predict_proba(p))
    assert np.mean(gaps > 1e-9) < 0.01  # rounding moves a point over a threshold here and there


def test_ranks_beyond_max_rank_depend_on_q_alone():
    p, y = simulate(500, 8)
    calibrator = SortedCumulativeIsotonic(max_rank=3).fit(p, y)
    assert calibrator.step_function_.n_ranks == 3
    many = SortedCumulativeIsotonic(max_rank=99).fit(p, y)
    plain = SortedCumulativeIsotonic().fit(p, y)
    assert many.step_function_.values.tobytes() == plain.step_function_.values.tobytes()
    out = calibrator.predict_proba(p)
    assert out.min() > 0
    np.testing.assert_allclose(out.sum(axis=1), 1, atol=1e-13)


def test_order_of_classes_may_change():
    """The paper's Table 1: SCIR does not promise order preservation."""
    p = np.array([[0.5, 0.45, 0.05]] * 100)
    y = np.repeat([0, 1], [40, 60])
    out = SortedCumulativeIsotonic(prior_share=0.0, classes=range(3)).fit(p, y).predict_proba(p)
    np.testing.assert_allclose(out[0], [0.4, 0.6, 0.0], atol=1e-11)


@given(seed=st.integers(0, 10**6), share=st.sampled_from(["cv", 0.0, 0.25]))
def test_order_of_rows_and_columns_changes_nothing(seed, share):
    """Also with ties, where a stable sort of the columns would."""
    rng = np.random.default_rng(seed)
    m, k = int(rng.integers(2, 40)), int(rng.integers(2, 6))
    p = rng.integers(0, 5, (m, k)) + 1e-3
    p /= p.sum(axis=1, keepdims=True)
    y = rng.integers(0, k, m)
    rows, columns = rng.permutation(m), rng.permutation(k)
    place = np.argsort(columns)
    calibrator = SortedCumulativeIsotonic(prior_share=share, classes=np.arange(k))
    one = calibrator.fit(p, y).predict_proba(p)
    values = calibrator.step_function_.values.tobytes()
    two = calibrator.fit(p[rows][:, columns], place[y[rows]]).predict_proba(p[:, columns])
    assert calibrator.step_function_.values.tobytes() == values
    if share == 0.0:
        assert two.tobytes() == np.ascontiguousarray(one[:, columns]).tobytes()
    else:  # the temperature is found to its tolerance
        np.testing.assert_allclose(two, one[:, columns], rtol=1e-7)


@given(seed=st.integers(0, 10**6), ties=st.booleans())
def test_weights_are_repetitions(seed, ties):
    rng = np.random.default_rng(seed)
    m, k = int(rng.integers(2, 30)), int(rng.integers(2, 6))
    p = rng.integers(1, 5, (m, k)) if ties else rng.dirichlet(np.ones(k), m)
    p = p / p.sum(axis=1, keepdims=True)
    y, weight = rng.integers(0, k, m), rng.integers(1, 4, m)
    one = SortedCumulativeIsotonic(classes=np.arange(k)).fit(p, y, weight)
    two = SortedCumulativeIsotonic(classes=np.arange(k))
    two.fit(np.repeat(p, weight, axis=0), np.repeat(y, weight))
    assert one.step_function_.values.tobytes() == two.step_function_.values.tobytes()
    assert one.prior_share_ == two.prior_share_
    np.testing.assert_allclose(one.predict_proba(p), two.predict_proba(p), rtol=1e-6)


def test_prediction_in_chunks_is_the_same():
    p, y = simulate(700, 5)
    calibrator = SortedCumulativeIsotonic(prior_share=0.1).fit(p, y)
    whole = calibrator.predict_proba(p)
    parts = [calibrator.predict_proba(p[i : i + 37]) for i in range(0, 700, 37)]
    assert np.vstack(parts).tobytes() == whole.tobytes()
    assert calibrator.predict_proba(p[:0]).shape == (0, 5)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"prior_share": "auto"}, "prior_share='auto'"),
        ({"prior_share": -0.1}, "prior_share=-0.1"),
        ({"prior_share": 1.1}, "prior_share=1.1"),
        ({"prior_share": None}, "prior_share=None"),
        ({"max_rank": 0}, "max_rank=0"),
        ({"max_rank": 2.5}, "max_rank=2.5"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(ParameterError, match=message):
        SortedCumulativeIsotonic(**parameters).fit(*simulate(200, 3))


def nll(p, y):
    return -np.mean(np.log(np.maximum(p[np.arange(len(y)), y], 1e-12)))


def confidence_error(p, y, n_bins=15):
    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    bins = np.clip(np.ceil(confidence * n_bins).astype(int) - 1, 0, n_bins - 1)
    gaps = np.bincount(bins, confidence - right, minlength=n_bins)
    return np.abs(gaps).sum() / len(y)


def judge(cls, name):
    data = load_real(name)
    k = data["val"][0].shape[1]
    out = cls(classes=np.arange(k)).fit(*data["val"]).predict_proba(data["test"][0])
    return nll(out, data["test"][1]), confidence_error(out, data["test"][1])


@pytest.mark.parametrize("name", real_files("cifar10_resnet50", "ng20_cleanlab", "r52_nb"))
def test_beats_temperature_scaling_where_that_does_not_fit(name):
    ours, theirs = judge(SortedCumulativeIsotonic, name), judge(TemperatureScaling, name)
    assert ours[0] < theirs[0]
    assert ours[1] < theirs[1]


@needs_collection
@pytest.mark.slow
def test_real_classifiers():
    """All files: NLL no worse than temperature scaling's on average, and calibrated better."""
    methods = (SortedCumulativeIsotonic, TemperatureScaling, FlattenedIsotonic)
    scores = np.array([[judge(cls, name) for cls in methods] for name in REAL_FILES])
    ratio = scores[:, 0, 0] / scores[:, 1, 0]
    assert ratio.mean() <= 1.0
    assert ratio.max() <= 1.05
    assert scores[:, 0, 1].mean() < min(scores[:, 1, 1].mean(), scores[:, 2, 1].mean())


def test_keys_of_64_bits_sort_rows_as_those_of_32_do(monkeypatch):
    scores, y = simulate(300, 30)
    calibrator = SortedCumulativeIsotonic(prior_share=0.1).fit(scores, y)
    expected = calibrator.predict_proba(scores)
    monkeypatch.setattr(cells, "MOST_SHORT_KEYS", 2)
    assert calibrator.predict_proba(scores).tobytes() == expected.tobytes()


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("max_rank", [None, 1, 2])
def test_the_top_classes_have_at_least_their_share(n_classes, max_rank):
    """The r largest hold r / k at a tie, so no less above it: nothing turns over at the tie."""
    rng = np.random.default_rng(n_classes)
    p = rng.dirichlet(np.full(n_classes, 8.0), 400)  # close to ties, and wrong
    y = p.argmin(axis=1)
    model = SortedCumulativeIsotonic(prior_share=0.0, max_rank=max_rank, min_probability=0.0)
    out = model.fit(p, y).predict_proba(p)
    sums = np.take_along_axis(out, np.argsort(-p, axis=1), axis=1).cumsum(axis=1)
    ranks = np.arange(1, n_classes + 1)
    pooled = ranks if max_rank is None else np.minimum(ranks, max_rank)
    assert np.all(sums >= pooled / n_classes - 1e-15)
    assert any("raised" in note for note in model.solver_report_.notes)


def test_two_classes_do_not_change_places_at_the_tie():
    """A little more for a class at the input is never much less for it at the output."""
    rng = np.random.default_rng(0)
    positive = rng.uniform(0.3, 0.7, 2000)
    y = (rng.random(2000) < np.where(positive > 0.5, 0.1, 0.9)).astype(int)
    model = SortedCumulativeIsotonic().fit(np.c_[1 - positive, positive], y)
    before, after = model.predict_proba([[0.5001, 0.4999], [0.4999, 0.5001]])[:, 1]
    assert before <= after


def test_shares_of_the_top_classes_hold_in_chunks():
    """As in memory, where the points were binned."""
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.full(3, 8.0), 400)
    y = p.argmin(axis=1)
    statistics = SortedCumulativeStatistics([0, 1, 2], max_rows=50, prior_share=0.0).update(p, y)
    function = statistics.solve().step_function
    assert function(np.full(2, 0.34), [1, 2]).tolist() == [1 / 3, 2 / 3]
