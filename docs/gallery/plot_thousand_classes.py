"""
A thousand classes
==================

With 1,000 classes and 4,000 rows there are four labels for each class: too few for a map of its
own. Methods that share one map, as SCIR and NA-FIR do, need no more rows than for ten classes.

More: :doc:`Choose a calibration method </start/methods>`.
"""

import warnings

import numpy as np
from matplotlib import pyplot as plt
from scipy.special import softmax

from calibrant import NormalizationAwareIsotonic, OneVsRestIsotonic, SortedCumulativeIsotonic
from calibrant.plots import compute_top_r, draw_top_r

# Labels are drawn from a softmax; the scores are more certain than that.
rng = np.random.default_rng(0)
logits = 4 * rng.normal(size=(6000, 1000))
y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
scores = softmax(1.6 * logits, axis=1)
scores, new_scores, y, new_y = scores[:4000], scores[4000:], y[:4000], y[4000:]

found = {"uncalibrated": new_scores}
methods = {"one-vs-rest isotonic": OneVsRestIsotonic, "NA-FIR": NormalizationAwareIsotonic}
methods["SCIR"] = SortedCumulativeIsotonic
with warnings.catch_warnings(record=True, action="always") as told:
    for name, method in methods.items():
        calibrator = method(classes=np.arange(1000)).fit(scores, y)
        found[name] = calibrator.predict_proba(new_scores)
print("calibrant warned:", *dict.fromkeys(str(one.message) for one in told), sep="\n")

# %%
# What the r most probable classes are promised together, less how often the label is among them:
# 0 is right, and the grey bands are where right probabilities would be.

curves = {name: compute_top_r(new_y, rows, max_rank=30) for name, rows in found.items()}
_, ax = plt.subplots(figsize=(8, 4.6), layout="constrained")
draw_top_r(curves, ax)
off = {name: 100 * abs(curve.claimed - curve.share).max() for name, curve in curves.items()}
each, shared = off["one-vs-rest isotonic"], off["NA-FIR"]
title = f"A map for each class is off by up to {each:.0f} points, a shared one by {shared:.1f}"
ax.set_title(title, fontweight="bold")
