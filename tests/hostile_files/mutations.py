"""Random damage that keeps the checksum right, so that it reaches the code behind it."""

from __future__ import annotations

import copy
import struct

import numpy as np

from hostile_files.frame import seal, take_apart

VALUES = [
    None, True, False, 0, 1, 2, -1, 3, 2**31, 2**53, 2**62, -(2**63), 0.0, -0.0, 0.5, 1.0, -1.0,
    1e-300, 5e-324, 1e300, -1e300, 1e100, -30.0, "", "nan", "inf", "-inf", "a", "ts", "fir",
    "array", "step function", "maps", "logits", "probabilities", "rows", "float64", "int64",
    "object", "str", [], [0], [1, 2], [[0]], {}, {"part": 0}, {"vector": 0}, {"tuple": []},
    {"float": "nan"}, {"bytes": "00"}, "x" * 2000, "\x00", "é",
]  # fmt: skip
NUMBERS = [
    0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.nan, np.inf, -np.inf, 5e-324, 1e-310, 1e-300, 1e-16, 1e100,
    1e300, 1.7e308, -1e300, 1 + 2**-52, 1 - 2**-53,
]  # fmt: skip
LARGEST_FILE = 32_000_000
WHOLE = [0, 1, 2, 3, -1, 7, 255, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63)]


def nodes(value):
    """Every place in a JSON value, as (container, key)."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield value, key
        if isinstance(item, dict | list):
            yield from nodes(item)


def mutate(data, rng):
    """Return a damaged copy of a valid file."""
    if rng.random() < 0.15:
        return blind(data, rng)
    frame = take_apart(data)
    if rng.random() < 0.01:
        stretch(frame, rng)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        rng.choice([change_header, change_header, change_numbers, change_numbers, change_layout])(
            frame, rng
        )
    return frame.assemble()


def blind(data, rng):
    """Change bytes anywhere; the checksum is made right again most of the time."""
    body = bytearray(data[:-32])
    for _ in range(rng.randint(1, 4)):
        i, length = rng.randrange(len(body)), rng.choice([0, 1, 1, 8, 64])
        body[i : i + length] = rng.randbytes(rng.choice([0, 1, 1, 8, 24])) or b"\0"
    return seal(bytes(body)) if rng.random() < 0.7 else bytes(body) + data[-32:]


def change_header(frame, rng):
    """Replace, delete, add, swap, copy or tweak something in the header."""
    places = list(nodes(frame.header))
    box, key = rng.choice(places)
    action = rng.randrange(7)
    if action == 0:
        box[key] = copy.deepcopy(rng.choice(VALUES))
    elif action == 1:
        del box[key]
    elif action == 2 and isinstance(box, dict):
        box[rng.choice(["extra", "scores", "coef_", "part"])] = copy.deepcopy(rng.choice(VALUES))
    elif action == 2:
        box.insert(rng.randint(0, len(box)), copy.deepcopy(rng.choice(VALUES)))
    elif action == 3:
        other, name = rng.choice(places)
        if name in other if isinstance(other, dict) else name < len(other):
            box[key] = copy.deepcopy(other[name])
    elif action == 4 and type(box[key]) in {int, float}:
        box[key] = rng.choice([box[key] + 1, box[key] - 1, -box[key], box[key] * 10, box[key] / 3])
    elif action == 5 and isinstance(box[key], list):
        box[key] = box[key] * 2 if len(box[key]) < 100 else box[key][:1]
    else:
        frame.minor = rng.choice([0, 0, 1, 65535])


def change_numbers(frame, rng):
    """Change numbers of an array."""
    n_numbers = len(frame.data) // 8
    if n_numbers == 0:
        return
    i, j = 8 * rng.randrange(n_numbers), 8 * rng.randrange(n_numbers)
    action = rng.randrange(5)
    raw = bytearray(frame.data)
    if action == 0:
        raw[i : i + 8] = struct.pack("<d", rng.choice(NUMBERS))
    elif action == 1:
        raw[i : i + 8] = struct.pack("<q", rng.choice(WHOLE))
    elif action == 2:
        raw[i + rng.randrange(8)] ^= 1 << rng.randrange(8)
    elif action == 3:
        raw[i : i + 8], raw[j : j + 8] = raw[j : j + 8], raw[i : i + 8]
    else:
        raw[i : i + 8] = struct.pack("<d", rng.choice([rng.random(), rng.gauss(0, 100)]))
    frame.data = bytes(raw)


def change_layout(frame, rng):
    """Change the number of numbers, in the table or in the data or in both."""
    table = frame.header.get("arrays")
    entries = [e for e in table if is_entry(e)] if isinstance(table, list) else []
    if not entries:
        return
    entry = rng.choice(entries)
    action = rng.randrange(5)
    if action == 0:
        frame.data += bytes(8 * rng.randint(1, 3))
    elif action == 1:
        frame.data = frame.data[: -8 * rng.randint(1, 3)]
    elif action == 2:
        entry["shape"] = rng.choice([[1], [0], [-1], [2**40], [2**63 - 1], [2, 2], [1] * 4, []])
    elif action == 3:
        entry["offset"] = rng.choice([0, 8, -8, 1, 2**40])
    else:  # one number more or fewer, consistently
        at, step = max(entry["offset"], 0), rng.choice([1, -1])
        entry["shape"] = [entry["shape"][0] + step, *entry["shape"][1:]]
        new, skipped = (struct.pack("<d", rng.choice(NUMBERS)), 0) if step > 0 else (b"", 8)
        frame.data = frame.data[:at] + new + frame.data[at + skipped :]
        for other in entries:
            if other["offset"] > at:
                other["offset"] += 8 * step


def stretch(frame, rng):
    """Make more classes of the same kind, and use parts more often; nothing contradicts itself."""
    n_classes = frame.array("vector/0").size
    times = rng.choice([3, 100, 100, 5_000, 50_000, 300_000])
    times = min(times, LARGEST_FILE // (len(frame.data) + 1))
    for entry in frame.header["arrays"]:
        name, shape = entry["name"], entry["shape"]
        values = frame.array(name)
        if shape == [n_classes, n_classes] and times <= 100:
            frame.replace_array(name, np.kron(np.eye(times), values))
        elif name.endswith(("/forms", "/lengths", "/numbers")) or shape == [n_classes]:
            frame.replace_array(name, np.tile(values, times))
    frame.put("vector/0", np.arange(n_classes * times))
    fitted = frame.part()["fitted"]
    copies = rng.choice([1, 4, 20, 400])
    for field in ("calibrators_", "paths_"):
        if field in fitted:
            fitted[field] = fitted[field] * copies
            if "weights_" in fitted:
                weights = f"{len(frame.header['parts']) - 1}/weights_"
                frame.replace_array(weights, np.tile(frame.array(weights), copies) / copies)


def is_entry(entry):
    """Whether an entry of the table of arrays is still whole."""
    return (
        isinstance(entry, dict)
        and type(entry.get("offset")) is int
        and type(entry.get("shape")) is list
        and all(type(n) is int for n in entry["shape"])
        and entry["shape"] != []
    )
