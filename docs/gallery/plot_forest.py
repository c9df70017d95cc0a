"""
A random forest
===============

A forest is under-confident: its trees disagree even where the class is clear.
:class:`~calibrant.CalibratedClassifier` calibrates it by cross-fitting, with no rows set aside.

More: :doc:`Calibrate a scikit-learn classifier </guides/classifiers>`.
"""

from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from calibrant import CalibratedClassifier
from calibrant.metrics import reliability_curve
from calibrant.plots import draw_reliability_grid

X, y = load_digits(return_X_y=True)
X, new_X, y, new_y = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)

forest = RandomForestClassifier(100, random_state=0).fit(X, y)
calibrated = CalibratedClassifier(RandomForestClassifier(100, random_state=0)).fit(X, y)

# %%
# Above the diagonal, the forest is right more often than it says. Hollow points are no further from
# the diagonal than chance would have them; the p-value says the same of all points together.

found = {"forest": forest.predict_proba(new_X), "calibrated": calibrated.predict_proba(new_X)}
curves = {name: reliability_curve(new_y, p) for name, p in found.items()}
draw_reliability_grid(curves, title="A forest knows more than it says")
