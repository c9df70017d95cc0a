"""Print a digest of what every method, every metric and the command compute on small data.

``python every_number.py N_THREADS``, in a process of its own, since the build of the kernels is
chosen when they are imported. Everything is computed by each thread, all of them at once and of the
same arrays.
"""

import hashlib
import json
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from itertools import chain, repeat
from pathlib import Path

import numpy as np

from calibrant import _kernels as kernels

CALLED = set()


def compiled():
    """Every kernel, as (module, name, function)."""
    kinds = {"cython_function_or_method", "fused_cython_function"}
    for module in kernels.MODULES:
        for name, member in [*vars(sys.modules[f"calibrant._kernels.{module}"]).items()]:
            if type(member).__name__ in kinds:
                yield module, name, member


def counted(label, kernel):
    """Note that a kernel was called."""

    @wraps(kernel)
    def call(*arguments):
        CALLED.add(label)
        return kernel(*arguments)

    return call


time.perf_counter = float  # model files tell how long a fit took: no time at all
KERNELS = [*compiled()]
for place, title, function in KERNELS:  # before anybody takes them
    named = f"{place}.{title}"
    setattr(sys.modules[f"calibrant._kernels.{place}"], title, counted(named, function))

from array_chunks import ArrayChunks  # noqa: E402
from calibrant import (  # noqa: E402
    FeatureCalibrator,
    NormalizationAwareIsotonic,
    TemperatureScaling,
    metrics,
    model_file,
)
from calibrant._cli.main import run  # noqa: E402
from calibrant._solvers import normalization_aware as na_fit  # noqa: E402
from calibrant.metrics import _significance as null  # noqa: E402
from calibrant.scale import RowSample  # noqa: E402
from calibrant.study import Annealing  # noqa: E402
from calibrators.catalogue import CALIBRATORS, make  # noqa: E402
from conftest import simulate  # noqa: E402
from metrics.cases import SCALARS  # noqa: E402

SHAPES = [
    (120, 2, "probabilities", True),
    (90, 3, "logits", True),
    (150, 10, "probabilities", False),
    (70, 100, "probabilities", False),
]
"""Rows, classes, scores, and whether there are weights, which are no whole numbers then."""

SHORT = {"max_rounds": 10}
OPTIONS = {
    "NormalizationAwareIsotonic": [{}, {"prior_strength": 0}],
    "Annealing": [{"n_iterations": 300, "random_state": 0}],
    "TemperatureScaling": [{}, {"normalize": "rows"}],
    "VectorScaling": [SHORT],
    "MatrixScaling": [SHORT],
    "DirichletCalibration": [SHORT],
}
"""Ways through the solvers, where there are others than the one by default."""

na_fit.MOST_FACTORED = 10  # larger Hessians are multiplied with
null.MOST_ROWS_DRAWN = 100  # of more, labels in bins are drawn as normal


def small(n_rows, n_classes, seed=0):
    """Predictions with equal cells, equal rows and exact zeros, with labels."""
    rows, y = simulate(n_rows, n_classes, seed)
    rows = np.maximum(np.round(rows, 2), np.round(rows, 4) * (np.arange(n_rows) % 3 == 0)[:, None])
    rows[rows.sum(axis=1) == 0] = 1.0
    rows[::7] = rows[0]
    return rows / rows.sum(axis=1, keepdims=True), y


def shared(n_rows, n_classes, kind, has_weights):
    """What a fit reads, and new rows: read-only, as arrays of a map are."""
    (rows, y), (new, _) = small(n_rows, n_classes), small(50, n_classes, 1)
    weights = np.random.default_rng(2).gamma(0.5, 2.0, n_rows) if has_weights else np.ones(n_rows)
    if kind == "logits":
        with np.errstate(divide="ignore"):
            rows, new = np.log(rows), np.log(new)
    data = rows, y, weights, new
    for array in data:
        array.flags.writeable = False
    return data


def fit(cls, options, data):
    """Yield the model file and its predictions."""
    rows, y, weights, new = data
    calibrator = make(cls, **options).fit(rows, y, sample_weight=weights)
    yield model_file.dumps(calibrator)
    yield calibrator.predict_proba(new).tobytes()
    yield calibrator.predict(new).tobytes()


