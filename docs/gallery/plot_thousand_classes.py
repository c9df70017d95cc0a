"""
A thousand classes
==================

With 1,000 classes and 5,000 rows there are five labels for each class: too few for a map of its
own. Methods that share one map, as SCIR and NA-FIR do, need no more rows than for ten classes. What
the top r classes are promised is compared with how often they hold the label.
"""

import numpy as np
from matplotlib import pyplot as plt
from scipy.special import softmax

from calibrant import NormalizationAwareIsotonic, OneVsRestIsotonic, SortedCumulativeIsotonic
from calibrant.plots import compute_top_r, draw_top_r

# Honest probabilities, labels drawn from them, and scores that are more certain than these.
rng = np.random.default_rng(0)
logits = 4 * rng.normal(size=(7000, 1000))
y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
scores = softmax(1.6 * logits, axis=1)
scores, new_scores, y, new_y = scores[:5000], scores[5000:], y[:5000], y[5000:]

found = {"uncalibrated": new_scores}
for method in (OneVsRestIsotonic, NormalizationAwareIsotonic, SortedCumulativeIsotonic):
    calibrator = method(classes=np.arange(1000)).fit(scores, y)
    found[method.__name__] = calibrator.predict_proba(new_scores)

_, ax = plt.subplots(figsize=(7, 4.5))
draw_top_r({name: compute_top_r(new_y, rows, max_rank=30) for name, rows in found.items()}, ax)
