"""Intervals of means over rows and of binned calibration errors, without resampling rows.

A mean has Student's interval on the scale of its logarithm. Its variance is that of the rows, and
half of the one that labels drawn from temperature-scaled predictions would give, where that is
larger: few rows may hold none of the rare mistakes that most of a loss is made of, but the
predictions tell how often these come.

A calibration error is biased upwards, the more the smaller the true error is. So an interval holds
the true errors under which the observed one is neither too large nor too small: the gaps of all
bins are those of a fitted recalibration, times a factor that makes them large or small.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logit, ndtri, stdtrit

from calibrant import errors
from calibrant._gate import SimplexBatch, check_number
from calibrant._result import Estimate
from calibrant._solvers.one_vs_rest import FREE, minimise_logistic
from calibrant._solvers.temperature import solve_temperature
from calibrant.metrics._calibration_error import errors_in, sums_in_bins

if TYPE_CHECKING:
    from calibrant._predictions import EventRows, Predictions
    from calibrant._types import Array, Floats

    Numbers = float | Floats
    from calibrant.metrics._scores import RowMean

Seed = int | np.random.Generator | np.random.SeedSequence | None
"""Type of ``random_state``, from which random numbers are drawn."""

MOST_ROWS_MODELLED = 20_000
"""Rows up to which the variance of a mean is also computed from the predictions."""

LARGEST_RELATIVE_ERROR = 1.0
"""Standard error of a mean, in units of the mean, above which there is no interval."""

MODEL_SHARE = 0.5
"""Share of the modelled variance in that of a mean, where it is larger than that of the rows."""

LEAST_VARIANCE = 4.0
"""Sum of p (1 - p) over rows, p the confidence, below which a calibration error has no interval: 16
coins tell as much. By the predictions: samples that happen to have more errors are not chosen."""

CLEAR_VARIANCE = 20.0
"""Sum of q (1 - q) over rows, q the share of hits, that is enough where predictions have less."""

PSEUDO_ROWS = 4.0  # rows labelled by the predictions themselves, in the fit of a recalibration
FACTORS = np.append(0.0, np.geomspace(0.02, 8.0, 40))
"""True errors that are tried, in units of the observed one."""


def generator(random_state: Seed) -> np.random.Generator:
    """Return the random numbers that a caller asked for."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise errors.ParameterError(
            f"random_state={errors.in_words(random_state)} cannot seed "
            f"numpy.random.default_rng: {error}",
            argument="random_state",
            value=random_state,
        ) from error


def check_level(confidence_level: object) -> None:
    """Refuse confidence levels outside [0, 1]."""
    check_number("confidence_level", confidence_level, low=0.0, high=1.0)


def model_labels(rows: Predictions) -> Floats | None:
    """Return temperature-scaled predictions, as probabilities of labels; None of many rows."""
    if rows.n_rows > MOST_ROWS_MODELLED or rows.n_rows < 2:
        return None
    batch = SimplexBatch(rows.rows, "probabilities", rows.class_index, rows.weight, rows.classes)
    return solve_temperature(batch).map(rows.rows)


def tell_enough(rows: Predictions) -> bool:
    """Whether these rows tell enough of errors for an interval of the calibration error.

    As the predictions say; or as the labels do, if these have many times the variance that is
    asked for: over-confident predictions may say that there are no errors.
    """
    values, hits, weight = rows.events(None)
    total = float(weight.sum())
    n_equal = total * total / float(weight @ weight)
    share = float(weight[hits].sum()) / total
    said = float(weight @ (values * (1.0 - values))) / total * n_equal
    return said >= LEAST_VARIANCE or share * (1.0 - share) * n_equal >= CLEAR_VARIANCE


def row_sums(terms: Floats, weight: Floats) -> Floats:
    """Return the sums over rows that a mean of terms and its standard error are made of."""
    squares, products = weight * weight, weight * terms
    parts = weight, products, squares, weight * products, products * products
    return np.array([*(part.sum() for part in parts), len(weight)])


def standard_error(
    mean: Numbers,
    weight: Numbers,
    squares: Numbers,
    of_terms: Numbers,
    of_squares: Numbers,
    n_rows: float,
) -> Floats:
    """Return the standard error of a mean, from the sums of w, w^2, w^2 x and w^2 x^2.

    A row is one draw whatever its weight.
    """
    variance = np.maximum(of_squares - 2.0 * mean * of_terms + mean * mean * squares, 0.0)
    error: Floats = np.sqrt(variance * n_rows / max(n_rows - 1.0, 1.0)) / weight
    return error


def student(sums: Floats) -> tuple[float, float, float]:
    """Return a mean of terms, its standard error and the degrees of freedom, from ``row_sums``.

    Rows of unequal weights tell as much as n of equal weight, of which 1 is the least.
    """
    weight, product, squares, of_terms, of_squares, n_rows = sums.tolist()
    mean = product / weight
    error = float(standard_error(mean, weight, squares, of_terms, of_squares, n_rows))
    return mean, error, max(weight * weight / squares - 1.0, 1e-3)


def student_interval(sums: Floats, level: float, low: float, high: float) -> Estimate:
    """Return a mean with Student's interval, inside of [low, high]; one row has none."""
    mean, error, n_free = student(sums)
    if sums[-1] < 2:
        return Estimate(mean)
    if error == 0.0:
        return Estimate(mean, mean, mean)
    reach = float(stdtrit(n_free, 0.5 + 0.5 * level)) * error
    return Estimate(mean, min(max(mean - reach, low), mean), max(min(mean + reach, high), mean))


