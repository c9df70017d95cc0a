"""The gate: scores, labels, weights, names of columns and features, checked once.

Other rooms import from here alone, and may then assume: float64, C order, finite, rows on the
simplex (or bounded logits), integer labels, positive weights.
"""

from calibrant._gate._columns import *  # noqa: F403
from calibrant._gate._features import *  # noqa: F403
from calibrant._gate._plausibility import *  # noqa: F403
from calibrant._gate._simplex import *  # noqa: F403
