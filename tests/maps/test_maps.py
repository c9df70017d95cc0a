"""Maps refuse broken numbers however they come, stay as they are, and keep what they promise."""

import copy
import math
import pickle
from dataclasses import fields, replace

import numpy as np
import pytest

from calibrant import FlattenedIsotonic
from calibrant._maps import (
    AffineMap,
    AveragedHistogram,
    BetaMap,
    CalibrationMap,
    ChainMap,
    ClasswiseCurves,
    DirichletMap,
    Histogram,
    LogOddsCurve,
    MixtureMap,
    PiecewiseLinear,
    PriorMap,
    RankedStepFunction,
    RankedSteps,
    SharedSteps,
    Sigmoid,
    SplineMap,
    Stage,
    StepFunction,
    StructuredMap,
    TemperatureMap,
    TopLabelMap,
)
from calibrant._maps.curves import BoundedLogs
from calibrant.errors import ParameterError, ShapeError
from conftest import simulate

K = 4
KINDS = ("probabilities", "logits")
ZERO = math.log(1e-12)
LINE = PiecewiseLinear([0.0, 1.0], [0.05, 0.9])
STEPS = StepFunction([0.0, 0.25, 0.5], [0.05, 0.3, 0.9], [3.0, 2.0, 1.0])
HISTOGRAM = Histogram([0.0, 0.5], [0.8, 0.1], [3.0, 1.0])
AVERAGE = AveragedHistogram(HISTOGRAM, np.array([2]), np.array([0.0]))
RANKED = RankedStepFunction([0.0, 0.5, 0.0, 0.4, 0.7], [0.1, 0.7, 0.2, 0.8, 1.0], [0, 2, 5])
LOGS = BoundedLogs(1e-12, 1e-13)
SIGMOID = Sigmoid(0.7, -0.2, LOGS)
BETA = BetaMap(0.5, 1.5, 0.1, LOGS)
LINES = LogOddsCurve([-2000.0, -1.0, 2.0, 2000.0], [-900.0, -1.5, 0.5, 800.0], LOGS)
CURVES = (LINE, STEPS, HISTOGRAM, AVERAGE, RANKED, LOGS, SIGMOID, BETA, LINES)


def maps(kind):
    """Return every kind of map, with numbers for four classes."""
    slopes, intercept = np.array([0.5, 1.0, 1.5, 0.2]), np.array([0.3, -0.2, 0.1, 0.0])
    matrix = np.diag(slopes) + 0.1
    temperature = TemperatureMap(0.5, ZERO, kind)
    shared = Stage(SharedSteps(STEPS, kind), 1e-3)
    later = Stage(TemperatureMap(1.5, ZERO), 0.0)
    own = (LINE, HISTOGRAM, SIGMOID, BETA)
    classwise = ClasswiseCurves(None, own, True, kind)
    return {
        "temperature": temperature,
        "diagonal": AffineMap(slopes, intercept, ZERO, kind),
        "matrix": AffineMap(matrix, intercept, ZERO, kind),
        "dirichlet": DirichletMap(matrix, intercept, ZERO, kind),
        "structured": StructuredMap(0.7, slopes, intercept, 1.3, 0.02, ZERO, kind),
        "structured matrix": StructuredMap(0.7, matrix, intercept, 1.3, 0.0, ZERO, kind),
        "spline": SplineMap([-3.0, -1.0], [0.5, 1.0, 2.0], ZERO, kind),
        "priors": PriorMap([0.5, 0.0, 2.0, 1.0], kind),
        "shared steps": SharedSteps(STEPS, kind),
        "ranked steps": RankedSteps(RANKED, 0.3, 0.7, ZERO, kind),
        "classwise": classwise,
        "lines": ClasswiseCurves(None, (LINES, LINE, LINES.mirrored, LINES), True, kind),
        "groups": ClasswiseCurves([0, 1, 1, 0], (LINE, STEPS), True, kind),
        "one group": ClasswiseCurves([0] * K, (HISTOGRAM,), False, kind),
        "top label": TopLabelMap((LINE,), False, True, kind),
        "top label of each class": TopLabelMap(own, True, False, kind),
        "stage": shared,
        "chain": ChainMap((shared, later)),
        "mixture": MixtureMap((temperature, ChainMap((shared, later))), [0.25, 0.75]),
        "mixture of both": MixtureMap((temperature, classwise), [0.5, 0.5]),
    }


