from functools import partial

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from calibrant.calibrators import structured as calibrator
from calibrant.scale import structured
from calibrant.scale.structured import StructuredStatistics
from calibrant.scale.structured_sums import StructuredSums
from calibrant.simplex import check_batch, to_logits
from calibrant.solvers.structured import PENALTIES, Frame, solve_structured
from conftest import real_files
from scale.passes import CASES, count, make_empty, make_rows, passes, real_losses

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
FORMS = pytest.mark.parametrize("form", ["matrix", "diagonal"])
NUMBERS = "inverse_temperature", "coef", "intercept", "scale", "bound", "zero_logit"


def make(kind, zeros, n_rows=2000, k=4, seed=0):
    """Scores of which each class has a bias and a temperature of its own, labels and weights."""

    def change(p):
        return p ** np.linspace(0.7, 1.3, k) * np.arange(1, k + 1)

    return make_rows(kind, zeros, n_rows, k, seed, change=change)


fresh = make_empty(StructuredStatistics)


def solve(data, kind, form="matrix", strength=1.0, **options):
    batch = check_batch(*data, kind=kind, classes=np.arange(data[0].shape[1]))
    return solve_structured(batch, full=form == "matrix", strength=strength, **options)


@FORMS
@pytest.mark.parametrize(("kind", "zeros"), CASES)
def test_sums_are_derivatives_of_the_loss(kind, zeros, form):
    scores, y, weight = make(kind, zeros, 40, 3)
    rng, n = np.random.default_rng(1), 9 if form == "matrix" else 3
    theta = np.append([1.1, 0.2], 0.3 * rng.normal(size=n + 3))
    frame = Frame(0.7, -20.0, 0.6, 0.02, PENALTIES, np.zeros(2), is_flat=False)
    part = StructuredSums(3, kind, form == "matrix", theta, *frame)
    part.add(check_batch(scores, y, weight, kind=kind, classes=np.arange(3)))
    found = part.reference(weight.sum())
    z = to_logits(scores, kind, -20.0)
    z -= z.max(axis=1, keepdims=True)
    x = np.log(softmax(0.6 * z, axis=1) + 0.02)
    x -= x.mean(axis=1, keepdims=True)

    def loss(theta):
        w = theta[2:-3].reshape(3, 3) if form == "matrix" else np.diag(theta[2:-3])
        mapped = 0.7 * theta[0] * z + theta[1] * x + x @ w.T + theta[-3:]
        return -weight @ log_softmax(mapped, axis=1)[np.arange(40), y] / weight.sum()

    def gradient(theta, h=1e-5):
        return np.array([(loss(theta + h * e) - loss(theta - h * e)) / (2 * h) for e in unit])

    unit = np.eye(len(theta))
    assert found.loss == pytest.approx(loss(theta), rel=1e-9)
    np.testing.assert_allclose(found.gradient, gradient(theta), atol=1e-6)
    h = 1e-3
    bent = np.array([(gradient(theta + h * e) - gradient(theta - h * e)) / (2 * h) for e in unit])
    np.testing.assert_allclose(found.common, bent[:2, :2], atol=1e-4)
    np.testing.assert_allclose(found.rest, np.diag(bent)[2:], atol=1e-4)


@FORMS
@pytest.mark.parametrize(("kind", "zeros"), CASES)
def test_rows_that_fit_give_the_bits_of_the_fit_in_memory(kind, zeros, form):
    scores, y, _ = make(kind, zeros, 250)
    data = scores, y, np.ones(250)
    (found,) = passes(fresh(kind, form=form), data)
    want, report = solve(data, kind, form, strength=None)
    for name in NUMBERS:
        np.testing.assert_array_equal(getattr(found.fitted["map_"], name), getattr(want, name))
    assert found.fitted["solver_report_"].notes == report.notes


@FORMS
@pytest.mark.parametrize(("kind", "zeros"), CASES)
@pytest.mark.parametrize("enough", [100, 1 << 14])
def test_passes_over_all_rows_end_at_the_fit_in_memory(kind, zeros, form, enough, monkeypatch):
    monkeypatch.setattr(structured, "ENOUGH", enough)
    data = make(kind, zeros)
    solutions = passes(fresh(kind, 500, form=form, strength=1.0), data)
    want, _ = solve(data, kind, form)
    found, report = (solutions[-1].fitted[name] for name in ("map_", "solver_report_"))
    assert report.violation < 1e-4
    assert len(solutions) <= 8
    np.testing.assert_allclose(found(data[0]), want(data[0]), atol=3e-3)


