"""The LM Evaluation Harness: calibration among the results of a run, and a filter of scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import model_file
from calibrant.report import ModelAnswers, compare_models

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from calibrant._calibrators.base import Calibrator

    Pair = tuple[float, bool]
    """Log-likelihood of an option, and whether it is the likeliest continuation."""

FIELDS = {"acc": "accuracy", "nll": "nll", "ece": "error", "overconfidence": "overconfidence"}


def add_calibration(
    results: dict[str, Any], calibrator: Calibrator | None = None
) -> dict[str, Any]:
    """Add calibration errors to the results of ``lm_eval.simple_evaluate``, before and after.

    Parameters
    ----------
    results : dict
        Results with ``log_samples=True``; tasks of multiple choice get the keys ``nll``, ``ece``
        and ``overconfidence``, each with the filter ``none`` and with ``calibrated``, which is by
        folds that did not see the question, and ``acc,calibrated``.
    calibrator : Calibrator, optional
        Calibrator that is fitted in folds; by default ``AutoCalibrator``.

    Returns
    -------
    results : dict
        The same dictionary, which ``lm_eval.utils.make_table`` prints.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.hooks import add_calibration
    >>> scores, y = simulated_scores(300)
    >>> samples = [
    ...     {"filtered_resps": [[float(value), False] for value in row], "target": int(label)}
    ...     for row, label in zip(np.log(scores), y, strict=True)
    ... ]
    >>> results = add_calibration({"results": {"task": {}}, "samples": {"task": samples}})
    >>> results["results"]["task"]["nll,calibrated"] < results["results"]["task"]["nll,none"]
    True
    """
    for task, samples in (results.get("samples") or {}).items():
        rows = [_scores(sample) for sample in samples]
        widths = {len(scores) for scores in rows if scores is not None}
        if len(widths) != 1 or None in rows:  # not of multiple choice, or of several lengths
            continue
        targets = [int(sample["target"]) for sample in samples]
        answers = ModelAnswers(
            np.array(rows), targets, "model", task, classes=range(widths.pop()), kind="logits"
        )
        (row,) = compare_models([answers], calibrator=calibrator).rows
        found = results["results"][task]
        found |= {
            f"{key},calibrated": _value(row, f"{name}_calibrated") for key, name in FIELDS.items()
        }
        found |= {f"{key},none": _value(row, name) for key, name in FIELDS.items() if key != "acc"}
        direction = results.setdefault("higher_is_better", {}).setdefault(task, {})
        direction |= dict.fromkeys(("nll", "ece", "overconfidence"), False)
    return results


def _value(row: object, name: str) -> float:
    value = getattr(row, name)
    return float(getattr(value, "value", value))


def _scores(sample: dict[str, Any]) -> list[float] | None:
    """Return the log-likelihood of each option of a sample; None if it has none."""
    given = sample.get("filtered_resps") or []
    pairs = [
        one[0] if isinstance(one, list) and isinstance(one[0], list | tuple) else one
        for one in given
    ]
    try:
        return [float(pair[0]) for pair in pairs] if len(pairs) > 1 else None
    except (TypeError, ValueError, IndexError):
        return None


def register_filter(name: str = "calibrant") -> None:
    """Register a filter that calibrates the log-likelihoods of the options of a question.

    A task uses it by ``filter_list``: ``- name: calibrated``, ``filter: [{function: calibrant,
    path: model.calibrant}]``. Its calibrator takes logits, such as
    ``AutoCalibrator(scores="logits")``.

    Parameters
    ----------
    name : str, default="calibrant"
        Name of the filter in the configuration of a task.

    Examples
    --------
    >>> from calibrant.hooks import register_filter
    >>> register_filter()  # doctest: +SKIP
    """
    from lm_eval.api.filter import Filter
    from lm_eval.api.registry import register_filter as register

    @register(name)
    class CalibrantFilter(Filter):
        """Log-probabilities of a calibrator in place of log-likelihoods."""

        def __init__(self, path: str | os.PathLike[str]) -> None:
            super().__init__()
            self.calibrator = model_file.load(path)

        def apply(self, resps: Iterable[list[Pair]], docs: list[object]) -> list[list[Pair]]:
            """Calibrate the options of each document, which follow each other."""
            given, result = list(resps), []
            start = 0
            n_options = len(self.calibrator.classes_)
            for end in range(1, len(given) + 1):
                if end < len(given) and docs[end] is docs[start]:
                    continue
                pairs = [one[0] for one in given[start:end]]
                if len(pairs) != n_options:
                    raise ValueError(
                        f"a question has {len(pairs)} options, but the calibrator was fitted to "
                        f"{n_options}; fit one to this task"
                    )
                logs = np.log(self.calibrator.predict_proba([[pair[0] for pair in pairs]])[0])
                result += [[(float(log), pair[1])] for log, pair in zip(logs, pairs, strict=True)]
                start = end
            return result