PROMISES = {
    # keeps the order, is the same for all classes, sums to one, number of classes
    "temperature": (True, True, True, None),
    "diagonal": (False, False, True, K),
    "matrix": (False, False, True, K),
    "dirichlet": (False, False, True, K),
    "structured": (False, False, True, K),
    "structured matrix": (False, False, True, K),
    "spline": (True, True, True, None),
    "priors": (False, False, True, K),
    "shared steps": (True, True, True, None),
    "ranked steps": (False, True, True, None),
    "classwise": (False, False, True, K),
    "lines": (False, False, True, K),
    "groups": (False, False, True, K),
    "one group": (False, True, False, K),
    "top label": (False, True, True, None),
    "top label of each class": (False, False, False, K),
    "stage": (True, True, True, None),
    "chain": (True, True, True, None),
    "mixture": (True, True, True, None),
    "mixture of both": (False, False, True, K),
}
WHOLE = maps("probabilities") | {
    "line": LINE,
    "steps": STEPS,
    "histogram": HISTOGRAM,
    "average": AVERAGE,
    "ranked": RANKED,
    "logs": LOGS,
    "sigmoid": SIGMOID,
    "beta": BETA,
    "lines of log-odds": LINES,
}
TOO_HIGH = StepFunction([0.0], [1.5], [1.0])
LATER, UNSUMMED = maps("logits")["temperature"], WHOLE["one group"]
NAN = math.nan

