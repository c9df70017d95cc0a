import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from calibrant.errors import StatisticsError
from calibrant.scale.statistics import Statistics
from calibrant.scale.temperature import TemperatureStatistics, temperature_of
from calibrant.scale.temperature_sums import TemperatureSums
from calibrant.simplex import check_batch
from calibrant.solvers.temperature import ZERO_LABELS, solve_temperature
from conftest import real_files
from scale.passes import CASES, count, make_empty, make_rows, passes, real_losses

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")


def make(kind, zeros, n_rows=400, k=4, seed=0):
    """Scores, labels and weights; with exact zeros, some of which are the label."""
    return make_rows(kind, zeros, n_rows, k, seed, share=0.7)


def numbers(found):
    return found.inverse_temperature, found.zero_logit, found.kind


fresh = make_empty(TemperatureStatistics)


@pytest.mark.parametrize(("kind", "zeros"), CASES)
def test_sums_are_those_of_the_definition(kind, zeros):
    """Loss, slope and curvature by numerical derivatives of the loss written out."""
    scores, y, weight = make(kind, zeros, 60)
    batch = check_batch(scores, y, weight, kind=kind)
    part = TemperatureSums(4, kind, None, 0.7, -9.0)
    part.add(batch)
    total = weight.sum()
    found = part.moments(total)
    with np.errstate(divide="ignore"):
        logits = scores if kind == "logits" else np.log(scores)
    is_zero, top = np.isneginf(logits), logits.max(axis=1, keepdims=True)

    def loss(beta, zero):
        base = 0.0 if kind == "logits" else -top
        mapped = np.where(is_zero, zero + beta * base, beta * np.where(is_zero, 0, logits - top))
        return weight @ np.log(np.exp(mapped).sum(axis=1)) / total

    beta, zero, h = 0.7, 0.7 * -9.0, 1e-4
    near = [[loss(beta + i * h, zero + j * h) for j in (-1, 0, 1)] for i in (-1, 0, 1)]
    assert found.loss == pytest.approx(near[1][1], abs=1e-9)
    assert found.mean == pytest.approx((near[2][1] - near[0][1]) / (2 * h), abs=1e-6)
    bent = (near[2][1] - 2 * near[1][1] + near[0][1]) / h**2
    assert found.spread == pytest.approx(bent, rel=1e-4)
    assert found.zero == pytest.approx((near[1][2] - near[1][0]) / (2 * h), abs=1e-6)
    assert found.bend == pytest.approx((near[1][2] - 2 * near[1][1] + near[1][0]) / h**2, abs=1e-5)
    mixed = (near[2][2] - near[2][0] - near[0][2] + near[0][0]) / (4 * h**2)
    assert found.cross == pytest.approx(-mixed, abs=1e-5)


