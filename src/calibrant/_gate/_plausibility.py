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
    from collections.abc import Callable, Sequence

    import pandas as pd
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

AGREE_BY_CHANCE = 3.0  # standard errors by which labels in a wrong order may agree with scores
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


def refuse_other_order(
    scores: object,
    y: object,
    sample_weight: object,
    probabilities: Callable[[], Floats],
    class_index: Wholes,
) -> None:
    """Refuse labels or weights whose index is that of the scores (or labels) in another order.

    Rows are matched by position, as in scikit-learn, and an index alone proves no mistake: scores
    that a classifier has just computed are often numbered anew. So labels are refused where they
    agree with the scores by the index, and by position not more than chance does.
    """
    place = _places_by_index(scores, y)
    if place is not None:
        by_position, by_index = _agreement(probabilities(), class_index, class_index[place])
        if by_position < AGREE_BY_CHANCE and by_index > SURELY:
            names = errors.names()
            raise errors.LabelError(
                f"{names.y} has the index of {names.scores} in another order. Rows are matched by "
                "position, in which the labels agree with the scores no more than by chance; by "
                "the index they do",
                argument="y",
                remedy=f"pass {names.y}.loc[{names.scores}.index]",
            )
    refuse_other_index(scores, y, sample_weight, "sample_weight")


def refuse_other_index(scores: object, y: object, given: object, argument: str) -> None:
    """Refuse what is given by row if its index is that of the labels or scores in another order.

    No data tell which order was meant. An index 0, 1, 2, ... says nothing: scores that a classifier
    has just computed have it, and so have weights that were computed of the labels.
    """
    has_index = _index_of(y) is not None
    rows, name = (y, errors.names().y) if has_index else (scores, errors.names().scores)
    if _is_count(given) or (_is_count(rows) and not has_index):
        return
    if _places_by_index(rows, given) is not None:
        error = errors.WeightError if argument == "sample_weight" else errors.ShapeError
        raise error(
            f"{argument} has the index of {name} in another order, but rows are matched by "
            "position",
            argument=argument,
            remedy=f"pass {argument}.loc[{name}.index], or its values if they are in order",
        )


def _index_of(rows: object) -> pd.Index | None:
    """Return the index of a Series or data frame of pandas; lists have a method of this name."""
    index = getattr(rows, "index", None)
    return index if hasattr(index, "get_indexer") else None


def _is_count(rows: object) -> bool:
    """Whether the index only counts the rows, as pandas makes one where nobody gives any."""
    index = _index_of(rows)
    return index is not None and bool(np.array_equal(index, np.arange(len(index))))


def _places_by_index(rows: object, others: object) -> Wholes | None:
    """Return where the index of each row stands among the others; None without another order."""
    first, second = _index_of(rows), _index_of(others)
    if first is None or second is None or len(first) != len(second) or first.equals(second):
        return None
    if not (first.is_unique and second.is_unique):
        return None
    place: Wholes = np.asarray(second.get_indexer(first), dtype=np.int64)
    return place if (place >= 0).all() else None


def _agreement(probabilities: Floats, *labels: Wholes) -> list[float]:
    """Return by how many standard errors rows give more to each of some labels than chance gives.

    With a_ij the probability of class j in row i, less the means of row and column over all labels,
    the sum S of a_iy has mean 0 over all orders of the labels, and variance
    sum_ij n_j a_ij^2 / (n - 1), where n_j rows have the label j.
    """
    n_rows, k = probabilities.shape
    count = np.bincount(labels[0], minlength=k)
    centred = probabilities - (probabilities @ count / n_rows)[:, None]
    centred -= centred.mean(axis=0)
    error = math.sqrt(float((centred**2).sum(axis=0) @ count) / max(n_rows - 1, 1)) + 1e-300
    return [float(centred[np.arange(n_rows), label].sum()) / error for label in labels]


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


def warn_of_features(batch: SimplexBatch) -> None:
    """Warn if numbers would be logits of classes that nobody named, and tell nothing of y."""
    has_label = np.bincount(batch.class_index, minlength=batch.n_classes) > 0
    n_labels = int(has_label.sum())
    if n_labels in (1, batch.n_classes) or batch.n_rows < FEWEST_ROWS_IN_DOUBT:
        return
    hits, expected, n_rows, top = count_hits(batch.scores, batch.class_index, batch.weight)
    is_by_chance = hits <= expected + 3.0 * math.sqrt(expected * (1.0 - expected) / n_rows)
    # A classifier seldom predicts a class that never comes, if there are rows to show most classes.
    is_elsewhere = n_rows >= batch.n_classes and np.mean(has_label[top]) < 0.5
    if is_by_chance or is_elsewhere:
        names, labels = errors.names(), errors.number_of(n_labels, "distinct label")
        words = (
            f"{names.scores} has {batch.n_classes} columns for {labels}, and the largest number of "
            "a row tells nothing of its label: these look like features, not logits of classes; "
            f"{names.if_features}. If they are logits, {names.if_untold}"
        )
        notices.warn(errors.ScoresKindWarning(words))


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
        words = "scores='logits', but every row is in [0, 1] and sums to 1: did you mean "
        notices.warn(errors.ScoresKindWarning(words + "scores='probabilities'?"))
