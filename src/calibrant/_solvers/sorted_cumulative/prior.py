"""How much of a prior to mix into SCIR, by cross-validation inside the calibration set.

SCIR gives exact zeros inside plateaus. The paper adds a small constant to every output; we mix
with the temperature-scaled row, which knows which of the zeros are likely, and let held-out rows
decide how much.
"""

from __future__ import annotations

import math
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from calibrant import _threads as threads
from calibrant._maps.cells import RankedSteps
from calibrant._row_order import sample_rows
from calibrant._solvers.pseudo_rows import price
from calibrant._solvers.report import SolverReport
from calibrant._solvers.sorted_cumulative.fit import fit_map
from calibrant._solvers.temperature import solve_temperature

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._solvers.sorted_cumulative.fit import CumulativeRows
    from calibrant._types import Floats, Wholes

N_FOLDS = 5

SHARES = np.array([0.001, 0.002, 0.005, 0.01, 0.02, *np.arange(1, 21) / 20])
"""Shares to choose from; never 0, so that no zero survives unless it is asked for."""

SLACK = 0.01
"""The smallest share is taken whose held-out NLL is within this fraction of the least.

NLL asks for more of the prior than calibration does, and is flat around its least.
"""

WITHOUT_CHOICE = 0.5
"""Share where there is one row only, so that none can be held out."""

MOST_CELLS = 1 << 20
"""Cells from which the expected loss is taken: more do not change its first digits."""

SMALLEST_HELD_OUT = 1e-12
"""Held-out probabilities below it count as this much."""


def choose_prior_share(
    batch: SimplexBatch,
    rows: CumulativeRows,
    max_rank: int | None = None,
    zero_probability: float | None = None,
    *,
    raise_to_even: bool = True,
) -> tuple[float, SolverReport]:
    """Share of the temperature-scaled row, by cross-validation in folds.

    ``rows`` is the batch in sorted cumulative form. The objective reported is the held-out NLL
    per unit of weight at the share that was chosen, with the price of leaving the
    temperature-scaled rows (see ``pseudo_rows``).
    """
    started = perf_counter()
    row, folds, weight = batch.deal(N_FOLDS)
    batch = replace(batch.take(row), weight=weight)
    rows = replace(rows.take(row), weight=weight)
    own, prior, distances = held_out(
        batch, rows, folds, max_rank, zero_probability, raise_to_even=raise_to_even
    )
    if len(own) == 0:
        note = "there is one row only: the prior share was not chosen by cross-validation"
        return WITHOUT_CHOICE, SolverReport(
            "cross-validation", math.nan, 0.0, 0.0, 0, perf_counter() - started, notes=(note,)
        )
    losses = np.array([_loss(own, prior, batch.weight, share) for share in SHARES])
    losses += price(distances) / math.fsum(batch.weight)
    chosen = int(np.argmax(losses <= losses.min() * (1.0 + SLACK)))
    report = SolverReport(
        "cross-validation", float(losses[chosen]), 0.0, 0.0, N_FOLDS, perf_counter() - started
    )
    return float(SHARES[chosen]), report


def held_out(
    batch: SimplexBatch,
    rows: CumulativeRows,
    folds: Wholes,
    max_rank: int | None,
    zero_probability: float | None = None,
    *,
    raise_to_even: bool = True,
) -> tuple[Floats, Floats, Floats]:
    """Probability of each row's label, by SCIR and by temperature scaling without its fold.

    And the expected NLL of every share if temperature scaling were right, from a bounded number
    of rows.
    """
    names = np.unique(folds)
    if len(names) < 2:
        return np.empty(0), np.empty(0), np.empty(0)
    own, prior = np.empty(batch.n_rows), np.empty(batch.n_rows)
    expected = np.zeros(len(SHARES))
    looked_at = sample_rows(batch.scores, batch.kind, max(1, MOST_CELLS // batch.n_classes))

    def judge(fold: int) -> Floats:
        out, rest = folds == fold, folds != fold
        function, _ = fit_map(rows.take(rest), max_rank, raise_to_even=raise_to_even)
        held, row = batch.take(out), np.arange(np.count_nonzero(out))
        plain = RankedSteps(function, 0.0, 1.0, 0.0, batch.kind)(held.scores)
        temperature = solve_temperature(batch.take(rest), zero_probability=zero_probability).map
        scaled = temperature(held.scores)
        own[out], prior[out] = plain[row, held.class_index], scaled[row, held.class_index]
        part = looked_at[out]
        return _expected(plain[part], scaled[part], held.weight[part])

    for found in threads.each(judge, names.tolist()):
        expected += found
    return own, prior, expected / math.fsum(batch.weight[looked_at])


def _expected(plain: Floats, scaled: Floats, weight: Floats) -> Floats:
    """Weighted NLL of every share of the ``scaled`` rows, for labels drawn from these."""
    mixed = (np.maximum((1.0 - s) * plain + s * scaled, SMALLEST_HELD_OUT) for s in SHARES)
    return np.array([-np.sum(weight @ (scaled * np.log(rows))) for rows in mixed])


def _loss(own: Floats, prior: Floats, weight: Floats, share: float) -> float:
    """Mean NLL of the mixture."""
    mixed = np.maximum((1.0 - share) * own + share * prior, SMALLEST_HELD_OUT)
    return -float(weight @ np.log(mixed)) / float(weight.sum())
