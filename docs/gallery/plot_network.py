"""
A network's logits
==================

Networks give logits: ``scores="logits"`` says so, and nothing is lost to the softmax. Temperature
scaling divides them by one number; :class:`~calibrant.AutoCalibrator` weighs several methods.
"""

import numpy as np

from calibrant import AutoCalibrator, TemperatureScaling
from calibrant.datasets import overconfident_digits
from calibrant.plots import compute_reliability_grid, draw_reliability_grid

scores, y, new_scores, new_y = overconfident_digits()
logits, new_logits = np.log(scores), np.log(new_scores)

ts = TemperatureScaling(scores="logits").fit(logits, y)
auto = AutoCalibrator(scores="logits").fit(logits, y)
print(f"temperature {ts.temperature_:.2f}")

curves = compute_reliability_grid(
    new_y,
    {
        "network": new_scores,
        "temperature scaling": ts.predict_proba(new_logits),
        "AutoCalibrator": auto.predict_proba(new_logits),
    },
)
draw_reliability_grid(curves)
