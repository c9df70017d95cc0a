"""Formulas, carried out by numpy, give what the maps give; graphs are made of nothing else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant._gate._simplex import check_scores, softmax
from calibrant.export._formulas import find_blocks, write_fixed_sum, write_softmax
from export.backends import run_numpy
from export.cases import assert_same, data, make
from export.numpy_operations import NumpyOperations


@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
@pytest.mark.parametrize("case", ["two-class", "platt-ovr", "ir-ovr", "hb-ovr"])
def test_a_class_without_a_label_has_a_curve_of_another_kind(case):
    scores, y, rows = data("probabilities", 4)
    calibrator = make(case).set_params(classes=range(4)).fit(scores[y < 3], y[y < 3])
    assert_same(run_numpy(calibrator, rows, "probabilities"), calibrator, rows, "float64")


def searched(thresholds, x, curve_of=None):
    """Blocks from 0 on, within their curves."""
    block = find_blocks(NumpyOperations(x.shape[1]), x, thresholds, curve_of)
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
