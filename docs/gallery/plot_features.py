"""
Features beside the score
=========================

A model of churn was trained before a new plan was sold. Its score is blind to the plan, and no map
of the score alone can see it. :class:`~calibrant.FeatureCalibrator` reads the plan and the age
beside the score; :func:`~calibrant.metrics.calibration_segments` says where each of them is wrong.

More: :doc:`Use features, too </guides/features>`.
"""

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from calibrant import AutoCalibrator, FeatureCalibrator
from calibrant.metrics import calibration_segments
from calibrant.plots import draw_segments

rng = np.random.default_rng(0)
n = 20_000
table = pd.DataFrame(
    {
        "age": rng.integers(18, 80, n),
        "plan": rng.choice(["contract", "prepaid", "family"], n, p=[0.5, 0.35, 0.15]),
        "visits": rng.poisson(3, n),
    }
)
z = rng.normal(-1.5, 1.2, n)
is_young = (table["plan"] == "prepaid") & (table["age"] < 40)
churned = rng.random(n) < 1 / (1 + np.exp(-(z + 2 * is_young)))
score = 1 / (1 + np.exp(-1.5 * z))
fit, new = np.arange(n) < 10_000, np.arange(n) >= 10_000

alone = AutoCalibrator(scores="positive").fit(score[fit], churned[fit])
both = FeatureCalibrator(scores="positive").fit(score[fit], churned[fit], features=table[fit])

# %%
# The report says what was gained on held-out rows, and which features matter.

print(both.report_)

# %%
# With the score alone, customers who are young and prepaid leave twice as often as predicted, and
# all others less often.

before = calibration_segments(churned[new], alone.predict_proba(score[new]), table[new])
draw_segments(before)
plt.show()

# %%
# With the features no segment is left whose predictions are wrong beyond chance.

p = both.predict_proba(score[new], features=table[new])
print(calibration_segments(churned[new], p, table[new]))
