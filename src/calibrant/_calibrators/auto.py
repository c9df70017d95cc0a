"""``AutoCalibrator``: every good method, weighed by how it does on rows it has not seen."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from calibrant._calibrators.auto_report import BASELINE, AutoReport, report_of
from calibrant._calibrators.auto_search import (
    CANDIDATES,
    FINISH,
    Search,
)
from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.composition import Composed, outputs_of, stage_of
from calibrant._calibrators.parameters import choice, fitted, number, take_state
from calibrant._kernels.curves import floor_rows
from calibrant._maps.base import ChainMap, MixtureMap, Stage
from calibrant._progress import progress
from calibrant._solvers.mixture import SMALLEST, solve_priced_mixture
from calibrant._solvers.rows import share_of_few_errors
from calibrant.errors import ParameterError, in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from calibrant._gate import SimplexBatch
    from calibrant._maps.base import CalibrationMap
    from calibrant._solvers.report import SolverReport

STRUCTURED = ("structured", "structured-wide", "structured-loose")
"""Candidates that distinguish classes. Without one of them, no final stage does so either."""

NAMES = ("ts", "identity", "na-fir", *STRUCTURED)
NAMES_OF_MANY = ("ts", "identity", "na-fir", "structured", "structured-wide")
NAMES_OF_TWO = ("ts", "two-class", "ir-ovr")
"""Default candidates: of several classes, of more than ``MANY``, and of two."""

MANY = 100
"""Number of classes above which other candidates cost more time than they gain."""

OF_TWO = "two-class"
"""Candidate that the mixture of two classes is shrunk to."""

FAVOURED = ("ts", *STRUCTURED)
"""Candidates that the prior of the weights is in favour of, alike."""

PLAIN = ("ts", "identity")
"""Candidates that need no final stage."""


FLOOR_LOSS = 0.01
"""Loss, in nats, that the smallest probability of the mixture may cost."""

PRICED_CELLS, PRICED_ROWS = 1 << 13, 64
"""The price of leaving the reference is computed on about this many cells, and these rows."""

LEAST_WEIGHT = 1e-3
"""Candidates and final stages of a smaller weight are left out."""


class AutoCalibrator(Composed):
    """Mixture of the best methods for the calibration set; the recommended default.

    Every candidate is judged by its likelihood on held-out rows. The result is not the best
    candidate, which would often be chosen by noise, but the mixture with the highest held-out
    likelihood, minus a penalty: the farther the mixture is from temperature scaling, the more it
    has to gain. An average of calibrated probabilities is under-confident, so a monotone spline and
    structured scaling are then fitted to held-out outputs of the mixture, with a weight that grows
    with the number of errors to learn from. For two classes the mixture consists of two-class
    scaling, to which it is shrunk, and isotonic regression, and nothing is fitted to its output.

    Parameters
    ----------
    candidates : sequence of str, optional
        Methods out of "ts", "identity", "structured", "structured-wide" (which distinguishes the
        smallest probabilities), "structured-loose" (with a weak penalty), "na-fir", "scir",
        "spline", "two-class" and "ir-ovr". The default depends on the number of classes; for two it
        is "two-class" and "ir-ovr". Temperature scaling is always included.
    cv : int, default=5
        Number of folds.
    prior_rows : float, default=2.0
        Number of pseudo-observations in favour of temperature and structured scaling, which decide
        where there are few rows. For two classes "two-class" has all of them.
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
        The fitted calibrator of each candidate with a positive weight, in a list of its own.
    weights_ : ndarray
        Weight of each candidate in ``paths_``.
    finish_ : list of calibrators or None
        Calibrators fitted to the output of the mixture, in sequence.
    finish_share_ : float
        Weight of ``finish_`` in the result.
    floor_ : float
        Smallest probability of the mixture; it costs at most 0.01 nats in all.
    shared_part_ : TemperatureScaling or None
        Temperature scaling fitted to the same rows, which distinguishes no classes: what is left to
        use where ``check`` finds other scores. None in files of 1.0.
    solver_report_ : SolverReport
        Convergence of the weights.

    Examples
    --------
    >>> from calibrant import AutoCalibrator
    >>> from calibrant.datasets import overconfident_digits
    >>> scores, y, new_scores, new_y = overconfident_digits()
    >>> auto = AutoCalibrator().fit(scores, y)
    >>> auto.report_.why.startswith("Of 6 candidates")
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
    shared_part_: Calibrator | None = fitted()
    report_: AutoReport = fitted()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        given = self.candidates
        if given is not None and (isinstance(given, str) or np.ndim(given) != 1):
            raise ParameterError(f"candidates={in_words(given)} must be a sequence of names")
        for name in () if given is None else given:
            if name not in CANDIDATES:
                raise ParameterError(
                    f"candidates has {in_words(name)}; use some of {', '.join(CANDIDATES)}"
                )

    def _names(self, n_classes: int, n_labels: int = 2) -> list[str]:
        """Return the candidates: those asked for, or the default ones."""
        names: tuple[str, ...] = NAMES_OF_MANY if n_classes > MANY else NAMES
        if self.candidates is not None:
            names = tuple(self.candidates)
        # Where all labels are equal, maps of two classes leave the other one as likely as it was.
        elif n_classes == 2 and n_labels == 2:
            names = NAMES_OF_TWO
        return list(dict.fromkeys([BASELINE, *names]))

    def _fit_parts(self, batch: SimplexBatch, search: Search | None = None) -> dict[str, Any]:
        names = self._names(batch.n_classes, len(np.unique(batch.class_index)))
        n_steps = len(names) + 2 + (batch.group is not None)
        with progress("AutoCalibrator", n_steps, verbose=self.verbose) as start:
            search = Search(batch, self.cv) if search is None else search
            search.hold_out(names, start)
            start("mixture")
            reference = OF_TWO if batch.n_classes == 2 and OF_TWO in names else BASELINE
            weights, report = self._weigh(search, names, reference)
            start("finish")
            fitted = self._finish(search, names, weights, reference)
            if batch.group is not None:
                start("rows of known groups")
                gain = self._gain_by_rows(batch, names, reference)
                fitted["report_"] = replace(fitted["report_"], gain_by_rows=gain)
            return fitted | {"solver_report_": report}

    def _gain_by_rows(self, batch: SimplexBatch, names: list[str], reference: str) -> float:
        """Return what a mixture would gain on the baseline if rows were held out one by one."""
        search = Search(replace(batch, group=None), self.cv)
        search.hold_out(names, lambda _: None)
        weights, _ = self._weigh(search, names, reference)
        of_labels = np.maximum(search.of_labels(names), SMALLEST)
        gains = np.log(of_labels @ weights) - np.log(of_labels[:, names.index(BASELINE)])
        return float(search.batch.weight @ gains / search.batch.weight.sum())

    def _weigh(
        self, search: Search, names: list[str], reference: str
    ) -> tuple[NDArray[np.float64], SolverReport]:
        """Return the weights of the mixture."""
        favoured = [OF_TWO] if reference == OF_TWO else FAVOURED
        of_labels = search.of_labels(names)
        cells, cell_weights = _priced_cells(search, names, reference)
        weights, report = solve_priced_mixture(
            of_labels,
            search.batch.weight,
            cells,
            cell_weights,
            names.index(reference),
            strength=self.caution,
            prior=self.prior_rows * np.isin(names, favoured) / len(favoured),
        )
        if self.caution > 0.0 and reference == BASELINE:
            weights = _keep_plain(weights, of_labels, search.batch, names)
        weights = np.where(weights < LEAST_WEIGHT, 0.0, weights)
        return weights / weights.sum(), report

    def _finish(
        self,
        search: Search,
        names: list[str],
        weights: NDArray[np.float64],
        reference: str,
    ) -> dict[str, Any]:
        """Fit the candidates that have a weight to all rows, and the final stages."""
        kept = {names[i]: float(weights[i]) for i in np.flatnonzero(weights)}
        batch, of_labels = search.batch, search.of_labels(names)
        loss = -float(batch.weight @ np.log(np.maximum(of_labels @ weights, SMALLEST)))
        # Two-class scaling is an average of several maps already.
        share = 0.0
        if reference != OF_TWO:
            share = _share_of_final_stages(kept, loss, self.finish)
        stages = [name for name in FINISH if name != "structured" or {*names} & {*STRUCTURED}]
        cells = max(search.total_weight, 1.0) * batch.n_classes
        *parts, baseline = search.fit([*kept, BASELINE])
        shared = take_state(baseline)  # takes what this calibrator takes, be it a single column
        shared.scores, shared.normalize = self.scores, self.normalize
        return {
            "paths_": [[part] for part in parts],
            "shared_part_": shared,
            "weights_": np.array(list(kept.values())),
            "finish_": search.fit_final_stages(kept, stages) if share > 0.0 else None,
            "finish_share_": share,
            "floor_": max(SMALLEST, FLOOR_LOSS * min(loss, 1.0) / cells),
            "report_": report_of(names, of_labels, weights, search, share, reference),
        }

    def _held_out(self, search: Search) -> NDArray[np.float64]:
        """Return the probabilities of the result by parts that have not seen a row.

        The weights and the final stages have seen the rows, but are only a few numbers.
        """
        weights = {c.path: c.weight for c in self.report_.candidates if c.weight > 0.0}
        rows = search.mix(weights)
        floor_rows(rows, SMALLEST if self.floor_ is None else self.floor_)
        last, share = rows, self.finish_share_ or 0.0
        for stage in self.finish_ or ():
            last = outputs_of(stage, last)
        mixed: NDArray[np.float64] = (1.0 - share) * rows + share * last
        mixed /= mixed.sum(axis=1, keepdims=True)
        return mixed

    def _complaints(self, batch: SimplexBatch, fitted: dict[str, Any]) -> Iterator[Warning]:
        """Yield warnings of parts with a share in the result about classes without a label."""
        present = np.bincount(batch.class_index, minlength=batch.n_classes) > 0
        for part in chain(*fitted["paths_"], fitted["finish_"] or ()):
            yield from part._missing(present, batch.classes)  # noqa: SLF001  (ours)
        yield from super()._complaints(batch, fitted)

    def _compose(self, fitted: dict[str, Any]) -> CalibrationMap:
        # Model files of 1.0 may hold a candidate of two stages, and no final stages or floor.
        parts = {id(part): part for path in fitted["paths_"] for part in path}
        stages = {key: stage_of(part) for key, part in parts.items()}
        chains = [ChainMap(tuple(stages[id(part)] for part in path)) for path in fitted["paths_"]]
        mixture = MixtureMap(tuple(chains), fitted["weights_"])
        floor = fitted["floor_"]
        first = Stage(mixture, SMALLEST if floor is None else floor)
        if not fitted["finish_"]:
            return mixture if floor is None else ChainMap((first,))
        share = fitted["finish_share_"]
        share = np.nan if share is None else share  # which no weight may be
        last = ChainMap((first, *map(stage_of, fitted["finish_"])))
        return MixtureMap((first, last), np.array([1.0 - share, share]))


