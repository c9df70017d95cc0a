"""Draw the pictures of README and docs: ``python tools/make_images.py [FILE.npz]``.

By default an over-confident network on the digits of scikit-learn; or a file with ``val_probs``,
``val_labels``, ``test_probs`` and ``test_labels``. With playwright and Chromium installed, the
report of the demo is photographed as well.
"""

from __future__ import annotations

import doctest
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from PIL import Image

import calibrant
from calibrant import _drawing as style
from calibrant._files.formats import read_prediction_file
from calibrant.datasets import naive_bayes, overconfident_digits
from calibrant.decisions import cost_curve, decision_curve
from calibrant.metrics import (
    calibration_test,
    confidence_ece,
    negative_log_likelihood,
    reliability_curve,
)
from calibrant.monitor import CalibrationMonitor
from calibrant.plots import (
    compute_classwise,
    compute_map,
    draw_classwise,
    draw_decisions,
    draw_map,
    draw_reliability,
    draw_reliability_grid,
)
from calibrant.report import compare, write_report

mpl.use("Agg")

IMAGES = Path(__file__).parents[1] / "docs" / "images"


def load(path):
    with np.load(path) as file:
        return [file[f"{part}_{name}"] for part in ("val", "test") for name in ("probs", "labels")]


def save(figure, name, dpi=120):
    figure.savefig(IMAGES / f"{name}.png", dpi=dpi)
    plt.close(figure)
    shrink(IMAGES / f"{name}.png")


def shrink(path):
    """Keep 256 colours: a third of the size, and no difference that can be seen."""
    with Image.open(path) as image:
        few = image.convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE)
    few.save(path, optimize=True)
    print(path)


def draw_all(data):
    scores, y, new_scores, new_y = data
    fitted = {
        "one-vs-rest isotonic": calibrant.OneVsRestIsotonic(),
        "NormalizationAwareIsotonic": calibrant.NormalizationAwareIsotonic(),
    }
    found = {"uncalibrated": new_scores}
    for name, calibrator in fitted.items():
        found[name] = calibrator.fit(scores, y).predict_proba(new_scores)
    notes = {name: [f"NLL {negative_log_likelihood(new_y, p):.3f}"] for name, p in found.items()}
    curves = {name: reliability_curve(new_y, p) for name, p in found.items()}
    save(draw_reliability_grid(curves, notes=notes), "reliability-grid")

    save(draw_classwise(compute_classwise(new_y, new_scores, n_worst=5)), "classwise")

    ts = calibrant.TemperatureScaling().fit(scores, y)
    scir = calibrant.SortedCumulativeIsotonic().fit(scores, y)
    figure, axes = style.new_grid(3, 3, (4.0, 4.4))
    draw_map(compute_map(ts), axes[0], title="TemperatureScaling")
    draw_map(
        compute_map(fitted["NormalizationAwareIsotonic"]),
        axes[1],
        title="NormalizationAwareIsotonic",
    )
    draw_map(compute_map(scir), axes[2], title="SortedCumulativeIsotonic")
    save(figure, "maps")


def draw_landing(data):
    """Draw the picture of README and the landing page: large type, to be read on a telephone."""
    scores, y, new_scores, new_y = data
    found = {"uncalibrated": new_scores}
    methods = {"one-vs-rest isotonic": calibrant.OneVsRestIsotonic()}
    methods["calibrant"] = calibrant.AutoCalibrator()
    for name, calibrator in methods.items():
        found[name] = calibrator.fit(scores, y).predict_proba(new_scores)
    size = {"figsize": (8.4, 3.1), "layout": "constrained"}
    figure, axes = plt.subplots(1, 3, sharey=True, **size)
    for ax, (name, p) in zip(axes, found.items(), strict=True):
        draw_large(ax, new_y, p, style.BLUE if name == "calibrant" else style.VERMILION)
        ax.set_title(name, fontsize=14, fontweight="bold")
    axes[0].set_ylabel("accuracy", fontsize=13)
    save(figure, "reliability", dpi=140)


