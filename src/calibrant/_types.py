"""Types that many signatures name: arrays by what is in them, and labels of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Wholes = NDArray[np.int64]
Bools = NDArray[np.bool_]

Array = NDArray[np.generic]
"""An array of anything: its values are moved or compared, and nothing is calculated with them."""

Labels = NDArray[np.generic]
"""Labels of rows or of columns: numbers, text or whatever the caller has."""

ScoresKind = Literal["probabilities", "logits", "positive", "decision"]
"""What scores are, which is never guessed."""

Label = str | bytes | bool | int | float | np.generic
"""The label of one class."""

if TYPE_CHECKING:
    from typing import Self

    # A class with an untyped base takes any option, as far as a type checker knows. So it sees
    # these instead of scikit-learn's.
    class BaseEstimator:
        """What has parameters, and fitted attributes that only some estimators have."""

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: object) -> Self: ...
        def __sklearn_tags__(self) -> Any: ...
        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: object) -> None: ...

    class ClassifierMixin:
        """What has an accuracy."""

        def score(self, X: object, y: object, sample_weight: object = None) -> float: ...

    class TransformerMixin:
        """What transforms."""

        def fit_transform(self, X: object, y: object = None, **options: object) -> Floats: ...
