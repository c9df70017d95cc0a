"""Settings that ``measure_auto.py`` compares: each is the default but for what is named."""

import numpy as np

from calibrant._calibrators import auto_search
from calibrant._calibrators.auto_search import CANDIDATES, FINAL_STAGES
from calibrant._solvers import two_class

SEARCH, TWO = "_calibrators.auto_search", "_solvers.two_class"


def of_many(setting):
    """A setting that two classes do not see."""
    return setting | {"of_two": False}


def parameters(**values):
    """Other parameters of AutoCalibrator."""
    return {"parameters": values}


def without(*names):
    """Fewer candidates."""
    lists = ("NAMES", "NAMES_OF_MANY", "NAMES_OF_TWO")
    return {
        "constants": {
            f"{SEARCH}.{key}": tuple(
                name for name in getattr(auto_search, key) if name not in names
            )
            for key in lists
        }
    }


def candidate(name, **values):
    """Other parameters of a candidate."""
    method, own = CANDIDATES[name]
    changed = CANDIDATES | {name: (method, own | values)}
    return of_many({"candidates": {name: {f"{SEARCH}.CANDIDATES": changed}}})


def final_stages(**stages):
    """Other final stages."""
    return of_many({"constants": {f"{SEARCH}.FINAL_STAGES": stages}})


def members(old, new):
    """Another value of a penalty of two-class scaling."""
    changed = np.where(old == two_class.MEMBERS, new, two_class.MEMBERS)
    return {"candidates": {"two-class": {f"{TWO}.MEMBERS": changed}}, "of_two": True}


def of_two(**values):
    """Other constants of two-class scaling."""
    changes = {f"{TWO}.{key}": value for key, value in values.items()}
    return {"candidates": {"two-class": changes}, "of_two": True}


SETTINGS = {
    "default": {},
    "cv=10": parameters(cv=10),
    "caution=0": parameters(caution=0.0),
    "caution=300": parameters(caution=300.0),
    "prior_rows=0": parameters(prior_rows=0.0),
    "prior_rows=1": parameters(prior_rows=1.0),
    "prior_rows=4": parameters(prior_rows=4.0),
    "finish=1e12": of_many(parameters(finish=1e12)),
    "finish=0": of_many(parameters(finish=0.0)),
    "finish=40": of_many(parameters(finish=40.0)),
    "FLOOR_LOSS=0": {"constants": {f"{SEARCH}.FLOOR_LOSS": 0.0}},
    "without identity": of_many(without("identity")),
    "without na-fir": of_many(without("na-fir")),
    "without structured": of_many(without("structured")),
    "without structured-wide": of_many(without("structured-wide")),
    "without structured-loose": of_many(without("structured-loose")),
    "without ir-ovr": without("ir-ovr") | {"of_two": True},
    "finish without structured": final_stages(spline=FINAL_STAGES["spline"]),
    "finish without spline": final_stages(structured=FINAL_STAGES["structured"]),
    "finish with the spline's own strength": final_stages(
        spline=("spline", {"strength": 8.0}), structured=FINAL_STAGES["structured"]
    ),
    "structured-loose, strength=1": candidate("structured-loose", strength=1.0),
    "structured-loose, strength=.25": candidate("structured-loose", strength=0.25),
    "structured-wide, bound=1e-4": candidate("structured-wide", bound=1e-4),
    "structured-wide, bound=1e-6": candidate("structured-wide", bound=1e-6),
    "SLOPE=.1": members(two_class.SLOPE, 0.1),
    "INTERCEPT=1": members(two_class.INTERCEPT, 1.0),
    "INTERCEPT=.01": members(two_class.INTERCEPT, 0.01),
    "BEND=.3": members(two_class.BEND, 0.3),
    "BEND=16": members(two_class.BEND, 16.0),
    "AT_SCORES=30": of_two(AT_SCORES=30.0),
}
