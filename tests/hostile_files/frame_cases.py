"""Broken frames, headers and arrays."""

from __future__ import annotations

import json

from hostile_files.changes import arrays, attributes, entry, fitted, header, part, text


def hole(f):
    """Leave eight bytes between the last two arrays."""
    last = f.header["arrays"][-1]
    f.data = f.data[: last["offset"]] + bytes(8) + f.data[last["offset"] :]
    last["offset"] += 8


def reach_into_the_data(f):
    """Let the header end behind its end."""
    f.header["library"] = "calibrant 0"
    f.length = len(f.text()) + 8
    f.data = b" " * 8 + f.data[8:]


def raw(change):
    """Change the header as bytes."""
    return lambda f: setattr(f, "header", change(json.dumps(f.header).encode()))


DEEP = b"[" * 10_000 + b"]" * 10_000
DIGITS = b"-30." + b"1" * 1_000_000

FRAME = {
    ("magic", "ts"): [("wrong magic", attributes(magic=b"\x89CLBR\n\x1a\x1a"), "")],
    ("header", "ts"): [
        ("header of length zero", attributes(length=0), ""),
        ("header not aligned", attributes(length=lambda f: len(f.text()) - 1), ""),
        ("header above the limit", header(library="x" * (16 * 2**20)), ""),
    ],
    ("length", "ts"): [
        ("header too long", attributes(length=lambda f: len(f.text()) + len(f.data) + 8), ""),
    ],
    ("version", "ts"): [
        ("newer major", attributes(major=3, header=b"\xff" * 64), "an unknown version"),
        ("major zero", attributes(major=0), ""),
    ],
    ("features", "ts"): [
        ("required feature that is no text", header(requires=[["quantum"]]), ""),
    ],
}

HEADER = {
    ("json", "ts"): [
        ("header not utf 8", text(b"calibrant", b"calibran\xff"), "UTF-8"),
        ("header cut off", raw(lambda h: h[:-1]), "not JSON"),
        ("header with more behind it", raw(lambda h: h + b"{}"), "not JSON"),
        ("header that is a list", attributes(header=lambda f: [f.header]), "object"),
        ("header nested deeply", text(b'"@"', DEEP, extra="@"), "recursion"),
        ("key twice", raw(lambda h: h[:-1] + b', "requires": []}'), "key twice"),
        ("key twice inside", text(b'"method"', b'"method": "ts", "method"'), "key twice"),
        ("nan literal", fitted(zero_logit_=float("nan")), "NaN"),
        ("infinity literal", fitted(zero_logit_=float("-inf")), "-Infinity"),
        ("float that overflows", text(b'"@"', b"-1e999", extra="@"), "nor float64"),
        ("integer of 5000 digits", text(b'"@"', b"9" * 5000, extra="@"), "not JSON"),
        ("integer of 65 bits", header(extra=2**64), "neither int64"),
        ("half a surrogate pair", header(library="\ud800"), "not Unicode"),
    ],
    ("fields", "ts"): [
        ("float of a million digits", text(b'"@"', DIGITS, extra="@"), "unknown field 'extra'"),
        ("header of lists", header(extra=[[]] * 4_000_000), "unknown field 'extra'"),
        ("field missing", lambda f: f.header.pop("parts"), "no field 'parts'"),
        ("field unknown", header(code="import os"), "unknown field 'code'"),
        ("field unknown in a part", part(x=1), "unknown field 'x'"),
        ("field of the wrong type", header(parts={}), "list"),
        ("part that is no object", header(parts=[1]), ""),
        ("library with escape codes", header(library="\x1b[2J"), "library"),
        ("library missing", lambda f: f.header.pop("library"), ""),
    ],
}

ARRAYS = {
    ("arrays", "fir"): [
        ("shape whose product overflows", entry("thresholds", shape=[2**32, 2**32, 3]), ""),
        ("shape that is negative", entry("thresholds", shape=[-3]), ""),
        ("shape of nothing", entry("thresholds", shape=[]), ""),
        ("shape of floats", entry("thresholds", shape=[3.0]), ""),
        ("offset negative", entry("values", offset=-8), ""),
        ("offsets that overlap", entry("values", offset=0), ""),
        ("hole between arrays", hole, ""),
        ("bytes at the end", attributes(data=lambda f: f.data + bytes(24)), "belong to no array"),
        ("header that reaches into the data", reach_into_the_data, ""),
        ("dtype of objects", entry("thresholds", dtype="object"), ""),
        ("dtype of the other kind", entry("values", dtype="int64"), ""),
        ("two arrays of one name", entry("values", name="vector/0"), "no name of its own"),
        ("array missing", entry("values", name="other"), "there is no array"),
        ("array that nobody needs", lambda f: f.add_array("extra", [1.0]), "belongs to nothing"),
        ("too many arrays", lambda f: [f.add_array(f"{i}", [1.0]) for i in range(16385)], "16384"),
        ("two dimensions", lambda f: f.entry("thresholds")["shape"].append(1), "2 dimensions"),
    ],
    ("fitted", "vs"): [
        ("array of other dimensions", entry("coef_", shape=[3, 1]), "shape"),
        ("slopes of fewer classes", arrays(coef_=[1.0, 2.0]), r"coef has shape \(2,\)"),
    ],
}

TABLES = (FRAME, HEADER, ARRAYS)
