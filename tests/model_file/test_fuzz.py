"""Damaged files with a right checksum: refused, or a calibrator that still keeps its promises."""

import random
import warnings
from collections import Counter
from time import perf_counter

import numpy as np
import pytest

from calibrant.errors import ModelFileError, NewerFormatWarning
from calibrant.model_file import dumps, loads
from calibrant.model_file.codecs import BY_CLASS
from hostile_files.mutations import mutate
from model_file.catalogue import KINDS, METHODS, fitted, probe


def judge(data):
    """Return "refused" or "loaded"; anything else is an error."""
    started = perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NewerFormatWarning)
            calibrator = loads(data)
    except ModelFileError as error:
        outcome = type(error).__name__
    else:
        outcome = "loaded"
    assert perf_counter() - started < 10, "a hang"
    if outcome == "loaded":
        assert_keeps_its_promises(calibrator)
    return outcome


def assert_keeps_its_promises(calibrator):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        out = calibrator.predict_proba(probe(calibrator, n_rows=5))
    assert np.all(np.isfinite(out))
    assert out.min() >= 0
    assert out.max() <= 1 + 1e-9
    if all_sum_to_one(calibrator):
        np.testing.assert_allclose(out.sum(axis=1), 1, rtol=0, atol=1e-9)
    assert dumps(calibrator)  # what was loaded can be saved
    assert repr(calibrator)


def all_sum_to_one(calibrator):
    """Whether no part was asked not to divide by the sum."""
    fields = BY_CLASS[type(calibrator)].fields
    parts = [p for name, kind in fields.items() for p in kind.parts(getattr(calibrator, name))]
    return getattr(calibrator, "normalize_output", True) and all(map(all_sum_to_one, parts))


def run(n_files, seed):
    seeds = [dumps(fitted(method, kind)) for method in METHODS for kind in KINDS]
    outcomes = Counter()
    for i in range(n_files):
        rng = random.Random(f"{seed}-{i}")
        try:
            outcomes[judge(mutate(seeds[i % len(seeds)], rng))] += 1
        except Exception as error:
            error.add_note(f"seed {seed}-{i}, method {METHODS[i % len(seeds) // len(KINDS)]}")
            raise
    return outcomes


def test_damaged_files_are_refused_or_harmless():
    outcomes = run(3000, "quick")
    assert outcomes["loaded"] > 100  # otherwise nothing behind the checks is tried
    assert len(outcomes) >= 12


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_many_damaged_files_are_refused_or_harmless(part):
    assert run(10_000, part)["loaded"] > 500
