import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from calibrant._gate._simplex import check_batch
from calibrant._objectives.spline import SLOPE_BOUNDS
from calibrant._solvers.monotone_spline import (
    N_FOLDS,
    STRENGTH,
    STRENGTHS,
    place_knots,
    solve_monotone_spline,
)
from calibrant._solvers.temperature import solve_temperature
from calibrators.test_scaling import bent as draw_bent
from conftest import simulate

FLATTEST, STEEPEST = SLOPE_BOUNDS
pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")


def temperature_of(batch):
    return solve_temperature(batch).map


def fit(batch, *, prior_strength=0.0, **options):
    """Spline, without pseudo-observations unless they are asked for."""
    return solve_monotone_spline(batch, prior_strength=prior_strength, **options)[:2]


def features(values, knots):
    """f_b(v): distance covered in each segment, from the first knot."""
    above = np.clip(values[..., None] - knots, 0.0, np.append(np.diff(knots), np.inf))
    return np.concatenate([np.minimum(values[..., None] - knots[0], 0.0), above], axis=-1)


def literal_objective(f, y, share, rate, slopes, beta):
    """Mean NLL plus half the penalty on slopes, relative to temperature scaling's."""
    loss = -share @ log_softmax(f @ slopes, axis=1)[np.arange(len(y)), y]
    return loss + 0.5 * rate * np.sum(np.diff(slopes / beta) ** 2)


def bent(n_rows, k=4, seed=0):
    return draw_bent(n_rows, k, seed)[:2]


@pytest.mark.filterwarnings("ignore:delta_grad == 0.0:UserWarning")
@pytest.mark.parametrize("strength", [0.01, 8.0, 1000.0])
@pytest.mark.parametrize("method", ["SLSQP", "trust-constr"])
def test_agrees_with_a_general_solver(strength, method):
    p, y = bent(200)
    batch = check_batch(p, y)
    found, report = fit(batch, n_knots=5, strength=strength)
    beta = temperature_of(batch).inverse_temperature
    f, share = features(np.log(p), found.knots), np.full(200, 1 / 200)

    def objective(slopes):
        return literal_objective(f, y, share, strength / 200, slopes, beta)

    other = minimize(
        objective,
        np.full(len(found.slopes), beta),
        method=method,
        bounds=[(FLATTEST * beta, STEEPEST * beta)] * len(found.slopes),
        tol=1e-12,
    )
    assert report.converged
    assert objective(found.slopes) == pytest.approx(report.objective, rel=1e-10)
    assert report.objective <= other.fun + 1e-9
    assert report.objective == pytest.approx(other.fun, rel=1e-5)


def test_slopes_stay_between_their_bounds():
    """Honest probabilities that fall where the scores rise: a slope at its lower bound."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 2000)
    top = p.max(axis=1)
    y = np.where((top > 0.6) & (top < 0.8), p.argmin(axis=1), p.argmax(axis=1))
    batch = check_batch(p, y)
    found, report = fit(batch, strength=1e-3)
    beta = temperature_of(batch).inverse_temperature
    assert report.converged
    assert found.slopes.min() == pytest.approx(FLATTEST * max(beta, 0.5), rel=0.9)
    assert found.slopes.min() > 0
    out = found(p)
    np.testing.assert_array_equal(np.argsort(out, axis=1), np.argsort(p, axis=1))


def test_knots_are_quantiles_of_the_information():
    """To the width of a bin, by sorting all cells."""
    values = np.sort(np.log(simulate(400, 6)[0]), axis=1)
    knots = place_knots(values, np.full(400, 1 / 400), 9)
    q = softmax(values, axis=1)
    order = np.argsort(values, axis=None)
    cumulative = np.cumsum((q * (1 - q)).ravel()[order])
    goals = np.arange(1, 10) / 10 * cumulative[-1]
    wanted = values.ravel()[order][np.searchsorted(cumulative, goals)]
    np.testing.assert_allclose(knots, wanted, atol=0.011)


def literal_choice(batch, shares, n_rows, knots, beta):
    """Cross-validation written out: L-BFGS-B in every fold, and the rule of two errors."""
    f, m = features(beta * np.log(batch.scores), beta * knots), batch.n_rows
    losses = np.zeros((len(STRENGTHS), m))
    for fold in range(N_FOLDS):
        train = 1.0 - shares[:, fold]
        for i, strength in enumerate(STRENGTHS):
            rate = strength / n_rows / train.mean()
            args = (f, batch.class_index, train / train.sum(), rate)
            slopes = minimize(
                lambda s, args=args: literal_objective(*args, s, 1.0),
                np.ones(f.shape[-1]),
                method="L-BFGS-B",
                bounds=[(FLATTEST, STEEPEST)] * f.shape[-1],
                tol=1e-10,
            ).x
            nll = -log_softmax(f @ slopes, axis=1)[np.arange(m), batch.class_index]
            losses[i] += shares[:, fold] * nll
    gain = losses[STRENGTHS.index(STRENGTH)] - losses
    errors = gain.std(axis=1) / np.sqrt(n_rows)
    means = gain.mean(axis=1)
    sure = {s: g for s, g, e in zip(STRENGTHS, means, errors, strict=True) if g > 2 * e}
    return max(sure, key=sure.get) if sure else STRENGTH


@pytest.mark.parametrize(("make", "n_rows"), [(bent, 600), (simulate, 300), (bent, 150)])
def test_the_strength_is_that_of_cross_validation_written_out(make, n_rows):
    p, y = make(n_rows, 3)
    batch = check_batch(p, y)
    found, report = fit(batch, n_knots=4)
    beta = temperature_of(batch).inverse_temperature
    shares = np.eye(N_FOLDS)[batch.deal(N_FOLDS)[1]]
    wanted = literal_choice(batch, shares, n_rows, found.knots, beta)
    assert report.notes == (f"strength {wanted:g} by cross-validation",)


def test_pseudo_observations_have_the_labels_that_temperature_scaling_expects():
    """The same slopes as from rows given k times more, with fractions of labels of each class."""
    p, y = simulate(80, 3)
    batch = check_batch(p, y)
    held, report = fit(batch, n_knots=4, strength=2.0, prior_strength=50.0, tol=1e-11)
    start = temperature_of(batch)
    scaled = start(batch.scores)
    out = held(p)
    divergence = np.mean(np.sum(scaled * np.log(scaled / out), axis=1))
    left = 50.0 / (1.0 + 50.0 * divergence)
    f = features(np.log(p), held.knots)
    label = f[np.arange(80), y] + left / 80 * np.einsum("ij,ijb->ib", scaled, f)
    gradient = (1 + left / 80) * np.einsum("ij,ijb->b", out, f) - label.sum(axis=0)
    differences = np.diff(np.eye(len(held.slopes)), axis=0)
    bends = (
        (1 + left / 80)
        * 2.0
        / start.inverse_temperature**2
        * differences.T
        @ differences
        @ held.slopes
    )
    assert report.converged
    # To the distance at which the number of pseudo-observations was last adapted.
    np.testing.assert_allclose(gradient + bends, 0.0, atol=0.02)
