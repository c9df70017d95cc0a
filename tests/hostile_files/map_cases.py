"""Broken numbers, step functions and curves."""

from __future__ import annotations

import numpy as np

from calibrant import errors as e
from hostile_files.changes import arrays, fitted, numbers, parameters, together


def flat_surface(f):
    """Let a later rank lie below the earlier one."""
    values, offsets = f.array("values"), f.array("offsets")
    values[offsets[1] :] = values[offsets[1] :].min()
    f.put("values", values)


def maps_for(k, form, vectors):
    """Give every one of k classes the same map."""
    return arrays(
        vector__0=np.arange(k),
        forms=np.full(k, form),
        lengths=np.tile([len(v) for v in vectors], k),
        numbers=np.tile(np.concatenate(vectors), k),
    )


STEPS = {
    (e.FittedValueError, "fir"): [
        (f"{array} {place} {value}", numbers(array, place, value), "")
        for array, place, value in [
            ("thresholds", 1, np.nan),
            ("thresholds", -1, np.inf),
            ("thresholds", -1, 1.5),
            ("thresholds", 0, -0.1),
            ("thresholds", 0, 1e-300),
            ("thresholds", 2, 0.0),
            ("thresholds", 0, -0.0),
            ("values", 1, np.nan),
            ("values", -1, np.inf),
            ("values", -1, 1.5),
            ("values", 0, -1e-9),
            ("values", -1, 0.0),
            ("values", slice(None), 0.0),
            ("values", 0, -0.0),
            ("sizes", 0, -1.0),
            ("sizes", 0, np.nan),
        ]
    ]
    + [("two lengths", lambda f: f.replace_array("values", f.array("values")[:-1]), "alike")],
    (e.FittedValueError, "scir"): [
        ("surface not monotone in rank", flat_surface, "rank to rank"),
        ("offsets that decrease", numbers("offsets", 1, 0), "increase strictly"),
        ("offsets beyond the blocks", numbers("offsets", -1, 10**6), "increase strictly"),
        ("offsets that overflow", numbers("offsets", 1, 2**63 - 1), "increase strictly"),
        ("ranked threshold nan", numbers("thresholds", 1, np.nan), ""),
        ("ranked value above one", numbers("values", -1, 1.5), ""),
        ("ranked value nan", numbers("values", 0, np.nan), ""),
        (
            "more ranks than classes",
            arrays(thresholds=np.zeros(9), values=np.linspace(0, 1, 9), offsets=np.arange(10)),
            "does not take rows of 3 classes",
        ),
    ],
}

NUMBERS = {
    (e.FittedValueError, "ts"): [
        (f"{name} {value}", fitted(**{name: value}), name[:-1])
        for name, value in [
            ("inverse_temperature_", -0.5),
            ("inverse_temperature_", 1e101),
            ("inverse_temperature_", "nan"),
            ("zero_logit_", 1.0),
            ("zero_logit_", "-inf"),
        ]
    ],
    (e.HeaderFieldError, "ts"): [
        (f"number that is {value!r}", fitted(inverse_temperature_=value), "inverse_temperature_")
        for value in (1, True, "1.0", None)
    ],
    (e.FittedValueError, "vs"): [
        (f"{name} {value}", numbers(name, 2, value), name[:-1])
        for name in ("coef_", "intercept_")
        for value in (np.nan, np.inf, -1e200)
    ],
    (e.HeaderFieldError, "vs"): [
        ("array announced as something else", fitted(coef_="step function"), "announced"),
    ],
    (e.FittedValueError, "ms"): [
        ("matrix that is not square", arrays(coef_=np.ones((3, 4))), r"shape \(3, 4\)"),
    ],
    (e.FittedValueError, "spline"): [
        (
            "slopes that are too few",
            lambda f: f.replace_array("slopes_", f.array("slopes_")[1:]),
            "one more",
        ),
        (
            "knots that do not increase",
            lambda f: f.put("knots_", f.array("knots_")[::-1]),
            "increase",
        ),
        (
            "slopes that overflow",
            lambda f: (
                f.put("slopes_", f.array("slopes_") * 0 + 1e303),
                f.put("knots_", np.linspace(-1e90, 0, len(f.array("knots_")))),
            ),
            "overflow",
        ),
        ("slope negative", lambda f: f.put("slopes_", f.array("slopes_") * -1), "outside"),
        (
            "a million knots",
            arrays(knots_=np.linspace(-50.0, 0.0, 1_000_000), slopes_=np.ones(1_000_001)),
            "knots of shape",
        ),
    ],
    (e.FittedValueError, "structured"): [
        (
            "scale that overflows",
            fitted(scale_=1e300, zero_logit_=-1e149),
            "scale times zero_logit",
        ),
        (
            "coefficients that overflow",
            together(
                fitted(scale_=1e300), parameters(bound=0.0), arrays(coef_=np.full((3, 3), 1e99))
            ),
            "coef times scale",
        ),
        (
            "logits whose mean overflows",
            together(
                fitted(scale_=1e300, zero_logit_=-9e5),
                parameters(bound=0.0),
                arrays(coef_=np.zeros((3, 3))),
            ),
            "coef times scale",
        ),
        ("matrix of three dimensions", arrays(coef_=np.ones((3, 3, 3))), "shape"),
    ],
}

CURVES = {
    (e.FittedValueError, "ir-ovr"): [
        ("map of unknown form", numbers("forms", 2, 99), "unknown form"),
        ("map of another form", numbers("forms", 2, 3), ""),
        ("lengths that overflow", numbers("lengths", slice(2), 2**63 - 1), "fill"),
        ("length that is negative", numbers("lengths", 0, -1), ""),
        (
            "curve that decreases",
            arrays(lengths=[2] * 6, numbers=[1.0, 0.0, 0.0, 1.0] * 3),
            "increase",
        ),
        ("curve outside the unit square", numbers("numbers", -1, 2.0), "unit square"),
        (
            "curve of two lengths",
            arrays(lengths=[3, 2] * 3, numbers=[0.0, 0.5, 1.0, 0.0, 1.0] * 3),
            "x and y must be 1-D, alike",
        ),
        (
            "curve of infinite slope",
            arrays(lengths=[2] * 6, numbers=[0.0, 1e-310, 0.0, 1.0] * 3),
            "steep",
        ),
        (
            "fewer curves than classes",
            arrays(forms=[0, 0], lengths=[2] * 4, numbers=[0.0, 1.0] * 4),
            "does not take rows of 3",
        ),
    ],
    (e.FittedValueError, "beta-ovr"): [("slope negative", numbers("numbers", 0, -1.0), "")],
    (e.FittedValueError, "two-class"): [("end moved", numbers("numbers", 2, 1.0), "must go from")],
    (e.FittedValueError, "platt-ovr"): [("bound zero", numbers("numbers", 2, 0.0), "logarithms")],
    (e.FittedValueError, "bbq-ovr"): [
        (
            "number of bins nan",
            lambda f: numbers("numbers", f.array("lengths")[:3].sum(), np.nan)(f),
            "whole",
        ),
        (
            "a map for each of a million classes",
            maps_for(1_000_000, 5, [[0.0], [0.5], [1.0], [1.0], [0.0]]),
            "25000 binary maps",
        ),
    ],
    (e.FittedValueError, "scw"): [
        ("group without a map", numbers("groups_", 0, 7), "curves where groups"),
    ],
    (e.FittedValueError, "m2b-hb"): [
        ("maps of too few classes", parameters(per_class=False), "3 curves where"),
    ],
}

TABLES = (STEPS, NUMBERS, CURVES)
