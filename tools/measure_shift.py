"""How often ``check`` finds another world, and what ``groups=`` holds back: the tables of a page.

    OMP_NUM_THREADS=1 python tools/measure_shift.py DIR [N]     N = 20 shifts of each kind

DIR is the collection of real predictions. In each shift AutoCalibrator is fitted to rows of one
world, and new rows are of another one: drawn with other class shares, with other scores (rows are
kept by how sure they are), of other subjects (language models), of a later time, or of other
clusters of scores. NLL suffers if the fit is worse on half of the new rows than a fit to the other
half of them by over 5 %. Where nothing is shifted, rows are dealt at random.

With ``groups=`` (subjects, clusters, periods) a fit is judged on groups that it has not seen,
beside temperature scaling of the same rows.
"""

import csv
import sys
import warnings
from pathlib import Path

import numpy as np
from scipy.cluster.vq import kmeans2

from calibrant import AutoCalibrator, TemperatureScaling
from calibrant._calibrators.checks import ScoreSums, summarise
from calibrant._gate import check_batch

MOST_ROWS = 6000
FEWEST_ROWS = 300  # of the fit and of the new rows
LEVEL_DRAWS = 25
KINDS = ("class shares", "scores", "subjects", "time", "clusters")


def read(path):
    """Return all rows of a file on the simplex, with labels and other arrays."""
    with np.load(path, allow_pickle=False) as data:
        y = np.concatenate([data["val_labels"], data["test_labels"]]).astype(int)
        name = "probs" if "val_probs" in data else "logits"
        rows = np.concatenate([data[f"{part}_{name}"] for part in ("val", "test")]).astype(float)
    if name == "logits":
        rows = np.exp(rows - rows.max(axis=1, keepdims=True))
    return rows / rows.sum(axis=1, keepdims=True), y


def nll(calibrator, rows, y):
    found = calibrator.predict_proba(rows)
    return -np.mean(np.log(np.maximum(found[np.arange(len(y)), y], 1e-12)))


def clusters_of(rows, rng):
    """Return the cluster of each row, out of eight, by logarithms of its scores."""
    logs = np.log(np.maximum(rows, 1e-6))
    columns = np.argsort(-logs.var(axis=0))[:20]
    return kmeans2(logs[:, columns], 8, minit="++", seed=rng)[1]


def some(mask, rng, most=MOST_ROWS):
    chosen = rng.permutation(np.flatnonzero(mask))
    return chosen[:most]


def by_shares(rows, y, rng):
    """Half of the rows as they are, the others with class shares that a Dirichlet draw tilts."""
    k = rows.shape[1]
    old = rng.random(len(y)) < 0.5
    tilt = rng.dirichlet(np.full(k, 0.5))
    weight = np.where(old, 0.0, tilt[y])
    keep = rng.random(len(y)) < weight / weight.max()
    return old, keep & ~old


def by_scores(rows, y, rng):
    """Half of the rows as they are, the others mostly unsure or mostly sure."""
    old = rng.random(len(y)) < 0.5
    rank = rows.max(axis=1).argsort().argsort() / len(y)
    slope = rng.choice([-1.0, 1.0]) * rng.uniform(1.0, 6.0)
    return old, ~old & (rng.random(len(y)) < 1.0 / (1.0 + np.exp(-slope * (rank - 0.5))))


