"""Many models on the same tasks: accuracy, calibration and differences, side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t as student

from calibrant import AutoCalibrator, TemperatureScaling, errors
from calibrant import _gate as gate
from calibrant import _notices as notices
from calibrant._calibrators.composition import out_of_fold
from calibrant._extras import needed
from calibrant._result import Estimate, Result, doc, result
from calibrant._text import percent, shorten
from calibrant.metrics import class_shares, confidence_ece, negative_log_likelihood, positive_ece

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

    from calibrant._calibrators.base import Calibrator

    Floats = NDArray[np.float64]

N_FOLDS = 5
TRUSTED = 0.95
"""Accuracy at which the share of answered questions is told."""

PSEUDO_ITEMS = 2.0
"""Items on which two models differ, once each way, that are added to the common ones (Bonett and
Price, 2012): where they never differ, nothing shows that they never will."""


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
    classes: Any = None
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
    slope: float = doc("Inverse temperature that fits best; below 1 the model is over-confident.")
    favourite: str = doc("Option that the model favours most; empty for P(right).")
    favour: float = doc("Its mean probability less its share of the right options.")
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

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers by name."""
        return {
            "rows": [row.to_dict() for row in self.rows],
            "differences": [one.to_dict() for one in self.differences],
            "confidence_level": self.confidence_level,
        }

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with a row for each model and task."""
        try:
            import pandas as pd
        except ImportError as error:
            raise needed(error, "to_frame", "cli") from error
        rows = []
        for row in self.rows:
            cells = row.to_dict()
            for name in ("accuracy", "overconfidence", "overconfidence_calibrated"):
                estimate = cells.pop(name)
                ends = {"": "value", "_low": "low", "_high": "high"}
                cells |= {f"{name}{end}": estimate[key] for end, key in ends.items()}
            rows.append(cells)
        return pd.DataFrame(rows)

    def sorted_by(self, column: str) -> ModelTable:
        """Return the table in the order of a column, the largest value first; of text, A first."""
        names = ModelRow.__slots__
        if column not in names:
            raise errors.ParameterError(
                f"column={column!r} is no column of the table; use one of {', '.join(names)}"
            )

        def key(row: ModelRow) -> Any:
            value = getattr(row, column)
            value = value.value if isinstance(value, Estimate) else value
            return value if isinstance(value, str) else -np.nan_to_num(value, nan=-np.inf)

        return ModelTable(
            tuple(sorted(self.rows, key=key)), self.differences, self.confidence_level
        )

    def cells(self) -> list[list[str]]:
        """Return the texts of the table, its head first."""
        has_tasks = any(row.task for row in self.rows)
        head = ["model", *["task"] * has_tasks, "rows", "accuracy %", "too sure by", "ECE %", "NLL"]
        lines = [[*head, "slope", "favours", f"at {percent(TRUSTED, 0)}"]]
        for row in self.rows:
            accuracy = f"{100 * row.accuracy.value:.1f} ({_ends(row.accuracy)})"
            favours = ""
            if row.favourite:  # of P(right) the accuracy stays, and there are no options
                accuracy += f" > {100 * row.accuracy_calibrated:.1f}"
                favours = f"{shorten(row.favourite, 8)} {100 * row.favour:+.0f}"
            lines.append(
                [
                    row.model,
                    *[row.task] * has_tasks,
                    f"{row.n_rows:,}",
                    accuracy,
                    _arrow(row.overconfidence.value, row.overconfidence_calibrated.value, "+.1f"),
                    _arrow(row.error, row.error_calibrated, ".1f"),
                    f"{row.nll:.3f} > {row.nll_calibrated:.3f}",
                    f"{row.slope:.2f}",
                    favours,
                    _arrow(row.answered, row.answered_calibrated, ".0f"),
                ]
            )
        return lines

    def __repr__(self) -> str:
        cells = self.cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        n_names = 1 + ("task" in cells[0])
        lines = []
        for line in cells:
            names = map(str.ljust, line[:n_names], widths)
            numbers = map(str.rjust, line[n_names:], widths[n_names:])
            lines.append("  ".join([*names, *numbers]).rstrip())
        lines.append(
            "\n> after calibration, on rows that it was not fitted to. "
            f"At {percent(TRUSTED, 0)}: questions answered, in %, if so many of the answers given "
            "are to be right."
        )
        lines += ["", *(describe(one) for one in self.differences)]
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
        Calibrator that is fitted in five folds; by default ``AutoCalibrator``.
    confidence_level : float, default=0.95
        Confidence level of the intervals.

    Returns
    -------
    ModelTable
        Models, and differences of their accuracies on the questions that they share.

    Notes
    -----
    The interval of a difference is Student's of the differences d_i of the questions, to which one
    of each sign is added (Bonett and Price, 2012); a question with several answers counts once.

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
                "them names of their own, or put them together"
            )
    calibrator = AutoCalibrator() if calibrator is None else calibrator
    judged = [_judge(one, calibrator, confidence_level) for one in answers]
    rows = sorted((row for row, _ in judged), key=lambda row: (row.task, -row.accuracy.value))
    hits = {(row.task, row.model): by_item for row, by_item in judged}
    differences = []
    for a, b in combinations(rows, 2):
        if a.task == b.task:
            pair = hits[a.task, a.model], hits[b.task, b.model]
            one = _difference(a, b, *pair, confidence_level)
            differences += [] if one is None else [one]
    return ModelTable(tuple(rows), tuple(differences), float(confidence_level))


def _judge(
    one: ModelAnswers, calibrator: Calibrator, level: float
) -> tuple[ModelRow, dict[Any, float]]:
    """Return the row of a model, and the share of right answers to each question."""
    is_right = np.ndim(one.scores) == 1 or np.shape(one.scores)[1:] == (1,)
    kind = "positive" if is_right else one.kind
    classes = [False, True] if is_right else one.classes
    labels = np.asarray(one.labels).astype(bool) if is_right else one.labels
    with notices.kept():  # advice on each of many models would hide the table
        batch = gate.check_batch(one.scores, labels, kind=kind, classes=classes)
        batch = batch.with_probabilities(batch.probabilities())
        folds = np.random.default_rng(0).permutation(batch.n_rows) % N_FOLDS
        after = batch.with_probabilities(out_of_fold(calibrator, batch, folds))
        temperature = TemperatureScaling(classes=batch.classes).fit(batch, None).temperature_
    items = np.arange(batch.n_rows) if one.items is None else np.asarray(one.items)
    if items.shape != (batch.n_rows,):
        raise errors.ShapeError(
            f"items of {one.model} has shape {items.shape}; pass one for each of "
            f"{batch.n_rows} answers"
        )
    sure, right = _answers(batch, is_right)
    sure_after, right_after = _answers(after, is_right)
    favourite, favour = "", math.nan
    if not is_right:
        shares = class_shares(batch.class_index, batch.scores, classes=range(batch.n_classes))
        gaps = np.asarray(shares.predicted) - np.asarray(shares.observed)
        favourite, favour = str(batch.classes[gaps.argmax()]), float(gaps.max())
    by_item: dict[Any, list[float]] = {}
    for item, hit in zip(items.tolist(), right.tolist(), strict=True):
        by_item.setdefault(item, []).append(hit)
    means = {item: float(np.mean(own)) for item, own in by_item.items()}
    row = ModelRow(
        model=one.model,
        task=one.task,
        n_rows=batch.n_rows,
        accuracy=_interval(np.array(list(means.values())), level, PSEUDO_ITEMS),
        accuracy_calibrated=float(right_after.mean()),
        confidence=float(sure.mean()),
        overconfidence=_interval(sure - right, level),
        overconfidence_calibrated=_interval(sure_after - right_after, level),
        error=_error(batch, is_right),
        error_calibrated=_error(after, is_right),
        nll=_nll(batch),
        nll_calibrated=_nll(after),
        slope=1.0 / temperature,
        favourite=favourite,
        favour=favour,
        answered=_answered(sure, right),
        answered_calibrated=_answered(sure_after, right_after),
    )
    return row, means


def _answers(batch: gate.SimplexBatch, is_right: bool) -> tuple[Floats, Floats]:
    """Return how sure the model is of each answer, and whether that is right."""
    if is_right:
        return batch.scores[:, 1], batch.class_index.astype(np.float64)
    top = batch.scores.argmax(axis=1)
    return batch.scores.max(axis=1), (top == batch.class_index).astype(np.float64)


def _error(batch: gate.SimplexBatch, is_right: bool) -> float:
    measure = positive_ece if is_right else confidence_ece
    return measure(batch.class_index, batch.scores, classes=range(batch.n_classes))


def _nll(batch: gate.SimplexBatch) -> float:
    return negative_log_likelihood(batch.class_index, batch.scores, classes=range(batch.n_classes))


def _answered(sure: Floats, right: Floats) -> float:
    """Return the largest share of the surest answers of which 95 % are right."""
    _, place = np.unique(-sure, return_inverse=True)  # answers that are as sure go together
    kept, hits = np.cumsum(np.bincount(place)), np.cumsum(np.bincount(place, right))
    is_trusted = hits >= TRUSTED * kept
    return float(kept[is_trusted].max(initial=0) / len(sure))


def _interval(values: Floats, level: float, pseudo: float = 0.0) -> Estimate:
    """Return the mean and Student's interval; of shares, Agresti and Coull's."""
    n, mean = len(values), float(values.mean())
    quantile = float(student.ppf(0.5 + level / 2, max(n - 1, 1)))
    if pseudo:
        values = np.append(values, [0.0, 1.0] * int(pseudo))
    centre = float(values.mean())
    reach = quantile * float(values.std(ddof=1)) / math.sqrt(len(values)) if n > 1 else math.inf
    low, high = centre - reach, centre + reach
    if pseudo:
        low, high = max(low, 0.0), min(high, 1.0)
    return Estimate(mean, min(low, mean), max(high, mean))


def _difference(
    a: ModelRow, b: ModelRow, of_a: dict[Any, float], of_b: dict[Any, float], level: float
) -> ModelDifference | None:
    """Return the difference of two models on their common questions; None if there are none."""
    common = [item for item in of_a if item in of_b]
    if len(common) < 2:
        return None
    gaps = np.array([of_a[item] - of_b[item] for item in common])
    value = float(gaps.mean())
    padded = np.append(gaps, [1.0, -1.0])
    reach = float(student.ppf(0.5 + level / 2, len(gaps) - 1) * padded.std(ddof=1))
    reach /= math.sqrt(len(padded))
    centre = float(padded.mean())
    first, second = (a.model, b.model) if value >= 0.0 else (b.model, a.model)
    sign = 1.0 if value >= 0.0 else -1.0
    ends = sorted((sign * (centre - reach), sign * (centre + reach)))
    return ModelDifference(a.task, first, second, Estimate(abs(value), *ends), len(common))
