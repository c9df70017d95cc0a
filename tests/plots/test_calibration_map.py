"""The paper's Figure 2 (right), and fitted step functions."""

import matplotlib as mpl
import numpy as np
import pytest

from calibrant.calibrators.flattened import FlattenedIsotonic
from calibrant.calibrators.normalization_aware import NormalizationAwareIsotonic
from calibrant.errors import ParameterError, ShapeError
from calibrant.plots.calibration_map import (
    compute_calibration_effect,
    draw_calibration_effect,
    draw_step_function,
)
from calibrant.step_function import StepFunction
from conftest import simulate

mpl.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture(scope="module")
def fitted():
    rows, labels = simulate(1000, 6)
    methods = {
        "NA-FIR": NormalizationAwareIsotonic(prior_strength=20),
        "FIR": FlattenedIsotonic(),
    }
    return rows, {name: method.fit(rows, labels) for name, method in methods.items()}


def test_bins_hold_the_means_of_all_cells_from_the_lowest_up():
    rng = np.random.default_rng(0)
    before, after = rng.dirichlet(np.ones(5), 200), rng.dirichlet(np.ones(5), 200)
    effect = compute_calibration_effect(before, {"any": after})
    assert len(effect.sizes) == 30
    assert effect.edges[0] == 0.01
    assert effect.edges[-1] == 1.0
    assert effect.sizes.sum() == np.sum(before >= 0.01)
    for j in range(30):
        inside = (before >= effect.edges[j]) & (before < effect.edges[j + 1])
        assert effect.sizes[j] == inside.sum()
        if inside.any():
            assert effect.before[j] == pytest.approx(before[inside].mean())
            assert effect.after["any"][j] == pytest.approx(after[inside].mean())
        else:
            assert np.isnan(effect.after["any"][j])


def test_a_probability_of_one_is_in_the_last_bin():
    effect = compute_calibration_effect([[1.0, 0.0]], {"same": [[1.0, 0.0]]}, n_bins=4)
    np.testing.assert_array_equal(effect.sizes, [0, 0, 0, 1])
    assert effect.after["same"][3] == 1.0


def test_calibration_is_a_rising_function_of_the_probability(fitted):
    rows, methods = fitted
    effect = compute_calibration_effect(
        rows, {name: method.predict_proba(rows) for name, method in methods.items()}, n_bins=8
    )
    for values in effect.after.values():
        assert np.all(np.diff(values) > 0.0)
        assert values[-1] < effect.before[-1]  # over-confident before


def test_the_numbers_are_frozen():
    effect = compute_calibration_effect([[0.9, 0.1]], {"same": [[0.9, 0.1]]})
    for array in (effect.sizes, effect.before, effect.edges, effect.after["same"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_bad_input_is_refused():
    with pytest.raises(ShapeError, match="'short' has shape"):
        compute_calibration_effect([[0.9, 0.1]] * 2, {"short": [[0.9, 0.1]]})
    with pytest.raises(ParameterError, match="n_bins"):
        compute_calibration_effect([[0.9, 0.1]], {}, n_bins=0)
    with pytest.raises(ParameterError, match="lowest"):
        compute_calibration_effect([[0.9, 0.1]], {}, lowest=1.0)


def test_the_drawing_has_a_curve_for_each_method_and_the_sizes_below(fitted):
    rows, methods = fitted
    effect = compute_calibration_effect(
        rows, {name: method.predict_proba(rows) for name, method in methods.items()}
    )
    upper, lower = draw_calibration_effect(effect, title="a $title")
    labels = [text.get_text() for text in upper.get_legend().get_texts()]
    assert labels == ["unchanged", "NA-FIR", "FIR"]
    assert len({line.get_color() for line in upper.get_lines()}) == 3
    assert len({line.get_linestyle() for line in upper.get_lines()}) == 3
    np.testing.assert_array_equal(upper.get_lines()[1].get_ydata(), effect.after["NA-FIR"])
    assert upper.get_ylabel() == "calibrated, mean"
    assert lower.get_xlabel() == "uncalibrated probability"
    assert upper.get_title() == r"a \$title"
    upper.figure.canvas.draw()


def test_drawing_into_axes_that_are_given():
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(2, 1)
    effect = compute_calibration_effect([[0.9, 0.1]], {"same": [[0.9, 0.1]]})
    assert draw_calibration_effect(effect, axes) == tuple(axes)
    assert draw_step_function(StepFunction([0.0], [1.0], [3.0]), axes) == tuple(axes)


@pytest.mark.parametrize("name", ["NA-FIR", "FIR"])
def test_a_step_function_is_drawn_block_by_block(fitted, name):
    step = fitted[1][name].step_function_
    upper, lower = draw_step_function(step)
    steps = upper.patches[0].get_data()
    shown = np.append(step.thresholds[1:], 1.0) > 1e-6
    assert len(steps.values) == shown.sum()
    positive = step.values[shown] > 0.0
    np.testing.assert_array_equal(steps.values[positive], step.values[shown][positive])
    assert np.all(steps.values > 0.0)
    np.testing.assert_array_equal(lower.patches[0].get_data().values, step.sizes[shown])
    assert upper.get_xscale() == upper.get_yscale() == "log"
    assert bool(upper.texts) == bool(np.any(step.values[shown] == 0.0))
    upper.figure.canvas.draw()