def by_groups(groups, rng):
    """Half of the groups, and the others."""
    names = rng.permutation(np.unique(groups))
    old = np.isin(groups, names[: max(len(names) // 2, 1)])
    return old, ~old


def by_time(time, rng):
    """A fifth of the rows, and a later fifth."""
    rank = time.argsort(kind="stable").argsort() / len(time)
    begin = rng.uniform(0.0, 0.5)
    later = rng.uniform(begin + 0.2, 0.8)
    return (rank >= begin) & (rank < begin + 0.2), (rank >= later) & (rank < later + 0.2)


def time_files(directory):
    """Yield rows, labels and times of the files that have them."""
    with np.load(directory / "creditcards_nannyml.npz", allow_pickle=False) as data:
        name = "probs" if "val_probs" in data else "logits"
        rows = np.concatenate([data[f"{part}_{name}"] for part in ("val", "test")]).astype(float)
        y = np.concatenate([data["val_labels"], data["test_labels"]]).astype(int)
        yield "creditcards", rows / rows.sum(axis=1, keepdims=True), y, np.arange(len(y))
    import pandas as pd

    games = pd.read_csv(directory / "nba_games.csv.gz")
    p, won = games["prob1"].to_numpy(), games["prob1_outcome"].to_numpy()
    good = np.isfinite(p) & np.isin(won, (0, 1))
    date = pd.to_datetime(games["date"]).to_numpy().astype(np.int64)
    yield "nba", np.column_stack([1 - p, p])[good], won[good].astype(int), date[good]


def shifts(directory, kind, n, rng):
    """Yield the name, rows, labels, and the masks of the old and the new world."""
    plain = sorted(directory.glob("*.npz")) + sorted((directory / "tabular").glob("*.npz"))
    answers = sorted((directory / "llm").glob("mmlu_*.npz"))
    timed = list(time_files(directory / "time")) if kind == "time" else []
    subjects = None
    if kind == "subjects":
        with np.load(directory / "llm" / "groups_mmlu.npz", allow_pickle=False) as data:
            subjects = np.concatenate([data[f"{part}_groups"] for part in ("val", "test")])
    found = 0
    for attempt in range(20 * n):
        if found == n:
            return
        if kind == "time":
            name, rows, y, time = timed[attempt % len(timed)]
            old, new = by_time(time, rng)
        else:
            files = answers if kind == "subjects" else plain
            path = files[attempt % len(files)] if kind == "subjects" else rng.choice(files)
            (rows, y), name = read(path), path.stem
            if rows.shape[1] > 100:
                continue
            if kind == "class shares":
                old, new = by_shares(rows, y, rng)
            elif kind == "scores":
                old, new = by_scores(rows, y, rng)
            else:
                groups = subjects if kind == "subjects" else clusters_of(rows, rng)
                old, new = by_groups(groups, rng)
        old, new = some(old, rng), some(new, rng)
        enough = min(len(old), len(new)) >= FEWEST_ROWS
        if not enough or min(len(np.unique(y[old])), len(np.unique(y[new]))) < 2:
            continue
        found += 1
        yield name, rows, y, old, new


def measure_alarms(directory, n, writer):
    """Print how often ``check`` alarms where NLL suffers, and where it does not."""
    print("| shift | NLL suffers by over 5 % | of these alarms | of the others alarms |")
    print("|---|---|---|---|")
    for number, kind in enumerate(KINDS):
        suffers, alarms = [], []
        for name, rows, y, old, new in shifts(directory, kind, n, np.random.default_rng(number)):
            classes = np.arange(rows.shape[1])
            fitted = AutoCalibrator(classes=classes).fit(rows[old], y[old])
            first, last = new[: len(new) // 2], new[len(new) // 2 :]
            own = AutoCalibrator(classes=classes).fit(rows[first], y[first])
            ratio = nll(fitted, rows[last], y[last]) / nll(own, rows[last], y[last])
            check = fitted.check(rows[new])
            suffers.append(ratio > 1.05)
            alarms.append(check.alarm)
            writer.writerow([kind, name, len(old), len(new), ratio, check.p_value])
        suffers, alarms = np.array(suffers), np.array(alarms)
        counts = alarms[suffers].sum(), suffers.sum(), alarms[~suffers].sum(), (~suffers).sum()
        print(f"| {kind} | {counts[1]} of {len(alarms)} | {counts[0]} of {counts[1]} | "
              f"{counts[2]} of {counts[3]} |", flush=True)  # fmt: skip


def measure_level(directory):
    """Print how often ``check`` alarms where rows are dealt at random."""
    alarms, rng = [], np.random.default_rng(99)
    for path in sorted(directory.glob("*.npz")) + sorted((directory / "tabular").glob("*.npz")):
        rows, y = read(path)
        for _ in range(LEVEL_DRAWS):
            order = rng.permutation(len(y))[: 2 * MOST_ROWS]
            old, new = order[: len(order) // 2], order[len(order) // 2 :]
            batch = check_batch(rows[old], y[old], classes=np.arange(rows.shape[1]))
            alarms.append(ScoreSums(summarise(batch)).add(rows[new]).compare().alarm)
    print(f"\nNothing shifted: {np.mean(alarms):.1%} of {len(alarms):,} alarms", flush=True)


def measure_groups(directory, n, writer):
    """Print NLL beside temperature scaling on groups that were not seen, with ``groups=``."""
    print("\n| groups | without: mean, worst | with: mean, worst |\n|---|---|---|")
    with np.load(directory / "llm" / "groups_mmlu.npz", allow_pickle=False) as data:
        subjects = np.concatenate([data[f"{part}_groups"] for part in ("val", "test")])
    answers = sorted((directory / "llm").glob("mmlu_*.npz"))
    plain = sorted(directory.glob("*.npz"))
    timed = list(time_files(directory / "time"))
    for number, kind in enumerate(("subjects", "clusters", "periods")):
        rng, ratios = np.random.default_rng(200 + number), []
        while len(ratios) < n:
            if kind == "subjects":
                path = answers[len(ratios) % len(answers)]
                (rows, y), name, groups = read(path), path.stem, subjects
            elif kind == "clusters":
                path = rng.choice(plain)
                (rows, y), name = read(path), path.stem
                if rows.shape[1] > 100:
                    continue
                groups = clusters_of(rows, rng)
            else:
                name, rows, y, time = timed[len(ratios) % len(timed)]
                groups = time.argsort(kind="stable").argsort() * 20 // len(time)
            old, new = (some(mask, rng) for mask in by_groups(groups, rng))
            if min(len(old), len(new)) < FEWEST_ROWS:
                continue
            classes = np.arange(rows.shape[1])
            ts = TemperatureScaling(classes=classes).fit(rows[old], y[old])
            own = AutoCalibrator(classes=classes)
            found = [nll(own.fit(rows[old], y[old]), rows[new], y[new])]
            found.append(nll(own.fit(rows[old], y[old], groups=groups[old]), rows[new], y[new]))
            ratios.append(np.array(found) / nll(ts, rows[new], y[new]))
            writer.writerow([kind, name, len(old), len(new), *ratios[-1]])
        mean, worst = np.exp(np.mean(np.log(ratios), axis=0)), np.max(ratios, axis=0)
        print(f"| {kind} | {mean[0]:.3f}, {worst[0]:.3f} | {mean[1]:.3f}, {worst[1]:.3f} |",
              flush=True)  # fmt: skip


def main(directory, n="20"):
    """Measure all."""
    warnings.simplefilter("ignore")
    output = Path("build") / "shift.csv"
    output.parent.mkdir(exist_ok=True)
    with output.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        measure_alarms(Path(directory), int(n), writer)
        measure_level(Path(directory))
        measure_groups(Path(directory), int(n), writer)


if __name__ == "__main__":
    main(*sys.argv[1:])
