"""Statistics that a stranger wrote: members of the archive are replaced, and its checksums hold."""

from __future__ import annotations

import copy
import io
import json

import numpy as np

ODD = [None, True, -1, 0, 1, 7, 2**40, 10**30, 0.5, -2.5, 1e300, "", "cv", "exact"]
ODD += [float("nan"), float("inf"), [], [0.5], {}, {"a": 1}, [[1, 2]]]
"""What may stand in JSON instead of something else."""

EXTREMES = [0, 1, -1, 2, 5, 1 << 20, (1 << 31) - 1, 1 << 32, 1 << 52, 1 << 62, -(1 << 63)]


def read(data):
    """What the bytes of statistics say of themselves, and their arrays."""
    with np.load(io.BytesIO(data)) as archive:
        arrays = {f"{name}.npy": array for name, array in archive.items()}
    return json.loads(str(arrays.pop("about.npy"))), arrays


def write(about, arrays):
    """Bytes of statistics, as ``to_bytes`` lays them out."""
    out = io.BytesIO()
    arrays = {name.removesuffix(".npy"): array for name, array in arrays.items()}
    np.savez(out, about=np.array(json.dumps(about)), **arrays)
    return out.getvalue()


def rewritten(data, changes):
    """Statistics with other members: of JSON by key, None for none, of arrays by name."""
    about, arrays = read(data)
    about |= {key: value for key, value in changes.items() if not key.endswith(".npy")}
    arrays |= {key: value for key, value in changes.items() if key.endswith(".npy")}
    return write({key: value for key, value in about.items() if value is not None}, arrays)


def mutated(data, rng):
    """Statistics with something of theirs changed by chance, once or twice."""
    about, arrays = read(data)
    for _ in range(rng.integers(1, 3)):
        if rng.random() < 0.4:
            _change_json(about, rng)
        else:
            _change_array(arrays, rng)
    return write(about, arrays)


def _some(values, rng):
    values = list(values)
    return copy.deepcopy(values[rng.integers(len(values))])


def _change_json(about, rng):
    """Replace a value somewhere in JSON, or drop it."""
    inside, key = about, _some(sorted(about.keys() - {"format"}), rng)
    while isinstance(inside[key], dict) and inside[key] and rng.random() < 0.9:
        inside = inside[key]
        key = _some(sorted(inside), rng)
    if isinstance(inside[key], list) and inside[key] and rng.random() < 0.7:
        inside, key = inside[key], int(rng.integers(len(inside[key])))
    inside[key] = _some(ODD, rng)
    if isinstance(inside, dict) and rng.random() < 0.2:
        del inside[key]


def _change_array(arrays, rng):
    """Change cells of an array, its type, its shape, or take another for it."""
    name = _some(sorted(arrays), rng)
    array, how = np.array(arrays[name]), rng.integers(10)
    if how < 4 and array.size and array.dtype.kind in "iufb":
        cells = array.reshape(-1)
        places = rng.integers(array.size, size=_some([1, 3, max(1, array.size // 2)], rng))
        odd = EXTREMES if array.dtype.kind in "iu" else [*EXTREMES, np.nan, np.inf, 1e-300, 1e308]
        with np.errstate(all="ignore"):
            cells[places] = np.array(_some(odd, rng)).astype(array.dtype)
    elif how == 4 and array.dtype.kind in "iufb":
        with np.errstate(all="ignore"):
            array = array * np.array(_some([0, 2, -1, 1000], rng)).astype(array.dtype)
    elif how == 5:
        array = array[:0] if array.ndim else array[None]
    elif how == 6 and array.dtype.kind in "iufb":
        array = array.astype(_some(["f4", "i4", "U5", "f8", "i8"], rng), casting="unsafe")
    elif how == 7:
        array = np.concatenate([array, array]) if array.ndim else array + 1
    elif how == 8:
        del arrays[name]
        return
    else:
        array = array.reshape(-1)[rng.permutation(array.size)].reshape(array.shape)
    arrays[name] = array