def fit_with_features(data):
    """Yield predictions of what reads trees, of few classes."""
    rows, y, weights, new = data
    if rows.shape[1] == 2:
        calibrator = FeatureCalibrator(TemperatureScaling(), cv=2)
        calibrator.fit(rows, y, sample_weight=weights, features=np.arange(len(y)) % 5)
        yield calibrator.predict_proba(new, features=np.arange(len(new)) % 5).tobytes()
        for trees in calibrator.trees_:
            yield trees.threshold.tobytes()


def measure(data):
    """Yield every metric, intervals and tests."""
    rows, y, weights, _ = data
    for metric in SCALARS.values():
        yield repr(metric(y, rows, sample_weight=weights)).encode()
    for result in (
        metrics.evaluate(y, rows, sample_weight=weights, n_resamples=20),
        metrics.reliability_curve(y, rows, sample_weight=weights),
        metrics.calibration_test(y, rows, n_resamples=20),
        metrics.calibration_test(y, rows, n_resamples=20, metric="classwise"),
        metrics.calibration_segments(y, rows, np.arange(len(y))[:, None] % 5, min_rows=10),
    ):
        yield json.dumps(result.to_dict()).encode()


def measure_chunks(data):
    """Yield what metrics count of chunks, and what is fitted to a sample of their rows."""
    rows, y, weights, new = data
    classes = np.arange(rows.shape[1])
    chunks = ArrayChunks(rows, y, np.maximum(weights, 1e-3), n_rows=50)
    yield json.dumps(metrics.evaluate(chunks, n_resamples=20, classes=classes).to_dict()).encode()
    sample = chunks.sample(classes, max_cells=rows.size // 2)
    batch = sample.batch()
    yield batch.scores.tobytes() + batch.weight.tobytes()
    yield make(NormalizationAwareIsotonic).fit(sample).predict_proba(new).tobytes()
    yield repr(RowSample(classes).update(rows, y)).encode()


def command():
    """Yield the files that the command writes."""
    with tempfile.TemporaryDirectory() as home:
        source, model, out = (str(Path(home) / name) for name in ("p.npz", "m", "out.npy"))
        rows, y = small(200, 5)
        np.savez(source, probs=rows, labels=y)
        assert run(["fit", source, "-m", "na-fir", "-o", model, "--json"]) == 0
        assert run(["apply", model, source, "-o", out, "--json"]) == 0
        yield Path(model).read_bytes()
        yield Path(out).read_bytes()


def cases():
    """Yield what is computed, by name."""
    for shape in SHAPES:
        data = shared(*shape)
        for cls in (*CALIBRATORS, Annealing):
            for options in OPTIONS.get(cls.__name__, [{}]):
                way = options | {"scores": shape[2]}
                yield f"{cls.__name__} {way} {shape}", partial(fit, cls, way, data)
        if shape[2] == "probabilities":
            yield f"metrics {shape}", partial(measure, data)
            yield f"features {shape}", partial(fit_with_features, data)
            yield f"metrics of chunks {shape}", partial(measure_chunks, data)


def digest(case):
    """Hash of the bytes that a case yields."""
    return hashlib.sha256(b"".join(case())).hexdigest()


def main(n_threads):
    """Print the build, the digests, what differs between threads, and kernels never called."""
    warnings.simplefilter("ignore")
    named = dict(cases())
    with ThreadPoolExecutor(n_threads) as pool:
        repeated = chain.from_iterable(repeat(case, n_threads) for case in named.values())
        found = np.array([*pool.map(digest, repeated)]).reshape(-1, n_threads)
    digests = dict(zip(named, found[:, 0], strict=True))
    result = {
        "build": kernels.BUILD,
        "digests": digests | {"command": digest(command)},
        "differing": [name for name, each in zip(named, found, strict=True) if len(set(each)) > 1],
        "idle": sorted({f"{module}.{name}" for module, name, _ in KERNELS} - CALLED),
    }
    sys.stdout.write("\n" + json.dumps(result))


if __name__ == "__main__":
    main(int(sys.argv[1]))
