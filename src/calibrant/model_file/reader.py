"""Header and arrays -> calibrators; ``writer`` says how they are laid out."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from calibrant import errors
from calibrant.calibrators.methods import saved_methods
from calibrant.calibrators.parameters import stored_names
from calibrant.model_file import limits, vectors
from calibrant.model_file.fields import read
from calibrant.model_file.parts import Labels, Tree, check_fitted, check_parameters
from calibrant.model_file.schema import OPTIONS, optional_fields, set_fit, stored_types, upgrade
from calibrant.model_file.strict_json import Fields

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.calibrators.base import Calibrator
    from calibrant.model_file.format import Content


class Reader:
    """Builds calibrators from what a checked file says."""

    def __init__(self, content: Content) -> None:
        self.unknown = content.unknown
        self._arrays = dict(content.arrays)
        self._size = content.size
        self._tree = Tree()
        self._labels = Labels()
        self._n_labels = 0
        self._children: list[int] = []
        self._parts: list[tuple[Calibrator, bool]] = []
        header = content.header
        entries = header.take("vectors", list)
        if len(entries) > limits.MAX_VECTORS:
            raise errors.StoredClassesError(f"there are {len(entries)} vectors")
        self._vectors = [self._read_vector(i, entry) for i, entry in enumerate(entries)]
        self._unused = {f"vector {i}" for i in range(len(entries))}
        parts = header.take("parts", list)
        header.close(self.unknown)
        for i, entry in enumerate(parts):
            self._parts.append(self._read_part(i, Fields(entry, f"part {i}")))
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
        self._tree.count_numbers(array.size)
        return array

    def count_maps(self, n: int) -> None:
        """Count binary maps before they are made."""
        self._tree.count_maps(n)

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
        if len(self._children) > limits.MAX_REFERENCES:
            raise errors.NestingError(f"{where} refers to more than {limits.MAX_REFERENCES} parts")
        return calibrator

    def _read_vector(self, index: int, entry: Any) -> NDArray[Any]:
        fields = Fields(entry, f"vector {index}")
        array = self._arrays.pop(f"vector/{index}", None)
        self._n_labels += 0 if array is None else array.size
        vectors.check_total(self._n_labels)
        vector = vectors.read(fields, array)
        fields.close(self.unknown)
        return vector

    def _read_part(self, index: int, fields: Fields) -> tuple[Calibrator, bool]:
        method = fields.take("method", str)
        cls = saved_methods().get(method)
        if cls is None:
            raise errors.UnknownMethodError(f"the method {method!r:.80} is not known")
        self._children = []
        calibrator = self._build(cls, fields.take("parameters", dict), fields.where)
        classes = fields.take("classes", int, type(None))
        names = fields.take("feature_names", int, type(None))
        stored = fields.take("fitted", dict, type(None))
        fields.close(self.unknown)
        is_fitted = stored is not None
        if is_fitted:
            self._fill(calibrator, index, Fields(stored, f"{fields.where}: 'fitted'"))
            calibrator.classes_ = self.vector(classes, fields.where)
            calibrator.n_features_in_ = len(calibrator.classes_)
            if names is not None:
                calibrator.feature_names_in_ = self.vector(names, fields.where)
            # First what bounds the time of all other checks.
            self._tree.add(self._children, calibrator.map_.work * calibrator.n_features_in_)
            self._tree.check_work(self._size)
            check_fitted(calibrator, self._labels)
        elif (classes, names) != (None, None):
            raise errors.HeaderFieldError(f"{fields.where} has classes but is not fitted")
        else:
            self._tree.add(self._children, 0)
        return calibrator, is_fitted

    def _build(self, cls: type[Calibrator], parameters: dict[str, Any], where: str) -> Calibrator:
        known = stored_names(cls)
        values = {name: self._value(value, where) for name, value in parameters.items()}
        try:
            values = upgrade(cls.method or "", values)
            _refuse_unknown(cls, known, values)
            calibrator = cls(**values)
        except (TypeError, errors.ParameterError) as error:  # one without a default is missing
            raise errors.StoredParameterError(f"{where}: {error}") from None
        check_parameters(calibrator)
        return calibrator

    def _fill(self, calibrator: Calibrator, index: int, fields: Fields) -> None:
        cls = type(calibrator)
        try:
            values = {
                name: read(kind, fields.take(name), f"{index}/{name}", self)
                for name, kind in stored_types(cls).items()
                if fields.has(name) or name not in optional_fields(cls)
            }
            set_fit(calibrator, values)
        except errors.ParameterError as error:  # what the constructors of maps raise
            raise errors.FittedValueError(f"{fields.where}: {error}") from None
        fields.close(self.unknown)

    def _value(self, stored: Any, where: str) -> Any:
        """Undo ``Writer._plain``."""
        if type(stored) is list:
            return [self._value(item, where) for item in stored]
        if type(stored) is not dict:
            return stored
        tagged = Fields(stored, f"{where}: a parameter")
        if tagged.has("tuple"):
            value: Any = tuple(self._value(item, where) for item in tagged.take("tuple", list))
        elif tagged.has("float"):
            name = tagged.take("float", str)
            if name not in ("nan", "inf", "-inf"):
                raise errors.StoredParameterError(f"{where} has the float {name!r:.40}")
            value = float(name)
        elif tagged.has("bytes"):
            try:
                value = bytes.fromhex(tagged.take("bytes", str))
            except ValueError:
                raise errors.StoredParameterError(f"{where} has broken bytes") from None
        elif tagged.has("options"):
            name = tagged.take("options", str)
            if name not in OPTIONS:
                raise errors.StoredParameterError(f"{where}: there are no options {name!r:.80}")
            values = tagged.take("values", dict)
            _refuse_unknown(OPTIONS[name], [f.name for f in fields(OPTIONS[name])], values)
            value = OPTIONS[name](**{key: self._value(v, where) for key, v in values.items()})
        elif tagged.has("vector"):
            value = self.vector(tagged.take("vector"), where)
        else:
            value = self.part(tagged.take("part"), where, fitted=False)
        tagged.close(None)
        return value


def _refuse_unknown(cls: type, known: list[str], values: dict[str, Any]) -> None:
    for name in values:
        if name not in known:
            raise errors.StoredParameterError(f"{cls.__name__} has no parameter {name!r:.80}")
