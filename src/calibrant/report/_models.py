"""Many models on the same tasks: accuracy, calibration and differences, side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from scipy.stats import t as student

from calibrant import AutoCalibrator, MaskedCalibrator, TemperatureScaling, errors
from calibrant import _gate as gate
from calibrant import _notices as notices
from calibrant._calibrators.composition import out_of_fold
from calibrant._result import Estimate, Result, data_frame, doc, result, with_ends
from calibrant._text import align_columns, percent, shorten
from calibrant.metrics import class_shares, positive_ece

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import ArrayLike

    from calibrant._calibrators.base import Calibrator
    from calibrant._types import Floats, Labels

N_FOLDS = 5
TRUSTED = 0.95
"""Accuracy at which the share of answered questions is told."""

N_PSEUDO = 2
"""Right answers, and wrong ones, that are added to those of a model (Agresti and Coull, 1998)."""

ALL_TASKS, MOST_TOLD = "all tasks", 20
SMALLEST, MIN_PROBABILITY = 1e-300, 1e-12
"""Least probability of an option that is there, and in a loss, as metrics have it."""


@dataclass(frozen=True)
class ModelAnswers:
    """Answers of one model to one task.

    Parameters
    ----------
    scores : array-like of shape (n_rows, n_classes), or (n_rows,)
        Probabilities of the options; or, in one column, that the answer is right.
    labels : array-like of shape (n_rows,)
        The right options; or whether the answer was right.
    model, task : str
        Names.
    items : array-like of shape (n_rows,), optional
        Question of each row, by which models are compared; by default rows of one task are in the
        same order for every model. Repeated samples of a question are one item.
    clusters : array-like of shape (n_rows,), optional
        Document, conversation or topic that each question is drawn with. Intervals are then those
        of a sample of clusters, which is what tells about questions of others.
    classes : sequence, optional
        Option of each column.
    kind : {"probabilities", "logits"}, default="probabilities"
        Kind of the scores.

    Examples
    --------
    >>> from calibrant.report import ModelAnswers
    >>> ModelAnswers([0.9, 0.6], [True, False], "tiny").task
    ''
    """

    scores: ArrayLike
    labels: ArrayLike
    model: str
    task: str = ""
    items: ArrayLike | None = None
    clusters: ArrayLike | None = None
    classes: Sequence[object] | None = None
    kind: str = "probabilities"


@result(repr=False)
class ModelRow(Result):
    """One model on one task; what is calibrated is so by folds that did not see the row."""

    model: str = doc("Name of the model.")
    task: str = doc("Name of the task.")
    n_rows: int = doc("Number of answers.")
    accuracy: Estimate = doc("Share of right answers; of the options with the largest score.")
    accuracy_calibrated: float = doc("The same after calibration.")
    confidence: float = doc("Mean confidence in the answer.")
    overconfidence: Estimate = doc("Confidence less accuracy.")
    overconfidence_calibrated: Estimate = doc("The same after calibration.")
    error: float = doc("conf-ECE; of P(right), that of equal-mass bins.")
    error_calibrated: float = doc("The same after calibration.")
    nll: float = doc("Mean negative log-likelihood.")
    nll_calibrated: float = doc("The same after calibration.")
    slope: float = doc(
        "Inverse temperature that fits best; below 1 the model is over-confident; NaN of all tasks."
    )
    favourite: str = doc("Option that the model favours most; empty for P(right) and all tasks.")
    favour: float = doc("Its mean probability less its share of the right options.")
    bias: dict[str, float] = doc("The same of every option.")
    answered: float = doc("Share of questions that can be answered with 95 % accuracy.")
    answered_calibrated: float = doc("The same after calibration.")


@result(repr=False)
class ModelDifference(Result):
    """Difference of the accuracies of two models on the same questions."""

    task: str = doc("Name of the task.")
    first: str = doc("The model of the larger accuracy.")
    second: str = doc("The other model.")
    difference: Estimate = doc("Difference of the accuracies.")
    n_items: int = doc("Questions that both answered.")


@result(repr=False)
class ModelTable(Result):
    """Models by task; ``print`` shows a table, ``to_frame`` returns a data frame."""

    rows: tuple[ModelRow, ...] = doc("Every model on every task, the most accurate first.")
    differences: tuple[ModelDifference, ...] = doc("Every two models that share questions.")
    confidence_level: float = doc("Confidence level of the intervals.")

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with a row for each model and task."""
        rows = []
        for row in self.rows:
            cells = {name: getattr(row, name) for name in ModelRow.__slots__ if name != "bias"}
            estimates = {name: own for name, own in cells.items() if isinstance(own, Estimate)}
            rows.append(cells | with_ends(estimates))
        return data_frame(rows)

    def sorted_by(self, column: str) -> ModelTable:
        """Return the table in the order of a column, the largest value first; of text, A first."""
        gate.check_option("column", column, ModelRow.__slots__)

        def key(row: ModelRow) -> tuple[str, float]:
            value = getattr(row, column)
            if isinstance(value, str):
                return value, 0.0
            value = value.value if isinstance(value, Estimate) else value
            return "", -float(np.nan_to_num(value, nan=-np.inf))

        return replace(self, rows=tuple(sorted(self.rows, key=key)))

    def cells(self) -> list[list[str]]:
        """Return the texts of the table, its head first."""
        has_tasks = any(row.task for row in self.rows)
        head = ["model", *["task"] * has_tasks, "rows", "accuracy %", "too sure by", "ECE %", "NLL"]
        lines = [[*head, "slope", "favours", f"at {percent(TRUSTED, 0)}"]]
        for row in self.rows:
            accuracy = f"{100 * row.accuracy.value:.1f} ({_ends(row.accuracy)})"
            if row.accuracy_calibrated != row.accuracy.value:  # that of P(right) stays
                accuracy += f" > {100 * row.accuracy_calibrated:.1f}"
            favours = f"{shorten(row.favourite, 8)} {100 * row.favour:+.0f}" * bool(row.favourite)
            lines.append(
                [
                    row.model,
                    *[row.task] * has_tasks,
                    f"{row.n_rows:,}",
                    accuracy,
                    _arrow(row.overconfidence.value, row.overconfidence_calibrated.value, "+z.1f"),
                    _arrow(row.error, row.error_calibrated, ".1f"),
                    f"{row.nll:.3f} > {row.nll_calibrated:.3f}",
                    "" if math.isnan(row.slope) else f"{row.slope:.2f}",
                    favours,
                    _arrow(row.answered, row.answered_calibrated, ".0f"),
                ]
            )
        return lines

    def __repr__(self) -> str:
        cells = self.cells()
        lines = align_columns(cells, 1 + ("task" in cells[0]))
        lines.append(
            "\n> after calibration, on rows that it was not fitted to. "
            f"At {percent(TRUSTED, 0)}: questions answered, in %, if so many of the answers given "
            "are to be right."
        )
        lines += ["", *(describe(one) for one in self.differences[:MOST_TOLD])]
        if len(self.differences) > MOST_TOLD:
            lines.append(f"and {len(self.differences) - MOST_TOLD} more (to_dict, --json)")
        return "\n".join(lines).rstrip()


