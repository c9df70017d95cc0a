"""Maps are checked however they come: made, copied or unpickled."""

import copy
import pickle

import numpy as np
import pytest

from calibrant.errors import ParameterError
from calibrant.maps.curves import BoundedLogs, PiecewiseLinear, Sigmoid
from calibrant.maps.steps import Histogram, RankedStepFunction, StepFunction
from calibrant.solvers.bayesian_binning import AveragedHistogram
from calibrant.solvers.beta import BetaMap

LOGS = BoundedLogs(1e-12, 1e-13)
HISTOGRAM = Histogram([0.0, 0.5], [0.8, 0.1], [3.0, 1.0])
MAPS = [
    (StepFunction([0.0, 0.5], [0.1, 0.8], [3.0, 1.0]), "values", np.array([0.1])),
    (StepFunction([0.0, 0.5], [0.1, 0.8], [3.0, 1.0]), "thresholds", np.array([0.0, np.nan])),
    (RankedStepFunction([0.0, 0.5], [0.1, 0.7], [0, 2]), "offsets", np.array([0, 9])),
    (HISTOGRAM, "values", np.array([0.8, 1.5])),
    (AveragedHistogram(HISTOGRAM, np.array([2]), np.array([0.0])), "n_bins", np.array([2, 3])),
    (PiecewiseLinear([0.0, 1.0], [0.2, 0.9]), "x", np.array([1.0, 0.0])),
    (PiecewiseLinear([0.0, 1.0], [0.2, 0.9]), "y", np.array([0.2, np.inf])),
    (LOGS, "low", 0.0),
    (Sigmoid(1.0, 0.0, LOGS), "slope", float("nan")),
    (BetaMap(1.0, 1.0, 0.0, LOGS), "a", -1.0),
]


def by_state(m):
    """Fill an empty object, as pickles of older versions and forged ones do."""
    again = object.__new__(type(m))
    again.__setstate__([getattr(m, name) for name in m.__slots__])
    return again


WAYS = {
    "pickle": lambda m: pickle.loads(pickle.dumps(m)),
    "old pickle": lambda m: pickle.loads(pickle.dumps(m, protocol=2)),
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
    "state": by_state,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("whole", "name", "value"), MAPS)
def test_a_map_that_was_tampered_with_is_refused_on_arrival(way, whole, name, value):
    again = WAYS[way](whole)
    for field in whole.__slots__:
        assert repr(getattr(again, field)) == repr(getattr(whole, field))
    object.__setattr__(again, name, value)
    with pytest.raises(ParameterError):
        WAYS[way](again)
