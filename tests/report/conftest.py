"""Comparisons that several tests look at, made once."""

import numpy as np
import pytest

from calibrant import FlattenedIsotonic, TemperatureScaling, VectorScaling
from calibrant.report import compare, write_report
from conftest import simulate
from report.names import HOSTILE


class BrokenScaling(TemperatureScaling):
    """A calibrator that cannot be fitted, with a message that is no HTML."""

    def fit(self, *_):
        raise RuntimeError("<img src=x onerror=alert(4)> cannot be fitted")


@pytest.fixture(scope="session")
def parts():
    """An over-confident classifier of twelve classes."""
    scores, y = simulate(1200, 12, seed=1)
    new_scores, new_y = simulate(900, 12, seed=2)
    return scores, y, new_scores, new_y


@pytest.fixture(scope="session")
def hostile(parts):
    """A comparison in which every name is an attack."""
    scores, y, new_scores, new_y = parts
    names = np.array(HOSTILE, dtype=object)
    methods = {
        "ts": TemperatureScaling(),
        "fir": FlattenedIsotonic(),
        "<i>vs</i>": VectorScaling(),
        "broken": BrokenScaling(),
    }
    sources = {"calibration": "a b/<script>alert(5)</script>.npz", "test": "test.npz"}
    return compare(
        names[y],
        scores,
        names[new_y],
        new_scores,
        methods,
        classes=names,
        n_resamples=20,
        sources=sources,
    )


@pytest.fixture(scope="session")
def hostile_page(hostile, tmp_path_factory):
    path = tmp_path_factory.mktemp("hostile") / "report.html"
    write_report(path, hostile, title="<script>alert(6)</script> report")
    return path


@pytest.fixture(scope="session")
def long_comparison(parts):
    """Every method on probabilities."""
    scores, y, new_scores, new_y = parts
    return compare(y, scores, new_y, new_scores, n_resamples=4)


@pytest.fixture(scope="session")
def long_page(long_comparison, tmp_path_factory):
    path = tmp_path_factory.mktemp("long") / "report.html"
    write_report(path, long_comparison)
    return path