def mean_and_error(
    statistic: RowMean, sums: Floats, rows: Predictions | None, labels: Floats | None
) -> tuple[float, float, float]:
    """Return a mean, its standard error, and how many rows of equal weight tell as much.

    ``labels`` are probabilities of the labels of the rows, if these are in memory.
    """
    weight, product, squares, of_terms, of_squares, n = sums.tolist()
    mean, n_equal = product / weight, weight * weight / squares
    error = float(standard_error(mean, weight, squares, of_terms, of_squares, n))
    if rows is not None and labels is not None:
        table = statistic.table(rows)
        expected = np.einsum("ij,ij->i", labels, table)
        spread = np.einsum("ij,ij->i", labels, table * table) - expected**2
        middle = float(rows.weight @ expected) / weight
        terms = np.maximum(spread, 0.0) + (expected - middle) ** 2
        modelled = float(rows.weight * rows.weight @ terms) * n / max(n - 1.0, 1.0) / weight**2
        square = error**2
        error = math.sqrt(max(square, MODEL_SHARE * modelled + (1.0 - MODEL_SHARE) * square))
    return mean, error, n_equal


def log_interval(
    mean: float, error: float, n_equal: float, level: float, largest: float
) -> Estimate:
    """Return Student's interval on the scale of the logarithm; none if the error is too large."""
    nothing = Estimate(mean)
    if not 0.0 < mean < math.inf or n_equal < 2.0:
        return nothing
    relative = error / mean
    if not relative <= LARGEST_RELATIVE_ERROR:
        return nothing
    reach = float(stdtrit(n_equal - 1.0, 0.5 + 0.5 * level)) * relative
    return Estimate(mean, mean * math.exp(-reach), min(mean * math.exp(min(reach, 700.0)), largest))


def share_interval(share: float, n_rows: float, level: float) -> Estimate:
    """Return a share of rows with Wilson's interval."""
    reach = float(ndtri(0.5 + 0.5 * level)) ** 2 / n_rows
    if not math.isfinite(reach):
        return Estimate(share, 0.0, 1.0)
    middle = (share + reach / 2.0) / (1.0 + reach)
    half = math.sqrt(share * (1.0 - share) * reach + reach**2 / 4.0) / (1.0 + reach)
    return Estimate(share, max(middle - half, 0.0), min(middle + half, 1.0))


def recalibrate(events: EventRows) -> Floats:
    """Return the probabilities of logit(q) = a + b logit(p), shrunk to p by a few rows."""
    values, hits, weight = events
    x = logit(np.clip(values, 1e-6, 1.0 - 1e-6))
    pseudo = PSEUDO_ROWS / len(x)
    positive, negative = hits + pseudo * expit(x), ~hits + pseudo * expit(-x)
    (b, a), _ = minimise_logistic(x[None], weight * positive, weight * negative, FREE)
    result: Floats = expit(a + b * x)
    return result


def error_interval(
    events: EventRows,
    bins: Array,
    n_bins: int,
    *,
    level: float,
    n_resamples: int,
    random_state: Seed,
) -> Estimate:
    """Return a calibration error in bins, and the true errors that go with it.

    The gap of bin b, the weight of its hits less that of its predictions, has the mean s g_b if the
    true gaps are those of the fitted recalibration times s, and the variance of the labels and of
    the rows. An error t = sum_b |s g_b| / w is in the interval if the observed one is between the
    quantiles of those drawn for s.
    """
    values, _, weight = events
    total, mass = float(weight.sum()), weight * weight
    n = total * total / float(mass.sum())
    observed = float(errors_in(sums_in_bins(events, bins, n_bins)))
    change = recalibrate(events) - values
    size = float(np.abs(np.bincount(bins, weight * change, n_bins)).sum()) / total
    if size < 1e-9:  # nothing tells where the gaps are: everywhere alike
        change, size = np.ones_like(values), 1.0
    noise = generator(random_state).standard_normal((n_resamples, n_bins))
    tried = FACTORS * max(observed, 1e-3)
    drawn = np.empty((len(tried), n_resamples))
    variance = None
    for i, error in enumerate(tried):
        gaps = np.bincount(bins, weight * (error / size) * change, n_bins)
        if variance is None or len(values) <= MOST_ROWS_MODELLED:
            # Labels have the probability that the error implies: the larger it is, the more so.
            q = np.clip(values + error / size * change, 0.0, 1.0)
            terms = mass * (q * (1.0 - q) + (q - values) ** 2)
            variance = np.bincount(bins, terms, n_bins) - gaps**2 / n
            variance = np.maximum(variance, 0.0) * n / max(n - 2.0, 1.0)
        drawn[i] = np.abs(gaps + np.sqrt(variance) * noise).sum(axis=1) / total
    ends = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
    lows, highs = (
        np.maximum.accumulate(quantiles) for quantiles in np.quantile(drawn, ends, axis=1)
    )
    low = float(np.interp(observed, highs, tried)) if observed > highs[0] else 0.0
    high = float(np.interp(observed, lows, tried)) if observed > lows[0] else 0.0
    if observed > np.quantile(drawn[0], level):  # one-sided, as there is nothing below zero
        low = max(low, float(tried[1]))
    return Estimate(observed, min(low, 1.0), min(max(high, low), 1.0))
