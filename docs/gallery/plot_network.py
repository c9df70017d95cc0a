"""
A network's logits
==================

Networks give logits: ``scores="logits"`` says so, and nothing is lost to the softmax. Temperature
scaling divides them by one number; :class:`~calibrant.AutoCalibrator` weighs several methods.

More: :doc:`Calibrate a model in ten minutes </start/ten-minutes>`.
"""

import numpy as np

from calibrant import AutoCalibrator, TemperatureScaling
from calibrant.datasets import overconfident_digits
from calibrant.metrics import negative_log_likelihood, reliability_curve
from calibrant.plots import draw_reliability_grid

scores, y, new_scores, new_y = overconfident_digits()
logits, new_logits = np.log(scores), np.log(new_scores)

ts = TemperatureScaling(scores="logits").fit(logits, y)
auto = AutoCalibrator(scores="logits").fit(logits, y)
found = {
    "network": new_scores,
    "temperature scaling": ts.predict_proba(new_logits),
    "AutoCalibrator": auto.predict_proba(new_logits),
}
print(f"temperature {ts.temperature_:.2f}")

# %%
# Two methods mend the confidence; which of them has the smaller ECE is chance, as their p-values
# say. The negative log-likelihood (NLL) looks at all classes, not only at the most probable one,
# and tells them apart: here is the difference in each row, with its standard error.

own = [np.log(p[np.arange(len(new_y)), new_y]) for p in found.values()]
gain = own[2] - own[1]
print(f"AutoCalibrator gains {gain.mean():.3f} ± {gain.std() / len(gain) ** 0.5:.3f} in NLL")

notes = {name: [f"NLL {negative_log_likelihood(new_y, p):.3f}"] for name, p in found.items()}
curves = {name: reliability_curve(new_y, p) for name, p in found.items()}
draw_reliability_grid(curves, notes=notes, title="A network that is too sure, and two remedies")
