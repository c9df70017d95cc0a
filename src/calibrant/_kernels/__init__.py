"""Loops over rows and cells, compiled when the package is built: arrays in, arrays out.

Every module is built for any processor and, on x86-64, once more for those with AVX2: the same
source and no contraction, so the same bits. Here one of the two is chosen.
``CALIBRANT_KERNELS=baseline`` takes the first everywhere.
"""

import os
import sys
from importlib import import_module

from calibrant._kernels.processor import has_vectors

MODULES = (
    "annealing",
    "curves",
    "isotonic",
    "logistic",
    "lookup",
    "metrics",
    "monotone_spline",
    "normalization_aware",
    "ranked_lookup",
    "rows",
    "softmax",
    "sorted_cumulative",
    "trees",
)

is_plain = os.environ.get("CALIBRANT_KERNELS") == "baseline" or not has_vectors()
BUILD = "baseline" if is_plain else "x86_64_v3"

for name in MODULES:
    globals()[name] = import_module(f"{__name__}.{BUILD}.{name}")
    sys.modules[f"{__name__}.{name}"] = globals()[name]
