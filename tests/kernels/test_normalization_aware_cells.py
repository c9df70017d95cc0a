"""Passes over all cells, each against plain numpy."""

import numpy as np
import pytest

from calibrant._kernels import normalization_aware as kernels

either = pytest.mark.parametrize("dtype", [np.uint16, np.int32])


def simplex_rows(seed, n_rows=30, n_classes=5):
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(n_classes, 0.5), n_rows)
    return rng, rows


@either
@pytest.mark.parametrize("beta", [0.0, 0.5, 3.0, 1e6])
def test_prior_mass_is_that_of_the_softmax(beta, dtype):
    rng, rows = simplex_rows(2)
    logits, order = np.log(rows), rng.permutation(30)
    index = rng.integers(0, 4, (30, 5)).astype(dtype)
    share = rng.random((30, 2))
    share[:7, 0] = 0.0
    mass, totals = np.zeros((2, 4)), np.empty(30)
    kernels.add_prior(logits, order, beta, share, index, mass, totals)
    powers = np.exp(beta * (logits[order] - logits[order].max(axis=1, keepdims=True)))
    powers += 2.0**-40
    np.testing.assert_allclose(totals, powers.sum(axis=1), rtol=1e-11)
    prior = powers / powers.sum(axis=1, keepdims=True)
    for part in range(2):
        weights = (share[:, part, None] * prior).ravel()
        np.testing.assert_allclose(mass[part], np.bincount(index.ravel(), weights), rtol=1e-10)
    assert mass.sum() == pytest.approx(share.sum())
