from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.numba_kernels import bins, metric_resample, metric_sums
from reference import metrics as reference

unit = st.floats(0, 1)


@given(st.integers(1, 60), st.lists(unit, max_size=20))
def test_bins_of_equal_width_are_those_of_searchsorted(n_bins, values):
    edges = np.linspace(0, 1, n_bins + 1)
    near = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 1), values])
    near = np.clip(near, 0, 1)
    found = np.empty(len(near), dtype=np.int32)
    bins.find_bins(near, edges, found)
    np.testing.assert_array_equal(found, np.searchsorted(edges[1:-1], near))


@given(
    st.integers(1, 20),
    st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), min_size=1, max_size=15),
)
def test_bins_of_equal_mass_equal_the_exact_reference(n_bins, cells):
    values, mass = np.array(sorted(cells)).T
    found = np.empty(len(values), dtype=np.int64)
    bins.find_mass_bins(values / 6, mass, n_bins, found)
    expected = reference.mass_bins(values.tolist(), [Fraction(int(m)) for m in mass], n_bins)
    assert found.tolist() == expected


def test_bins_of_equal_mass_do_not_overflow():
    """Masses as large as allowed: 2 * n_bins * sum just below 2**62."""
    mass = np.full(100, 2**62 // (2 * 15 * 100) - 1)
    found = np.empty(100, dtype=np.int64)
    bins.find_mass_bins(np.linspace(0, 1, 100), mass, 15, found)
    assert found.tolist() == [(15 * (2 * i + 1)) // 200 for i in range(100)]


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40), st.randoms())
def test_fixed_point_sums_are_exact_in_any_order(terms, random):
    results = set()
    for _ in range(3):
        random.shuffle(terms)
        sums = np.zeros((1, 1, 2), dtype=np.int64)
        for term in terms:
            metric_sums.add_term(sums, 0, 0, term)
        results.add(float(metric_sums.totals(sums)[0, 0]))
    assert len(results) == 1
    exact = sum(map(Fraction, terms))
    assert abs(Fraction(results.pop()) - exact) <= len(terms) * Fraction(1, 2**61) + abs(
        exact
    ) * Fraction(1, 2**52)


def test_fixed_point_sums_hold_four_billion_terms():
    """Of one each, and of the largest number below one each."""
    n = 2**32 - 1
    sums = np.array([[[n << 31, 0], [n * (2**31 - 1), n * (2**31 - 1)]]])
    assert metric_sums.totals(sums)[0].tolist() == [n, n]


def data(seed=0, n=60, k=3, n_bins=5):
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(k), n).round(2)
    cells = np.empty((n, k), dtype=np.int32)
    bins.find_bins(rows.reshape(-1), np.linspace(0, 1, n_bins + 1), cells.reshape(-1))
    return {
        "rows": rows,
        "values": np.sort(rows[:, 0]),
        "hits": rng.random(n) < 0.4,
        "weight": rng.random(n),
        "class_index": rng.integers(0, k, n),
        "cells": cells,
        "bins": cells[:, 0].copy(),
        "draws": rng.integers(0, n, n),
        "uniforms": rng.random(n),
        "mass": rng.integers(0, 3, n),
        "order": np.arange(n),
    }


def whole(*shape):
    return np.zeros(shape, dtype=np.int64)


