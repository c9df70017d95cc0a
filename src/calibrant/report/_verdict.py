"""What the numbers say, in plain words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from calibrant._trial import UNCALIBRATED
from calibrant.metrics._result import doc, result
from calibrant.plots._style import p_words, percent, shorten
from calibrant.report._tables import BASELINE, distinct_rows

if TYPE_CHECKING:
    from calibrant.metrics._cumulative import ClassShares
    from calibrant.report._results import Comparison, MethodResult

ALPHA = 0.05
MOST_NAMED = 3
"""Classes of each direction that are named."""

FEW_ROWS = 100
MOST_LISTED = 8
"""Methods that a table shows without folding any away."""

LISTED = ("na-fir", "scir", "auto", "grouped")
"""Methods that a long list shows first, beside the chosen one and those that it is held against."""

NOTICEABLE = 0.005
"""Half a point of over-confidence or less is called none."""

LITTLE = "little or nothing"
"""Less than 15 % of an error."""


@result()
class Verdict:
    """Result of :func:`reach_verdict`."""

    chosen: str = doc("Short name of the method to use; 'uncalibrated' if there is none.")
    headline: str = doc("The finding in a sentence.")
    findings: tuple[str, ...] = doc("What it rests on, a sentence each.")
    cautions: tuple[str, ...] = doc("What may make it wrong.")


def reach_verdict(comparison: Comparison) -> Verdict:
    """Decide how calibrated the predictions are, and which method to use.

    Temperature scaling is the method to beat: another one is chosen only if its NLL is lower and
    the difference is significant after a correction for the number of methods compared.

    Parameters
    ----------
    comparison : Comparison
        From :func:`compare`.

    Returns
    -------
    Verdict

    Examples
    --------
    >>> from calibrant.datasets import overconfident_digits
    >>> from calibrant.report import compare, reach_verdict
    >>> scores, y, new_scores, new_y = overconfident_digits()
    >>> verdict = reach_verdict(compare(y, scores, new_y, new_scores, "ts", n_resamples=20))
    >>> print(verdict.headline)
    The predictions are over-confident by 13.0 points; temperature scaling (ts) removes most of
    it.
    """
    before = comparison.result(UNCALIBRATED)
    baseline = comparison.result(BASELINE) if BASELINE in comparison.methods else None
    best = _best(comparison)
    chosen = _choose(before, baseline, best)
    effect = [] if baseline is None else [_effect_of(before, baseline)]
    lead = _lead(comparison, baseline or before, best)
    findings = _state(before), *_of_classes(before), *effect, lead
    cautions = tuple(_cautions(comparison, before, chosen))
    return Verdict(chosen.method, _headline(before, baseline, chosen), findings, cautions)


def applied_method(comparison: Comparison, verdict: Verdict) -> str:
    """Return the method whose use is explained: the chosen one, or temperature scaling."""
    if verdict.chosen != UNCALIBRATED:
        return verdict.chosen
    others = [result.method for result in comparison.results[1:]]
    return BASELINE if BASELINE in others or not others else others[0]


def short_list(comparison: Comparison, verdict: Verdict) -> set[str]:
    """Return the methods to look at first; the others of a long list are for comparison."""
    if len(comparison.results) <= MOST_LISTED:
        return set(comparison.methods)
    return {UNCALIBRATED, verdict.chosen, _best(comparison).method, BASELINE, *LISTED}


def _best(comparison: Comparison) -> MethodResult:
    """Return the row of the lowest NLL: last digits do not tell methods apart that share one."""
    rows = distinct_rows(comparison.results).values()
    return min(rows, key=lambda r: r.evaluation.negative_log_likelihood.value)


def _choose(
    before: MethodResult, baseline: MethodResult | None, best: MethodResult
) -> MethodResult:
    """Return the best method if it is clearly so, else the simplest that does the job."""
    reference = baseline or before
    if best.method != reference.method and _lead_of(best) > 0:
        return best
    if baseline is None or not (_is_off(before) or _lead_of(before) < 0):
        return before
    return baseline


def _is_off(result: MethodResult) -> bool:
    """Whether one of the tests finds an error, corrected for how many there are."""
    tests = [*result.p_values.values(), float(result.shares.p_holm.min())]
    known = [p_value for p_value in tests if not math.isnan(p_value)]
    return min(known) * len(known) < ALPHA


def _lead_of(result: MethodResult) -> float:
    """How much lower its NLL is than the baseline's; 0 where that may be chance."""
    gap = result.difference
    is_clear = gap is not None and (math.isnan(gap.p_holm) or gap.p_holm < ALPHA)
    return -gap.value if gap is not None and is_clear else 0.0


