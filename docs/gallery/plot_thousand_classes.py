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
# 0 is right, and the grey band is where right probabilities would be.

ranks = np.arange(1, 31)
_, ax = plt.subplots(figsize=(8, 4.6), layout="constrained")
off = {}
for (name, rows), marker in zip(found.items(), "os^D", strict=True):
    claimed = np.sort(rows, axis=1)[:, ::-1].cumsum(axis=1)[:, :30]
    place = np.count_nonzero(rows > rows[np.arange(len(rows)), new_y][:, None], axis=1)
    gap = 100 * (claimed.mean(axis=0) - (place[:, None] < ranks).mean(axis=0))
    ax.plot(ranks, gap, marker=marker, markersize=4.5, label=name)
    off[name] = abs(gap).max()
half = 196 * np.sqrt((claimed * (1 - claimed)).sum(axis=0)) / len(rows)
ax.fill_between(ranks, -half, half, color="gray", alpha=0.2, label="if calibrated")
ax.axhline(0, color="gray", linestyle=":")
ax.set(xlabel="number r of most probable classes", ylabel="claimed minus observed, points")
ax.legend()
each, shared = off["one-vs-rest isotonic"], off["NA-FIR"]
title = f"A map for each class is off by up to {each:.0f} points, a shared one by {shared:.1f}"
ax.set_title(title, fontweight="bold")
