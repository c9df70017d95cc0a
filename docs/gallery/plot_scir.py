"""
SCIR's surface
==============

Sorted cumulative isotonic regression asks how sure it is that the label is among the top r classes:
a surface that rises with the sum of their scores and with r. A minimum cut finds it, exactly.
"""

from calibrant import SortedCumulativeIsotonic
from calibrant.datasets import overconfident_digits
from calibrant.plots import compute_map, draw_map

scores, y, _, _ = overconfident_digits()
calibrator = SortedCumulativeIsotonic().fit(scores, y)
draw_map(compute_map(calibrator))
