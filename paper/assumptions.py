"""Table 1 of the paper, measured: what each method assumes, on simulated predictions.

Every method is fitted to over-confident predictions whose classes are biased each in its own way;
the map that comes out is then asked three questions.

- *Order preserving*: does it ever put a class below another that had the smaller probability?
- *Permutation invariant*: is the output of permuted columns the permuted output?
- *Relaxing category independence*: either the ratio of two outputs depends on the probabilities of
  other classes, or the fit knew of the normalisation, so that no power of the outputs, normalised
  again, has a lower NLL on the rows of the fit.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import optimize

from calibrant import _gate as gate
from calibrant._calibrators.methods import make_calibrator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]
    Map = Callable[[Matrix], Matrix]

N_CLASSES = 8
N_ROWS = 4_000
POWER_TOLERANCE = 0.01
"""How far from 1 the best power may be; a fit with a prior is not quite at its own optimum."""


class Measured(NamedTuple):
    """What was found of one method.

    Attributes
    ----------
    reversed_share : float
        Share of pairs of classes whose order the map turns around.
    permuted_gap : float
        Largest difference between permuted output and output of permuted columns.
    others_gap : float
        Largest relative change of a ratio of two outputs when the other classes change.
    power : float
        The power of the outputs that has the lowest NLL on the rows of the fit.
    """

    reversed_share: float
    permuted_gap: float
    others_gap: float
    power: float

    @property
    def verdicts(self) -> dict[str, bool]:
        """Whether the method has each of the three properties, by the names of Table 1."""
        return {
            "order preserving": self.reversed_share == 0.0,
            "permutation invariant": self.permuted_gap < 1e-6,
            "relaxing category independence": self.others_gap > 1e-6
            or abs(self.power - 1.0) <= POWER_TOLERANCE,
        }


def simulate(n_rows: int = N_ROWS, seed: int = 0) -> tuple[Matrix, NDArray[np.int64]]:
    """Return over-confident predictions, with a bias for every class, and labels."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0.0, 3.0, (n_rows, N_CLASSES))
    slopes = np.linspace(0.35, 0.75, N_CLASSES)
    honest = gate.softmax(scores * slopes + np.linspace(-0.8, 0.8, N_CLASSES))
    labels = (honest.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
    return gate.softmax(scores), labels


def measure_map(predict: Map, rows: Matrix, labels: NDArray[np.int64]) -> Measured:
    """Ask the three questions of a fitted map, on the rows it was fitted to."""
    out = predict(rows)
    wins = rows[:, :, None] > rows[:, None, :]
    turned = wins & (out[:, :, None] < out[:, None, :] - 1e-12)
    order = np.roll(np.arange(N_CLASSES), 3)
    permuted = predict(np.ascontiguousarray(rows[:, order]))
    # The first two classes keep their probabilities, the others share theirs equally.
    level = rows.copy()
    level[:, 2:] = rows[:, 2:].mean(axis=1, keepdims=True)
    moved = predict(level)
    held = (out[:, :2].min(axis=1) > 1e-9) & (moved[:, :2].min(axis=1) > 1e-9)
    ratio = (out[held, 0] / out[held, 1]) / (moved[held, 0] / moved[held, 1])
    return Measured(
        float(turned.sum() / wins.sum()),
        float(np.abs(permuted - out[:, order]).max()),
        float(np.abs(ratio - 1.0).max()) if held.any() else math.nan,
        best_power(out, labels),
    )


def best_power(out: Matrix, labels: NDArray[np.int64]) -> float:
    """Return the power c for which the rows out**c, normalised, have the lowest NLL.

    Examples
    --------
    >>> import numpy as np
    >>> from assumptions import best_power
    >>> rows = np.tile([[0.75, 0.25]], (4, 1))
    >>> round(best_power(rows, np.array([0, 0, 0, 1])), 3)
    1.0
    """
    logs = np.log(np.maximum(out, 1e-12))
    own = logs[np.arange(len(labels)), labels]

    def loss(log_power: float) -> float:
        power = math.exp(log_power)
        shifted = power * (logs - logs.max(axis=1, keepdims=True))
        totals = np.log(np.exp(shifted).sum(axis=1)) + power * logs.max(axis=1)
        return float((totals - power * own).mean())

    found = optimize.minimize_scalar(loss, bounds=(-2.0, 2.0), method="bounded")
    return math.exp(float(found.x))


def measure_assumptions(methods: Sequence[str]) -> dict[str, Measured]:
    """Fit methods to simulated predictions and measure their maps.

    Examples
    --------
    >>> from assumptions import measure_assumptions
    >>> measure_assumptions(["ts"])["ts"].verdicts
    {'order preserving': True, 'permutation invariant': True,
     'relaxing category independence': True}
    """
    rows, labels = simulate()
    found = {}
    for method in methods:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            calibrator = make_calibrator(method, classes=np.arange(N_CLASSES)).fit(rows, labels)
        found[method] = measure_map(calibrator.predict_proba, rows, labels)
    return found
