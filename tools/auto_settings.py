"""Settings that ``measure_auto.py`` compares: each is the default but for what is named."""

from dataclasses import replace

from calibrant._calibrators import auto
from calibrant._calibrators.auto_search import CANDIDATES, FINISH

AUTO, SEARCH, TWO = "_calibrators.auto", "_calibrators.auto_search", "_solvers.two_class"


def chosen(**values):
    """Other values of the constants."""
    return {"constants": {f"{AUTO}.CHOSEN": replace(auto.CHOSEN, **values)}}


def of_many(setting):
    """A setting that two classes do not see."""
    return setting | {"of_two": False}


def without(*names):
    """Fewer candidates."""
    lists = ("NAMES", "NAMES_OF_MANY", "NAMES_OF_TWO")
    return {
        "constants": {
            f"{AUTO}.{key}": tuple(name for name in getattr(auto, key) if name not in names)
            for key in lists
        }
    }


def candidate(name, **values):
    """Other parameters of a candidate."""
    method, parameters = CANDIDATES[name]
    changed = CANDIDATES | {name: (method, parameters | values)}
    return {"candidates": {name: {f"{SEARCH}.CANDIDATES": changed}}}


def of_two(**values):
    """Other constants of two-class scaling."""
    changes = {f"{TWO}.{key}": value for key, value in values.items()}
    return {"candidates": {"two-class": changes}, "of_two": True}


def prior_parts(**parts):
    """Other parts of the prior of the weights."""
    return {"constants": {f"{AUTO}.PRIOR_PARTS": parts}}


EQUAL = dict.fromkeys(auto.NAMES, 1 / len(auto.NAMES))
SETTINGS = {
    "default": {},
    "cv=10": {"parameters": {"cv": 10}},
    "caution=0": {"parameters": {"caution": 0.0}},
    "caution=1000": {"parameters": {"caution": 1000.0}},
    "caution=300": {"parameters": {"caution": 300.0}},
    "prior_rows=0": {"parameters": {"prior_rows": 0.0}},
    "prior_rows=1": {"parameters": {"prior_rows": 1.0}},
    "prior_rows=4": {"parameters": {"prior_rows": 4.0}},
    "finish=1e12": {"parameters": {"finish": 1e12}},
    "finish=0": {"parameters": {"finish": 0.0}},
    "finish=40": {"parameters": {"finish": 40.0}},
    "finish_of_two=1": chosen(finish_of_two=1.0) | {"of_two": True},
    "finish_of_two=1e12": chosen(finish_of_two=1e12) | {"of_two": True},
    "no share of few errors": of_many(chosen(enough_loss=0.0)),
    "common_loss=inf": of_many(chosen(common_loss=1e12)),
    "some_loss=0": of_many(chosen(some_loss=0.0)),
    "unproven_share=0": of_many(chosen(unproven_share=0.0)),
    "unproven_share=1": of_many(chosen(unproven_share=1.0)),
    "unproven_share=.5": of_many(chosen(unproven_share=0.5)),
    "clear_gain=0": of_many(chosen(clear_gain=0.0)),
    "no unproven, no few": of_many(chosen(unproven_share=0.0, enough_loss=0.0)),
    "no floor": chosen(floor_loss=0.0),
    "least_weight=0": chosen(least_weight=1e-12),
    "equal prior": of_many(prior_parts(**EQUAL)),
    "prior of structured": of_many(prior_parts(structured=1.0)),
    "prior of structured and ts": of_many(prior_parts(structured=0.5, ts=0.5)),
    "prior of the three structured": of_many(prior_parts(**dict.fromkeys(auto.STRUCTURED, 1 / 3))),
    "without identity": of_many(without("identity")),
    "without scir": without("scir"),
    "without na-fir": of_many(without("na-fir")),
    "without na-fir and scir": of_many(without("na-fir", "scir")),
    "without structured": of_many(without("structured")),
    "without structured-wide": of_many(without("structured-wide")),
    "without structured-loose": of_many(without("structured-loose")),
    "without ir-ovr": without("ir-ovr") | {"of_two": True},
    "without ir-ovr and scir": without("ir-ovr", "scir") | {"of_two": True},
    "finish of the spline": of_many(
        {"constants": {f"{AUTO}.FINISH": {"spline": FINISH["spline"]}}}
    ),
    "finish of structured": of_many(
        {"constants": {f"{AUTO}.FINISH": {"structured": FINISH["structured"]}}}
    ),
    "finish of ordinary spline": {
        "constants": {f"{SEARCH}.FINISH": FINISH | {"spline": ("spline", {"strength": 100.0})}}
    },
    "na-fir of ordinary prior": of_many(candidate("na-fir", prior_strength=120.0)),
    "scir prior_share=.05": candidate("scir", prior_share=0.05),
    "structured-loose strength=1": of_many(candidate("structured-loose", strength=1.0)),
    "structured-wide bound=1e-4": of_many(candidate("structured-wide", bound=1e-4)),
}
