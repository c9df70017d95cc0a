"""Write ``quality.md`` from the tables of ``make bench-peers DATA=DIR``.

python tools/write_quality.py [DIR]

The directory, ``build/`` by default, holds ``quality.csv`` and may hold ``small.csv``.
"""

import csv
import sys
from pathlib import Path

import numpy as np
from scipy.stats import binomtest, gmean

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from beside_page import table
from page_parts import paragraphs
from quality_page import BASE, CHAMPION, numbers

RAW = "none uncalibrated"
RIVALS = ("probmetrics SMS", "probmetrics SVS")
COLUMNS = ("nll", "brier", "conf-ece", "positive-ece")
TEXT = ("banking", "clinc", "emoji", "ng20", "ohsumed", "r52", "sst5", "udhr-langid", "yelp")
KINDS = {
    "images": "Networks: images, letters and jobs",
    "text": "Text",
    "binary": "Tabular models, two classes",
    "multi": "Tabular models, more classes",
    "llm": "Options of language models",
    "imagenet": "1,000 classes",
}
"""Kinds of data and their headings; the first two are the 47 files without a folder."""

SURE = "Shuttle"
"""Almost always right: relative to a NLL of 1e-6, nothing can be said."""

MANY_ROWS = 600
MOST_NAMED = 12
DRAWS = 10_000


def kind_of(line):
    """Kind of the data of a line of the table."""
    if line["file"].startswith(SURE):
        return "sure"
    if line["collection"] == "tabular":
        return "binary" if line["classes"] == "2" else "multi"
    if line["collection"]:
        return line["collection"]
    return "text" if line["file"].partition("_")[0] in TEXT else "images"


def share(won, n):
    low, high = binomtest(won, n).proportion_ci(method="wilson")
    return f"{100 * won / n:.0f} ({100 * low:.0f} to {100 * high:.0f})"


def wins(of, files, method):
    """How often ours has the lower number, in percent, with Wilson's interval."""
    both = [f for f in files if (f, method) in of and (f, CHAMPION) in of]
    return share(sum(of[f, CHAMPION] < of[f, method] for f in both), len(both))


def interval(of, files, method):
    """Mean log ratio of our NLL to another's, and its bootstrap interval over classifiers."""
    logs = np.log([of[f, CHAMPION] / of[f, method] for f in files if (f, method) in of])
    draws = np.random.default_rng(0).choice(logs, (DRAWS, len(logs))).mean(axis=1)
    return logs.mean(), *np.quantile(draws, [0.025, 0.975])


def gain(of, files, method):
    """How much less NLL ours has, as a logarithm and in percent with its interval."""
    found = interval(of, files, method)
    mean, low, high = 100 * np.expm1(found)
    return found[0], f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"


def methods_table(values, files, base):
    """All methods on files of a kind, the best on average first."""
    nll, brier, ece, positive = (values[column] for column in COLUMNS)
    is_binary = any((f, CHAMPION) in positive for f in files)
    rows = []
    for method in sorted({m for f, m in nll if f in files}):
        done = [f for f in files if (f, method) in nll]
        over = np.array([nll[f, method] / nll[f, base] for f in done])
        means = [f"{100 * np.mean([ece[f, method] for f in done]):.2f}"]
        if is_binary:
            means += [f"{100 * np.mean([positive[f, method] for f in done]):.2f}"]
        is_own = method == CHAMPION
        order, less = (0.0, "") if is_own else gain(nll, files, method)
        won = ["", ""] if is_own else [wins(of, files, method) for of in (nll, brier)]
        name = f"**{method}**" if is_own else method
        cells = [name, f"{over.mean():.3f}", f"{over.max():.3f}", *means, *won, less]
        rows.append((-order, [*cells, str(len(done))]))
    head = ["method", "NLL", "worst", "conf-ECE, %", *["positive-class ECE, %"] * is_binary]
    head += ["ours has less NLL, % of files", "less Brier, %", "difference of NLL, %", "files"]
    return table(head, [row for _, row in sorted(rows, key=lambda pair: pair[0])])


def percent(part):
    return f"{100 * part:.0f} %" if part >= 0.1 else f"{100 * part:.2f} %"


