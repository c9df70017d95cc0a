"""Lists of the best classes beside full rows, and images that are larger than what is held.

    python benchmarks/lists.py lists DIR/udhr-langid_fasttext.npz
    python benchmarks/lists.py images /tmp --shape 200 20 512 512 --methods ts

The first fits the calibration part in both forms, and prints both NLLs of the full rows, those of
the test part among them, the bounds, and the bytes that data and fit hold at most. The second
writes images of that shape (4.2 GB) to a file there, fits and applies, prints what the process
holds at most besides mapped files, and deletes the files.
"""

import argparse
import threading
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np

from calibrant import metrics
from calibrant._calibrators.methods import methods
from calibrant.scale import StackedRows, TopLists

NLL = metrics.negative_log_likelihood


def softmax(logits):
    """Rows of probabilities along the last axis."""
    found = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return found / found.sum(axis=-1, keepdims=True)


def compare_lists(path, n_listed):
    """Print a line for each method."""
    with np.load(path) as file:
        part = {
            name: (softmax(file[f"{name}_logits"].astype(float)), file[f"{name}_labels"])
            for name in ("val", "test")
        }
    p, y = part["val"]
    lists = TopLists.from_matrix(p, n_listed)
    held = sum(array.nbytes for array in (lists.indices, lists.probabilities, lists.rest))
    for name in ("ts", "fir", "na-fir"):
        fits, peaks = [], []
        for scores, size in ((p, p.nbytes), (lists, held)):
            methods()[name]().fit(p[:300], y[:300])
            tracemalloc.start()
            fits.append(methods()[name]().fit(scores, y))
            peaks.append(size + tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        low, high = lists.nll_bounds(y, fits[1])
        val, test = ([NLL(b, fit.predict_proba(a)) for fit in fits] for a, b in part.values())
        print(
            f"{name}: NLL {val[0]:.6f} full, {val[1]:.6f} lists, bounds {low:.4f} to {high:.4f}; "
            f"test {test[0]:.6f}, {test[1]:.6f}; "
            f"bytes {peaks[0] / 1e6:.1f} M, {peaks[1] / 1e6:.2f} M, {peaks[1] / peaks[0]:.1%}"
            + "".join(f"; T {fit.temperature_:.6f}" for fit in fits if name == "ts")
        )


def held_bytes():
    """What this process holds besides mapped files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


class Peak:
    """The most that ``held_bytes`` was while something ran, and how long that took."""

    def __enter__(self):
        self.most, self._ends, self._started = held_bytes(), threading.Event(), time.perf_counter()
        self._watch = threading.Thread(target=self._look)
        self._watch.start()
        return self

    def _look(self):
        while not self._ends.wait(0.02):
            self.most = max(self.most, held_bytes())

    def __exit__(self, *_):
        self._ends.set()
        self._watch.join()
        self.seconds = time.perf_counter() - self._started


def make_images(path, shape):
    """Write images of probabilities that are too bold, classes second; return them with labels."""
    n_images, n_classes, *size = shape
    images = np.lib.format.open_memmap(path, "w+", dtype=np.float32, shape=shape)
    rng, labels = np.random.default_rng(0), np.empty((n_images, *size), dtype=np.uint8)
    for i in range(n_images):
        logits = rng.standard_normal((*size, n_classes), dtype=np.float32)
        honest = np.cumsum(softmax(logits), axis=-1)
        labels[i] = (honest < rng.random((*size, 1), dtype=np.float32)).sum(axis=-1)
        images[i] = np.moveaxis(softmax(2.0 * logits), -1, 0)
    labels[labels == n_classes] = 255
    labels[rng.random(labels.shape, dtype=np.float32) < 0.05] = 255
    return images, labels


def calibrate_images(folder, shape, names):
    """Print what fits and predictions hold at most."""
    paths = [Path(folder) / f"calibrant-{name}.npy" for name in ("images", "calibrated")]
    try:
        images, labels = make_images(paths[0], tuple(shape))
        out = np.lib.format.open_memmap(paths[1], "w+", dtype=np.float32, shape=images.shape)
        rows = StackedRows(images, axis=1, ignore_index=255)
        print(f"{images.nbytes / 1e9:.2f} GB; {held_bytes() / 2**20:.0f} MiB held before")
        for name in names:
            with Peak() as fit:
                calibrator = methods()[name]().fit(rows, labels)
            with Peak() as apply:
                rows.apply(calibrator, out=out)
            found = [
                metrics.confidence_ece(labels, StackedRows(given, axis=1, ignore_index=255))
                for given in (images, out)
            ]
            report = getattr(calibrator, "temperature_", calibrator.solver_report_.violation)
            print(
                f"{name}: fit {fit.seconds:.0f} s, {fit.most / 2**20:.0f} MiB; predictions "
                f"{apply.seconds:.0f} s, {apply.most / 2**20:.0f} MiB; T or violation "
                f"{report:.4g}; confidence ECE {found[0]:.4f}, then {found[1]:.4f}"
            )
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("lists", "images"))
    parser.add_argument("path")
    parser.add_argument("--listed", type=int, default=20)
    parser.add_argument("--shape", type=int, nargs="+", default=(200, 20, 512, 512))
    parser.add_argument("--methods", nargs="+", default=("ts", "fir"))
    told = parser.parse_args()
    warnings.simplefilter("ignore")
    if told.what == "lists":
        compare_lists(told.path, told.listed)
    else:
        calibrate_images(told.path, told.shape, told.methods)
