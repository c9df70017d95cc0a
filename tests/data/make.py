"""Cut the small files of this directory from the collection: ``python make.py DIRECTORY``.

Rows are drawn at random; logits are kept in half precision where there are many classes.
"""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
CUTS = {
    "hpc_lda-crossval": ("probs", 600, np.float32),
    "cifar10_vgg16-keras": ("probs", 500, np.float32),
    "ng20_cleanlab-crossval": ("probs", 500, np.float32),
    "banking_nb": ("logits", 280, np.float16),
}


def cut(source, name):
    """Write some rows of both parts of one file."""
    kind, n_rows, dtype = CUTS[name]
    rng = np.random.default_rng(0)
    with np.load(source / f"{name}.npz") as file:
        arrays = {}
        for part in ("val", "test"):
            labels = file[f"{part}_labels"]
            rows = np.sort(rng.permutation(len(labels))[:n_rows])
            arrays[f"{part}_labels"] = labels[rows]
            arrays[f"{part}_{kind}"] = file[f"{part}_{kind}"][rows].astype(dtype)
    np.savez_compressed(HERE / f"{name}.npz", **arrays)


if __name__ == "__main__":
    for name in CUTS:
        cut(Path(sys.argv[1]), name)
