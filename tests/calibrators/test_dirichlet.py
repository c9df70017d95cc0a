import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from calibrant import DirichletCalibration, MatrixScaling


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