BROKEN = {
    "temperature": {
        "inverse_temperature": [-1.0, NAN, 1],
        "zero_logit": [1.0, -1e151],
        "kind": ["odds"],
    },
    "diagonal": {
        "coef": [np.ones(3), np.ones((4, 3)), [1.0, NAN, 1.0, 1.0], [1e101, 1.0, 1.0, 1.0]]
    },
    "matrix": {"intercept": [np.zeros((1, 4)), [0.0, 0.0, 0.0, np.inf]]},
    "dirichlet": {"intercept": [np.zeros(3)]},
    "structured": {"coef": [np.ones(3)], "scale": [-1.0], "origin": [NAN], "bound": [2.0]},
    "priors": {
        "ratio": [
            [],
            np.eye(4),
            [1.0, 1.0, 1.0, -0.5],
            [1.0, 1.0, 1.0, NAN],
            np.zeros(4),
            [1.0, 1.0, 1.0, 1e-200],
        ]
    },
    "spline": {
        "knots": [[], [-1.0, -3.0], [-3.0, NAN]],
        "slopes": [[1.0, 1.0], [1.0, -1.0, 1.0], [1.0, 1.0, NAN]],
    },
    "shared steps": {"step_function": [HISTOGRAM, TOO_HIGH, StepFunction([0.0], [0.0], [1.0])]},
    "ranked steps": {"step_function": [STEPS], "prior_share": [1.5], "inverse_temperature": [NAN]},
    "classwise": {"curves": [[LINE] * 4, (LINE, 1.0), (), (LINE, TOO_HIGH)]},
    "groups": {"groups": [[0, 2, 0, 0], [0, -1, 1, 0], [[0, 1]], []]},
    "top label": {"curves": [(LINE, LINE)]},
    "top label of each class": {"curves": [(TOO_HIGH,) * 4]},
    "stage": {"map": [LINE], "floor": [NAN]},
    "chain": {
        "stages": [(), [WHOLE["stage"]], (WHOLE["stage"], LATER), (UNSUMMED, WHOLE["stage"])]
    },
    "mixture": {
        "stages": [(), (LINE, LINE), (WHOLE["temperature"], LATER)],
        "weights": [[1.0], [0.5, 0.6], [-0.5, 1.5], [NAN, 1.0]],
    },
    "line": {"x": [[0.0], [1.0, 0.0], [0.0, 5e-324]], "y": [[0.2, np.inf], [0.9, 0.2]]},
    "lines of log-odds": {
        "x": [
            [-2000.0, 2000.0],
            [-2000.0, 1.0, 2.0, 2001.0],
            [-2000.0, 2.0, 1.0, 2000.0],
            [-2000.0, NAN, 1.0, 2000.0],
        ],
        "y": [[-1.0, 2.0, 1.0, 3.0], [-np.inf, 0.0, 1.0, 3.0]],
    },
    "steps": {
        "values": [[0.3, 0.1, 0.9], [0.1, 0.3, np.inf], [-0.1, 0.3, 0.9]],
        "thresholds": [[-0.0, 0.25, 0.5]],
        "sizes": [[1.0, -1.0, 1.0]],
    },
    "histogram": {
        "thresholds": [[0.0], [0.1, 0.5], [0.0, 0.0], [0.0, 2.0], [0.0, NAN]],
        "values": [[0.8, 1.5], [0.8, NAN]],
    },
    "average": {
        "histogram": [STEPS],
        "n_bins": [[0], [NAN], [2, 2.5], [2, 3]],
        "log_scores": [[NAN]],
    },
    "ranked": {
        "thresholds": [
            [0.0, 0.5],
            [0.1, 0.5, 0.0, 0.4, 0.7],
            [0.0, 0.5, 0.1, 0.4, 0.7],
            [0.0, NAN, 0.0, 0.4, 0.7],
            [0.0, 0.5, 0.0, 0.4, 1.1],
            [0.0, 0.5, 0.0, 0.4, 0.4],
            [-0.0, 0.5, 0.0, 0.4, 0.7],
        ],
        "offsets": [[0], [1, 2, 5], [0, 2, 4], [0, 2, 2, 5]],
        "values": [
            [0.1, 0.7, 0.2, 0.8, 1.1],
            [-0.1, 0.7, 0.2, 0.8, 1.0],
            [0.1, NAN, 0.2, 0.8, 1.0],
            [0.1, 0.0, 0.2, 0.8, 1.0],
            [0.3, 0.7, 0.2, 0.8, 1.0],
            [0.1, 0.9, 0.2, 0.8, 1.0],
        ],
    },
    "logs": {"low": [0.0], "rest": [NAN]},
    "sigmoid": {"slope": [NAN], "intercept": [1e101]},
    "beta": {"a": [-1.0], "c": [np.inf]},
}
"""Values of fields that a map refuses."""

TOGETHER = [
    ("diagonal", {"coef": [], "intercept": []}),
    ("structured", {"scale": 1e300, "zero_logit": -1e10}),
    ("structured matrix", {"coef": np.eye(4) * 1e100, "scale": 1e250}),
    ("spline", {"knots": np.arange(1001.0), "slopes": np.ones(1002)}),
    ("spline", {"knots": [-3.0, 1e9], "slopes": [0.0, 0.0, 1e300]}),
    ("lines of log-odds", {"x": [-2000.0], "y": [0.0]}),
    ("lines of log-odds", {"x": [-2000.0, 0.0, 5e-324, 2000.0], "y": [-1, 0, 1, 2]}),
    ("histogram", {"thresholds": [], "values": [], "sizes": []}),
]
"""And values that are refused together."""

SIBLINGS = {"lines": "classwise", "one group": "groups", "mixture of both": "mixture"}


def broken(name):
    """Changes that break a map."""
    name = SIBLINGS.get(name, name)
    alone = [{field: value} for field, values in BROKEN.get(name, {}).items() for value in values]
    return alone + [changes for owner, changes in TOGETHER if owner == name]


@pytest.mark.parametrize("name", WHOLE)
def test_broken_numbers_are_refused(name):
    for changes in broken(name):
        with pytest.raises(ParameterError):
            replace(WHOLE[name], **changes)


