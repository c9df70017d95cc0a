"""Load a damaged file as a stranger would: refused, or a calibrator that keeps its promises."""

from __future__ import annotations

import copy
import random
import struct
import tracemalloc
import warnings
from collections import Counter
from time import process_time

import numpy as np
import pandas as pd

from calibrant.errors import CalibrantWarning, ModelFileError
from calibrant.model_file import dumps, loads
from hostile_files.frame import seal, take_apart

MEMORY_PER_BYTE, SMALL_MEMORY = 4, 2**29
"""What docs/reference/model-files.md promises of loading a file and predicting one row."""

SECONDS = 20
"""That no file takes, however busy the machine is."""

VALUES = [
    None, True, 0, 1, -1, 3, 2**31, 2**62, 0.0, 0.5, 1e300, -30.0, "", "nan", "ts", "array", "maps",
    "logits", "float64", [], [0], [[0]], {}, {"part": 0}, {"vector": 0}, {"float": "nan"}, "\x00",
]  # fmt: skip
NUMBERS = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, 5e-324, 1e-310, 1e100, 1.7e308, 1 + 2**-52]


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


def assert_on_the_simplex(calibrator, rows):
    """Predict, without a warning that is not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", CalibrantWarning)
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        is_grouped = hasattr(calibrator, "for_group")
        own = {"groups": np.resize(calibrator.groups_, len(rows))} if is_grouped else {}
        if hasattr(calibrator, "columns_"):
            cells = {c.name: 1.0 if c.is_number else "a" for c in calibrator.columns_}
            own = {"features": pd.DataFrame(cells, index=range(len(rows)))}
        out = calibrator.predict_proba(rows, **own)
    assert np.isfinite(out).all()
    assert out.min() >= 0
    assert out.max() <= 1 + 1e-9
    if calibrator.map_.sums_to_one:
        np.testing.assert_allclose(out.sum(axis=1), 1, rtol=0, atol=1e-9)


def load(data):
    """Return the calibrator, or the rule by which the file was refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)
            return loads(data)
    except ModelFileError as error:
        return error.rule


def judge(data):
    """Return "loaded" or the broken rule; any other outcome, or too high a price, is a failure.

    Time is that of this process; memory, of loading a file and predicting one row, is four times
    the file and a constant.
    """
    started = process_time()
    tracemalloc.start()
    try:
        calibrator = load(data)
        is_refused = isinstance(calibrator, str)
        if not is_refused:
            assert_on_the_simplex(calibrator, extreme_rows(calibrator)[:1])
        memory = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert process_time() - started < SECONDS
    # Only long headers need the whole constant.
    constant = SMALL_MEMORY if len(data) > 2**20 else SMALL_MEMORY // 16
    assert memory <= MEMORY_PER_BYTE * len(data) + constant
    if is_refused:
        return calibrator
    assert_on_the_simplex(calibrator, extreme_rows(calibrator))
    assert dumps(calibrator)  # what was loaded can be saved
    return "loaded"


def storm(files, n_files, seed):
    """Damage the files in turn, and count what became of them."""
    outcomes = Counter()
    for i in range(n_files):
        try:
            data = mutate(files[i % len(files)], random.Random(f"{seed}-{i}"))
            outcomes[judge(data)] += 1
        except Exception as error:
            error.add_note(f"seed {seed}-{i}, file {i % len(files)}")
            raise
    return outcomes


def mutate(data, rng):
    """Return a damaged copy of a valid file, whose checksum is right: it reaches what is behind."""
    if rng.random() < 0.15:
        body = bytearray(data[:-32])
        i, length = rng.randrange(len(body)), rng.choice([0, 1, 1, 8, 64])
        body[i : i + length] = rng.randbytes(rng.choice([1, 1, 8, 24]))
        return seal(bytes(body))
    frame = take_apart(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        rng.choice([change_header, change_numbers])(frame, rng)
    return frame.assemble()


def nodes(value):
    """Every place in a JSON value, as (container, key)."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield value, key
        if isinstance(item, dict | list):
            yield from nodes(item)


def change_header(frame, rng):
    """Replace, delete, copy or tweak something in the header."""
    places = list(nodes(frame.header))
    box, key = rng.choice(places)
    other, name = rng.choice(places)
    action = rng.randrange(4)
    if action == 0:
        del box[key]
    elif action == 1:
        box[key] = copy.deepcopy(other[name])
    elif action == 2 and type(box[key]) in {int, float}:
        box[key] = rng.choice([box[key] + 1, box[key] - 1, -box[key], box[key] * 10, box[key] / 3])
    elif action == 3 and isinstance(box[key], list):
        box[key] = box[key] * 2 if len(box[key]) < 100 else box[key][:1]
    else:
        box[key] = copy.deepcopy(rng.choice(VALUES))


def change_numbers(frame, rng):
    """Change a number of an array."""
    if not frame.data:
        return
    i = 8 * rng.randrange(len(frame.data) // 8)
    whole = struct.pack("<q", rng.choice([0, 1, 3, -1, 2**31, 2**62, 2**63 - 1, -(2**63)]))
    real = struct.pack("<d", rng.choice([*NUMBERS, rng.random(), rng.gauss(0, 100)]))
    frame.data = frame.data[:i] + rng.choice([whole, real]) + frame.data[i + 8 :]
