"""Broken numbers, step functions and curves: each way of reading; tests/maps has the rules."""

from __future__ import annotations

import numpy as np

from hostile_files.changes import arrays, fitted, numbers, parameters


def maps_for(k, form, vectors):
    """Give every one of k classes the same map."""
    return arrays(
        vector__0=np.arange(k),
        forms=np.full(k, form),
        lengths=np.tile([len(v) for v in vectors], k),
        numbers=np.tile(np.concatenate(vectors), k),
    )


STEPS = {
    ("fitted", "fir"): [
        ("threshold nan", numbers("thresholds", 1, np.nan), ""),
        ("values of zero", numbers("values", slice(None), 0.0), "largest value"),
        ("size negative", numbers("sizes", 0, -1.0), "sizes"),
        (
            "two lengths",
            lambda f: f.replace_array("values", f.array("values")[:-1]),
            "of the same length",
        ),
    ],
    ("fitted", "scir"): [
        ("offsets that overflow", numbers("offsets", 1, 2**63 - 1), "increase strictly"),
        ("ranked value above one", numbers("values", -1, 1.5), ""),
        (
            "more ranks than classes",
            arrays(thresholds=np.zeros(9), values=np.linspace(0, 1, 9), offsets=np.arange(10)),
            "does not take rows of 3 classes",
        ),
    ],
}

NUMBERS = {
    ("fitted", "ts"): [
        (f"number {value}", fitted(inverse_temperature_=value), "inverse_temperature")
        for value in (-0.5, 1e101, "nan")
    ],
    ("fields", "ts"): [
        (f"number that is {value!r}", fitted(inverse_temperature_=value), "inverse_temperature_")
        for value in (1, True, "1.0", None)
    ],
    ("fitted", "vs"): [("coefficient nan", numbers("coef_", 2, np.nan), "coef")],
    ("fields", "vs"): [
        ("array announced as something else", fitted(coef_="step function"), "declared"),
    ],
    ("fitted", "ms"): [
        ("matrix that is not square", arrays(coef_=np.ones((3, 4))), r"shape \(3, 4\)"),
    ],
    ("fitted", "spline"): [
        ("slope negative", lambda f: f.put("slopes_", f.array("slopes_") * -1), "outside"),
        (
            "a million knots",
            arrays(knots_=np.linspace(-50.0, 0.0, 1_000_000), slopes_=np.ones(1_000_001)),
            "knots has shape",
        ),
    ],
    ("fitted", "structured"): [
        ("scale that overflows", fitted(scale_=1e300, zero_logit_=-1e149), "scale times"),
        ("matrix of three dimensions", arrays(coef_=np.ones((3, 3, 3))), "shape"),
    ],
}

CURVES = {
    ("fitted", "ir-ovr"): [
        ("map of unknown form", numbers("forms", 2, 99), "unknown form"),
        ("map of another form", numbers("forms", 2, 3), ""),
        ("lengths that overflow", numbers("lengths", slice(2), 2**63 - 1), "fill"),
        ("length that is negative", numbers("lengths", 0, -1), ""),
        ("curve outside the unit square", numbers("numbers", -1, 2.0), "unit square"),
        (
            "fewer curves than classes",
            arrays(forms=[0, 0], lengths=[2] * 4, numbers=[0.0, 1.0] * 4),
            "does not take rows of 3",
        ),
    ],
    ("fitted", "beta-ovr"): [("slope below zero", numbers("numbers", 0, -1.0), "")],
    ("fitted", "platt-ovr"): [("bound zero", numbers("numbers", 2, 0.0), "positive")],
    ("fitted", "two-class"): [("end moved", numbers("numbers", 2, 1.0), "must go from")],
    ("fitted", "bbq-ovr"): [
        (
            "a map for each of a million classes",
            maps_for(1_000_000, 5, [[0.0], [0.5], [1.0], [1.0], [0.0]]),
            "25000 binary maps",
        ),
    ],
    ("fitted", "scw"): [
        ("group without a map", numbers("groups_", 0, 7), "each group needs exactly one"),
    ],
    ("fitted", "m2b-hb"): [
        ("maps of too few classes", parameters(per_class=False), "3 curves, but"),
    ],
}

TABLES = (STEPS, NUMBERS, CURVES)