def describe(one: ModelDifference) -> str:
    """Say which of two models is better, and whether that may be chance."""
    gap = one.difference
    chance = ", which may be chance" if gap.low <= 0.0 <= gap.high else ""
    task = f" on {one.task}" if one.task else ""
    return (
        f"{one.first} - {one.second}{task}: {100 * gap.value:+.1f} points ({_ends(gap)}), "
        f"{one.n_items:,} common questions{chance}"
    )


def _ends(estimate: Estimate) -> str:
    return f"{100 * estimate.low:.1f} to {100 * estimate.high:.1f}"


def _arrow(before: float, after: float, form: str) -> str:
    return f"{100 * before:{form}} > {100 * after:{form}}"


def compare_models(
    answers: list[ModelAnswers] | Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    calibrator: Calibrator | None = None,
    confidence_level: float = 0.95,
) -> ModelTable:
    """Compare models on the same tasks, before and after calibration.

    Parameters
    ----------
    answers : list of ModelAnswers, or mapping of names to (scores, labels)
        Answers of each model to each task.
    calibrator : Calibrator, optional
        Calibrator that is fitted in five folds; by default ``AutoCalibrator``. Folds are of
        clusters, or of questions if there are fewer than five clusters.
    confidence_level : float, default=0.95
        Confidence level of the intervals.

    Returns
    -------
    ModelTable
        Models, and differences of their accuracies on the questions that they share. Models of
        several tasks also have a row of all tasks together.

    Notes
    -----
    The interval of a difference is Student's of the differences d_i of the questions, to which one
    of each sign is added (Bonett and Price, 2012): where two models never differ, nothing shows
    that they never will. A question with several answers counts once. With clusters of sizes n_g,
    sums of the d_i over clusters take the place of the d_i, with n^2 / sum n_g^2 - 1 degrees of
    freedom.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.report import compare_models
    >>> scores, y = simulated_scores(600)
    >>> worse = 0.5 * scores + 0.5 * scores[np.random.default_rng(0).permutation(600)]
    >>> table = compare_models({"good": (scores, y), "bad": (worse, y)})
    >>> [row.model for row in table.rows]
    ['good', 'bad']
    >>> table.differences[0].difference.low > 0
    True
    """
    gate.check_number("confidence_level", confidence_level, low=0.0, high=1 - 1e-9)
    if isinstance(answers, Mapping):
        answers = [ModelAnswers(*own, model=str(name)) for name, own in answers.items()]
    names = [(one.model, one.task) for one in answers]
    for name in names:
        if names.count(name) > 1:
            raise errors.ParameterError(
                f"answers has two entries of the model {name[0]!r} and the task {name[1]!r}; give "
                "them names of their own, or put them together",
                argument="answers",
            )
    calibrator = AutoCalibrator() if calibrator is None else calibrator
    judged: dict[tuple[str, str], BothSides] = {}
    rows = []
    for one in answers:
        own, about = _judge(one, calibrator)
        judged[one.task, one.model] = own
        rows.append(_to_row(one.model, one.task, own, confidence_level, about))
    tasks = list(dict.fromkeys(one.task for one in answers))
    for model in dict.fromkeys(one.model for one in answers):
        parts = [(task, judged[task, model]) for task in tasks if (task, model) in judged]
        if len(tasks) > 1 and len(parts) == len(tasks):  # else it is not the same for all models
            own = judged[ALL_TASKS, model] = _all_tasks(parts)
            rows.append(_to_row(model, ALL_TASKS, own, confidence_level, NO_OPTIONS))
    rows.sort(key=lambda row: (row.task != ALL_TASKS, row.task, -row.accuracy.value))
    pairs = [(a, b) for a, b in combinations(rows, 2) if a.task == b.task]
    differences = (
        _difference(a, b, judged[a.task, a.model], judged[b.task, b.model], confidence_level)
        for a, b in pairs
    )
    told = tuple(one for one in differences if one is not None)
    return ModelTable(tuple(rows), told, float(confidence_level))


