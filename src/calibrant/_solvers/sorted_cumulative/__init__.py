"""SCIR: isotonic regression of cumulative probabilities in both coordinates, and its prior."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant._maps.cells import RankedSteps
from calibrant._solvers.merged_rows import choice_rows
from calibrant._solvers.sorted_cumulative.fit import accumulate, fit_map
from calibrant._solvers.sorted_cumulative.prior import choose_prior_share
from calibrant._solvers.temperature import solve_temperature

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._maps.logits import TemperatureMap
    from calibrant._solvers.report import SolverReport


def solve_sorted_cumulative(
    batch: SimplexBatch,
    *,
    prior_share: float | None,
    max_rank: int | None = None,
    raise_to_even: bool = True,
    zero_probability: float | None = None,
    temperature: TemperatureMap | None = None,
) -> tuple[RankedSteps, SolverReport, SolverReport | None]:
    """Fit SCIR with a share of temperature scaling, or the one that cross-validation chooses.

    With q_ir, the sum of the r largest probabilities of row i, and z_ir, whether its label is among
    them, g minimises sum_i w_i sum_r (g(q_ir, r) - z_ir)^2 over functions that rise in q and in r.

    The second report is that of the choice. ``max_rank`` pools all ranks from it on: the fit there
    depends on q alone. ``raise_to_even`` bounds g by r / k from below. The ``temperature`` of all
    rows may be known.
    """
    rows, choice = accumulate(batch), None
    if prior_share is None:
        chosen = choice_rows(batch)
        some = (batch, rows) if chosen is None else (batch.take(chosen), rows.take(chosen))
        prior_share, choice = choose_prior_share(
            *some, max_rank, zero_probability, raise_to_even=raise_to_even
        )
    function, report = fit_map(rows, max_rank, raise_to_even=raise_to_even)
    if temperature is None:
        temperature = solve_temperature(batch, zero_probability=zero_probability).map
    scale, zero_logit = temperature.inverse_temperature, temperature.zero_logit
    return RankedSteps(function, prior_share, scale, zero_logit, batch.kind), report, choice
