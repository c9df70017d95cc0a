"""Shared by all tests: hypothesis profiles, and the predictions of real classifiers."""

from __future__ import annotations

import os
import signal
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from browser import browser  # noqa: F401  (a fixture)
from calibrant.errors import DataError, ParameterError

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests send it to their children

settings.register_profile(
    "ci",
    max_examples=100,
    derandomize=True,  # a change is not refused for what it did not break
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("local", settings.get_profile("ci"), max_examples=50)
settings.register_profile(
    "nightly", settings.get_profile("ci"), derandomize=False, max_examples=20_000
)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "local")
)

# Looked at for doctests, one would add its method, the other count calls of kernels.
collect_ignore = ["calibrators/toy_method.py", "kernels/every_number.py"]

HERE = Path(__file__).parent
SMALL = HERE / "data"
DATA = Path(os.environ.get("CALIBRANT_DATA", SMALL))
REAL_FILES = sorted(path.stem for path in DATA.glob("*.npz"))
if not REAL_FILES:
    raise FileNotFoundError(f"{DATA} has no *.npz files; unset CALIBRANT_DATA")


def needs_collection(test):
    """Mark a test that asks about the whole collection; it is skipped where that is not."""
    is_small = len(REAL_FILES) < 47
    return pytest.mark.collection(pytest.mark.skipif(is_small, reason="four small files")(test))


needs_pages = pytest.mark.skipif(
    not (HERE.parent / "docs").exists(), reason="an sdist has no pages and no tools"
)


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(items):
    """Mark tests of a real file that does not travel with the repository: ``collection``."""
    if DATA.resolve() == SMALL.resolve():
        return
    for item in items:
        if getattr(item, "callspec", None) and item.callspec.params.get("name") in REAL_FILES:
            item.add_marker("collection")


def real_files(*beginnings):
    """Names of the real files that begin so; all of the small ones, if none of them does."""
    return [name for name in REAL_FILES if name.startswith(beginnings)] or REAL_FILES


def _one_of_each_data_set():
    """Yield the others as slow tests."""
    seen = set()
    for name in REAL_FILES:
        is_new = (data_set := name.partition("_")[0]) not in seen
        seen.add(data_set)
        yield name if is_new else pytest.param(name, marks=pytest.mark.slow)


each_real_file = pytest.mark.parametrize("name", [*_one_of_each_data_set()])


@cache
def load_real(name):
    """Predictions of one real classifier: {"val": (P, y), "test": (P, y)}, as probabilities."""
    with np.load(DATA / f"{name}.npz") as file:
        return {
            part: (_probabilities(file, part), file[f"{part}_labels"]) for part in ("val", "test")
        }


def _probabilities(file, part):
    if f"{part}_probs" in file:
        return file[f"{part}_probs"].astype(np.float64)
    logits = file[f"{part}_logits"].astype(np.float64)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@cache
def every_method():
    """Every method with a name, those of the study too but for what the paper has of ours.

    Its searches for NA-FIR end where their tolerances let them, and its own estimators are ours
    without a prior: ``tests/study`` has them.
    """
    from calibrant._calibrators.methods import saved_methods

    found = saved_methods(study=True)
    return {
        name: cls
        for name, cls in found.items()
        if not name.startswith("na-fir-") and not name.endswith("-paper")
    }


def methods_alone():
    """Those of them that need no parameters."""
    return {name: cls for name, cls in every_method().items() if cls.stands_alone}


def simulate(n_rows, n_classes, seed=0):
    """Over-confident predictions by a factor of two, with labels."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 3, (n_rows, n_classes))
    honest = np.exp(z - z.max(axis=1, keepdims=True))
    honest /= honest.sum(axis=1, keepdims=True)
    y = (honest.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
    bold = honest**2
    return bold / bold.sum(axis=1, keepdims=True), y


def nll(probabilities, y, floor=1e-12):
    """Mean negative log-likelihood of labels 0 .. k-1."""
    return -np.mean(np.log(np.maximum(probabilities[np.arange(len(y)), y], floor)))


def refuses(argument, error=ParameterError, **facts):
    """Expect that an argument is refused, whatever the words are; facts are a row, a value, ..."""
    facts = {"argument": argument, **facts}
    return pytest.raises(
        error, check=lambda raised: {name: getattr(raised, name) for name in facts} == facts
    )


def tells(*facts, error=DataError):
    """Expect an error that tells some facts: a line, a name, an option; whatever the words are."""
    return pytest.raises(error, check=lambda raised: all(fact in str(raised) for fact in facts))