@settings(max_examples=30)
@given(st.sampled_from(CASES), st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_chunks_order_and_merges_change_no_bit(case, seed, n_chunks):
    data = make(*case, 90)
    want = count(fresh(case[0], 30), data, 0, 1)
    found = count(fresh(case[0], 30), data, seed, n_chunks)
    assert found.to_bytes() == want.to_bytes()
    one, other = want.solution(), Statistics.from_bytes(found.to_bytes()).solution()
    assert numbers(one.fitted["map_"]) == numbers(other.fitted["map_"])
    second = count(one.again, data, seed, n_chunks)
    assert second.to_bytes() == count(other.again, data, 0, 1).to_bytes()


@pytest.mark.parametrize(("kind", "zeros"), CASES)
@pytest.mark.parametrize("options", [{}, {"prior_strength": 0.0}, {"zero_probability": 1e-3}])
def test_rows_that_fit_give_the_fit_in_memory(kind, zeros, options):
    data = make(kind, zeros)
    (found,) = passes(fresh(kind, **options), data)
    want, report = solve_temperature(check_batch(*data, kind=kind), **options)
    assert found.fitted["map_"].zero_logit == pytest.approx(want.zero_logit, rel=1e-9)
    beta = found.fitted["map_"].inverse_temperature
    assert beta == pytest.approx(want.inverse_temperature, rel=1e-9)
    assert found.fitted["solver_report_"].objective == pytest.approx(report.objective, rel=1e-9)


@pytest.mark.parametrize(("kind", "zeros"), CASES)
@pytest.mark.parametrize("zero_probability", [None, 1e-3])
def test_passes_over_all_rows_end_at_the_fit_in_memory(kind, zeros, zero_probability):
    data, options = make(kind, zeros, 1200), {"prior_strength": 0.0}
    options["zero_probability"] = zero_probability
    solutions = passes(fresh(kind, 200, **options), data)
    want, in_memory = solve_temperature(check_batch(*data, kind=kind), **options)
    found, report = (solutions[-1].fitted[name] for name in ("map_", "solver_report_"))
    assert 2 <= len(solutions) <= 5
    assert report.converged
    assert found.inverse_temperature == pytest.approx(want.inverse_temperature, rel=1e-6)
    assert found.zero_logit == pytest.approx(want.zero_logit, rel=1e-6)
    assert report.objective == pytest.approx(in_memory.objective, rel=1e-9)


@pytest.mark.parametrize(("kind", "zeros"), CASES)
def test_one_pass_is_closer_than_a_fit_to_the_rows_that_were_kept(kind, zeros):
    ours, kept = [], []
    for seed in range(5):
        data = make(kind, zeros, 2000, seed=seed)
        statistics = count(fresh(kind, 200), data)
        want, _ = solve_temperature(check_batch(*data, kind=kind))
        alone, _ = solve_temperature(statistics.kept_batch())
        found = statistics.solve()
        assert numbers(found) == numbers(temperature_of(statistics))
        for errors, one in ((ours, found), (kept, alone)):
            errors.append(math.log(one.inverse_temperature / want.inverse_temperature))
    assert np.sqrt(np.mean(np.square(ours))) < 0.35 * np.sqrt(np.mean(np.square(kept)))


def rare_zeros(kind, seed):
    """Rows of which twelve have a zero and none of these is kept, if that can be had."""
    rng = np.random.default_rng(seed)
    scores, y, weight = make("probabilities", False, 3000)
    few = rng.choice(3000, 12, replace=False)
    scores[few, scores[few].argmin(axis=1)] = 0.0
    scores /= scores.sum(axis=1, keepdims=True)
    y[few[0]] = scores[few[0]].argmin()
    with np.errstate(divide="ignore"):
        scores = np.log(scores) if kind == "logits" else scores
    statistics = count(fresh(kind, 100), (scores, y, weight))
    kept = statistics.parts["temperature"].empty()
    kept.add(statistics.kept_batch())
    assert statistics.parts["temperature"].has_zeros
    return None if kept.has_zeros else (scores, y, weight)


@pytest.mark.parametrize("kind", ["probabilities", "logits"])
def test_zeros_that_no_kept_row_has_are_read(kind):
    data = next(filter(None, (rare_zeros(kind, seed) for seed in range(20))))
    found = passes(fresh(kind, 100), data)[-1].fitted
    want, _ = solve_temperature(check_batch(*data, kind=kind))
    assert found["solver_report_"].converged
    assert found["map_"].zero_logit == pytest.approx(want.zero_logit, rel=1e-3)


def test_zeros_get_as_much_probability_as_they_had_labels():
    """The condition, recomputed from all rows at the end of all passes."""
    rng = np.random.default_rng(1)
    scores = np.clip(rng.multinomial(6, [0.4, 0.3, 0.2, 0.1], 1500), 0, None) / 6.0
    y, weight = (scores.cumsum(axis=1) > rng.random((1500, 1))).argmax(axis=1), np.ones(1500)
    y = np.where(rng.random(1500) < 0.05, rng.integers(0, 4, 1500), y)
    solutions = passes(fresh("probabilities", 300, prior_strength=0.0), (scores, y, weight))
    found = solutions[-1].fitted["map_"]
    q = found(scores)
    own = scores[np.arange(len(y)), y] == 0.0
    rate = weight[own].sum() + ZERO_LABELS
    assert (weight[:, None] * q)[scores == 0.0].sum() == pytest.approx(rate, rel=1e-6)


@pytest.mark.parametrize("scale", [1e-90, 1e-8, 1e6, 1e97])
def test_the_scale_of_logits_changes_nothing(scale):
    scores, y, weight = make("logits", False, 800)
    plain = passes(fresh("logits", 150, prior_strength=0.0), (scores, y, weight))
    other = passes(fresh("logits", 150, prior_strength=0.0), (scores * scale, y, weight))
    assert other[-1].fitted["solver_report_"].converged
    one, two = (found[-1].fitted["map_"].inverse_temperature for found in (plain, other))
    assert two * scale == pytest.approx(one, rel=1e-7)


def test_one_row_of_another_scale_that_was_not_kept():
    scores, y, weight = make("logits", False, 800)
    for row in range(20):  # one that is dropped
        data = scores.copy()
        data[row] *= 1e30
        statistics = count(fresh("logits", 100), (data, y, weight))
        if statistics.kept_batch().scores.max() < 1e10:
            break
    else:
        pytest.fail("no such row")
    report = passes(fresh("logits", 100), (data, y, weight))[-1].fitted["solver_report_"]
    want, _ = solve_temperature(check_batch(data, y, weight, kind="logits"))
    found = passes(fresh("logits", 100), (data, y, weight))[-1].fitted["map_"]
    assert report.converged
    np.testing.assert_allclose(found(scores[:50]), want(scores[:50]), atol=1e-6)


def test_scores_without_information():
    rng = np.random.default_rng(0)
    scores = softmax(rng.normal(size=(600, 4)), axis=1)
    y = scores.argmin(axis=1)
    data = scores, y, np.ones(600)
    solutions = passes(fresh("probabilities", 100), data)
    assert solutions[-1].fitted["map_"].inverse_temperature == 0.0
    assert solutions[-1].fitted["solver_report_"].converged
    assert len(solutions) == 2


def test_rows_without_an_error():
    scores, _, weight = make("probabilities", False, 600)
    data = scores, scores.argmax(axis=1), weight
    solutions = passes(fresh("probabilities", 100), data)
    assert 1.0 < solutions[-1].fitted["map_"].inverse_temperature < 100.0
    assert solutions[-1].fitted["solver_report_"].converged


@pytest.mark.parametrize("name", real_files("cifar10_lenet5", "letter_knn9"))
def test_real_files_to_a_part_in_ten_thousand(name):
    ours, theirs = real_losses(name, fresh, solve_temperature)
    assert ours == pytest.approx(theirs, rel=1e-4)


def test_weights_fade():
    data = make("probabilities", True)
    faded = count(fresh("probabilities", 100), data).scale(0.5)
    half = count(fresh("probabilities", 100), (*data[:2], 0.5 * data[2]))
    beta = faded.solve().inverse_temperature
    assert beta == pytest.approx(half.solve().inverse_temperature, rel=1e-7)


@pytest.mark.parametrize(
    "other",
    [
        {"n_classes": 10**15},
        {"n_classes": "4"},
        {"kind": "odds"},
        {"inverse_temperature": math.nan},
        {"zero_logit": "low"},
    ],
)
def test_settings_of_a_stranger_are_refused(other):
    own = TemperatureSums(4, "probabilities").settings()
    with pytest.raises(ValueError, match=r"must be|not known"):
        TemperatureSums(**own | other)


def test_counts_of_a_stranger_are_refused():
    part = TemperatureSums(4, "probabilities")
    with pytest.raises(ValueError, match="deepest"):
        part.restore(part.arrays() | {"deepest": np.array([math.nan])})
    data = count(fresh("probabilities"), make("probabilities", False)).to_bytes()
    with pytest.raises(StatisticsError):
        Statistics.from_bytes(data[:-200])
