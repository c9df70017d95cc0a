"""One attack for each rule of the format: what is changed in a file, and the rule that it breaks.

``changes`` are functions that change a ``Frame``; most are made by the helpers at the top.
"""

from __future__ import annotations

import json

import numpy as np


def attributes(**values):
    """Set attributes of the frame: ``length`` of the header, ``magic``, ``major``, ``data``."""
    return lambda f: [setattr(f, name, v(f) if callable(v) else v) for name, v in values.items()]


def header(**fields):
    """Set fields of the header."""
    return lambda f: f.header.update(fields)


def text(old, new, **fields):
    """Replace bytes of the header, after some of its fields were set."""

    def change(f):
        f.header.update(fields)
        f.header = json.dumps(f.header).encode().replace(old, new)

    return change


def entry(array, **fields):
    """Set fields of the entry of an array."""
    return lambda f: f.entry(array).update(fields)


def numbers(array, place, value):
    """Set numbers of an array."""

    def change(f):
        values = f.array(array)
        values[place] = value
        f.replace_array(array, values)

    return change


def arrays(**values):
    """Replace whole arrays, of any shape; a slash in a name is a double underscore."""
    return lambda f: [f.replace_array(n.replace("__", "/"), v) for n, v in values.items()]


def part(index=-1, **fields):
    """Set fields of a part, by default the outermost one."""
    return lambda f: f.part(index).update(fields)


def fitted(**fields):
    """Set what was fitted in the outermost part."""
    return lambda f: f.part()["fitted"].update(fields)


def parameters(**values):
    """Set parameters of the outermost part."""
    return lambda f: f.part()["parameters"].update(values)


def labels(kind, dtype, values):
    """Replace the labels by others; numbers are an array, texts stand in the header."""

    def change(f):
        f.header["vectors"][0] = {"type": kind, "dtype": dtype}
        if kind in {"str", "bytes"}:
            f.header["vectors"][0]["values"] = values
            f.header["arrays"], f.data = [], b""
        else:
            f.entry("vector/0")["dtype"] = np.asarray(values).dtype.name
            f.replace_array("vector/0", values)

    return change


def together(*changes):
    """Do several changes, one after the other."""
    return lambda f: [change(f) for change in changes]


def add_vector(*values):
    """Add labels, which nobody needs yet."""
    entry = {"type": "str", "dtype": "str", "values": list(values)}
    return lambda f: f.header["vectors"].append(entry)


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


def hole(f):
    """Leave eight bytes between the last two arrays."""
    last = f.header["arrays"][-1]
    f.data = f.data[: last["offset"]] + bytes(8) + f.data[last["offset"] :]
    last["offset"] += 8


def million_maps(f):
    """Give each of a million classes a map."""
    k, vectors = 1_000_000, [[0.0], [0.5], [1.0], [1.0], [0.0]]
    lengths, values = np.tile([1] * 5, k), np.tile(np.concatenate(vectors), k)
    arrays(vector__0=np.arange(k), forms=np.full(k, 5), lengths=lengths, numbers=values)(f)


def solver(name):
    """Let NA-FIR have a solver of a name, as files of 1.0.0 have."""
    return parameters(solver={"options": name, "values": {"beta": -1.0}})


DEEP = b"[" * 10_000 + b"]" * 10_000
WIDE = arrays(vector__0=np.arange(30_000), coef_=np.ones(30_000), intercept_=np.zeros(30_000))
KNOTS = arrays(knots_=np.linspace(-50.0, 0.0, 1_000_000), slopes_=np.ones(1_000_001))
FEW_CURVES = arrays(forms=[0, 0], lengths=[2] * 4, numbers=[0.0, 1.0] * 4)

