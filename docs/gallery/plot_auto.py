"""
AutoCalibrator's report
=======================

Which methods were tried, what each one's held-out loss was, and what share of the mixture it got.

More: :doc:`AutoCalibrator </explanation/auto>`.
"""

from matplotlib import pyplot as plt

from calibrant import AutoCalibrator
from calibrant.datasets import overconfident_digits

scores, y, _, _ = overconfident_digits()
report = AutoCalibrator().fit(scores, y).report_
print(report)

# %%
# The same as a picture: to the left of the line, better than temperature scaling ("ts"); bars are
# two standard errors. Shares in the mixture stand beside the names. The mixture was chosen with
# these rows, so its own point flatters it a little.

found = sorted(report.candidates, key=lambda one: one.nll)
names = [f"{one.path}, {one.weight:.0%}" for one in found]
baseline = next(one.nll for one in found if one.path == "ts")
_, ax = plt.subplots(figsize=(8, 4.2), layout="constrained")
errors = [2 * one.standard_error for one in found]
ax.plot(report.mixture_nll - baseline, "the mixture", "D", color="#D55E00", markersize=8)
ax.errorbar([one.difference for one in found], names, xerr=errors, fmt="o", color="#0072B2")
ax.axvline(0, color="0.5", linestyle=":")
ax.invert_yaxis()
ax.spines[["top", "right"]].set_visible(False)
ax.set_xlabel("held-out NLL less that of temperature scaling")
best = f"{found[0].path} has an NLL of {found[0].nll:.3f}"
ax.set_title(f"Alone, {best}; the mixture, {report.mixture_nll:.3f}", fontweight="bold")
