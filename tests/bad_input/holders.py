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


class HalfTensor(Tensor):
    """Of a type that networks compute with and numpy does not know."""

    __module__ = "torch"

    def __init__(self, array):
        super().__init__(array)
        self.dtype = "torch.bfloat16"

    def float(self):
        return TorchTensor(self.values.astype(np.float32))

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Got unsupported ScalarType BFloat16")


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


def _structured(array):
    records = np.empty(len(array), dtype=[(name, array.dtype) for name in COLUMNS])
    for name, column in zip(COLUMNS, array.T, strict=True):
        records[name] = column
    return records


LAYOUTS = {
    "Fortran order": np.asfortranarray,
    "strided rows": lambda a: np.repeat(a, 2, axis=0)[::2],
    "strided columns": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "reversed rows": lambda a: a[::-1].copy()[::-1],
    "reversed columns": lambda a: a[:, ::-1].copy()[:, ::-1],
    "transposed": lambda a: a.T.copy().T,
    "part of a larger array": lambda a: np.pad(a, 2)[2:-2, 2:-2],
    "read-only": read_only,
    "big-endian": lambda a: a.astype(">f8"),
    "unaligned": unaligned,
    "structured": _structured,
    "record array": lambda a: np.rec.fromarrays(a.T, names=COLUMNS),
    "longdouble": lambda a: a.astype(np.longdouble),
    "subclass": np.asmatrix,
    "masked array without a mask": np.ma.array,
    "objects": lambda a: a.astype(object),
}

CONTAINERS = {
    "list of lists": np.ndarray.tolist,
    "tuple of tuples": lambda a: tuple(map(tuple, a.tolist())),
    "list of arrays": list,
    "frame": lambda a: pd.DataFrame(a, columns=COLUMNS, index=np.arange(len(a))[::-1]),
    "nullable frame": lambda a: pd.DataFrame(a, columns=COLUMNS, dtype="Float64"),
    "frame of categories": lambda a: pd.DataFrame(a, columns=COLUMNS).astype("category"),
    "frame of objects": lambda a: pd.DataFrame(a, columns=COLUMNS, dtype=object),
    "frame without names": pd.DataFrame,
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