def others_on(nll, files):
    """Methods of other packages that have a result on all files."""
    others = sorted({m for _, m in nll if not m.startswith(("calibrant ", "none "))})
    return [m for m in others if all((f, m) in nll for f in files)]


def best_other(nll, files):
    """Method of another package with the lowest NLL on average."""
    whole = others_on(nll, files)
    return min(whole, key=lambda m: np.mean([np.log(nll[f, m]) for f in files]), default=None)


def losses(nll, files):
    """Say where a rival, or the best other method on average, has less NLL."""
    for method in dict.fromkeys([*RIVALS, best_other(nll, files)]):
        done = [f for f in files if (f, method) in nll]
        lost = {f: nll[f, CHAMPION] / nll[f, method] for f in done}
        lost = sorted(((r, f) for f, r in lost.items() if r > 1.0), reverse=True)
        if lost:
            words = [f"{f} ({percent(ratio - 1)})" for ratio, f in lost[:MOST_NAMED]]
            rest = f" and {len(lost) - MOST_NAMED} more" if len(lost) > MOST_NAMED else ""
            yield f"{method} has less NLL on {len(lost)} of {len(done)}: {', '.join(words)}{rest}."
        elif done:
            yield f"{method} has less NLL on none of {len(done)}."


def per_file(nll, files, base):
    """NLL of ours and of rivals, relative to that of ``base``, and who is best of the others."""
    rows = []
    for file in files:
        known = [m for f, m in nll if f == file and not m.startswith(("calibrant ", "none "))]
        best = min(known, key=lambda m: nll[file, m])
        shown = [
            nll.get((file, one), np.nan) / nll[file, base] for one in (CHAMPION, *RIVALS, best)
        ]
        cells = [f"{value:.4f}" if np.isfinite(value) else "" for value in shown]
        cells[-1] = f"{best}, {cells[-1]}"
        least = int(np.nanargmin(shown))
        cells[least] = f"**{cells[least]}**"
        rows.append([file, *cells])
    return table(["classifier", "`auto`", "SMS", "SVS", "best of all others"], rows)


def per_model(nll, files, n_rows):
    """Tabular files by size and by classifier, and NLL relative to the scores as they are."""
    models = {}
    for file in files:
        size = f"{'fewer than ' * (n_rows[file] < MANY_ROWS)}{MANY_ROWS} rows"
        models.setdefault(size if size[0] == "f" else f"{size} or more", []).append(file)
    for file in files:
        models.setdefault(file.rsplit("_", 2)[1], []).append(file)
    shown = [CHAMPION, *RIVALS, "probmetrics beta", "scikit-learn sigmoid"]
    rows = []
    for model, some in models.items():
        known = [[f for f in some if (f, m) in nll] for m in shown]
        means = [
            f"{np.mean([nll[f, m] / nll[f, RAW] for f in done]):.3f}" if done else ""
            for m, done in zip(shown, known, strict=True)
        ]
        rows.append([model, *means, wins(nll, some, RIVALS[0]), str(len(some))])
    head = ["files of", "`auto`", *(m.replace("probmetrics ", "") for m in shown[1:])]
    return table([*head, "less NLL than SMS, % of files", "files"], rows)


def sure(nll, files):
    """NLL, as it is, where classifiers are almost always right."""
    shown = [CHAMPION, RAW, *RIVALS, "scikit-learn sigmoid"]
    rows = [[f, *(f"{nll[f, m]:.2g}" if (f, m) in nll else "" for m in shown)] for f in files]
    both = [f for f in files if (f, RIVALS[0]) in nll]
    lost = sum(nll[f, RIVALS[0]] < nll[f, CHAMPION] for f in both)
    return paragraphs(
        "## Almost always right",
        f"The classifiers of the data set {SURE}. The NLL itself, not a ratio: for most of them "
        "that of the uncalibrated scores is so small that ratios to it would have no meaning. The "
        f"summary above leaves these files out; {RIVALS[0]} has a lower NLL on {lost} of "
        f"{len(both)}.",
        table(["classifier", "`auto`", "uncalibrated", *shown[2:]], rows),
    )


