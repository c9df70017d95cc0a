"""
Rare positives and costs
========================

A bank's loans: about one in twenty is not paid back. The model is a boosted tree trained with
balanced classes, so its scores are far too high, and a threshold that follows from costs goes
wrong. Nothing is wrong with its ranking: calibrated, the same tree makes much cheaper decisions.

More: :doc:`Decide with costs and thresholds </guides/decisions>`.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from calibrant import CalibratedClassifier
from calibrant.decisions import CostSensitive, cost_curve, value_of_calibration
from calibrant.plots import ReliabilityDisplay, draw_decisions

X, y = make_classification(
    30_000, 12, n_informative=8, n_clusters_per_class=4, class_sep=0.8, weights=[0.955],
    random_state=0,
)  # fmt: skip
X, new_X, y, new_y = train_test_split(X, y, test_size=20_000, random_state=0, stratify=y)

tree = HistGradientBoostingClassifier(max_iter=40, class_weight="balanced", random_state=0)
raw = tree.fit(X, y).predict_proba(new_X)[:, 1]
honest = CalibratedClassifier(tree).fit(X, y).predict_proba(new_X)[:, 1]
print(f"lost {new_y.mean():.1%}; the tree says {raw.mean():.1%}, calibrated {honest.mean():.1%}")

# %%
# A good customer who is refused costs 300 euros, a loan that is lost 5,000. For probabilities that
# are right, the best threshold follows from these two numbers alone:

costs = {"false_positive": 300, "false_negative": 5_000}
policy = CostSensitive(costs, actions=["lend", "refuse"])
print(f"refuse from {policy.threshold_:.4f} on")

# %%
# What deciding by the calibrated probabilities saves, with its 95 % interval:

saved = value_of_calibration(new_y, raw, honest, costs)
value, low, high = (round(euros) for euros in saved.per_row)
print(f"{saved.before.value:.0f} euros a loan before, {saved.after.value:.0f} after")
print(f"saved: {value} ({low} to {high}); other decisions on {saved.changed:.0%} of the loans")

# %%
# On the left, both axes logarithmic because losses are rare: whatever the tree says, a loan is lost
# far less often. On the right, what each threshold costs. The dashed line is the one that follows
# from the costs, and the calibrated curve is lowest there. That of the raw scores is about as low,
# but at a threshold that only a search with labels finds, and that moves with every change of the
# model or the costs.

named = {"as it came": raw, "calibrated": honest}
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
for name, p in named.items():
    ReliabilityDisplay.from_predictions(new_y, p, name=name, ax=left)
left.set(xlabel="probability of a loss", ylabel="share of loans lost")
curves = {name: cost_curve(new_y, p, costs) for name, p in named.items()}
draw_decisions(curves, right)
right.set_ylabel("cost of a loan, euros")
figure.suptitle(f"Calibration saves {value} euros a loan, with the same tree", fontweight="bold")
