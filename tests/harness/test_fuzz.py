"""Inputs that a fuzzer found to reach new code: each is read, or refused, and nothing else."""

import warnings
from pathlib import Path

import fuzz
import pytest

CORPUS = Path(__file__).parents[1] / "data" / "fuzz"


@pytest.mark.parametrize("target", sorted(fuzz.TARGETS))
def test_inputs_of_the_fuzzer_are_read_or_refused(target):
    files = sorted((CORPUS / target).iterdir())
    assert len(files) >= 10
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in files:
            fuzz.TARGETS[target](path.read_bytes())
