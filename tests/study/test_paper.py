"""The paper's own estimators: ours without priors, known by name wherever methods are."""

import numpy as np
import pytest

import calibrant
from calibrant import model_file, study
from calibrant._calibrators.methods import make_calibrator, methods
from calibrant.study import run_study
from calibrant.study._methods import ALL_METHODS, PAPER_ESTIMATORS, PAPER_METHODS
from calibrant.study._paper import EPSILON
from conftest import simulate
from reference.bivariate_isotonic import fit_scir, predict_scir

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")

PAIRS = {
    "na-fir-paper": calibrant.NormalizationAwareIsotonic(prior_strength=0),
    "scir-paper": calibrant.SortedCumulativeIsotonic(prior_share=0, raise_to_even=False),
    "ir-ovr-paper": calibrant.OneVsRestIsotonic(prior_strength=0),
    "ts-paper": calibrant.TemperatureScaling(prior_strength=0),
    "vs-paper": calibrant.VectorScaling(prior_strength=0),
    "ms-paper": calibrant.MatrixScaling(prior_strength=0, odir=0),
}


def test_every_column_of_the_paper_has_an_estimator_without_a_prior():
    assert set(PAPER_ESTIMATORS) == set(PAPER_METHODS)
    own = {name for name in methods(study=True) if name.endswith("-paper")}
    assert own == {*PAIRS} == {*PAPER_ESTIMATORS.values()} - {"fir", "uncalibrated"}
    assert own < {*ALL_METHODS}
    assert (
        calibrant.FlattenedIsotonic()
        .get_params()
        .keys()
        .isdisjoint({"prior_strength", "prior_share"})
    )
    assert study.Annealing().prior_strength == 0


@pytest.mark.parametrize("method", PAIRS)
def test_is_ours_with_other_defaults_and_comes_back_from_a_file(method, tmp_path):
    p, y = simulate(300, 4)
    calibrator = make_calibrator(method).fit(p, y)
    assert type(calibrator).__bases__ == (type(PAIRS[method]),)
    assert calibrator.min_probability == EPSILON
    out = calibrator.predict_proba(p)
    assert out.tobytes() == PAIRS[method].fit(p, y).predict_proba(p).tobytes()
    model_file.save(calibrator, tmp_path / "model.calibrant")
    loaded = model_file.load(tmp_path / "model.calibrant")
    assert type(loaded) is type(calibrator)
    assert loaded.predict_proba(p).tobytes() == out.tobytes()


def test_scir_without_the_floor_is_the_regression_as_it_comes():
    """Three labels of four are not the top class, so that g(q, 1) falls below 1 / k."""
    rows = np.array([[0.6, 0.3, 0.1], [0.55, 0.35, 0.1], [0.5, 0.3, 0.2], [0.45, 0.35, 0.2]])
    labels = np.array([1, 2, 1, 0])
    reference = fit_scir(rows.tolist(), labels.tolist())
    assert min(reference.values()) < 1 / 3
    plain = study.PaperSortedCumulative(classes=[0, 1, 2]).fit(rows, labels)
    wanted = [predict_scir(reference, row) for row in rows.tolist()]
    np.testing.assert_allclose(plain.predict_proba(rows), np.array(wanted, dtype=float), atol=1e-11)
    raised = study.PaperSortedCumulative(classes=[0, 1, 2], raise_to_even=True).fit(rows, labels)
    assert raised.step_function_.values.min() >= 1 / 3
    assert plain.step_function_.values.min() < 1 / 3


def test_without_the_floor_two_classes_change_places_across_a_tie():
    """The reason for the floor: of two almost equal classes the second one wins by far."""
    rows = np.array([[0.5001, 0.4999]] * 4)
    calibrator = study.PaperSortedCumulative().fit(rows, [0, 1, 1, 1])
    first, second = calibrator.predict_proba([[0.5001, 0.4999], [0.4999, 0.5001]])
    np.testing.assert_allclose(first, [0.25, 0.75])
    np.testing.assert_allclose(second, [0.75, 0.25])
    raised = calibrant.SortedCumulativeIsotonic(prior_share=0).fit(rows, [0, 1, 1, 1])
    np.testing.assert_allclose(raised.predict_proba(rows[:1]), [[0.5, 0.5]])


def test_a_study_fits_matrices_to_logits_where_a_file_has_both(tmp_path):
    p, y = simulate(600, 4, seed=2)
    logits = np.log(p) + np.random.default_rng(0).normal(0, 3, (600, 1))  # softmax is the same
    arrays = {"probs": p, "logits": logits, "labels": y}
    both = {f"{part}_{name}": array for name, array in arrays.items() for part in ("val", "test")}
    for name, kinds in {"d_both": both, "d_logits": both}.items():
        drop = "probs" if name == "d_logits" else "none"
        np.savez(tmp_path / f"{name}.npz", **{k: v for k, v in kinds.items() if drop not in k})
    names = ["vs", "ms", "ts-paper", "vs-paper", "ms-paper", "na-fir-paper"]
    nll = run_study(tmp_path, tmp_path / "out", names, n_jobs=0).wide("nll")
    for method in names:
        assert nll.loc[("d", "both"), method] == pytest.approx(nll.loc[("d", "logits"), method])
    np.savez(
        tmp_path / "d_probs.npz", **{k: v for k, v in both.items() if not k.endswith("logits")}
    )
    nll = run_study(tmp_path, tmp_path / "out", names, n_jobs=0).wide("nll")
    assert abs(nll.loc[("d", "both"), "ms-paper"] - nll.loc[("d", "probs"), "ms-paper"]) > 1e-4