CALLS = {
    "add_weights": lambda f, d: [f(d["weight"], out := whole(1, 1, 2)), out],
    "add_products": lambda f, d: [f(d["weight"], d["values"], out := whole(1, 2, 2)), out],
    "top_labels": lambda f, d: [
        f(d["rows"], d["class_index"], a := np.empty(60), b := np.empty(60)),
        a,
        b,
    ],
    "row_losses": lambda f, d: [f(d["rows"], d["class_index"], 0.0, out := np.empty(60)), out],
    "row_squares": lambda f, d: [f(d["rows"], d["class_index"], out := np.empty(60)), out],
    "add_confusion": lambda f, d: [
        f(d["rows"], d["class_index"], d["weight"], np.array([1, -1, 0]), out := np.zeros((2, 2))),
        out,
    ],
    "find_bins": lambda f, d: [
        f(d["values"], np.linspace(0, 1, 8), out := np.empty(60, dtype=np.int32)),
        out,
    ],
    "find_mass_bins": lambda f, d: [
        f(d["values"], d["mass"], 7, out := np.empty(60, dtype=np.int32)),
        out,
    ],
    "add_binned": lambda f, d: [
        f(d["values"], d["hits"], d["weight"], d["bins"], out := whole(5, 3, 2)),
        out,
    ],
    "add_binned_classes": lambda f, d: [
        f(d["rows"], d["class_index"], d["weight"], d["cells"], 5, out := whole(15, 3, 2)),
        out,
    ],
    "add_to_grid": lambda f, d: [
        f(d["values"], d["hits"], d["weight"], out := whole(9, 2, 2)),
        out,
    ],
    "add_hit_moments": lambda f, d: [
        f(d["values"], d["hits"], d["weight"], out := whole(1, 4, 2)),
        out,
    ],
    "count_above": lambda f, d: [f(d["rows"], 1 / 3, out := whole(3)), out],
    "take_cells": lambda f, d: [
        f(d["rows"], 5, 0.0, 1, at := np.array([0, 60]), v := np.empty(120), r := whole(120)),
        at,
        v,
        r,
    ],
    "cell_loss": lambda f, _: [
        f(v, p, n, g) for v in (0, 0.3, 1) for p in (0, 2) for n in (0, 1) for g in (True, False)
    ],
    "class_segments": lambda f, d: [
        *f(d["values"], d["hits"], d["mass"] + 1, False),
        *f(d["values"], d["hits"], d["mass"] + 1, True),
    ],
    "add_null_bins": lambda f, d: [
        f(d["values"], d["weight"], d["bins"], d["draws"], d["uniforms"], out := np.zeros((5, 3))),
        out,
    ],
    "add_class_gaps": lambda f, d: [
        f(d["rows"], d["cells"], d["mass"] * d["weight"], out := np.zeros((3, 5))),
        out,
    ],
    "subtract_labels": lambda f, d: [
        f(d["class_index"], d["cells"], d["weight"], out := np.zeros((3, 5))),
        out,
    ],
    "subtract_null_labels": lambda f, d: [
        f(
            d["rows"].cumsum(axis=1),
            d["cells"],
            d["weight"],
            d["draws"],
            d["uniforms"],
            out := np.zeros((3, 5)),
        ),
        out,
    ],
    "add_row_draws": lambda f, d: [
        f(
            d["mass"] * d["weight"],
            d["values"],
            d["hits"],
            d["uniforms"],
            d["weight"],
            d["bins"],
            a := np.zeros(6),
            b := np.zeros(5),
            c := np.zeros((9, 2)),
        ),
        a,
        b,
        c,
    ],
    "resampled_mass_errors": lambda f, d: [
        f(
            d["values"],
            d["order"],
            d["hits"],
            np.array([0, 25, 25, 60]),
            d["mass"],
            4,
            out := np.empty(3),
        ),
        out,
    ],
}


@pytest.mark.parametrize("name", CALLS)
def test_compiled_and_plain_agree_bitwise(name):
    function = next(
        getattr(m, name) for m in (bins, metric_sums, metric_resample) if hasattr(m, name)
    )
    plain = getattr(function, "py_func", function)
    with np.errstate(divide="ignore"):
        pairs = zip(CALLS[name](function, data()), CALLS[name](plain, data()), strict=True)
    for fast, slow in pairs:
        np.testing.assert_array_equal(np.asarray(fast), np.asarray(slow))


def test_labels_drawn_have_a_positive_probability():
    rows = np.array([[0.0, 0.5, 0.0, 0.5, 0.0]])
    for u in (0.0, 0.25, 0.5, 0.75, np.nextafter(1, 0)):
        gaps = np.zeros((5, 1))
        metric_resample.subtract_null_labels(
            rows.cumsum(axis=1),
            np.zeros((1, 5), dtype=np.int32),
            np.ones(1),
            np.zeros(1, dtype=np.int64),
            np.array([u]),
            gaps,
        )
        assert gaps[:, 0].tolist() == ([0, -1, 0, 0, 0] if u < 0.5 else [0, 0, 0, -1, 0])


def test_grid_keeps_mass_and_mean():
    sums = whole(9, 2, 2)
    values = np.array([0.0, 1 / 16, 0.3, 1.0])
    bins.add_to_grid(values, np.array([True, False, True, True]), np.ones(4), sums)
    mass = metric_sums.totals(sums)
    nodes = np.linspace(0, 1, 9)
    np.testing.assert_allclose(mass.sum(axis=0), [4, 3], rtol=1e-15)
    np.testing.assert_allclose(nodes @ mass, [values.sum(), 1.3], rtol=1e-15)
    assert mass[-1].tolist() == [1.0, 1.0]
