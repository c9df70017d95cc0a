"""``AutoCalibrator``: every good method, weighed by how it does on rows it has not seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from calibrant._calibrators import auto_search as table
from calibrant._calibrators.auto_search import BASELINE, OF_TWO, Search
from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.composition import Composed, outputs_of, stage_of
from calibrant._calibrators.parameters import choice, fitted, number, take_state, wrong
from calibrant._kernels.curves import floor_rows
from calibrant._maps.base import ChainMap, MixtureMap, Stage
from calibrant._progress import progress
from calibrant._result import doc, result
from calibrant._solvers.mixture import SMALLEST, solve_priced_mixture
from calibrant._solvers.rows import share_of_few_errors
from calibrant._types import Floats
from calibrant.errors import ParameterError, in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from calibrant._gate import SimplexBatch
    from calibrant._maps.base import CalibrationMap
    from calibrant._solvers.report import SolverReport


@result()
class Candidate:
    """One row of the report."""

    path: str = doc("Name of the candidate.")
    nll: float = doc("Mean NLL on held-out rows.")
    difference: float = doc("NLL minus that of temperature scaling.")
    standard_error: float = doc("Standard error of ``difference``.")
    weight: float = doc("Weight in the mixture.")
    seconds: float = field(
        default=math.nan,
        compare=False,
        metadata={"doc": "Seconds it took, in all threads; NaN of files.", "written": False},
    )


@result(repr=False)
class AutoReport:
    """Candidates of ``AutoCalibrator``, and the reason of its choice."""

    candidates: tuple[Candidate, ...] = doc("What was tried.")
    n_rows: int = doc("Number of held-out rows: all, or a sample.")
    n_folds: int = doc("Number of folds.")
    mixture_nll: float = doc("Mean NLL of the mixture on held-out rows.")
    finish_share: float = doc("Weight of the calibrators fitted to the whole mixture.", 0.0)
    home: str = doc("Reference: the candidate towards which the mixture is shrunk.", BASELINE)

    def __post_init__(self) -> None:
        if not self.candidates:
            raise ParameterError("candidates is empty; a report needs at least one")

    @property
    def why(self) -> str:
        """Explanation of the choice in a few sentences."""
        chosen = sorted(self.candidates, key=lambda c: -c.weight)
        parts = ", ".join(f"{c.weight:.0%} {c.path}" for c in chosen if c.weight >= 0.01)
        best = min(self.candidates, key=lambda c: c.nll)
        reference = next(c for c in self.candidates if c.path == self.home)
        name = "temperature scaling" if self.home == BASELINE else self.home
        verdicts = {
            1.0: f"no other candidate was certain to do better, so {name} is used alone",
            0.5: f"{name} keeps the largest weight, as the gain of the others is uncertain",
            0.01: f"{name} keeps some weight",
            0.0: f"{name} has no weight",
        }
        verdict = next(words for least, words in verdicts.items() if reference.weight >= least)
        share = f"{self.finish_share:.0%}"
        finish = f" A calibrator fitted to the whole mixture has a weight of {share}."
        return (
            f"Of {len(self.candidates)} candidates, judged on {self.n_rows:,} held-out rows by "
            f"{self.n_folds}-fold cross-validation, {best.path} had the lowest NLL, {best.nll:.4f} "
            f"({best.difference:+.4f} ± {best.standard_error:.4f} against temperature scaling). "
            f"The mixture is {parts}, with a held-out NLL of {self.mixture_nll:.4f}; {verdict}."
            f"{finish if self.finish_share else ''}"
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


class AutoCalibrator(Composed):
    """Mixture of the best methods for the calibration set; the recommended default.

    The result is not the candidate with the highest likelihood on held-out rows, which would often
    be chosen by noise, but the mixture with the highest one, minus a penalty: the farther it is
    from temperature scaling, the more it has to gain. An average of calibrated probabilities is
    under-confident, so a monotone spline and structured scaling are then fitted to held-out outputs
    of the mixture, with a weight that grows with the number of errors to learn from. For two
    classes it consists of two-class scaling, to which it is shrunk, and isotonic regression.

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
        largest weight, which grows with the share of the mixture that is neither temperature
        scaling nor the scores. 1e12 leaves them out.
    verbose : bool, default=False
        Whether to print the progress of a fit on standard error.

    Attributes
    ----------
    report_ : AutoReport
        Table of the candidates, and the reason of the choice; print it.
    paths_, weights_ : list of list of calibrators, ndarray
        The fitted calibrator of each candidate with a weight, in a list of its own, and its weight.
    finish_, finish_share_ : list of calibrators or None, float
        Calibrators fitted to the output of the mixture, in sequence, and their weight.
    floor_ : float
        Smallest probability of the mixture; it costs at most 0.01 nats in all.
    shared_part_ : TemperatureScaling or None
        Temperature scaling of the same rows, to use where ``check`` finds other scores. None in
        files of 1.0.

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

    candidates: Sequence[str] | None = None
    cv: int = number(default=5, low=2, whole=True)
    prior_rows: float = number(default=2.0)
    caution: float = number(default=3000.0)
    finish: float = number(default=15.0, high=1e12)
    verbose: bool = choice(default=False)
    paths_: list[list[Calibrator]] = fitted()
    weights_: Floats = fitted()
    finish_: list[Calibrator] | None = fitted()
    finish_share_: float | None = fitted()
    floor_: float | None = fitted()
    shared_part_: Calibrator | None = fitted()
    report_: AutoReport = fitted()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        given = self.candidates
        if given is not None and (isinstance(given, str) or np.ndim(given) != 1):
            raise wrong("candidates", given, "must be a sequence of names")
        for name in () if given is None else given:
            if name not in table.CANDIDATES:
                known = ", ".join(table.CANDIDATES)
                raise wrong("candidates", given, f"has {in_words(name)}; use some of {known}")

    def _names(self, n_classes: int, n_labels: int = 2) -> list[str]:
        """Return the candidates: those asked for, or the default ones."""
        names: tuple[str, ...] = table.NAMES_OF_MANY if n_classes > table.MANY else table.NAMES
        if self.candidates is not None:
            names = tuple(self.candidates)
        # Where all labels are equal, maps of two classes leave the other one as likely as it was.
        elif n_classes == 2 and n_labels == 2:
            names = table.NAMES_OF_TWO
        return list(dict.fromkeys([BASELINE, *names]))

    def _solve(self, batch: SimplexBatch, search: Search | None = None) -> dict[str, object]:
        names = self._names(batch.n_classes, len(np.unique(batch.class_index)))
        with progress("AutoCalibrator", len(names) + 2, verbose=self.verbose) as start:
            search = Search(batch, self.cv) if search is None else search
            search.hold_out(names, start)
            start("mixture")
            reference = OF_TWO if batch.n_classes == 2 and OF_TWO in names else BASELINE
            weights, report = self._weigh(search, names, reference)
            start("finish")
            fitted = self._fit_mixture(search, names, weights, reference)
            return fitted | {"solver_report_": report}

    def _weigh(
        self, search: Search, names: list[str], reference: str
    ) -> tuple[Floats, SolverReport]:
        """Return the weights of the mixture."""
        favoured = [OF_TWO] if reference == OF_TWO else table.FAVOURED
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
        weights = np.where(weights < table.LEAST_WEIGHT, 0.0, weights)
        return weights / weights.sum(), report

    def _fit_mixture(
        self, search: Search, names: list[str], weights: Floats, reference: str
    ) -> dict[str, object]:
        """Fit the candidates that have a weight to all rows, and the final stages."""
        kept = {names[i]: float(weights[i]) for i in np.flatnonzero(weights)}
        batch, of_labels = search.batch, search.of_labels(names)
        loss = -float(batch.weight @ np.log(np.maximum(of_labels @ weights, SMALLEST)))
        # With w the weight of the scores and of their temperature scaling, and E the held-out loss,
        # final stages have the share (1 - w) E / (E + finish). Two-class scaling needs none.
        share = 1.0 - sum(kept.get(name, 0.0) for name in table.PLAIN)
        if self.finish > 0.0:
            share *= max(loss, 0.0) / (max(loss, 0.0) + self.finish)
        share = 0.0 if reference == OF_TWO or share < table.LEAST_WEIGHT else share
        # Without a candidate that distinguishes classes, no final stage does so either.
        stages = [
            n for n in table.FINAL_STAGES if n != "structured" or {*names} & {*table.STRUCTURED}
        ]
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
            "floor_": max(SMALLEST, table.FLOOR_LOSS * min(loss, 1.0) / cells),
            "report_": report_of(names, weights, search, share, reference),
        }

    def _held_out(self, search: Search) -> Floats:
        """Return the probabilities of the result by parts that have not seen a row.

        The weights and the final stages have seen the rows, but are only a few numbers.
        """
        weights = {c.path: c.weight for c in self.report_.candidates if c.weight > 0.0}
        rows = search.mix(weights)
        floor_rows(rows, SMALLEST if self.floor_ is None else self.floor_)
        last, share = rows, self.finish_share_ or 0.0
        for stage in self.finish_ or ():
            last = outputs_of(stage, last)
        mixed: Floats = (1.0 - share) * rows + share * last
        mixed /= mixed.sum(axis=1, keepdims=True)
        return mixed

    def _complaints(self, batch: SimplexBatch) -> Iterator[Warning]:
        """Yield warnings of parts with a share in the result about classes without a label."""
        present = np.bincount(batch.class_index, minlength=batch.n_classes) > 0
        for part in chain(*self.paths_, self.finish_ or ()):
            yield from part._missing(present, batch.classes)  # noqa: SLF001  (ours)
        yield from super()._complaints(batch)

    def _compose(self) -> CalibrationMap:
        # Model files of 1.0 may hold a candidate of two stages, and no final stages or floor.
        parts = {id(part): part for path in self.paths_ for part in path}
        stages = {key: stage_of(part) for key, part in parts.items()}
        chains = [ChainMap(tuple(stages[id(part)] for part in path)) for path in self.paths_]
        mixture = MixtureMap(tuple(chains), self.weights_)
        first = Stage(mixture, SMALLEST if self.floor_ is None else self.floor_)
        if not self.finish_:
            return mixture if self.floor_ is None else ChainMap((first,))
        # A share that is missing is NaN, which no weight may be.
        share = np.nan if self.finish_share_ is None else self.finish_share_
        last = ChainMap((first, *map(stage_of, self.finish_)))
        return MixtureMap((first, last), np.array([1.0 - share, share]))


