"""Coverage and width of the interval of a judge: ``python benchmarks/judge.py [DRAWS]``.

Humans grade 2,000 answers from 1 to 5; a judge, kinder than they are and with a taste for 4, sees
the quality with noise. Some rows are labelled at random, again and again: how often does the
interval hold the mean human grade of all rows, and is it wider than that of the labels alone?
Then answers are good or not, and the judge is wrong in a few of them only.
"""

import sys
import warnings
from functools import partial
from time import perf_counter

import numpy as np

from calibrant.judge import calibrate_judge

N_ROWS = 2000


def simulate(rng, noise):
    """Human grades, the judge's grades, and its probabilities of each."""
    quality = rng.normal(0, 1, N_ROWS)
    human = np.digitize(quality + rng.normal(0, 0.5, N_ROWS), [-1.2, -0.4, 0.4, 1.2])
    seen = 0.6 + quality + rng.normal(0, noise, N_ROWS)
    centres = np.linspace(-1.6, 1.6, 5)
    logits = -((seen[:, None] - centres) ** 2) * 3 + np.array([0, 0, 0, 1.0, 0])
    judge = np.exp(logits - logits.max(axis=1, keepdims=True))
    judge /= judge.sum(axis=1, keepdims=True)
    return 1 + human, 1 + judge.argmax(axis=1), judge


def simulate_right(rng, wrong, rate=0.5):
    """Answers that are good or not, and a judge that errs in a few of them, both ways."""
    human = (rng.random(N_ROWS) < rate).astype(int)
    return human, np.where(rng.random(N_ROWS) < wrong, 1 - human, human), None


def measure(name, n_labels, n_draws, noise, target="rows", simulate=simulate):
    """Print one line of the table."""
    rng = np.random.default_rng(n_labels)
    hits = narrow = plain_hits = 0
    ratios = []
    started = perf_counter()
    for draw in range(n_draws):
        human, grades, judge = simulate(rng, noise)
        classes = np.arange(1, 6) if judge is not None else [0, 1]
        chosen = rng.permutation(N_ROWS)
        own, others = chosen[:n_labels], chosen[n_labels:]
        judged = judge if name == "probabilities" else grades
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = calibrate_judge(
                human[own],
                judged[own],
                judged[others],
                classes=classes,
                random_state=draw,
                target=target,
            )
        truth = human.mean() if target == "rows" else 3.0
        width, plain = (e.high - e.low for e in (found.mean, found.labelled_mean))
        hits += found.mean.low <= truth <= found.mean.high
        plain_hits += found.labelled_mean.low <= truth <= found.labelled_mean.high
        narrow += width <= plain * (1 + 1e-12)
        ratios.append(width / plain)
    seconds = (perf_counter() - started) / n_draws
    print(
        f"| {name} | {noise} | {target} | {n_labels} | {100 * hits / n_draws:.1f} | "
        f"{100 * plain_hits / n_draws:.1f} | {100 * narrow / n_draws:.1f} | "
        f"{np.median(ratios):.2f} | {seconds:.2f} |",
        flush=True,
    )


if __name__ == "__main__":
    n_draws = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print("| judge gives | noise | mean of | labels | coverage, % | by labels alone, % | ", end="")
    print("no wider, % | width, median ratio | seconds |\n|---|---|---|---|---|---|---|---|---|")
    for name in ("grades", "probabilities"):
        for n_labels in (50, 100, 300):
            measure(name, n_labels, n_draws, 0.5)
    for n_labels in (50, 300):
        measure("grades", n_labels, n_draws, 3.0)  # a judge that knows hardly anything
        measure("grades", n_labels, n_draws, 0.5, "population")
    for rate in (0.5, 0.1, 0.02):
        for n_labels, wrong in ((50, 0.01), (50, 0.02), (50, 0.05), (300, 0.01)):
            few = partial(simulate_right, rate=rate)
            measure(f"0 or 1, {rate:g} are 1", n_labels, n_draws, wrong, simulate=few)