class OptionBias(NamedTuple):
    """What there is to say of options; nothing where there are none, and of several tasks."""

    slope: float
    favourite: str
    favour: float
    bias: dict[str, float]


NO_OPTIONS = OptionBias(math.nan, "", math.nan, {})


class OneSide(NamedTuple):
    """How sure a model was of each answer, whether it was right, and its loss."""

    sure: Floats
    right: Floats
    loss: Floats


class BothSides(NamedTuple):
    """Answers of a model to a task before and after calibration."""

    before: OneSide
    after: OneSide
    items: Labels
    clusters: Labels | None
    bins: Literal["uniform", "quantile"]

    @property
    def homes(self) -> Labels:
        """Cluster of each row; without clusters, questions are drawn one by one."""
        return self.items if self.clusters is None else self.clusters

    @property
    def by_item(self) -> dict[object, tuple[float, object]]:
        """Share of right answers to each question, and its cluster."""
        hits: dict[object, list[float]] = {}
        homes = dict(zip(self.items.tolist(), self.homes.tolist(), strict=True))
        for item, hit in zip(self.items.tolist(), self.before.right.tolist(), strict=True):
            hits.setdefault(item, []).append(hit)
        return {item: (float(np.mean(own)), homes[item]) for item, own in hits.items()}


def _judge(one: ModelAnswers, calibrator: Calibrator) -> tuple[BothSides, OptionBias]:
    """Return the answers of a model before and after calibration, and what it favours."""
    is_right = np.ndim(one.scores) == 1 or np.shape(one.scores)[1:] == (1,)
    kind = "positive" if is_right else one.kind
    classes = [False, True] if is_right else one.classes
    labels = np.asarray(one.labels).astype(bool) if is_right else one.labels
    with notices.kept():  # advice on each of many models would hide the table
        batch = gate.check_batch(one.scores, labels, kind=kind, classes=classes)
        is_absent = np.isneginf(batch.scores)
        rows = batch.probabilities()
        if is_absent.any():  # an option that is there has a probability, however small
            rows = np.where(is_absent, 0.0, np.maximum(rows, SMALLEST))
        batch = batch.with_probabilities(rows)
        items = _of_rows(one, "items", one.items, batch.n_rows)
        clusters = one.clusters
        if clusters is not None:
            clusters = _of_rows(one, "clusters", clusters, batch.n_rows)
        # Answers to one question are alike: they share a fold, so that none is judged by another.
        codes = np.unique(items if clusters is None else clusters, return_inverse=True)[1]
        if codes.max() + 1 < N_FOLDS:
            codes = np.unique(items, return_inverse=True)[1]
        folds = np.random.default_rng(0).permutation(codes.max() + 1)[codes] % N_FOLDS
        part = MaskedCalibrator(calibrator) if is_absent.any() else calibrator
        after = batch.with_probabilities(out_of_fold(part, batch, folds))
        scaling = TemperatureScaling(classes=batch.classes)
        temperature = scaling.fit(batch, None).temperature_
    about = NO_OPTIONS._replace(slope=1.0 / temperature)
    if not is_right:
        shares = class_shares(batch.class_index, batch.scores, classes=range(batch.n_classes))
        gaps = (np.asarray(shares.predicted) - np.asarray(shares.observed)).tolist()
        bias = dict(zip(map(str, batch.classes), gaps, strict=True))
        favourite = max(bias, key=bias.__getitem__)
        about = OptionBias(about.slope, favourite, bias[favourite], bias)
    sides = _answers(batch, is_right), _answers(after, is_right)
    return BothSides(*sides, items, clusters, "quantile" if is_right else "uniform"), about


