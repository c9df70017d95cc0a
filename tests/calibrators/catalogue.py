"""Every calibrator, with what the paper's Table 1 says of it."""

import calibrant

# name: (order preserving, permutation invariant)
TABLE_1 = {
    "TemperatureScaling": (True, True),
    "VectorScaling": (False, False),
    "MatrixScaling": (False, False),
    "OneVsRestIsotonic": (False, False),
    "FlattenedIsotonic": (True, True),
    "NormalizationAwareIsotonic": (True, True),
    "SortedCumulativeIsotonic": (False, True),
}

CALIBRATORS = [getattr(calibrant, name) for name in TABLE_1]
ORDER_PRESERVING = [getattr(calibrant, n) for n, (order, _) in TABLE_1.items() if order]
PERMUTATION_INVARIANT = [getattr(calibrant, n) for n, (_, same) in TABLE_1.items() if same]

# Iterative methods are compared to their tolerance, closed forms bit by bit.
QUICK = {"VectorScaling": {"max_rounds": 50}, "MatrixScaling": {"max_rounds": 50, "odir": 0.1}}

# Without cross-validation, whose choice is a matter of folds; and without a prior, which is a
# number of rows: twice the weight is twice the data, and shrinks less.
UNREGULARISED = {
    "NormalizationAwareIsotonic": {"prior_strength": 0},
    "SortedCumulativeIsotonic": {"prior_share": 0.05},
}

# With a given prior: on a handful of rows the one that cross-validation finds is a matter of
# rounding.
GIVEN_PRIOR = {
    "NormalizationAwareIsotonic": {"prior_strength": 5},
    "SortedCumulativeIsotonic": {"prior_share": 0.05},
}


def make(cls, **parameters):
    """Return a calibrator that is quick enough for many small fits."""
    return cls(**QUICK.get(cls.__name__, {}), **parameters)
