"""``GroupedCalibrator``: a fit for each group, as far from the fit of all as the group proves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from sklearn.base import clone

from calibrant import _notices as notices
from calibrant import _threads as threads
from calibrant import errors
from calibrant._calibrators import composition as parts
from calibrant._calibrators.around import AroundWithColumns
from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.parameters import fitted, number, take_state
from calibrant._calibrators.scaling import StructuredScaling
from calibrant._gate import LOG_OF_ZERO, find_groups, read_groups
from calibrant._maps.base import GroupedMap, ensure
from calibrant._maps.logits import TemperatureMap
from calibrant._solvers.mixture import SMALLEST, solve_mixture
from calibrant._types import Array, Floats, Labels, Wholes

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._maps.base import CalibrationMap
    from calibrant._solvers.report import SolverReport

# Penalties that are tried on what a group changes, as factors of structured scaling's, and
# pseudo-observations that hold it to the fit of all; chosen on validation parts and simulations.
STRENGTHS, PSEUDO_ROWS = (1.0, 4.0, 16.0, 64.0), 100.0
UNCHANGED = TemperatureMap(1.0, LOG_OF_ZERO)  # where the change of a group starts, and is drawn to
FEWEST_ROWS = 10  # groups of a smaller weight have the fit of all
LEAST_WEIGHT = 1e-3  # smaller weights of a group's parts are not worth their time


class GroupedCalibrator(AroundWithColumns):
    """Calibrator for each group of rows, shrunk towards the fit to all rows.

    The map of a group is a mixture of three: the fit to all rows; that fit, corrected for the group
    by a slope and an intercept for each class; and, for groups with enough rows, a separate fit.
    The penalty on the corrections, and the weights towards which every group is shrunk, are chosen
    for all groups together by held-out likelihood. A group that was not seen at ``fit``, or has
    fewer than ten rows, gets the fit to all rows.

    Parameters
    ----------
    calibrator : Calibrator, optional
        Calibrator fitted to all rows, and to large groups. By default ``AutoCalibrator()``.
    cv : int, default=5
        Number of folds.
    min_rows : int, default=300
        Smallest number of rows of a group with a separate fit.
    prior_rows : float, default=2.0
        Number of pseudo-observations that shrink the common weights towards the fit to all rows,
        and the weights of every group towards the common weights.

    Attributes
    ----------
    groups_ : ndarray of shape (n_groups,)
        Names of the groups, sorted.
    pooled_ : Calibrator
        Calibrator fitted to all rows.
    calibrators_ : list of Mixture
        Calibrator of each group.
    weights_ : ndarray of shape (n_groups, 3)
        Weights of each group: of the fit to all rows, of the corrected fit and of the separate fit.
    strength_ : float
        Chosen penalty, as a factor of that of :class:`StructuredScaling`.

    Notes
    -----
    Missing groups are refused: give such rows a name. ``for_group`` returns the calibrator of one
    group, which can be exported and applied to Dask collections. scikit-learn's metadata routing
    passes ``groups`` on in pipelines and in :class:`CalibratedClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import GroupedCalibrator, StructuredScaling
    >>> from calibrant.datasets import simulated_scores
    >>> honest, y = simulated_scores(2000, power=1)
    >>> bold, other_y = simulated_scores(1000, power=3)
    >>> scores, y = np.vstack([honest, bold]), np.append(y, other_y)
    >>> groups = np.repeat(["north", "south"], [2000, 1000])
    >>> grouped = GroupedCalibrator(StructuredScaling()).fit(scores, y, groups=groups)
    >>> honest = grouped.predict_proba([[0.9, 0.05, 0.05]] * 2, groups=["north", "south"])
    >>> honest[:, 0].round(1)
    array([0.9, 0.6])
    """

    method = "grouped"
    title = "Grouped"
    beside = "groups"
    # scikit-learn's routing passes these on unless a user sets other requests.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True, "sample_weight": True}
    __metadata_request__predict_proba: ClassVar[dict[str, bool]] = {"groups": True}
    __metadata_request__predict = __metadata_request__predict_proba

    cv: int = number(default=5, low=2, whole=True)
    min_rows: int = number(default=300, low=1, whole=True)
    prior_rows: float = number(default=2.0)
    groups_: Labels = fitted()
    pooled_: Calibrator = fitted()
    calibrators_: list[Calibrator] = fitted()
    weights_: Floats = fitted()
    strength_: float = fitted()
    map_: GroupedMap = fitted()

    def fit(
        self,
        scores: object,
        y: object = None,
        sample_weight: object = None,
        *,
        groups: object = None,
    ) -> Self:
        """Fit the calibration map of every group.

        Parameters
        ----------
        scores, y, sample_weight
            As in every calibrator; arrays in memory.
        groups : array-like of shape (n_rows,)
            Group of each row: text, whole numbers or booleans, without missing values.
        """
        return self._fit_beside(scores, y, sample_weight, groups)

    def _fitted_inside(self) -> list[Calibrator]:
        return [self.pooled_]

    def _solve(
        self, batch: SimplexBatch, given: object = None, given_weight: object = None
    ) -> dict[str, object]:
        used = self._is_used(batch, given_weight)
        names, codes = read_groups(given, len(used))
        names, codes = np.unique(names[codes[used]], return_inverse=True)
        dealt = _deal(self._inner, batch, codes, self.cv)
        tried = [group for group in dealt if group.is_tried(FEWEST_ROWS)]

        def loss(strength: float) -> float:
            return -sum(float(g.batch.weight @ np.log(g.changed(strength))) for g in tried)

        strength = STRENGTHS[int(np.argmin(list(threads.each(loss, STRENGTHS))))]
        weights, report = _mix(self._inner, dealt, strength, self.min_rows, self.prior_rows)
        pooled = parts.fit_part(self._inner, parts.on_simplex(batch))

        def fit(g: int) -> Calibrator:
            change = separate = None
            if weights[g, 1] > 0.0:
                rows = parts.on_simplex(dealt[g].pooled)
                change = parts.fit_part(_change(strength), rows, UNCHANGED)
            if weights[g, 2] > 0.0:
                separate = parts.fit_part(self._inner, parts.on_simplex(dealt[g].batch))
            return _mixture(pooled, change, separate, weights[g])

        return {
            "groups_": names,
            "pooled_": pooled,
            "calibrators_": list(threads.each(fit, range(len(dealt)))),
            "weights_": weights,
            "strength_": strength,
            "solver_report_": report,
        }

    def _compose(self) -> CalibrationMap:
        maps, names = [fit.map_ for fit in self.calibrators_], self.groups_
        ensure(np.array_equal(names, np.unique(names)), "groups_ are not sorted, or not unique")
        ensure(self.weights_.shape == (len(names), 3), "weights_ are not those of the groups")
        ensure(len(names) == len(maps), f"{len(maps)} fits of {len(names)} groups")
        return GroupedMap((parts.stage_of(self.pooled_), *maps))

    def for_group(self, group: object) -> Calibrator:
        """Return the calibrator of one group, which can be exported.

        Parameters
        ----------
        group : object
            One of ``groups_``; None for the fit of all, which other groups get.
        """
        taken = self._take()
        names = taken.groups_.tolist()
        if group is None:
            result = _mixture(taken.pooled_, None, None, np.array([1.0, 0.0, 0.0]))
        elif group in names:
            result = take_state(taken.calibrators_[names.index(group)])
        else:
            raise errors.LabelError(
                f"group={errors.in_words(group)} was not seen at fit; the groups are "
                f"{errors.some_in_words(taken.groups_)}. Pass None for the fit to all rows"
            )
        for name in ("scores", "normalize", "min_probability", "n_jobs"):
            setattr(result, name, getattr(taken, name))
        if hasattr(taken, "feature_names_in_"):
            result.feature_names_in_ = taken.feature_names_in_
        return result

    def _read_beside(self, n_rows: int, given: object) -> tuple[Array, ...]:
        places = find_groups(given, n_rows, self.groups_)
        if len(places) and not places.any():
            known = errors.some_in_words(self.groups_)
            message = f"no row belongs to a group seen at fit, {known}; the fit to all is used"
            notices.warn(errors.CalibrantWarning(message))
        return (places,)

    def predict_proba(self, scores: object, groups: object = None) -> Floats:
        """Return calibrated probabilities, by the group of each row.

        Parameters
        ----------
        scores : array-like of shape (n_rows, n_classes)
            Predictions of the same kind as at ``fit``.
        groups : array-like of shape (n_rows,)
            Group of each row; groups not seen at ``fit`` get the fit to all rows.
        """
        return self._predict_proba(scores, groups)

    def predict(self, scores: object, groups: object = None) -> Labels:
        """Return the label of the largest calibrated probability, by the group of each row."""
        return self._predict(scores, groups)


def _mixture(
    pooled: Calibrator, change: Calibrator | None, separate: Calibrator | None, weights: Floats
) -> Calibrator:
    """Return the fit of a group as a calibrator: a mixture of its parts."""
    fits = [pooled]
    if change is not None:
        fits.append(_composed(parts.Chain([clone(pooled), clone(change)]), [pooled, change]))
    if separate is not None:
        fits.append(separate)
    weights = weights[[True, change is not None, separate is not None]]
    mixture = parts.Mixture([clone(fit) for fit in fits], weights=weights.tolist())
    mixture.weights_ = weights
    return _composed(mixture, fits)


def _composed(composition: parts.Composition, fits: list[Calibrator]) -> Calibrator:
    """Give a composition its fitted parts."""
    first = fits[0]
    composition.scores, composition.classes = first.scores, first.classes_
    composition.classes_, composition.n_features_in_ = first.classes_, first.n_features_in_
    composition.calibrators_, composition.solver_report_ = fits, fits[-1].solver_report_
    composition.map_ = composition._compose()  # noqa: SLF001  (ours)
    return composition


def _change(strength: float) -> StructuredScaling:
    """Return what changes the fit of all for a group: slopes and intercepts, shrunk to none."""
    return StructuredScaling(form="diagonal", strength=strength, prior_strength=PSEUDO_ROWS)


@dataclass(frozen=True, slots=True)
class _Group:
    """Rows of a group in folds, and probabilities of each by fits of all rows without its fold."""

    batch: SimplexBatch
    folds: Wholes
    pooled: SimplexBatch

    def is_tried(self, least: float) -> bool:
        """Whether there are enough rows, and in several folds."""
        return float(self.batch.weight.sum()) >= least and len(np.unique(self.folds)) > 1

    def of_labels(self, outputs: Floats) -> Floats:
        """Return the probabilities of the labels."""
        rows = np.arange(len(outputs))
        return np.maximum(outputs[rows, self.batch.class_index], SMALLEST)

    def changed(self, strength: float) -> Floats:
        """Return held-out probabilities of the labels by the fit of all, changed for this group."""
        change = _change(strength)
        results = parts.cross_fit([change], self.pooled, self.folds, temperature=UNCHANGED)
        return self.of_labels(results[0].rows)


def _deal(calibrator: Calibrator, batch: SimplexBatch, codes: Wholes, n_folds: int) -> list[_Group]:
    """Deal the rows of all groups to folds.

    They are not stratified by group: folds with equal shares of the labels of a small group would
    tell of each other what new rows do not.
    """
    merged = [batch.take(codes == g).merged() for g in range(codes.max() + 1)]
    joined = replace(
        batch,
        scores=np.concatenate([part.scores for part in merged]),
        class_index=np.concatenate([part.class_index for part in merged]),
        weight=np.concatenate([part.weight for part in merged]),
    )
    row, folds, weight = joined.deal(n_folds)
    rows = replace(joined.take(row), weight=weight)
    pooled = parts.out_of_fold(calibrator, rows, folds)
    group_of = np.repeat(np.arange(len(merged)), [part.n_rows for part in merged])[row]
    groups = []
    for g in range(len(merged)):
        mine = group_of == g
        part = rows.take(mine)
        groups.append(_Group(part, folds[mine], part.with_probabilities(pooled[mine])))
    return groups


def _mix(
    calibrator: Calibrator, dealt: list[_Group], strength: float, min_rows: int, prior_rows: float
) -> tuple[Floats, SolverReport]:
    """Return the weights of each group's parts, and the report of the least exact problem.

    The weights of a group have the largest held-out likelihood, together with ``prior_rows`` rows
    that are explained by the fit of all or by its change, in the shares that suit all groups.
    """
    tried = [g for g, group in enumerate(dealt) if group.is_tried(FEWEST_ROWS)]
    columns = {
        g: [dealt[g].of_labels(dealt[g].pooled.scores), dealt[g].changed(strength)] for g in tried
    }
    weights = np.tile([1.0, 0.0, 0.0], (len(dealt), 1))
    nothing = [(np.ones((1, 2)), np.ones(1))]  # where no group is tried
    rows = [(np.column_stack(columns[g]), dealt[g].batch.weight) for g in tried] or nothing
    stacked, weight = (np.concatenate(of) for of in zip(*rows, strict=True))
    shares, worst = solve_mixture(stacked, weight, prior=np.array([prior_rows, 0.0]))
    for g in tried:
        if dealt[g].is_tried(min_rows):
            outputs = parts.out_of_fold(calibrator, dealt[g].batch, dealt[g].folds)
            columns[g].append(dealt[g].of_labels(outputs))
        prior = prior_rows * np.append(shares, 0.0)[: len(columns[g])]
        stacked, weight = np.column_stack(columns[g]), dealt[g].batch.weight
        result, report = solve_mixture(stacked, weight, prior=prior)
        weights[g, : len(result)] = np.where(result < LEAST_WEIGHT, 0.0, result)
        worst = max(worst, report, key=lambda one: one.violation)
    return weights / weights.sum(axis=1, keepdims=True), worst
