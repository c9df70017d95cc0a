"""Write ``quality.md`` from the tables of ``make bench-peers DATA=DIR``.

python docs/write_quality.py [DIR]

The directory, ``build/`` by default, holds ``quality.csv`` and may hold ``small.csv``.
"""

import csv
import sys
from pathlib import Path

import numpy as np
from scipy.stats import binomtest, gmean

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "benchmarks"))

from beside_page import table
from page_parts import paragraphs
from quality_page import BASE, CHAMPION, numbers

METRICS = {"nll": "NLL", "brier": "Brier", "conf-ece": "conf-ECE"}
RIVALS = ("probmetrics SMS", "probmetrics SVS")
DRAWS = 10_000


def win_rates(values, files, methods):
    """How often ours has the lower number, with an interval, and the mean gain."""
    rows = []
    for method in methods:
        cells = []
        for column in METRICS:
            of = values[column]
            both = [f for f in files if (f, method) in of and (f, CHAMPION) in of]
            won = sum(of[f, CHAMPION] < of[f, method] for f in both)
            low, high = binomtest(won, len(both)).proportion_ci(method="wilson")
            cells.append(f"{won / len(both):.2f} ({low:.2f} to {high:.2f})")
        of = values["nll"]
        both = [f for f in files if (f, method) in of]
        logs = np.log([of[f, CHAMPION] / of[f, method] for f in both])
        draws = np.random.default_rng(0).choice(logs, (DRAWS, len(logs))).mean(axis=1)
        low, high = np.expm1(np.quantile(draws, [0.025, 0.975]))
        gain = f"{100 * np.expm1(logs.mean()):+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
        rows.append((logs.mean(), [method, *cells, gain, str(len(both))]))
    head = ["against", *(f"wins in {title}" for title in METRICS.values()), "NLL, %", "files"]
    return table(head, [row for _, row in sorted(rows, key=lambda pair: -pair[0])])


def per_file(values, files, methods):
    """NLL of ours and of rivals, relative to temperature scaling, and who is best of all."""
    of, rows = values["nll"], []
    for file in files:
        base = of[file, BASE]
        shown = [of.get((file, one), np.nan) / base for one in (CHAMPION, *RIVALS)]
        best = min((of[file, one], one) for one in methods if (file, one) in of)
        rival = f"{best[1]}, {best[0] / base:.4f}"
        cells = [f"{value:.4f}" if np.isfinite(value) else "" for value in shown]
        least = np.nanargmin([*shown, best[0] / base])
        if least < 3:
            cells[least] = f"**{cells[least]}**"
        else:
            rival = f"**{rival}**"
        rows.append([file, *cells, rival])
    return table(["classifier", "`auto`", "SMS", "SVS", "best of all others"], rows)


def losses(values, files, methods):
    """Say where another method has less NLL."""
    of = values["nll"]
    for method in methods:
        lost = {f: of[f, CHAMPION] / of[f, method] for f in files if (f, method) in of}
        lost = {f: ratio for f, ratio in lost.items() if ratio > 1.0}
        if lost and method in RIVALS:
            words = ", ".join(
                f"{f} ({100 * (ratio - 1):.2f} %)"
                for f, ratio in sorted(lost.items(), key=lambda pair: -pair[1])
            )
            yield f"{method} has less NLL on {len(lost)} of {len(files)}: {words}."


def small_sets(lines):
    """Tell what few rows do, and what becomes of honest predictions."""
    rows = []
    for labels, base in (("real", "ts"), ("honest", "identity")):
        for size in ("tenth", "200"):
            some = [one for one in lines if (one["labels"], one["rows"]) == (labels, size)]
            ratios = np.array([float(one["auto"]) / float(one[base]) for one in some])
            files = np.array([one["file"] for one in some])
            means = [ratios[files == file].mean() for file in np.unique(files)]
            beside = "temperature scaling" if base == "ts" else "the scores as they are"
            name = f"{labels} labels, {'a tenth of the rows' if size == 'tenth' else '200 rows'}"
            ends = f"{np.mean(ratios):.4f}", f"{max(means):.4f}", f"{ratios.max():.4f}"
            rows.append([name, beside, *ends, files[ratios.argmax()]])
    head = ["calibration set", "beside", "mean NLL", "worst classifier", "worst draw", "which"]
    return paragraphs(
        "## Few rows, and honest scores",
        "The validation part of each classifier cut five times, judged on the test part. Honest "
        "labels are drawn from the probabilities that are to be calibrated, and the NLL is that "
        "expected of them: nothing can be gained there.",
        table(head, rows),
    )


def build(lines, small):
    values = {column: numbers(lines, column) for column in METRICS}
    nll = values["nll"]
    files = sorted({f for f, m in nll if m == CHAMPION})
    methods = sorted({m for _, m in nll if not m.startswith("calibrant ")})
    ratios = np.array([nll[f, CHAMPION] / nll[f, BASE] for f in files])
    worse = [f for f, ratio in zip(files, ratios, strict=True) if round(ratio, 3) > 1.0]
    ece = 100 * np.mean([values["conf-ece"][f, CHAMPION] for f in files])
    words = (
        f"Worse than temperature scaling: {', '.join(worse)}."
        if worse
        else "Nowhere is it worse than temperature scaling."
    )
    return paragraphs(
        "# Quality",
        f"`AutoCalibrator` and what other packages have, with their defaults, on {len(files)} real "
        "classifiers: fitted to the validation part of each, judged on its test part. All were "
        "given the same probabilities. Nothing was chosen by the test parts; how the settings of "
        "`AutoCalibrator` were chosen is told [there](auto.md).",
        f"NLL relative to our temperature scaling: mean {ratios.mean():.4f}, geometric mean "
        f"{gmean(ratios):.4f}, worst {ratios.max():.4f}. conf-ECE: {ece:.2f} % on average. {words}",
        "## Win rates",
        "Share of classifiers on which `AutoCalibrator` has the lower number, with Wilson's "
        "intervals of 95 %; and how much less NLL it has (geometric mean of ratios, with an "
        "interval that draws classifiers).",
        win_rates(values, files, methods),
        "## Where it loses",
        *losses(values, files, methods),
        small_sets(small) if small else "",
        "## Each classifier",
        "NLL relative to our temperature scaling.",
        per_file(values, files, methods),
        "## Again",
        "```sh\nmake bench-peers DATA=DIR\npython benchmarks/small_sets.py DIR\n"
        "python docs/write_quality.py\n```",
    )


def read(path):
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main(folder=DOCS.parent / "build"):
    page = build(*(read(Path(folder) / name) for name in ("quality.csv", "small.csv")))
    (DOCS / "quality.md").write_text(page + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
