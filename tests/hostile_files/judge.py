"""Load a damaged file as a stranger would: refused, or a calibrator that keeps its promises."""

from __future__ import annotations

import random
import tracemalloc
import warnings
from collections import Counter
from time import process_time

import numpy as np

from calibrant.errors import CalibrantWarning, ModelFileError
from calibrant.model_file import dumps, loads
from hostile_files.mutations import mutate

MEMORY_PER_BYTE, SMALL_MEMORY = 4, 2**29
"""What docs/reference/model-files.md promises of loading a file and predicting one row."""


def extreme_rows(calibrator, n_rows=5, seed=1):
    """Rows that validation lets through: ordinary ones, corners, ties, tiny and huge values."""
    rng = np.random.default_rng(seed)
    k = calibrator.n_features_in_
    if k > 1000:  # one row is enough to see what it costs
        row = rng.random((1, k))
        return row if calibrator.scores == "logits" else row / row.sum()
    corners = np.eye(k)[:4]
    if calibrator.scores == "logits":
        ordinary = rng.normal(0, 5, (n_rows, k))
        huge = rng.choice([-1e100, -1e9, 0.0, 1e-300, 1e9, 1e100], (n_rows, k))
        impossible = np.where(corners > 0, -1e100, -np.inf)
        return np.vstack([ordinary, huge, 100 * corners, 1e100 * corners, impossible])
    tiny = rng.dirichlet(np.ones(k), n_rows) ** 40 + 1e-300
    tiny /= tiny.sum(axis=1, keepdims=True)
    return np.vstack([rng.dirichlet(np.ones(k), n_rows), np.full((1, k), 1 / k), corners, tiny])


def all_sum_to_one(calibrator):
    """Whether no part was asked not to divide by the sum."""
    return calibrator.map_.sums_to_one


def assert_on_the_simplex(calibrator, rows):
    """Predict, without a warning that is not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", CalibrantWarning)
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        is_grouped = hasattr(calibrator, "for_group")
        own = {"groups": np.resize(calibrator.groups_, len(rows))} if is_grouped else {}
        if hasattr(calibrator, "columns_"):
            cells = {c.name: [1.0] if c.is_number else ["a"] for c in calibrator.columns_}
            own = {"features": {name: cell * len(rows) for name, cell in cells.items()}}
        out = calibrator.predict_proba(rows, **own)
    assert np.isfinite(out).all()
    assert out.min() >= 0
    assert out.max() <= 1 + 1e-9
    if all_sum_to_one(calibrator):
        np.testing.assert_allclose(out.sum(axis=1), 1, rtol=0, atol=1e-9)


def load(data):
    """Return the calibrator, or the rule by which the file was refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)
            return loads(data)
    except ModelFileError as error:
        return error.rule


def cost(data):
    """Most memory of loading a file and predicting one row, in bytes."""
    tracemalloc.start()
    try:
        calibrator = load(data)
        if not isinstance(calibrator, str):
            assert_on_the_simplex(calibrator, extreme_rows(calibrator)[:1])
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def judge(data, seconds):
    """Return "loaded" or the broken rule; any other outcome, or too high a price, is a failure.

    Time is that of this process; memory is four times the file and a constant.
    """
    started = process_time()
    calibrator = load(data)
    is_refused = isinstance(calibrator, str)
    if not is_refused:
        assert_on_the_simplex(calibrator, extreme_rows(calibrator)[:1])
    assert process_time() - started < seconds
    # Only long headers need the whole constant.
    constant = SMALL_MEMORY if len(data) > 2**20 else SMALL_MEMORY // 16
    is_small = is_refused and len(data) <= 2**20
    assert is_small or cost(data) <= MEMORY_PER_BYTE * len(data) + constant
    if is_refused:
        return calibrator
    assert_on_the_simplex(calibrator, extreme_rows(calibrator))
    assert dumps(calibrator)  # what was loaded can be saved
    assert repr(calibrator)
    return "loaded"


def storm(files, n_files, seed, seconds):
    """Damage the files in turn, and count what became of them."""
    outcomes = Counter()
    for i in range(n_files):
        try:
            data = mutate(files[i % len(files)], random.Random(f"{seed}-{i}"))
            outcomes[judge(data, seconds)] += 1
        except Exception as error:
            error.add_note(f"seed {seed}-{i}, file {i % len(files)}")
            raise
    return outcomes
