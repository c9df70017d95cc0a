"""The same matrix in every layout and container that is accepted, and in some that are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl

try:
    import pyarrow as pa
except ImportError:  # an extra
    pa = None

COLUMNS = ["f0", "f1", "f2"]


class Tensor:
    """As torch has them: an array on request, a dtype that is not numpy's."""

    def __init__(self, array):
        self.values = array
        self.dtype = f"torch.{array.dtype}"

    def detach(self):
        return self

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)


class TorchTensor(Tensor):
    """The same, as if torch had made it."""

    __module__ = "torch"


class DeviceTensor(Tensor):
    """On a device whose memory numpy cannot read."""

    __module__ = "torch"

    def __array__(self, dtype=None, copy=None):
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first")


def read_only(array):
    """Return a copy that cannot be written to."""
    array = array.copy()
    array.setflags(write=False)
    return array


def unaligned(array):
    """Return a copy that does not start at a multiple of eight bytes."""
    buffer = np.zeros(array.nbytes + 1, dtype=np.uint8)
    view = buffer[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    assert not view.flags.aligned
    return view


LAYOUTS = {
    "Fortran order": np.asfortranarray,
    "strided columns": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "reversed columns": lambda a: a[:, ::-1].copy()[:, ::-1],
    "part of a larger array": lambda a: np.pad(a, 2)[2:-2, 2:-2],
    "read-only": read_only,
    "big-endian": lambda a: a.astype(">f8"),
    "unaligned": unaligned,
    "subclass": np.asmatrix,
    "objects": lambda a: a.astype(object),
}

CONTAINERS = {
    "list of lists": np.ndarray.tolist,
    "list of arrays": list,
    "frame": lambda a: pd.DataFrame(a, columns=COLUMNS, index=np.arange(len(a))[::-1]),
    "nullable frame": lambda a: pd.DataFrame(a, columns=COLUMNS, dtype="Float64"),
    "frame of categories": lambda a: pd.DataFrame(a, columns=COLUMNS).astype("category"),
    "frame without names": pd.DataFrame,
    "sparse frame": lambda a: pd.DataFrame(a, columns=COLUMNS).astype(pd.SparseDtype(a.dtype, 0)),
    "arrow-backed frame": lambda a: pd.DataFrame(a, columns=COLUMNS, dtype="float64[pyarrow]"),
    "polars": lambda a: pl.DataFrame(a, schema=COLUMNS),
    "arrow table": lambda a: pa.table(dict(zip(COLUMNS, a.T, strict=True))),
    "arrow chunks": lambda a: pa.concat_tables(
        [pa.table(dict(zip(COLUMNS, part.T, strict=True))) for part in (a[:70], a[70:])]
    ),
    "arrow batch": lambda a: pa.record_batch(dict(zip(COLUMNS, map(pa.array, a.T), strict=True))),
    "tensor": Tensor,
    "torch tensor": TorchTensor,
}
HOLDERS = {name: hold for name, hold in (LAYOUTS | CONTAINERS).items() if pa or "arrow" not in name}

LETTERS = np.array(["ant", "bee", "cat"])
LABELS = {
    "text": lambda y: LETTERS[y],
    "text in a list": lambda y: LETTERS[y].tolist(),
    "text in objects": lambda y: LETTERS[y].astype(object),
    "text in a nullable series": lambda y: pd.Series(LETTERS[y], dtype="string"),
    "numbers in polars": pl.Series,
    "text in polars": lambda y: pl.Series(LETTERS[y].tolist()),
    "bytes": lambda y: LETTERS.astype("S")[y],
    "categories": lambda y: pd.Categorical(LETTERS[y], categories=["cat", "ant", "bee"]),
    "categories in a series": lambda y: pd.Series(LETTERS[y], dtype="category"),
    "polars categories": lambda y: pl.Series(LETTERS[y].tolist(), dtype=pl.Categorical),
    "whole floats": lambda y: y.astype(np.float64),
    "minus zero": lambda y: np.where(y == 0, -0.0, y),
    "int8": lambda y: y.astype(np.int8),
    "uint64": lambda y: y.astype(np.uint64),
    "a range not from 0": lambda y: y + 5,
    "negative numbers": lambda y: y - 7,
    "nullable integers": lambda y: pd.Series(y, dtype="Int64"),
    "integers in objects": lambda y: y.astype(object),
    "big-endian text": lambda y: LETTERS.astype(">U3")[y],
    "a column": lambda y: y.reshape(-1, 1),
}

WEIGHTS = {
    "list": np.ndarray.tolist,
    "series": lambda w: pd.Series(w, index=np.arange(len(w))[::-1]),
    "nullable series": lambda w: pd.Series(w, dtype="Float64"),
    "longdouble": lambda w: w.astype(np.longdouble),
    "strided": lambda w: np.repeat(w, 2)[::2],
    "unaligned": unaligned,
}
