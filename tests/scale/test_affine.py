from functools import partial

import numpy as np
import pytest
from scipy.special import log_softmax

from calibrant.scale import affine
from calibrant.scale.affine import AffineSums, ClassSums, VectorStatistics
from calibrant.simplex import check_batch, to_logits
from calibrant.solvers.affine import solve_affine
from conftest import real_files
from scale.passes import CASES, count, make_empty, make_rows, passes, real_losses

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")


def make(kind, zeros, n_rows=2000, k=4, seed=0):
    """Scores of which each class has a bias of its own, labels and weights."""
    return make_rows(kind, zeros, n_rows, k, seed, change=lambda p: p * np.arange(1, k + 1))


fresh = make_empty(VectorStatistics)


def solve(data, kind, **options):
    batch = check_batch(*data, kind=kind, classes=np.arange(data[0].shape[1]))
    return solve_affine(batch, full=False, **options)


@pytest.mark.parametrize(("kind", "zeros"), CASES)
def test_sums_are_derivatives_of_the_loss(kind, zeros):
    scores, y, weight = make(kind, zeros, 50, 3)
    point = np.array([0.5, 0.7, 0.9, 0.1, -0.2, 0.4])
    part = AffineSums(3, kind, point[:3], point[3:], -20.0, 1.0, 2.0)
    part.add(check_batch(scores, y, weight, kind=kind))
    found = part.reference(weight.sum())
    z = to_logits(scores, kind, -20.0)

    def gradient(x):
        q = np.exp(log_softmax(z * x[:3] + x[3:], axis=1)) - np.eye(3)[y]
        return np.append(weight @ (q * z), weight @ q) / weight.sum()

    loss = log_softmax(z * point[:3] + point[3:], axis=1)[np.arange(50), y]
    assert found.loss == pytest.approx(-weight @ loss / weight.sum(), rel=1e-9)
    ours = np.append(found.slope_gradient, found.intercept_gradient)
    np.testing.assert_allclose(ours, gradient(point), atol=1e-8)
    h, units = 1e-5, np.repeat([2.0, 1.0], 3)  # the Hessian is one of halved logits
    bent = [(gradient(point + h * e) - gradient(point - h * e)) / (2 * h) for e in np.eye(6)]
    np.testing.assert_allclose(found.hessian, bent / np.outer(units, units), atol=2e-5)


@pytest.mark.parametrize("kind", ["probabilities", "logits"])
def test_sums_by_class(kind):
    scores, y, weight = make(kind, zeros=True, n_rows=60)
    part = ClassSums(4, kind)
    part.add(check_batch(scores, y, weight, kind=kind))
    with np.errstate(divide="ignore"):
        z = scores if kind == "logits" else np.log(scores)
    q = np.exp(log_softmax(z, axis=1))
    is_zero, label = np.isneginf(z), np.eye(4)[y]
    z = np.where(is_zero, 0.0, z)
    terms = [q, q * z, q * (1 - q), q * (1 - q) * z**2, z, is_zero, label * z, label * is_zero]
    want = np.stack([weight @ one for one in terms], axis=1)
    np.testing.assert_allclose(part.values(), want, atol=1e-7)


@pytest.mark.parametrize(("kind", "zeros"), CASES)
def test_rows_that_fit_give_the_bits_of_the_fit_in_memory(kind, zeros):
    scores, y, _ = make(kind, zeros, 300)
    data = scores, y, np.ones(300)
    (found,) = passes(fresh(kind, ridge=0.1), data)
    options = {"penalty": affine.RidgePenalty(0.1)}
    want, report = solve(data, kind, **options)
    for name in ("coef", "intercept", "zero_logit"):
        np.testing.assert_array_equal(getattr(found.fitted["map_"], name), getattr(want, name))
    assert found.fitted["solver_report_"].violation == report.violation


@pytest.mark.parametrize(("kind", "zeros"), CASES)
@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_passes_over_all_rows_end_at_the_fit_in_memory(kind, zeros, ridge):
    data = make(kind, zeros)
    solutions = passes(fresh(kind, 400, ridge=ridge), data)
    want, _ = solve(data, kind, penalty=affine.RidgePenalty(ridge), tol=1e-9)
    found, report = (solutions[-1].fitted[name] for name in ("map_", "solver_report_"))
    assert report.converged
    assert len(solutions) <= 6
    np.testing.assert_allclose(found(data[0]), want(data[0]), atol=1e-4)


@pytest.mark.parametrize("most", [128, 2])
def test_few_rows_that_were_kept_and_no_hessian_of_all(most, monkeypatch):
    monkeypatch.setattr(affine, "MOST_BENT", most)
    data = make("probabilities", zeros=False)
    solutions = passes(fresh("probabilities", 60), data)
    want, _ = solve(data, "probabilities", tol=1e-9)
    report = solutions[-1].fitted["solver_report_"]
    losses = [one.fitted["solver_report_"].objective for one in solutions[1:]]
    assert losses == sorted(losses, reverse=True)  # the best so far
    assert report.objective == pytest.approx(losses[-1])
    first, last = (np.abs(solutions[i].fitted["map_"](data[0]) - want(data[0])) for i in (0, -1))
    assert last.max() < 0.1 * first.max()


def test_one_pass_is_closer_than_a_fit_to_the_rows_that_were_kept():
    ours, kept = [], []
    for seed in range(4):
        data = make("probabilities", zeros=False, n_rows=4000, seed=seed)
        statistics = count(fresh("probabilities", 400), data)
        want = solve(data, "probabilities")[0](data[0])
        alone, _ = solve_affine(statistics.kept_batch(), full=False)
        ours.append(np.mean((statistics.solve()(data[0]) - want) ** 2))
        kept.append(np.mean((alone(data[0]) - want) ** 2))
    assert np.mean(ours) < 0.1 * np.mean(kept)


@pytest.mark.parametrize("scale", [1e-80, 1e97])
def test_the_scale_of_logits_changes_nothing(scale):
    scores, y, weight = make("logits", zeros=False)
    found = passes(fresh("logits", 300), (scores * scale, y, weight))[-1].fitted
    want, _ = solve((scores, y, weight), "logits")
    assert found["solver_report_"].converged
    np.testing.assert_allclose(found["map_"](scores * scale), want(scores), atol=1e-4)


@pytest.mark.parametrize("name", real_files("letter_knn9", "hpc", "cifar10_vgg16-keras"))
def test_real_files_to_a_part_in_ten_thousand(name):
    ours, theirs = real_losses(name, fresh, partial(solve_affine, full=False))
    assert ours == pytest.approx(theirs, rel=1e-4)


@pytest.mark.parametrize(
    "other", [{"coef": [1.0, 1.0]}, {"coef": "x"}, {"unit": 0.0}, {"zero_logit": 1.0}]
)
def test_settings_of_a_stranger_are_refused(other):
    own = AffineSums(3, "logits", np.ones(3), np.zeros(3), -9.0, 1.0, 1.0).settings()
    with pytest.raises(ValueError, match=r"coef|slopes|zero_logit|convert"):
        AffineSums(**own | other)