def test_penalties_are_those_that_the_evidence_of_all_rows_asks_for():
    data = make("probabilities", zeros=False, n_rows=4000, k=6)
    found = passes(fresh("probabilities", 1000, 6), data)[-1].fitted
    want, report = solve(data, "probabilities", strength=None)
    ours, theirs = (
        np.array([float(part.split()[-1]) for part in one.notes[0].split(", ")])
        for one in (found["solver_report_"], report)
    )
    np.testing.assert_allclose(np.log(ours / theirs), 0.0, atol=0.7)
    np.testing.assert_allclose(found["map_"](data[0]), want(data[0]), atol=0.02)


def test_losses_of_all_rows_never_grow():
    data = make("probabilities", zeros=False, k=8)
    solutions = passes(fresh("probabilities", 80, 8, strength=0.1), data)
    losses = [one.fitted["solver_report_"].objective for one in solutions[2:]]
    assert losses == sorted(losses, reverse=True)


def test_scores_whose_temperature_is_of_no_use():
    """Alpha ends at 0, as in memory, and the others make up for it."""
    rng = np.random.default_rng(0)
    scores = softmax(rng.normal(0, 3, (1500, 3)), axis=1)
    mapped = np.where(scores > 0.02, np.log(scores + 0.02), np.log(0.02) + rng.random())
    y = (softmax(0.3 * mapped, axis=1).cumsum(axis=1) > rng.random((1500, 1))).argmax(axis=1)
    data = scores, y, np.ones(1500)
    want, _ = solve(data, "probabilities", strength=0.01, prior_strength=0.0)
    statistics = fresh("probabilities", 500, 3, strength=0.01, prior_strength=0.0)
    found = passes(statistics, data)[-1].fitted["map_"]
    assert want.inverse_temperature == found.inverse_temperature == 0.0
    np.testing.assert_allclose(found(scores), want(scores), atol=3e-3)


def test_one_pass_is_closer_than_a_fit_to_the_rows_that_were_kept():
    ours, kept = [], []
    for seed in range(4):
        data = make("probabilities", zeros=False, n_rows=4000, seed=seed)
        statistics = count(fresh("probabilities", 500, strength=1.0), data)
        want = solve(data, "probabilities")[0](data[0])
        alone, _ = solve_structured(statistics.kept_batch(), full=True, strength=1.0)
        ours.append(np.mean((statistics.solve()(data[0]) - want) ** 2))
        kept.append(np.mean((alone(data[0]) - want) ** 2))
    assert np.mean(ours) < 0.3 * np.mean(kept)


@pytest.mark.parametrize("scale", [1e-50, 1e90])
def test_logits_of_any_scale(scale):
    scores, y, weight = make("logits", zeros=False)
    data = scores * scale, y, weight
    found = passes(fresh("logits", 500, strength=1.0), data)[-1].fitted
    want, _ = solve(data, "logits")
    assert found["solver_report_"].violation < 1e-4
    np.testing.assert_allclose(found["map_"](data[0]), want(data[0]), atol=3e-3)


@pytest.mark.parametrize("name", real_files("cifar10_lenet5", "hpc", "cifar10_vgg16-keras"))
def test_real_files_to_a_part_in_ten_thousand(name):
    solve = partial(solve_structured, full=True)
    ours, theirs = real_losses(name, fresh, solve, strength=1.0)
    assert ours == pytest.approx(theirs, rel=1e-4)


def test_the_form_is_the_calibrators():
    assert structured.MOST_CLASSES == calibrator.MOST_CLASSES
    part = fresh("probabilities", k=structured.MOST_CLASSES + 1).parts["structured"]
    assert not part.is_full
    assert fresh("probabilities").parts["structured"].is_full
    assert not fresh("probabilities", form="diagonal").parts["structured"].is_full


@pytest.mark.parametrize(
    "other",
    [
        {"theta": [1.0]},
        {"penalties": [1.0]},
        {"pull": [0.0]},
        {"scale": np.nan},
        {"bound": 2.0},
        {"n_classes": 10**9},
        {"is_full": True},
    ],
)
def test_settings_of_a_stranger_are_refused(other):
    own = fresh("probabilities", form="diagonal").parts["structured"].settings()
    StructuredSums(**own)
    with pytest.raises(ValueError, match=r"parameters|penalties|must be|bound"):
        StructuredSums(**own | other)


def test_counts_of_a_stranger_are_refused():
    part = count(fresh("probabilities"), make("probabilities", zeros=False, n_rows=50)).parts
    part = part["structured"]
    arrays = part.arrays()
    for name, array in arrays.items():
        with pytest.raises(ValueError, match="sums"):
            part.empty().restore(arrays | {name: array[:1].astype(float)})