def draw_large(ax, y, p, colour):
    """Draw one diagram with the gap shaded, and its size beside what chance alone would give."""
    test, curve = calibration_test(y, p), reliability_curve(y, p)
    # Bins of a few rows tell nothing, and are left out as in the package's own diagrams.
    known = curve.consistency_high - curve.consistency_low < 0.75
    x, right = curve.mean_probability[known], curve.frequency[known]
    band = curve.consistency_low[known], curve.consistency_high[known]
    ax.fill_between(x, *band, color="#E0E0E0", linewidth=0)
    ax.plot([0, 1], [0, 1], color=style.GREY, linestyle=":", linewidth=2)
    ax.fill_between(x, x, right, color=colour, alpha=0.3, linewidth=0)
    ax.plot(x, right, color=colour, linewidth=2.6, marker="o", markersize=6)
    corner = {"x": 1.0, "ha": "right"}
    words = f"ECE {100 * test.statistic:.1f} %"
    ax.text(**corner, y=0.16, s=words, fontsize=16, fontweight="bold", color=colour)
    words = f"chance: {100 * test.null_mean:.1f} %"
    ax.text(**corner, y=0.03, s=words, fontsize=13, color=style.GREY)
    ax.set(xlim=(0, 1.02), ylim=(0, 1.02))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.tick_params(labelsize=13)
    ax.set_xlabel("confidence", fontsize=13)
    ax.spines[["top", "right"]].set_visible(False)


