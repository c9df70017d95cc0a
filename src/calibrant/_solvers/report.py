"""``SolverReport``: what a solver reached, and the proof of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from calibrant import errors

if TYPE_CHECKING:
    from calibrant._types import Floats

MapT = TypeVar("MapT")
ObjectiveT = TypeVar("ObjectiveT")


@dataclass(frozen=True, slots=True)
class Binning:
    """Bound on the effect of binning the scores, which fits of 1.0.0 to chunks did."""

    n_bins: int  # that are not empty
    violation: float  # of the optimality conditions of the scores themselves, at most
    excess: float = math.nan  # of the objective over the least one of the scores, at most


@dataclass(frozen=True, slots=True)
class SolverReport:
    """Result of a solver, with a certificate of optimality.

    Attributes
    ----------
    solver : str
        Name of the method.
    objective : float
        Value of the objective, per unit of weight.
    violation : float
        Largest violation of the optimality conditions, relative to the total weight; 0 means a
        closed form, infinity that there is no finite minimum.
    tolerance : float
        Requested tolerance of ``violation``.
    rounds : int
        Number of iterations.
    seconds : float
        Wall-clock time; NaN of a fit that was read from a model file, which equal data would
        otherwise not make equal. Reports that differ in it alone are equal.
    n_blocks : int or None
        Number of distinct values of a fitted step function.
    notes : tuple of str
        Remarks, such as a bound or a regulariser that was active.
    binning : Binning or None
        Bound on the effect of binning; None without binning.
    score_range : tuple of float or None
        Range of the calibration set: of the margins of two classes, or of the differences of the
        last and the first logit. ``predict_proba`` warns if most rows are outside of it.

    Examples
    --------
    >>> from calibrant._solvers.report import SolverReport
    >>> SolverReport("newton", 0.5, 1e-12, 1e-10, 6, 0.01).converged
    True
    """

    solver: str
    objective: float
    violation: float
    tolerance: float
    rounds: int
    seconds: float = field(default=math.nan, compare=False, metadata={"written": False})
    n_blocks: int | None = None
    notes: tuple[str, ...] = ()
    binning: Binning | None = field(default=None, metadata={"written": "unless None"})
    score_range: tuple[float, ...] | None = field(
        default=None, compare=False, metadata={"written": "unless None"}
    )

    @property
    def converged(self) -> bool:
        """Whether the violation is within the tolerance."""
        return self.violation <= self.tolerance

    @property
    def complaint(self) -> Warning | None:
        """A warning, if the optimum was not reached."""
        if self.converged:
            return None
        problem = (
            "; ".join(self.notes)
            if math.isinf(self.violation)
            else f"optimality violated by {self.violation:.2e} after {self.rounds} rounds; the "
            f"tolerance is {self.tolerance:.0e}"
        )
        warning: Warning = errors.ConvergenceWarning(f"{self.solver}: {problem}")
        return warning


class ScalingFit(NamedTuple, Generic[MapT, ObjectiveT]):
    """A map, the proof of it, the objective that it minimises and its parameters there."""

    map: MapT
    report: SolverReport
    objective: ObjectiveT
    point: Floats
