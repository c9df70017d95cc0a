"""Structured scaling, Dirichlet calibration and the spline: formulas, peers, what they mend."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logit, softmax

from calibrant import errors
from calibrant._calibrators.scaling import (
    MOST_CLASSES,
    DirichletCalibration,
    MatrixScaling,
    MonotoneSpline,
    StructuredScaling,
    TemperatureScaling,
    VectorScaling,
)
from conftest import nll, simulate

quiet = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")


def bent(n_rows, k=5, seed=0):
    """Scores whose honest version is a bent curve of their logarithms, and that version."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 3, (n_rows, k))
    z -= z.max(axis=1, keepdims=True)
    honest = softmax(np.where(z > -2, 0.3 * z, -0.6 + 2.0 * (z + 2)), axis=1)
    y = (honest.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
    return softmax(z, axis=1), y, honest


@quiet
def test_many_classes_have_a_diagonal():
    k = MOST_CLASSES + 1
    p, y = simulate(600, k)
    calibrator = StructuredScaling(classes=np.arange(k)).fit(p, y)
    assert calibrator.coef_.shape == (k,)
    assert calibrator.solver_report_.converged


@pytest.mark.parametrize("form", ["matrix", "diagonal"])
def test_structured_predictions_are_what_the_attributes_say(form):
    p, y = simulate(500, 4)
    calibrator = StructuredScaling(form=form, min_probability=0).fit(p, y)
    z = np.log(p)
    x = np.log(softmax(calibrator.scale_ * z, axis=1) + 0.02)
    x -= x.mean(axis=1, keepdims=True)
    slope = calibrator.coef_ if form == "matrix" else np.diag(calibrator.coef_)
    logits = calibrator.inverse_temperature_ * z + x @ slope.T + calibrator.intercept_
    np.testing.assert_allclose(calibrator.predict_proba(p), softmax(logits, axis=1), rtol=1e-10)


@pytest.mark.parametrize(("form", "peer"), [("matrix", MatrixScaling), ("diagonal", VectorScaling)])
def test_without_shrinkage_it_is_the_unstructured_method(form, peer):
    p, y = simulate(800, 3)
    z = np.log(p)
    z -= z.mean(axis=1, keepdims=True)
    free = {"strength": 0, "prior_strength": 0, "bound": 0}
    ours = StructuredScaling(form=form, scores="logits", tol=1e-8, **free).fit(z, y)
    unpenalised = {"prior_strength": 0} | ({"odir": 0} if peer is MatrixScaling else {})
    theirs = peer(scores="logits", tol=1e-8, **unpenalised).fit(z, y)
    np.testing.assert_allclose(ours.predict_proba(z), theirs.predict_proba(z), atol=1e-4)


SHRUNK = {
    "matrix": (StructuredScaling(form="matrix", strength=1e9), {}),
    "diagonal": (StructuredScaling(form="diagonal", strength=1e9), {}),
    "spline": (MonotoneSpline(strength=1e9, prior_strength=0), {"prior_strength": 0}),
    "straight": (MonotoneSpline(strength=np.inf, prior_strength=0), {"prior_strength": 0}),
}


@pytest.mark.parametrize("case", SHRUNK)
def test_with_all_shrinkage_it_is_temperature_scaling(case):
    (p, y, _), (model, prior) = bent(800), SHRUNK[case]
    ours, theirs = model.fit(p, y), TemperatureScaling(**prior).fit(p, y)
    np.testing.assert_allclose(ours.predict_proba(p), theirs.predict_proba(p), atol=1e-5)


def test_a_bias_of_classes_is_removed():
    """A tilt that no temperature can undo."""
    p, y = simulate(4000, 4)
    tilted = p * [5.0, 1.0, 1.0, 0.2]
    half = slice(0, 2000), slice(2000, 4000)
    ours = StructuredScaling(normalize="rows").fit(tilted[half[0]], y[half[0]])
    with pytest.warns(errors.ClassShareWarning):
        theirs = TemperatureScaling(normalize="rows").fit(tilted[half[0]], y[half[0]])
    honest = TemperatureScaling().fit(p[half[0]], y[half[0]])
    losses = [nll(c.predict_proba(tilted[half[1]]), y[half[1]]) for c in (ours, theirs)]
    best = nll(honest.predict_proba(p[half[1]]), y[half[1]])
    assert losses[0] - best < 0.2 * (losses[1] - best)


def test_a_confusion_of_two_classes_needs_the_matrix():
    """Class 0 takes what belongs to class 1 wherever class 2 is likely as well."""
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, (6000, 4))
    true = z.copy()
    true[:, 1] += 0.8 * z[:, 2]
    honest = softmax(true, axis=1)
    y = (honest.cumsum(axis=1) > rng.random((6000, 1))).argmax(axis=1)
    p = softmax(z, axis=1)
    loss = {
        form: nll(
            StructuredScaling(form=form).fit(p[:3000], y[:3000]).predict_proba(p[3000:]), y[3000:]
        )
        for form in ("matrix", "diagonal")
    }
    assert loss["matrix"] < loss["diagonal"] - 0.01


