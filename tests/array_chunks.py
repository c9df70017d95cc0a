"""The plainest chunks there are, for tests: rows of arrays, a given number at a time."""

from functools import reduce

import numpy as np

from calibrant import _threads as threads
from calibrant.scale import Chunks, located


class ArrayChunks(Chunks):
    """Rows of arrays, in chunks of ``n_rows``, counted on threads."""

    def __init__(self, scores, y, sample_weight=None, *, n_rows):
        self._arrays, self._n_rows = (scores, y, sample_weight), n_rows
        self._starts = range(0, len(scores), n_rows)
        self.n_columns = scores.shape[1] if scores.ndim == 2 else 1

    def reduce(self, count, merge):
        def work(start):
            rows = slice(start, start + self._n_rows)
            with located(f"chunk {start // self._n_rows}"):
                return count(*(None if a is None else np.asarray(a[rows]) for a in self._arrays))

        return reduce(merge, threads.each(work, self._starts))

    def map(self, predict):
        return (predict(self._arrays[0][i : i + self._n_rows]) for i in self._starts)
