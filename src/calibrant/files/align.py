"""Bring the labels of a file and the names of its columns together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.files.predictions import Predictions


def align(found: Predictions) -> tuple[NDArray[Any], list[str] | None]:
    """Labels of a file, and the class of each column where the names of the columns tell it.

    In text everything is text: labels are read as whole numbers unless the columns are named
    after them.
    """
    labels = found.require_labels()
    if found.classes is None:
        return labels, None
    text = np.array([str(label) for label in labels.tolist()])
    if np.isin(text, found.classes).all():
        return text, found.classes
    try:
        return text.astype(np.int64), None
    except ValueError:
        return text, None
