"""
SCIR's surface
==============

Sorted cumulative isotonic regression asks how probable it is that the label is among the r most
probable classes. The answer g(q, r) is a surface that rises with q, the sum of their scores, and
with r. Splitting at maximal upper sets finds the one with the smallest error, exactly.

More: :doc:`Sorted cumulative isotonic regression </explanation/scir>`.
"""

import numpy as np
from matplotlib import pyplot as plt

from calibrant import SortedCumulativeIsotonic
from calibrant.datasets import overconfident_digits
from calibrant.plots import compute_map, draw_map

scores, y, _, _ = overconfident_digits()
calibrator = SortedCumulativeIsotonic().fit(scores, y)

# %%
# On the left the surface from above, on the right some of its rows. (The r largest of ten scores
# have a sum of at least r / 10: the rest is blank.) Below the diagonal, a sum of scores is worth
# less than it says: this network is too sure.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.8), layout="constrained")
q, ranks = np.linspace(0, 1, 401), np.arange(1, 10)
surface = calibrator.step_function_(*np.meshgrid(q, ranks))
surface[q < ranks[:, None] / 10] = np.nan
image = left.pcolormesh(q, ranks, surface, vmin=0, vmax=1, shading="nearest", cmap="cividis")
left.grid(visible=False)
figure.colorbar(image, ax=left)
left.set(xlabel="q: sum of the r largest probabilities", ylabel="r", yticks=ranks)
left.set_title("the surface g(q, r)", fontweight="bold")
draw_map(compute_map(calibrator), right, title="its rows")
figure.suptitle("How often the label is among the r most probable classes", fontweight="bold")