def by_state(whole):
    """Fill an empty object, as pickles of older versions and forged ones do."""
    again = object.__new__(type(whole))
    again.__setstate__([getattr(whole, field.name) for field in fields(whole)])
    return again


WAYS = (
    lambda whole: pickle.loads(pickle.dumps(whole)),
    lambda whole: pickle.loads(pickle.dumps(whole, protocol=2)),
    copy.copy,
    copy.deepcopy,
    by_state,
)


@pytest.mark.parametrize("name", WHOLE)
def test_a_map_is_frozen_and_every_copy_of_it_is_checked(name):
    whole, changes = WHOLE[name], broken(name)[0]
    for way in WAYS:
        again = way(whole)
        assert type(again) is type(whole)
        assert repr(again) == repr(whole)
        for field in fields(again):
            value = getattr(again, field.name)
            assert not isinstance(value, np.ndarray) or not value.flags.writeable
            with pytest.raises(AttributeError):
                setattr(again, field.name, value)
        for field, value in changes.items():
            object.__setattr__(again, field, value)
        with pytest.raises(ParameterError):
            way(again)


def rows_of(kind):
    """Rows of four classes, with an exact zero."""
    rng = np.random.default_rng(0)
    rows = rng.normal(0, 2, (300, K)) if kind == "logits" else rng.dirichlet([0.5] * K, 300)
    rows[0, 1] = -np.inf if kind == "logits" else 0.0
    return rows if kind == "logits" else rows / rows.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("name", PROMISES)
def test_promises_are_kept(name):
    """And what is not promised is not so: the rows, which are not modified, show it."""
    for kind in KINDS:
        whole, rows = maps(kind)[name], rows_of(kind)
        before = rows.copy()
        out = whole(rows)
        np.testing.assert_array_equal(rows, before)
        assert np.all((out >= 0) & (out <= 1))
        order, columns = np.argsort(rows, axis=1), [2, 0, 3, 1]
        kept = np.all(np.diff(np.take_along_axis(out, order, axis=1), axis=1) >= 0)
        gap = np.abs(whole(np.ascontiguousarray(rows[:, columns])) - out[:, columns]).max()
        summed = np.abs(out.sum(axis=1) - 1).max() < 1e-12
        promised = whole.keeps_order, whole.same_for_all_classes, whole.sums_to_one
        assert whole.kind == kind
        assert (*promised, whole.n_classes) == PROMISES[name]
        assert (kept, gap < 1e-12, summed) == promised


@pytest.mark.parametrize("name", PROMISES)
def test_rows_of_other_classes_are_refused(name):
    """A kernel would read beyond the end of them."""
    whole = WHOLE[name]
    fitting = [K] if whole.n_classes else [3, K, 5] if name == "ranked steps" else [2, 3, K, 5]
    assert [k for k in (2, 3, K, 5) if whole.takes(k)] == fitting
    assert all(whole(np.full((2, k), 1 / k)).shape == (2, k) for k in fitting)
    for k in {2, 3, K, 5} - set(fitting):
        with pytest.raises(ShapeError):
            whole(np.full((2, k), 1 / k))


@pytest.mark.parametrize("name", PROMISES)
def test_rows_may_lie_in_memory_as_they_like(name):
    """Kernels read rows one after the other; others are copied for them."""
    for kind in KINDS:
        whole, rows = maps(kind)[name], rows_of(kind)
        expected = whole(rows).tobytes()
        room = np.zeros(rows.nbytes + 1, dtype=np.uint8)[1:].view(np.float64).reshape(rows.shape)
        room[...] = rows
        for other in (np.asfortranarray(rows), np.repeat(rows, 2, axis=1)[:, ::2], room):
            assert not (other.flags.c_contiguous and other.flags.aligned)
            assert whole(other).tobytes() == expected


def lifted(rows, floor):
    low = rows.min(axis=1, keepdims=True) < floor
    return np.where(low, floor + (1 - rows.shape[1] * floor) * rows, rows)


