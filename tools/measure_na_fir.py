"""Write the tables of why-na-fir-is-convex.md: ``python tools/measure_na_fir.py FOLDER STUDY.csv``.

Run it with OMP_NUM_THREADS=1, for seconds of one thread. The second table is that of a study with
all methods and ``na-fir-annealing``.

The folder holds one ``.npz`` file for each classifier, with ``val_labels``, ``test_labels`` and
``val_probs`` / ``test_probs`` or ``val_logits`` / ``test_logits``.
"""

import re
import sys
import warnings
from pathlib import Path
from time import process_time

import numpy as np
from evidence import fill

from calibrant import NormalizationAwareIsotonic
from calibrant import _gate as gate
from calibrant._solvers.normalization_aware import build_likelihood
from calibrant._solvers.one_vs_rest import solve_flattened
from calibrant.study import (
    SLSQP,
    Annealing,
    Penalty,
    ProjectedGradient,
    TrustConstr,
    read_table,
)

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


def flattened_loss(rows, labels):
    batch = gate.check_batch(rows, labels, classes=np.arange(rows.shape[1]))
    likelihood, _ = build_likelihood(batch, 0.0)
    began = process_time()
    found, _ = solve_flattened(batch)
    seconds = process_time() - began
    return likelihood.evaluate(found.step_function(likelihood.rows.starts))[0], seconds


def timed_fit(own, rows, labels):
    began = process_time()
    report = own.fit(rows, labels).solver_report_
    return report.objective, process_time() - began


def solver_line(path):
    rows, labels = load(path, "val")
    loss, seconds = flattened_loss(rows, labels)
    cells = [path.stem, f"{rows.shape[0]:,} x {rows.shape[1]}", f"{loss:.5f} ({seconds:.3f} s)"]
    for name, solvers in SOLVERS.items():
        told = {"prior_strength": 0, "classes": np.arange(rows.shape[1])}
        loss, seconds = min(timed_fit(own.set_params(**told), rows, labels) for own in solvers)
        mark = "**" if name == "exact" else ""
        cells.append(f"{mark}{loss:.5f}{mark} ({seconds:.3f} s)")
    return cells


def quality(study):
    methods = {
        "uncalibrated": "uncalibrated",
        "temperature scaling": "ts",
        "FIR": "fir",
        "NA-FIR by annealing, no prior": "na-fir-annealing",
        "NA-FIR, no prior": "na-fir-paper",
        "**NA-FIR, default**": "na-fir",
    }
    nll, error = study.wide("nll"), 100 * study.wide("conf-ece")
    for name, method in methods.items():
        ratio = nll[method] / nll["ts"]
        better = f"{(nll[method] < nll['fir']).sum()} of {len(nll)}"
        yield [
            name,
            f"{ratio.mean():.3f}",
            f"{ratio.max():.3f}",
            f"{error[method].mean():.2f}",
            better if method != "fir" else "-",
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
    study = read_table(Path(sys.argv[2]))
    lines = list(quality(study))
    text = replace(text, "quality", table(head, lines))
    better = {line[0]: line[-1].split()[0] for line in lines}
    values = {
        "files": f"{len(study.cases)}",
        "default-beats-fir": better["**NA-FIR, default**"],
        "plain-beats-fir": better["NA-FIR, no prior"],
    }
    text = fill(text, values)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
