"""SCIR from statistics: as in memory while rows are kept, then from the grid."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import errors
from calibrant._simplex import check_batch
from calibrant._solvers.sorted_cumulative import solve_sorted_cumulative
from calibrant.scale import _isotonic as isotonic
from calibrant.scale._isotonic import SortedCumulativeStatistics
from calibrant.scale._statistics import Statistics
from conftest import each_real_file, load_real, simulate
from scale.passes import count, passes
from scale.test_statistics import rewritten

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")

ROWS, Y = simulate(900, 4)
WEIGHT = np.random.default_rng(0).choice([1.0, 0.5, 2.0], 900)  # their sums are exact


def fresh(k=4, **options):
    """Statistics without rows."""
    return SortedCumulativeStatistics(np.arange(k), **options)


def numbers(found):
    """Everything a map is made of."""
    step = found.step_function
    arrays = [array.tobytes() for array in (step.thresholds, step.values, step.offsets)]
    return (
        *arrays,
        found.prior_share,
        found.inverse_temperature,
        found.zero_logit,
        found.kind,
    )


def nll(found, rows, y):
    """Mean negative log-likelihood."""
    return -np.mean(np.log(found(rows)[np.arange(len(y)), y]))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"prior_share": 0.25},
        {"max_rank": 2, "prior_share": "cv"},
        {"zero_probability": 1e-6, "max_rank": None},
    ],
)
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
def test_while_rows_are_kept_the_fit_is_that_in_memory(options, kind):
    scores = ROWS if kind == "probabilities" else np.log(ROWS)
    counted = count(fresh(scores=kind, **options), (scores, Y, WEIGHT), 1, 5)
    solution = counted.solution()
    assert solution.again is None
    share = options.get("prior_share", "cv")
    want, report, choice = solve_sorted_cumulative(
        check_batch(scores, Y, WEIGHT, kind=kind),
        prior_share=None if share == "cv" else share,
        max_rank=options.get("max_rank"),
        zero_probability=options.get("zero_probability"),
    )
    found = solution.fitted
    np.testing.assert_allclose(found["map_"](scores), want(scores), atol=1e-9)
    assert found["solver_report_"].binning is None
    assert found["solver_report_"].objective == pytest.approx(report.objective, abs=1e-9)
    assert (found["prior_report_"] is None) == (choice is None)


@pytest.mark.parametrize("options", [{}, {"max_rank": 2}, {"zero_probability": 1e-6}])
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
def test_rows_that_are_not_kept_are_counted(options, kind):
    """Each point has a cell of its own here: the regression is that of all rows."""
    scores = ROWS if kind == "probabilities" else np.log(ROWS)
    data = scores, Y, WEIGHT
    last = passes(fresh(scores=kind, max_rows=300, prior_share=0.3, **options), data)[-1]
    found, report = last.fitted["map_"], last.fitted["solver_report_"]
    batch = check_batch(scores, Y, WEIGHT, kind=kind)
    want, other, _ = solve_sorted_cumulative(batch, prior_share=0.3, **options)
    assert report.binning is None
    assert report.objective == pytest.approx(other.objective, abs=1e-9)
    np.testing.assert_allclose(
        found.step_function.values, want.step_function.values, atol=1e-9, rtol=0
    )
    np.testing.assert_array_equal(found.step_function.thresholds, want.step_function.thresholds)
    assert found.inverse_temperature == pytest.approx(want.inverse_temperature, rel=1e-3)
    assert found.kind == kind
    assert last.fitted["prior_report_"] is None
    assert nll(found, scores, Y) == pytest.approx(nll(want, scores, Y), rel=1e-5)


def test_the_share_is_chosen_by_rows_that_were_kept():
    counted = count(fresh(max_rows=400), (ROWS, Y, WEIGHT))
    fitted = counted.solution().fitted
    _, report, choice = solve_sorted_cumulative(counted.kept_batch(), prior_share=None)
    assert fitted["prior_report_"].objective == choice.objective
    chosen = solve_sorted_cumulative(counted.kept_batch(), prior_share=None)[0].prior_share
    assert fitted["map_"].prior_share == chosen
    assert fitted["solver_report_"].objective != report.objective


def test_a_second_pass_betters_the_temperature_alone():
    rows, y, weight = ROWS**2 / np.sum(ROWS**2, axis=1, keepdims=True), Y, WEIGHT
    found = passes(fresh(max_rows=60, prior_share=0.5), (rows, y, weight))
    assert 2 <= len(found) <= 5
    want = solve_sorted_cumulative(check_batch(rows, y, weight), prior_share=0.5)[0]
    gaps = [
        abs(one.fitted["map_"].inverse_temperature / want.inverse_temperature - 1) for one in found
    ]
    assert gaps[-1] < 1e-3 < gaps[0]
    first, last = found[0].fitted["map_"], found[-1].fitted["map_"]
    assert first.step_function is last.step_function
    assert found[0].again.empty().regression is None  # the fit does not travel


def test_with_many_rows_one_pass_is_enough(monkeypatch):
    monkeypatch.setattr("calibrant.scale._isotonic.ENOUGH_ROWS", 60)
    assert len(passes(fresh(max_rows=60, prior_share=0.5), (ROWS, Y, WEIGHT))) == 1


def test_bytes_come_back_and_fit_the_same(monkeypatch):
    monkeypatch.setattr(isotonic, "FEWEST_CELLS", 100)
    monkeypatch.setattr(isotonic, "CELLS_OF_RANK", 1)
    counted = count(fresh(max_rows=300), (ROWS, Y, WEIGHT))
    data = counted.to_bytes()
    again = Statistics.from_bytes(data)
    assert again.to_bytes() == data
    solutions = [one.solution().fitted for one in (counted, again)]
    assert numbers(solutions[0]["map_"]) == numbers(solutions[1]["map_"])
    binning = solutions[0]["solver_report_"].binning
    assert 30 < binning.n_bins <= 100
    assert 0 < binning.violation < 0.1
    assert 0 < binning.excess < 0.1
    arrays = counted.parts["scores"].arrays()
    for name in ("key", "sums", "offsets"):
        with pytest.raises(errors.StatisticsError):
            Statistics.from_bytes(rewritten(data, {f"scores/{name}.npy": -arrays[name][::-1]}))
    with pytest.raises(errors.StatisticsError):
        Statistics.from_bytes(rewritten(data, {"options": {"max_rank": 1}}))


@each_real_file
def test_on_real_predictions_counts_fit_as_rows_do(name):
    data = load_real(name)
    (rows, y), (new, labels) = data["val"], data["test"]
    k = rows.shape[1]
    batch = check_batch(rows, y, classes=np.arange(k))
    want, report, _ = solve_sorted_cumulative(batch, prior_share=0.3)
    counted = (batch.scores, y, np.ones(len(y)))
    last = passes(fresh(k, max_rows=len(y) // 4, prior_share=0.3), counted, n_chunks=2)[-1]
    found = last.fitted["map_"]
    new = check_batch(new, labels, classes=np.arange(k)).scores
    assert nll(found, new, labels) == pytest.approx(nll(want, new, labels), abs=1e-4)
    assert last.fitted["solver_report_"].objective == pytest.approx(report.objective, abs=1e-9)
