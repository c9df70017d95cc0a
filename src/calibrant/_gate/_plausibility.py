"""Scores that are no error in any row, but hardly meant: reversed, permuted, hard, of another kind.

Each function returns a warning with its remedy, or None. Honest data are seldom suspected: where a
rule is a test, chance alone passes it in at most ``FALSE_ALARMS`` of all calibration sets.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from calibrant import _notices as notices
from calibrant import errors
from calibrant._gate._columns import CLIP_TOLERANCE, SUM_TOLERANCE
from calibrant._kernels import rows as row_kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from calibrant._gate._simplex import SimplexBatch
    from calibrant._types import Floats, Labels, Wholes

FEWEST_ROWS_IN_DOUBT = 20  # of fewer rows nothing is suspected that chance may have done
FALSE_ALARMS = 1e-4
"""Honest calibration sets, of all, in which scores may seem reversed by chance; a bound."""

BELOW_CHANCE = 1e-6
"""How improbable so few hits must be before columns are suspected to be permuted."""

MOST_GAIN_BY_ORDER = 0.2  # gain in accuracy by another order of columns above which that is told
MOST_CLASSES_MATCHED = 100
FEWEST_ROWS_OF_A_CLASS = 20

MOST_CLASSES_CROSSED = 1024
"""Most classes of which rows are counted by label and prediction: 16 MiB."""

MOST_ROWS_RANKED = 100_000  # rows of two classes, more than enough to see that scores are reversed
SURELY, MOST_TIED = 4.5, 0.1
"""Standard errors that no chance explains, and the share of equal scores that ranks bear."""

FIRST_ROWS = 256  # rows that mostly show that scores are no labels
FAR = 10.0  # widths of the range of the fit, beyond which even a single row is on another scale
FEWEST_ROWS_OUTSIDE = 10


def margins(scores: Floats) -> Floats:
    """Return how far the last class is above the first, in units of the scores."""
    with np.errstate(over="ignore", invalid="ignore"):
        result: Floats = scores[:, -1] - scores[:, 0]
    return result


def count_hits(
    scores: Floats, class_index: Wholes, weight: Floats
) -> tuple[float, float, float, Wholes]:
    """Return the share of rows whose top class is their label, and what chance would give.

    Also of how many rows of equal weight that is, and the top column of each row.
    """
    top = np.empty(len(scores), dtype=np.intp)
    row_kernels.first_top_columns(scores, top)  # argmax is slow on short rows
    share = weight / weight.sum()
    of_top, of_label = (
        np.bincount(index, share, minlength=scores.shape[1]) for index in (top, class_index)
    )
    hits = float(share[top == class_index].sum())
    return hits, float(of_top @ of_label), 1.0 / float(share @ share), top


def find_wrong_columns(
    scores: Floats, class_index: Wholes, weight: Floats, classes: Labels
) -> Warning | None:
    """Return a warning if scores of two classes are reversed, or columns of more are permuted."""
    if len(classes) == 2:
        return _find_reversal(margins(scores), class_index, weight, classes)
    hits, expected, n_rows, top = count_hits(scores, class_index, weight)
    k = len(classes)
    if k <= MOST_CLASSES_CROSSED:
        cells = class_index * k + top
        crossed = np.bincount(cells, weight, minlength=k * k).reshape(k, k)
        counts = np.bincount(class_index, minlength=k) * (n_rows / len(scores))  # of equal weight
        mismatch = find_mismatch(crossed, counts, classes)
        if mismatch is not None:
            return mismatch
    # Of n rows, the chance of h hits or fewer where H are expected is below exp(-(H - h)^2 / 2H).
    evidence = n_rows * max(expected - hits, 0.0) ** 2 / (2.0 * expected + 1e-300)
    if evidence <= -math.log(BELOW_CHANCE):
        return None
    return errors.ColumnMismatchWarning(
        f"accuracy {hits:.2f} is below chance ({expected:.2f}): do the columns belong to the "
        f"classes {errors.some_in_words(classes)} in this order?"
    )


def _find_reversal(
    margin: Floats, class_index: Wholes, weight: Floats, classes: Labels
) -> Warning | None:
    """Return a warning if rows of the second class have the lower scores, by more than chance.

    The AUC is a mean over pairs of rows. If it is 1/2 or more in truth, that of n and m rows is
    below 1/2 - t with a probability of at most exp(-2 min(n, m) t^2): Hoeffding's inequality, which
    holds with any ties. Where few scores are equal, ranks are as good as uniform, and the variance
    (n + m + 1) / (12 n m) of the rank test tells it of fewer rows.
    """
    if len(margin) > MOST_ROWS_RANKED:  # to sort all of them would take longer than most fits
        some = slice(None, None, len(margin) // MOST_ROWS_RANKED)
        margin, class_index, weight = margin[some], class_index[some], weight[some]
    own = np.where(class_index == 1, weight, 0.0)
    other = weight - own
    if not own.any() or not other.any():
        return None
    own, other = own / own.sum(), other / other.sum()
    order = np.argsort(margin)
    starts = np.flatnonzero(np.append(True, margin[order][1:] != margin[order][:-1]))
    tied_own, tied_other = (np.add.reduceat(one[order], starts) for one in (own, other))
    auc = float(tied_own @ (np.cumsum(tied_other) - 0.5 * tied_other))
    below = 0.5 - auc
    n, m = 1.0 / float(own @ own), 1.0 / float(other @ other)  # as many of equal weight
    has_ties = float((tied_own + tied_other).max()) > 2.0 * MOST_TIED
    is_by_chance = 2.0 * min(n, m) * below**2 <= -math.log(FALSE_ALARMS)
    if not has_ties:
        is_by_chance &= below <= SURELY * math.sqrt((n + m + 1.0) / (12.0 * n * m))
    if below <= 0.0 or is_by_chance:
        return None
    a, b = (errors.in_words(label) for label in classes)
    return errors.ColumnMismatchWarning(
        f"the scores seem to be reversed: the AUC of class {b} is {auc:.2f}, below 0.5 by more "
        f"than chance, so {b} is less frequent where its score is higher. If the scores are those "
        f"of {a}, pass those of {b}: 1 - p of probabilities, -z of margins, or the two columns in "
        f"the order {a}, {b}"
    )


def find_mismatch(
    weights: NDArray[np.floating | np.integer],
    counts: NDArray[np.floating | np.integer],
    classes: Labels,
) -> Warning | None:
    """Return a warning if the frequent classes fit other columns far better than their own."""
    frequent = np.argsort(-counts, kind="stable")[:MOST_CLASSES_MATCHED]
    frequent = frequent[counts[frequent] >= FEWEST_ROWS_OF_A_CLASS]
    if len(frequent) < 2:
        return None
    weight = float(weights[frequent].sum())
    confusion = weights[np.ix_(frequent, frequent)]
    now = float(np.trace(confusion)) / weight
    least = MOST_GAIN_BY_ORDER + 2.0 / math.sqrt(counts[frequent].sum())
    if float(confusion.max(axis=1).sum()) / weight - now <= least:  # no order can gain more
        return None
    from scipy.optimize import linear_sum_assignment  # slow to import, and seldom needed

    label, column = linear_sum_assignment(confusion, maximize=True)
    best = float(confusion[label, column].sum()) / weight
    if best - now <= least:
        return None
    a = int(np.flatnonzero(label != column)[0])
    is_now, should_be = (classes[frequent[j]] for j in (column[a], label[a]))
    return errors.ColumnMismatchWarning(
        f"the labels fit another order of the columns far better: the accuracy is {now:.2f}, but "
        f"{best:.2f} if, for instance, the column of {errors.in_words(is_now)} belongs to "
        f"{errors.in_words(should_be)}; check the order of the columns"
    )


def find_wrong_kind(scores: Floats, kind: str) -> Warning | None:
    """Return a warning if scores are predicted labels, or margins are probabilities."""
    if len(scores) < FEWEST_ROWS_IN_DOUBT:
        return None
    if kind == "probabilities":
        if all(np.isin(rows, (0.0, 1.0)).all() for rows in (scores[:FIRST_ROWS], scores)):
            return errors.ScoresKindWarning(
                "every score is 0 or 1: these are predicted labels, for which calibration knows "
                "nothing but how often they are right; pass predict_proba(X) of the classifier"
            )
    elif scores.shape[1] == 2:
        margin = margins(scores)
        if len(np.unique(margin[:FIRST_ROWS])) <= 2 and len(np.unique(margin)) == 2:
            low, high = float(margin.min()), float(margin.max())
            return errors.ScoresKindWarning(
                f"the margins are {low:.6g} and {high:.6g} alone: these are predicted labels, for "
                "which calibration knows nothing but how often they are right; pass "
                "decision_function(X) or predict_proba(X) of the classifier"
            )
        if _are_unit(margin[:FIRST_ROWS]) and _are_unit(margin):
            return errors.ScoresKindWarning(
                "every margin is in [0, 1], as probabilities are: did you mean scores='positive'?"
            )
    return None


def _are_unit(margin: Floats) -> bool:
    """Whether margins that vary are in [0, 1]; those of log-probabilities are a little rounded."""
    low, high = float(margin.min()), float(margin.max())
    return low >= -1e-9 and high <= 1.0 + 1e-9 and high > low


def score_range(scores: Floats, kind: str) -> tuple[float, float] | None:
    """Return the range of the margins of two classes, or of the last and the first logit.

    None of a few rows, outside of whose range others may lie by chance.
    """
    signal = _finite_margins(scores, kind)
    if signal is None or len(signal) < FEWEST_ROWS_IN_DOUBT:
        return None
    return float(signal.min()), float(signal.max())


def _finite_margins(scores: Floats, kind: str) -> Floats | None:
    """Return one finite number for each row, which another scale or class would change.

    That of logits does not change with a number that is added to all of a row.
    """
    if scores.shape[1] > 2 and kind == "probabilities":
        return None
    signal = margins(scores)
    is_finite = np.isfinite(signal)
    return signal if is_finite.all() else signal[is_finite]


def find_other_range(scores: Floats, kind: str, known: Sequence[float] | None) -> Warning | None:
    """Return a warning if most rows are outside of the range of the fit, which is ``known``.

    Rows like those of the fit are outside of its n with a probability of 2 / (n + 1), so most of
    ten of them hardly ever are. Fewer rows have to be far outside.
    """
    signal = None if known is None or len(known) != 2 else _finite_margins(scores, kind)
    if signal is None or known is None or len(signal) == 0 or not known[0] < known[1]:
        return None
    low, high = known
    room = 1e-6 * (high - low) if len(signal) >= FEWEST_ROWS_OUTSIDE else FAR * (high - low)
    n_outside = int(((signal < low - room) | (signal > high + room)).sum())
    if 2 * n_outside > len(signal):
        what = "margins" if scores.shape[1] == 2 else "differences of the last and the first logit"
        now = f"{signal.min():.4g} to {signal.max():.4g}"
        if kind == "probabilities":  # whose margins are 2 p - 1
            what = "probabilities of the second class"
            now = f"{(signal.min() + 1) / 2:.4g} to {(signal.max() + 1) / 2:.4g}"
            low, high = (low + 1) / 2, (high + 1) / 2
        return errors.ScoresKindWarning(
            f"the calibrator was fitted to {what} from {low:.4g} to {high:.4g}, but those of "
            f"{n_outside} of {errors.number_of(len(signal), 'row')} are outside of it ({now}): are "
            "they of the same kind, scale and class?"
        )
    is_margin = kind == "logits" and scores.shape[1] == 2 and len(signal) >= FEWEST_ROWS_IN_DOUBT
    if is_margin and (low < -1.0 or high > 2.0) and _are_unit(signal):
        return errors.ScoresKindWarning(
            f"every margin is in [0, 1], as probabilities are, but the calibrator was fitted to "
            f"margins from {low:.4g} to {high:.4g}: pass margins, or fit to probabilities"
        )
    return None


def find_features(batch: SimplexBatch) -> str | None:
    """Say so if numbers would be logits of classes that nobody named, and tell nothing of y."""
    has_label = np.bincount(batch.class_index, minlength=batch.n_classes) > 0
    n_labels = int(has_label.sum())
    if n_labels in (1, batch.n_classes) or batch.n_rows < FEWEST_ROWS_IN_DOUBT:
        return None
    hits, expected, n_rows, top = count_hits(batch.scores, batch.class_index, batch.weight)
    is_by_chance = hits <= expected + 3.0 * math.sqrt(expected * (1.0 - expected) / n_rows)
    # A classifier seldom predicts a class that never comes, if there are rows to show most classes.
    is_elsewhere = n_rows >= batch.n_classes and np.mean(has_label[top]) < 0.5
    if not is_by_chance and not is_elsewhere:
        return None
    names = errors.names()
    return (
        f"{names.scores} has {batch.n_classes} columns for "
        f"{errors.number_of(n_labels, 'distinct label')}, and the largest number of a row tells "
        f"nothing of its label: these look like features, not logits of classes; "
        f"{names.if_features}. If they are logits, {names.if_untold}"
    )


def warn_of_batch(batch: SimplexBatch) -> None:
    """Warn of suspicious input: one class only, wrong columns, logits that are probabilities."""
    index = batch.class_index
    if np.all(index == index[0]):
        only = errors.in_words(batch.classes[index[0]])
        notices.warn(errors.SingleClassWarning(f"every label is {only}; use rows of all classes"))
    warn_of_kind(batch.scores, batch.kind)
    for doubt in (
        find_wrong_kind(batch.scores, batch.kind),
        find_wrong_columns(batch.scores, batch.class_index, batch.weight, batch.classes),
    ):
        if doubt is not None:
            notices.warn(doubt)


def warn_of_kind(scores: Floats, kind: str) -> None:
    """Warn if checked scores that are declared to be logits look like probabilities."""
    if (
        kind == "logits"
        and len(scores)
        and row_kernels.scan_probabilities(scores, CLIP_TOLERANCE, SUM_TOLERANCE)[0]
        == row_kernels.FINE
    ):
        notices.warn(
            errors.ScoresKindWarning(
                "scores='logits', but every row is in [0, 1] and sums to 1: "
                "did you mean scores='probabilities'?"
            )
        )
