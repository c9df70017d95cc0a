"""What a fit found is replaced as a whole, and taken as a whole.

An estimator may be fitted again, also with another number of classes, while other threads
predict. So ``fit`` never changes the attributes of an estimator one by one: it makes a new
dictionary of them, which takes the place of the old one in a single assignment. A prediction takes
that dictionary once and works on what it took.
"""

from __future__ import annotations

from typing import Any, TypeVar

Estimator = TypeVar("Estimator")


def replace_state(estimator: Any, fitted: dict[str, Any]) -> None:
    """Give an estimator its new fitted attributes, all at once; parameters stay."""
    kept = vars(estimator).copy()
    for name in ("feature_names_in_", "statistics_"):  # not every fit sets these
        kept.pop(name, None)
    estimator.__dict__ = kept | fitted


def take_state(estimator: Estimator) -> Estimator:
    """Return the estimator as it is now, which no later ``fit`` or ``set_params`` changes."""
    taken = object.__new__(type(estimator))
    taken.__dict__ = vars(estimator).copy()
    return taken
