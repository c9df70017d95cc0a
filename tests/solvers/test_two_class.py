import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from calibrant import TwoClassScaling
from calibrant._gate._simplex import check_batch
from calibrant._maps.curves import BoundedLogs
from calibrant._objectives.two_class import BOUND, N_FEATURES, Base, TwoClassRows
from calibrant._solvers import two_class
from calibrant._solvers.rows import AT_SCORES
from calibrant._solvers.two_class import (
    LINE_OF,
    MEMBERS,
    N_MEMBERS,
    OUT,
    fit_log_odds,
    minimise_together,
    solve_two_class,
)
from calibrant.errors import ColumnMismatchWarning, ConstantFitWarning
from conftest import each_real_file, load_real, simulate

LOGS = BoundedLogs(1e-12, 1e-12)


def drawn(n=150, slope=0.6, intercept=0.4, seed=0):
    """Log-odds, labels and weights of an over-confident, biased classifier."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0.5, 2.5, n)
    y = (rng.random(n) < expit(slope * z + intercept)).astype(float)
    weight = rng.integers(1, 4, n).astype(float)
    return z, y * weight, weight


def plain_features(base, z):
    """As the module's text has them."""
    u = base.pivot + base.slope * (z - base.pivot)
    q = expit(u)
    even = 2 * np.log(0.5 + BOUND) - np.log(q + BOUND) - np.log(expit(-u) + BOUND)
    odd = np.log(q + BOUND) - np.log(expit(-u) + BOUND)
    return u, np.array([u - base.pivot, np.ones_like(u), even, odd])


def plain_objective(base, z, positives, cells, ridges, ratio):
    """The penalised loss of one member, row by row, as a function of what it has."""
    u, features = plain_features(base, z)
    used = np.isfinite(ridges)

    def value(t):
        eta = u + t @ features[used]
        one, zero = -np.logaddexp(0, -eta), -np.logaddexp(0, eta)
        rest = cells - positives
        loss = -(positives @ one + rest @ zero)
        held = -(cells * expit(u) @ one + cells * expit(-u) @ zero)
        return loss + ratio * held + 0.5 * ridges[used] @ t**2

    return value, used


def test_members_have_the_least_penalised_loss():
    """Against a general-purpose minimiser that knows values alone."""
    z, positives, cells = drawn()
    bases = [Base(0.0, 1.0), Base(0.0, 0.7), Base(0.4, 0.7)]
    rows = TwoClassRows(bases, N_MEMBERS, z, positives, cells)
    ratio = np.linspace(0.0, 0.3, len(MEMBERS))
    found = minimise_together(rows, np.zeros_like(MEMBERS), MEMBERS, ratio, 1e-10)
    points = found.points
    assert found.violation <= 1e-10
    for place, (line, ridge) in enumerate(zip(LINE_OF, MEMBERS, strict=True)):
        value, used = plain_objective(bases[line], z, positives, cells, ridge, ratio[place])
        best = minimize(value, np.zeros(used.sum()), method="BFGS", options={"gtol": 1e-8})
        own = points[place][used]
        assert value(own) <= best.fun + 1e-9
        np.testing.assert_allclose(own, best.x, atol=1e-4)
        assert not points[place][~used].any()
        assert np.linalg.eigvalsh(found.at.hessian[place]).min() > 0


def test_losses_are_those_of_the_values_and_features_may_be_left_out():
    """``tests/objectives`` has the derivatives."""
    z, positives, cells = drawn(40)
    rows = TwoClassRows([Base(0.3, 0.8)], [2], z, positives, cells)
    ridges = np.array([[1e-3, 0.1, 0.3, 16.0], [OUT, 0.1, OUT, 16.0]])
    ratio = np.array([0.2, 0.0])
    points = 0.1 * np.random.default_rng(1).normal(size=(2, N_FEATURES)) * np.isfinite(ridges)
    at = rows.expand(points, ridges, ratio)
    assert not at.gradient[~np.isfinite(ridges)].any()
    losses, divergences = rows.losses(points, at.sums)
    u, features = plain_features(Base(0.3, 0.8), z)
    for point, loss, divergence in zip(points, losses, divergences, strict=True):
        eta = u + point @ features
        plain = positives @ np.logaddexp(0, -eta) + (cells - positives) @ np.logaddexp(0, eta)
        assert loss == pytest.approx(plain, rel=1e-12)
        p, q = expit(u), expit(eta)
        apart = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
        assert divergence == pytest.approx(cells @ apart / cells.sum(), abs=1e-12)


