import numpy as np
import pytest
from scipy.optimize import minimize

from calibrant._solvers.mixture import solve_mixture, solve_priced_mixture


def simulate(rng, n_rows=60, n_classes=4, n_components=3):
    """Rows of three components, the first of which labels the pseudo-observations."""
    rows = rng.dirichlet(np.ones(n_classes), size=(n_components, n_rows))
    y = rng.integers(n_classes, size=n_rows)
    own = rows[:, np.arange(n_rows), y].T
    cells = rows.reshape(n_components, -1).T
    share = cells[:, 0] / n_rows
    return own, cells, share


def objective(w, own, cells, share, strength, prior):
    distance = share @ (np.log(cells[:, 0]) - np.log(cells @ w))
    value = -np.log(own @ w).sum() + np.log1p(strength * distance)
    return value - prior @ np.log(np.maximum(w, 1e-300))


@pytest.mark.parametrize("strength", [10.0, 1000.0])
def test_it_finds_what_a_general_solver_finds(strength):
    rng = np.random.default_rng(0)
    own, cells, share = simulate(rng)
    prior = np.array([0.0, 3.0, 0.0])
    weights, report = solve_priced_mixture(
        own, np.ones(len(own)), cells, share, 0, strength=strength, prior=prior
    )
    best = min(
        (
            minimize(
                objective,
                start,
                (own, cells, share, strength, prior),
                method="SLSQP",
                bounds=[(1e-9, 1)] * 3,
                constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
                options={"ftol": 1e-12},
            ).fun
            for start in np.eye(3) * 0.7 + 0.1
        ),
    )
    assert report.violation < 1e-8
    assert weights.sum() == pytest.approx(1)
    # A few majorisations come close to a minimum, which is flat.
    assert objective(np.maximum(weights, 1e-12), own, cells, share, strength, prior) < best + 0.05


def test_without_a_price_it_is_the_mixture_of_most_likelihood():
    own, cells, share = simulate(np.random.default_rng(1))
    prior = np.array([0.0, 3.0, 0.0])
    weights, _ = solve_priced_mixture(
        own, np.ones(len(own)), cells, share, 0, strength=0.0, prior=prior
    )
    np.testing.assert_allclose(weights, solve_mixture(own, np.ones(len(own)), prior=prior)[0])


def test_the_price_holds_few_rows_and_lets_many_go():
    """The second component is right; with few rows the first keeps more."""
    rng = np.random.default_rng(2)
    kept = []
    for n_rows in (10, 100, 10_000):
        truth = rng.dirichlet(np.ones(3), size=n_rows)
        said = truth**1.3 / np.sum(truth**1.3, axis=1, keepdims=True)
        y = (truth.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
        rows = np.arange(n_rows)
        own = np.column_stack([said[rows, y], truth[rows, y]])
        cells = np.column_stack([said.ravel(), truth.ravel()])
        weights, _ = solve_priced_mixture(
            own,
            np.ones(n_rows),
            cells,
            cells[:, 0] / n_rows,
            0,
            strength=1000.0,
            prior=np.zeros(2),
        )
        kept.append(weights[0])
    assert kept[0] > 0.9
    assert kept[-1] < 0.2 < kept[1]
