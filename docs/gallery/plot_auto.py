"""
AutoCalibrator's report
=======================

Which methods were tried, what each one's held-out loss was, and what share of the mixture it got.
"""

from matplotlib import pyplot as plt

from calibrant import AutoCalibrator
from calibrant.datasets import overconfident_digits

scores, y, _, _ = overconfident_digits()
calibrator = AutoCalibrator().fit(scores, y)
print(calibrator.report_)

# %%
# The same as a picture: to the left of the line, better than temperature scaling; bars are two
# standard errors.

found = calibrator.report_.candidates
_, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
names = [f"{one.path} ({one.weight:.0%})" for one in found]
errors = [2 * one.standard_error for one in found]
ax.errorbar([one.difference for one in found], names, xerr=errors, fmt="o", capsize=3)
ax.axvline(0, color="0.5", linestyle=":")
ax.set_xlabel("held-out NLL less that of temperature scaling")
ax.set_title("candidates, and their shares of the mixture")
