"""``StackedRows``: arrays of more than two dimensions, as of images, whose pixels are rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibrant import _simplex as simplex
from calibrant import errors
from calibrant.scale._chunks import ChunkArguments
from calibrant.scale._sources import RowSource, to_numpy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Place = tuple[slice, ...]

BLOCK_CELLS = 1 << 21
"""Cells of a block, which is read at once."""


class StackedRows(RowSource):
    """Scores of shape (N, C, H, W), (N, H, W, C) or the like: every pixel is a row.

    Pass it to ``fit``, with labels of the same shape without the axis of classes, to
    ``predict_proba``, ``predict`` and metrics. Blocks of rows are read one at a time, so that the
    array may be a memory map; it is never copied as a whole.

    Parameters
    ----------
    scores : ndarray, memmap or torch tensor of three dimensions or more
        Scores of the kind that the calibrator takes; with ``scores="positive"`` or "decision" the
        axis of classes has one entry.
    axis : int
        Axis of the classes: 1 in (N, C, H, W), -1 in (N, H, W, C).
    ignore_index : int, optional
        Label of pixels that are left out of fits and metrics, such as 255.

    Attributes
    ----------
    shape : tuple of int
        Shape of the labels.

    Examples
    --------
    >>> from calibrant import TemperatureScaling, metrics
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.scale import StackedRows
    >>> scores, y = simulated_scores(600)
    >>> images, labels = scores.reshape(6, 10, 10, 3), y.reshape(6, 10, 10)
    >>> labels[0, 0, :5] = 255
    >>> rows = StackedRows(images, axis=-1, ignore_index=255)
    >>> calibrated = TemperatureScaling().fit(rows, labels).predict_proba(rows)
    >>> calibrated.shape
    (6, 10, 10, 3)
    >>> metrics.evaluate(labels, StackedRows(calibrated, axis=-1, ignore_index=255)).n_rows
    595
    """

    def __init__(self, scores: Any, *, axis: int, ignore_index: int | None = None) -> None:
        shape = tuple(map(int, getattr(scores, "shape", ())))
        if len(shape) < 3:
            raise errors.ShapeError(
                f"scores is a {type(scores).__name__} of shape {shape}; StackedRows needs an "
                "array of three or more dimensions; pass a matrix without StackedRows, and lists "
                "as np.asarray(...)"
            )
        simplex.check_number("axis", axis, low=-len(shape), high=len(shape) - 1, whole=True)
        if ignore_index is not None:
            simplex.check_number("ignore_index", ignore_index, whole=True)
        self.scores, self.axis, self.ignore_index = scores, int(axis) % len(shape), ignore_index
        self.n_classes = shape[self.axis]
        self.shape = shape[: self.axis] + shape[self.axis + 1 :]

    def __repr__(self) -> str:
        return f"StackedRows of shape {tuple(self.scores.shape)} with classes on axis {self.axis}"

    def places(self) -> Iterator[tuple[Place, int]]:
        """Yield the place of each block among the labels, and the number of its first row."""
        first, second, *others = self.shape
        n_cells = max(math.prod(others) * self.n_classes, 1)  # of a line
        n_lines = max(min(BLOCK_CELLS // n_cells, second), 1)
        n_images = max(BLOCK_CELLS // (n_cells * n_lines), 1) if n_lines == second else 1
        for i in range(0, first, n_images):
            for j in range(0, second, n_lines):
                place = slice(i, i + n_images), slice(j, j + n_lines)
                yield place, (i * second + j) * math.prod(others)

    def _of_scores(self, place: Place) -> Place:
        return (*place[: self.axis], slice(None), *place[self.axis :])

    def rows(self, place: Place) -> NDArray[Any]:
        """Return the rows of a block."""
        block = to_numpy(self.scores[self._of_scores(place)])
        return np.moveaxis(block, self.axis, -1).reshape(-1, self.n_classes)

    def apply(self, calibrator: Any, method: str = "predict_proba", *, out: Any = None) -> Any:
        """Call a method of a fitted calibrator, block by block.

        Parameters
        ----------
        calibrator : Calibrator
            A fitted one.
        method : {"predict_proba", "predict"}, default="predict_proba"
            What is called.
        out : ndarray or memmap, optional
            What results are written to; a new array by default.

        Returns
        -------
        out : ndarray
            Of the shape of the scores, with all classes on their axis; of ``predict`` of that of
            the labels.
        """
        simplex.check_option("method", method, ("predict_proba", "predict"))
        is_matrix = method == "predict_proba"
        check_is_fitted(calibrator, "classes_")
        shape = self.shape
        if is_matrix:  # one column of two classes becomes two
            shape = (*shape[: self.axis], len(calibrator.classes_), *shape[self.axis :])
        if out is not None and (out.shape != shape or (is_matrix and out.dtype.kind != "f")):
            raise errors.ShapeError(
                f"out has shape {out.shape} and dtype {out.dtype}; {method} needs shape {shape}, "
                "and a float dtype for probabilities"
            )
        for number, (place, first) in enumerate(self.places()):
            with ChunkArguments(number, first).told():
                found = getattr(calibrator, method)(self.rows(place))
            if out is None:
                simplex.check_memory(found.itemsize * math.prod(shape), f"the result of {method}")
                out = np.empty(shape, dtype=found.dtype)
            part = np.moveaxis(out, self.axis, -1)[place] if is_matrix else out[place]
            part[...] = found.reshape(part.shape)
        return np.empty(shape) if out is None else out