def _keep_plain(
    weights: Floats, of_labels: Floats, batch: SimplexBatch, names: list[str]
) -> Floats:
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
        of_label = batch.scores[np.arange(batch.n_rows), batch.class_index]
        is_wrong = np.count_nonzero(batch.scores >= of_label[:, None], axis=1) > 1  # or not alone
        n_errors = float(batch.weight[is_wrong].sum())
        share = float(expit(mixture_loss - losses[identity])) * min(n_errors, 1.0)
        kept *= 1.0 - share
        kept[identity] += share
    return kept


def _priced_cells(search: Search, names: list[str], reference: str) -> tuple[Floats, Floats]:
    """Return probabilities of the candidates in cells of some rows, and weights of these cells.

    The weight of a cell is its probability by the ``reference``. Rows are chosen as a fold is, and
    cells that make no difference to the sum are left out.
    """
    batch = search.batch
    n_parts = min(batch.scores.size // table.PRICED_CELLS, batch.n_rows // table.PRICED_ROWS)
    row, fold, weight = replace(batch, group=None).deal(1 + n_parts)
    row, weight = row[fold == 0], weight[fold == 0]
    share = weight[:, None] * search.held_out[reference].scores[row]
    share /= share.sum()
    is_counted = share > 1e-12 / share.size
    cells = [search.held_out[name].scores[row][is_counted] for name in names]
    return np.column_stack(cells), share[is_counted]


def report_of(
    names: list[str], weights: Floats, search: Search, finish_share: float, reference: str
) -> AutoReport:
    """Return the report of a search, from the probabilities of the labels by each candidate."""
    of_labels, share = search.of_labels(names), search.batch.weight / search.batch.weight.sum()
    loss = -np.log(np.maximum(of_labels, 1e-300))
    gaps = loss - loss[:, [names.index(BASELINE)]]
    mean = share @ gaps
    error = np.sqrt(share @ (gaps - mean) ** 2 / search.batch.weight.sum())  # weights are rows
    nll = share @ loss
    columns = (values.tolist() for values in (nll, mean, error, weights))
    seconds = [search.seconds[name] for name in names]
    candidates = [Candidate(*row) for row in zip(names, *columns, seconds, strict=True)]
    mixture = float(-share @ np.log(np.maximum(of_labels @ weights, 1e-300)))
    n_folds = int(search.folds.max()) + 1
    return AutoReport(tuple(candidates), search.n_rows, n_folds, mixture, finish_share, reference)
