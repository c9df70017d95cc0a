"""``predict_proba`` as a formula: checks, map, floor."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibrant import __version__, errors
from calibrant import _gate as gate
from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.classifier import CalibratedClassifier
from calibrant.export._formulas import write_fixed_sum, write_lift, write_map, write_softmax

if TYPE_CHECKING:
    from calibrant.export._formulas import Operations, V

FURTHEST_SUM = 0.01 + 1e-6
"""Tolerance of the sum of a row; ``predict_proba`` is stricter with unrounded rows."""

FOR_CLASSIFIERS = (
    "after register_skl2onnx(), skl2onnx.to_onnx converts both; or export "
    "calibrated_classifiers_[i].calibrator"
)


def take_calibrator(calibrator: object, for_classifiers: str = FOR_CLASSIFIERS) -> Calibrator:
    """Return a fitted calibrator as it is now, as another thread may fit it; refuse others."""
    if isinstance(calibrator, CalibratedClassifier):
        raise errors.ExportError(
            f"a CalibratedClassifier contains a classifier, too: {for_classifiers}"
        )
    if not isinstance(calibrator, Calibrator):
        raise errors.ExportError(f"{errors.in_words(calibrator)} is not a calibrator")
    check_is_fitted(calibrator, "classes_")
    return calibrator._take()  # noqa: SLF001


def metadata(calibrator: Calibrator) -> dict[str, str]:
    """Return the metadata of exported graphs."""
    return {
        "calibrant.version": __version__,
        "calibrant.method": calibrator.method or type(calibrator).__name__,
        "calibrant.classes": json.dumps(calibrator.classes_.tolist(), default=str),
    }


def check_input(calibrator: Calibrator, given: str | None) -> str:
    """Return the kind of the scores of a graph; refuse any that the fit does not tell."""
    fitted: str = calibrator._kind  # noqa: SLF001
    if given in (None, fitted):
        return fitted
    gate.check_option("input", given, gate.KINDS)
    if (fitted, given) == ("probabilities", "logits"):
        return "logits"
    raise errors.ExportError(
        f"input={given!r} is not what {type(calibrator).__name__} was fitted to; use "
        f"input={fitted!r}, or fit it with scores={given!r}"
    )


def write_rows(ops: Operations[V], calibrator: Calibrator, scores: V, given: str) -> V:
    """Write down ``predict_proba``; rows that it refuses become NaN."""
    normalize = calibrator.normalize == "rows"
    if gate.is_single(given):
        scores, normalize = _write_two_columns(ops, scores, given), False
        given = gate.two_column_kind(given)
    if given == "logits":
        rows, nan_mask = _check_logits(ops, scores)
    else:
        rows, nan_mask = _check_probabilities(ops, scores, normalize=normalize)
    if given != calibrator.map_.kind:
        rows = write_softmax(ops, rows)
    result = write_map(calibrator.map_, ops, rows)
    floor, sums_to_one = calibrator.min_probability, calibrator.map_.sums_to_one
    return write_lift(ops, result, floor, sums_to_one=sums_to_one) + nan_mask


def _write_two_columns(ops: Operations[V], scores: V, given: str) -> V:
    """Write down ``two_columns``; -|z| keeps the exponential of margins finite."""
    both = scores * ops.fitted("signs", np.array([-1.0, 1.0]))
    if given == "positive":
        return both + ops.fitted("origin", np.array([1.0, 0.0]))
    size = ops.maximum(both, 0.0 - both)
    logs = ops.minimum(both, 0.0) - ops.log(ops.exp(0.0 - size) + 1.0)
    return ops.where((size > gate.LARGEST_LOGIT) & (size < math.inf), math.nan, logs)


def _check_logits(ops: Operations[V], scores: V) -> tuple[V, V]:
    """Write down ``check_scores`` of logits; a sum finds what is no number, a maximum may not."""
    top, largest = ops.row_max(scores), gate.LARGEST_LOGIT
    good = (top >= -largest) & (top <= largest) & (ops.row_sum(scores) <= math.inf)
    return scores, ops.where(good, 0.0, math.nan)


def _check_probabilities(ops: Operations[V], scores: V, *, normalize: bool) -> tuple[V, V]:
    """Write down ``check_scores`` of probabilities, to the bit, or of what is to be normalised.

    Bad rows are divided by infinity, so that no search leaves its table; NaN is added to them.
    """
    rows = ops.maximum(scores, 0.0)
    good = ops.row_min(scores) >= -gate.CLIP_TOLERANCE
    if normalize:
        total = ops.row_sum(rows)
        good = good & (ops.row_sum(scores) < math.inf) & (total > 0.0)
    else:
        total = write_fixed_sum(ops, rows, 2.0**60)
        gap = total - 1.0
        gap = ops.maximum(gap, 0.0 - gap)
        good = good & (ops.row_sum(scores) <= math.inf) & (gap <= FURTHEST_SUM)
        rounding = float(8 * np.finfo(np.float64).eps * math.sqrt(ops.n_classes))
        total = ops.where(gap > rounding, total, 1.0)  # as ``normalise_rows``
    return rows / ops.where(good, total, math.inf), ops.where(good, 0.0, math.nan)
