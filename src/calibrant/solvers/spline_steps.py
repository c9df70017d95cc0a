"""The monotone spline from gradients and Hessians over all rows, one point a pass."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from calibrant.maps.logits import log_probabilities
from calibrant.simplex import to_logits
from calibrant.solvers.report import SolverReport
from calibrant.solvers.spline_whole import (
    Problem,
    drop_light_rows,
    hold,
    minimise,
    sort_cells,
    violation_of,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch
    from calibrant.solvers.spline_whole import Frame

    Array = NDArray[np.float64]

MOST_ROUNDS = 100


class Reference(NamedTuple):
    """Slopes with the mean NLL of all rows, its gradient and its Hessian, if that is known."""

    slopes: Array
    loss: float
    gradient: Array
    hessian: Array | None


class SplineStep(NamedTuple):
    """What all rows say of a point of reference, better slopes, and the frame of both."""

    report: SolverReport
    better: Array
    frame: Frame


def step_spline(
    batch: SimplexBatch,
    frame: Frame,
    zero_logit: float,
    reference: Reference,
    tol: float,
    prior: tuple[float, float] | None = None,
) -> SplineStep:
    """Judge slopes by all rows, and better them; a sample of the rows is the batch.

    The likelihood of the sample gets the gradient and the Hessian of all rows at the point of
    reference: only the bend of the bend is the sample's. With a ``prior``, pseudo-observations
    and the weight of all rows, the pull to the start is found again.
    """
    started = perf_counter()
    batch = sort_cells(drop_light_rows(batch)).merged()
    logits = to_logits(batch.scores, batch.kind, zero_logit)
    logs = log_probabilities(logits, batch.kind) * frame.scale
    share = batch.weight / batch.weight.sum()
    problem = Problem(logs, batch.class_index, share, frame.knots)
    problem.match(reference.slopes, reference.gradient, reference.hessian)
    if prior is not None:
        frame = frame._replace(pull=hold(problem, frame.start, frame.rate, *prior)[1])
    problem.hold_to(frame.start, frame.pull)
    before, gradient, hessian = problem.value(reference.slopes, frame.rate)
    violation, _ = violation_of(reference.slopes, gradient, hessian)
    better = reference.slopes
    if violation > tol:
        better = minimise(problem, frame.rate, better, 0.1 * tol, MOST_ROUNDS)[0]
    loss = reference.loss + before - problem.losses(reference.slopes) @ share
    seconds = perf_counter() - started
    report = SolverReport("projected-newton", float(loss), violation, tol, 1, seconds)
    return SplineStep(report, better, frame)
