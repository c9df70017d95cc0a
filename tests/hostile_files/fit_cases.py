"""Broken labels, parameters and parts; and files that ask for too much."""

from __future__ import annotations

import json

import numpy as np

from hostile_files.changes import (
    arrays,
    entry,
    fitted,
    parameters,
    part,
    together,
    vector,
)

TEXTS = {"type": "str", "dtype": "str"}


def nest(f, times, copies=1):
    """Put the outermost calibrator, a mixture, into mixtures of it."""
    for _ in range(times):
        i = len(f.header["parts"])
        outer = json.loads(json.dumps(f.part()))
        outer["fitted"]["calibrators_"] = [i - 1] * copies
        f.add_array(f"{i}/weights_", np.full(copies, 1 / copies))
        f.header["parts"].append(outer)


def deep_list(f):
    """Let a parameter be a list in lists, deeper than Python goes."""
    classes = []
    for _ in range(600):
        classes = [classes]
    f.part()["parameters"]["classes"] = classes


def add_vector(*values):
    """Add labels, of which nobody knows yet."""
    return lambda f: f.header["vectors"].append({**TEXTS, "values": list(values)})


def later_stages_of_logits(f):
    """Let stages that get probabilities expect logits."""
    for i in {i for path in f.part()["fitted"]["paths_"] for i in path[1:]}:
        f.part(i)["parameters"]["scores"] = "logits"


def solver(name, **values):
    """Let NA-FIR have a solver with options."""
    return parameters(solver={"options": name, "values": values})


def wide(k):
    """Give vector scaling and what contains it k classes."""
    return arrays(vector__0=np.arange(k), coef_=np.ones(k), intercept_=np.zeros(k))


LABELS = {
    ("labels", "ts"): [
        ("classes repeated", vector("int", "int64", [0, 1, 1]), "repeated"),
        ("one class", vector("int", "int64", [0]), "1 classes"),
        ("too many classes", vector("int", "int64", np.arange(1_000_001)), "1000000"),
        ("labels too long", vector("str", "str", ["a", "b", "c" * 1025]), ""),
        ("labels too wide", vector("str", "str", [*map(str, range(10**5)), "x" * 1024]), ""),
        ("labels that end in a null", vector("str", "str", ["a", "b", "b\0"]), ""),
        ("labels that are numbers", vector("str", "str", ["a", "b", 3]), ""),
        ("labels in the wrong dtype", vector("str", "int64", ["a", "b", "c"]), ""),
        ("classes that are fractions", vector("float", "float64", [0.5, 1.0, 2.0]), "fraction"),
        ("classes that do not fit", vector("int", "int8", [0, 1, 256]), "cannot be stored"),
        ("bytes not hexadecimal", vector("bytes", "bytes", ["0g", "00", "01"]), "hexadecimal"),
        ("classes without their array", entry("vector/0", name="vector/9"), "no array"),
        (
            "names of columns that are numbers",
            part(feature_names=0),
            "not have a name for each column",
        ),
    ],
    ("fields", "ts"): [
        ("classes by a wrong index", part(classes=5), "no vector"),
        ("classes missing", part(classes=None), ""),
    ],
    ("parts", "ts"): [("vector that nobody needs", add_vector("x"), "belongs to nothing")],
    ("fitted", "vs"): [
        ("more classes than parameters", vector("int", "int64", [0, 1, 2, 3]), "rows of 4"),
    ],
}

PARAMETERS = {
    ("method", "ts"): [("unknown method", part(method="os.system"), "'os.system'")],
    ("fields", "ts"): [("method that is no text", part(method=["ts"]), "")],
    ("parameters", "ts"): [
        ("unknown parameter", parameters(__class__="x"), "no parameter '__class__'"),
        ("parameter of the wrong type", parameters(tol="small"), ""),
        ("parameter out of range", parameters(tol=-1.0), ""),
        ("parameter not among the options", parameters(scores="odds"), ""),
        ("normalize unknown", parameters(normalize="columns"), ""),
        ("floor too high for the classes", parameters(min_probability=0.4), ""),
        ("parameter with an unknown float", parameters(tol={"float": "1e-3"}), ""),
        ("parameter of an unknown kind", parameters(tol={"eval": "1+1"}), ""),
    ],
    ("parameters", "na-fir"): [
        ("options of an unknown name", solver("Thread"), "Thread"),
        ("option unknown", solver("SLSQP", target="x"), "no parameter 'target'"),
        ("option out of range", solver("Annealing", beta=-1.0), "beta"),
    ],
    ("parameters", "chain"): [
        ("no parameter", lambda f: f.part()["parameters"].pop("calibrators"), "calibrators"),
        ("no calibrators", parameters(calibrators=[]), ""),
        ("many numbers", parameters(calibrators=[0] * 90_000), "not a calibrator"),
        ("tuples of three", parameters(calibrators=[{"tuple": ["a", {"part": 0}, 1]}]), ""),
    ],
    ("parameters", "auto"): [
        ("candidates that are numbers", parameters(candidates=[1, 2]), ""),
    ],
}

PARTS = {
    ("parts", "chain"): [
        ("part that contains itself", fitted(calibrators_=[4]), "no part before it"),
        ("part that is not fitted", fitted(calibrators_=[0]), "fitted, or is not"),
        ("part that should not be", parameters(calibrators=[{"part": 2}]), "fitted, or is not"),
        ("part that nobody needs", fitted(calibrators_=[2]), "belongs to nothing"),
        (
            "many stages",
            together(wide(30_000), fitted(calibrators_=[2] + [3] * 1000)),
            "parts times classes",
        ),
    ],
    ("parts", "mixture"): [
        ("mixtures nine deep", lambda f: nest(f, 7), "8 deep"),
        (
            "mixtures that double at each level",
            lambda f: nest(f, 6, copies=10),
            "parts times classes",
        ),
    ],
    ("parts", "ts"): [
        ("parameter nested deeply", deep_list, "too deep"),
        ("outermost part not fitted", part(fitted=None, classes=None), "no fitted calibrator"),
    ],
    ("fields", "ts"): [
        ("unfitted part with classes", part(fitted=None), "not fitted"),
    ],
    ("fields", "chain"): [
        ("no stages", lambda f: f.part()["fitted"].pop("calibrators_"), "calibrators_"),
    ],
    ("fitted", "chain"): [
        ("other classes", together(add_vector(*"abc"), part(2, classes=1)), "other classes"),
    ],
    ("fitted", "auto"): [
        ("stage of another kind of scores", later_stages_of_logits, "takes logits"),
        ("floor that reverses classes", fitted(floor_=0.34), "does not take rows of 3 classes"),
    ],
}

TABLES = (LABELS, PARAMETERS, PARTS)
