"""NA-FIR of chunks: that of memory while rows fit, and nearly that, with a proof, when not."""

import numpy as np
import pytest

from calibrant import errors
from calibrant.maps.compositions import lift
from calibrant.scale import normalization_aware, segments
from calibrant.scale.chunks import ArrayChunks
from calibrant.scale.normalization_aware import NormalizationAwareStatistics
from calibrant.simplex import check_batch
from calibrant.solvers.normalization_aware import solve_normalization_aware
from calibrant.solvers.normalization_aware.prior import build_likelihood
from calibrant.solvers.normalization_aware.ways import Annealing
from conftest import load_real, real_files, simulate

STRENGTH = 50.0

ENOUGH_ROWS = 250
"""Rows that are kept, at least: maps have 30 to 120 blocks here, and the Hessian of fewer rows
is so far from that of all that steps overshoot. 125 for 500 end uncertified, as the report says."""


def nll(found, p, y):
    rows = lift(found(p), 1e-12, sums_to_one=True, given=p)
    return -np.mean(np.log(rows[np.arange(len(y)), y]))


def passes(p, y, weight=None, n_rows=None, **options):
    """Solutions of one pass after the other, until none is asked for."""
    options = {"prior_strength": STRENGTH} | options
    statistics = NormalizationAwareStatistics(np.arange(p.shape[1]), **options)
    while statistics is not None:
        chunks = ArrayChunks(p, y, weight, n_rows=n_rows or len(p))
        statistics.merge(chunks.count(statistics.empty()))
        solution = statistics.solution()
        yield statistics, solution
        statistics = solution.again


def last(*arguments, **options):
    *_, (_, solution) = passes(*arguments, **options)
    return solution.fitted


@pytest.fixture(scope="module")
def simulated():
    """Rows to fit, rows to judge, and the fit in memory."""
    (p, y), (new, labels) = simulate(6000, 5), simulate(20_000, 5, 1)
    exact, report, _ = solve_normalization_aware(check_batch(p, y), prior_strength=STRENGTH)
    return p, y, new, labels, exact, report


def same_steps(a, b):
    assert a.thresholds.tolist() == b.thresholds.tolist()
    assert a.values.tolist() == b.values.tolist()
    assert a.sizes.tolist() == b.sizes.tolist()


@pytest.mark.parametrize("strength", [0.0, 30.0, "cv"])
@pytest.mark.parametrize("name", real_files("hpc"))
def test_rows_that_fit_give_the_fit_in_memory(name, strength):
    p, y = load_real(name)["val"]
    fitted = last(p, y, prior_strength=strength)
    batch = check_batch(p, y, classes=np.arange(p.shape[1]))
    given = None if strength == "cv" else strength
    exact, report, choice = solve_normalization_aware(batch, prior_strength=given)
    np.testing.assert_allclose(
        fitted["map_"].step_function.values, exact.step_function.values, rtol=1e-9
    )
    found = fitted["solver_report_"]
    assert found.objective == pytest.approx(report.objective, abs=1e-12)
    assert found.binning is None
    assert fitted["prior_strength_"] == (strength if choice is None else choice.best)
    assert (fitted["cv_results_"] is None) == (choice is None)


def test_few_rows_lead_to_the_fit_in_memory_in_a_few_passes(simulated):
    p, y, new, labels, exact, report = simulated
    best, violations = nll(exact, new, labels), []
    for _, solution in passes(p, y, max_rows=1500):
        found = solution.fitted["solver_report_"]
        violations.append(found.violation)
    assert abs(nll(solution.fitted["map_"], new, labels) / best - 1) < 1e-5
    assert found.converged
    assert found.rounds == len(violations) <= 6
    assert found.objective == pytest.approx(report.objective, abs=1e-7)
    assert violations[1:] == sorted(violations[1:], reverse=True)
    step, wanted = solution.fitted["map_"].step_function, exact.step_function
    x = np.linspace(0.001, 0.99, 500)
    np.testing.assert_allclose(step(x) / step(0.5), wanted(x) / wanted(0.5), rtol=0.01)


def test_the_certificate_is_that_of_all_rows(simulated):
    p, y, *_ = simulated
    likelihood, _ = build_likelihood(check_batch(p, y), STRENGTH)
    for statistics, solution in passes(p, y, max_rows=1500):
        found = solution.fitted["solver_report_"]
        if statistics.before is not None and statistics.plan.settled:
            values = solution.fitted["map_"].step_function(likelihood.rows.starts)
            loss, violation = likelihood.evaluate(values)
            assert found.objective == pytest.approx(loss, abs=1e-8)
            assert found.violation == pytest.approx(violation, abs=1e-8)


