"""What results of metrics, plots and comparisons share: frozen fields that say what they are."""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, field, fields
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast, dataclass_transform

import numpy as np

from calibrant._extras import needed
from calibrant._text import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import pandas as pd

Class = TypeVar("Class", bound=type)
ARRAYS = dict.fromkeys(("Floats", "Labels", "Array", "NDArray[Any]"), "ndarray") | {
    "Wholes": "ndarray of int",
    "Bools": "ndarray of bool",
    "Label": "object",
}


def doc(text: str, default: object = MISSING) -> Any:
    """Return a field of a result, and what it is."""
    return field(default=default, metadata={"doc": text})


@dataclass_transform(frozen_default=True, field_specifiers=(doc, field))
def result(*, eq: bool = True, repr: bool = True) -> Callable[[Class], Class]:  # noqa: A002
    """Return a decorator that makes a frozen dataclass, whose docstring lists its fields."""

    def decorate(cls: Class) -> Class:
        made: type = dataclass(frozen=True, slots=True, eq=eq, repr=repr)(cls)
        entries = ["Attributes", "----------"]
        for own in fields(made):
            entries.append(f"{own.name} : {ARRAYS.get(str(own.type), own.type)}")
            entries += [f"    {own.metadata['doc']}"] if own.metadata else []
        made.__doc__ = "\n".join([cleandoc(made.__doc__ or ""), "", *entries, ""])
        return cast("Class", made)

    return decorate


class Result:
    """Base of results that are numbers: their arrays are made read-only."""

    __slots__: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain numbers and lists."""
        return {name: _plain(getattr(self, name)) for name in self.__slots__}

    def _repr_html_(self) -> str:
        """Return what ``print`` shows."""
        return f'<pre style="white-space:pre-wrap">{escape(self)}</pre>'


def data_frame(rows: Iterable[dict[str, object]], columns: list[str] | None = None) -> pd.DataFrame:
    """Return a data frame with these rows."""
    try:
        import pandas as pd
    except ImportError as error:
        raise needed(error, "to_frame", "cli") from error
    return pd.DataFrame(list(rows), columns=columns)


class Estimate(NamedTuple):
    """A number and its interval; NaN is for none."""

    value: float
    low: float = math.nan
    high: float = math.nan


def with_ends(estimates: Mapping[str, Estimate]) -> dict[str, object]:
    """Return estimates as columns of a table: name, name_low and name_high."""
    result: dict[str, object] = {}
    for name, (value, low, high) in estimates.items():
        result |= {name: value, f"{name}_low": low, f"{name}_high": high}
    return result


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {name: _plain(own) for name, own in value.items()}
    if isinstance(value, Estimate):
        return value._asdict()
    if isinstance(value, Result):
        return value.to_dict()
    if isinstance(value, tuple) and value and isinstance(value[0], Estimate | Result):
        return [_plain(own) for own in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