def _of_rows(one: ModelAnswers, name: str, given: ArrayLike | None, n_rows: int) -> Labels:
    """Return the item or cluster of each row; without items, each row is one."""
    stored = np.arange(n_rows) if given is None else np.asarray(given)
    if stored.shape != (n_rows,):
        raise errors.ShapeError(
            f"{name} of {one.model} has shape {stored.shape}; pass one for each of {n_rows} rows",
            argument=name,
        )
    return stored


def _all_tasks(parts: list[tuple[str, BothSides]]) -> BothSides:
    """Return the answers to several tasks as those to one; a question belongs to its task."""

    def names(task: str, values: Labels) -> Labels:
        return np.array([f"{task}\n{value}" for value in values.tolist()], dtype=object)

    before, after = (
        OneSide(*map(np.concatenate, zip(*sides, strict=True)))
        for sides in zip(*((part.before, part.after) for _, part in parts), strict=True)
    )
    has_clusters = any(part.clusters is not None for _, part in parts)
    clusters = [names(task, part.homes) for task, part in parts]
    return BothSides(
        before,
        after,
        np.concatenate([names(task, part.items) for task, part in parts]),
        np.concatenate(clusters) if has_clusters else None,
        parts[0][1].bins,
    )


def _to_row(model: str, task: str, own: BothSides, level: float, about: OptionBias) -> ModelRow:
    """Return the row of a model."""
    hits, homes = zip(*own.by_item.values(), strict=True)
    value, low, high = _interval(np.array(hits), level, np.array(homes), [0.0, 1.0] * N_PSEUDO)
    before, after, clusters = own.before, own.after, own.homes
    return ModelRow(
        model=model,
        task=task,
        n_rows=len(before.sure),
        accuracy=Estimate(value, max(low, 0.0), min(high, 1.0)),
        accuracy_calibrated=float(after.right.mean()),
        confidence=float(before.sure.mean()),
        overconfidence=_interval(before.sure - before.right, level, clusters),
        overconfidence_calibrated=_interval(after.sure - after.right, level, clusters),
        error=_error(before, own.bins),
        error_calibrated=_error(after, own.bins),
        nll=float(before.loss.mean()),
        nll_calibrated=float(after.loss.mean()),
        answered=_answered(before.sure, before.right),
        answered_calibrated=_answered(after.sure, after.right),
        slope=about.slope,
        favourite=about.favourite,
        favour=about.favour,
        bias=about.bias,
    )