def _share_of_final_stages(weights: dict[str, float], loss: float, nats: float) -> float:
    """Return the weight of the final stages in the result.

    With w the weight of temperature scaling and of the uncalibrated scores in the mixture, and E
    the held-out ``loss``, it is

        (1 - w) E / (E + nats).
    """
    share = 1.0 - sum(weights.get(name, 0.0) for name in PLAIN)
    if nats > 0.0:
        share *= max(loss, 0.0) / (max(loss, 0.0) + nats)
    return share if share >= LEAST_WEIGHT else 0.0


def _keep_plain(
    weights: NDArray[np.float64],
    of_labels: NDArray[np.float64],
    batch: SimplexBatch,
    names: list[str],
) -> NDArray[np.float64]:
    """Keep a share for temperature scaling where errors are few, and one for unrefuted scores.

    With G the gain over the scores in nats, the second is at most 1 / (1 + exp(G)): as likely as
    the mixture, they have half of the result.
    """
    logs = np.log(np.maximum(np.column_stack([of_labels @ weights, of_labels]), SMALLEST))
    mixture_loss, *losses = -(batch.weight @ logs)
    # Twenty errors in 2,500 rows can favour a sharper map by luck; the held-out likelihood alone
    # does not see that the one confident error that would punish it is missing.
    baseline = names.index(BASELINE)
    few = share_of_few_errors(float(losses[baseline]), float(batch.weight.sum()))
    kept = (1.0 - few) * weights
    kept[baseline] += few
    if "identity" in names:
        identity = names.index("identity")
        # Without an error the whole loss is no clear gain, so nothing could refute the scores; the
        # prior of temperature scaling, which keeps T near 1, is caution enough.
        share = float(expit(mixture_loss - losses[identity])) * min(_count_errors(batch), 1.0)
        kept *= 1.0 - share
        kept[identity] += share
    return kept


def _count_errors(batch: SimplexBatch) -> float:
    """Return the weight of the rows whose label does not have the largest score, or not alone."""
    of_label = batch.scores[np.arange(batch.n_rows), batch.class_index]
    n_as_large = np.count_nonzero(batch.scores >= of_label[:, None], axis=1)
    return float(batch.weight[n_as_large > 1].sum())


def _priced_cells(
    search: Search, names: list[str], reference: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return probabilities of the candidates in cells of some rows, and weights of these cells.

    The weight of a cell is its probability by the ``reference``. Rows are chosen as a fold is, and
    cells that make no difference to the sum are left out.
    """
    batch = search.batch
    n_parts = min(batch.scores.size // PRICED_CELLS, batch.n_rows // PRICED_ROWS)
    row, fold, weight = replace(batch, group=None).deal(1 + n_parts)
    row, weight = row[fold == 0], weight[fold == 0]
    share = weight[:, None] * search.held_out[reference].scores[row]
    share /= share.sum()
    is_counted = share > 1e-12 / share.size
    cells = [search.held_out[name].scores[row][is_counted] for name in names]
    return np.column_stack(cells), share[is_counted]
