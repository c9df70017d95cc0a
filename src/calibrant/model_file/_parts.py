"""Calibrators and their parts <-> header and arrays.

The calibrators of a file are a flat list, parts before what they are parts of and the outermost
last. They refer to each other, to vectors and to arrays by index and name, so that a part that is
shared is stored once, a cycle cannot be written down, and the header stays shallow.
"""

from __future__ import annotations

import math
import re
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibrant import _gate as gate
from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.checks import MOST_CLASSES, ScoreSummary
from calibrant._calibrators.composition import Composed
from calibrant._calibrators.methods import find_method
from calibrant._calibrators.parameters import stored_names, take_state
from calibrant._calibrators.prior_shift import BY_CLASS
from calibrant._maps.base import CalibrationMap
from calibrant._row_sample import WHOLE_ARRAYS, RowSample, SampleState
from calibrant.errors import ModelFileError
from calibrant.model_file import _format as limits
from calibrant.model_file._fields import (
    optional_fields,
    pack_vector,
    parts_in,
    read,
    set_fit,
    stored_types,
    stored_values,
    unpack_vector,
    write,
)
from calibrant.model_file._format import require, take

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from calibrant._types import Array, Labels

LOOSE_OPTIONS = {
    *("solver", "beta", "epsilon_change", "min_blocks", "n_iterations", "n_iterations_no_change"),
    *("random_state", "split_size_threshold", "verbose"),
}
"""Parameters of "na-fir" in files of 1.0.0 and before that it has no more."""

_PART = {
    "method": str,
    "parameters": dict,
    "classes": int | None,
    "feature_names": int | None,
    "fitted": dict | None,
}
"""Fields of a part, and their types."""


@contextmanager
def refusing(where: str, rule: str) -> Iterator[None]:
    """Refuse what constructors and their checks refuse, also where a value is of another type."""
    try:
        yield
    except ModelFileError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ModelFileError(f"{where}: {error!s:.300}", rule) from None


class Size(NamedTuple):
    """How deep a calibrator is nested, and how many cells it has, with those inside it."""

    depth: int
    n_cells: int


def measure(calibrator: Calibrator, inside: list[Size], *, fitted: bool) -> Size:
    """Return the size of a calibrator of those that it uses; refuse one that is too large."""
    depth = 1 + max((part.depth for part in inside), default=0)
    n_cells = 1000 + sum(part.n_cells for part in inside)
    if fitted:
        n_curves = len(getattr(calibrator.map_, "curves", ()))
        n_cells += calibrator.n_features_in_ + 200 * n_curves
    _check_depth(depth)
    is_small = n_cells <= limits.MAX_CELLS
    require(is_small, f"one row has {n_cells} cells (parts times classes)", "parts")
    return Size(depth, n_cells)


def _check_depth(depth: int) -> None:
    most = limits.MAX_NESTING
    require(depth <= most, f"calibrators are nested more than {most} deep", "parts")


