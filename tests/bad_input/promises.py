"""Shared by these tests: calibrators, good data in every container, and how to look at state."""

from __future__ import annotations

import dataclasses
import pickle
import re
import warnings
from contextlib import contextmanager
from functools import cache, partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator

import calibrant
from calibrators.catalogue import CALIBRATORS, PERMUTATION_INVARIANT, make
from conftest import simulate

try:
    import pyarrow as pa
except ImportError:  # an extra
    pa = None


METHODS = {cls.method: partial(make, cls) for cls in CALIBRATORS}
PER_CLASS = [METHODS[cls.method] for cls in CALIBRATORS if cls not in PERMUTATION_INVARIANT]
"""Those whose map depends on which class is which."""

READERS = METHODS["ts"], METHODS["ir-ovr"]
"""They stand for all where matrices and labels are read, which is done in common."""

AnyCalibrator = calibrant.TemperatureScaling
"""It stands for all where input is refused: ``test_doors`` shows that they share the way in."""

KINDS = ("probabilities", "logits")


each_calibrator = pytest.mark.parametrize("calibrator", METHODS.values(), ids=METHODS)
each_reader = pytest.mark.parametrize("calibrator", READERS, ids=["ts", "ir-ovr"])
each_kind = pytest.mark.parametrize("kind", KINDS)
each_action = pytest.mark.parametrize("action", ["fit", "predict_proba"])
few_rows = pytest.mark.filterwarnings("ignore::calibrant.errors.SmallSampleWarning")
absent_classes = pytest.mark.filterwarnings("ignore::calibrant.errors.MissingClassWarning")
unbounded = pytest.mark.filterwarnings("ignore::calibrant.errors.ConvergenceWarning")
"""For data whose optimum lies at infinity, where no iteration can arrive."""

new_names = pytest.mark.filterwarnings("ignore:X has feature names, but:UserWarning")
"""scikit-learn's word about a frame that follows a plain matrix."""

merged_classes = pytest.mark.filterwarnings("ignore::calibrant.errors.ClassShareWarning")

LETTERS = np.array(["ant", "bee", "cat"])
NAMES = LETTERS.tolist()


@cache
def _simulated(seed, n_rows, n_classes):
    return simulate(n_rows, n_classes, seed)


def as_kind(probabilities, kind):
    """Return the same predictions as probabilities or as logits."""
    if kind == "probabilities":
        return probabilities.copy()
    with np.errstate(divide="ignore"):
        return np.log(probabilities)


def good(kind="probabilities", n_rows=200, n_classes=3):
    """Return a calibration set that nothing is wrong with: scores, and labels 0 .. k-1."""
    probabilities, y = _simulated(0, n_rows, n_classes)
    return as_kind(probabilities, kind), y.copy()


def fresh(kind="probabilities", n_rows=150, n_classes=3):
    """Return new rows to predict."""
    return as_kind(_simulated(1, n_rows, n_classes)[0], kind)


def mild(n_rows=200, n_classes=3, seed=0):
    """Probabilities away from 0 and 1, so that a row can be scaled a little."""
    return 0.9 * _simulated(seed, n_rows, n_classes)[0] + 0.1 / n_classes


@cache
def fitted(calibrator, kind="probabilities"):
    """Return a calibrator fitted to the good data; not to be fitted again."""
    return calibrator(scores=kind).fit(*good(kind))


def in_one_round(calibrator, **parameters):
    """Return a calibrator that takes one step, where that is a parameter: for many classes."""
    steps = {"max_rounds": 1} if "max_rounds" in calibrator().get_params() else {}
    return calibrator(**steps, **parameters)


def use(calibrator, action, scores, kind="probabilities", **parameters):
    """Fit to ``scores`` with good labels, or predict them after a good fit."""
    if action == "fit":
        return calibrator(scores=kind, **parameters).fit(scores, good()[1])
    if parameters:
        return calibrator(scores=kind, **parameters).fit(*good(kind)).predict_proba(scores)
    return fitted(calibrator, kind).predict_proba(scores)


@contextmanager
def refused(error, *parts):
    """Expect one of our errors; each part (or one of a tuple of parts) is in its message."""
    with pytest.raises(error) as caught:
        yield caught
    assert type(caught.value).__module__ == "calibrant.errors", type(caught.value)
    assert isinstance(caught.value, ValueError)
    message = str(caught.value)
    for part in parts:
        options = part if isinstance(part, tuple) else (part,)
        assert any(re.search(re.escape(option), message) for option in options), (part, message)


def fingerprint(value, without=()):
    """Everything a value holds, to the bit; wall-clock times and tables made from it apart."""
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject or value.dtype.kind == "T":
            return ("objects", value.shape, repr(value.tolist()))
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, BaseEstimator):
        return (type(value), state(value, without=without))
    if dataclasses.is_dataclass(value):
        fields = [f.name for f in dataclasses.fields(value) if f.init and f.name != "seconds"]
        return (type(value), [(name, fingerprint(getattr(value, name))) for name in fields])
    if isinstance(value, dict):
        return [(key, fingerprint(item, without)) for key, item in sorted(value.items())]
    if isinstance(value, list | tuple):
        return [fingerprint(item, without) for item in value]
    if isinstance(value, float | np.floating):
        return (type(value), np.float64(value).tobytes())
    return pickle.dumps(value)


def state(estimator, *, without=()):
    """Fingerprint of every attribute of an estimator and of its parts."""
    held = {k: v for k, v in vars(estimator).items() if k not in without}
    return fingerprint(held, without)


def same_fit(one, other, new_rows):
    """Whether two estimators are the same to the bit, in what they hold and what they say."""
    aside = ("feature_names_in_", "classes", "classes_")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        ours, theirs = one.predict_proba(new_rows), other.predict_proba(new_rows)
    alike = state(one, without=aside) == state(other, without=aside)
    return alike and np.array_equal(bits(ours), bits(theirs))


def bits(array):
    """Return the bytes of an array: 0.0 and -0.0 differ."""
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), dtype=np.uint8)


def assert_distributions(out, floor=0.0):
    """Finite rows in [floor, 1] that sum to one within 4 ulp * sqrt(k)."""
    eps = np.finfo(out.dtype).eps
    assert np.isfinite(out).all()
    assert (out >= out.dtype.type(floor)).all()
    assert (out <= 1.0).all()
    total = out.sum(axis=1, dtype=np.float64)
    assert np.abs(total - 1.0).max(initial=0.0) <= 4 * eps * np.sqrt(out.shape[1])


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
