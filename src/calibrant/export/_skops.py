"""Which types `skops <https://skops.readthedocs.io>`_ has to trust to load a calibrator."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import get_args, get_type_hints

from calibrant import _maps as maps
from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.checks import ScoreSummary
from calibrant._calibrators.classifier import CalibratedClassifier
from calibrant._calibrators.classifier_folds import CalibratedPair
from calibrant._calibrators.methods import saved_methods
from calibrant._calibrators.parameters import fitted_types


def trusted_types() -> list[str]:
    """Return the names of all types in fitted calibrators and classifiers of this package.

    They are classes that hold numbers, no functions. A map is made by its constructor, which
    checks it, so that a forged file cannot make compiled code read what is not there. For a file
    from a stranger a model file (``calibrant.model_file``) is safer still: it names no types.

    Returns
    -------
    names : list of str
        For ``trusted`` of ``skops.io.load`` and ``skops_trusted_types`` of ``mlflow.sklearn``.
        Estimators of scikit-learn skops trusts by itself, but for trees; what else a
        ``CalibratedClassifier`` holds, such as a splitter or an estimator of another package, has
        to be added.

    Notes
    -----
    The rows that ``partial_fit`` keeps are not trusted: ``del calibrator.sample_`` before.

    Examples
    --------
    >>> from calibrant.export import trusted_types
    >>> names = trusted_types()
    >>> "calibrant._calibrators.scaling.TemperatureScaling" in names
    True
    >>> all(name.startswith("calibrant.") for name in names)
    True
    """
    every = saved_methods(study=True).values()
    methods = [cls for cls in every if cls.__module__.startswith("calibrant.")]
    result: set[type] = {CalibratedClassifier, CalibratedPair, *methods}
    asked: list[object] = [ScoreSummary, *(getattr(maps, name) for name in maps.__all__)]
    asked += [kind for cls in methods for kind in fitted_types(cls).values()]
    while asked:
        kind = asked.pop()
        asked += get_args(kind)
        if not isinstance(kind, type) or kind in result or issubclass(kind, Calibrator):
            continue
        if is_dataclass(kind):  # a map, a curve or a report
            result.add(kind)
            hints = get_type_hints(kind)
            asked += [hints[field.name] for field in fields(kind)]
    return sorted(f"{cls.__module__}.{cls.__qualname__}" for cls in result)
