"""M2B: the confidence is calibrated, and the other classes share the rest."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

from calibrant._gate._simplex import check_batch
from calibrant._solvers.one_vs_rest import binary_problem, solve_isotonic_steps
from calibrant.errors import MissingClassWarning
from calibrant.study import TopLabelHistogram, TopLabelIsotonic
from calibrant.study._top_label import TopLabels, solve_points_histogram, solve_top_label
from calibrators.test_properties import calibration_sets
from conftest import simulate
from reference.binary_maps import share_the_rest

# The map of the confidence does not know how often each class comes; samples are small here.
pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
each = pytest.mark.parametrize(
    "cls", [TopLabelHistogram, TopLabelIsotonic], ids=lambda c: c.__name__
)
per_class = pytest.mark.parametrize("per_class", [False, True])


def test_reference_by_hand():
    """The top class gets 0.4, the others 2/3 and 1/3 of 0.6; tied classes take turns."""
    half, third, sixth = Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)
    assert share_the_rest([half, third, sixth], [Fraction(2, 5)] * 3) == [
        Fraction(2, 5),
        Fraction(2, 5),
        Fraction(1, 5),
    ]
    assert share_the_rest([half, half], [Fraction(3, 4), 1]) == [Fraction(3, 8), Fraction(5, 8)]
    assert share_the_rest([1, 0, 0], [half] * 3) == [half, Fraction(1, 4), Fraction(1, 4)]


@each
@per_class
@given(data=calibration_sets(), new=calibration_sets())
def test_rows_are_shared_as_in_the_exact_reference(cls, per_class, data, new):
    p, y = data
    rows = new[0] if new[0].shape[1] == p.shape[1] else p
    calibrator = cls(per_class=per_class, min_probability=0, classes=np.arange(p.shape[1]))
    out = calibrator.fit(p, y).predict_proba(rows)
    curves = calibrator.curves_ * (1 if per_class else p.shape[1])
    for row, found in zip(rows, out, strict=True):
        top = np.array([row.max()])
        exact = share_the_rest(row, [float(curve(top)[0]) for curve in curves])
        np.testing.assert_allclose(found, [float(v) for v in exact], rtol=1e-12, atol=1e-15)


@each
def test_the_confidence_is_how_often_it_is_right(cls):
    """On the data of the fit, in total; also without division, where only it is changed."""
    p, y = simulate(2000, 5)
    right = p.argmax(axis=1) == y
    rows = np.arange(2000)
    for normalize_output in (True, False):
        calibrator = cls(normalize_output=normalize_output, min_probability=0).fit(p, y)
        out = calibrator.predict_proba(p)
        value = out[rows, p.argmax(axis=1)]
        free = value > (1 / 5 if normalize_output else 0)  # not raised to what chance has
        assert value[free].mean() == pytest.approx(right[free].mean(), abs=1e-12)
    others = np.ones_like(p, dtype=bool)
    others[rows, p.argmax(axis=1)] = False
    np.testing.assert_array_equal(out[others], p[others])
    assert np.abs(out.sum(axis=1) - 1).max() > 0.05


def test_rarely_predicted_classes_keep_their_scores_and_warn():
    p, y = simulate(300, 4)
    p *= [1.0, 1.0, 1.0, 0.02]
    p /= p.sum(axis=1, keepdims=True)
    with pytest.warns(MissingClassWarning, match="1 of 4 classes are predicted too") as caught:
        calibrator = TopLabelHistogram(per_class=True, min_probability=0).fit(p, y)
    assert caught[0].filename == __file__
    rows = p[p.argmax(axis=1) == 3]
    assert len(rows) > 0
    np.testing.assert_allclose(calibrator.predict_proba(rows), rows, atol=1e-15)


@each
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_the_confidence_of_a_shared_map_is_at_least_one_in_k(cls, n_classes):
    """The tied classes of an even row have 1 / k each: no row that is less even has less."""
    rng = np.random.default_rng(n_classes)
    p = rng.dirichlet(np.full(n_classes, 8.0), 400)
    y = p.argmin(axis=1)  # never the predicted one
    model = cls(min_probability=0.0).fit(p, y)
    top = np.take_along_axis(model.predict_proba(p), p.argmax(axis=1)[:, None], axis=1)
    assert np.all(top == 1 / n_classes)
    assert any("raised" in note for note in model.solver_report_.notes)


def test_problems_by_hand():
    """Row 1 is right; rows 2 and 3 are tied, with the label inside and outside of the tie."""
    p = np.array([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.4, 0.2, 0.4]])
    batch = check_batch(p, [0, 0, 1], classes=[0, 1, 2])
    top = TopLabels.of(batch)
    pooled = top.pooled(batch.class_index)
    assert pooled.values.tolist() == [0.4, 0.5]
    assert pooled.positives.tolist() == [0.5, 1.0]
    assert pooled.cells.tolist() == [2.0, 1.0]
    first = top.of_class(0, batch.class_index)
    assert first.positives.tolist() == [0.5, 1.0]
    assert first.cells.tolist() == [1.0, 1.0]
    second = top.of_class(1, batch.class_index)
    assert (second.positives.tolist(), second.cells.tolist()) == ([0.0], [0.5])


def test_points_per_bin_set_the_number_of_bins():
    x = np.linspace(0.3, 0.9, 230)
    found, _ = solve_points_histogram(binary_problem(x, x, np.ones(230)), points_per_bin=50)
    assert found.n_blocks == 4
    many, _ = solve_points_histogram(binary_problem(x, x, np.ones(230)), points_per_bin=1)
    assert many.n_blocks == 15
    assert solve_points_histogram(binary_problem(x[:9], x[:9], np.ones(9)))[0].n_blocks == 1


def test_classes_are_fitted_to_the_rows_that_predict_them():
    p, y = simulate(400, 3)
    batch = check_batch(p, y)
    found, _ = solve_top_label(batch, solve_isotonic_steps, per_class=True)
    for j, curve in enumerate(found.curves):
        rows = batch.scores.argmax(axis=1) == j
        hit = (y[rows] == j).astype(float)
        wanted, _ = solve_isotonic_steps(binary_problem(p[rows, j], hit, np.ones(rows.sum())))
        assert curve.thresholds.tobytes() == wanted.thresholds.tobytes()
        assert curve.values.tobytes() == wanted.values.tobytes()
        assert curve.sizes.sum() == rows.sum()
