"""Prediction files of the experiments: a quarter of the rows for val, as in the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._atomic_file import replace_file

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray


def split_rows(n_rows: int, seed: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split rows 25 / 75 into a val and a test part, as the paper does: sorted row numbers."""
    order = np.random.RandomState(seed).permutation(n_rows)  # as published splits
    n_val = round(n_rows / 4)
    return np.sort(order[:n_val]).astype(np.int64), np.sort(order[n_val:]).astype(np.int64)


def write_predictions(path: str | os.PathLike[str], **arrays: Any) -> Path:
    """Write arrays ``val_labels``, ``val_probs``, ... to an npz file, whole or not at all."""
    path = Path(path)
    with replace_file(path) as file:
        np.savez_compressed(file, **arrays)
    return path
