"""One promise for all statistics: chunks may come from anywhere, and be others."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from calibrant import _threads as threads
from calibrant._calibrators.methods import methods
from calibrant.datasets import simulated_scores
from calibrant.metrics._statistics import MetricStatistics
from calibrant.scale._chunks import ArrayChunks
from calibrant.scale._statistics import Statistics

SCORES, Y = simulated_scores(600)
SCORES = SCORES.copy()
SCORES[::7] = np.roll(np.eye(3), 1, axis=0)[Y[::7]]  # exact zeros, and labels there
WEIGHT = np.random.default_rng(0).integers(1, 4, len(Y)).astype(float)
ROWS = {"probabilities": SCORES, "logits": np.log(np.maximum(SCORES, 1e-30))}
INCREMENTAL = sorted(name for name, cls in methods().items() if hasattr(cls(), "partial_fit"))
CASES = [(name, kind) for name in INCREMENTAL for kind in ROWS]


def fit(name, kind, n_rows, n_jobs=1):
    """A calibrator fitted in passes to chunks of some rows, of which a few are kept."""
    calibrator = methods()[name](scores=kind)
    chunks = ArrayChunks(ROWS[kind], Y, WEIGHT, n_rows=n_rows)
    with threads.jobs(n_jobs):
        counted = chunks.count(calibrator.statistics(chunks, max_rows=150))
        return calibrator.fit_statistics(counted, chunks)


NOT_PROVEN = pytest.mark.xfail(
    strict=True, reason="labels at logits of -69: passes end with a warning, 1.6e-7 apart"
)
AGREEING = [
    pytest.param(*case, marks=NOT_PROVEN if case == ("structured", "logits") else ())
    for case in CASES
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("name", "kind"), AGREEING)
def test_the_same_chunks_give_the_same_bits_and_others_agree(name, kind):
    """Whoever counts them, and when."""
    one, same, other = (fit(name, kind, *how) for how in ((97,), (97, 3), (250,)))
    assert not one.statistics_.kept.is_complete
    assert one.statistics_.to_bytes() == same.statistics_.to_bytes()
    found = [calibrator.predict_proba(ROWS[kind]) for calibrator in (one, same, other)]
    assert_array_equal(found[0], found[1])
    assert_allclose(found[0], found[2], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_bytes_come_back_as_what_they_were(name, kind):
    empty = methods()[name](scores=kind).statistics([0, 1, 2], max_rows=150)
    counted = empty.empty().update(ROWS[kind], Y, WEIGHT)
    again = Statistics.from_bytes(counted.to_bytes())
    assert again.to_bytes() == counted.to_bytes()
    assert_array_equal(again.solve()(ROWS[kind]), counted.solve()(ROWS[kind]))
    assert again.scale(0.0).to_bytes() == empty.to_bytes()
    assert again.merge(counted).to_bytes() == counted.to_bytes()


def test_metrics_come_back_as_what_they_were():
    empty = MetricStatistics([0, 1, 2], n_bins=5)
    counted = empty.empty().update(SCORES, Y)
    again = MetricStatistics.from_bytes(counted.to_bytes())
    assert again.to_bytes() == counted.to_bytes()
    assert again.scale(0.0).to_bytes() == empty.to_bytes()
    assert again.merge(counted).to_bytes() == counted.to_bytes()
