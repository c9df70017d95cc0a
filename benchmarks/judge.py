"""Coverage and width of the interval of a judge: ``python benchmarks/judge.py [DRAWS]``.

Humans grade 2,000 answers from 1 to 5; a judge, kinder than they are and with a taste for 4, sees
the quality with noise. Some rows are labelled at random, again and again: how often does the
interval hold the mean human grade of all rows, and is it wider than that of the labels alone?
Then answers are good or not, and the judge is wrong in a few of them only; then one grade in a
hundred is rare; and labels come by documents of 12 rows.
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


def simulate_rare(rng, found, wrong=0.01, rate=0.01):
    """Answers of which few are bad: the judge finds a share of these, and suspects others."""
    bad = rng.random(N_ROWS) < rate
    judged = np.where(bad, rng.random(N_ROWS) < found, rng.random(N_ROWS) < wrong)
    return bad.astype(int), judged.astype(int), None


def simulate_rare_grade(rng, noise, rate=0.01):
    """Grades from 3 to 5, and few 1, of which the judge finds most."""
    quality = rng.normal(0, 1, N_ROWS)
    human = 3 + np.digitize(quality + rng.normal(0, 0.5, N_ROWS), [-0.8, 0.3])
    human[rng.random(N_ROWS) < rate] = 1
    judged = 3 + np.digitize(0.4 + quality + rng.normal(0, noise, N_ROWS), [-0.8, 0.3])
    return human, np.where((human == 1) & (rng.random(N_ROWS) < 0.6), 1, judged), None


def simulate_documents(rng, alike, size=12):
    """Grades as those above; rows of a document share quality, and what humans add to it."""
    document = np.arange(N_ROWS) // size

    def draw():
        of_document = rng.normal(0, np.sqrt(alike), N_ROWS)[document]
        return of_document + rng.normal(0, np.sqrt(1 - alike), N_ROWS)

    quality = draw()
    human = 3 + np.digitize(quality + 0.5 * draw(), [-0.8, 0.3])
    human[rng.random(N_ROWS) < 0.01] = 1
    judged = 3 + np.digitize(0.4 + quality + rng.normal(0, 0.5, N_ROWS), [-0.8, 0.3])
    return human, np.where((human == 1) & (rng.random(N_ROWS) < 0.6), 1, judged), document


def measure_rare(name, n_labels, n_draws, simulate, noise, is_told=True):
    """Print one line of grades that the labels may lack; rows come as they are."""
    hits, plain_hits, widths = 0, 0, []
    for draw in range(n_draws):
        human, judged, document = simulate(np.random.default_rng([n_labels, draw]), noise)
        own, rest = slice(n_labels), slice(n_labels, None)
        told = {"clusters": document[own]} if document is not None and is_told else {}
        told["classes"] = [0, 1] if human.max() <= 1 else [1, 3, 4, 5]
        result = calibrate_judge(human[own], judged[own], judged[rest], random_state=draw, **told)
        mean, plain = result.mean, result.labelled_mean
        hits += mean.low <= human.mean() <= mean.high
        plain_hits += plain.low <= human.mean() <= plain.high
        widths.append((mean.high - mean.low, plain.high - plain.low))
    shares = f"{100 * hits / n_draws:.1f} | {100 * plain_hits / n_draws:.1f}"
    print(f"| {name} | {n_labels} | {shares} |", *np.median(widths, axis=0).round(4), flush=True)


def measure_rare_and_documents(n_draws):
    """Print the table of rare grades and of documents."""
    for rate, found in ((0.01, 0.0), (0.01, 0.5), (0.01, 0.8), (0.012, 0.8), (0.01, 1.0)):
        few = partial(simulate_rare, rate=rate)
        for n_labels in (50, 100, 300):
            name = f"{100 * rate:g} % are bad, the judge finds {found:.0%}"
            measure_rare(name, n_labels, n_draws, few, found)
    for noise in (0.5, 3.0):
        for n_labels in (50, 100, 300):
            name = f"1 % are 1, noise {noise}"
            measure_rare(name, n_labels, n_draws, simulate_rare_grade, noise)
    for alike in (0.0, 0.3, 0.6):
        for is_told in (True, False):
            for n_labels in (50, 100, 300):
                name = f"documents, {alike} alike, clusters {'told' if is_told else 'untold'}"
                given = simulate_documents, alike, is_told
                measure_rare(name, n_labels, n_draws, *given)


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
    print("| grades | labels | coverage, % | by labels alone, % | widths, median")
    print("|---|---|---|---|---|")
    measure_rare_and_documents(n_draws)