class Writer:
    """Collects what goes into a file."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self.vectors: list[dict[str, object]] = []
        self.parts: list[dict[str, object]] = []
        self._sizes: list[Size] = []
        self._vector_of: dict[tuple[object, ...], int] = {}
        self._part_of: dict[tuple[int, bool], int] = {}

    def vector(self, values: Labels) -> int:
        """Add a vector, once however often it is used, and return its index."""
        entry, array = pack_vector(values)
        content = tuple(entry["values"]) if array is None else array.tobytes()
        key = (entry["type"], entry["dtype"], content)
        if key not in self._vector_of:
            self._vector_of[key] = len(self.vectors)
            if array is not None:
                self.arrays[f"vector/{len(self.vectors)}"] = array
            self.vectors.append(entry)
        return self._vector_of[key]

    def part(self, calibrator: Calibrator, *, fitted: bool, depth: int = 0) -> int:
        """Add a calibrator and all inside it, once however often it is used."""
        key = (id(calibrator), fitted)
        if key not in self._part_of:
            _check_depth(depth)  # of parameters, which may contain themselves
            cls = type(calibrator)
            method = getattr(cls, "method", None)
            is_ours = method is not None and find_method(method) is cls
            message = f"{cls.__name__} cannot be saved; only calibrators of this package can"
            require(is_ours, message, "savable")
            entry = self._entry(take_state(calibrator), fitted=fitted, depth=depth + 1)
            self._part_of[key] = len(self.parts)
            self.parts.append(entry)
        return self._part_of[key]

    def _entry(self, calibrator: Calibrator, *, fitted: bool, depth: int) -> dict[str, object]:
        cls: type = type(calibrator)
        parameters = {name: getattr(calibrator, name) for name in stored_names(cls)}
        # Parts come first, and are then found by their identity.
        children = [self.part(c, fitted=False, depth=depth) for c in parts_in(parameters)]
        values = {}
        if fitted:
            check_is_fitted(calibrator, "classes_")
            check_fitted(calibrator)
            values = stored_values(calibrator)
            children += [self.part(c, fitted=True, depth=depth) for c in parts_in(values)]
        here = len(self.parts)
        entry: dict[str, object] = dict.fromkeys(_PART)
        entry["method"] = calibrator.method
        entry["parameters"] = {name: self._plain(value, name) for name, value in parameters.items()}
        if fitted:
            entry["classes"] = self.vector(calibrator.classes_)
            if hasattr(calibrator, "feature_names_in_"):
                entry["feature_names"] = self.vector(calibrator.feature_names_in_)
            types = stored_types(cls)
            entry["fitted"] = {
                name: write(types[name], value, f"{here}/{name}", self)
                for name, value in values.items()
            }
        sizes = [self._sizes[child] for child in children]
        self._sizes.append(measure(calibrator, sizes, fitted=fitted))
        return entry

    def summary(self, calibrator: Calibrator) -> dict[str, float]:
        """Return the entry of the header for the summary of the scores; arrays are added."""
        summary = calibrator.score_summary_
        self.arrays |= {f"summary/{name}": array for name, array in summary.arrays().items()}
        return {"n_rows": summary.n_rows}

    def sample(self, calibrator: Calibrator) -> dict[str, int]:
        """Return the entry of the header for the rows of ``partial_fit``; arrays are added."""
        sample, name = vars(calibrator).get("sample_"), type(calibrator).__name__
        if not isinstance(sample, RowSample) or sample.n_kept == 0:
            message = f"{name} holds no rows, which only partial_fit keeps; leave out sample=True"
            raise ModelFileError(message, "savable")
        is_own = np.array_equal(sample.classes, calibrator.classes_) and (
            (sample.scores, sample.normalize) == (calibrator.scores, calibrator.normalize)
        )
        require(is_own, f"{name}: sample_ has other classes, scores or normalize", "savable")
        state = sample.state()._asdict()
        self.arrays |= {f"sample/{field}": array for field, array in state.items()}
        return {"max_cells": int(sample.max_cells), "n_rows": sample.n_rows}

    def _plain(self, value: object, name: str, depth: int = 0) -> object:
        """Return a parameter as JSON; what JSON lacks is an object that names its type."""
        most = limits.MAX_LISTS
        require(depth <= most, f"{name} has more than {most} lists in lists", "savable")
        plain = partial(self._plain, name=name, depth=depth + 1)
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int) and value in limits.INT64:
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, bytes):
            return {"bytes": value.hex()}
        if isinstance(value, Calibrator):
            return {"part": self.part(value, fitted=False)}
        if type(value) is list:
            return [plain(item) for item in value]
        if type(value) is tuple:
            return {"tuple": [plain(item) for item in value]}
        if type(value) is dict and name in BY_CLASS:
            return {"dict": [[plain(x) for x in pair] for pair in value.items()]}
        if (hasattr(value, "__array__") or isinstance(value, range)) and np.ndim(value) == 1:
            return {"vector": self.vector(np.asarray(value))}
        remedy = "use numbers, strings, lists of them or arrays of one dimension"
        if hasattr(value, "predict_proba"):  # a classifier of another library
            remedy = f"fit without {name}=, or pickle the calibrator"
        message = f"{name} is a {type(value).__name__}, which cannot be saved; {remedy}"
        raise ModelFileError(message, "savable")


class Reader:
    """Builds calibrators from what a checked file says."""

    def __init__(self, header: dict[str, Any], arrays: dict[str, Array]) -> None:
        self._header, self._arrays = header, arrays
        self._vectors = [
            unpack_vector(entry, f"vector {i}", arrays.pop(f"vector/{i}", None))
            for i, entry in enumerate(header["vectors"])
        ]
        self._unused = {f"vector {i}" for i in range(len(self._vectors))}
        self._parts: list[tuple[Calibrator, bool]] = []
        self._sizes: list[Size] = []
        self._inside: list[Size] = []
        for i, entry in enumerate(header["parts"]):
            self._parts.append(self._read_part(i, entry))
            self._unused.add(f"part {i}")

    def outermost(self) -> Calibrator:
        """Return the calibrator that the file is about; everything in the file belongs to it."""
        has_fit = len(self._parts) > 0 and self._parts[-1][1]
        require(has_fit, "the file has no fitted calibrator", "parts")
        calibrator = self.part(len(self._parts) - 1, "the file", fitted=True)
        if "summary" in self._header:
            calibrator.score_summary_ = self._read_summary(self._header["summary"], calibrator)
        if "sample" in self._header:
            calibrator.sample_ = self._read_sample(self._header["sample"], calibrator)
        unused, arrays = min(self._unused, default=""), min(self._arrays, default="")
        require(not self._unused, f"{unused} belongs to nothing", "parts")
        require(not self._arrays, f"array {arrays!r:.80} belongs to nothing", "arrays")
        return calibrator

    def take(self, name: str, *, whole: bool = False, n_dimensions: int | None = 1) -> Any:
        """Return an array, which nothing else may use."""
        require(name in self._arrays, f"there is no array {name!r:.80}", "arrays")
        array = self._arrays.pop(name)
        is_right = n_dimensions in (None, array.ndim) and array.dtype.kind == "fi"[whole]
        message = f"array {name!r:.80} has {array.ndim} dimensions and dtype {array.dtype}"
        require(is_right, message, "arrays")
        return array

    def vector(self, index: object, where: str) -> Labels:
        """Return a vector by its index."""
        # True is no index.
        if type(index) is not int or not 0 <= index < len(self._vectors):
            raise ModelFileError(f"{where} refers to no vector", "fields")
        self._unused.discard(f"vector {index}")
        return self._vectors[index]

    def part(self, index: object, where: str, *, fitted: bool) -> Calibrator:
        """Return a calibrator that came earlier in the file."""
        if type(index) is not int or not 0 <= index < len(self._parts):
            raise ModelFileError(f"{where} refers to no part before it", "parts")
        calibrator, is_fitted = self._parts[index]
        require(is_fitted == fitted, f"{where} refers to a part that is fitted, or is not", "parts")
        self._unused.discard(f"part {index}")
        self._inside.append(self._sizes[index])
        return calibrator

    def _read_part(self, index: int, entry: object) -> tuple[Calibrator, bool]:
        where = f"part {index}"
        method, parameters, classes, names, stored = take(entry, where, _PART).values()
        if method == "na-fir":
            method, parameters = _without_solver(parameters, where)
        cls = find_method(method)
        if cls is None:
            message = f"the method {method!r:.80} is not known to this version; update calibrant"
            raise ModelFileError(message, "method")
        self._inside = []
        values = {name: self._value(value, where) for name, value in parameters.items()}
        unknown = min(values.keys() - {*stored_names(cls)}, default=None)
        message = f"{cls.__name__} has no parameter {unknown!r:.80}"
        require(unknown is None, message, "parameters")
        with refusing(where, "parameters"):  # one without a default may be missing
            calibrator = cls(**values)
        check_parameters(calibrator)
        is_fitted = stored is not None
        if is_fitted:
            kind: type = cls
            types, optional = stored_types(kind), optional_fields(kind)
            given = take(stored, f"{where}: 'fitted'", dict.fromkeys(types, object), optional)
            with refusing(f"{where}: 'fitted'", "fitted"):
                set_fit(
                    calibrator,
                    {n: read(types[n], v, f"{index}/{n}", self) for n, v in given.items()},
                )
            calibrator.classes_ = self.vector(classes, where)
            calibrator.n_features_in_ = len(calibrator.classes_)
            if names is not None:
                calibrator.feature_names_in_ = self.vector(names, where)
        has_none = is_fitted or (classes, names) == (None, None)
        require(has_none, f"{where} has classes but is not fitted", "fields")
        # First what bounds the time of all other checks.
        self._sizes.append(measure(calibrator, self._inside, fitted=is_fitted))
        if is_fitted:
            check_fitted(calibrator)
        return calibrator, is_fitted

    def _read_arrays(self, prefix: str, names: Iterable[str]) -> list[Any]:
        return [
            self.take(f"{prefix}/{name}", whole=name in WHOLE_ARRAYS, n_dimensions=None)
            for name in names
        ]

    def _read_summary(self, entry: Mapping[str, object], calibrator: Calibrator) -> ScoreSummary:
        """Undo ``Writer.summary``."""
        n_rows = take(entry, "'summary'", {"n_rows": float})["n_rows"]
        arrays = self._read_arrays("summary", [field.name for field in fields(ScoreSummary)[1:]])
        with refusing("'summary'", "fitted"):
            summary = ScoreSummary(n_rows, *arrays)
        n_groups = min(calibrator.n_features_in_, MOST_CLASSES)
        require(len(summary.class_shares) == n_groups, "'summary' is of other classes")
        return summary

    def _read_sample(self, entry: Mapping[str, object], calibrator: Calibrator) -> RowSample:
        """Undo ``Writer.sample``; what no sample has is refused."""
        numbers = take(entry, "'sample'", {"max_cells": int, "n_rows": int})
        state = SampleState(*self._read_arrays("sample", SampleState._fields))
        kind, normalize = calibrator.scores, calibrator.normalize
        with refusing("'sample'", "fitted"):
            sample = RowSample.from_state(
                state, calibrator.classes_, scores=kind, normalize=normalize, **numbers
            )
        return sample

    def _value(self, stored: object, where: str, depth: int = 0) -> Any:
        """Undo ``Writer._plain``."""
        require(depth <= limits.MAX_LISTS, f"{where}: lists are nested too deep", "parts")
        value = partial(self._value, where=where, depth=depth + 1)
        if type(stored) is list:
            return [value(item) for item in stored]
        if type(stored) is not dict:
            return stored
        match list(stored.items()):
            case [("tuple", list(items))]:
                return tuple(value(item) for item in items)
            case [("dict", list(pairs))] if all(type(p) is list and len(p) == 2 for p in pairs):
                values = [(value(k), value(v)) for k, v in pairs]
                if all(isinstance(k, bool | int | float | str | bytes) for k, _ in values):
                    return dict(values)
            case [("float", "nan" | "inf" | "-inf" as name)]:
                return float(name)
            case [("bytes", str(digits))] if re.fullmatch("([0-9a-f]{2})*", digits):
                return bytes.fromhex(digits)
            case [("vector", index)]:
                return self.vector(index, where)
            case [("part", index)]:
                return self.part(index, where, fitted=False)
        raise ModelFileError(f"{where} has {stored!r:.80} for a parameter", "parameters")


def _without_solver(parameters: Mapping[str, object], where: str) -> tuple[str, dict[str, object]]:
    """Return the method, and its parameters, of what files of 1.0.0 have as NA-FIR."""
    kept = {name: value for name, value in parameters.items() if name not in LOOSE_OPTIONS}
    match parameters.get("solver", "exact"):
        case "exact":
            return "na-fir", kept
        case {"options": str(name), "values": dict(values)}:  # a search is a method of its own
            if name == "Annealing":  # which took no notice of it
                kept["max_rounds"] = None
            search = re.sub("(?<=[a-z])(?=[A-Z])", "-", name).lower()
            return f"na-fir-{search}", kept | values
        case solver:
            raise ModelFileError(f"{where} has {solver!r:.80} for a parameter", "parameters")


def check_fitted(calibrator: Calibrator) -> None:
    """Refuse a fitted calibrator that breaks a promise; its map was checked when it was made."""
    classes, map_, name = calibrator.classes_, calibrator.map_, type(calibrator).__name__
    is_vector = isinstance(classes, np.ndarray) and classes.ndim == 1
    require(is_vector, "the classes are not a vector", "labels")
    k, most = len(classes), limits.MAX_CLASSES
    require(2 <= k <= most, f"there are {k} classes; a model has 2 to {most}", "labels")
    is_whole = classes.dtype.kind != "f" or np.all(classes == np.floor(classes))
    require(is_whole, "a class label is a fraction", "labels")
    require(len(set(classes.tolist())) == k, "a class label is repeated", "labels")
    if (names := getattr(calibrator, "feature_names_in_", None)) is not None:
        shape = (gate.n_columns_of(calibrator.scores, k),)
        is_row = isinstance(names, np.ndarray) and (names.shape, names.dtype) == (shape, object)
        is_named = is_row and all(type(name) is str for name in names)
        require(is_named, "feature_names_in_ does not have a name for each column", "labels")
    require(calibrator.n_features_in_ == k, "n_features_in_ is not the number of classes")
    check_parameters(calibrator, k)
    require(isinstance(map_, CalibrationMap), f"map_ is a {type(map_).__name__}")
    require(map_.takes(k), f"{name}: the map does not take rows of {k} classes")
    expects = map_.kind == gate.two_column_kind(calibrator.scores)
    require(expects, f"{name}: the map takes {map_.kind}, not {calibrator.scores}")
    if not isinstance(calibrator, Composed):
        return
    with refusing(name, "fitted"):
        calibrator._compose()  # noqa: SLF001  (ours)
    for part in parts_in(stored_values(calibrator)):
        same = np.array_equal(part.classes_, calibrator.classes_)
        require(same, f"a part of {name} has other classes")
        require(not hasattr(part, "feature_names_in_"), f"a part of {name} has column names")


def check_parameters(calibrator: Calibrator, n_classes: int = 2) -> None:
    """Refuse parameters that ``fit`` would refuse."""
    with refusing(type(calibrator).__name__, "parameters"):
        gate.check_option("scores", calibrator.scores, gate.KINDS)
        gate.check_option("normalize", calibrator.normalize, (None, "rows"))
        gate.check_floor(calibrator.min_probability, n_classes)
        calibrator._check_parameters()  # noqa: SLF001  (ours)
