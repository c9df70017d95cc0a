"""Simulate predictions of the size of ImageNet-1k: ``python paper/simulate.py FILE.npz [SEED]``."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _gate as gate
from prediction_files import write_predictions

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from numpy.typing import NDArray

SPREAD = 3.0
TEMPERATURE = 0.5
CHUNK = 1000


def simulate_imagenet(
    path: str | os.PathLike[str],
    *,
    seed: int = 0,
    n_val: int = 12_500,
    n_test: int = 37_500,
    n_classes: int = 1000,
    degrees_of_freedom: float | None = 6.0,
) -> Path:
    """Write a prediction file of a simulated classifier that is over-confident by a factor of two.

    The label of a row is drawn from softmax(z) and the prediction is softmax(z / 0.5), where the
    entries of z are independent, with spread 3 and heavy tails.

    Parameters
    ----------
    path : path-like
        ``dataset_model.npz`` in the directory of a study.
    seed : int, default=0
    n_val, n_test, n_classes : int
        By default those of ImageNet-1k in the paper.
    degrees_of_freedom : float or None, default=6.0
        Of the Student t distribution of z / 3. Six give an accuracy of 75 % at 1,000 classes, as
        real networks have there; None is the normal distribution, which gives 27 %.

    Returns
    -------
    path : Path
    """
    for name, size in (("n_val", n_val), ("n_test", n_test), ("n_classes", n_classes)):
        gate.check_number(name, size, low=2 if name == "n_classes" else 1, whole=True)
    if degrees_of_freedom is not None:
        gate.check_number("degrees_of_freedom", degrees_of_freedom, low=1.0)
    rng = np.random.default_rng(seed)
    noise: Any = rng.standard_normal
    if degrees_of_freedom is not None:
        noise = partial(rng.standard_t, degrees_of_freedom)
    arrays: dict[str, NDArray[Any]] = {}
    for part, n_rows in (("val", n_val), ("test", n_test)):
        logits = np.empty((n_rows, n_classes), dtype=np.float32)
        labels = np.empty(n_rows, dtype=np.int16 if n_classes < 2**15 else np.int32)
        for start in range(0, n_rows, CHUNK):
            rows = slice(start, min(start + CHUNK, n_rows))
            z = SPREAD * noise(size=(rows.stop - start, n_classes))
            # The label is drawn from the honest ones by the Gumbel-max trick.
            labels[rows] = np.argmax(z + rng.gumbel(size=z.shape), axis=1)
            logits[rows] = z / TEMPERATURE
        arrays |= {f"{part}_logits": logits, f"{part}_labels": labels}
    return write_predictions(path, **arrays)


def main() -> None:
    """Write the file that the command line names."""
    if len(sys.argv) not in {2, 3}:
        sys.exit(__doc__)
    print(f"wrote {simulate_imagenet(sys.argv[1], seed=int(''.join(sys.argv[2:]) or 0))}")


if __name__ == "__main__":
    main()
