"""Coverage of intervals that compare models by a judge.

    python benchmarks/judge_models.py [DRAWS [CASE ...]]

Simulated answers of models to the same questions, some of which humans grade, again and again:

- ``differences``: of the mean grades of two models on the same questions; labels by question or by
  row.
- ``documents``: of the mean grade of a model whose answers come by documents of ten.
- ``strengths``: Bradley-Terry strengths of five models, by a judge that prefers the first answer.
- ``questions``: of the accuracies of two models on so many questions, which come by documents of
  five, without a judge; the truth is that of all documents.
- ``plans``: how far the width of the interval is from that of the plan, 100 labels first.

A line has the coverage of the true value for all rows, in per cent, and the median width; also of
ppi-python and cje-eval on the same draws, where they can be imported and have such an interval:
logistic regression without a constant is ppi-python's for strengths, and it knows no clusters.
"""

import logging
import sys
import warnings

import numpy as np

from calibrant import TemperatureScaling
from calibrant.judge import calibrate_judge, compare_judged, judge_pairs, plan_labels
from calibrant.report import ModelAnswers, compare_models

N_ITEMS = 1000
LABELS = (50, 100, 300)


def simulate_models(rng, n_models=2, n_items=N_ITEMS):
    """Right or wrong answers to questions of different difficulty, and a judge of them."""
    hard = rng.normal(0, 1.5, n_items)
    skill = np.linspace(0.3, 0.9, n_models)
    z = skill[:, None] - hard + rng.normal(0, 0.5, (n_models, n_items))
    right = (rng.random(z.shape) < 1 / (1 + np.exp(-2 * z))).astype(float)
    # The judge is too kind, and more so to the first model.
    seen = 1.5 * (right - 0.5) + 0.6 + 0.3 * (np.arange(n_models) == 0)[:, None]
    score = np.round(1 / (1 + np.exp(-(seen + rng.normal(0, 0.8, z.shape)))), 2)
    return right.ravel(), score.ravel(), np.repeat(np.arange(n_models), n_items)


def ppi_difference(y, f, first, second, is_graded):
    """Return the interval of ppi-python: of each mean, as independent; None if not installed."""
    try:
        from ppi_py import ppi_mean_ci, ppi_mean_pointestimate
    except ImportError:
        return None
    ends = []
    for own in (first, second):
        args = y[own & is_graded], f[own & is_graded], f[own & ~is_graded]
        low, high = (float(np.ravel(end)[0]) for end in ppi_mean_ci(*args, alpha=0.05))
        value = float(np.ravel(ppi_mean_pointestimate(*args))[0])
        ends.append((value, (high - low) / 2))
    gap, reach = ends[0][0] - ends[1][0], np.hypot(ends[0][1], ends[1][1])
    return gap - reach, gap + reach


def ppi_mean(y, f, is_graded):
    """Return ppi-python's interval of a mean, which takes rows as independent."""
    try:
        from ppi_py import ppi_mean_ci
    except ImportError:
        return None
    low, high = ppi_mean_ci(y[is_graded], f[is_graded], f[~is_graded], alpha=0.05)
    return float(np.ravel(low)[0]), float(np.ravel(high)[0])


def ppi_strengths(games, y, f, is_graded):
    """Return ppi-python's intervals of all strengths but the last, which sum to 0 with it."""
    try:
        from ppi_py import ppi_logistic_ci
    except ImportError:
        return None
    x = games[:, :-1] - games[:, -1:]
    own, others = (x[is_graded], y[is_graded], f[is_graded]), (x[~is_graded], f[~is_graded])
    try:
        return np.array(ppi_logistic_ci(*own, *others, alpha=0.05)).T
    except np.linalg.LinAlgError:  # a model of a few labels that always won, or always lost
        return None


def cje_dataset(y, f, model, item, is_graded):
    """Return what cje-eval's direct estimator makes of the draw; None if it is not installed."""
    try:
        from cje import analyze_dataset
    except ImportError:
        return None
    fresh = {
        str(m): [
            {"prompt_id": str(item[i]), "judge_score": float(f[i])}
            | ({"oracle_label": float(y[i])} if is_graded[i] else {})
            for i in np.flatnonzero(model == m)
        ]
        for m in np.unique(model)
    }
    return analyze_dataset(fresh_draws_data=fresh)


