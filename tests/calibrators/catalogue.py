"""Every calibrator there is, found as the package finds it, with parameters for many small fits."""

import pytest

import calibrant
from calibrant import study
from conftest import every_method

quiet = [
    pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
]

# Two are fitted and applied with groups or features, to another an exact zero is no score:
# ``test_grouped``, ``test_features`` and ``test_around`` have what the others have here.
ELSEWHERE = (calibrant.FeatureCalibrator, calibrant.GroupedCalibrator, calibrant.MaskedCalibrator)
CALIBRATORS = [c for c in every_method().values() if c not in ELSEWHERE]

# What these promise depends on parameters, with which they do here; ``test_properties`` asks.
KEEPS_ORDER_HERE = {"Mixture", "PriorShift"}
SAME_HERE = {"Mixture", "PriorShift", "SharedClasswise", "TopLabelHistogram", "TopLabelIsotonic"}
ORDER_PRESERVING = [c for c in CALIBRATORS if c.keeps_order or c.__name__ in KEEPS_ORDER_HERE]
PERMUTATION_INVARIANT = [
    c for c in CALIBRATORS if c.same_for_all_classes or c.__name__ in SAME_HERE
]

# Iterative methods are compared to their tolerance, closed forms bit by bit.
QUICK = {
    "VectorScaling": {"max_rounds": 50},
    "MatrixScaling": {"max_rounds": 50, "odir": 0.1},
    "DirichletCalibration": {"max_rounds": 50, "odir": 0.1},
    "Chain": {
        "calibrators": [calibrant.VectorScaling(max_rounds=50), calibrant.FlattenedIsotonic()],
        "cv": 3,
    },
    "Mixture": {
        "calibrators": [calibrant.TemperatureScaling(), calibrant.FlattenedIsotonic()],
        "weights": "fit",
        "cv": 3,
    },
    "AutoCalibrator": {"candidates": ("structured", "na-fir"), "cv": 2},
}

# Without cross-validation, whose choice is a matter of folds; and without a prior, which is a
# number of rows: twice the weight is twice the data, and shrinks less.
UNREGULARISED = {
    "TemperatureScaling": {"prior_strength": 0},
    "NormalizationAwareIsotonic": {"prior_strength": 0},
    "SortedCumulativeIsotonic": {"prior_share": 0.05},
    "OneVsRestIsotonic": {"prior_strength": 0},
    "OneVsRestHistogram": {"prior_strength": 0},
    "OneVsRestPlatt": {"smooth_labels": False},
    "TopLabelHistogram": {"points_per_bin": 0},
    "StructuredScaling": {"strength": 0, "prior_strength": 0},
    "MonotoneSpline": {"strength": 0, "prior_strength": 0},
}

# A map of cells one by one: logits are their softmax, but for a last bit.
MAPS_CELLS = [
    calibrant.FlattenedIsotonic,
    calibrant.OneVsRestIsotonic,
    study.OneVsRestHistogram,
    study.OneVsRestBBQ,
    study.SharedClasswise,
    study.TopLabelHistogram,
    study.TopLabelIsotonic,
]

# Equal rows are merged, or counted, before anything else: weights are repetitions to the bit.
SEES_REPETITIONS = [*MAPS_CELLS, calibrant.DirichletCalibration]

# Without folds, which are dealt by the bits of the scores: those of logits are others.
WITHOUT_FOLDS = UNREGULARISED | {
    "Chain": {"cv": None},
    "Mixture": {"cv": None},
    "AutoCalibrator": {"candidates": ()},
}

# Part of hypothesis's examples: fewer for those that share most of their code, or fit many times.
FEWER_EXAMPLES = {c.__name__: 0.6 if c.in_paper else 0.3 for c in CALIBRATORS}
FEWER_EXAMPLES |= {"AutoCalibrator": 0.1, "Chain": 0.2, "Mixture": 0.2}


def make(cls, **parameters):
    """Return a calibrator that is quick enough for many small fits."""
    return cls(**QUICK.get(cls.__name__, {}) | parameters)
