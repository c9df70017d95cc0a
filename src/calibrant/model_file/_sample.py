"""The rows that ``partial_fit`` goes on from <-> header and arrays.

Their classes and the kind of their scores are those of the calibrator, which a file has already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors
from calibrant._row_sample import FLOAT_ARRAYS, WHOLE_ARRAYS, RowSample
from calibrant.model_file._format import take

if TYPE_CHECKING:
    from calibrant.model_file._parts import Reader, Writer

TWO_DIMENSIONS = ("rows", "rests")


def write_sample(calibrator: Any, writer: Writer) -> dict[str, Any]:
    """Return what stands in the header for the rows of a calibrator; arrays go to ``writer``."""
    sample, name = vars(calibrator).get("sample_"), type(calibrator).__name__
    if sample is None:
        raise errors.UnsavableError(
            f"{name} holds no rows, which only partial_fit keeps; use partial_fit, or leave "
            "sample=True out"
        )
    state = check_sample(calibrator)
    if state["n_rows"] == 0 or len(state["rows"]) == 0:
        raise errors.UnsavableError(f"{name}: sample_ has no rows; leave sample=True out")
    for array in (*WHOLE_ARRAYS, *FLOAT_ARRAYS):
        writer.arrays[f"sample/{array}"] = state[array]
    return {"max_cells": int(state["max_cells"]), "n_rows": int(state["n_rows"])}


def check_sample(calibrator: Any) -> dict[str, Any]:
    """Return the state of the rows of a calibrator; refuse rows that no calibrator of this has."""
    sample, name = calibrator.sample_, type(calibrator).__name__
    if type(sample) is not RowSample:
        raise errors.UnsavableError(f"{name}: sample_ is a {type(sample).__name__}")
    is_own = np.array_equal(sample.classes, calibrator.classes_)
    if not is_own or (sample.scores, sample.normalize) != (calibrator.scores, calibrator.normalize):
        raise errors.UnsavableError(
            f"{name}: sample_ has other classes, scores or normalize than the calibrator; fit again"
        )
    state = sample.state()
    _build(state)
    return state


def read_sample(stored: Any, calibrator: Any, reader: Reader) -> RowSample:
    """Undo ``write_sample``, and check everything."""
    given = take(stored, "'sample'", reader.unknown, max_cells=int, n_rows=int)
    state: dict[str, Any] = {
        "classes": calibrator.classes_,
        "scores": calibrator.scores,
        "normalize": calibrator.normalize,
        "max_cells": given["max_cells"],
        "n_rows": given["n_rows"],
    }
    for name in (*WHOLE_ARRAYS, *FLOAT_ARRAYS):
        whole, n_dimensions = name in WHOLE_ARRAYS, 1 + (name in TWO_DIMENSIONS)
        state[name] = reader.take(f"sample/{name}", whole=whole, n_dimensions=n_dimensions)
    return _build(state)


def _build(state: dict[str, Any]) -> RowSample:
    try:
        return RowSample.from_state(state)
    except (errors.DataError, errors.ParameterError) as error:
        raise errors.FittedValueError(f"'sample': {error!s:.300}") from None