def cje_difference(y, f, model, item, is_graded):
    """Return the interval of cje-eval's direct estimator."""
    found = cje_dataset(y, f, model, item, is_graded)
    if found is None:
        return None
    gap = found.compare_policies("1", "0")
    return gap["ci_lower"], gap["ci_upper"]


METHODS = ("ours", "labels alone", "ppi-python", "cje-eval")
HEAD = "| what | labels | " + " | ".join(METHODS) + " |\n" + "|---" * 6 + "|"


def show(name, n_labels, found):
    """Print coverage and median width of each method."""
    cells = [
        f"{100 * np.mean([hit for hit, _ in rows]):.1f} %, {np.median([w for _, w in rows]):.3f}"
        if (rows := found.get(method))
        else "-"
        for method in METHODS
    ]
    print(f"| {name} | {n_labels} | {' | '.join(cells)} |", flush=True)


def add(found, method, interval, truth):
    """Keep whether an interval holds the truth, and its width."""
    if interval is not None:
        low, high = interval
        found.setdefault(method, []).append((low <= truth <= high, high - low))


def differences(n_draws):
    for by_question in (True, False):
        for n_labels in LABELS:
            found = {}
            for draw in range(n_draws):
                rng = np.random.default_rng([1, draw])
                y, f, model = simulate_models(rng)
                item = np.tile(np.arange(N_ITEMS), 2)
                drawn = rng.permutation(N_ITEMS)[:n_labels]
                is_graded = np.isin(item, drawn)
                if not by_question:
                    other = rng.permutation(N_ITEMS)[:n_labels]
                    is_graded = np.where(model == 0, is_graded, np.isin(item, other))
                truth = y[model == 1].mean() - y[model == 0].mean()
                human = np.where(is_graded, y, np.nan)
                ours = compare_judged(human, f, model, items=item, classes=[0, 1])
                sign = 1 if ours.pairs[0] == ("1", "0") else -1
                low, high = sorted(sign * end for end in ours.differences[0][1:])
                ends = {"ours": (low, high)}
                ends["ppi-python"] = ppi_difference(y, f, model == 1, model == 0, is_graded)
                ends["cje-eval"] = cje_difference(y, f, model, item, is_graded)
                for method, interval in ends.items():
                    add(found, method, interval, truth)
            show(f"difference, labels by {'question' if by_question else 'row'}", n_labels, found)


