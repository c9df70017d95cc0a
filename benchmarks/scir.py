"""SCIR against the sort that bounds it, against a minimum cut, and on inputs made to be slow."""

import subprocess
import sys
import warnings
from pathlib import Path
from time import process_time

import numpy as np

from calibrant._calibrators.isotonic import SortedCumulativeIsotonic
from calibrant._gate import check_batch
from calibrant._solvers.bivariate_isotonic import bivariate_isotonic_regression
from calibrant._solvers.sorted_cumulative import accumulate, fit_rows
from measure import peak_mebibytes, print_ratios, race, simulate

IMAGES = Path(__file__).parents[1] / "docs" / "images"
DATA = Path(__file__).parents[2] / "shared" / "data"


def cumulative_points(p, y):
    """Every point of SCIR, as three flat arrays."""
    rows = accumulate(check_batch(p, y, classes=np.arange(p.shape[1])))
    ranks = np.arange(1, p.shape[1])
    labels = rows.last[:, None] <= ranks
    return rows.cumulative[:, :-1].ravel(), np.tile(ranks, len(p)), labels.ravel().astype(float)


def fits():
    for (m, k), goal in {(5_000, 100): 10, (12_500, 1_000): 4}.items():
        p, y = simulate(m, k)
        q = cumulative_points(p, y)[0]
        calibrator = SortedCumulativeIsotonic(prior_share=0.1)
        contenders = {"argsort of the points": lambda q=q: np.argsort(q)}
        contenders["fit"] = lambda p=p, y=y, c=calibrator: c.fit(p, y)
        seconds = race(contenders, 5)
        print_ratios(f"fit, {m:,} x {k:,}", seconds, {"fit": goal})


def growth():
    """Time per point at 1,000 classes."""
    contenders = {}
    for m in (1_000, 12_500):
        p, y = simulate(m, 1_000)
        rows = accumulate(check_batch(p, y))
        contenders[m] = lambda rows=rows: fit_rows(rows)
    seconds = race(contenders, 5)
    print_ratios(
        "time per point, 1,000 classes",
        {f"{m:,} rows": value / (m * 999) for m, value in seconds.items()},
        {"12,500 rows": 2},
    )


def adversaries():
    """Points made to be slow, against simulated ones, per point."""
    q, rank, label = cumulative_points(*simulate(3_000, 100))
    n = len(q)
    order = np.arange(n)
    powers = np.repeat(2.0 ** np.arange(-390, 390), n // 780)
    shuffled = np.random.default_rng(0).permutation(n)
    problems = {
        "simulated": (q, rank, label),
        "decreasing labels": (q, rank, (q < np.median(q)).astype(float)),
        "decreasing labels, one rank": (q, np.ones(n), (q < np.median(q)).astype(float)),
        "one point per rank, an antichain": (order, n - order, label),
        "one point per rank, a chain": (order, order, label),
        "one point per rank, in any order": (order, shuffled, label),
        "random labels": (q, rank, np.random.default_rng(1).integers(0, 2, n)),
        "labels that double": (np.arange(len(powers)), np.ones(len(powers)), powers),
    }
    contenders = {
        name: lambda data=data: bivariate_isotonic_regression(*data)
        for name, data in problems.items()
    }
    goals = dict.fromkeys(list(problems)[1:-1], 20)
    print_ratios(f"bivariate isotonic regression, {n:,} points", race(contenders, 3), goals)


def predictions():
    for m, k, n in ((5_000, 10, 500_000), (5_000, 100, 50_000), (12_500, 1_000, 5_000)):
        calibrator = SortedCumulativeIsotonic(prior_share=0.1).fit(*simulate(m, k))
        new, _ = simulate(n, k, seed=1)
        contenders = {"np.sort of the rows": lambda new=new: np.sort(new, axis=1)}
        contenders["predict_proba"] = lambda new=new, c=calibrator: c.predict_proba(new)
        print_ratios(f"predict, {n:,} x {k:,}", race(contenders, 9), {"predict_proba": 3})


def memory():
    code = (
        "import measure, scir\n"
        "p, y = measure.simulate(12_500, 1_000)\n"
        "scir.SortedCumulativeIsotonic(prior_share=0.1).fit(p, y)\n"
        "print(measure.peak_mebibytes())"
    )
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    )
    print(f"\npeak memory of a fit, 12,500 x 1,000: {float(out.stdout):.0f} MiB   goal <= 2,048")


def minimum_cut_regression(q, rank, y):
    """Isotonic regression by the paper's baseline: maximal upper sets as minimum cuts."""
    order = np.lexsort((rank, q))
    rank, y = rank[order].astype(int), y[order]
    fitted = np.empty(len(y))
    stack = [np.arange(len(y))]
    while stack:
        part = stack.pop()
        excess = y[part] - y[part].mean()
        taken = minimum_cut(rank[part], excess) if len(part) > 1 else np.zeros(1, dtype=bool)
        if excess[taken].sum() < 1e-9 or taken.all():
            fitted[part] = y[part].mean()
        else:
            stack += [part[taken], part[~taken]]
    out = np.empty(len(y))
    out[order] = fitted
    return out