def _direction(result: MethodResult) -> str:
    """Say in what way the predictions are off; of two classes, the positive one comes first."""
    shares, off = result.shares, describe_shares(result.shares) if _is_off(result) else ""
    if off and len(shares.classes) == 2:
        direction = "over" if shares.predicted[1] > shares.observed[1] else "under"
        name, said, seen = _class_words(shares, 1)
        return (
            f"Class {name} is {direction}-predicted: the predictions say {said} where {seen} happen"
        )
    gap = result.confidence.overconfidence
    if _is_biased(result):
        direction = "over-confident" if gap > 0 else "under-confident"
        return f"The predictions are {direction} by {100 * abs(gap):.1f} points"
    words = "The predictions are about as sure as they should be on average"
    return f"{words}, but not of every class ({off})" if off else words


def _chance(result: MethodResult) -> str:
    """Calibration error of a method, and whether it is more than chance."""
    words = f"a {result.headline.title} of {percent(result.error)}"
    chance = p_words(result.curve.p_value)
    if not chance:
        return words
    size = "more" if result.curve.p_value < ALPHA else "no more"
    return f"{words}, {size} than chance ({chance})"


def _state(before: MethodResult) -> str:
    found = before.confidence
    words = f"are right {percent(found.accuracy)} of the time and claim "
    words += percent(found.mean_confidence)
    if len(before.shares.classes) == 2:
        name, said, seen = _class_words(before.shares, 1)
        words = f"say {said} for class {name} on average, and {seen} happen"
    return f"Before calibration the predictions {words}: {_chance(before)}."


def _of_classes(before: MethodResult) -> list[str]:
    """Say which classes are off; of two, the first sentence does."""
    n_classes = len(before.shares.classes)
    if n_classes == 2:
        return []
    off = describe_shares(before.shares)
    if not off:
        return ["No class is predicted more or less often than it comes, beyond chance."]
    return [f"{off[0].upper()}{off[1:]}; corrected for {n_classes} classes."]


def _removed(before: MethodResult, after: MethodResult) -> str:
    share = 1.0 - after.error / before.error if before.error > 0 else 0.0
    for least, words in ((0.9, "nearly all"), (0.5, "most"), (0.15, "some")):
        if share >= least:
            return words
    return LITTLE


def _effect_of(before: MethodResult, baseline: MethodResult) -> str:
    words = (
        f"Temperature scaling removes {_removed(before, baseline)} of the error and leaves "
        f"{_chance(baseline)}"
    )
    lead = _lead_of(before)
    if lead:
        change = f"the NLL falls by {-lead:.4f}" if lead < 0 else f"but the NLL rises by {lead:.4f}"
        words += f"; {change} to {_nll(baseline)}"
    return words + "."


def _nll(result: MethodResult) -> str:
    return f"{result.evaluation.negative_log_likelihood.value:.4f}"


def _lead(comparison: Comparison, reference: MethodResult, best: MethodResult) -> str:
    name = "temperature scaling" if reference.method == BASELINE else "no calibration"
    n_methods, gap = len(comparison.results), best.difference
    if best.method == reference.method or gap is None:
        return f"None of {n_methods} methods has a lower NLL than {name}, {_nll(reference)}."
    words = f"{best.method} has the lowest NLL of {n_methods} methods, {_nll(best)}: "
    words += f"better than {name} by {-gap.value:.4f}"
    if math.isnan(gap.p_value):
        return f"{words}."
    level = 100 * comparison.settings["confidence_level"]
    words += f" ({level:g} % interval {-gap.high:.4f} to {-gap.low:.4f}, {p_words(gap.p_value)}; "
    words += f"{p_words(gap.p_holm)} corrected for {n_methods - 1} comparisons). "
    words += "" if _lead_of(best) > 0 else "That may be chance. "
    return f"{words}It has {_chance(best)}."


