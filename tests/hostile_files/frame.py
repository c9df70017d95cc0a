"""A model file taken apart, to be put together again wrongly."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass

import numpy as np

MAGIC = b"\x89CLBR\r\n\x1a"


@dataclass
class Frame:
    """The pieces of a file; ``assemble`` writes a valid frame around whatever they are."""

    header: object
    data: bytes
    major: int = 1
    minor: int = 0
    magic: bytes = MAGIC
    length: int | None = None

    def text(self):
        """Header as bytes, padded to a multiple of eight."""
        raw = self.header if isinstance(self.header, bytes) else json.dumps(self.header).encode()
        return raw + b" " * (-(16 + len(raw)) % 8)

    def assemble(self):
        """All bytes, with the right checksum."""
        text = self.text()
        length = (len(text) if self.length is None else self.length) % 2**32
        prefix = struct.pack("<8sHHI", self.magic, self.major, self.minor, length)
        return seal(prefix + text + self.data)

    def part(self, index=-1):
        """Entry of a calibrator; the outermost by default."""
        return self.header["parts"][index]

    def entry(self, name):
        """Entry of the array whose name ends so."""
        return next(e for e in self.header["arrays"] if e["name"].endswith(name))

    def array(self, name):
        """Numbers of the array whose name ends so, as a copy."""
        entry = self.entry(name)
        size = 8 * int(np.prod(entry["shape"]))
        raw = self.data[entry["offset"] : entry["offset"] + size]
        return np.frombuffer(raw, dtype=entry["dtype"]).reshape(entry["shape"]).copy()

    def replace_array(self, name, values):
        """Replace an array by one of any shape, and move those behind it."""
        entry, values = self.entry(name), np.asarray(values)
        old = 8 * int(np.prod(entry["shape"]))
        start = entry["offset"]
        raw = values.astype(entry["dtype"]).tobytes()
        self.data = self.data[:start] + raw + self.data[start + old :]
        entry["shape"] = list(values.shape)
        for other in self.header["arrays"]:
            if other["offset"] > start:
                other["offset"] += len(raw) - old

    def add_array(self, name, values, dtype="float64"):
        """Append an array."""
        values = np.asarray(values, dtype=dtype)
        self.header["arrays"].append(
            {"name": name, "dtype": dtype, "shape": list(values.shape), "offset": len(self.data)}
        )
        self.data += values.tobytes()


def seal(body):
    """Append the checksum."""
    return body + hashlib.sha256(body).digest()


def take_apart(data):
    """Read a valid file."""
    magic, major, minor, length = struct.unpack("<8sHHI", data[:16])
    header = json.loads(data[16 : 16 + length])
    return Frame(header, data[16 + length : -32], major, minor, magic)