@pytest.mark.parametrize("kind", KINDS)
def test_compositions_are_plain_loops(kind):
    rows, parts = rows_of(kind), maps(kind)
    first, second = Stage(parts["matrix"], 0.01), Stage(WHOLE["ranked steps"], 0.02)
    expected = lifted(WHOLE["ranked steps"](lifted(parts["matrix"](rows), 0.01)), 0.02)
    chain = ChainMap((first, second))
    np.testing.assert_allclose(chain(rows), expected, rtol=1e-12)
    mixture = MixtureMap((parts["classwise"], chain, parts["spline"]), [0.5, 0.2, 0.3])
    expected = 0.5 * parts["classwise"](rows) + 0.2 * expected + 0.3 * parts["spline"](rows)
    np.testing.assert_allclose(mixture(rows), expected, rtol=1e-12)
    np.maximum(expected := parts["one group"](rows), 0.1, out=expected)
    np.testing.assert_array_equal(Stage(parts["one group"], 0.1)(rows), expected)


class Counted(CalibrationMap):
    """Counts how often it is called."""

    kind = "probabilities"

    def __init__(self):
        self.calls = 0

    def __call__(self, rows):
        """Do nothing else."""
        self.calls += 1
        return rows


@pytest.mark.parametrize(
    "layout",
    [np.asfortranarray, np.float32, lambda a: np.broadcast_to(a, a.shape)],
    ids=["Fortran order", "float32", "read-only"],
)
def test_a_map_of_somebody_else_may_return_any_array(layout):
    class Other(Counted):
        def __call__(self, rows):
            return layout(rows)

    rows = rows_of("probabilities")
    out = Stage(Other(), 0.01)(rows)
    np.testing.assert_allclose(out, lifted(rows, 0.01), rtol=1e-6)


def test_what_chains_begin_with_is_done_once_and_what_weighs_nothing_is_not_done():
    first, alone, idle = Counted(), Counted(), Counted()
    later = Stage(TemperatureMap(2.0, ZERO), 0.0)
    chains = (ChainMap((first, later)), ChainMap((first, alone)), first, ChainMap((idle, later)))
    mixture = MixtureMap(chains, [0.25, 0.25, 0.5, 0.0])
    rows = rows_of("probabilities")
    np.testing.assert_allclose(mixture(rows), 0.25 * later(rows) + 0.75 * rows, rtol=1e-12)
    assert (first.calls, alone.calls, idle.calls) == (1, 1, 0)
    shared = MixtureMap((ChainMap((later, later)), ChainMap((later,))), [0.5, 0.5])
    for way in WAYS[:4]:  # also where it comes from another process
        again = way(shared)
        assert again.stages[0].stages[0] is again.stages[1].stages[0]


class Unchanged(CalibrationMap):
    """Of somebody else's: it returns the rows that it was given."""

    kind = "probabilities"

    def __call__(self, rows):
        return rows


def test_rows_of_the_caller_stay_as_they_are():
    p, y = simulate(200, 3)
    p[::5] = np.eye(3)[y[::5]]  # zeros, which a floor would lift
    given = p.copy()
    calibrator = FlattenedIsotonic().fit(p, y)
    calibrator.map_ = Unchanged()
    assert calibrator.predict_proba(p).min() == pytest.approx(1e-12)
    assert Stage(Unchanged(), 1e-3)(p).min() == pytest.approx(1e-3)
    np.testing.assert_array_equal(p, given)


def test_other_priors_by_hand():
    """Exact zeros stay, but in a row of classes that never come; without a shift no bit changes."""
    rows = np.array([[0.5, 0.25, 0.25, 0.0], [0.0, 1.0, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4]])
    found = PriorMap([0.5, 0.0, 2.0, 1.0])(rows)
    np.testing.assert_allclose(found[0], [1 / 3, 0.0, 2 / 3, 0.0], rtol=1e-15)
    np.testing.assert_allclose(found[1], [1 / 7, 0.0, 4 / 7, 2 / 7], rtol=1e-15)
    np.testing.assert_array_equal(PriorMap(np.full(4, 3.0))(rows), rows)
