"""Run every method in every runtime for ONNX that is installed; writes a table into a page.

    python tools/measure_runtimes.py [--node DIRECTORY] [--methods METHOD ...] [--print]

The page is evidence/exports.md. DIRECTORY is where ``npm install onnxruntime-node onnxruntime-web``
was called. A runtime that is not installed is left out, and the page says so. Each runs in a
process of its own, since some abort.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import warnings
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from calibrant._calibrators.methods import make_calibrator
from calibrant.errors import ExportError
from calibrant.export import to_onnx
from calibrant.study._methods import ALL_METHODS

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "evidence" / "exports.md"
START, END = "<!-- runtimes -->", "<!-- end of runtimes -->"

N_CLASSES, N_FIT, N_NEW = 5, 1500, 500
METHODS = [method for method in ALL_METHODS if not method.startswith("m2b")]

REFUSED = "refused"

RUNTIMES = {  # what runs it, its package, and ``precision`` of its graphs
    "ONNX Runtime": ("onnxruntime", "onnxruntime", "float64"),
    "ONNX Runtime for node.js": ("onnxruntime-node", None, "float64"),
    "ONNX Runtime for the web": ("onnxruntime-web", None, "float64"),
    "tract": ("tract", "tract", "float64"),
    "OpenVINO": ("openvino", "openvino", "float32"),
    "OpenVINO as it is": ("openvino", "openvino", "float64"),
    "onnx's reference": ("reference", "onnx", "float64"),
}


def simulate():
    """Over-confident scores in float32, with ties and zeros, as they would be served."""
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (N_FIT + N_NEW, N_CLASSES))
    honest = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (honest.cumsum(axis=1) > rng.random((len(logits), 1))).argmax(axis=1)
    bold = (1.7 * logits).astype(np.float32)
    bold[::7, 1] = bold[::7, 0]
    scores = np.exp(bold - bold.max(axis=1, keepdims=True))
    scores[::9, 2] = 0.0
    return {"logits": bold, "probabilities": scores / scores.sum(axis=1, keepdims=True)}, y


def fitted(chosen):
    """Each method on probabilities and on logits, by the name of its files."""
    scores, y = simulate()
    for kind, rows in scores.items():
        for method in chosen:
            calibrator = make_calibrator(method).set_params(scores=kind, classes=range(N_CLASSES))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of few rows
                calibrator.fit(rows[:N_FIT], y[:N_FIT])
            print("fitted", method, kind, flush=True)
            yield f"{method}_{kind}", calibrator, rows


def write_models(folder, calibrators, precision):
    """Write every graph and its rows; one that is refused has its reason instead."""
    about = []
    for name, (calibrator, rows) in calibrators.items():
        try:
            model = to_onnx(calibrator, precision=precision)
        except ExportError as error:
            (folder / f"{name}.error").write_text(f"{REFUSED}: {error}")
            continue
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
        rows.tofile(folder / f"{name}.rows")
        about.append({"name": name, "dtype": rows.dtype.name, "shape": rows.shape})
    (folder / "models.json").write_text(json.dumps(about))


def run(runtime, folder, names, modules, seconds):
    """Run all models; one that a process dies of, or does not end with, has an error."""
    command = [sys.executable, HERE / "runtime_worker.py", runtime, folder]
    if runtime.startswith("onnxruntime-"):
        command = ["node", HERE / "runtime_worker.mjs", runtime, folder, modules]
    while left := [name for name in names if not _is_done(folder, name)]:
        try:
            subprocess.run(
                command, timeout=seconds * len(left), capture_output=True, text=True, check=True
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            left = [name for name in names if not _is_done(folder, name)]
            if left:
                (folder / f"{left[0]}.error").write_text(f"{type(error).__name__}: {error.stderr}")


def _is_done(folder, name):
    return any((folder / f"{name}.{end}").exists() for end in ("found", "error"))


def gap(folder, name, calibrator, rows):
    """Largest difference from ``predict_proba``, or why there is none."""
    if (folder / f"{name}.error").exists():
        reason = (folder / f"{name}.error").read_text()
        print("   ", name, reason[:200].replace("\n", " "))
        return REFUSED if reason.startswith(REFUSED) else "fails"
    found = np.fromfile(folder / f"{name}.found", rows.dtype).reshape(rows.shape)
    gaps = np.abs(found.astype(np.float64) - calibrator.predict_proba(rows))
    return float(np.where(np.isnan(gaps), np.inf, gaps).max())


def installed(package, runtime, modules):
    """Version of a runtime; None if it is not there."""
    if package is not None:
        return version(package) if find_spec(package) else None
    file = Path(modules or ".") / "node_modules" / runtime / "package.json"
    there = modules and shutil.which("node") and file.exists()
    return json.loads(file.read_text())["version"] if there else None


def measure(chosen, modules, seconds):
    """Differences by runtime and method, and versions of the runtimes."""
    calibrators = {name: rest for name, *rest in fitted(chosen)}
    found, versions = {}, {}
    for title, (runtime, package, precision) in RUNTIMES.items():
        versions[title] = installed(package, runtime, modules)
        if versions[title] is None:
            continue
        print(title, versions[title], flush=True)
        with tempfile.TemporaryDirectory() as directory:
            folder = Path(directory)
            write_models(folder, calibrators, precision)
            run(runtime, folder, list(calibrators), modules, seconds)
            gaps = {name: gap(folder, name, *rest) for name, rest in calibrators.items()}
        for method in chosen:
            both = [gaps[f"{method}_{kind}"] for kind in ("probabilities", "logits")]
            words = [one for one in both if isinstance(one, str)]
            found[title, method] = words[0] if words else max(both)
    return found, versions


def table(found, versions, chosen):
    """The table, and what was not run."""
    titles = [title for title, one in versions.items() if one is not None]
    names = [f"{title}, {versions[title].split('-')[0]}" for title in titles]
    lines = [
        "| | " + " | ".join(names) + " |",
        "| --- |" + " ---: |" * len(titles),
        "| `precision=` | " + " | ".join(f"`{RUNTIMES[title][2]}`" for title in titles) + " |",
    ]
    for method in chosen:
        gaps = [found[title, method] for title in titles]
        cells = [one if isinstance(one, str) else f"{one:.0e}" if one else "0" for one in gaps]
        lines.append(f"| `{method}` | " + " | ".join(cells) + " |")
    missing = [title for title in versions if title not in titles]
    if missing:
        lines += ["", f"Not installed here: {', '.join(missing)}."]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--node", type=Path, help="where npm installed the runtimes of node.js")
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each model, at most")
    parser.add_argument("--print", action="store_true", help="leave the page as it is")
    given = parser.parse_args()
    new = table(*measure(given.methods, given.node, given.seconds), given.methods)
    print(new)
    if not given.print:
        text = PAGE.read_text()
        before, rest = text.split(START)
        PAGE.write_text(f"{before}{START}\n\n{new}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
