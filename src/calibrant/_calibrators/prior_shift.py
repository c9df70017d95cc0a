"""``PriorShift``: calibrated rows for other class frequencies than those of the calibration set."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.class_weight import compute_class_weight

from calibrant import _gate as gate
from calibrant import _notices as notices
from calibrant import errors
from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.parameters import FromMap, fitted, number, wrong
from calibrant._maps.logits import PriorMap
from calibrant._solvers.prior_shift import (
    prior_interval,
    prior_shift_test,
    shrink_priors,
    solve_priors,
)
from calibrant._solvers.report import SolverReport
from calibrant._types import Floats, Label, Labels, Wholes

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch

BY_CLASS = ("from_priors", "to_priors")  # parameters that are a number for each class


class PriorShift(Calibrator):
    """Re-weight calibrated probabilities to other class frequencies.

    The result is q_c = p_c to_c / from_c, divided by the sum of the row: Bayes' rule for class
    frequencies that change while each class looks as before. ``from_priors`` are the frequencies in
    the calibration set, ``to_priors`` those of new rows. If these are not known, ``adapt``
    estimates them from unlabelled rows; until then rows do not change. The input has to be
    calibrated.

    Parameters
    ----------
    to_priors : array-like of shape (n_classes,) or dict, optional
        Class frequencies of new rows, in the order of the classes or by class, or counts, which are
        divided by their sum. A class with 0 gets probability 0. By default the estimate of
        ``adapt``.
    from_priors : array-like of shape (n_classes,) or dict, optional
        Class frequencies that the input is calibrated for; by default the mean probabilities at
        ``fit``.
    alpha : float, default=0.05
        Level of the test of ``adapt``: without a significant shift, nothing changes. With 1 every
        estimate is used.

    Attributes
    ----------
    from_priors_, to_priors_ : ndarray of shape (n_classes,)
        Class frequencies before and after; ``ratio_`` is after divided by before.
    priors_, priors_low_, priors_high_ : ndarray of shape (n_classes,), or None
        Maximum likelihood class frequencies of the rows of ``adapt``, and a 95 % interval of each.
        ``to_priors_`` lies between these and ``from_priors_``.
    p_value_ : float or None
        P-value of the hypothesis that class frequencies have not changed.
    n_rows_ : float
        Total weight of the rows behind ``from_priors_``; infinite if they were given.

    Notes
    -----
    Frequencies of unlabelled rows maximise the likelihood (Saerens et al. [1]_). ``from_priors_``
    are mean probabilities, not label frequencies, so that rows like those of the calibration set
    show no shift even if the map is wrong (Alexandari et al. [2]_). The interval includes the
    sampling error of the calibration set, in its frequencies and in the map, but not that classes
    may look different from before.

    References
    ----------
    .. [1] M. Saerens, P. Latinne and C. Decaestecker, "Adjusting the outputs of a classifier to new
       a priori probabilities: a simple procedure", Neural Computation 14, 2002.
    .. [2] A. Alexandari, A. Kundaje and A. Shrikumar, "Maximum likelihood with bias-corrected
       calibration is hard-to-beat at label shift adaptation", ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import PriorShift
    >>> from calibrant.datasets import simulated_scores
    >>> calibrated, y = simulated_scores(4000, power=1)
    >>> shift = PriorShift(to_priors={0: 0.8, 1: 0.1, 2: 0.1}).fit(calibrated, y)
    >>> shift.predict_proba([[0.2, 0.4, 0.4]]).round(2)
    array([[0.66, 0.17, 0.16]])
    >>> rare = calibrated[2000:][(y[2000:] > 0) | (np.arange(2000) % 10 == 0)]
    >>> shift = PriorShift().fit(calibrated[:2000], y[:2000]).adapt(rare)
    >>> shift.p_value_ < 0.001, bool(shift.priors_low_[0] < 0.05 < shift.priors_high_[0])
    (True, True)
    """

    method = "prior-shift"
    title = "PriorShift"
    summary = "a factor for each class"
    good_for = "class frequencies that differ from those of the calibration set"
    stands_alone = False
    _most_points = 0

    to_priors: ArrayLike | Mapping[Label, float] | None = None
    from_priors: ArrayLike | Mapping[Label, float] | None = None
    alpha: float = number(default=0.05, high=1.0)

    map_: PriorMap = fitted()
    from_priors_: Floats = fitted()
    to_priors_: Floats = fitted()
    n_rows_: float = fitted()
    priors_: Floats | None = fitted()
    priors_low_: Floats | None = fitted()
    priors_high_: Floats | None = fitted()
    p_value_: float | None = fitted()
    ratio_ = FromMap("ratio")

    def _n_parameters(self, n_classes: int) -> int:
        return n_classes if self.from_priors is None else 1

    def _solve(self, batch: SimplexBatch) -> dict[str, object]:
        total = float(batch.weight.sum())
        from_priors = _read_priors("from_priors", self.from_priors, batch.classes)
        if from_priors is None:
            from_priors = batch.weight @ batch.probabilities()
            from_priors /= from_priors.sum()
        to_priors = _read_priors("to_priors", self.to_priors, batch.classes)
        n_rows = total if self.from_priors is None else math.inf
        return self._shift(from_priors, to_priors, n_rows, batch.classes, batch.kind)

    @staticmethod
    def _shift(
        from_priors: Floats, to_priors: Floats | None, n_rows: float, classes: Labels, kind: str
    ) -> dict[str, object]:
        """Return what is fitted, without an estimate; a class that never came stays as it is."""
        to_priors = from_priors if to_priors is None else to_priors
        never = from_priors <= 0.0
        if np.any(never & (to_priors > 0.0)):
            name = errors.in_words(classes[np.flatnonzero(never & (to_priors > 0.0))[0]])
            raise errors.ParameterError(
                f"class {name} has a prior of 0 in from_priors but not in to_priors; calibrate on "
                "rows of this class, or set it to 0 in to_priors",
                argument="to_priors",
            )
        ratio = np.divide(to_priors, from_priors, out=np.ones(len(never)), where=~never)
        return dict.fromkeys(("priors_", "priors_low_", "priors_high_", "p_value_")) | {
            "map_": PriorMap(ratio, kind),
            "solver_report_": SolverReport("closed form", 0.0, 0.0, 0.0, 0),
            "from_priors_": from_priors,
            "to_priors_": to_priors,
            "n_rows_": n_rows,
        }

    def adapt(self, scores: object, sample_weight: object = None) -> Self:
        """Estimate the class frequencies of unlabelled rows, and re-weight to them.

        Parameters
        ----------
        scores : array-like of shape (n_rows, n_classes)
            New rows, calibrated in the same way as those of ``fit``.
        sample_weight : array-like of shape (n_rows,), optional
            Sample weights.

        Returns
        -------
        self : object
            This calibrator, with the estimate. Every call starts again from ``from_priors_``.
        """
        result = self._take()
        if self.to_priors is not None:
            problem = "is given, so adapt has nothing to estimate; set to_priors=None"
            raise wrong("to_priors", self.to_priors, problem)
        self._check_parameters()
        rows = result._checked_rows(scores)  # noqa: SLF001  (itself)
        if len(rows) == 0:
            raise errors.ShapeError("scores has no rows; adapt needs at least one")
        weight = gate.check_weights(sample_weight, len(rows))
        rows, weight = rows[weight > 0.0], weight[weight > 0.0]
        rows = rows if result.map_.kind == "probabilities" else gate.softmax(rows)
        before, n_before = result.from_priors_, result.n_rows_
        priors, report = solve_priors(rows, before, weight)
        if report.complaint is not None:
            notices.warn(report.complaint)
        low, high = prior_interval(rows, before, priors, n_before, weight)
        test = prior_shift_test(rows, before, priors, n_before, weight)
        after = shrink_priors(rows, before, test, n_before, weight, float(self.alpha))
        own = self._shift(before, after, n_before, result.classes_, result.map_.kind)
        own |= {"priors_": priors, "priors_low_": low, "priors_high_": high}
        own |= {"p_value_": test.p_value, "solver_report_": report}
        self.__dict__ = vars(result) | own  # at once: others may predict
        return self

    @classmethod
    def from_class_weight(cls, class_weight: object, y: object, **parameters: Any) -> Self:
        """Return the fitted map that undoes a ``class_weight`` of training; it needs no rows.

        Parameters
        ----------
        class_weight : dict, "balanced" or array-like of shape (n_classes,)
            Class weights of the classifier; classes that a dict lacks have 1.
            ``scale_pos_weight=20`` is ``{1: 20}``. An array is in the order of ``classes``, or of
            the sorted labels.
        y : array-like of shape (n_rows,)
            Labels of training.
        **parameters
            Of the constructor but priors. With ``scores="positive"`` or "decision" ``classes`` are
            needed, unless labels are 0 and 1, -1 and 1, or False and True.

        Examples
        --------
        >>> from calibrant import PriorShift
        >>> shift = PriorShift.from_class_weight("balanced", [0] * 90 + [1] * 10)
        >>> shift.predict_proba([[0.5, 0.5]])
        array([[0.9, 0.1]])
        """
        return cls(**parameters)._undo("class_weight", class_weight, y)  # noqa: SLF001  (itself)

    @classmethod
    def from_sampling(cls, rates: object, y: object, **parameters: Any) -> Self:
        """Return the fitted map that undoes under- or over-sampling of training; it needs no rows.

        Parameters
        ----------
        rates : dict or array-like of shape (n_classes,)
            Share of each class's rows that was kept: 0.1 for a tenth, 2 for every row twice.
            Classes that a dict lacks were kept whole. An array is in the order of ``classes``, or
            else of the sorted labels.
        y : array-like of shape (n_rows,)
            Labels before sampling.
        **parameters
            As of ``from_class_weight``.

        Examples
        --------
        >>> from calibrant import PriorShift
        >>> shift = PriorShift.from_sampling({"no": 0.1}, ["no"] * 950 + ["yes"] * 50)
        >>> shift.predict_proba([[0.5, 0.5]]).round(3)
        array([[0.909, 0.091]])
        """
        if isinstance(rates, str):
            raise wrong("rates", rates, "must be a dict, or one number per class")
        return cls(**parameters)._undo("rates", rates, y)  # noqa: SLF001  (itself)

    def _undo(self, name: str, factors: object, y: object) -> Self:
        """Fit the map from counts times factors, which ``name`` gave, to counts."""
        for own in BY_CLASS:
            if getattr(self, own) is not None:
                message = f"{own} is computed from {name} and y; leave {own} out"
                raise errors.ParameterError(message, argument=own)
        self._check_parameters()
        gate.check_option("scores", self.scores, gate.KINDS)
        classes, index = _read_classes(y, self.classes, self.scores)
        counts = np.bincount(index, minlength=len(classes))
        if not isinstance(factors, str | Mapping):
            numbers = _as_numbers(name, factors, len(classes), positive=True)
            factors = dict(zip(classes.tolist(), numbers, strict=True))
        try:
            weights = compute_class_weight(factors, classes=classes, y=classes[index])
        except (TypeError, ValueError) as error:
            raise wrong(name, factors, f"is refused: {error}") from None
        weights = _as_numbers(name, weights, len(classes), positive=True)
        self.from_priors, self.to_priors, self.classes = weights * counts, counts, classes
        before, after = (p / math.fsum(p) for p in (weights * counts, counts.astype(float)))
        kind = gate.two_column_kind(self.scores)
        self.__dict__ |= self._shift(before, after, math.inf, classes, kind)
        self.classes_, self.n_features_in_ = classes, len(classes)
        return self


def _read_classes(y: object, given: ArrayLike | None, kind: str) -> tuple[Labels, Wholes]:
    """Return the classes, as given or sorted, and the place of each label among them.

    Every class has a label; of one column it is known which class is the positive one.
    """
    n_rows = len(y) if hasattr(y, "__len__") else 0
    if given is None:
        classes, index = gate.distinct_labels(y, n_rows)
    else:
        index, classes = gate.check_labels(y, n_rows, len(np.atleast_1d(given)), classes=given)
    missing = np.bincount(index, minlength=len(classes)) == 0
    if missing.any():
        name = errors.in_words(classes[int(np.argmax(missing))])
        raise errors.LabelError(f"y has no label {name} of classes; pass all training labels")
    if len(classes) < 2:
        result = "1 class" if len(classes) else "no label"
        raise errors.ShapeError(f"y has {result}; pass all training labels")
    if gate.is_single(kind):
        if len(classes) > 2:
            raise errors.ShapeError(
                f"y has {len(classes)} classes, but scores={kind!r} is for two; pass one column "
                f"for each class, with scores={gate.two_column_kind(kind)!r}"
            )
        gate.check_positive(classes, are_given=given is not None)
    return classes, index


def _read_priors(name: str, given: object, classes: Labels) -> Floats | None:
    """Return priors in the order of the classes, which sum to 1; None if there are none."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        missing = [c for c in classes.tolist() if c not in given]
        if missing or len(given) != len(classes):
            wrong = missing[0] if missing else next(c for c in given if c not in classes.tolist())
            raise errors.ParameterError(
                f"{name} {'lacks the' if missing else 'has an unknown'} class "
                f"{errors.in_words(wrong)}; the classes are {errors.some_in_words(classes)}",
                argument=name,
                value=wrong,
            )
        given = [given[c] for c in classes.tolist()]
    priors = _as_numbers(name, given, len(classes), positive=name == "from_priors")
    return priors / math.fsum(priors)


def _as_numbers(name: str, given: object, n_classes: int, *, positive: bool = False) -> Floats:
    """Return one finite number a class, or refuse what is given."""
    if hasattr(given, "to_dict"):
        raise errors.ParameterError(
            f"{name} is a {type(given).__name__}, and its index may be in another order than the "
            f"classes; pass {name}.to_dict()",
            argument=name,
            value=given,
        )
    try:
        numbers = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    right = numbers.shape == (n_classes,) and np.isfinite(numbers).all() and numbers.any()
    if not right or numbers.min() < 0.0 or (positive and not numbers.all()):
        sign = "all positive" if positive else "none negative, not all zero"
        raise wrong(name, given, f"must be {n_classes} finite numbers, one per class, {sign}")
    return numbers