def small_sets(lines):
    """Return the section about few rows and about honest predictions."""
    rows = []
    for labels, base in (("real", "ts"), ("honest", "identity")):
        for size in ("tenth", "200"):
            some = [one for one in lines if (one["labels"], one["rows"]) == (labels, size)]
            ratios = np.array([float(one["auto"]) / float(one[base]) for one in some])
            files = np.array([one["file"] for one in some])
            means = [ratios[files == file].mean() for file in np.unique(files)]
            beside = "temperature scaling" if base == "ts" else "the uncalibrated scores"
            name = f"{labels} labels, {'a tenth of the rows' if size == 'tenth' else '200 rows'}"
            ends = f"{np.mean(ratios):.4f}", f"{max(means):.4f}", f"{ratios.max():.4f}"
            above = f"{100 * np.mean(ratios > 1.02):.1f}"
            rows.append([name, beside, *ends, files[ratios.argmax()], above])
    head = ["calibration set", "relative to", "mean NLL", "worst classifier", "worst draw", "which"]
    return paragraphs(
        "## Few rows, and honest scores",
        "Five random subsets of the validation part of each of the 47 classifiers, judged on the "
        "test part. Honest labels are drawn from the probabilities that are to be calibrated, so "
        "that calibration cannot improve them; their NLL is the expected one.",
        table([*head, "draws above 1.02, %"], rows),
    )


def section(values, files, kind, n_rows):
    """Return the section of a kind of data."""
    nll, base = values["nll"], BASE if kind in ("images", "text") else RAW
    beside = "our temperature scaling" if base == BASE else "the uncalibrated scores"
    ratios = np.array([nll[f, CHAMPION] / nll[f, base] for f in files])
    worst = files[int(ratios.argmax())]
    return paragraphs(
        f"## {KINDS[kind]}",
        f"{len(files)} file{'s' * (len(files) > 1)}. NLL relative to {beside}: mean "
        f"{ratios.mean():.4f}, geometric mean {gmean(ratios):.4f}, worst {ratios.max():.4f} "
        f"({worst}). Methods are ordered by their difference of NLL.",
        methods_table(values, files, base),
        "Where other packages have a lower NLL:",
        *losses(nll, files),
        per_model(nll, files, n_rows)
        if kind in ("binary", "multi")
        else per_file(nll, files, base),
    )


def overview(values, files_of):
    """One line for each kind of data."""
    nll, ece = values["nll"], values["conf-ece"]
    better = {f: min((nll[f, m] for m in RIVALS if (f, m) in nll), default=np.nan) for f, _ in nll}
    rows = []
    for name, files in files_of.items():
        ratios = [[nll[f, CHAMPION] / nll[f, base] for f in files] for base in (BASE, RAW)]
        ahead = [f for f in files if np.isfinite(better[f])]
        won = sum(nll[f, CHAMPION] < better[f] for f in ahead)
        cells = [f"{number:.3f}" for of in ratios for number in (np.mean(of), np.max(of))]
        cells += [f"{100 * np.mean([ece[f, CHAMPION] for f in files]):.2f}"]
        rows.append([name, str(len(files)), *cells, share(won, len(ahead)) if ahead else ""])
    head = ["data", "files", "NLL / our TS", "worst", "NLL / uncalibrated", "worst", "conf-ECE, %"]
    return table([*head, "less NLL than the better of SMS and SVS, % of files"], rows)


def summary(values, files_of, small):
    """Say in a few lines what is gained and what is lost."""
    nll, files = values["nll"], [f for some in files_of.values() for f in some]
    less = []
    for kind, some in files_of.items():
        mean = np.mean([nll[f, CHAMPION] / nll[f, RAW] for f in some])
        less.append(f"{100 * (1 - mean):.0f} % ({KINDS[kind].lower()})")
    ahead = []
    for method in RIVALS:
        both = [f for f in files if (f, method) in nll]
        won = sum(nll[f, CHAMPION] < nll[f, method] for f in both)
        ahead.append(f"{method} on {won} of {len(both)}")
    return paragraphs(
        f"**Gains.** The NLL of the uncalibrated scores falls on average by {', '.join(less)}. "
        f"It is lower than that of {' and of '.join(ahead)} files.",
        "**Losses.**",
        "\n".join(f"- {item}" for item in worst_results(nll, files_of, small)),
    )


