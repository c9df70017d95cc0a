"""
Drift
=====

A model is calibrated, and then the world changes: from a known day on, one class comes more often.
:class:`~calibrant.monitor.CalibrationMonitor` bets against the probabilities that are served. While
they are right, its wealth cannot grow on average, so the chance that it *ever* reaches 100 is at
most 1 %, however often one looks. When they are not, it grows fast.

More: :doc:`Monitor a model in use </guides/monitor>`.
"""

import numpy as np
from matplotlib import pyplot as plt

from calibrant import PriorShift
from calibrant.metrics import negative_log_likelihood
from calibrant.monitor import CalibrationMonitor

rng = np.random.default_rng(0)
before, after = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.25, 0.35])  # class frequencies
centres = np.array([[0, 0], [2, 0], [1, 1.5]])
n_days, change, n_rows = 60, 35, 200


def day(frequencies):
    """Return labels, and probabilities that are right for the frequencies of before."""
    y = rng.choice(3, n_rows, p=frequencies)
    X = centres[y] + rng.normal(size=(n_rows, 2))
    p = before * np.exp(-0.5 * ((X[:, None] - centres) ** 2).sum(axis=2))
    return p / p.sum(axis=1, keepdims=True), y


days = [day(before if number < change else after) for number in range(n_days)]

# %%
# The labels of each day are counted at night:

monitor = CalibrationMonitor(alpha=0.01)
statuses = [monitor.update(p, y) for p, y in days]
alarm = next(number for number, status in enumerate(statuses) if status.alarm)
late = statuses[-1].alarm_row - change * n_rows
print(f"alarm in the night of day {alarm + 1}, {late} rows after the change")

# %%
# From the predictions of the last three days :class:`~calibrant.PriorShift` estimates the new class
# frequencies, without any label, and changes the predictions of the days after that. (Where more
# than frequencies has changed, labels are needed: fit the calibrator again to the last ones.)

old, old_y = (np.concatenate(part) for part in zip(*days[:20], strict=True))
recent = np.concatenate([p for p, _ in days[alarm - 2 : alarm + 1]])
shift = PriorShift().fit(old, old_y).adapt(recent)
later, later_y = (np.concatenate(part) for part in zip(*days[alarm + 1 :], strict=True))
found = f"{shift.priors_[2]:.0%} ({shift.priors_low_[2]:.0%} to {shift.priors_high_[2]:.0%})"
print(f"third class: {before[2]:.0%} before, {after[2]:.0%} now, estimated {found}")
for name, p in {"as served": later, "adapted": shift.predict_proba(later)}.items():
    print(f"NLL after the alarm, {name}: {negative_log_likelihood(later_y, p):.3f}")

# %%
# Above, the evidence; below, what was said of the third class and how often it came.

figure, (top, low) = plt.subplots(2, 1, figsize=(8, 6), sharex=True, layout="constrained")
number = np.arange(1, n_days + 1)
evidence = np.exp([status.largest_log_e_value for status in statuses])
top.semilogy(number, evidence, color="#0072B2")
top.axhline(1 / monitor.alpha, color="black", linestyle="--", label="limit: 100")
top.plot(alarm + 1, evidence[alarm], "o", color="#0072B2", label=f"alarm, day {alarm + 1}")
top.set(ylabel="largest e-value so far", ylim=(0.1, 1e10))
served = [p[:, 2].mean() for p, _ in days]
adapted = [shift.predict_proba(p)[:, 2].mean() for p, _ in days[alarm + 1 :]]
low.plot(number, [np.mean(y == 2) for _, y in days], ".", color="0.5", label="how often it came")
low.plot(number, served, color="#D55E00", linestyle="--", label="as served")
low.plot(number[alarm + 1 :], adapted, color="#0072B2", label="adapted after the alarm")
low.set(xlabel="day", ylabel="share of the third class", ylim=(0, 0.5))
low.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
for ax in (top, low):
    ax.axvline(change + 0.5, color="0.5", linestyle=":", label="the change")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="upper left")
figure.suptitle(f"The alarm comes {late} rows after the change", fontweight="bold")
