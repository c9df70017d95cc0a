"""Whatever is counted of rows: one promise for every part of all statistics."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from calibrant import simplex
from calibrant.calibrators.methods import methods
from calibrant.datasets import simulated_scores
from calibrant.metrics.statistics import MetricStatistics
from calibrant.scale.parts import Part

SCORES, Y = simulated_scores(300)
SCORES = SCORES.copy()
SCORES[::7] = np.roll(np.eye(3), 1, axis=0)[Y[::7]]  # exact zeros, and labels there
ROWS = {"probabilities": SCORES, "logits": np.log(np.maximum(SCORES, 1e-30))}
ADDS_DAYS = sorted(name for name, cls in methods().items() if hasattr(cls(), "partial_fit"))
CASES = [*((name, kind) for name in ADDS_DAYS for kind in ROWS), ("metrics", "probabilities")]


@functools.cache
def asked_for(name, kind):
    """Empty statistics of each pass, the first of them first; more rows come than are kept."""
    if name == "metrics":
        return (MetricStatistics([0, 1, 2], n_bins=5),)
    found, again = [], methods()[name](scores=kind).statistics([0, 1, 2], max_rows=100)
    while again is not None and len(found) < 4:
        found.append(again.empty())
        again = again.update(ROWS[kind], Y).solution().again
    return tuple(found)


def test_every_part_is_among_them():
    seen = {part for case in CASES for empty in asked_for(*case) for part in empty.parts}
    assert seen >= Part.registered.keys()


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_how_many_rows_are_counted_at_once_changes_no_bit(name, kind, monkeypatch):
    found = [empty.empty().update(ROWS[kind], Y).to_bytes() for empty in asked_for(name, kind)]
    for size in ("CHUNK_BYTES", "SMALL_CHUNK_BYTES", "SMALL_CHUNK_ROWS"):
        monkeypatch.setattr(simplex, size, 200)
    few = [empty.empty().update(ROWS[kind], Y).to_bytes() for empty in asked_for(name, kind)]
    assert few == found


@pytest.mark.parametrize(("name", "kind"), CASES)
@pytest.mark.parametrize("factors", [[0.0], [0.01] * 12])
def test_what_has_faded_away_was_never_counted(name, kind, factors):
    half = slice(len(Y) // 2)
    for empty in asked_for(name, kind):
        faded = empty.empty().update(ROWS[kind], Y)
        for factor in factors:
            faded.scale(factor)
        assert faded.to_bytes() == empty.to_bytes()
        again = empty.empty().update(ROWS[kind][half], Y[half])
        assert faded.merge(again).to_bytes() == again.to_bytes()
