"""Header and arrays -> calibrators; ``writer`` says how they are laid out."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from calibrant import errors
from calibrant._calibrators.methods import saved_methods
from calibrant._calibrators.parameters import stored_names
from calibrant._solvers.normalization_aware.ways import Annealing
from calibrant.model_file import _labels as labels
from calibrant.model_file._checks import Nesting, check_fitted, check_parameters
from calibrant.model_file._fields import field_types, optional_fields, read, set_fit, stored_types
from calibrant.model_file._header import take
from calibrant.model_file._writer import OPTIONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._calibrators.base import Calibrator
    from calibrant.model_file._format import Content


class Reader:
    """Builds calibrators from what a checked file says."""

    def __init__(self, content: Content) -> None:
        self.unknown = content.unknown
        self._arrays = dict(content.arrays)
        self._nesting = Nesting()
        self._children: list[int] = []
        self._parts: list[tuple[Calibrator, bool]] = []
        entries, parts = content.header["vectors"], content.header["parts"]
        self._vectors = [
            labels.unpack(e, f"vector {i}", self._arrays.pop(f"vector/{i}", None), self.unknown)
            for i, e in enumerate(entries)
        ]
        self._unused = {f"vector {i}" for i in range(len(entries))}
        for i, entry in enumerate(parts):
            self._parts.append(self._read_part(i, entry))
            self._unused.add(f"part {i}")
        self._unused.discard(f"part {len(parts) - 1}")

    def outermost(self) -> Calibrator:
        """Return the calibrator that the file is about; everything in the file belongs to it."""
        if not self._parts or not self._parts[-1][1]:
            raise errors.NestingError("the file has no fitted calibrator")
        if self._unused:
            raise errors.NestingError(f"{min(self._unused)} belongs to nothing")
        if self._arrays and self.unknown is None:
            raise errors.ArrayLayoutError(f"array {min(self._arrays)!r:.80} belongs to nothing")
        if self.unknown is not None:
            self.unknown += [f"array {name!r:.80}" for name in sorted(self._arrays)]
        return self._parts[-1][0]

    def take(self, name: str, *, whole: bool = False, n_dimensions: int | None = 1) -> NDArray[Any]:
        """Return an array, which nothing else may use."""
        if name not in self._arrays:
            raise errors.ArrayLayoutError(f"there is no array {name!r:.80}")
        array = self._arrays.pop(name)
        if n_dimensions not in (None, array.ndim) or array.dtype.kind != "fi"[whole]:
            raise errors.ArrayLayoutError(
                f"array {name!r:.80} has {array.ndim} dimensions and dtype {array.dtype}"
            )
        return array

    def vector(self, index: Any, where: str) -> NDArray[Any]:
        """Return a vector by its index."""
        if type(index) is not int or not 0 <= index < len(self._vectors):
            raise errors.HeaderFieldError(f"{where} refers to no vector")
        self._unused.discard(f"vector {index}")
        return self._vectors[index]

    def part(self, index: Any, where: str, *, fitted: bool) -> Calibrator:
        """Return a calibrator that came earlier in the file."""
        if type(index) is not int or not 0 <= index < len(self._parts):
            raise errors.NestingError(f"{where} refers to no part before it")
        calibrator, is_fitted = self._parts[index]
        if is_fitted != fitted:
            raise errors.NestingError(f"{where} refers to a part that is fitted, or is not")
        self._unused.discard(f"part {index}")
        self._children.append(index)
        return calibrator

    def _read_part(self, index: int, entry: Any) -> tuple[Calibrator, bool]:
        where = f"part {index}"
        kinds: dict[str, Any] = {"method": str, "parameters": dict, "classes": int | None}
        kinds |= {"feature_names": int | None, "fitted": dict | None}
        found = take(entry, where, self.unknown, **kinds)
        method, parameters, classes, names, stored = found.values()
        cls = saved_methods().get(method)
        if cls is None:
            raise errors.UnknownMethodError(f"the method {method!r:.80} is not known")
        self._children = []
        calibrator = self._build(cls, parameters, where)
        is_fitted = stored is not None
        if is_fitted:
            self._fill(calibrator, index, stored)
            calibrator.classes_ = self.vector(classes, where)
            calibrator.n_features_in_ = len(calibrator.classes_)
            if names is not None:
                calibrator.feature_names_in_ = self.vector(names, where)
        elif (classes, names) != (None, None):
            raise errors.HeaderFieldError(f"{where} has classes but is not fitted")
        # First what bounds the time of all other checks.
        self._nesting.add(self._children, calibrator, fitted=is_fitted)
        if is_fitted:
            check_fitted(calibrator)
        return calibrator, is_fitted

    def _build(self, cls: type[Calibrator], parameters: dict[str, Any], where: str) -> Calibrator:
        values = {name: self._value(value, where) for name, value in parameters.items()}
        if cls.method == "na-fir":  # the first files had options of annealing beside the solver
            values = {n: v for n, v in values.items() if n not in field_types(Annealing)}
        try:
            _refuse_unknown(cls, stored_names(cls), values)
            calibrator = cls(**values)
        except (TypeError, errors.ParameterError) as error:  # one without a default is missing
            raise errors.StoredParameterError(f"{where}: {error}") from None
        check_parameters(calibrator)
        return calibrator

    def _fill(self, calibrator: Calibrator, index: int, stored: dict[str, Any]) -> None:
        types, optional = stored_types(type(calibrator)), optional_fields(type(calibrator))
        where, kinds = f"part {index}: 'fitted'", dict.fromkeys(types, object)
        given = take(stored, where, self.unknown, optional, **kinds)
        try:
            values = {n: read(types[n], v, f"{index}/{n}", self) for n, v in given.items()}
            set_fit(calibrator, values)
        except errors.ParameterError as error:  # what the constructors of maps raise
            raise errors.FittedValueError(f"{where}: {error}") from None

    def _value(self, stored: Any, where: str) -> Any:
        """Undo ``Writer._plain``."""
        if type(stored) is list:
            return [self._value(item, where) for item in stored]
        if type(stored) is not dict:
            return stored
        match sorted(stored.items()):
            case [("tuple", list(items))]:
                return tuple(self._value(item, where) for item in items)
            case [("float", "nan" | "inf" | "-inf" as name)]:
                return float(name)
            case [("bytes", str(digits))] if re.fullmatch("([0-9a-f]{2})*", digits):
                return bytes.fromhex(digits)
            case [("vector", index)]:
                return self.vector(index, where)
            case [("part", index)]:
                return self.part(index, where, fitted=False)
            case [("options", str(name)), ("values", dict(values))] if name in OPTIONS:
                _refuse_unknown(OPTIONS[name], [f.name for f in fields(OPTIONS[name])], values)
                return OPTIONS[name](**{n: self._value(v, where) for n, v in values.items()})
        raise errors.StoredParameterError(f"{where} has {stored!r:.80} for a parameter")


def _refuse_unknown(cls: type, known: list[str], values: dict[str, Any]) -> None:
    for name in values:
        if name not in known:
            raise errors.StoredParameterError(f"{cls.__name__} has no parameter {name!r:.80}")