def _headline(before: MethodResult, baseline: MethodResult | None, chosen: MethodResult) -> str:
    words = _direction(before)
    if chosen.method == UNCALIBRATED:
        return f"{words}{_left_alone(before)}."
    is_named = _is_biased(before) or (_is_off(before) and describe_shares(before.shares))
    it = "it" if is_named else "their error"
    if baseline is None or chosen.method == BASELINE:
        subject = "temperature scaling (ts)" if chosen.method == BASELINE else chosen.method
        return f"{words}; {subject} removes {_removed(before, chosen)} of {it}."
    gap, removed = chosen.difference, _removed(before, baseline)
    lead = "but {} is better" if removed == LITTLE else "and {} is better still"
    lead = lead.format(chosen.method)
    if gap is not None:
        chance = p_words(gap.p_holm)
        lead += f" by {-gap.value:.4f} in NLL" + (f", {chance}" if chance else "")
    return f"{words}; temperature scaling removes {removed} of {it}, {lead}."


def _is_biased(result: MethodResult) -> bool:
    return abs(result.confidence.overconfidence) > NOTICEABLE


def _left_alone(before: MethodResult) -> str:
    """Why nothing is to be done: nothing is off beyond chance, or nothing that was tried helps."""
    if _is_off(before):
        return "; no method that was compared lowers the NLL by more than chance"
    link = ", which may be chance: they" if _is_biased(before) else ", and"
    return f"{link} need no calibration that would show in this test"


def _cautions(comparison: Comparison, before: MethodResult, chosen: MethodResult) -> list[str]:
    found = list(dict.fromkeys([*comparison.warnings, *before.warnings, *chosen.warnings]))
    n_rows = comparison.settings["n_test"]
    if n_rows < FEW_ROWS:
        found.append(f"Only {n_rows} rows to judge on: hardly anything can be told apart.")
    if len(comparison.results) > 2:
        found.append(
            "The method was chosen on the same test part on which it was judged, so its numbers "
            "are slightly too good."
        )
    if comparison.settings["n_resamples"] == 0:
        found.append("Nothing was resampled: there are no intervals, and differences may be noise.")
    return found


def describe_shares(shares: ClassShares) -> str:
    """Name the classes predicted too often and too seldom, of two the positive one, if any."""
    gap = shares.predicted - shares.observed
    order = [1] if len(gap) == 2 else np.argsort(-np.abs(gap), kind="stable").tolist()
    off = [j for j in order if shares.p_holm[j] < ALPHA]
    words = []
    for direction, sign in (("over", 1), ("under", -1)):
        columns = [j for j in off if sign * gap[j] > 0]
        named = []
        for j in columns[:MOST_NAMED]:
            name, said, seen = _class_words(shares, j)
            chance = p_words(float(shares.p_holm[j]))
            named.append(f"class {name} ({said} predicted, {seen} observed, {chance})")
        more = len(columns) - MOST_NAMED
        if columns:
            text = f"{direction}-predicted: {', '.join(named)}"
            words.append(text + (f" and {more} more" if more > 0 else ""))
    return "; ".join(words)


def _class_words(shares: ClassShares, j: int) -> tuple[str, str, str]:
    """Name of a class, and its predicted and observed shares with digits that tell them apart."""
    said, seen = float(shares.predicted[j]), float(shares.observed[j])
    digits = 1
    while digits < 4 and abs(said - seen) < 10.0 ** (-2 - digits):
        digits += 1
    return shorten(str(shares.classes[j])), percent(said, digits), percent(seen, digits)


def describe_claim(result: MethodResult) -> str:
    """Say what predictions claim and what is so, in the number that they are judged by."""
    if len(result.shares.classes) == 2:
        name, said, seen = _class_words(result.shares, 1)
        return f"Says {said} for class {name} on average, observed {seen}"
    found = result.confidence
    return f"Right {percent(found.accuracy)} of the time, claims {percent(found.mean_confidence)}"
