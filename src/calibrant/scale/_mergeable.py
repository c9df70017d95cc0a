"""``Mergeable``: what is counted of labelled rows, chunk by chunk, and merged.

Sums are ordinary sums of doubles, in the order of chunks: the same chunks give the same bits,
whoever counted them and whenever; other chunks agree to rounding.
"""

from __future__ import annotations

import importlib
import io
import json
import math
import zipfile
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from calibrant import _notices as notices
from calibrant import _simplex as simplex
from calibrant import errors
from calibrant._containers import to_matrix
from calibrant._labels import check_weights
from calibrant._one_column import ONE_COLUMN, two_column_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from calibrant._simplex import SimplexBatch
    from calibrant.scale._parts import Part

FORMAT = "calibrant statistics 3"
MOST_ROWS = 1 << 62


class Mergeable(ABC):
    """What is counted of labelled rows; they may be added, merged, sent and weighted down.

    ``classes`` are the labels of the columns, ``options`` say what is counted, in plain values.
    """

    method: ClassVar[str]
    """In bytes; never reused."""

    _registered: ClassVar[dict[str, type[Mergeable]]] = {}

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "method" in vars(cls):
            cls._registered[cls.method] = cls

    def __init__(
        self,
        classes: Any,
        *,
        scores: str = "probabilities",
        normalize: str | None = None,
        **options: Any,
    ) -> None:
        simplex.check_option("scores", scores, simplex.KINDS)
        simplex.check_option("normalize", normalize, (None, "rows"))
        self.classes: NDArray[Any] = np.asarray(classes)
        if scores in ONE_COLUMN and len(self.classes) != 2:
            raise errors.ClassCountError(
                f"scores={scores!r} is for two classes, but there are {len(self.classes)}; pass "
                "one column per class"
            )
        self.scores, self.normalize = scores, normalize
        self.options = options
        self.n_rows = 0
        self.labels = np.zeros(len(self.classes))
        """Weight of the labels of each class."""
        self.parts: dict[str, Any] = {part.name: part for part in self._start()}

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def kind(self) -> str:
        """Kind of the rows that are counted: one number of each has become two columns."""
        return two_column_kind(self.scores)

    @property
    def weight(self) -> float:
        """Total weight of the rows."""
        return float(np.sum(self.labels))

    @abstractmethod
    def _start(self) -> list[Part]:
        """Return what is counted in the first pass, empty."""

    def update(
        self,
        scores: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        named: errors.Arguments = errors.ARGUMENTS,
    ) -> Self:
        """Count rows; what is wrong with one of them leaves everything as it was.

        Parameters
        ----------
        scores : array-like of shape (n_rows, n_classes)
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional
        """
        matrix = to_matrix(scores, self.scores, named)
        if self.scores not in ONE_COLUMN and matrix.shape[1] != self.n_classes:
            raise errors.ShapeError(
                f"{named.prefix}{named.scores} has {errors.number_of(matrix.shape[1], 'column')}, "
                f"but there are {self.n_classes} classes; every chunk needs one column per class"
            )
        if len(matrix) == 0:
            return self
        if sample_weight is not None and not np.any(sample_weight):
            check_all_zero(sample_weight, len(matrix), named)
            return self
        with notices.kept():  # names of columns were looked at when it was asked for
            batch = simplex.check_batch(
                scores,
                y,
                sample_weight,
                kind=self.scores,
                classes=self.classes,
                normalize=self.normalize,
                is_chunk=True,
                named=named,
            )
        self.add(batch)
        return self

    def add(self, batch: SimplexBatch) -> None:
        """Count the rows of a checked chunk."""
        for part in self.parts.values():
            part.add(batch)
        self._add_labels(batch)

    def _add_labels(self, batch: SimplexBatch) -> None:
        self.n_rows += batch.n_rows
        self.labels += np.bincount(batch.class_index, batch.weight, minlength=self.n_classes)

    def merge(self, other: Mergeable) -> Self:
        """Add what another one has counted, of the same method, classes and options."""
        if other.about() != self.about() or not np.array_equal(other.classes, self.classes):
            raise errors.ParameterError(
                f"statistics of {other.describe()} cannot be added to those of {self.describe()}; "
                "make both with the same classes and options, for the same pass"
            )
        for name, part in other.parts.items():
            self.parts[name].merge(part)
        self.n_rows += other.n_rows
        self.labels += other.labels
        return self

    def scale(self, factor: float) -> Self:
        """Multiply the weight of every row counted so far: old rows may count less than new.

        Where no weight is left, as after a factor of 0, they are as if nothing had been counted.
        """
        simplex.check_number("factor", factor, low=0.0, high=1.0)
        self.labels *= factor
        if not self.labels.any():
            vars(self).update(self._nothing())
        for part in self.parts.values():
            part.scale(factor)
        return self

    def check(self) -> None:
        """Refuse what no rows can have counted; it may come from a stranger's file."""
        if not 0.0 <= self.weight < math.inf or np.any(self.labels < 0.0):
            raise ValueError(f"labels have a weight of {self.weight}")
        if (self.n_rows > 0) != bool(self.labels.any()):
            raise ValueError(f"{self.n_rows} rows have a weight of {self.weight}")

    def empty(self) -> Self:
        """Return statistics that ask for the same and have counted nothing."""
        found = object.__new__(type(self))
        found.__dict__ = vars(self) | self._nothing()
        return found

    def _nothing(self) -> dict[str, Any]:
        return {
            "n_rows": 0,
            "labels": np.zeros(self.n_classes),
            "parts": {name: part.empty() for name, part in self.parts.items()},
        }

    @contextmanager
    def _solved(self) -> Iterator[None]:
        """Refuse numbers that no rows have, which bytes may hold, where a solver fails."""
        try:
            yield
        except errors.StatisticsError:
            raise
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise errors.StatisticsError(
                f"these statistics of {self.describe()} have no solution, {type(error).__name__}: "
                f"{error}; if they were read from bytes, count the rows again"
            ) from error

    def describe(self) -> str:
        """Name the method and the size of the problem."""
        return f"{self.method} with {self.n_classes} classes"

    def about(self) -> dict[str, Any]:
        """Return what these statistics are of, in plain values."""
        return {
            "method": self.method,
            "scores": self.scores,
            "normalize": self.normalize,
            "options": self.options,
            "parts": sorted(self.parts),
        }

    def to_bytes(self) -> bytes:
        """Return all of it in bytes, the same for the same rows; nothing in them is code.

        They are an uncompressed archive of numpy arrays; what these are is told in JSON.
        """
        if self.classes.dtype.hasobject:
            raise errors.StatisticsError(
                "labels of mixed types cannot be saved; make them all the same type"
            )
        about = {"format": FORMAT, **self.about(), "n_rows": self.n_rows}
        arrays: dict[str, Any] = {"classes": self.classes, "labels": self.labels}
        for name, part in self.parts.items():
            arrays |= {f"{name}/{key}": array for key, array in part.arrays().items()}
        out = io.BytesIO()
        np.savez(out, about=np.array(json.dumps(about, sort_keys=True)), **arrays)
        return out.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what ``to_bytes`` returned; everything about it is checked again."""
        try:
            found = _build(_read_arrays(data))
        except errors.StatisticsError:
            raise
        except Exception as error:
            raise errors.StatisticsError(
                f"these {len(data)} bytes are not statistics, or are damaged: {error}"
            ) from error
        if not isinstance(found, cls):
            raise errors.StatisticsError(
                f"these are statistics of {found.describe()}, not {cls.__name__}"
            )
        return found


def _read_arrays(data: bytes) -> dict[str, NDArray[Any]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise ValueError("they are compressed")
    with np.load(io.BytesIO(data), allow_pickle=False) as found:
        return dict(found)


def _build(arrays: dict[str, NDArray[Any]]) -> Mergeable:
    about = json.loads(str(arrays["about"]))
    if about["format"] != FORMAT:
        raise errors.StatisticsError(
            f"statistics of format {about['format']!r} cannot be read, only {FORMAT!r}; count the "
            "rows again into another file"
        )
    method = about["method"]
    # Bytes name a method, never a module; calibrators know where its statistics are, and bring
    # what checks its options.
    importlib.import_module("calibrant._calibrators.methods").methods()
    if (cls := Mergeable._registered.get(method)) is None:  # noqa: SLF001  (its own)
        raise errors.StatisticsError(
            f"statistics of {method!r} are not known to this version; update calibrant, or import "
            "the module that defines them"
        )
    classes, labels = arrays["classes"], arrays["labels"]
    if classes.ndim != 1 or len(classes) < 2 or len(np.unique(classes)) != len(classes):
        raise ValueError("classes are not one label for each column")
    shared = {k: about[k] for k in ("scores", "normalize", "max_rows") if k in about}
    found = cls(classes, **shared, **about["options"])
    if any(about[key] != value for key, value in found.about().items()):
        raise ValueError("they are not those of the method")
    if labels.shape != found.labels.shape or labels.dtype != np.float64:
        raise ValueError(f"labels are {labels.dtype} of shape {labels.shape}")
    simplex.check_number("n_rows", about["n_rows"], low=0, high=MOST_ROWS, whole=True)
    found.labels, found.n_rows = labels, about["n_rows"]
    for name, part in found.parts.items():
        start = f"{name}/"
        part.restore({k.removeprefix(start): a for k, a in arrays.items() if k.startswith(start)})
    found.check()
    return found


def check_all_zero(
    sample_weight: Any, n_rows: int, named: errors.Arguments = errors.ARGUMENTS
) -> None:
    """Check weights that are all zero as any others; such a chunk has no rows."""
    weight = np.asarray(sample_weight)
    check_weights(np.append(weight, 1.0) if weight.ndim == 1 else weight, n_rows + 1, named)
