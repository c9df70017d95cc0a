"""
NA-FIR's map beside FIR's
=========================

Both are one isotonic step function for all classes, divided by the sum of the row. FIR is fitted
before that division; NA-FIR is fitted *with* it: the paper's idea, and solved exactly here.

More: :doc:`Why NA-FIR is convex </explanation/why-na-fir-is-convex>`.
"""

import numpy as np
from matplotlib import pyplot as plt

from calibrant import FlattenedIsotonic, NormalizationAwareIsotonic
from calibrant.datasets import overconfident_digits
from calibrant.plots import compute_map, draw_map

scores, y, new_scores, new_y = overconfident_digits()
fitted = {"FIR": FlattenedIsotonic().fit(scores, y)}
fitted["NA-FIR"] = NormalizationAwareIsotonic().fit(scores, y)

# %%
# The negative log-likelihood (NLL) of new rows, and the difference with its standard error. It is
# about as large as that error: these rows alone prove nothing. :doc:`/evidence/quality` has the
# measurements on many data sets.

rows = np.arange(len(new_y))
losses = {name: -np.log(own.predict_proba(new_scores)[rows, new_y]) for name, own in fitted.items()}
gain = losses["FIR"] - losses["NA-FIR"]
print(f"NA-FIR gains {gain.mean():.3f} ± {gain.std() / len(gain) ** 0.5:.3f}")

# %%
# What differs is the map. NA-FIR's need not give probabilities, as only the ratios of its values
# within a row count: it has more steps, and follows the scores further down.

figure, axes = plt.subplots(1, 2, figsize=(9, 4.8), sharex=True, sharey=True, layout="constrained")
for ax, (name, own) in zip(axes, fitted.items(), strict=True):
    draw_map(compute_map(own), ax, title=f"{name}: NLL {losses[name].mean():.3f}")
figure.suptitle("Fitted with the division, the map has more steps", fontweight="bold")
