"""Large matrices are read in chunks: no metric makes a second copy."""

import json
import subprocess
import sys

import pytest

CALLS = [
    "metrics.accuracy(y, proba)",
    "metrics.negative_log_likelihood(y, proba)",
    "metrics.brier_score(y, proba)",
    "metrics.confidence_ece(y, proba)",
    "metrics.confidence_ece(y, proba, strategy='quantile')",
    "metrics.classwise_ece(y, proba)",
    "metrics.kernel_density_ece(y, proba)",
    "metrics.calibration_test(y, proba, n_resamples=2)",
    "metrics.calibration_test(y, proba, metric='classwise', n_resamples=2)",
    "metrics.reliability_curve(y, proba, kind=3, n_resamples=2)",
    "metrics.thresholded_ece(y, proba)",
]

PROGRAM = f"""
import json
import resource
import numpy as np
from calibrant import metrics

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

rng = np.random.default_rng(0)
proba = small = rng.dirichlet(np.ones(40), 2000).astype(np.float32)
y = np.arange(2000) % 40
for call in {CALLS}:
    eval(call)  # imports
proba = np.empty((2_000_000, 40), dtype=np.float32)
for start in range(0, len(proba), 2000):
    proba[start : start + 2000] = small
y = (np.arange(len(proba)) % 40).astype(np.int16)
before = peak()
peaks = {{}}
for call in {CALLS}:
    eval(call)
    peaks[call] = peak() - before  # of all calls so far
print(json.dumps(peaks))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts kilobytes as Linux does")
def test_peak_stays_below_a_copy_of_the_matrix():
    """The matrix has 305 MiB as float32, and would have 610 as float64."""
    out = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    peaks = json.loads(out.stdout)
    assert list(peaks) == CALLS
    for call, peak in peaks.items():
        limit = 350 if "thresholded" in call else 200  # cells of several classes are sorted at once
        assert peak < limit, call
