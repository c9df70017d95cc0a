"""``AutoCalibrator``: every good method, weighed by how it does on rows it has not seen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calibrant import threads
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.composition import Composed, fit_part, outputs_of_fold, stage_of
from calibrant.calibrators.monotone_spline import MonotoneSpline
from calibrant.calibrators.normalization_aware import NormalizationAwareIsotonic
from calibrant.calibrators.parameters import choice, fitted, number
from calibrant.calibrators.scaling import TemperatureScaling
from calibrant.calibrators.sorted_cumulative import SortedCumulativeIsotonic
from calibrant.calibrators.structured import StructuredScaling
from calibrant.errors import ParameterError, in_words
from calibrant.maps.compositions import ChainMap, MixtureMap
from calibrant.progress import progress
from calibrant.solvers.cautious_share import solve_cautious_share
from calibrant.solvers.mixture import solve_mixture

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibrant.maps.base import CalibrationMap
    from calibrant.simplex import SimplexBatch

BASELINE = "ts"
FAVOURITE = "structured > spline"
"""Best on its own, within the validation parts of real classifiers: it has the prior."""
STAGES: dict[str, Any] = {
    "ts": TemperatureScaling,
    "structured": StructuredScaling,
    "na-fir": NormalizationAwareIsotonic,
    "scir": SortedCumulativeIsotonic,
    "spline": MonotoneSpline,
}
PATHS = (
    "ts",
    "na-fir",
    "scir",
    "spline",
    "structured",
    "structured > na-fir",
    "structured > scir",
    "structured > spline",
)
"""What is tried by default: one method, or one after the other."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One row of the report.

    Attributes
    ----------
    path : str
        The methods, in the order in which they are applied.
    nll : float
        Mean NLL on rows that the candidate was not fitted to.
    difference : float
        Its NLL minus that of temperature scaling.
    standard_error : float
        Of the difference.
    weight : float
        Its share of the result.
    seconds : float
        Time to fit and judge it, of all threads together.
    """

    path: str
    nll: float
    difference: float
    standard_error: float
    weight: float
    seconds: float


@dataclass(frozen=True, slots=True)
class AutoReport:
    """What ``AutoCalibrator`` tried, and why the result is what it is."""

    candidates: tuple[Candidate, ...]
    n_rows: int
    n_folds: int
    mixture_nll: float

    def __post_init__(self) -> None:
        if not self.candidates:
            raise ParameterError("a report without candidates")

    @property
    def why(self) -> str:
        """The choice in words."""
        chosen = sorted(self.candidates, key=lambda c: -c.weight)
        parts = ", ".join(f"{c.weight:.0%} {c.path}" for c in chosen if c.weight >= 0.01)
        best = min(self.candidates, key=lambda c: c.nll)
        baseline = next(c for c in self.candidates if c.path == BASELINE)
        if baseline.weight == 1.0:
            verdict = "none of it was certain to do better, so temperature scaling stays"
        elif baseline.weight >= 0.01:
            verdict = "temperature scaling keeps a share because the rest of the gain is uncertain"
        else:
            verdict = "the gain over temperature scaling is clear"
        return (
            f"Of {len(self.candidates)} candidates, judged on held-out rows by {self.n_folds}-fold "
            f"cross-validation, {best.path} had the lowest NLL, {best.nll:.4f} "
            f"({best.difference:+.4f} ± {best.standard_error:.4f} against temperature scaling). "
            f"The result is {parts}, with a held-out NLL of {self.mixture_nll:.4f}; {verdict}."
        )

    def __str__(self) -> str:
        lines = [f"{'candidate':<22}{'NLL':>9}{'vs ts':>10}{'± s.e.':>9}{'weight':>8}{'s':>7}"]
        lines += [
            f"{c.path:<22}{c.nll:>9.4f}{c.difference:>+10.4f}{c.standard_error:>9.4f}"
            f"{c.weight:>8.1%}{c.seconds:>7.2f}"
            for c in self.candidates
        ]
        return "\n".join([*lines, self.why])


class AutoCalibrator(Composed):
    """The recommended default: a mixture of the best methods for the data at hand.

    Every candidate is judged by its likelihood on rows that it was not fitted to. The result is
    not the winner, which would often be chosen by noise, but the mixture of candidates with the
    highest held-out likelihood. It replaces temperature scaling only as far as what it gains is
    at least ``caution`` standard errors: with few rows, or few that tell anything, temperature
    scaling keeps a share, or stays alone.

    Parameters
    ----------
    candidates : sequence of str, optional
        Methods out of "ts", "structured", "na-fir", "scir" and "spline", or two of them one after
        the other, as "structured > na-fir". By default all that are known to be good. Temperature
        scaling is always among them.
    cv : int, default=5
        Number of folds.
    prior_rows : float, default=5.0
        Pseudo-observations in favour of "structured > spline", which is the best where there is
        too little to tell.
    caution : float, default=4.0
        Number of standard errors of the gain over temperature scaling; 0 trusts the held-out
        likelihood alone. Two would do for one candidate and many errors to learn from, but this is
        the best of several mixtures, and a classifier that is nearly always right has few.
    verbose : bool, default=False
        Whether to say on standard error how far a fit is.
    scores, classes, normalize, min_probability, n_jobs
        As for every calibrator.

    Attributes
    ----------
    report_ : AutoReport
        A table of the candidates, and why; print it.
    paths_ : list of list of calibrators
        The fitted stages of each candidate with a positive weight.
    weights_ : ndarray
        Their weights.
    solver_report_ : SolverReport
        Of the weights.

    Examples
    --------
    >>> from calibrant import AutoCalibrator
    >>> from calibrant.datasets import overconfident_digits
    >>> scores, y, new_scores, new_y = overconfident_digits()
    >>> auto = AutoCalibrator().fit(scores, y)
    >>> auto.report_.why.startswith("Of 8 candidates")
    True
    """

    method = "auto"
    title = "Auto"
    summary = "a mixture of several of these, by held-out likelihood"
    good_for = (
        "whoever does not want to choose; the [best of all](docs/auto.md) on 47 real classifiers"
    )
    place = 17

    candidates: Any = None
    cv: int = number(default=5, low=2, whole=True)
    prior_rows: float = number(default=5.0)
    caution: float = number(default=4.0)
    verbose: bool = choice(default=False)
    paths_: list[list[Calibrator]] = fitted()
    weights_: NDArray[np.float64] = fitted()
    report_: AutoReport = fitted()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        given = self.candidates
        if given is not None and not (
            isinstance(given, Iterable) and all(isinstance(path, str) for path in given)
        ):
            raise ParameterError(f"candidates={in_words(given)} must be a sequence of names")
        for path in self._paths():
            stages = path.split(" > ")
            if len(stages) > 2 or not all(stage in STAGES for stage in stages):
                raise ParameterError(
                    f"candidates has {in_words(path)}; use one of {', '.join(STAGES)}, or two of "
                    "them as 'structured > na-fir'"
                )

    def _peak_bytes(self, n_rows: int, n_classes: int) -> int:
        """As the largest stage; besides it there are the held-out outputs of all candidates."""
        stages = {stage for path in self._paths() for stage in path.split(" > ")}
        largest = max(
            STAGES[stage]()._peak_bytes(n_rows, n_classes)  # noqa: SLF001  (ours)
            for stage in stages
        )
        held_out = 8 * len(self._paths()) * n_rows * n_classes
        return int(largest + held_out + super()._peak_bytes(n_rows, n_classes))

    def _paths(self) -> list[str]:
        given = PATHS if self.candidates is None else tuple(self.candidates)
        return list(dict.fromkeys([BASELINE, *given]))

    def _fit_parts(self, batch: SimplexBatch) -> dict[str, Any]:
        with progress("AutoCalibrator", len(self._paths()) + 1, verbose=self.verbose) as start:
            return self._mix(batch.in_canonical_order(), start)

    def _mix(self, batch: SimplexBatch, start: Callable[[str], None]) -> dict[str, Any]:
        search = _Search(batch, self.cv)
        paths = self._paths()
        search.hold_out(paths, start)
        start("mixture")
        own = np.column_stack([search.own(path) for path in paths])
        prior = np.array([self.prior_rows if path == FAVOURITE else 0.0 for path in paths])
        weights, report = solve_mixture(own, batch.weight, prior=prior)
        gain = solve_cautious_share(
            search.held_out[BASELINE].scores,
            search.mixture(paths, weights),
            batch.class_index,
            batch.weight,
            self.caution,
        )
        weights *= gain.share
        weights[paths.index(BASELINE)] += 1.0 - gain.share
        weights = np.where(weights < 1e-3, 0.0, weights)  # not worth their time
        weights /= weights.sum()
        kept = np.flatnonzero(weights)
        return {
            "paths_": search.fit([paths[i] for i in kept]),
            "weights_": weights[kept],
            "report_": _report(paths, own, weights, search),
            "solver_report_": report,
        }

    def _compose(self, found: dict[str, Any]) -> CalibrationMap:
        parts = {id(part): part for path in found["paths_"] for part in path}
        stages = {key: stage_of(part) for key, part in parts.items()}
        chains = [ChainMap(tuple(stages[id(part)] for part in path)) for path in found["paths_"]]
        return MixtureMap(tuple(chains), found["weights_"])


class _Search:
    """Held-out predictions of each path, with first stages shared between them.

    The second stage of a path is fitted to held-out outputs of the first, and judged on folds of
    these: its few parameters see no row's own label.
    """

    def __init__(self, batch: SimplexBatch, n_folds: int) -> None:
        self.batch = batch
        self.folds = batch.folds(n_folds)
        self.fold_names: list[int] = np.unique(self.folds).tolist()
        self.seconds: dict[str, float] = {}
        self.held_out: dict[str, SimplexBatch] = {}

    def hold_out(self, paths: list[str], start: Callable[[str], None]) -> None:
        """Find all probabilities of each row on each path, from a fit without the row's fold.

        First of all paths of one stage, with which others begin. If such a path is no candidate,
        its time is that of the first candidate that begins with it.
        """
        self.seconds = dict.fromkeys(paths, 0.0)
        prefixes = [prefix for path in paths for prefix in _prefixes(path)]
        for n_stages in (1, 2):
            wave = list(dict.fromkeys(p for p in prefixes if len(p.split(" > ")) == n_stages))
            tasks = [(path, fold) for path in wave for fold in self.fold_names]
            results = threads.each(self._judge, tasks)
            for path in wave:
                if path in paths:
                    start(path)
                owner = next(p for p in [path, *paths] if p in paths and path in _prefixes(p))
                out = np.empty_like(self.batch.scores)
                for fold in self.fold_names:
                    out[self.folds == fold], seconds = next(results)
                    self.seconds[owner] += seconds
                self.held_out[path] = self.batch.with_probabilities(out)

    def _judge(self, task: tuple[str, int]) -> tuple[NDArray[np.float64], float]:
        """Return outputs of the last stage of a path for a fold, and the time they took."""
        started = perf_counter()
        path, fold = task
        first, _, last = path.rpartition(" > ")
        outputs = outputs_of_fold(STAGES[last](), self._source(first), self.folds, fold)
        return outputs, perf_counter() - started

    def _source(self, first: str) -> SimplexBatch:
        """Return what the stage after ``first`` is fitted to."""
        return self.held_out[first] if first else self.batch

    def own(self, path: str) -> NDArray[np.float64]:
        """Probability of each row's label, from a fit without its fold."""
        rows = np.arange(self.batch.n_rows)
        own: NDArray[np.float64] = self.held_out[path].scores[rows, self.batch.class_index]
        return own

    def mixture(self, paths: list[str], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Average of the paths' outputs."""
        out = np.zeros_like(self.batch.scores, dtype=np.float64)
        for path, weight in zip(paths, weights, strict=True):
            if weight > 0.0:
                out += weight * self.held_out[path].scores
        return out

    def fit(self, paths: list[str]) -> list[list[Calibrator]]:
        """Fit the stages of paths to all rows, the second to held-out outputs of the first."""
        needed = list(dict.fromkeys(prefix for path in paths for prefix in _prefixes(path)))

        def work(path: str) -> Calibrator:
            first, _, last = path.rpartition(" > ")
            return fit_part(STAGES[last](), self._source(first))

        fitted = dict(zip(needed, threads.each(work, needed), strict=True))
        return [[fitted[prefix] for prefix in _prefixes(path)] for path in paths]


def _prefixes(path: str) -> list[str]:
    """Return what a path begins with, and itself."""
    first = path.rpartition(" > ")[0]
    return [first, path] if first else [path]


def _report(
    paths: list[str],
    own: NDArray[np.float64],
    weights: NDArray[np.float64],
    search: _Search,
) -> AutoReport:
    share = search.batch.weight / search.batch.weight.sum()
    loss = -np.log(np.maximum(own, 1e-300))
    gaps = loss - loss[:, [paths.index(BASELINE)]]
    mean = share @ gaps
    error = np.sqrt(share @ (gaps - mean) ** 2 / search.batch.weight.sum())  # weights are rows
    nll = share @ loss
    candidates = [
        Candidate(
            path,
            nll=float(nll[i]),
            difference=float(mean[i]),
            standard_error=float(error[i]),
            weight=float(weights[i]),
            seconds=search.seconds[path],
        )
        for i, path in enumerate(paths)
    ]
    mixture = float(-share @ np.log(np.maximum(own @ weights, 1e-300)))
    return AutoReport(tuple(candidates), len(own), int(search.folds.max()) + 1, mixture)
