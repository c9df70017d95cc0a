"""Formulas, carried out by numpy, give what the maps give; graphs are made of nothing else."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant._simplex import check_scores, softmax
from calibrant.export._block_search import find_blocks, plan_search
from calibrant.export._formula_parts import write_fixed_sum, write_softmax
from calibrant.export._pipeline import write_rows
from conftest import load_real, real_files
from export.backends import run_numpy
from export.cases import assert_same, fitted, make, rows_for
from export.numpy_operations import NumpyOperations


@pytest.mark.parametrize("case", ["fir", "scir", "hb-ovr", "platt-ovr", "chain"])
@pytest.mark.parametrize("name", real_files("r52_nb", "letter_knn9", "hpc_lda"))
def test_formula_on_real_rows(case, name):
    """Saturated scores and exact zeros, in float32: sums are repaired to the bit."""
    scores, y = load_real(name)["val"]
    calibrator = make(case).set_params(classes=np.arange(scores.shape[1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows, classes without a label
        calibrator.fit(scores, y)
    assert_same(run_numpy(calibrator, scores, "probabilities"), calibrator, scores, "float64")


class Sloppy(NumpyOperations):
    """Square roots are a few bits off, as runtimes have them."""

    @staticmethod
    def sqrt(x):
        off = np.random.default_rng(0).integers(-4, 5, x.shape)
        return np.sqrt(x) * (1.0 + off * 2.0**-24).astype(np.float32)


def searched(thresholds, x, curve_of=None, operations=NumpyOperations):
    """Blocks from 0 on, within their curves."""
    block, _ = find_blocks(operations(x.shape[1]), x, thresholds, curve_of)
    sizes = np.array([len(curve) for curve in thresholds])
    starts = np.cumsum(sizes) - sizes
    own = np.zeros(x.shape[1], np.int64) if curve_of is None else curve_of
    return block - 1 - starts[own]


scores_in_order = st.lists(
    st.one_of(
        st.floats(0, 1),
        st.floats(0, 1e-300),
        st.integers(0, 20).map(lambda n: 1.0 - n * 2.0**-53),
    ),
    max_size=40,
    unique=True,
).map(lambda found: np.array([0.0, *sorted(t for t in found if t > 0)]))


@given(st.lists(scores_in_order, min_size=1, max_size=4), st.booleans())
def test_every_threshold_is_on_its_side(thresholds, shared):
    thresholds = thresholds[:1] if shared else thresholds
    every = np.concatenate(thresholds)
    x = np.unique([every, np.nextafter(every, 0), np.nextafter(every, 1), np.minimum(every, 1)])
    x = np.repeat(np.append(x, [1.0, 1.0 + 2**-52])[:, None], 4, axis=1)
    curve_of = None if shared else np.arange(4) % len(thresholds)
    found = searched(thresholds, x, curve_of)
    for j in range(4):
        curve = thresholds[0 if shared else curve_of[j]]
        wanted = np.maximum(np.searchsorted(curve, x[:, j], side="right") - 1, 0)
        np.testing.assert_array_equal(found[:, j], wanted)


def test_roots_need_not_be_correctly_rounded():
    """That of the number below 1 is 1 in some runtimes, which is the next key."""
    thresholds = np.r_[0.0, 2.0 ** -np.arange(300, 0, -1.0), 1.0 - 2.0 ** -np.arange(48.0, 54)]
    assert plan_search([thresholds]).n_roots > 2
    x = np.repeat(thresholds[1:, None], 300, axis=1)
    x[:, ::3], x[:, 1::3] = np.nextafter(x[:, ::3], 0), np.nextafter(x[:, 1::3], 1)
    wanted = np.searchsorted(thresholds, x, side="right") - 1
    np.testing.assert_array_equal(searched([thresholds], x, operations=Sloppy), wanted)


def test_a_search_takes_few_steps():
    rng = np.random.default_rng(0)
    thresholds = np.append(0.0, np.sort(rng.random(1000) ** 8))
    search = plan_search([thresholds])
    assert search.n_rounds <= 3
    assert len(search.starts) <= 4 * len(thresholds) + 1


@given(st.integers(2, 40), st.integers(0, 2**32))
def test_fixed_sum_repairs_as_check_scores_does(n_classes, seed):
    rows = np.random.default_rng(seed).dirichlet(np.full(n_classes, 0.3), 20).astype(np.float32)
    rows = rows.astype(np.float64)
    total = write_fixed_sum(NumpyOperations(n_classes), rows, 2.0**60)
    off = np.abs(total - 1.0) > 8 * np.finfo(float).eps * np.sqrt(n_classes)
    np.testing.assert_array_equal(rows / np.where(off, total, 1.0), check_scores(rows))


@given(st.integers(2, 40), st.floats(0, 100), st.integers(0, 2**32))
def test_softmax_has_the_bits_of_the_kernel_near_one(n_classes, scale, seed):
    logits = np.random.default_rng(seed).normal(0, scale, (20, n_classes))
    found, wanted = write_softmax(NumpyOperations(n_classes), logits), softmax(logits)
    np.testing.assert_allclose(found, wanted, rtol=1e-14)
    np.testing.assert_array_equal(found[wanted > 1 - 1e-6], wanted[wanted > 1 - 1e-6])


def test_names_of_what_is_fitted():
    """They are the paper's words, wherever they are read."""
    ops = NumpyOperations(4)
    calibrator = fitted("mixture")
    write_rows(ops, calibrator, rows_for(calibrator), "probabilities")
    assert (
        ops.names["map_0.inverse_temperature"]
        == calibrator.calibrators_[0].map_.inverse_temperature
    )
    assert {"map_1.stage_1.edges", "map_2.slopes"} <= {*ops.names}
