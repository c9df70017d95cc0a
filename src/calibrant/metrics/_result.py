"""What the results of metrics and plots share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Result:
    """Base of frozen dataclasses with slots, whose arrays are made read-only."""

    __slots__: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain numbers and lists."""
        return {name: _plain(getattr(self, name)) for name in self.__slots__}


class Estimate(NamedTuple):
    """A metric and its interval, which is NaN without resamples."""

    value: float
    low: float
    high: float


def _plain(value: Any) -> Any:
    if isinstance(value, Estimate):
        return value._asdict()
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
