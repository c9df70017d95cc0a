"""What a file holds of each method: the fields of its map, and what else its fit found."""

from __future__ import annotations

from functools import cache
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args

from calibrant import errors
from calibrant.calibrators.composition import Composed
from calibrant.calibrators.parameters import fitted_types
from calibrant.model_file.fields import field_types
from calibrant.solvers.normalization_aware.ways import WAYS, Annealing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from calibrant.calibrators.base import Calibrator

BEFORE: dict[str, dict[str, Any]] = {
    method: {"prior_strength": 0.0} for method in ("ts", "ir-ovr", "hb-ovr", "structured", "spline")
} | {"ms": {"odir": 0.0}, "auto": {"caution": 0.0, "finish": 1e12}}
"""Parameters that came after the first files of a method, where what those were fitted with is not
today's default."""

OPTIONS: dict[str, type] = {cls.__name__: cls for cls in WAYS.values()}
"""Objects that hold options and are parameters themselves, by their names in files."""

GIVEN = {"kind": "scores"} | {name: name for name in ("bound", "per_class", "normalize_output")}
"""Fields of maps that a file has as parameters: the parameter of each."""


def upgrade(method: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the stored parameters of a method as those of today; may refuse them.

    Once the options of NA-FIR's solvers stood beside the solver's name.
    """
    values = BEFORE.get(method, {}) | parameters
    solver = values.get("solver", "exact")
    if method == "na-fir" and isinstance(solver, str):
        names = field_types(Annealing).keys() & values.keys()
        annealing = Annealing(**{name: values.pop(name) for name in names})
        annealing.check()
        if solver in WAYS:
            values["solver"] = annealing if solver == annealing.name else WAYS[solver]()
    return values


@cache
def stored_types(cls: type[Calibrator]) -> dict[str, Any]:
    """Return the type of all that is stored of a fit, by name.

    A field of the map has its name with an underscore; a composition's map is made of its parts.
    """
    found = fitted_types(cls)
    map_type = found.pop("map_")
    if issubclass(cls, Composed):
        return found
    own = {f"{f}_": of for f, of in field_types(map_type).items() if f not in GIVEN}
    return own | found


@cache
def optional_fields(cls: type[Calibrator]) -> frozenset[str]:
    """Return the names of fields that may be None, and then have no place.

    They are fields of the map; of a composition, whose map is made of its parts, what a fit sets.
    """
    if issubclass(cls, Composed):
        return frozenset(n for n, of in stored_types(cls).items() if NoneType in get_args(of))
    types = field_types(fitted_types(cls)["map_"])
    return frozenset(f"{name}_" for name, of in types.items() if NoneType in get_args(of))


def stored_values(calibrator: Calibrator) -> dict[str, Any]:
    """Return all that is stored of a fit; refuses parameters that are no longer those of it."""
    cls, found = type(calibrator), calibrator.map_
    own = {} if isinstance(calibrator, Composed) else field_types(type(found))
    for field, parameter in _given(calibrator, own):
        if getattr(found, field) != getattr(calibrator, parameter):
            raise errors.UnsavableError(
                f"{cls.__name__}: {parameter} was changed after the fit; fit again"
            )
    values = {
        name: getattr(found, name[:-1]) if name[:-1] in own else getattr(calibrator, name)
        for name in stored_types(cls)
    }
    return {n: v for n, v in values.items() if v is not None or n not in optional_fields(cls)}


def set_fit(calibrator: Calibrator, values: dict[str, Any]) -> None:
    """Undo ``stored_values``: make the map, whose constructor checks it, and set all."""
    if isinstance(calibrator, Composed):
        values = dict.fromkeys(optional_fields(type(calibrator))) | values
        found = calibrator._compose(values)  # noqa: SLF001  (ours)
    else:
        map_type = fitted_types(type(calibrator))["map_"]
        types = field_types(map_type)
        own = {f: values.pop(f"{f}_", None) for f in types if f not in GIVEN}
        for field, parameter in _given(calibrator, types):
            own[field] = types[field](getattr(calibrator, parameter))
        found = map_type(**own)
    calibrator.__dict__ |= values | {"map_": found}


def _given(calibrator: Calibrator, map_fields: Iterable[str]) -> list[tuple[str, str]]:
    pairs = [(field, GIVEN[field]) for field in map_fields if field in GIVEN]
    return [(field, parameter) for field, parameter in pairs if hasattr(calibrator, parameter)]