def worst_results(nll, files_of, small):
    """Say where it is worst, where others are as good, and what honest scores lose."""
    files = [f for some in files_of.values() for f in some]
    for base, words in ((BASE, "our temperature scaling"), (RAW, "the uncalibrated scores")):
        ratio, file = max((nll[f, CHAMPION] / nll[f, base], f) for f in files)
        yield f"Worst file compared with {words}: {file}, {ratio:.3f} times the NLL."
    some = files_of.get("binary", [])
    for method in dict.fromkeys([*RIVALS, best_other(nll, some)]) if some else ():
        over = np.array([nll[f, CHAMPION] / nll[f, method] for f in some if (f, method) in nll])
        lost = f"{(over > 1.0).sum()} of {len(over)} files, on {(over > 1.01).sum()} by over 1 %"
        most = f", at most {percent(over.max() - 1)}" if over.max() > 1.01 else ""
        yield f"Two classes: {method} has a lower NLL on {lost}{most}."
    for kind, some in files_of.items():
        whole = others_on(nll, some) if len(some) > 1 else []
        level = [m for m in whole if interval(nll, some, m)[2] >= 0]
        if level:
            yield f"{KINDS[kind]}: no clear difference from {', '.join(level)} in mean NLL."
    honest = [one for one in small if (one["labels"], one["rows"]) == ("honest", "200")]
    ratios = [float(one["auto"]) / float(one["identity"]) for one in honest]
    if ratios:
        yield (
            f"Scores that are honest already, 200 rows: {np.mean(ratios):.4f} times the NLL on "
            f"average, {max(ratios):.4f} times in the worst draw."
        )


def build(lines, small):
    values = {column: numbers(lines, column) for column in COLUMNS}
    ours = {line["file"]: kind_of(line) for line in lines if line["method"] == "auto"}
    n_rows = {line["file"]: int(line["rows"]) for line in lines if line["method"] == "auto"}
    files_of = {kind: sorted(f for f in ours if ours[f] == kind) for kind in KINDS}
    files_of = {kind: files for kind, files in files_of.items() if files}
    always_right = sorted(f for f in ours if ours[f] == "sure")
    old = [f for kind in ("images", "text") for f in files_of.get(kind, [])]
    named = {f"the {len(old)}: images and text": old} if old else {}
    named |= {KINDS[kind].lower(): files for kind, files in files_of.items()}
    return paragraphs(
        "# Quality",
        f"`AutoCalibrator` and the methods of other packages, all with their defaults, on "
        f"{len(ours)} real classifiers. Each method was fitted to the validation part of a file "
        "and judged on its test part. TS is temperature scaling; SMS and SVS are structured matrix "
        "and vector scaling of the package probmetrics."
        + (
            f" The summary leaves out the {len(always_right)} classifiers that are "
            "[almost always right](#almost-always-right)."
            if always_right
            else ""
        ),
        summary(values, files_of, small),
        "All methods were given the same probabilities. No setting was chosen by the test parts; "
        "[AutoCalibrator](../explanation/auto.md#how-its-settings-were-chosen) explains how the "
        "settings were chosen. Percentages of files have Wilson intervals of 95 %. Differences of "
        "NLL are geometric means of ratios, with a bootstrap interval over classifiers. A method "
        "that fails on a file, or exceeds the time limit, has no value for it.",
        overview(values, named),
        *(section(values, files, kind, n_rows) for kind, files in files_of.items()),
        sure(values["nll"], always_right) if always_right else "",
        small_sets(small) if small else "",
        "## How to repeat it",
        "```sh\nmake bench-peers DATA=DIR\npython benchmarks/small_sets.py DIR\n"
        "python tools/write_quality.py\n```",
    )


def read(path):
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main(folder=ROOT / "build", output=ROOT / "docs" / "evidence" / "quality.md"):
    page = build(*(read(Path(folder) / name) for name in ("quality.csv", "small.csv")))
    Path(output).write_text(page + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