def test_one_pass_is_better_than_the_rows_that_were_kept(simulated):
    p, y, new, labels, exact, _ = simulated
    first, solution = next(passes(p, y, max_rows=600))
    kept = first.kept_batch()
    alone, _, _ = solve_normalization_aware(kept, prior_strength=STRENGTH * 0.1)
    best = nll(exact, new, labels)
    gap = nll(solution.fitted["map_"], new, labels) - best
    assert gap < 0.3 * (nll(alone, new, labels) - best)
    assert solution.again is not None
    assert solution.fitted["solver_report_"].notes[-1] == "600 rows stand for 6000"
    assert np.isnan(solution.fitted["solver_report_"].objective)


@pytest.mark.parametrize("name", real_files("yelp_nb", "cifar10_vgg16-bn", "letter_gaussian"))
def test_real_rows_lead_to_the_fit_in_memory(name):
    (p, y), (new, labels) = load_real(name)["val"], load_real(name)["test"]
    classes = np.arange(p.shape[1])
    exact, _, _ = solve_normalization_aware(
        check_batch(p, y, classes=classes), prior_strength=STRENGTH
    )
    fitted = last(p, y, max_rows=max(len(p) // 4, ENOUGH_ROWS))
    new = check_batch(new, labels, classes=classes).scores
    assert abs(nll(fitted["map_"], new, labels) / nll(exact, new, labels) - 1) < 1e-4


def test_logits_are_fitted_as_their_probabilities(simulated):
    p, y, new, labels, *_ = simulated
    found = last(np.log(p), y, max_rows=1500, scores="logits")["map_"]
    same = last(p, y, max_rows=1500)["map_"]
    assert nll(found, np.log(new), labels) == pytest.approx(nll(same, new, labels), rel=1e-5)


def test_weights_are_repetitions():
    p, y = simulate(1200, 3)
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    again = np.repeat(np.arange(len(y)), weight.astype(int))
    found = last(p, y, weight, max_rows=300)
    same = last(p[again], y[again], max_rows=300)
    assert found["map_"](p) == pytest.approx(same["map_"](p), abs=1e-6)
    assert found["solver_report_"].objective == pytest.approx(
        same["solver_report_"].objective, abs=1e-9
    )


def test_the_strength_is_chosen_on_the_rows_that_were_kept():
    p, y = simulate(1500, 4)
    first, solution = next(passes(p, y, max_rows=500, prior_strength="cv"))
    _, choice = build_likelihood(first.kept_batch(), None)
    assert solution.fitted["prior_strength_"] == choice.best
    wanted = choice.results["negative_log_likelihood"].tolist()
    assert solution.fitted["cv_results_"]["negative_log_likelihood"].tolist() == wanted
    assert (
        "the strength by cross-validation of the rows that were kept"
        in (solution.fitted["solver_report_"].notes[0])
    )


def test_without_a_prior_rows_that_were_not_kept_are_missed():
    p, y = simulate(1500, 4)
    said = r"prior_strength=0 .* 500 of 1,500 .* max_rows"
    with pytest.raises(errors.ParameterError, match=said):
        last(p, y, max_rows=500, prior_strength=0.0)
    assert last(p, y, max_rows=1500, prior_strength=0.0)["prior_strength_"] == 0.0


def test_exact_zeros_and_ones_are_fitted():
    p, y = simulate(8000, 6)
    p = np.where(p < 0.02, 0.0, np.round(p, 3))
    p /= p.sum(axis=1, keepdims=True)
    exact, _, _ = solve_normalization_aware(
        check_batch(p, y, classes=np.arange(6)), prior_strength=STRENGTH
    )
    fitted = last(p, y, max_rows=2500)
    assert fitted["solver_report_"].converged
    rows = check_batch(p, y, classes=np.arange(6)).scores
    assert nll(fitted["map_"], rows, y) == pytest.approx(nll(exact, rows, y), rel=1e-5)


def test_labels_that_share_a_segment_are_bounded(monkeypatch):
    """The violation over all scores is at most that over segments and what binning may cost."""
    monkeypatch.setattr(segments, "MOST_SEGMENTS", 60)
    p, y = simulate(3000, 4)
    likelihood, _ = build_likelihood(check_batch(p, y), STRENGTH)
    fitted = last(p, y, max_rows=1000)
    report, step = fitted["solver_report_"], fitted["map_"].step_function
    _, violation = likelihood.evaluate(step(likelihood.rows.starts))
    assert report.converged
    assert report.violation < violation <= report.violation + report.binning.violation + 1e-9
    assert report.binning.violation < 0.05
    assert report.binning.n_bins < 150


def test_passes_end_where_nothing_gets_better(monkeypatch):
    """A sample of a few rows that cannot reach the tolerance says so."""
    monkeypatch.setattr(normalization_aware, "MOST_PASSES", 3)
    p, y = simulate(1000, 10)
    found = last(p, y, max_rows=40)["solver_report_"]
    assert not found.converged
    assert found.rounds == 3
    assert "optimality violated" in str(found.complaint)


def test_other_solvers_are_refused_with_a_remedy():
    with pytest.raises(errors.ParameterError, match="only solver='exact' is possible"):
        NormalizationAwareStatistics(np.arange(3), solver=Annealing())
