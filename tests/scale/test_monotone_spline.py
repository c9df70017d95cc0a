import math

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from calibrant.scale import monotone_spline, spline_sums
from calibrant.scale.monotone_spline import SplineStatistics
from calibrant.scale.spline_sums import InformationCells, LogCells, SplineSums, features
from calibrant.simplex import check_batch
from calibrant.solvers.monotone_spline import Frame, place_knots, solve_monotone_spline
from conftest import real_files
from scale.passes import CASES, count, make_empty, make_rows, passes, real_losses

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
KNOTS = np.array([-4.0, -1.5, -0.5, -0.1])
SLOPES = np.array([0.5, 1.0, 1.2, 0.8, 2.0])
FRAME = Frame(0.8, KNOTS, np.ones(5), np.zeros(5), 0.0)


def make(kind, zeros, n_rows=2000, k=4, seed=0):
    """Scores that no temperature mends: sure ones are too sure, others not sure enough."""

    def change(p):
        return p ** np.where(p.max(axis=1, keepdims=True) > 0.8, 1.5, 0.6)

    return make_rows(kind, zeros, n_rows, k, seed, change=change)


fresh = make_empty(SplineStatistics)


def log_scores(scores, kind, zero=-math.inf):
    with np.errstate(divide="ignore"):
        return np.maximum(log_softmax(scores, axis=1) if kind == "logits" else np.log(scores), zero)


@pytest.mark.parametrize(("kind", "zeros"), [CASES[0], CASES[1], CASES[2]])
def test_sums_are_derivatives_of_the_loss(kind, zeros):
    scores, y, weight = make(kind, zeros, 60)
    part = SplineSums(4, kind, -90.0, *FRAME, SLOPES)
    part.add(check_batch(scores, y, weight, kind=kind))
    found = part.reference(weight.sum())
    logs = FRAME.scale * log_scores(scores, kind, -90.0)
    f = np.stack([features(row, KNOTS) for row in logs])

    def gradient(slopes):
        q = softmax(f @ slopes, axis=1) - np.eye(4)[y]
        return np.einsum("i,ij,ijb->b", weight, q, f) / weight.sum()

    own = log_softmax(f @ SLOPES, axis=1)[np.arange(60), y]
    assert found.loss == pytest.approx(-weight @ own / weight.sum(), rel=1e-9)
    np.testing.assert_allclose(found.gradient, gradient(SLOPES), atol=1e-8)
    h = 1e-5
    bent = [(gradient(SLOPES + h * e) - gradient(SLOPES - h * e)) / (2 * h) for e in np.eye(5)]
    np.testing.assert_allclose(found.hessian, bent, atol=2e-5)


@pytest.mark.parametrize(("kind", "zeros"), CASES)
def test_features_of_labels_of_scores_and_of_cells(kind, zeros):
    scores, y, weight = make(kind, zeros, 300)
    part = LogCells(4, kind)
    part.add(check_batch(scores, y, weight, kind=kind))
    logs = log_scores(scores, kind)
    f = np.stack([features(row, KNOTS) for row in FRAME.scale * np.maximum(logs, -60.0)])
    has_label = np.eye(4)[y] * np.isfinite(logs)
    for found, each in zip(part.feature_sums(FRAME), (has_label, np.exp(logs), 1.0), strict=True):
        want = np.einsum("i,ij,ijb->b", weight, np.broadcast_to(each, logs.shape), f)
        np.testing.assert_allclose(found, want, atol=0.002 * weight.sum() / 4)


def test_knots_are_those_of_all_rows():
    scores, y, weight = make("probabilities", zeros=False, n_rows=500)
    part = InformationCells(4, "probabilities", -30.0, 0.8)
    part.add(check_batch(scores, y, weight))
    values = np.sort(0.8 * np.log(scores), axis=1)
    want = place_knots(values, weight / weight.sum(), 7)
    np.testing.assert_allclose(part.knots(7), want, atol=0.0101)


@pytest.mark.parametrize(("kind", "zeros"), CASES)
@pytest.mark.parametrize("strength", ["cv", 2.0])
def test_rows_that_fit_give_the_bits_of_the_fit_in_memory(kind, zeros, strength):
    scores, y, _ = make(kind, zeros, 250)
    data = scores, y, np.ones(250)
    (found,) = passes(fresh(kind, n_knots=6, strength=strength), data)
    number = None if strength == "cv" else strength
    batch = check_batch(scores, y, kind=kind)
    want, report = solve_monotone_spline(batch, n_knots=6, strength=number)
    for name in ("knots", "slopes", "zero_logit"):
        np.testing.assert_array_equal(getattr(found.fitted["map_"], name), getattr(want, name))
    assert found.fitted["solver_report_"].notes == report.notes


