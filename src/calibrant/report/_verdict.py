"""The verdict of a comparison, in plain words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from calibrant._result import doc, result
from calibrant._text import SIGNIFICANT, class_words, describe_shares, p_words, percent
from calibrant._trial import UNCALIBRATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibrant.report._results import Difference, MethodResult

BASELINES = {"ts": "temperature scaling", "platt-ovr": "Platt scaling"}
"""Simple methods that others are compared with, by short name."""

DEFAULT = "auto"
"""The method that is recommended unless another is clearly better."""

FEW_ROWS = 100
MOST_LISTED = 8
"""Methods that a table shows without folding any away."""

LISTED = ("na-fir", "scir", "auto", "grouped")
"""Methods that a long list shows first, beside the chosen one and those that it is held against."""

NOTICEABLE = 0.005
"""Half a point of over-confidence or less is called none."""

NOTICEABLE_GAIN = 0.005
"""Part of the NLL of the default by which another method must be better to replace it."""

NAMED_GAIN = 5e-5
"""Differences in NLL below this are zero as they are printed."""

LITTLE = "little or nothing"
"""Less than 15 % of an error."""


@result()
class Verdict:
    """Verdict of a comparison: how calibrated the predictions are, and which method to use.

    ``AutoCalibrator`` is the default where it was compared. Another method is chosen only if its
    NLL is lower by at least 0.5 % and the difference is significant after a correction for the
    number of methods compared. Without ``AutoCalibrator`` the method to beat is temperature
    scaling, or Platt scaling of two classes.
    """

    chosen: str = doc("Short name of the method to use; 'uncalibrated' if there is none.")
    applied: str = doc(
        "Method whose use is explained: the chosen one, the default or the baseline."
    )
    in_view: tuple[str, ...] = doc("Methods with diagrams: 'uncalibrated' and at most two others.")
    listed: tuple[str, ...] = doc("Methods that a long table shows first.")
    headline: str = doc("The finding in a sentence.")
    findings: tuple[str, ...] = doc("Evidence for the headline, a sentence each.")
    cautions: tuple[str, ...] = doc("Reasons to doubt the verdict.")


def baseline_of(n_classes: int) -> str:
    """Return the baseline: two classes have a share to be corrected, which TS cannot change."""
    return "platt-ovr" if n_classes == 2 else "ts"


def reach_verdict(
    results: Sequence[MethodResult],
    warnings: Sequence[str],
    n_test: int,
    n_resamples: int,
    confidence_level: float,
) -> Verdict:
    """Decide how calibrated the predictions are, and which method to use."""
    by_name = {result.method: result for result in results}
    before, auto = by_name[UNCALIBRATED], by_name.get(DEFAULT)
    baseline = by_name.get(baseline_of(before.evaluation.n_classes))
    # The lowest NLL; of those that differ in last digits only, the first.
    best = min(results, key=lambda r: round(r.evaluation.negative_log_likelihood.value, 9))
    chosen = _choose(before, baseline, auto, best)
    effect = [] if baseline is None else [_effect_of(before, baseline)]
    lead = _lead(len(results), confidence_level, baseline or before, best, auto)
    cautions = list(dict.fromkeys([*warnings, *before.warnings, *chosen.warnings]))
    if n_test < FEW_ROWS:
        cautions.append(f"Only {n_test} rows to judge on: hardly any difference is significant.")
    if len(results) > 2:
        cautions.append(
            "The method was chosen on the same test part on which it was judged, so its numbers "
            "are slightly too good."
        )
    if n_resamples == 0:
        cautions.append(
            "Nothing was resampled: there are no intervals, and differences may be noise."
        )
    # What a reader looks for first, beside the predictions as they came.
    reference = baseline or before
    first = dict.fromkeys([chosen.method, DEFAULT, reference.method, best.method, *by_name])
    others = [method for method in first if method in by_name and method != UNCALIBRATED]
    listed = tuple(by_name)
    if len(listed) > MOST_LISTED:
        wanted = {UNCALIBRATED, chosen.method, best.method, *BASELINES, *LISTED}
        listed = tuple(method for method in listed if method in wanted)
    return Verdict(
        chosen=chosen.method,
        applied=others[0] if others else UNCALIBRATED,
        in_view=(UNCALIBRATED, *others[:2]),
        listed=listed,
        headline=_headline(before, baseline, chosen),
        findings=(*_describe(before), *effect, lead),
        cautions=tuple(cautions),
    )


def _choose(
    before: MethodResult,
    baseline: MethodResult | None,
    auto: MethodResult | None,
    best: MethodResult,
) -> MethodResult:
    """Return the best method if it is clearly so, else the default, or the baseline without it."""
    if auto is not None:
        if _replaces(best, auto):
            return best
        gain = _clear_value(before.beside_auto)
        return auto if gain > 0 or (_is_off(before) and gain == 0) else before
    reference = baseline or before
    if best.method != reference.method and _lead_of(best) > 0:
        return best
    if baseline is None or not (_is_off(before) or _lead_of(before) < 0):
        return before
    return baseline


def _is_off(result: MethodResult) -> bool:
    """Whether one of the tests finds an error, corrected for how many there are."""
    tests = [*result.p_values.values(), float(result.shares.p_holm.min())]
    p_values = [p_value for p_value in tests if not math.isnan(p_value)]
    return min(p_values) * len(p_values) < SIGNIFICANT


def _lead_of(result: MethodResult) -> float:
    """Return the NLL of the baseline minus that of a method; 0 where that may be chance."""
    return -_clear_value(result.difference)


def _clear_value(gap: Difference | None) -> float:
    """Return a difference in NLL; 0 where that may be chance, and where there is none."""
    is_clear = gap is not None and (math.isnan(gap.p_holm) or gap.p_holm < SIGNIFICANT)
    return gap.value if gap is not None and is_clear else 0.0


def _replaces(best: MethodResult, auto: MethodResult) -> bool:
    """Whether the lead over the default is more than chance and large enough to matter."""
    nll = auto.evaluation.negative_log_likelihood.value
    return -_clear_value(best.beside_auto) > NOTICEABLE_GAIN * nll


def _direction(result: MethodResult) -> str:
    """Say in what way the predictions are off; of two classes, the positive one comes first."""
    shares, off = result.shares, describe_shares(result.shares) if _is_off(result) else ""
    binary = result.evaluation.binary
    findings = binary.findings if binary is not None and _is_off(result) else ()
    if binary is not None and "reversed" in findings:
        return f"The predictions are reversed (AUC {binary.auc.value:.3f})"
    stretch = next((finding for finding in findings if finding.startswith("too ")), "")
    if binary is not None and stretch:
        stretch = f"{stretch} (slope {binary.slope.value:.2f})"
    if off and binary is not None:
        direction = "over" if shares.predicted[1] > shares.observed[1] else "under"
        name, said, seen = class_words(shares, 1)
        words = (
            f"Class {name} is {direction}-predicted: the predictions say {said} where {seen} happen"
        )
        return f"{words}, and they are {stretch}" if stretch else words
    gap = result.mean_confidence - result.accuracy
    if _is_biased(result):
        direction = "over-confident" if gap > 0 else "under-confident"
        words = f"The predictions are {direction} by {100 * abs(gap):.1f} points"
        return f"{words} and {stretch}" if stretch else words
    if stretch:
        return f"The predictions are {stretch}"
    words = "The predictions are about as sure as they should be on average"
    return f"{words}, but not of every class ({off})" if off else words


def _chance(result: MethodResult) -> str:
    """Calibration error of a method, and whether it is more than chance."""
    words = f"a {result.headline.title} of {percent(result.error)}"
    p_value = result.p_values[result.headline.id]
    chance = p_words(p_value)
    if not chance:
        return words
    size = "more" if p_value < SIGNIFICANT else "no more"
    return f"{words}, {size} than chance ({chance})"


def _describe(before: MethodResult) -> list[str]:
    """Say what the predictions claim, and which classes are off; of two, the positive one."""
    words = f"are right {percent(before.accuracy)} of the time and claim "
    words += percent(before.mean_confidence)
    binary, n_classes = before.evaluation.binary, len(before.shares.classes)
    if binary is not None:
        name, said, seen = class_words(before.shares, 1)
        words = f"say {said} for class {name} on average, and {seen} happen"
    state = f"Before calibration the predictions {words}: {_chance(before)}."
    if binary is not None:
        return [state, *(binary.describe() if _is_off(before) else [])]
    off = describe_shares(before.shares)
    if not off:
        return [state, "No class is predicted more or less often than it comes, beyond chance."]
    return [state, f"{off[0].upper()}{off[1:]}; corrected for {n_classes} classes."]


def _removed(before: MethodResult, after: MethodResult) -> str:
    share = 1.0 - after.error / before.error if before.error > 0 else 0.0
    for least, words in ((0.9, "nearly all"), (0.5, "most"), (0.15, "some")):
        if share >= least:
            return words
    return LITTLE


def _effect_of(before: MethodResult, baseline: MethodResult) -> str:
    words = (
        f"{_name(baseline)} removes {_removed(before, baseline)} of the error and leaves "
        f"{_chance(baseline)}"
    )
    lead = _lead_of(before)
    if lead:
        change = f"the NLL falls by {-lead:.4f}" if lead < 0 else f"but the NLL rises by {lead:.4f}"
        words += f"; {change} to {_nll(baseline)}"
    return words[0].upper() + words[1:] + "."


def _name(result: MethodResult) -> str:
    """Return a method as sentences name it."""
    return (
        "no calibration"
        if result.calibrator is None
        else BASELINES.get(result.method, result.method)
    )


def _nll(result: MethodResult) -> str:
    return f"{result.evaluation.negative_log_likelihood.value:.4f}"


def _lead(
    n_methods: int,
    confidence_level: float,
    reference: MethodResult,
    best: MethodResult,
    auto: MethodResult | None,
) -> str:
    """Say how far the method of the lowest NLL is ahead of the reference and of the default."""
    name, gap = _name(reference), best.difference
    if best.method == reference.method or gap is None:
        words = f"None of {n_methods} methods has a lower NLL than {name}, {_nll(reference)}."
    else:
        words = f"{best.method} has the lowest NLL of {n_methods} methods, {_nll(best)}: "
        words += f"better than {name} by {-gap.value:.4f}"
        if math.isnan(gap.low):
            words += "."
        else:
            words += f" ({100 * confidence_level:g} % interval {-gap.high:.4f} to {-gap.low:.4f}, "
            words += f"{p_words(gap.p_value)}; {p_words(gap.p_holm)} corrected for "
            words += f"{n_methods - 1} comparisons). "
            words += "" if _lead_of(best) > 0 else "That may be chance. "
            words += f"It has {_chance(best)}."
    behind = best.beside_auto
    if auto is None or behind is None or behind.value > -NAMED_GAIN:  # auto is as good
        return words
    words += f" auto, the default, is behind it by {-behind.value:.4f}"
    if _clear_value(behind) == 0.0:
        return f"{words}, which may be chance."
    return f"{words}." if _replaces(best, auto) else f"{words}, too little to matter."


def _headline(before: MethodResult, baseline: MethodResult | None, chosen: MethodResult) -> str:
    words = _direction(before)
    if chosen.method == UNCALIBRATED:
        if _is_off(before):
            return f"{words}; no method that was compared lowers the NLL by more than chance."
        link = ", which may be chance: they" if _is_biased(before) else ", and"
        return f"{words}{link} need no calibration that would show in this test."
    is_named = _is_biased(before) or (_is_off(before) and describe_shares(before.shares))
    it = "it" if is_named else "their error"
    if baseline is None or chosen is baseline or _lead_of(chosen) <= 0.0:
        subject = _name(chosen)
        subject += f" ({chosen.method})" if subject != chosen.method else ""
        return f"{words}; {subject} removes {_removed(before, chosen)} of {it}."
    gap, removed = chosen.difference, _removed(before, baseline)
    lead = "but {} is better" if removed == LITTLE else "and {} is better still"
    lead = lead.format(chosen.method)
    if gap is not None:
        chance = p_words(gap.p_holm)
        lead += f" by {-gap.value:.4f} in NLL" + (f", {chance}" if chance else "")
    return f"{words}; {_name(baseline)} removes {removed} of {it}, {lead}."


def _is_biased(result: MethodResult) -> bool:
    return abs(result.mean_confidence - result.accuracy) > NOTICEABLE
