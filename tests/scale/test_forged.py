"""What a stranger wrote is refused when it is read or solved, and in no other way."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from calibrant import errors
from calibrant._calibrators.methods import methods
from calibrant.datasets import simulated_scores
from calibrant.metrics._statistics import MetricStatistics
from calibrant.scale._mergeable import Mergeable
from scale.forged import ODD, mutated, rewritten

SCORES, Y = simulated_scores(300)
SCORES = SCORES.copy()
SCORES[::7] = np.roll(np.eye(3), 1, axis=0)[Y[::7]]  # exact zeros, and labels there
INCREMENTAL = sorted(name for name, cls in methods().items() if hasattr(cls(), "partial_fit"))
CASES = [(name, case) for name in INCREMENTAL for case in ("kept", "counted")]
CASES += [("metrics", "1"), ("metrics", "2")]
MAY_REFUSE = {"prior_strength=0 needs all rows", "cannot be added to those of"}


@functools.cache
def honest(name, case):
    """Statistics of all rows, or of a few of them and counts."""
    if name == "metrics":
        return MetricStatistics([0, 1, 2], n_bins=4, n_groups=int(case)).update(SCORES, Y)
    rows = 1000 if case == "kept" else 100
    return methods()[name]().statistics([0, 1, 2], max_rows=rows).update(SCORES, Y)


def count_refused(name, case, n_forged, seed):
    data, rng, refused = honest(name, case).to_bytes(), np.random.default_rng(seed), 0
    for _ in range(n_forged):
        forged = mutated(data, rng)
        try:
            Mergeable.from_bytes(forged).solve()
        except errors.StatisticsError:
            refused += 1
        except errors.ParameterError as error:  # what an honest one is refused for, too
            if not any(words in str(error) for words in MAY_REFUSE):
                raise
    return refused


@pytest.mark.filterwarnings("ignore")  # numbers that no rows have may overflow
@pytest.mark.parametrize(("name", "case"), CASES)
def test_forged_statistics_are_refused_or_solved(name, case):
    Mergeable.from_bytes(honest(name, case).to_bytes()).solve()
    assert count_refused(name, case, 40, 0) > 20


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "case"), CASES)
def test_many_forged_statistics_are_refused_or_solved(name, case):
    assert count_refused(name, case, 800, 1) > 400


@pytest.mark.parametrize("name", INCREMENTAL)
def test_options_in_bytes_are_those_that_the_calibrator_takes(name):
    data = honest(name, "kept").to_bytes()
    options, taken = honest(name, "kept").options, 0
    for option in options.keys() - {"solver"}:
        for value in [*ODD, 1e-9, 3, 0.25, 1e12, 1e13, "evidence", "matrix"]:
            try:
                methods()[name](**options | {option: value}).statistics([0, 1, 2])
            except errors.ParameterError:
                with pytest.raises(errors.StatisticsError, match=option):
                    Mergeable.from_bytes(rewritten(data, {"options": options | {option: value}}))
            else:
                taken += 1
                Mergeable._registered[name]([0, 1, 2], **options | {option: value})
    assert taken >= 2 * len(options) or not options


@pytest.mark.parametrize("options", [{"odd": 1}, [], None, "ridge"])
def test_options_that_nobody_has_are_refused(options):
    data = honest("vs", "kept").to_bytes()
    with pytest.raises(errors.StatisticsError):
        Mergeable.from_bytes(rewritten(data, {"options": options}))


@pytest.mark.parametrize("n_rows", [0, -1, 12, 300.0, True, 10**30, "300", None])
def test_the_number_of_rows_fits_to_what_was_counted(n_rows):
    cases = [("ts", "kept"), ("ts", "counted")]
    cases += [("metrics", "1")] * (n_rows != 12)  # they keep no rows
    for name, case in cases:
        with pytest.raises(errors.StatisticsError):
            Mergeable.from_bytes(rewritten(honest(name, case).to_bytes(), {"n_rows": n_rows}))


@pytest.mark.parametrize("name", [name for name in INCREMENTAL if name != "fir"])  # it has one pass
def test_sums_of_a_later_pass_say_nothing_by_themselves(name):
    again = honest(name, "counted").solution().again
    with pytest.raises(errors.StatisticsError, match="later pass"):
        again.empty().update(SCORES, Y).solve()
    with pytest.raises(errors.StatisticsError, match="later pass"):
        again.to_bytes()


def test_nothing_is_solved_of_nothing():
    empty = methods()["ts"]().statistics([0, 1, 2])
    with pytest.raises(errors.ShapeError, match="there is nothing to fit"):
        empty.solve()
