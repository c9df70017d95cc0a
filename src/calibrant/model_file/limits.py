"""The limits of a model file; ``docs/model-files.md`` explains each."""

from __future__ import annotations

from typing import Any

from calibrant.errors import FittedValueError

MAX_FILE = 2**30
"""Bytes of a file, unless ``max_bytes`` says otherwise."""

MAX_HEADER = 16 * 2**20
"""Bytes of the JSON header."""

MAX_DEPTH = 8
"""Containers inside containers in the header."""

MAX_TEXTS = 2_100_000
"""Strings in the header: the labels and column names of a million classes, and the rest."""

MAX_VALUES = 100_000
"""Numbers, constants and brackets in the header; long lists of numbers are arrays."""

MAX_NUMBER = 32
"""Characters of a number in the header; float64 and int64 need at most 24."""

MAX_ARRAYS = 64
MAX_DIMENSIONS = 3
MAX_CLASSES = 1_000_000
MAX_LABEL = 1024
"""Bytes of a text label, in UTF-8."""

MAX_LABEL_TABLE = 64 * 2**20
"""Bytes of a numpy array of text labels, in which every label is as wide as the widest."""

MAX_PARTS = 256
"""Calibrators in a file: the outermost, its parts, and the unfitted parts it was made of."""

MAX_VECTORS = 256
"""Lists of labels or names; parts share theirs."""

MAX_NESTING = 8
"""Calibrators inside calibrators."""

MAX_REFERENCES = 1024
"""Calibrators counted as often as they are used."""

MAX_LABELS = 2_100_000
"""Entries of all vectors of numbers together; texts have the same limit."""

MAX_MAPS = 25_000
"""Binary maps in a file: each is an object of its own, and a call at prediction."""

WORK_PER_BYTE = 2
SMALL_WORK = 2**23
"""Work of ``predict_proba`` for one row: at most ``WORK_PER_BYTE`` for each byte of the file, and
``SMALL_WORK`` for any file. The unit is what temperature scaling does for one class of a row,
about 40 ns; a part counts as often as it is used."""

WORK_OF_MAP = 200
"""Work of calling one binary map."""

MEMORY_PER_BYTE = 4
SMALL_MEMORY = 2**28
"""Memory of loading a file and predicting one row: ``MEMORY_PER_BYTE`` for each byte of the file,
and ``SMALL_MEMORY`` for any file; what holds it are the limits above."""

INT64 = range(-(2**63), 2**63)


def require(condition: Any, message: str) -> None:
    """Refuse a fitted value unless ``condition`` holds."""
    if not condition:
        raise FittedValueError(message)