def minimum_cut(rank, excess):
    """Upper set of the largest excess: the closure that a minimum cut leaves at the source."""
    import igraph

    n = len(rank)
    edges, capacity = [], []
    following = np.full(rank.max() + 2, n)  # next point of each rank, from the right
    for i in reversed(range(n)):
        nearest = np.minimum.accumulate(following[rank[i] : -1])
        covers = np.unique(nearest[nearest < n])
        edges += [(i, int(j)) for j in covers]
        following[rank[i]] = i
    capacity = [1e9] * len(edges)
    for i, v in enumerate(excess):
        edges.append((n, i) if v > 0 else (i, n + 1))
        capacity.append(abs(float(v)))
    graph = igraph.Graph(n + 2, edges, directed=True)
    cut = graph.st_mincut(n, n + 1, capacity=capacity)
    taken = np.zeros(n + 2, dtype=bool)
    taken[cut.partition[0]] = True
    return taken[:n]


def cpu_seconds(run, repeats=3):
    seconds = []
    for _ in range(repeats):
        started = process_time()
        run()
        seconds.append(process_time() - started)
    return min(seconds)


def real_rows(name):
    """All rows of one real classifier, or simulated ones where there is no file."""
    path = DATA / f"{name}.npz"
    if not path.exists():
        return simulate(10_000, 100)
    with np.load(path) as file:
        p = np.vstack([file["val_probs"], file["test_probs"]]).astype(float)
        y = np.concatenate([file["val_labels"], file["test_labels"]])
    return p / p.sum(axis=1, keepdims=True), y.astype(int)


def time_minimum_cut():
    """Fit times of the paper's first figure, on 20 Newsgroups."""
    p, y = real_rows("ng20_logreg")
    table = []
    for m in (20, 80, 320, 1_280, 5_120):
        points = cumulative_points(p[:m], y[:m])
        assert np.allclose(minimum_cut_regression(*points), bivariate_isotonic_regression(*points))
        cut = cpu_seconds(lambda points=points: minimum_cut_regression(*points), 1)
        ours = cpu_seconds(lambda points=points: bivariate_isotonic_regression(*points))
        table.append((len(points[0]), cut, ours))
        print(f"  {len(points[0]):>8,} points  minimum cut {cut:8.2f} s  ours {ours * 1e3:8.2f} ms")
    return np.array(table)


def time_growth():
    """Fit times of the paper's second figure: CIFAR-100 with classes merged, and random data."""
    p, y = real_rows("cifar100_densenet-bc-100")
    rng = np.random.default_rng(0)
    tables = {"CIFAR-100, classes merged": [], "random data": []}
    for k in (5, 10, 20, 25, 50, 100):
        merged = p.reshape(len(p), k, -1).sum(axis=2)
        noise = rng.dirichlet(np.ones(k), len(p))
        for name, data in zip(
            tables, ((merged, y * k // 100), (noise, rng.integers(0, k, len(p)))), strict=True
        ):
            rows = accumulate(check_batch(*data, classes=np.arange(k)))
            tables[name].append((len(p) * (k - 1), cpu_seconds(lambda rows=rows: fit_rows(rows))))
    return {name: np.array(table) for name, table in tables.items()}


def draw(min_cut, growing):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=(5.2, 3.8), layout="constrained")
    ax.loglog(min_cut[:, 0], min_cut[:, 1], "s--", color="#D55E00", label="minimum cut (igraph)")
    ax.loglog(min_cut[:, 0], min_cut[:, 2], "o-", color="#0072B2", label="maximal upper sets, ours")
    ax.set(xlabel="points N", ylabel="fit time, seconds of one core", title="20 Newsgroups")
    ax.legend(frameon=False)
    ax.grid(color="0.9")
    ax.figure.savefig(IMAGES / "scir-minimum-cut.png", dpi=120)
    _, ax = plt.subplots(figsize=(5.2, 3.8), layout="constrained")
    for (name, table), style in zip(growing.items(), ("o-", "s--"), strict=True):
        colour = {"o-": "#0072B2", "s--": "#D55E00"}[style]
        ax.plot(table[:, 0] / 1e6, table[:, 1], style, color=colour, label=name)
    ax.set(
        xlabel="points N = m (k - 1), millions",
        ylabel="fit time, seconds of one core",
        title="10,000 rows, 5 to 100 classes",
        ylim=(0, None),
        xlim=(0, None),
    )
    ax.legend(frameon=False)
    ax.grid(color="0.9")
    ax.figure.savefig(IMAGES / "scir-growth.png", dpi=120)


def figures():
    """Draw the paper's two figures of fit times."""
    cpu_seconds(lambda: bivariate_isotonic_regression(*cumulative_points(*simulate(50, 5))), 1)
    cpu_seconds(lambda: SortedCumulativeIsotonic(prior_share=0.1).fit(*simulate(50, 5)), 1)
    print("\nfit times for the figures")
    draw(time_minimum_cut(), time_growth())


def main():
    warnings.simplefilter("ignore")
    memory()
    fits()
    growth()
    adversaries()
    predictions()
    try:
        figures()
    except ImportError as error:
        print(f"\nno figures: {error}")
    print(f"\npeak memory of all benchmarks: {peak_mebibytes():.0f} MiB")


if __name__ == "__main__":
    main()