def draw_letters():
    """Draw how often each letter is right, and how often a language model says so."""
    logs = Path(__file__).parents[1] / "tests" / "data" / "logs"
    names = [f"mmlu_yi-34b-chat_{part}.jsonl" for part in ("val", "test")]
    parts = [read_prediction_file(logs / name) for name in names]
    (z, y), (new_z, new_y) = ((log.scores, log.labels) for log in parts)
    letters = parts[0].place.names
    shown = {"how often it is right": np.array([np.mean(new_y == letter) for letter in letters])}
    told = {"scores": "logits", "classes": letters}
    for name, calibrator in {
        "the model": calibrant.TemperatureScaling(prior_strength=1e12, **told),
        "temperature scaling": calibrant.TemperatureScaling(**told),
        "auto": calibrant.AutoCalibrator(**told),
    }.items():
        shown[name] = calibrator.fit(z, y).predict_proba(new_z).mean(axis=0)
    figure, axes = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
    colours = (style.BLACK, style.VERMILION, style.ORANGE, style.BLUE)
    for i, ((name, shares), colour) in enumerate(zip(shown.items(), colours, strict=True)):
        place = np.arange(len(letters)) + 0.2 * (i - 1.5)
        axes.bar(place, 100 * shares, 0.18, color=colour, label=name)
    axes.set_xticks(np.arange(len(letters)), letters)
    axes.set_xlabel("option")
    axes.set_ylabel("mean probability, %")
    axes.set_title("Yi-34B-chat on MMLU: 300 questions", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    save(figure, "letters")


def examples_of(page, before):
    """Run the examples of a page up to a heading, and return the names they define."""
    text = (IMAGES.parent / page).read_text(encoding="utf-8")
    told = {}
    for example in doctest.DocTestParser().get_examples(text[: text.index(before)]):
        exec(example.source, told)
    return told


def draw_ten_minutes():
    """Draw the picture of the first page, by its own lines."""
    save(examples_of("start/ten-minutes.md", "## Save")["figure"], "ten-minutes")


def draw_decision_pictures():
    """Draw the pictures of the guide to decisions, from the data of its own first examples."""
    told = examples_of("guides/decisions.md", "## Compute the threshold")
    y, raw, honest, use = (told[name] for name in ("y", "raw", "honest", "use"))
    named = {"as they came": raw[use], "calibrated": honest[use]}
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
    for place, (ax, (name, p)) in enumerate(zip(axes, named.items(), strict=True)):
        curve = reliability_curve(y[use], p, strategy="quantile")
        draw_reliability(curve, ax, title=name, place=place)
    save(figure, "decisions")
    costs = {"false_positive": 300, "false_negative": 5_000}
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    lines = {name: cost_curve(y[use], p, costs) for name, p in named.items()}
    draw_decisions(lines, axes[0], title="cost of an application, euros")
    points = np.linspace(0.005, 0.5, 100)
    lines = {name: decision_curve(y[use], p, thresholds=points) for name, p in named.items()}
    draw_decisions(lines, axes[1], title="net benefit of refusing")
    save(figure, "decision-curves")


def draw_honest():
    """Draw what honest predictions look like, and their ECE by the number of rows."""
    rng = np.random.default_rng(0)

    def draw_labels(p):
        return (p.cumsum(axis=1) > rng.random((len(p), 1))).argmax(axis=1)

    honest = rng.dirichlet([1, 1, 1], size=2000)
    y, figure, axes = (
        draw_labels(honest),
        *plt.subplots(1, 3, figsize=(8.6, 3.1), layout="constrained"),
    )
    bold = honest**2 / (honest**2).sum(axis=1, keepdims=True)
    for place, (name, p) in enumerate({"honest": honest, "over-confident": bold}.items()):
        draw_reliability(reliability_curve(y, p), axes[place], title=name, place=place)
    sizes = np.array([100, 300, 1000, 3000, 10_000, 30_000])
    for place, k in enumerate((3, 10)):
        means = []
        for size in sizes:
            drawn = [rng.dirichlet(np.ones(k), size=size) for _ in range(30)]
            means.append(np.mean([confidence_ece(draw_labels(p), p) for p in drawn]))
        look = style.look(place)._asdict()
        axes[2].plot(sizes, 100 * np.array(means), label=f"{k} classes", **look)
    axes[2].set(xscale="log", ylim=(0, None), xlabel="rows", ylabel="conf-ECE, %")
    axes[2].set_xticks([100, 1000, 10_000], ["100", "1,000", "10,000"])
    axes[2].minorticks_off()
    axes[2].set_title("honest, by rows", fontweight="bold", fontsize="medium")
    axes[2].spines[["top", "right"]].set_visible(False)
    axes[2].legend(frameon=False)
    save(figure, "honest")


def draw_rows():
    """Draw the NLL on new rows by the number of rows in the calibration set."""
    from sklearn.datasets import make_classification
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.naive_bayes import GaussianNB

    boosting = HistGradientBoostingClassifier(max_iter=40, class_weight="balanced", random_state=0)
    two = make_classification(
        45_000, n_informative=6, class_sep=0.8, weights=[0.95], flip_y=0.0, random_state=0
    )
    several = {"n_informative": 8, "n_redundant": 12, "n_classes": 10, "n_clusters_per_class": 1}
    ten = make_classification(45_000, class_sep=1.2, random_state=0, **several)
    plain = {"isotonic, as in scikit-learn": calibrant.OneVsRestIsotonic(prior_strength=0)}
    default = {"AutoCalibrator": calibrant.AutoCalibrator()}
    methods = (
        {"sigmoid": calibrant.OneVsRestPlatt(), **plain, **default},
        {"temperature scaling": calibrant.TemperatureScaling(), **plain, **default},
    )
    sizes, n_draws = np.array([50, 100, 200, 500, 1000, 2000, 5000, 10_000]), 10
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.9), layout="constrained")
    titles = ("two classes, 5 % of the rows positive", "ten classes")
    jobs = zip(axes, (two, ten), (boosting, GaussianNB()), methods, titles, strict=True)
    for ax, (X, labels), classifier, tried, title in jobs:
        p = classifier.fit(X[:5000], labels[:5000]).predict_proba(X[5000:])
        y = labels[5000:]
        pool, judged = slice(20_000), slice(20_000, None)
        raw = negative_log_likelihood(y[judged], p[judged])
        for place, (name, calibrator) in enumerate(tried.items()):
            found = np.empty((n_draws, len(sizes)))
            for draw in range(n_draws):
                order = np.random.default_rng(draw).permutation(20_000)
                for i, size in enumerate(sizes):
                    kept = order[:size]
                    calibrator.set_params(classes=range(p.shape[1]))
                    calibrator.fit(p[pool][kept], y[pool][kept])
                    q = calibrator.predict_proba(p[judged])
                    found[draw, i] = negative_log_likelihood(y[judged], q)
            look = style.look(place)._asdict()
            ax.plot(sizes, found.mean(axis=0), label=name, **look)
            ax.fill_between(
                sizes, found.min(axis=0), found.max(axis=0), color=look["color"], alpha=0.15, lw=0
            )
        ax.axhline(raw, color=style.GREY, linestyle=":", linewidth=2)
        ax.text(10_000, 1.02 * raw, "uncalibrated", ha="right", va="bottom", color=style.GREY)
        style.tidy(ax)
        ax.set(xscale="log", ylim=(None, 1.6 * raw), xlabel="rows in the calibration set")
        ax.set_xticks(
            sizes[[0, 1, 3, 4, 6, 7]], [f"{size:,}" for size in sizes[[0, 1, 3, 4, 6, 7]]]
        )
        ax.minorticks_off()
        style.add_heading(ax, title)
        ax.legend(frameon=False, loc="upper right")
    axes[0].set_ylabel("NLL on 20,000 new rows")
    save(figure, "rows")


