"""What is changed in a file: each function returns one that breaks a ``Frame``."""

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
        found = f.array(array)
        found[place] = value
        f.put(array, found)

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


def vector(kind, dtype, values):
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
