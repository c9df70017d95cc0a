"""What the results of metrics and plots share."""

from __future__ import annotations

from typing import Any

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
        values = {name: getattr(self, name) for name in self.__slots__}
        return {
            name: value.tolist() if isinstance(value, np.ndarray | np.generic) else value
            for name, value in values.items()
        }
