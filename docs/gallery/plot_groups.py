"""
Groups
======

Right on average may be wrong for every part. A model is trained at one clinic and used at four: one
has an old device that adds noise, one has more cases, and one has few patients. One calibration map
is right for all of them together. :class:`~calibrant.GroupedCalibrator` gives each group a map of
its own, as far from that of all as the rows of the group support.

More: :doc:`Decide with costs and thresholds </guides/decisions>`.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from calibrant import AutoCalibrator, GroupedCalibrator
from calibrant.metrics import evaluate

n = 24_000
rng = np.random.default_rng(0)
X, y = make_classification(n, 10, n_informative=6, class_sep=0.8, weights=[0.75], random_state=0)
clinic = rng.choice(["first", "old device", "more cases", "small"], n, p=[0.5, 0.25, 0.22, 0.03])
X[clinic == "old device"] += 1.5 * rng.normal(size=(np.sum(clinic == "old device"), 10))
kept = (clinic != "more cases") | (y == 1) | (rng.random(n) < 0.3)  # few of the healthy go there
X, y, clinic = X[kept], y[kept], clinic[kept]

train = np.flatnonzero(clinic == "first")[:4000]
raw = LogisticRegression().fit(X[train], y[train]).predict_proba(X)[:, 1]
fit, new = np.array_split(np.setdiff1d(np.arange(len(y)), train), 2)

one_map = AutoCalibrator(scores="positive").fit(raw[fit], y[fit])
grouped = GroupedCalibrator(scores="positive").fit(raw[fit], y[fit], groups=clinic[fit])
found = {
    "as it came": raw[new],
    "one map for all": one_map.predict_proba(raw[new])[:, 1],
    "a map for each": grouped.predict_proba(raw[new], groups=clinic[new])[:, 1],
}

# %%
# ``evaluate`` has a table of the groups. Its p-values say whether an error is more than chance, and
# are corrected for the number of groups that were looked at.

tables = {name: evaluate(y[new], p, groups=clinic[new]).by_group for name, p in found.items()}
print(tables["a map for each"])

# %%
# One map for all follows the average, and groups are on both sides of it: at the first clinic,
# where the model was good, it does harm. Filled points are errors beyond chance (p below 0.05),
# lines are 95 % intervals, and grey bars say what right probabilities would show on average in so
# few rows: of the small clinic nothing can be said.

looks = {"as it came": ("#0072B2", "o"), "one map for all": ("#D55E00", "s")}
looks["a map for each"] = ("#009E73", "^")
order = [one.group for one in tables["as it came"]]  # the worst first
figure, ax = plt.subplots(figsize=(8, 4.6), layout="constrained")
worst = {}
for place, (name, table) in enumerate(tables.items()):
    colour, marker = looks[name]
    for one in table:
        where = order.index(one.group) + 0.22 * (place - 1)
        ece, low, high = one.estimates["positive_ece"]
        worst[name] = max(worst.get(name, 0), ece)
        ax.barh(where, ece - one.excess, 0.2, color="0.87")
        ax.hlines(where, low, high, color=colour)
        fill = colour if one.adjusted_p_value < 0.05 else "white"
        ax.plot(ece, where, marker, color=colour, markerfacecolor=fill, markersize=8)
    ax.plot([], [], marker, color=colour, markersize=8, label=name)
ax.barh(0, 0, color="0.87", label="chance alone")
ax.set_yticks(range(len(order)), [f"{g}\n{np.sum(clinic[new] == g):,} rows" for g in order])
ax.invert_yaxis()
ax.set(xlabel="calibration error (ECE)", xlim=(0, None))
ax.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="lower right")
one, each = worst["one map for all"], worst["a map for each"]
title = f"The worst group is off by {one:.0%} with one map, by {each:.0%} with a map for each"
ax.set_title(title, fontweight="bold", fontsize=11)