TABLE = {
    ("magic", "ts"): {"wrong magic": attributes(magic=b"\x89CLBR\n\x1a\x1a")},
    ("header", "ts"): {
        "header of length zero": attributes(length=0),
        "header not aligned": attributes(length=lambda f: len(f.text()) - 1),
        "header above the limit": header(library="x" * (16 * 2**20)),
    },
    ("length", "ts"): {"header too long": attributes(length=2**20)},
    ("version", "ts"): {
        "newer major": attributes(major=3, header=b"\xff" * 64),
        "newer minor": attributes(minor=2),
    },
    ("features", "ts"): {"feature required": header(requires=["entanglement"])},
    ("json", "ts"): {
        "not utf 8": text(b"calibrant", b"calibran\xff"),
        "cut off": lambda f: setattr(f, "header", json.dumps(f.header).encode()[:-1]),
        "a list": attributes(header=lambda f: [f.header]),
        "nested deeply": text(b'"@"', DEEP, extra="@"),
        "key twice": text(b'"method"', b'"method": "ts", "method"'),
        "nan": fitted(zero_logit_=float("nan")),
        "float that overflows": text(b'"@"', b"-1e999", extra="@"),
        "integer of 5000 digits": text(b'"@"', b"9" * 5000, extra="@"),
        "integer of 65 bits": header(extra=2**64),
    },
    ("fields", "ts"): {
        "lists without end": header(extra=[[]] * 4_000_000),
        "field missing": lambda f: f.header.pop("parts"),
        "field unknown": header(code="import os"),
        "field unknown in a part": part(colour="blue"),
        "field unknown in a fit": fitted(colour="blue"),
        "field unknown in a report": lambda f: f.part()["fitted"]["solver_report_"].update(x=1),
        "field of another type": header(parts={}),
        "part that is no object": header(parts=[1]),
        "library with escape codes": header(library="\x1b[2J"),
        "method that is no text": part(method=["ts"]),
        "classes by a wrong index": part(classes=5),
        "part with classes and no fit": part(fitted=None),
        "number that is an integer": fitted(inverse_temperature_=1),
        "number that is true": fitted(inverse_temperature_=True),
    },
    ("fields", "vs"): {"array announced as steps": fitted(coef_="step function")},
    ("arrays", "fir"): {
        "shape whose product overflows": entry("thresholds", shape=[2**32, 2**32, 3]),
        "shape that is negative": entry("thresholds", shape=[-3]),
        "shape of nothing": entry("thresholds", shape=[]),
        "arrays that overlap": entry("values", offset=0),
        "hole between arrays": hole,
        "bytes at the end": attributes(data=lambda f: f.data + bytes(24)),
        "dtype of objects": entry("thresholds", dtype="object"),
        "dtype of the other kind": entry("values", dtype="int64"),
        "two arrays of one name": entry("values", name="vector/0"),
        "array missing": entry("values", name="other"),
        "array that nobody needs": lambda f: f.add_array("extra", [1.0]),
        "too many arrays": lambda f: [f.add_array(f"{i}", [1.0]) for i in range(16385)],
        "two dimensions": lambda f: f.entry("thresholds")["shape"].append(1),
    },
    ("labels", "ts"): {
        "class repeated": labels("int", "int64", [0, 1, 1]),
        "one class": labels("int", "int64", [0]),
        "too many classes": labels("int", "int64", np.arange(1_000_001)),
        "too long": labels("str", "str", ["a", "b", "c" * 1025]),
        "too wide": labels("str", "str", [*map(str, range(10**5)), "x" * 1024]),
        "null at the end": labels("str", "str", ["a", "b", "b\0"]),
        "half a surrogate pair": labels("str", "object", ["a", "b", "\ud800"]),
        "text that is a number": labels("str", "str", ["a", "b", 3]),
        "another dtype": labels("str", "int64", ["a", "b", "c"]),
        "fractions": labels("float", "float64", [0.5, 1.0, 2.0]),
        "numbers that do not fit": labels("int", "int8", [0, 1, 256]),
        "bytes not hexadecimal": labels("bytes", "bytes", ["0g", "00", "01"]),
        "names of columns that are numbers": part(feature_names=0),
    },
    ("method", "ts"): {"unknown": part(method="os.system")},
    ("parameters", "ts"): {
        "unknown": parameters(__class__="x"),
        "of the wrong type": parameters(tol="small"),
        "out of range": parameters(tol=-1.0),
        "not among the options": parameters(scores="odds"),
        "normalize unknown": parameters(normalize="columns"),
        "floor too high for the classes": parameters(min_probability=0.4),
        "of an unknown kind": parameters(tol={"eval": "1+1"}),
    },
    ("method", "na-fir"): {"solver unknown": solver("Thread")},
    ("parameters", "na-fir"): {"solver out of range": solver("Annealing")},
    ("parameters", "chain"): {
        "missing": lambda f: f.part()["parameters"].pop("calibrators"),
        "many numbers": parameters(calibrators=[0] * 90_000),
    },
    ("parts", "chain"): {
        "part that contains itself": fitted(calibrators_=[4]),
        "part that is not fitted": fitted(calibrators_=[0]),
        "part that nobody needs": fitted(calibrators_=[2]),
        "many stages": together(WIDE, fitted(calibrators_=[2] + [3] * 1000)),
    },
    ("parts", "mixture"): {
        "mixtures nine deep": lambda f: nest(f, 7),
        "mixtures that double at each level": lambda f: nest(f, 6, copies=10),
    },
    ("parts", "ts"): {
        "parameter nested deeply": deep_list,
        "outermost part not fitted": part(fitted=None, classes=None),
        "vector that nobody needs": add_vector("x"),
    },
    ("fitted", "chain"): {"other classes": together(add_vector(*"abc"), part(2, classes=1))},
    ("fitted", "auto"): {"floor that reverses classes": fitted(floor_=0.34)},
    ("fitted", "ts"): {"out of range": fitted(inverse_temperature_=-0.5)},
    ("fitted", "fir"): {
        "threshold nan": numbers("thresholds", 1, np.nan),
        "two lengths": lambda f: f.replace_array("values", f.array("values")[:-1]),
    },
    ("fitted", "scir"): {"offsets that overflow": numbers("offsets", 1, 2**63 - 1)},
    ("fitted", "vs"): {
        "nan": numbers("coef_", 2, np.nan),
        "fewer classes": arrays(coef_=[1.0, 2.0]),
        "more classes": labels("int", "int64", [0, 1, 2, 3]),
    },
    ("fitted", "ms"): {"matrix that is not square": arrays(coef_=np.ones((3, 4)))},
    ("fitted", "spline"): {"a million knots": KNOTS},
    ("fitted", "ir-ovr"): {
        "map of unknown form": numbers("forms", 2, 99),
        "map of another form": numbers("forms", 2, 3),
        "lengths that overflow": numbers("lengths", slice(2), 2**63 - 1),
        "length that is negative": numbers("lengths", 0, -1),
        "outside the unit square": numbers("numbers", -1, 2.0),
        "fewer curves than classes": FEW_CURVES,
    },
    ("fitted", "bbq-ovr"): {"a map for each of a million classes": million_maps},
}

CASES = [
    (f"{rule}: {name}", method, change, rule)
    for (rule, method), changes in TABLE.items()
    for name, change in changes.items()
]
