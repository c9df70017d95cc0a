"""``AutoCalibrator``: every good method, weighed by how it does on rows it has not seen."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from calibrant._calibrators.auto_report import BASELINE, AutoReport, report_of
from calibrant._calibrators.auto_search import FINISH, STAGES, Search, make_stage, most_judged
from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.composition import Composed, stage_of
from calibrant._calibrators.parameters import choice, fitted, number
from calibrant._maps.compositions import ChainMap, MixtureMap, Stage
from calibrant._progress import progress
from calibrant._solvers.mixture import SMALLEST, solve_priced_mixture
from calibrant.errors import ParameterError, in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from calibrant._maps.base import CalibrationMap
    from calibrant._simplex import SimplexBatch

STRUCTURED = ("structured", "structured-wide", "structured-loose")
"""Stages that tell classes apart: where no candidate does, no finishing stage does."""

FAVOURITES = {"structured": 0.5, "structured-wide": 0.18, "structured-loose": 0.4}
FAVOURITES |= {"ts": 0.16, "identity": 0.16}
"""Parts of the prior: what is good where there is too little to tell.

Chosen, as the prior itself and the caution, within the validation parts of real classifiers, whole
and cut to 200 rows (see docs/explanation/auto.md).
"""
PATHS = ("ts", "identity", "na-fir", "scir", *STRUCTURED)
PATHS_OF_MANY = ("ts", "identity", "na-fir", "structured", "structured-wide")
MANY = 100
"""What is tried by default, and of more classes than this: there, others cost more than they
gain."""

OF_TWO = "two-class"
PATHS_OF_TWO = ("ts", OF_TWO, "ir-ovr", "scir")
FINISH_OF_TWO = 40.0
"""What is tried by default of two classes, and which of it the mixture is held to. That is an
average of many maps itself: much more loss, 600 nats, is needed for the finish to have half of the
result."""

PRICED_CELLS, PRICED_ROWS = 1 << 13, 64
"""What the price of leaving temperature scaling is counted on: about so many cells, and rows at
least."""

PLAIN = ("ts", "identity")
"""Candidates that need no finishing stage."""

UNPROVEN, CLEAR_GAIN = 0.6, 1.5
"""Share of the scores as they are where nothing proves them wrong, and nats that the mixture has to
gain on held-out rows for half of it; a nat more leaves e times less. Without a mistake there is no
such share."""

MANY_NATS, LOW_LOSS, FEW_NATS = 100.0, 0.05, 10.0
"""Held-out loss of temperature scaling, on all rows in nats, and on a row, at which half is known
of rare mistakes; below the last, it knows as little."""

FLOOR, FLOOR_NATS = 1e-12, 0.01
"""Of the mixture's probabilities: at least the first, and in all of the rows at most so many nats
of loss, or such a part of the mixture's. Farther down than any label of the calibration set they
are a guess, and nothing bounds what it may cost."""

LEAST_WEIGHT = 1e-3
"""Smaller ones are not worth their time."""


class AutoCalibrator(Composed):
    """Mixture of the best methods for the calibration set; the recommended default.

    Every candidate is judged by its likelihood on held-out rows. The result is not the best
    candidate, which would often be chosen by noise, but the mixture with the highest held-out
    likelihood, minus a penalty: the farther the mixture is from temperature scaling, the more it
    has to gain. An average of calibrated probabilities is under-confident, so a monotone spline and
    structured scaling are then fitted to held-out outputs of the mixture, with a weight that grows
    with the number of errors to learn from. For two classes the mixture consists of two-class
    scaling, to which it is shrunk, and isotonic methods, and only the spline is fitted to its
    output, with half of its weight at forty times the loss.

    Parameters
    ----------
    candidates : sequence of str, optional
        Methods out of "ts", "identity", "structured", "structured-wide" (which distinguishes the
        smallest probabilities), "structured-loose" (with a weak penalty), "na-fir", "scir",
        "spline", "two-class" and "ir-ovr", or two of them in sequence, such as "structured >
        na-fir". The default depends on the number of classes; for two it is "two-class" and
        "ir-ovr". Temperature scaling is always included.
    cv : int, default=5
        Number of folds.
    prior_rows : float, default=2.0
        Number of pseudo-observations in favour of "structured", and fewer for some other
        candidates, which decide where there are few rows. For two classes "two-class" has all of
        them.
    caution : float, default=3000.0
        Number of pseudo-observations, rows of the calibration set with temperature-scaled
        probabilities as labels, that shrink the mixture towards temperature scaling; for two
        classes, towards "two-class". It falls as the gain grows; 0 uses the held-out likelihood
        alone.
    finish : float, default=15.0
        Held-out loss, in nats, at which the calibrators fitted to the mixture reach half of their
        largest weight. The weight grows with the loss, and is limited by how far the mixture is
        from temperature scaling and from the scores. A very large number, such as 1e12, leaves them
        out.
    verbose : bool, default=False
        Whether to print the progress of a fit on standard error.

    Attributes
    ----------
    report_ : AutoReport
        Table of the candidates, and the reason of the choice; print it.
    paths_ : list of list of calibrators
        The fitted stages of each candidate with a positive weight.
    weights_ : ndarray
        Weight of each candidate in ``paths_``.
    finish_ : list of calibrators or None
        Calibrators fitted to the output of the mixture, in sequence.
    finish_share_ : float
        Weight of ``finish_`` in the result.
    floor_ : float
        Smallest probability of the mixture; it costs at most 0.01 nats in all.
    solver_report_ : SolverReport
        Convergence of the weights.

    Examples
    --------
    >>> from calibrant import AutoCalibrator
    >>> from calibrant.datasets import overconfident_digits
    >>> scores, y, new_scores, new_y = overconfident_digits()
    >>> auto = AutoCalibrator().fit(scores, y)
    >>> auto.report_.why.startswith("Of 7 candidates")
    True
    """

    method = "auto"
    title = "Auto"
    summary = "a mixture of several of these, by held-out likelihood"
    good_for = "a first try; [best on average](../explanation/auto.md) on 47 real classifiers"
    place = 17

    candidates: Any = None
    cv: int = number(default=5, low=2, whole=True)
    prior_rows: float = number(default=2.0)
    caution: float = number(default=3000.0)
    finish: float = number(default=15.0, high=1e12)
    verbose: bool = choice(default=False)
    paths_: list[list[Calibrator]] = fitted()
    weights_: NDArray[np.float64] = fitted()
    finish_: list[Calibrator] | None = fitted()
    finish_share_: float | None = fitted()
    floor_: float | None = fitted()
    report_: AutoReport = fitted()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        given = self.candidates
        if isinstance(given, str) or not (
            given is None
            or (isinstance(given, Iterable) and all(isinstance(path, str) for path in given))
        ):
            raise ParameterError(f"candidates={in_words(given)} must be a sequence of names")
        for path in () if given is None else given:
            stages = path.split(" > ")
            if len(stages) > 2 or not all(stage in STAGES for stage in stages):
                raise ParameterError(
                    f"candidates has {in_words(path)}; use one of {', '.join(STAGES)}, or two of "
                    "them such as 'structured > na-fir'"
                )

    def _peak_bytes(self, n_rows: int, n_classes: int) -> int:
        """As the largest stage; besides it there are the held-out outputs of all candidates."""
        paths = self._paths(n_classes)
        stages = {stage for path in paths for stage in path.split(" > ")}
        largest = max(
            make_stage(stage)._peak_bytes(n_rows, n_classes)  # noqa: SLF001  (ours)
            for stage in stages
        )
        n_judged = min(n_rows, most_judged(n_classes))
        held_out = 8 * len(paths) * n_judged * n_classes
        return int(largest + held_out + super()._peak_bytes(n_rows, n_classes))

    def _paths(self, n_classes: int, n_labels: int = 2) -> list[str]:
        """Return what is tried: what was asked for, or what is good for so many classes.

        Where all labels are the same, maps of two classes leave the other one as likely as it was.
        """
        of_two = n_classes == 2 and n_labels == 2
        given = PATHS_OF_TWO if of_two else PATHS_OF_MANY if n_classes > MANY else PATHS
        given = given if self.candidates is None else tuple(self.candidates)
        return list(dict.fromkeys([BASELINE, *given]))

    def _fit_parts(self, batch: SimplexBatch) -> dict[str, Any]:
        paths = self._paths(batch.n_classes, len(np.unique(batch.class_index)))
        with progress("AutoCalibrator", len(paths) + 2, verbose=self.verbose) as start:
            return self._mix(batch, paths, start)

    def _mix(
        self, batch: SimplexBatch, paths: list[str], start: Callable[[str], None]
    ) -> dict[str, Any]:
        search = Search(batch, self.cv)
        search.hold_out(paths, start)
        start("mixture")
        own = np.column_stack([search.own(path) for path in paths])
        home = OF_TWO if batch.n_classes == 2 and OF_TWO in paths else BASELINE
        favourites = {OF_TWO: 1.0} if home == OF_TWO else FAVOURITES
        weights, report = solve_priced_mixture(
            own,
            search.batch.weight,
            *_priced_cells(search, paths, home),
            paths.index(home),
            strength=self.caution,
            prior=self.prior_rows * np.array([favourites.get(path, 0.0) for path in paths]),
        )
        few = 0.0
        if self.caution > 0.0 and home == BASELINE:
            weights, few = _hold(weights, own, search.batch, paths)
        weights = np.where(weights < LEAST_WEIGHT, 0.0, weights)
        weights /= weights.sum()
        start("finish")
        kept = {paths[i]: float(weights[i]) for i in np.flatnonzero(weights)}
        nats = self.finish * (FINISH_OF_TWO if home == OF_TWO else 1.0)
        used = {stage for path in paths for stage in path.split(" > ")}
        stages = [name for name in FINISH if name != "structured" or used & set(STRUCTURED)]
        loss = -float(search.batch.weight @ np.log(np.maximum(own @ weights, SMALLEST)))
        cells = max(float(batch.weight.sum()), 1.0) * batch.n_classes
        share = _share_of_finish(kept, loss, few, nats)
        finish = search.finish(kept, stages) if share > 0.0 else None
        return {
            "paths_": search.fit(list(kept)),
            "weights_": np.array(list(kept.values())),
            "finish_": finish,
            "finish_share_": share,
            "floor_": max(FLOOR, FLOOR_NATS * min(loss, 1.0) / cells),
            "report_": report_of(paths, own, weights, search, share, home),
            "solver_report_": report,
        }

    def _complaints(self, batch: SimplexBatch, fitted: dict[str, Any]) -> Iterator[Warning]:
        """Yield what parts with a share in the result say of classes without a label."""
        present = np.bincount(batch.class_index, minlength=batch.n_classes) > 0
        for part in chain(*fitted["paths_"], fitted["finish_"] or ()):
            yield from part._missing(present, batch.classes)  # noqa: SLF001  (ours)
        yield from super()._complaints(batch, fitted)

    def _compose(self, found: dict[str, Any]) -> CalibrationMap:
        parts = {id(part): part for path in found["paths_"] for part in path}
        stages = {key: stage_of(part) for key, part in parts.items()}
        chains = [ChainMap(tuple(stages[id(part)] for part in path)) for path in found["paths_"]]
        mixture = MixtureMap(tuple(chains), found["weights_"])
        floor = found["floor_"]
        first = Stage(mixture, FLOOR if floor is None else floor)
        if not found["finish_"]:
            return mixture if floor is None else ChainMap((first,))
        share = found["finish_share_"]
        share = np.nan if share is None else share  # which no weight may be
        last = ChainMap((first, *map(stage_of, found["finish_"])))
        return MixtureMap((first, last), np.array([1.0 - share, share]))


def _share_of_finish(weights: dict[str, float], loss: float, few: float, nats: float) -> float:
    """Share of what comes after the mixture.

    Where the mixture stays with temperature scaling, or with the scores, this does, too; and it
    has less of a say where there are ``few`` mistakes, or a loss of few ``nats``.
    """
    share = (1.0 - few) * (1.0 - sum(weights.get(path, 0.0) for path in PLAIN))
    if nats > 0.0:
        share *= max(loss, 0.0) / (max(loss, 0.0) + nats)
    return share if share >= LEAST_WEIGHT else 0.0


def _hold(
    weights: NDArray[np.float64],
    own: NDArray[np.float64],
    batch: SimplexBatch,
    paths: list[str],
) -> tuple[NDArray[np.float64], float]:
    """Leave a share to temperature scaling where mistakes are few, and one to unrefuted scores.

    A price is not enough: what a few mistakes say is clear to the held-out likelihood, and all the
    same a matter of luck. Returns the first share, too.
    """
    weight = batch.weight
    logs = np.log(np.maximum(np.column_stack([own @ weights, own]), SMALLEST))
    loss = -(weight @ logs)
    # Its own mistakes are few: where it has many that others mend, its share would do harm.
    own_loss = loss[1 + paths.index(BASELINE)]
    few = MANY_NATS / (own_loss + MANY_NATS) * LOW_LOSS / (own_loss / weight.sum() + LOW_LOSS)
    few *= own_loss / (own_loss + FEW_NATS)
    held = (1.0 - few) * weights
    held[paths.index(BASELINE)] += few
    if "identity" in paths:
        gain = loss[1 + paths.index("identity")] - loss[0]
        # Without a mistake the whole loss is less than a clear gain, so nothing could refute the
        # scores; what keeps T near 1 in temperature scaling is caution enough.
        share = UNPROVEN * expit(CLEAR_GAIN - gain) * min(_count_mistakes(batch), 1.0)
        held *= 1.0 - share
        held[paths.index("identity")] += share
    return held, float(few)


def _count_mistakes(batch: SimplexBatch) -> float:
    """Weight of the rows whose label does not have the largest score, or not alone."""
    own = batch.scores[np.arange(batch.n_rows), batch.class_index]
    n_as_large = np.count_nonzero(batch.scores >= own[:, None], axis=1)
    return float(batch.weight[n_as_large > 1].sum())


def _priced_cells(
    search: Search, paths: list[str], home: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Probabilities of each path in cells of some rows, and how likely ``home`` finds each.

    Rows are chosen as a fold is. Cells that make no difference to the sum are left out.
    """
    batch = search.batch
    n_parts = min(batch.scores.size // PRICED_CELLS, batch.n_rows // PRICED_ROWS)
    row, fold, weight = batch.deal(1 + n_parts)
    some = row[fold == 0]
    baseline = search.held_out[home].scores[some]
    share = weight[fold == 0, None] * baseline
    share /= share.sum()
    told = share > 1e-12 / share.size
    cells = np.column_stack([search.held_out[path].scores[some][told] for path in paths])
    return cells, share[told]
