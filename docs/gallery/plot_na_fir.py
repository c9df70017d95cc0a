"""
NA-FIR's map beside FIR's
=========================

Both are one isotonic step function for all classes, divided by the sum of the row. FIR is fitted
before that division; NA-FIR is fitted *with* it: the paper's idea, and solved exactly here.
"""

from matplotlib import pyplot as plt

from calibrant import FlattenedIsotonic, NormalizationAwareIsotonic
from calibrant.datasets import overconfident_digits
from calibrant.metrics import negative_log_likelihood
from calibrant.plots import compute_map, draw_map

scores, y, new_scores, new_y = overconfident_digits()

figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
for ax, method in zip(axes, (FlattenedIsotonic, NormalizationAwareIsotonic), strict=True):
    calibrator = method().fit(scores, y)
    nll = negative_log_likelihood(new_y, calibrator.predict_proba(new_scores))
    draw_map(compute_map(calibrator), ax, title=f"{method.__name__}: NLL {nll:.3f}")