def _answers(batch: gate.SimplexBatch, is_right: bool) -> OneSide:
    """Return the answers; of P(right), which were given whatever it was."""
    p = batch.scores[np.arange(batch.n_rows), batch.class_index]
    loss = -np.log(np.maximum(p, MIN_PROBABILITY))
    if is_right:
        return OneSide(batch.scores[:, 1], batch.class_index.astype(np.float64), loss)
    is_hit = batch.scores.argmax(axis=1) == batch.class_index
    return OneSide(batch.scores.max(axis=1), is_hit.astype(np.float64), loss)


def _error(own: OneSide, bins: Literal["uniform", "quantile"]) -> float:
    return positive_ece(own.right > 0.5, own.sure, strategy=bins, classes=[False, True])


def _answered(sure: Floats, right: Floats) -> float:
    """Return the largest share of the surest answers of which 95 % are right."""
    _, place = np.unique(-sure, return_inverse=True)  # answers that are as sure go together
    kept, hits = np.cumsum(np.bincount(place)), np.cumsum(np.bincount(place, right))
    is_trusted = hits >= TRUSTED * kept
    return float(kept[is_trusted].max(initial=0) / len(sure))


def _interval(
    values: Floats,
    level: float,
    clusters: Labels,
    pseudo: Sequence[float] = (),
) -> Estimate:
    """Return the mean and Student's interval, around a mean that has some values more.

    Values of a cluster vary together: the variance is that of their sums, and those added are
    clusters of their own. There are as many degrees of freedom as clusters of equal size.
    """
    n, mean = len(values), float(values.mean())
    codes = np.unique(clusters, return_inverse=True)[1]
    sizes = np.bincount(codes).astype(float)
    padded = np.append(values, pseudo)
    centre = float(padded.mean())
    sums = np.append(np.bincount(codes, values - centre), np.array(pseudo) - centre)
    free = n**2 / float(sizes @ sizes) - 1.0
    if free < 0.5:  # a single cluster says nothing of others
        return Estimate(mean)
    spread = math.sqrt(float(sums @ sums) * len(sums) / (len(sums) - 1)) / len(padded)
    reach = float(student.ppf(0.5 + level / 2, free)) * spread
    return Estimate(mean, min(centre - reach, mean), max(centre + reach, mean))


def _difference(
    a: ModelRow, b: ModelRow, of_a: BothSides, of_b: BothSides, level: float
) -> ModelDifference | None:
    """Return the difference of two models on their common questions; None if there are none."""
    hits_a, hits_b = of_a.by_item, of_b.by_item
    common = [item for item in hits_a if item in hits_b]
    if len(common) < 2:
        return None
    gaps = np.array([hits_a[item][0] - hits_b[item][0] for item in common])
    first, second, sign = (a, b, 1.0) if gaps.mean() >= 0.0 else (b, a, -1.0)
    homes = np.array([hits_a[item][1] for item in common])
    gap = _interval(sign * gaps, level, homes, (1.0, -1.0))
    return ModelDifference(a.task, first.model, second.model, gap, len(common))
