"""What ``beside.py`` runs in each environment, with the public names that all releases have.

``beside_worker.py`` alone answers requests, a line of JSON each; ``beside_worker.py first METHOD``
and ``memory METHOD`` are for processes that have done nothing before.
"""

import json
import re
import statistics
import sys
import warnings
from importlib import metadata
from pathlib import Path
from time import process_time

import numpy as np

import calibrant
from measure import rows_of, seconds_of, simulate

SMALL = (650, 10)
FITTED = {}

# What later releases have other defaults for, as the first had it.
NO_PRIOR = {"prior_strength": 0.0}
AS_FIRST = {
    "TemperatureScaling": NO_PRIOR,
    "StructuredScaling": NO_PRIOR,
    "MonotoneSpline": NO_PRIOR,
    "OneVsRestIsotonic": NO_PRIOR,
    "OneVsRestHistogram": NO_PRIOR,
    "MatrixScaling": {"odir": 0.0},
}


def make(method, n_classes=None, **parameters):
    """An unfitted calibrator; parameters that a release does not have are left out."""
    cls = getattr(calibrant, method, None) or getattr(calibrant.study, method)
    wanted = {
        "classes": n_classes and np.arange(n_classes),
        **AS_FIRST.get(method, {}),
        **parameters,
    }
    return cls(**{name: wanted[name] for name in wanted if name in cls().get_params()})


def fit(method, source, n_jobs=None):
    """Fit to a source, and keep what was fitted."""
    p, y = rows_of(source)
    parameters = {"n_jobs": n_jobs} if n_jobs else {}
    FITTED[method, source] = make(method, p.shape[1], **parameters).fit(p, y)


def predict(method, source, n_rows, n_jobs=None):
    """Return what predicts so many rows of a source."""
    if (method, source) not in FITTED:
        fit(method, source)
    calibrator, p = FITTED[method, source], rows_of(source)[0]
    if n_jobs:
        calibrator.set_params(n_jobs=n_jobs)
    rows = np.resize(p, (n_rows, p.shape[1]))
    return lambda: calibrator.predict_proba(rows)


def answer(do, method=None, source=None, n_rows=None, n_jobs=None, **rest):
    if do == "fit":
        rows_of(source)  # made before the clock starts
        return seconds_of(lambda: fit(method, source, n_jobs))
    if do == "predict":
        return seconds_of(predict(method, source, n_rows, n_jobs))
    if do == "has":
        return method in calibrant.AutoCalibrator().get_params()
    if do == "forget":
        FITTED.clear()
        return rows_of.cache_clear()
    if do == "versions":
        names = ("calibrant", "numpy", "scipy", "scikit-learn", "numba")
        known = {d.name: d.version for d in metadata.distributions()}
        return {name: known[name] for name in names if name in installed("calibrant")}
    return {"size": size, "write": write}[do](**rest)


def installed(name, seen=None):
    """A distribution and all that it needs, without extras."""
    seen = {} if seen is None else seen
    if name not in seen:
        seen[name] = metadata.distribution(name)
        for line in seen[name].requires or []:
            if "extra ==" not in line:
                installed(re.match(r"[\w.-]+", line).group(), seen)
    return seen


def size():
    """Bytes of the package and of what it needs, by distribution, without bytecode."""
    return {
        name: sum(
            path.stat().st_size
            for path in map(Path, map(found.locate_file, found.files or []))
            if path.suffix != ".pyc" and path.exists()
        )
        for name, found in installed("calibrant").items()
    }


def write(folder, methods, count):
    """Files for the command line: predictions in three formats, and models."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    from calibrant import model_file

    p, y = simulate(count, 10)
    names = np.array([f"class {i}" for i in range(10)])
    np.savez(f"{folder}/p.npz", probs=p, labels=names[y], classes=names)
    table = pa.table({"label": names[y], **{name: p[:, i] for i, name in enumerate(names)}})
    csv.write_csv(table, f"{folder}/p.csv")
    parquet.write_table(table, f"{folder}/p.parquet")
    for method in methods:
        model_file.save(make(method).fit(p, names[y]), f"{folder}/{method}.calibrant")


def first(method):
    """Seconds of the first fit and prediction of a process, and of later ones."""
    p, y = simulate(*SMALL)
    calibrator = make(method, SMALL[1])  # imports are over

    def run():
        began = process_time()
        calibrator.fit(p, y).predict_proba(p)
        return process_time() - began

    started, found = run(), []
    while len(found) < 3 or (sum(found) < 1 and len(found) < 25):
        found.append(run())
    return {"first": started, "warm": statistics.median(found)}


def memory(method):
    """Resident MiB after the import and one fit."""
    p, y = simulate(*SMALL)
    make(method, SMALL[1]).fit(p, y)
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024


def main():
    warnings.simplefilter("ignore")
    if len(sys.argv) > 1:
        print(json.dumps({"first": first, "memory": memory}[sys.argv[1]](*sys.argv[2:])))
        return
    for line in sys.stdin:
        print(json.dumps(answer(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
