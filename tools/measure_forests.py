"""Forests behind ONNX: rows on which ONNX Runtime and ``predict_proba`` differ.

    OMP_NUM_THREADS=1 build/export/bin/python tools/measure_forests.py [ROWS] [METHOD ...]

prints a Markdown table: for random forests of 100 and 500 trees over 2, 5 and 26 classes, fully
grown and of leaves with five rows or more, and for each method, how many of the test rows get a
probability that differs by more than 1e-5. Features are float32; the calibrator is fitted to the
scores that scikit-learn's forest gives, and merged behind the forest that skl2onnx writes.
"""

from __future__ import annotations

import sys
import warnings
from itertools import product
from typing import Any

import numpy as np
import onnxruntime
import skl2onnx
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from calibrant._calibrators.methods import make_calibrator
from calibrant.export import merge_onnx

METHODS = ["na-fir", "scir", "fir", "ir-ovr", "hb-ovr", "bbq-ovr", "scw", "m2b-ir", "auto"]
TREES, CLASSES, LEAVES = (100, 500), (2, 5, 26), (1, 5)
MOST = 1e-5
N_TRAIN, N_VAL = 2000, 4000


def make_data(n_classes: int, n_rows: int) -> tuple[Any, Any]:
    """Rows of overlapping classes, in float32."""
    X, y = make_classification(
        n_rows, 16, n_informative=10, n_redundant=2, n_classes=n_classes, n_clusters_per_class=2,
        class_sep=1.0, flip_y=0.1, random_state=n_classes,
    )  # fmt: skip
    return X.astype(np.float32), y


def open_session(model: Any) -> onnxruntime.InferenceSession:
    """Session on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def measure(n_trees: int, n_classes: int, leaf: int, n_test: int, methods: list[str]) -> None:
    """Print a row of the table for each method."""
    X, y = make_data(n_classes, N_TRAIN + N_VAL + n_test)
    parts = np.split(np.arange(len(X)), [N_TRAIN, N_TRAIN + N_VAL])
    forest = RandomForestClassifier(n_trees, min_samples_leaf=leaf, random_state=0)
    forest.fit(X[parts[0]], y[parts[0]])
    val, test = forest.predict_proba(X[parts[1]]), forest.predict_proba(X[parts[2]])
    graph = skl2onnx.to_onnx(forest, X[:1], options={"zipmap": False}, target_opset=18)
    (_, scores) = open_session(graph).run(None, {"X": X[parts[2]]})
    apart = np.abs(scores - test).max()
    for method in methods:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            calibrator = make_calibrator(method).fit(val, y[parts[1]])
        merged = merge_onnx(graph, calibrator, output="probabilities")
        wanted = calibrator.predict_proba(test)
        got = open_session(merged).run(["calibrated"], {"X": X[parts[2]]})[0]
        far = np.abs(got - wanted).max(axis=1)
        print(
            f"| {n_trees} | {n_classes} | {leaf} | {apart:.1e} | {method} "
            f"| {np.count_nonzero(far > MOST)} of {n_test} | {far.max():.1e} |",
            flush=True,
        )


def main() -> None:
    """Print the table."""
    n_test = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    methods = sys.argv[2:] or METHODS
    print("| trees | classes | rows in a leaf | forests apart | method | rows apart | most |")
    print("|---|---|---|---|---|---|---|")
    for n_trees, n_classes, leaf in product(TREES, CLASSES, LEAVES):
        measure(n_trees, n_classes, leaf, n_test, methods)


if __name__ == "__main__":
    main()
