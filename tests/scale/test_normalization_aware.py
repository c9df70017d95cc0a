"""NA-FIR of chunks: that of memory while rows fit, and nearly that, with a proof, when not."""

import numpy as np
import pytest

from calibrant import errors
from calibrant._maps.compositions import lift
from calibrant._simplex import check_batch
from calibrant._solvers.normalization_aware import solve_normalization_aware
from calibrant._solvers.normalization_aware.kept import spread_rows
from calibrant._solvers.normalization_aware.prior import build_likelihood
from calibrant._solvers.normalization_aware.ways import Annealing
from calibrant.scale import _normalization_aware as normalization_aware
from calibrant.scale import _surrogate as surrogate
from calibrant.scale._chunks import ArrayChunks
from calibrant.scale._normalization_aware import NormalizationAwareStatistics, find_segments
from calibrant.scale._score_table import ScoreTable
from conftest import load_real, real_files, simulate

STRENGTH = 50.0


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


def test_few_rows_lead_to_the_fit_in_memory_with_the_certificate_of_all(simulated):
    p, y, new, labels, exact, report = simulated
    likelihood, _ = build_likelihood(check_batch(p, y), STRENGTH)
    best, judged = nll(exact, new, labels), []
    of_all = [s for found, s in passes(p, y, max_rows=1500) if "objective" in found.parts]
    for solution in of_all:
        found = solution.fitted["solver_report_"]
        values = solution.fitted["map_"].step_function(likelihood.rows.starts)
        loss, violation = likelihood.evaluate(values)
        assert found.objective / (1 + STRENGTH / 6000) == pytest.approx(loss, abs=1e-7)
        assert found.violation == pytest.approx(violation, abs=1e-6)
        judged.append(found.violation)
    assert judged[-1] == min(judged)
    assert len(judged) <= surrogate.MOST_PASSES
    assert found.violation < 2e-5
    assert found.notes[0].startswith("prior of 50 pseudo-observations")
    assert abs(nll(solution.fitted["map_"], new, labels) / best - 1) < 1e-5
    assert found.objective / (1 + STRENGTH / 6000) == pytest.approx(report.objective, abs=1e-6)


@pytest.mark.parametrize("name", real_files("cifar10_vgg16", "letter", "hpc", "sst5", "r52_nb"))
def test_real_rows_lead_to_the_fit_in_memory(name):
    data = load_real(name)
    classes = np.arange(data["val"][0].shape[1])
    batch, new = (check_batch(*data[part], classes=classes) for part in ("val", "test"))
    exact, _, _ = solve_normalization_aware(batch, prior_strength=STRENGTH)
    kept = max(batch.n_rows // 4, 250)  # a map of 80 blocks has that many numbers itself
    found = last(batch.scores, batch.class_index, max_rows=kept)["map_"]
    for part in (batch, new):
        want = nll(exact, part.scores, part.class_index)
        assert nll(found, part.scores, part.class_index) == pytest.approx(want, abs=1e-4)


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
    assert nll(found["map_"], p[again], y[again]) == pytest.approx(
        nll(same["map_"], p[again], y[again]), abs=1e-4
    )


def test_the_strength_is_chosen_on_the_rows_that_were_kept():
    p, y = simulate(1500, 4)
    first, solution = next(passes(p, y, max_rows=500, prior_strength="cv"))
    _, choice = build_likelihood(first.kept_batch(), None)
    assert solution.fitted["prior_strength_"] == choice.best
    wanted = choice.results["negative_log_likelihood"].tolist()
    assert solution.fitted["cv_results_"]["negative_log_likelihood"].tolist() == wanted
    later = last(p, y, max_rows=500, prior_strength="cv")
    assert later["prior_strength_"] == choice.best
    said = "the strength chosen by cross-validation on the kept rows"
    assert said in later["solver_report_"].notes[0]


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
    batch = check_batch(p, y, classes=np.arange(6))
    exact, _, _ = solve_normalization_aware(batch, prior_strength=STRENGTH)
    fitted = last(p, y, max_rows=2500)
    assert fitted["solver_report_"].violation < 2e-5
    assert nll(fitted["map_"], batch.scores, y) == pytest.approx(
        nll(exact, batch.scores, y), rel=1e-5
    )


def test_labels_that_share_a_segment_are_bounded(monkeypatch):
    """The violation over all scores is at most that over segments and what binning may cost."""
    monkeypatch.setattr(normalization_aware, "MOST_SEGMENTS", 60)
    p, y = simulate(3000, 4)
    likelihood, _ = build_likelihood(check_batch(p, y), STRENGTH)
    fitted = last(p, y, max_rows=1000)
    report, step = fitted["solver_report_"], fitted["map_"].step_function
    _, violation = likelihood.evaluate(step(likelihood.rows.starts))
    assert report.converged
    assert report.violation < violation <= report.violation + report.binning.violation + 1e-9
    assert report.binning.violation < 0.05
    assert report.binning.n_bins < 150


def test_segments_are_those_of_memory_while_each_score_has_a_cell():
    p, y = simulate(300, 4)
    likelihood, _ = build_likelihood(check_batch(p, y), STRENGTH)
    table = ScoreTable(1, 10**5)
    table.add(check_batch(p, y))
    (starts, empty, cells), binning = find_segments(table.cells())
    rows = likelihood.rows
    np.testing.assert_array_equal(starts, rows.starts)
    np.testing.assert_array_equal(empty, rows.empty)
    np.testing.assert_array_equal(cells, rows.exposures(rows.weight))
    assert binning is None


def test_rows_are_spread_over_the_scores_of_all():
    p, y = simulate(400, 5)
    scores = np.unique(p)
    cells = np.unique(p, return_counts=True)[1].astype(float)
    kept = check_batch(p[::4], y[::4])
    spread = spread_rows(kept, scores, cells)
    assert set(spread.scores.ravel()) <= set(scores)
    assert len(set(spread.scores.ravel())) > 0.7 * len(scores)
    assert spread.weight.sum() == pytest.approx(kept.weight.sum())
    np.testing.assert_array_equal(spread.class_index[:100], kept.class_index)
    near = np.sort(spread.scores[:, 0].reshape(-1, 100), axis=0)
    assert np.all((near[0] <= kept.scores[:, 0]) & (kept.scores[:, 0] <= near[-1]))


def test_passes_end_where_nothing_gets_better(monkeypatch):
    """A sample of a few rows that cannot reach the tolerance says so."""
    monkeypatch.setattr(surrogate, "MOST_PASSES", 1)
    p, y = simulate(1000, 10)
    found = last(p, y, max_rows=40)["solver_report_"]
    assert not found.converged
    assert "optimality violated" in str(found.complaint)


def test_other_solvers_need_the_rows():
    with pytest.raises(errors.ParameterError, match=r"solver=.* needs all rows in memory"):
        NormalizationAwareStatistics([0, 1], solver=Annealing())