def draw_e_values():
    """Draw the evidence of a monitor beside the ECE of chunks, before and after a change."""
    rng, monitor, n_rows = np.random.default_rng(0), CalibrationMonitor(alpha=0.01), 1000
    evidence, errors = [], []
    for power in [1.0] * 10 + [0.7] * 4:
        p = rng.dirichlet([0.6, 0.6, 0.6], n_rows)
        q = p**power / (p**power).sum(axis=1, keepdims=True)
        y = (q.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
        found = [monitor.update(p[part], y[part]) for part in np.split(np.arange(n_rows), 10)]
        evidence += [status.log_e_value / np.log(10) for status in found]
        errors.append(100 * confidence_ece(y, p))
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
    axes[0].plot(100 * np.arange(1, len(evidence) + 1), evidence, color=style.BLUE)
    axes[0].axhline(2, color=style.VERMILION, linestyle="--")
    axes[0].text(0, 3, "alarm at 1 / alpha = 100", color=style.VERMILION)
    axes[0].set_title("e-value of the monitor: its power of ten", loc="left")
    axes[1].plot(n_rows * np.arange(1, len(errors) + 1), errors, color=style.BLUE, marker="o")
    axes[1].set_title("conf-ECE of each 1,000 rows, %", loc="left")
    axes[1].set_ylim(0, None)
    for ax in axes:
        ax.axvline(10_000, color=style.GREY, linestyle=":")
        ax.set_xlabel("rows; the labels change at the dotted line")
        ax.spines[["top", "right"]].set_visible(False)
    save(figure, "e-values")


def photograph():
    """Take pictures of the report of ``calibrant demo``."""
    scores, y, new_scores, new_y = naive_bayes()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        print("no playwright or no Chromium: the report is not photographed")
        return
    sources = {"calibration": "val.npz", "test": "test.npz"}
    comparison = compare(y, scores, new_y, new_scores, sources=sources)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        path = Path(folder) / "report.html"
        write_report(path, comparison, title="Naive Bayes")
        browser = driver.chromium.launch(
            executable_path=chromium, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(path.as_uri())
        page.screenshot(path=IMAGES / "report.png")
        browser.close()
    shrink(IMAGES / "report.png")


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    predictions = load(sys.argv[1]) if len(sys.argv) > 1 else overconfident_digits()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrant.errors.CalibrantWarning)
        draw_landing(predictions)
        draw_ten_minutes()
        draw_all(predictions)
        draw_letters()
        draw_decision_pictures()
        draw_honest()
        draw_e_values()
        draw_rows()
        photograph()
