"""Write the tables of why-na-fir-is-convex.md: ``python tools/measure_na_fir.py FOLDER``.

Run it with OMP_NUM_THREADS=1, for seconds of one thread.

The folder holds one ``.npz`` file for each classifier, with ``val_labels``, ``test_labels`` and
``val_probs`` / ``test_probs`` or ``val_logits`` / ``test_logits``.
"""

import re
import sys
import warnings
from pathlib import Path

import numpy as np
from evidence import fill

from calibrant import (
    FlattenedIsotonic,
    NormalizationAwareIsotonic,
    TemperatureScaling,
)
from calibrant import _gate as gate
from calibrant._solvers.flattened import solve_flattened
from calibrant._solvers.normalization_aware.prior import build_likelihood
from calibrant.metrics import confidence_ece
from calibrant.study import SLSQP, Annealing, Penalty, ProjectedGradient, TrustConstr

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "why-na-fir-is-convex.md"
SIX = (
    "banking_logreg",
    "cifar10_resnet18",
    "clinc_logreg",
    "hpc_lda-crossval",
    "letter_gaussian-nb",
    "ng20_nb",
)
SOLVERS = {
    "exact": [NormalizationAwareIsotonic()],
    "annealing": [Annealing(random_state=seed) for seed in (0, 1, 2)],
    **{own.search: [own] for own in (ProjectedGradient(), SLSQP(), TrustConstr(), Penalty())},
}


def load(path, part):
    with np.load(path) as file:
        labels = file[f"{part}_labels"].astype(np.int64)
        if f"{part}_probs" in file:
            return file[f"{part}_probs"].astype(np.float64), labels
        return gate.softmax(file[f"{part}_logits"].astype(np.float64)), labels


def fit(cls, rows, labels, **parameters):
    return cls(classes=np.arange(rows.shape[1]), **parameters).fit(rows, labels)


def flattened_loss(rows, labels):
    batch = gate.check_batch(rows, labels, classes=np.arange(rows.shape[1]))
    likelihood, _ = build_likelihood(batch, 0.0)
    found, report = solve_flattened(batch)
    return likelihood.evaluate(found.step_function(likelihood.rows.starts))[0], report.seconds


def solver_line(path):
    rows, labels = load(path, "val")
    loss, seconds = flattened_loss(rows, labels)
    cells = [path.stem, f"{rows.shape[0]:,} x {rows.shape[1]}", f"{loss:.5f} ({seconds:.3f} s)"]
    for name, solvers in SOLVERS.items():
        told = {"prior_strength": 0, "classes": np.arange(rows.shape[1])}
        reports = [own.set_params(**told).fit(rows, labels).solver_report_ for own in solvers]
        best = min(reports, key=lambda report: report.objective)
        mark = "**" if name == "exact" else ""
        cells.append(f"{mark}{best.objective:.5f}{mark} ({best.seconds:.3f} s)")
    return cells


def quality(paths):
    methods = {
        "uncalibrated": None,
        "temperature scaling": (TemperatureScaling, {}),
        "FIR": (FlattenedIsotonic, {}),
        "NA-FIR by annealing": (Annealing, {"random_state": 0}),
        "NA-FIR, no prior": (NormalizationAwareIsotonic, {"prior_strength": 0}),
        "NA-FIR, s = 20": (NormalizationAwareIsotonic, {"prior_strength": 20}),
        "**NA-FIR, default**": (NormalizationAwareIsotonic, {}),
    }
    losses = {name: [] for name in methods}
    errors = {name: [] for name in methods}
    for path in paths:
        rows, labels = load(path, "val")
        new, truth = load(path, "test")
        for name, method in methods.items():
            out = new if method is None else fit(method[0], rows, labels, **method[1])
            out = out if method is None else out.predict_proba(new)
            own = out[np.arange(len(truth)), truth]
            losses[name].append(-np.mean(np.log(np.maximum(own, 1e-12))))
            errors[name].append(100.0 * confidence_ece(truth, out))
    scaled, flattened = np.array(losses["temperature scaling"]), np.array(losses["FIR"])
    for name in methods:
        ratio = np.array(losses[name]) / scaled
        better = int(np.sum(np.array(losses[name]) < flattened))
        yield [
            name,
            f"{ratio.mean():.3f}",
            f"{ratio.max():.3f}",
            f"{np.mean(errors[name]):.2f}",
            f"{better} of {len(paths)}" if name != "FIR" else "-",
        ]


def table(head, lines):
    rule = ["---"] * len(head)
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *lines])


def replace(text, name, new):
    pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
    return re.sub(pattern, lambda found: f"{found[1]}\n{new}\n\n{found[2]}", text, flags=re.DOTALL)


def main():
    warnings.simplefilter("ignore")
    paths = sorted(Path(sys.argv[1]).glob("*.npz"))
    chosen = [path for path in paths if path.stem in SIX]
    text = PAGE.read_text(encoding="utf-8")
    head = ["file", "rows x classes", "FIR", *SOLVERS]
    text = replace(text, "solvers", table(head, [solver_line(path) for path in chosen]))
    head = ["method", "NLL / TS", "worst file", "conf-ECE %", "NLL below FIR's"]
    lines = list(quality(paths))
    text = replace(text, "quality", table(head, lines))
    better = {line[0]: line[-1].split()[0] for line in lines}
    values = {
        "files": f"{len(paths)}",
        "default-beats-fir": better["**NA-FIR, default**"],
        "plain-beats-fir": better["NA-FIR, no prior"],
    }
    text = fill(text, values)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
