"""Inspect: a scorer that keeps the confidence of a choice, and metrics of it."""

from __future__ import annotations

import math
from functools import wraps
from typing import TYPE_CHECKING

import numpy as np
from inspect_ai.scorer import (
    Metric,
    SampleScore,
    Score,
    Scorer,
    accuracy,
    choice,
    metric,
    scorer,
    value_to_float,
)

from calibrant.metrics import positive_ece
from calibrant.model_file import load

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from inspect_ai.model import Logprobs
    from inspect_ai.scorer import Target
    from inspect_ai.solver import TaskState

    from calibrant._types import Floats

LEAST = 1e-6  # probability of a letter that is not among the listed tokens, at most


def letter_probabilities(logprobs: Logprobs | None, n_choices: int) -> list[float] | None:
    """Return the probability of each letter where the answer was given; None without it.

    A model that reasons first names its answer last: the last token that is a letter counts.
    """
    letters = [chr(ord("A") + i) for i in range(n_choices)]
    for token in reversed(logprobs.content if logprobs is not None else []):
        if token.token.strip(" ()*:.") in letters:
            listed = [*(token.top_logprobs or []), token]
            best = dict.fromkeys(letters, -math.inf)
            for one in listed:
                letter = one.token.strip(" ()*:.")
                if letter in best:
                    best[letter] = max(best[letter], one.logprob)
            found = np.exp(np.fromiter(best.values(), float))
            # What is not listed is less probable than the least that is.
            floor = min(math.exp(min(one.logprob for one in listed)), LEAST)
            found = np.maximum(found, floor)
            return [float(p) for p in found / found.sum()]
    return None


def _confidences(scores: list[SampleScore], name: str) -> tuple[Floats, Floats]:
    """Return the confidences of the answers that have one, and whether they were right."""
    to_float = value_to_float()
    rows = [((one.score.metadata or {}).get(name), to_float(one.score.value)) for one in scores]
    kept = [(p, right) for p, right in rows if p is not None]
    return np.array([p for p, _ in kept]), np.array([right for _, right in kept])


def _metric(make: Callable[..., Metric]) -> Callable[..., Metric]:
    """Register a metric of Inspect, which keeps its name, its module and its documentation."""
    return wraps(make)(metric(make))


@_metric
def calibration_error(of: str = "confidence") -> Metric:
    """Return the calibration error of a confidence, in bins of equal mass.

    Parameters
    ----------
    of : {"confidence", "calibrated"}, default="confidence"
        Field of the metadata of a score.

    Returns
    -------
    metric : Metric
        A metric of Inspect.

    Examples
    --------
    >>> from inspect_ai.scorer import SampleScore, Score
    >>> from calibrant.hooks import calibration_error
    >>> sure = [Score(value=v, metadata={"confidence": 0.9}) for v in (1, 1, 1, 0)]
    >>> round(calibration_error()([SampleScore(score=score) for score in sure]), 3)
    0.15
    """

    def compute(scores: list[SampleScore]) -> float:
        confidence, right = _confidences(scores, of)
        known = [False, True]
        return positive_ece(right > 0.5, confidence, classes=known) if len(right) else math.nan

    return compute


@_metric
def overconfidence(of: str = "confidence") -> Metric:
    """Return the mean confidence less the share of right answers.

    Parameters
    ----------
    of : {"confidence", "calibrated"}, default="confidence"
        Field of the metadata of a score.

    Returns
    -------
    metric : Metric
        A metric of Inspect.

    Examples
    --------
    >>> from inspect_ai.scorer import SampleScore, Score
    >>> from calibrant.hooks import overconfidence
    >>> sure = [Score(value=v, metadata={"confidence": 0.9}) for v in (1, 1, 1, 0)]
    >>> round(overconfidence()([SampleScore(score=score) for score in sure]), 3)
    0.15
    """

    def compute(scores: list[SampleScore]) -> float:
        confidence, right = _confidences(scores, of)
        return float(confidence.mean() - right.mean()) if len(right) else math.nan

    return compute


@_metric
def after_calibration() -> Metric:
    """Return both errors of the calibrated confidence by name; nothing without a calibrator."""

    def compute(scores: list[SampleScore]) -> dict[str, float]:
        if len(_confidences(scores, "calibrated")[0]) == 0:
            return {}
        error, gap = (part("calibrated") for part in (calibration_error, overconfidence))
        return {"calibration_error_after": error(scores), "overconfidence_after": gap(scores)}

    return compute


@scorer(metrics=[accuracy(), calibration_error(), overconfidence(), after_calibration()])
def confident_choice(calibrator: str | os.PathLike[str] | None = None) -> Scorer:
    """Score a choice as Inspect does, and keep the probability of the answer beside it.

    Parameters
    ----------
    calibrator : path-like, optional
        Model file of a calibrator of the options, fitted to the log of an earlier run,
        ``calibrant fit run.eval -o model.calibrant``, or of P(right), fitted to one column. The
        score then also has the answer's probability after it, ``calibrated``, and the results
        ``calibration_error_after`` and ``overconfidence_after``.

    Returns
    -------
    scorer : Scorer
        A scorer of Inspect.

    Notes
    -----
    The model has to give log-probabilities: ``GenerateConfig(logprobs=True, top_logprobs=20)``.

    Examples
    --------
    >>> from inspect_ai import Task
    >>> from inspect_ai.dataset import MemoryDataset, Sample
    >>> from inspect_ai.solver import multiple_choice
    >>> from calibrant.hooks import confident_choice
    >>> questions = [Sample(input="2 + 2?", choices=["3", "4"], target="B")]
    >>> task = Task(MemoryDataset(questions), solver=multiple_choice(), scorer=confident_choice())
    """
    plain, fitted = choice(), None if calibrator is None else load(calibrator)

    async def score(state: TaskState, target: Target) -> Score:
        result = await plain(state, target)
        logprobs = state.output.choices[0].logprobs if state.output.choices else None
        found = letter_probabilities(logprobs, len(state.choices))
        if found is None or result.answer in (None, ""):
            return result
        metadata = {"confidence": max(found), "probabilities": found}
        if fitted is not None:
            own, column = np.array([found]), found.index(max(found))
            if fitted.scores == "positive":  # P(right) of an answer, whatever its letter
                own, column = own.max(axis=1), 1
            own = np.log(own) if fitted.scores == "logits" else own
            metadata["calibrated"] = float(fitted.predict_proba(own)[0, column])
        result.metadata = (result.metadata or {}) | metadata
        return result

    return score
