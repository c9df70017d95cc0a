"""Formulas carried out by numpy, at once: what they mean, without any graph."""

from functools import partial

import numpy as np

from calibrant.export._formulas import Operations


def quietly(function):
    """Without warnings of logarithms of zero and the like, as graphs are."""
    return staticmethod(np.errstate(all="ignore")(function))


class NumpyOperations(Operations):
    """The operations of ``calibrant.export._formulas``; remembers what is fitted."""

    def __init__(self, n_classes):
        self.n_classes = n_classes
        self.names = {}

    def fitted(self, name, value):
        path = ".".join((*self.prefix, name))
        assert path not in self.names, f"{path} is there twice"
        self.names[path] = np.asarray(value)
        return self.names[path]

    exp, floor = map(staticmethod, (np.exp, np.floor))
    matmul, where = map(staticmethod, (np.matmul, np.where))
    maximum, minimum = map(staticmethod, (np.maximum, np.minimum))
    log = quietly(np.log)
    sigmoid = quietly(lambda x: 1.0 / (1.0 + np.exp(-x)))
    whole = quietly(lambda x: np.asarray(x).astype(np.int64))
    real = staticmethod(np.float64)
    cumulative = staticmethod(partial(np.cumsum, axis=1))
    row_sum, row_max, row_min = (
        staticmethod(partial(reduce, axis=1, keepdims=True)) for reduce in (np.sum, np.max, np.min)
    )

    @classmethod
    def softmax(cls, x):
        powers = np.exp(x - cls.row_max(x))
        return powers / cls.row_sum(powers)

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