def documents(n_draws, size=10):
    for n_labels in LABELS:
        found = {}
        for draw in range(n_draws):
            rng = np.random.default_rng([2, draw])
            document = np.arange(2 * N_ITEMS) // size
            quality = rng.normal(0, 1, document.max() + 1)[document] + rng.normal(0, 1, 2 * N_ITEMS)
            y = (quality > 0).astype(float)
            f = np.round(quality + rng.normal(0.3, 1, 2 * N_ITEMS), 1)
            drawn = rng.permutation(document.max() + 1)[: max(n_labels // size, 5)]
            is_graded = np.isin(document, drawn)
            human = np.where(is_graded, y, np.nan)
            model = np.zeros(len(y))
            ours = compare_judged(human, f, model, items=document, classes=[0, 1])
            add(found, "ours", ours.means[0][1:], y.mean())
            add(found, "labels alone", ours.labelled_means[0][1:], y.mean())
            add(found, "ppi-python", ppi_mean(y, (f > 0.3).astype(float), is_graded), y.mean())
        show("mean, by documents of ten", n_labels, found)


def simulate_pairs(rng, ties, n_models=5, n_rows=1500):
    """Human verdicts on two answers, and those of a judge that prefers what it sees first."""
    strength = rng.normal(0, 0.6, n_models)
    first = rng.integers(0, n_models, n_rows)
    second = (first + rng.integers(1, n_models, n_rows)) % n_models
    wins = rng.random(n_rows) < 1 / (1 + np.exp(strength[second] - strength[first]))
    truth = np.where(wins, "first", "second").astype(object)
    truth[rng.random(n_rows) < ties] = "tie"
    judged = np.where(rng.random(n_rows) < 0.75, truth, rng.permutation(truth))
    judged[(rng.random(n_rows) < 0.15) & (judged != "first")] = "first"
    return first, second, truth, judged


def strengths(n_draws):
    for ties in (0.15, 0.0):
        for n_labels in LABELS:
            found = {}
            for draw in range(n_draws):
                strengths_of_draw(draw, ties, n_labels, found)
            show(f"strength, {'15 %' if ties else 'no'} ties", n_labels, found)


def strengths_of_draw(draw, ties, n_labels, found):
    rng = np.random.default_rng([3, draw])
    first, second, truth, judged = simulate_pairs(rng, ties)
    whole = judge_pairs(first, second, truth, truth)
    exact = dict(zip(whole.models, (s.value for s in whole.strengths), strict=True))
    human = np.full(len(truth), None, dtype=object)
    is_graded = np.isin(np.arange(len(truth)), rng.permutation(len(truth))[:n_labels])
    human[is_graded] = truth[is_graded]
    report = judge_pairs(first, second, human, judged)
    for method, rows in (("ours", report.strengths), ("labels alone", report.labelled_strengths)):
        for name, (_, low, high) in zip(report.models, rows, strict=True):
            add(found, method, (low, high), exact[name])
    if ties:  # which ppi-python's logistic regression does not take
        return
    games = np.eye(5)[first] - np.eye(5)[second]
    y, f = ((own == "first").astype(float) for own in (truth, judged))
    ends = ppi_strengths(games, y, f, is_graded)
    for model, interval in enumerate(() if ends is None else ends):
        add(found, "ppi-python", interval, exact[str(model)])


def questions(n_draws, size=5):
    logit = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
    rng = np.random.default_rng(5)
    a, b = (rng.normal(0, 1, 4_000_000) + rng.normal(0, 1, 4_000_000) for _ in range(2))
    truth = float(np.mean(logit(a + 0.7)) - np.mean(logit(b)))
    for n in LABELS:
        found, without = {}, {}
        for draw in range(n_draws):
            rng = np.random.default_rng([6, draw])
            hard = rng.normal(0, 1, (n // size, 1, 1)) + rng.normal(0, 1, (n // size, 1, 2))
            p = np.broadcast_to(logit(hard + np.array([0.7, 0.0])), (n // size, size, 2))
            right = (rng.random(p.shape) < p).reshape(n, 2)
            for kept, clusters in ((found, np.arange(n) // size), (without, None)):
                both = [
                    ModelAnswers(np.full(n, 0.5), right[:, j], str(j), clusters=clusters)
                    for j in range(2)
                ]
                table = compare_models(both, calibrator=TemperatureScaling())
                gap = table.differences[0]
                sign = 1.0 if gap.first == "0" else -1.0
                ends = sorted(sign * end for end in gap.difference[1:])
                add(kept, "ours", ends, truth)
        show("accuracies of two models, by documents of five", n, found)
        show("the same, documents ignored", n, without)


def plans(n_draws):
    print("\n| plan | within 15 % of its width, draws | width over plan, median | 5 %, 95 % |")
    print("|---|---|---|---|")
    for wanted in (0.06, 0.08):
        ratios = []
        for draw in range(min(n_draws, 200)):
            rng = np.random.default_rng([4, draw])
            y, f, _ = simulate_models(rng, n_models=1, n_items=5000)
            human = np.full(len(y), np.nan)
            first = plan_labels(human, f, wanted, classes=[0, 1], random_state=draw)
            human[first.rows] = y[first.rows]
            plan = plan_labels(human, f, wanted, classes=[0, 1], random_state=draw + 1)
            human[plan.rows] = y[plan.rows]
            mean = calibrate_judge(human, f, classes=[0, 1]).mean
            ratios.append((mean.high - mean.low) / plan.expected_width)
        within = np.mean(np.abs(np.array(ratios) - 1) <= 0.15)
        low, high = np.quantile(ratios, [0.05, 0.95])
        print(
            f"| {wanted} wide | {100 * within:.1f} % of {len(ratios)} | {np.median(ratios):.3f} | "
            f"{low:.3f}, {high:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)  # of cje-eval, which has one for every draw
    n_draws = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    cases = {c.__name__: c for c in (differences, documents, strengths, questions, plans)}
    print(HEAD)
    for name in sys.argv[2:] or cases:
        cases[name](n_draws)
