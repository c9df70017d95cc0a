"""Calibrators and their parts -> header and arrays.

The calibrators of a file are a flat list, parts before what they are parts of and the outermost
last. They refer to each other, to vectors and to arrays by index and name, so that a part that is
shared is stored once, a cycle cannot be written down, and the header stays shallow.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibrant import errors
from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.methods import saved_methods
from calibrant._calibrators.parameters import fitted_types, stored_names, take_state
from calibrant._solvers.normalization_aware.ways import WAYS
from calibrant.model_file import _header as header
from calibrant.model_file import _labels as labels
from calibrant.model_file._checks import Nesting, check_fitted
from calibrant.model_file._fields import parts_in, stored_types, stored_values, write

if TYPE_CHECKING:
    from numpy.typing import NDArray

OPTIONS: dict[str, type] = {cls.__name__: cls for cls in WAYS.values()}
"""Objects that hold options and are parameters themselves, by their names in files."""


class Writer:
    """Collects what goes into a file; ``takes_foreign`` is for who only checks what is ours."""

    def __init__(self, *, takes_foreign: bool = False) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self.vectors: list[dict[str, Any]] = []
        self.parts: list[dict[str, Any]] = []
        self._takes_foreign = takes_foreign
        self._vector_of: dict[Any, int] = {}
        self._index_of: dict[int, tuple[NDArray[Any], int]] = {}
        self._part_of: dict[tuple[int, bool], int] = {}
        self._nesting = Nesting()

    def vector(self, values: NDArray[Any]) -> int:
        """Add a vector, once however often it is used, and return its index."""
        if id(values) in self._index_of:
            return self._index_of[id(values)][1]
        entry, array = labels.pack(values)
        content = tuple(entry["values"]) if array is None else array.tobytes()
        key = (entry["type"], entry["dtype"], content)
        if key not in self._vector_of:
            self._vector_of[key] = len(self.vectors)
            if array is not None:
                self.arrays[f"vector/{len(self.vectors)}"] = array
            self.vectors.append(entry)
        self._index_of[id(values)] = values, self._vector_of[key]  # held, so that its id stays its
        return self._vector_of[key]

    def part(self, calibrator: Any, *, fitted: bool, depth: int = 0) -> int:
        """Add a calibrator and all inside it, once however often it is used."""
        key = (id(calibrator), fitted)
        if key not in self._part_of:
            if depth > header.MAX_NESTING:
                raise errors.NestingError(f"nested more than {header.MAX_NESTING} deep")
            if type(calibrator) not in saved_methods().values():
                if self._takes_foreign:
                    return -1
                raise errors.UnsavableError(
                    f"{type(calibrator).__name__} has no place in a model file; only calibrators "
                    "of this package do, and not subclasses of them"
                )
            entry = self._entry(calibrator, fitted=fitted, depth=depth)
            self._part_of[key] = len(self.parts)
            self.parts.append(entry)
        return self._part_of[key]

    def _entry(self, calibrator: Calibrator, *, fitted: bool, depth: int) -> dict[str, Any]:
        calibrator = take_state(calibrator)  # whole, though another thread may fit it again
        parameters = {n: getattr(calibrator, n) for n in stored_names(type(calibrator))}
        # Parts come first, and are then found by their identity.
        children = [self.part(c, fitted=False, depth=depth + 1) for c in parts_in(parameters)]
        if fitted:
            _refuse_unknown_attributes(calibrator)
            check_fitted(calibrator)
            values = stored_values(calibrator)
            children += [self.part(c, fitted=True, depth=depth + 1) for c in parts_in(values)]
        here = len(self.parts)
        entry: dict[str, Any] = {
            "method": calibrator.method,
            "parameters": {key: self._plain(value, key) for key, value in parameters.items()},
            "classes": None,
            "feature_names": None,
            "fitted": None,
        }
        if fitted:
            entry["classes"] = self.vector(calibrator.classes_)
            if hasattr(calibrator, "feature_names_in_"):
                entry["feature_names"] = self.vector(calibrator.feature_names_in_)
            entry["fitted"] = {
                name: write(kind, values[name], f"{here}/{name}", self)
                for name, kind in stored_types(type(calibrator)).items()
                if name in values
            }
        self._nesting.add([j for j in children if j >= 0], calibrator, fitted=fitted)
        return entry

    def _plain(self, value: Any, name: str) -> Any:
        """Return a parameter as JSON; what JSON lacks is an object that names its type."""
        if value is None or isinstance(value, bool | np.bool_):
            return None if value is None else bool(value)
        if isinstance(value, int | np.integer) and int(value) in header.INT64:
            return int(value)
        if isinstance(value, float | np.floating):
            number = float(value)
            return number if math.isfinite(number) else {"float": str(number)}
        if isinstance(value, str):
            return str(value)
        if isinstance(value, bytes):
            return {"bytes": value.hex()}
        if isinstance(value, Calibrator):
            return {"part": self.part(value, fitted=False)}
        if type(value) in OPTIONS.values():
            options = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
            plain = {key: self._plain(option, f"{name}.{key}") for key, option in options.items()}
            return {"options": type(value).__name__, "values": plain}
        if type(value) in (list, tuple):
            items = [self._plain(item, name) for item in value]
            return items if type(value) is list else {"tuple": items}
        if hasattr(value, "__array__") or isinstance(value, range):
            array = np.asarray(value)
            if array.ndim == 1:
                return {"vector": self.vector(array)}
        raise errors.UnsavableError(
            f"{name} is a {type(value).__name__}, which cannot be saved; use numbers, strings, "
            "lists of them or arrays of one dimension"
        )


def _refuse_unknown_attributes(calibrator: Calibrator) -> None:
    """Refuse to drop fitted attributes that the table does not know.

    What ``partial_fit`` remembers is not what it found: it has bytes of its own.
    """
    check_is_fitted(calibrator, "classes_")
    found = {n for n in vars(calibrator) if n.endswith("_") and not n.startswith("_")}
    needed = {*fitted_types(type(calibrator)), "classes_", "n_features_in_"}
    wrong = (needed - found) | (found - needed - {"feature_names_in_", "statistics_"})
    if wrong:
        raise errors.UnsavableError(
            f"{type(calibrator).__name__}: the attribute {min(wrong)} is missing, or a model file "
            "has no place for it"
        )