@pytest.mark.parametrize(("kind", "zeros"), CASES)
@pytest.mark.parametrize("enough", [100, 1 << 14])
def test_passes_over_all_rows_end_at_the_fit_in_memory(kind, zeros, enough, monkeypatch):
    monkeypatch.setattr(monotone_spline, "ENOUGH", enough)
    data = make(kind, zeros)
    solutions = passes(fresh(kind, 400, strength=8.0), data)
    want, _ = solve_monotone_spline(check_batch(*data, kind=kind), strength=8.0)
    found, report = (solutions[-1].fitted[name] for name in ("map_", "solver_report_"))
    assert report.converged
    assert len(solutions) <= 6
    far = 0.02 if enough == 100 else 3e-3  # where knots are is told by few rows, or by all
    np.testing.assert_allclose(found(data[0]), want(data[0]), atol=far)


def test_the_optimum_of_all_rows_is_reached():
    """The gradient of all rows with that of the penalty, recomputed at the end."""
    scores, y, _ = data = make("probabilities", zeros=False)
    options = {"strength": 4.0, "prior_strength": 0.0}
    found = passes(fresh("probabilities", 300, **options), data)[-1].fitted["map_"]
    f = np.stack([features(row, found.knots) for row in np.log(scores)])
    q = softmax(f @ found.slopes, axis=1) - np.eye(4)[y]
    gradient = np.einsum("i,ij,ijb->b", data[2], q, f) / data[2].sum()
    bends = np.diff(np.eye(len(found.slopes)), axis=0)
    pull = 4.0 / data[2].sum() * bends.T @ bends @ found.slopes
    is_free = found.slopes > 1.001 * found.slopes.min()
    ratio = np.median(-gradient[is_free] / pull[is_free])  # the square of the features' scale
    rest = gradient + ratio * pull
    assert is_free.sum() >= 8
    assert 0.1 * found.slopes.mean() ** -2 < ratio < 10 * found.slopes.mean() ** -2
    np.testing.assert_allclose(rest[is_free], 0.0, atol=1e-6)
    assert np.all(rest[~is_free] > -1e-6)


def test_more_slopes_than_have_a_hessian(monkeypatch):
    monkeypatch.setattr(spline_sums, "MOST_BENT", 3)
    data = make("probabilities", zeros=False)
    solutions = passes(fresh("probabilities", 400, strength=8.0), data)
    violations = [one.fitted["solver_report_"].violation for one in solutions[2:]]
    assert violations[-1] < 1e-6
    assert violations == sorted(violations, reverse=True)


def test_one_pass_is_closer_than_a_fit_to_the_rows_that_were_kept():
    ours, kept = [], []
    for seed in range(4):
        data = make("probabilities", zeros=False, n_rows=4000, seed=seed)
        statistics = count(fresh("probabilities", 400, strength=8.0), data)
        want = solve_monotone_spline(check_batch(*data), strength=8.0)[0](data[0])
        alone, _ = solve_monotone_spline(statistics.kept_batch(), strength=8.0)
        ours.append(np.mean((statistics.solve()(data[0]) - want) ** 2))
        kept.append(np.mean((alone(data[0]) - want) ** 2))
    assert np.mean(ours) < 0.2 * np.mean(kept)


@pytest.mark.parametrize("scale", [1e-50, 1e97])
def test_logits_of_any_scale(scale):
    scores, y, weight = make("logits", zeros=False)
    data = scores * scale, y, weight
    found = passes(fresh("logits", 300, strength=8.0), data)[-1].fitted
    want, _ = solve_monotone_spline(check_batch(*data, kind="logits"), strength=8.0)
    assert found["solver_report_"].converged
    np.testing.assert_allclose(found["map_"](data[0]), want(data[0]), atol=0.02)


@pytest.mark.parametrize("name", real_files("letter_knn9", "hpc", "cifar10_vgg16-keras"))
def test_real_files_to_a_part_in_ten_thousand(name):
    ours, theirs = real_losses(name, fresh, solve_monotone_spline)
    assert ours == pytest.approx(theirs, rel=1e-4)


@pytest.mark.parametrize(
    "other",
    [
        {"slopes": [1.0]},
        {"knots": [0.0, -1.0, -2.0, -3.0]},
        {"start": [1.0]},
        {"scale": math.nan},
        {"kind": "odds"},
    ],
)
def test_settings_of_a_stranger_are_refused(other):
    own = SplineSums(4, "probabilities", -9.0, *FRAME, SLOPES).settings()
    with pytest.raises(ValueError, match=r"slopes|knots|must be|not known"):
        SplineSums(**own | other)


@pytest.mark.parametrize("part", [LogCells(3, "logits"), InformationCells(3, "logits", -9.0, 1.0)])
def test_counts_of_a_stranger_are_refused(part):
    sums = part.arrays()["sums"]
    for wrong in (sums[:1], sums[:, ..., :-1], sums.astype(float), sums - 1):
        with pytest.raises(ValueError, match="sums"):
            part.restore({"sums": wrong})
