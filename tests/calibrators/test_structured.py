import numpy as np
import pytest
from scipy.special import expit, logit, softmax

from calibrant import errors
from calibrant._calibrators.scaling import (
    MOST_CLASSES,
    MatrixScaling,
    StructuredScaling,
    TemperatureScaling,
    VectorScaling,
)
from conftest import nll, simulate

HARD = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")


@HARD
def test_many_classes_have_a_diagonal():
    k = MOST_CLASSES + 1
    p, y = simulate(600, k)
    calibrator = StructuredScaling(classes=np.arange(k)).fit(p, y)
    assert calibrator.coef_.shape == (k,)
    assert calibrator.solver_report_.converged


@pytest.mark.parametrize("form", ["matrix", "diagonal"])
def test_predictions_are_what_the_attributes_say(form):
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


@pytest.mark.parametrize("form", ["matrix", "diagonal"])
def test_with_all_shrinkage_it_is_temperature_scaling(form):
    p, y = simulate(800, 4)
    ours = StructuredScaling(form=form, strength=1e9).fit(p, y)
    theirs = TemperatureScaling().fit(p, y)
    np.testing.assert_allclose(ours.predict_proba(p), theirs.predict_proba(p), atol=1e-6)


def test_a_bias_of_classes_is_removed():
    """A tilt that no temperature can undo."""
    p, y = simulate(4000, 4)
    tilted = p * [5.0, 1.0, 1.0, 0.2]
    half = slice(0, 2000), slice(2000, 4000)
    ours = StructuredScaling(normalize="rows").fit(tilted[half[0]], y[half[0]])
    with pytest.warns(
        errors.ClassShareWarning, match="TemperatureScaling has one map for all classes"
    ):
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


@HARD
def test_an_absent_class_warns_and_stays_possible():
    p, y = simulate(600, 4)
    keep = y != 1
    with pytest.warns(errors.MissingClassWarning, match="probabilities are shrunk"):
        calibrator = StructuredScaling(classes=np.arange(4)).fit(p[keep], y[keep])
    out = calibrator.predict_proba(p)
    assert out[:, 1].max() > 0.01
    plain = TemperatureScaling(classes=np.arange(4)).fit(p[keep], y[keep]).predict_proba(p)
    assert out[keep, 1].mean() < 0.5 * plain[keep, 1].mean()  # which it is not held to


def frequencies(n_rows):
    """Labels of 70, 20 and 10 percent: round numbers, which have a large common factor."""
    return np.repeat([0, 1, 2], [7 * n_rows // 10, 2 * n_rows // 10, n_rows // 10])


@HARD
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
    with pytest.warns(errors.ConvergenceWarning, match="newton-cg"):
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
