"""Formulas carried out by numpy, at once: what they mean, without any graph."""

from contextlib import contextmanager

import numpy as np

from calibrant.export._operations import Rounding


class NumpyOperations:
    """The operations of ``calibrant.export._operations``; remembers what is fitted."""

    def __init__(self, n_classes):
        self.n_classes = n_classes
        self.rounding = Rounding()
        self.pairs = False
        self.prefix = ()
        self.names = {}

    def fitted(self, name, value):
        path = ".".join((*self.prefix, name))
        assert path not in self.names, f"{path} is there twice"
        self.names[path] = np.asarray(value)
        return self.names[path]

    @contextmanager
    def inside(self, name):
        self.prefix = (*self.prefix, name)
        yield
        self.prefix = self.prefix[:-1]

    exp, sqrt, floor, single = map(staticmethod, (np.exp, np.sqrt, np.floor, np.single))
    matmul, where = map(staticmethod, (np.matmul, np.where))
    maximum, minimum = map(staticmethod, (np.maximum, np.minimum))

    @staticmethod
    def log(x):
        with np.errstate(divide="ignore"):
            return np.log(x)

    @staticmethod
    def sigmoid(x):
        with np.errstate(over="ignore"):
            return 1.0 / (1.0 + np.exp(-x))

    @staticmethod
    def softmax(x):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    @staticmethod
    def whole(x):
        with np.errstate(invalid="ignore"):
            return np.asarray(x).astype(np.int64)

    @staticmethod
    def real(x):
        return np.asarray(x).astype(np.float64)

    @staticmethod
    def cumulative(x):
        return x.cumsum(axis=1)

    @staticmethod
    def row_sum(x):
        return x.sum(axis=1, keepdims=True)

    @staticmethod
    def row_max(x):
        return x.max(axis=1, keepdims=True)

    @staticmethod
    def row_min(x):
        return x.min(axis=1, keepdims=True)

    @staticmethod
    def sort(x):
        columns = np.argsort(-x, axis=1, kind="stable")
        return np.take_along_axis(x, columns, axis=1), columns

    @staticmethod
    def spread(x, columns):
        out = np.empty_like(x)
        np.put_along_axis(out, columns, x, axis=1)
        return out

    @staticmethod
    def group_sums(x, groups):
        out = np.zeros_like(x)
        np.add.at(out, (np.arange(len(x))[:, None], groups), x)
        return np.take_along_axis(out, groups, axis=1)

    @staticmethod
    def shift(x):
        return np.hstack([np.zeros_like(x[:, :1]), x[:, :-1]])

    @staticmethod
    def take(table, index):
        assert index.min(initial=0) >= 0
        return table[index]
