"""Measure how often calibration_segments finds a planted segment, and one that is not there.

    OMP_NUM_THREADS=1 python tools/measure_segments.py [N [TABLE ...]]

N draws of each case, 200 by default (in ``level`` and ``extreme`` twice as many). Every case has
ten features: four normal ones, whole numbers (age), amounts of which a tenth is missing, three
columns of categories (4, 8 and 30 values) and one of truth values. Predictions follow three of
them. In a planted segment of 8 % of the rows, ``plan = c and age < 43`` or ``drift < -1.4``, 8
points are added to the chance of an event. It is found if a reported segment has a Jaccard index
of 0.3 with it, at least. Tables are power, level, brief (both with 12 % of events, where errors
stand out least), extreme (the level where all predictions are too extreme, by segments of features
that have nothing to do with the predictions) and time.
"""

import sys
from itertools import product
from time import perf_counter

import numpy as np
import pandas as pd
from scipy.special import expit

from calibrant.metrics import calibration_segments

MIDDLES = {"4 %": -3.6, "7 %": -2.9, "12 %": -2.3}
"""Log-odds in the middle, by the share of events."""

PLANTED = {
    "two conditions": lambda frame: (frame["plan"] == "c") & (frame["age"] < 43),
    "one condition": lambda frame: frame["drift"] < -1.4,
}


def draw(seed, n_rows=5000, middle=-2.3, error=0.08, slope=1.0, where="two conditions"):
    """Return labels, predictions, features and whether rows are in the planted segment."""
    rng = np.random.default_rng(seed)
    normal = rng.normal(size=(n_rows, 4))
    frame = pd.DataFrame(normal, columns=["use", "calls", "noise", "drift"])
    frame["age"] = rng.integers(18, 81, n_rows)
    frame["income"] = np.where(rng.random(n_rows) < 0.1, np.nan, rng.lognormal(10, 0.6, n_rows))
    frame["plan"] = rng.choice(list("abcd"), n_rows, p=[0.4, 0.3, 0.2, 0.1])
    frame["region"] = [f"region {i}" for i in rng.integers(0, 8, n_rows)]
    frame["is_new"] = rng.random(n_rows) < 0.3
    frame["shop"] = pd.Series(rng.integers(0, 30, n_rows)).map("shop {}".format)
    by_features = 0.6 * normal[:, 0] + 0.5 * normal[:, 1] + 0.4 * (frame["age"] - 49) / 18
    log_odds = middle + by_features.to_numpy() + 0.4 * rng.normal(size=n_rows)
    planted = PLANTED[where](frame).to_numpy()
    p = expit(log_odds)
    event = rng.random(n_rows) < np.minimum(p + error * planted, 1.0)
    said = expit(middle + slope * (log_odds - middle))
    return event, said, frame, planted


def rows_of(segment, frame):
    """Return which rows of a frame are in a segment."""
    held = np.ones(len(frame), dtype=bool)
    for feature, operator, value in segment.conditions:
        column = frame[feature]
        held &= {
            "=": lambda column=column, value=value: column == value,
            "<": lambda column=column, value=value: column < value,
            ">=": lambda column=column, value=value: column >= value,
            "is missing": column.isna,
        }[operator]().to_numpy()
    return held


def is_found(result, frame, planted):
    """Whether a reported segment overlaps the planted one."""
    found = [rows_of(segment, frame) for segment in result.segments]
    return any((own & planted).sum() >= 0.3 * (own | planted).sum() for own in found)


def brief(n_draws):
    """Print power and level with 12 % of events, N draws of each."""
    name = "12 %"
    power(n_draws, {name: MIDDLES[name]})
    level(n_draws // 2, [(5000, name, MIDDLES[name])])


def power(n_draws, middles=MIDDLES):
    """Print how often the planted segment is found, and the largest error more than chance."""
    print("| planted | events | error, sd | found | more segments | error, p <= 0.05 |")
    print("|---|---|---|---|---|---|")
    for where, (name, middle) in product(PLANTED, middles.items()):
        sizes, found, more, errors = [], [], [], []
        for seed in range(n_draws):
            y, p, frame, planted = draw(seed, middle=middle, where=where)
            result = calibration_segments(y, p, frame)
            sd = np.sqrt((p * (1 - p))[planted].sum())
            sizes.append(0.08 * planted.sum() / sd)
            found.append(is_found(result, frame, planted))
            more.append(max(len(result.segments) - 1, 0))
            errors.append(result.error_p_value <= 0.05)
        numbers = f"{np.mean(sizes):.1f} | {np.mean(found):.1%} | {np.mean(more):.2f}"
        print(f"| {where} | {name} | {numbers} | {np.mean(errors):.1%} |", flush=True)


def level(
    n_draws,
    cases=((5000, "12 %", -2.3), (5000, "50 %", 0.0), (300, "2 %", -4.4), (300, "12 %", -2.3)),
):
    """Print how often any segment is reported of predictions that are right."""
    print("| rows | events | any segment | error, p <= 0.05 |")
    print("|---|---|---|---|")
    for n_rows, name, middle in cases:
        found, errors = [], []
        for seed in range(2 * n_draws):
            y, p, frame, _ = draw(10_000 + seed, n_rows, middle, error=0.0)
            result = calibration_segments(y, p, frame, classes=[False, True])
            found.append(len(result.segments) > 0)
            errors.append(result.error_p_value <= 0.05)
        numbers = f"{np.mean(found):.1%} | {np.mean(errors):.1%}"
        print(f"| {n_rows} | {name} | {numbers} |", flush=True)


def extreme(n_draws):
    """Print how often a right segment is reported where predictions are too extreme by 1.5."""
    found = []
    for seed in range(2 * n_draws):
        y, p, frame, _ = draw(20_000 + seed, middle=0.0, error=0.0, slope=1.5)
        own = frame[["noise", "drift", "income", "plan", "region", "is_new", "shop"]]
        found.append(len(calibration_segments(y, p, own).segments) > 0)
    print(f"slope of 1.5, features without effect: any segment {np.mean(found):.1%}", flush=True)


def time(_):
    """Print the seconds of a call."""
    for n_rows in (5000, 50_000, 500_000):
        y, p, frame, _ = draw(0, n_rows)
        started = perf_counter()
        calibration_segments(y, p, frame)
        print(f"{n_rows} rows: {perf_counter() - started:.2f} s", flush=True)


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for table in sys.argv[2:] or ["power", "level", "extreme", "time"]:
        {"brief": brief, "power": power, "level": level, "extreme": extreme, "time": time}[table](
            number
        )
