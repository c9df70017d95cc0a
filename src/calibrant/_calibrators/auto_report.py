"""What ``AutoCalibrator`` tried, and why the result is what it is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from calibrant.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._calibrators.auto_search import Search

BASELINE = "ts"
"""Candidate that all others are compared with."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One row of the report.

    Attributes
    ----------
    path : str
        Name of the candidate.
    nll : float
        Mean NLL on held-out rows.
    difference : float
        NLL minus that of temperature scaling.
    standard_error : float
        Standard error of ``difference``.
    weight : float
        Weight in the mixture.
    seconds : float
        Time to fit and evaluate it, summed over threads; NaN if read from a model file.
    """

    path: str
    nll: float
    difference: float
    standard_error: float
    weight: float
    seconds: float = field(default=math.nan, compare=False, metadata={"written": False})


@dataclass(frozen=True, slots=True, repr=False)
class AutoReport:
    """Candidates of ``AutoCalibrator``, and the reason of its choice.

    Attributes
    ----------
    candidates : tuple of Candidate
    n_rows : int
        Number of held-out rows: all, or a sample.
    n_folds : int
    mixture_nll : float
        Mean NLL of the mixture on held-out rows.
    finish_share : float
        Weight in the result of the calibrators fitted to the whole mixture.
    home : str
        Candidate towards which the mixture is shrunk.
    gain_by_rows : float
        Of a fit with groups, by how many nats a mixture would be ahead of temperature scaling if
        rows were held out one by one, so that others of their groups are known; NaN without groups.
    """

    candidates: tuple[Candidate, ...]
    n_rows: int
    n_folds: int
    mixture_nll: float
    finish_share: float = 0.0
    home: str = BASELINE
    gain_by_rows: float = math.nan

    def __post_init__(self) -> None:
        if not self.candidates:
            raise ParameterError("candidates is empty; a report needs at least one")

    @property
    def why(self) -> str:
        """Explanation of the choice in a few sentences."""
        chosen = sorted(self.candidates, key=lambda c: -c.weight)
        parts = ", ".join(f"{c.weight:.0%} {c.path}" for c in chosen if c.weight >= 0.01)
        best = min(self.candidates, key=lambda c: c.nll)
        home = next(c for c in self.candidates if c.path == self.home)
        name = "temperature scaling" if self.home == BASELINE else self.home
        if home.weight == 1.0:
            verdict = f"no other candidate was certain to do better, so {name} is used alone"
        elif home.weight >= 0.5:
            verdict = f"{name} keeps the largest weight, as the gain of the others is uncertain"
        elif home.weight >= 0.01:
            verdict = f"{name} keeps some weight"
        else:
            verdict = f"{name} has no weight"
        finish = (
            f" A calibrator fitted to the whole mixture has a weight of {self.finish_share:.0%}."
            if self.finish_share
            else ""
        )
        return (
            f"Of {len(self.candidates)} candidates, judged on {self.n_rows:,} held-out rows by "
            f"{self.n_folds}-fold cross-validation, {best.path} had the lowest NLL, {best.nll:.4f} "
            f"({best.difference:+.4f} ± {best.standard_error:.4f} against temperature scaling). "
            f"The mixture is {parts}, with a held-out NLL of {self.mixture_nll:.4f}; {verdict}."
            f"{finish}{self._of_groups}"
        )

    @property
    def _of_groups(self) -> str:
        """Say how much of the gain is left where groups are new."""
        if math.isnan(self.gain_by_rows):
            return ""
        baseline = next(c for c in self.candidates if c.path == BASELINE)
        return (
            " Groups were held out whole: the mixture gains "
            f"{baseline.nll - self.mixture_nll:.4f} on temperature scaling where groups are new; "
            f"it would gain {self.gain_by_rows:.4f} where other rows of a group are known."
        )

    def __repr__(self) -> str:
        # Times are unknown if the report was read from a model file.
        is_timed = not any(math.isnan(c.seconds) for c in self.candidates)
        seconds = [f"{c.seconds:>7.2f}" if is_timed else "" for c in self.candidates]
        head = f"{'candidate':<26}{'NLL':>9}{'vs ts':>10}{'± s.e.':>9}{'weight':>8}"
        lines = [head + (f"{'s':>7}" if is_timed else "")]
        for c, time in zip(self.candidates, seconds, strict=True):
            numbers = f"{c.nll:>9.4f}{c.difference:>+10.4f}{c.standard_error:>9.4f}{c.weight:>8.1%}"
            lines.append(f"{c.path:<26}{numbers}{time}")
        return "\n".join([*lines, self.why])


def report_of(
    names: list[str],
    of_labels: NDArray[np.float64],
    weights: NDArray[np.float64],
    search: Search,
    finish_share: float,
    reference: str,
) -> AutoReport:
    """Return the report of a search, from the probabilities of the labels by each candidate."""
    share = search.batch.weight / search.batch.weight.sum()
    loss = -np.log(np.maximum(of_labels, 1e-300))
    gaps = loss - loss[:, [names.index(BASELINE)]]
    mean = share @ gaps
    error = np.sqrt(share @ (gaps - mean) ** 2 / search.batch.weight.sum())  # weights are rows
    nll = share @ loss
    candidates = [
        Candidate(
            name,
            nll=float(nll[i]),
            difference=float(mean[i]),
            standard_error=float(error[i]),
            weight=float(weights[i]),
            seconds=search.seconds[name],
        )
        for i, name in enumerate(names)
    ]
    mixture = float(-share @ np.log(np.maximum(of_labels @ weights, 1e-300)))
    n_folds = int(search.folds.max()) + 1
    return AutoReport(tuple(candidates), search.n_rows, n_folds, mixture, finish_share, reference)
