"""Small HDF5 files as CalArena has them."""

import h5py
import numpy as np

from conftest import simulate

N_CAL = 80


def write_group(file, name, *, n_classes=3, seed=0, is_binary=False, **changed):
    """A classifier; ``changed`` replaces arrays, or leaves out those that are None."""
    p, y = simulate(4 * N_CAL, n_classes, seed)
    scores = p[:, 1] if is_binary else p
    arrays = {
        "probas_cal": scores[:N_CAL].astype(np.float32),
        "labels_cal": y[:N_CAL].astype(np.int32),
        "probas_test": scores[N_CAL:].astype(np.float32),
        "labels_test": y[N_CAL:].astype(np.int32),
    }
    for key, value in (arrays | changed).items():
        if value is not None:
            packed = {"compression": "gzip"} if value.size else {}
            file.create_dataset(f"{name}/{key}", data=value, **packed)
    return arrays


def write_benchmark(path, groups):
    """A file with some classifiers: {name: what ``write_group`` is to be told}."""
    with h5py.File(path, "w") as file:
        file.attrs["problem_type"] = "multiclass"
        return {name: write_group(file, name, **how) for name, how in groups.items()}
