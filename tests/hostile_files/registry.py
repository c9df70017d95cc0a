"""The list of cases: files with a valid checksum that break one rule each."""

from __future__ import annotations

CASES = []
"""(name, method, change, error, match): ``change`` breaks the ``Frame`` of a file of ``method``."""


def case(error, method="ts", match=""):
    """Register a way to break a file, by the name of the function."""

    def register(change):
        CASES.append((change.__name__, method, change, error, match))
        return change

    return register


def put_number(name, place, value):
    """Return a change that sets numbers of an array."""

    def change(f):
        numbers = f.array(name)
        numbers[place] = value
        f.put(name, numbers)

    return change