@quiet
def test_an_absent_class_warns_and_stays_possible():
    p, y = simulate(600, 4)
    keep = y != 1
    with pytest.warns(errors.MissingClassWarning):
        calibrator = StructuredScaling(classes=np.arange(4)).fit(p[keep], y[keep])
    out = calibrator.predict_proba(p)
    assert out[:, 1].max() > 0.01
    plain = TemperatureScaling(classes=np.arange(4)).fit(p[keep], y[keep]).predict_proba(p)
    assert out[keep, 1].mean() < 0.5 * plain[keep, 1].mean()  # which it is not held to


def frequencies(n_rows):
    """Labels of 70, 20 and 10 percent: round numbers, which have a large common factor."""
    return np.repeat([0, 1, 2], [7 * n_rows // 10, 2 * n_rows // 10, n_rows // 10])


@quiet
@pytest.mark.parametrize("form", ["matrix", "diagonal"])
@pytest.mark.parametrize("row", [[1 / 3, 1 / 3, 1 / 3], [0.1, 0.3, 0.6]])
def test_equal_scores_give_class_frequencies_as_rows_grow(row, form):
    """There is nothing else to learn; what is missing is the part of the penalties, in rows."""
    gaps = []
    for n_rows in (100, 1000, 10_000):
        p, y = np.tile(row, (n_rows, 1)), frequencies(n_rows)
        out = StructuredScaling(form=form).fit(p, y).predict_proba(p[:1])
        gaps.append(np.abs(out - [[0.7, 0.2, 0.1]]).max())
    assert gaps[0] < 0.06
    assert gaps[1] < 0.3 * gaps[0]
    assert gaps[2] < 0.3 * gaps[1]


def test_rounds_that_run_out_give_a_warning():
    with pytest.warns(errors.ConvergenceWarning):
        StructuredScaling(max_rounds=1, tol=1e-12).fit(*simulate(300, 3))


@pytest.mark.parametrize("form", ["matrix", "diagonal"])
def test_two_classes_are_bent_differently(form):
    """As beta calibration does: below one half the scores are honest, above far too certain."""
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2.5, 6000)
    y = (rng.random(6000) < expit(np.where(z > 0, 0.3 * z, z))).astype(int)
    p = np.column_stack([expit(-z), expit(z)])
    model = StructuredScaling(form=form).fit(p, y)
    out = model.predict_proba([[0.98, 0.02], [0.02, 0.98]])
    wanted = expit(0.3 * logit(0.98))
    np.testing.assert_allclose(out[:, 1], [0.02, wanted], atol=0.03)
    assert model.map_.origin == pytest.approx(np.log(0.52))
    assert model.solver_report_.converged
    assert StructuredScaling().fit(*simulate(300, 3)).map_.origin is None


def test_spline_predictions_are_what_the_attributes_say():
    p, y, _ = bent(1000)
    calibrator = MonotoneSpline(min_probability=0).fit(p, y)
    knots, slopes = calibrator.knots_, calibrator.slopes_
    assert slopes.shape == (len(knots) + 1,)
    v = np.log(p)
    theta = slopes[0] * np.minimum(v - knots[0], 0) + slopes[-1] * np.maximum(v - knots[-1], 0)
    theta += np.interp(v, knots, np.append(0.0, np.cumsum(slopes[1:-1] * np.diff(knots))))
    np.testing.assert_allclose(calibrator.predict_proba(p), softmax(theta, axis=1), rtol=1e-10)


def test_a_bent_curve_is_found():
    p, y, honest = bent(4000)
    ours = MonotoneSpline().fit(p[:2000], y[:2000]).predict_proba(p[2000:])
    theirs = TemperatureScaling().fit(p[:2000], y[:2000]).predict_proba(p[2000:])
    best, y = honest[2000:], y[2000:]
    assert nll(ours, y) - nll(best, y) < 0.3 * (nll(theirs, y) - nll(best, y))


def tilted():
    """Four classes, over-confident by a factor of two, and biased."""
    rng = np.random.RandomState(1)
    honest = np.exp(rng.normal(0, 1.5, (400, 4)))
    honest /= honest.sum(axis=1, keepdims=True)
    y = (honest.cumsum(axis=1) > rng.uniform(size=(400, 1))).argmax(axis=1)
    p = honest**2 * [2.0, 1.0, 1.0, 0.5]
    return p / p.sum(axis=1, keepdims=True), y


def test_agrees_with_dirichletcal():
    """Rows to 1e-6, parameters to 3e-5, in which the penalised likelihood is flat.

    With ref_row=True, its default, the package subtracts the last row of W before it penalises,
    which makes the result depend on which class is last; the paper's penalty has no such row.
    """
    first = [0.490453271324, -0.010822103209, -0.01189520351, 0.024413970904]
    intercept = [-0.406500173489, 0.00323414741, 0.068568650622, 0.334697375457]
    rows = [
        [0.912309675395, 0.049304119238, 0.031377976847, 0.00700822852],
        [0.200482717987, 0.001559251826, 0.785145333041, 0.012812697146],
    ]
    # from dirichletcal.calib.fulldirichlet import FullDirichletCalibrator  # dirichletcal 0.5.3
    # model = FullDirichletCalibrator(
    #     reg_lambda=0.01, reg_mu=0.01, reg_norm=True, ref_row=False
    # ).fit(p, y)  # jax 0.12.0.1, Python 3.12
    # model.coef_[0], model.intercept_, model.predict_proba(p[:2])
    p, y = tilted()
    calibrator = DirichletCalibration(prior_strength=0, odir=0.01, tol=1e-8, max_rounds=2000).fit(
        p, y
    )
    np.testing.assert_allclose(calibrator.predict_proba(p[:2]), rows, atol=1e-6)
    np.testing.assert_allclose(calibrator.coef_[0], first, atol=3e-5)
    np.testing.assert_allclose(calibrator.intercept_, intercept, atol=3e-5)


def test_agrees_with_the_published_formula_by_a_general_solver():
    """Mean NLL + odir (sum of W^2 off the diagonal / k (k - 1) + sum of b^2 / k), by BFGS."""
    p, y = tilted()
    off = 1 - np.eye(4)

    def loss(x):
        w, b = x[:16].reshape(4, 4), x[16:]
        nll = -np.mean(log_softmax(np.log(p) @ w.T + b, axis=1)[np.arange(len(y)), y])
        return nll + 0.3 * (np.sum((w * off) ** 2) / 12 + np.sum(b**2) / 4)

    calibrator = DirichletCalibration(prior_strength=0, odir=0.3, tol=1e-8).fit(p, y)
    other = minimize(loss, np.append(np.eye(4).ravel(), np.zeros(4)), method="BFGS")
    assert calibrator.solver_report_.objective <= other.fun + 1e-9
    found = np.append(calibrator.coef_.ravel(), calibrator.intercept_)
    np.testing.assert_allclose(found, other.x, atol=1e-3)


def test_logits_are_used_as_log_probabilities():
    """A shift of each row changes nothing here, as it does in matrix scaling of the logits."""
    p, y = tilted()
    shift = np.random.default_rng(0).normal(0, 5, (len(p), 1))
    one = DirichletCalibration().fit(p, y).predict_proba(p)
    shifted = DirichletCalibration(scores="logits").fit(np.log(p) + shift, y)
    np.testing.assert_allclose(one, shifted.predict_proba(np.log(p) + shift), atol=1e-5)
    plain = MatrixScaling(scores="logits", odir=1.0).fit(np.log(p) + shift, y)
    assert np.abs(plain.predict_proba(np.log(p)) - plain.predict_proba(np.log(p) + 5)).max() > 1e-3


def test_probabilities_are_those_of_matrix_scaling_of_their_logarithm():
    p, y = tilted()
    one = DirichletCalibration(ridge=0.1, odir=0.2).fit(p, y)
    two = MatrixScaling(ridge=0.1, odir=0.2).fit(p, y)
    assert one.predict_proba(p).tobytes() == two.predict_proba(p).tobytes()
