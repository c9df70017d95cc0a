"""Files that ask for much: each size is allowed, their product is not."""

from __future__ import annotations

import numpy as np

from calibrant import errors as e
from hostile_files.registry import case


def widen(f, k):
    """Give vector scaling and what contains it k classes."""
    f.replace_array("vector/0", np.arange(k))
    f.replace_array("coef_", np.ones(k))
    f.replace_array("intercept_", np.zeros(k))


@case(e.NestingError, "mixture", "as parts and classes multiply")
def mixture_of_many_parts_at_a_million_classes(f):
    widen(f, 1_000_000)
    f.part()["fitted"]["calibrators_"] = [2] + [3] * 249
    f.replace_array("weights_", np.full(250, 1 / 250))


@case(e.NestingError, "chain", "as parts and classes multiply")
def chain_of_many_stages_at_many_classes(f):
    widen(f, 30_000)
    f.part()["fitted"]["calibrators_"] = [2] + [3] * 1000


@case(e.StoredParameterError, "chain", "not a calibrator")
def calibrators_that_are_many_numbers(f):
    f.part()["parameters"]["calibrators"] = [0] * 90_000


@case(e.NestingError, "chain", "more than 1024 parts")
def calibrators_that_are_one_part_many_times(f):
    f.part()["parameters"]["calibrators"] = [{"part": 0}] * 30_000


@case(e.StoredClassesError, "ts", "more than 2100000 entries")
def vectors_of_millions_of_numbers(f):
    f.header["vectors"] += [{"type": "int", "dtype": "object"}] * 3
    for i in range(1, 4):
        f.add_array(f"vector/{i}", np.zeros(700_000, dtype=np.int64), "int64")


@case(e.FittedValueError, "spline", "knots of shape")
def a_million_knots(f):
    f.replace_array("knots_", np.linspace(-50.0, 0.0, 1_000_000))
    f.replace_array("slopes_", np.ones(1_000_001))


def one_map_each(f, k, form, vectors):
    """Give every one of k classes the same map."""
    f.replace_array("vector/0", np.arange(k))
    f.replace_array("forms", np.full(k, form))
    f.replace_array("lengths", np.tile([len(v) for v in vectors], k))
    f.replace_array("numbers", np.tile(np.concatenate(vectors), k))


@case(e.FittedValueError, "bbq-ovr", "25000 binary maps")
def a_map_for_each_of_a_million_classes(f):
    one_map_each(f, 1_000_000, 5, [[0.0], [0.5], [1.0], [1.0], [0.0]])