def exact_evidence(z, positives, cells, base, ridges):
    """Integral of the likelihood of one member over a grid of its free parameters, by brute force.

    Of two parameters, with the divergence from the base priced at each point.
    """
    u, features = plain_features(base, z)
    used = np.flatnonzero(np.isfinite(ridges))
    spread = 8 / np.sqrt(ridges[used])
    axes = [np.linspace(-s, s, 401) for s in spread]
    found = np.zeros((401, 401))
    for i, a in enumerate(axes[0]):
        eta = u + a * features[used[0]] + axes[1][:, None] * features[used[1]]
        loss = np.logaddexp(0, eta) @ cells - eta @ positives
        apart = (np.logaddexp(0, eta) - np.logaddexp(0, u) - expit(u) * (eta - u)) @ cells
        prior = ridges[used[0]] * a**2 + ridges[used[1]] * axes[1] ** 2
        found[i] = -loss - np.log1p(AT_SCORES * apart / cells.sum()) - 0.5 * prior
    volume = np.log(np.diff(axes[0])[0] * np.diff(axes[1])[0])
    return logsumexp(found) + volume + 0.5 * np.log(ridges[used]).sum() - math.log(2 * math.pi)


def test_the_evidence_is_the_integral_of_the_likelihood():
    """Between members to a twentieth of a nat: Laplace's approximation of two parameters."""
    z, positives, cells = drawn(60)
    ridges = np.array([[OUT, OUT, 16.0, 16.0], [OUT, OUT, 0.3, 16.0]])
    base = Base(0.0, 1.0)
    rows = TwoClassRows([base], [2], z, positives, cells)
    found = two_class._fit_held(rows, ridges, AT_SCORES, 2, 1e-10)
    evidence = two_class._evidence(rows, found, ridges, np.ones(2))
    exact = [exact_evidence(z, positives, cells, base, ridge) for ridge in ridges]
    np.testing.assert_allclose(evidence, exact, atol=0.2)
    np.testing.assert_allclose(np.diff(evidence), np.diff(exact), atol=0.05)


def test_the_curve_is_the_average_of_its_members(monkeypatch):
    """Put together again from what was fitted, at points between those of the curve."""
    z, positives, cells = drawn(300)
    seen = []
    made = two_class._Average.__init__

    def spy(self, lines, points, z, cells):
        seen.append((lines, points))
        made(self, lines, points, z, cells)

    monkeypatch.setattr(two_class._Average, "__init__", spy)
    shares = np.append(np.full(len(MEMBERS), 0.9 / len(MEMBERS)), [0.04, 0.06])
    fit_log_odds(z, positives, cells, LOGS, 1e-8)
    ((lines, points),) = seen
    curve = two_class._Average(lines, points, z, cells).curve(shares, LOGS)
    tried = np.linspace(z.min(), z.max(), 997)
    each = []
    for line, point in zip(LINE_OF, points, strict=True):
        u, features = plain_features(lines[line], tried)
        each.append(expit(u + point @ features))
    each += [expit(lines[1].slope * tried), expit(tried)]
    np.testing.assert_allclose(curve(expit(tried)), shares @ np.array(each), atol=2e-4)


def test_two_classes_are_mirrored():
    """Swapping the columns swaps the result; what the curve of a class says is not rounded away."""
    p, y = simulate(400, 2)
    found = TwoClassScaling().fit(p, y)
    swapped = TwoClassScaling().fit(p[:, ::-1].copy(), 1 - y)
    np.testing.assert_allclose(
        swapped.predict_proba(p[:, ::-1].copy()), found.predict_proba(p)[:, ::-1], atol=1e-9
    )
    curve = found.curves_[1]
    sharp = np.array([[1e-11, 1.0], [1.0, 1e-11]])
    wanted = np.interp(11 * math.log(10) * np.array([1, -1]), curve.x, curve.y)
    np.testing.assert_allclose(found.map_(sharp)[:, 1], expit(wanted), rtol=1e-12)
    np.testing.assert_allclose(found.map_(sharp)[:, 0], expit(-wanted), rtol=1e-12)


def most_frequent_class(name):
    """Two classes of a real file: the most frequent one, and the rest."""
    scores, y = load_real(name)["val"]
    scores = scores / scores.sum(axis=1, keepdims=True)
    top = np.bincount(y).argmax()
    p = np.column_stack([1 - scores[:, top], scores[:, top]]).clip(0, 1)
    return p, (y == top).astype(int)


@each_real_file
def test_every_member_is_optimal_on_real_files(name):
    """Of the most frequent class against the rest, and the result never falls."""
    p, labels = most_frequent_class(name)
    found, report = solve_two_class(check_batch(p, labels, classes=[0, 1]))
    assert report.converged
    assert report.violation <= 1e-8
    grid = expit(np.linspace(-40, 40, 2001))
    out = found(np.column_stack([1 - grid, grid]))
    assert (np.diff(out[:, 1]) >= -1e-15).all()


def test_scores_that_are_backwards_leave_a_flat_curve():
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, 500)
    y = (rng.random(500) < expit(-z)).astype(int)
    p = np.column_stack([expit(-z), expit(z)])
    with pytest.warns(ConstantFitWarning), pytest.warns(ColumnMismatchWarning):
        found = TwoClassScaling().fit(p, y).predict_proba(p)
    np.testing.assert_allclose(found[:, 1], y.mean(), atol=0.15)
    assert (np.diff(found[np.argsort(z), 1]) >= -1e-12).all()
