"""What the one-vs-rest calibrators share; ``tests/solvers`` tests the binary maps."""

import numpy as np
import pytest

from calibrant import OneVsRestBeta, OneVsRestIsotonic, OneVsRestPlatt
from calibrant._kernels.rows import divide_by_sums
from calibrant._maps.curves import IDENTITY
from calibrant.errors import MissingClassWarning
from calibrant.study import OneVsRestBBQ, OneVsRestHistogram
from calibrators.test_scaling import tilted
from conftest import simulate

ALL = [OneVsRestIsotonic, OneVsRestPlatt, OneVsRestBeta, OneVsRestHistogram, OneVsRestBBQ]
each = pytest.mark.parametrize("cls", ALL, ids=lambda c: c.__name__)

any_data = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")


def assert_distributions(out):
    assert np.all((out >= 0) & (out <= 1))
    np.testing.assert_allclose(out.sum(axis=1), 1, atol=1e-13)


@each
def test_each_column_is_mapped_and_rows_are_divided_by_their_sums(cls):
    p, y = simulate(300, 4)
    calibrator = cls(min_probability=0).fit(p, y)
    mapped = np.stack([curve(p[:, j]) for j, curve in enumerate(calibrator.curves_)], axis=1)
    out = calibrator.predict_proba(p)
    np.testing.assert_allclose(out, mapped / mapped.sum(axis=1, keepdims=True), rtol=1e-14)
    assert calibrator.solver_report_.converged
    assert calibrator.solver_report_.solver.endswith("per class")


def test_a_row_of_zeros_keeps_its_scores():
    mapped = np.array([[0.0, 0.0], [0.2, 0.6]])
    rows = np.array([[0.3, 0.7], [0.5, 0.5]])
    divide_by_sums(mapped, rows)
    np.testing.assert_allclose(mapped, [[0.3, 0.7], [0.25, 0.75]])


@each
def test_a_class_without_a_label_keeps_its_scores_and_warns(cls):
    p, y = simulate(300, 4)
    keep = y != 1
    with pytest.warns(MissingClassWarning) as caught:
        calibrator = cls(classes=np.arange(4)).fit(p[keep], y[keep])
    assert caught[0].filename == __file__
    assert calibrator.curves_[1] is IDENTITY
    assert_distributions(calibrator.predict_proba(p))


def test_agrees_with_netcal_on_four_classes():
    """Histogram binning, one-vs-rest and divided by the sum, to all digits printed."""
    # from netcal.binning import HistogramBinning  # netcal 1.4.0
    # HistogramBinning(bins=10).fit(p, y).transform(p[:3])
    recorded = [
        [0.774904558186, 0.078492487575, 0.07736243288, 0.069240521359],
        [0.033055642751, 0.083921437846, 0.808993362063, 0.07402955734],
        [0.05757568455, 0.077158636819, 0.797201786077, 0.068063892555],
    ]
    p, y = tilted()
    calibrator = OneVsRestHistogram(n_bins=10, strategy="width", prior_strength=0).fit(p, y)
    np.testing.assert_allclose(calibrator.predict_proba(p[:3]), recorded, atol=1e-10)


def test_platt_and_beta_leave_calibrated_scores_alone():
    """Which the sigmoid of a probability cannot; labels are as frequent as the scores say."""
    p = np.repeat([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]], 100, axis=0)
    y = np.concatenate([np.arange(100) >= n for n in (20, 50, 90)]).astype(int)
    fresh = np.array([[0.3, 0.7], [0.01, 0.99]])
    platt = OneVsRestPlatt(smooth_labels=False).fit(p, y)
    np.testing.assert_allclose(platt.predict_proba(fresh), fresh, atol=1e-9)
    beta = OneVsRestBeta().fit(p, y)
    np.testing.assert_allclose(beta.predict_proba(fresh), fresh, atol=1e-6)
