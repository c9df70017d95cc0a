"""What results of metrics, plots and comparisons share: frozen fields that say what they are."""

from __future__ import annotations

import math
import re
import reprlib
from dataclasses import MISSING, dataclass, field, fields
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, dataclass_transform

import numpy as np

from calibrant._html import short_number, table

if TYPE_CHECKING:
    from collections.abc import Callable

Class = TypeVar("Class", bound=type)
MARKUP = re.compile(r"(?::\w+:)?`+~?([^`]*)`+")
"""Names in docstrings, as reStructuredText marks them."""

MOST_SHOWN = 6  # most numbers of an array that notebooks show
ARRAYS = {"Floats": "ndarray", "Wholes": "ndarray of int", "NDArray[Any]": "ndarray"}


def doc(text: str, default: Any = MISSING) -> Any:
    """Return a field of a result, and what it is."""
    return field(default=default, metadata={"doc": text})


@dataclass_transform(frozen_default=True, field_specifiers=(doc, field))
def result(*, eq: bool = True, repr: bool = True) -> Callable[[Class], Class]:  # noqa: A002
    """Return a decorator that makes a frozen dataclass, whose docstring lists its fields."""

    def decorate(cls: Class) -> Class:
        made: Any = dataclass(frozen=True, slots=True, eq=eq, repr=repr)(cls)
        entries = ["Attributes", "----------"]
        for own in fields(made):
            entries.append(f"{own.name} : {ARRAYS.get(str(own.type), own.type)}")
            entries += [f"    {own.metadata['doc']}"] if own.metadata else []
        made.__doc__ = "\n".join([cleandoc(made.__doc__ or ""), "", *entries, ""])
        return made  # type: ignore[no-any-return]

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
        """Return a table of the fields, and what they are."""
        rows = []
        for own in fields(self):  # type: ignore[arg-type]
            about = MARKUP.sub(r"\1", own.metadata.get("doc", ""))
            rows.append((own.name, _brief(getattr(self, own.name)), about))
        return table(("field", "value", "meaning"), rows, n_text=3)


class Estimate(NamedTuple):
    """A metric and its interval, which is NaN without resamples."""

    value: float
    low: float
    high: float


def _brief(value: Any) -> str:
    """Return a value in a few words: of an array that is long, its shape."""
    if isinstance(value, Estimate):
        low, high = short_number(value.low), short_number(value.high)
        interval = "" if math.isnan(value.low) else f" ({low} to {high})"
        return f"{short_number(value.value)}{interval}"
    if isinstance(value, float):
        return short_number(value, 5)
    if isinstance(value, np.ndarray):
        if value.size > MOST_SHOWN:
            return f"{value.dtype} of shape {value.shape}"
        return np.array2string(value, precision=5, separator=", ")
    if isinstance(value, tuple) and len(value) <= MOST_SHOWN:
        return f"({', '.join(map(_brief, value))})"
    return reprlib.repr(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Estimate):
        return value._asdict()
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
