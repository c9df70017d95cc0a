"""Calibrators made of calibrators: one after the other, or averaged."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import field, replace
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from calibrant import _gate as gate
from calibrant import _threads as threads
from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.parameters import fitted, number, wrong
from calibrant._maps.base import ChainMap, MixtureMap, Stage
from calibrant._solvers.mixture import solve_mixture
from calibrant._solvers.report import SolverReport
from calibrant._types import Floats, Wholes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from calibrant._gate import SimplexBatch
    from calibrant._maps.base import CalibrationMap
    from calibrant._maps.logits import TemperatureMap


class Composed(Calibrator):
    """A calibrator whose map is made of those of others, which it holds."""

    @abstractmethod
    def _compose(self) -> CalibrationMap:
        """Return the map that is made of what ``_solve`` found: all else that is fitted."""

    def _inside(self) -> list[Calibrator]:
        """Return the unfitted calibrators that the parameters hold."""
        return []

    def _fitted_inside(self) -> list[Calibrator]:
        """Return the fitted parts whose warnings are passed on."""
        return []

    def _n_parameters(self, n_classes: int) -> int:
        own = super()._n_parameters(n_classes)
        return max([own, *(part._n_parameters(n_classes) for part in self._inside())])  # noqa: SLF001

    def _complaints(self, batch: SimplexBatch) -> Iterator[Warning]:
        """Yield the warnings of the parts, such as classes that they cannot fit, and its own."""
        for part in self._fitted_inside():
            yield from part._complaints(batch)  # noqa: SLF001  (ours)
        yield from super()._complaints(batch)


class Composition(Composed):
    """Base of calibrators that hold a list of others.

    Parameters
    ----------
    calibrators : list of calibrators
        Calibrators to combine.

    Attributes
    ----------
    calibrators_ : list of calibrators
        Fitted calibrators.
    """

    stands_alone = False

    calibrators: Sequence[Calibrator | tuple[str, Calibrator]] = field(kw_only=False)
    cv: int | None = number(default=None, low=2, whole=True)
    calibrators_: list[Calibrator] = fitted()

    def _inside(self) -> list[Calibrator]:
        # Parameters are read before they are checked: what is no list has no parts.
        given = self.calibrators if isinstance(self.calibrators, list | tuple) else []
        # Model files of 1.0 may hold pairs of a name and a part.
        return [part[-1] if isinstance(part, tuple) and part else part for part in given]

    def _fitted_inside(self) -> list[Calibrator]:
        return self.calibrators_

    def _check_parameters(self) -> None:
        if not self._inside():
            raise wrong("calibrators", self.calibrators, "must be a list of calibrators, not empty")
        for part in self._inside():
            name = type(part).__name__
            if not isinstance(part, Calibrator):
                raise wrong("calibrators", part, "is not a calibrator")
            if part.beside is not None:
                outer = type(self).__name__
                problem = f"needs {part.beside}, and {outer} does not pass them on; use "
                raise wrong("calibrators", part, f"{problem}{name}({outer}([...]))")
            part._check_parameters()  # noqa: SLF001  (ours)
        super()._check_parameters()


def on_simplex(batch: SimplexBatch) -> SimplexBatch:
    """Put rows on the simplex again, as they will be when a part is applied to others."""
    return replace(batch, scores=gate.check_scores(batch.scores, batch.kind))


def fit_part(
    part: Calibrator,
    batch: SimplexBatch,
    temperature: TemperatureMap | None = None,
    **known: object,
) -> Calibrator:
    """Fit a copy of ``part``, whose parameters were checked, to rows on the simplex.

    Temperature scaling of the same rows, if it is known, is not fitted again. ``known`` is passed
    on to ``_solve``.
    """
    copy: Calibrator = clone(part)
    copy.__dict__ |= {"scores": batch.kind, "classes": batch.classes, "normalize": None}
    if temperature is not None and copy._starts_at_temperature:  # noqa: SLF001  (ours)
        known["temperature"] = temperature
    return copy._fit_batch(batch, **known)  # noqa: SLF001


def stage_of(part: Calibrator) -> Stage:
    """Return the map of a fitted part as a stage of another one."""
    return Stage(part.map_, float(part.min_probability))


def outputs_of(fitted: Calibrator, scores: Floats) -> Floats:
    """Return the probabilities of a fitted part for checked rows."""
    stage, out = stage_of(fitted), np.empty_like(scores)

    def work(rows: slice) -> None:
        out[rows] = stage(scores[rows])

    for _ in threads.each(work, list(gate.small_chunks(*scores.shape))):
        pass
    return out


def out_of_fold(part: Calibrator, batch: SimplexBatch, folds: Wholes) -> Floats:
    """Predictions for every row by a copy of ``part`` that was fitted without its fold."""
    return cross_fit([part], batch, folds)[0].rows


class HeldOut(NamedTuple):
    """Predictions for every row by fits without its fold, and how long these took."""

    rows: Floats
    seconds: float


def cross_fit(
    parts: Sequence[Calibrator],
    batch: SimplexBatch,
    folds: Wholes,
    *,
    temperature: TemperatureMap | None = None,
    begins_with_temperature: bool = False,
    known: Sequence[dict[str, object]] | None = None,
) -> list[HeldOut]:
    """Return predictions of several parts for every row, from fits without its fold.

    Fits may begin with a given ``temperature`` or, if the first part is temperature scaling, with
    its fits. ``known`` has for each part the parameters of its fits that all rows determine.
    """
    known = [{}] * len(parts) if known is None else known

    def work(fold: int) -> list[HeldOut]:
        rest, held = batch.take(folds != fold), batch.scores[folds == fold]
        # Too few distinct rows for a split: there is nothing to hold out.
        rest = on_simplex(rest if rest.n_rows else batch)
        results, start = [], temperature
        for part, of_part in zip(parts, known, strict=True):
            started = perf_counter()
            fitted = fit_part(part, rest, start, **of_part)
            if begins_with_temperature and start is None:
                start = fitted.map_  # type: ignore[assignment]
            results.append(HeldOut(outputs_of(fitted, held), perf_counter() - started))
        return results

    names: list[int] = np.unique(folds).tolist()
    rows, seconds = [np.empty_like(batch.scores) for _ in parts], [0.0] * len(parts)
    for fold, results in zip(names, threads.each(work, names), strict=True):
        for i, result in enumerate(results):
            rows[i][folds == fold] = result.rows
            seconds[i] += result.seconds
    return [HeldOut(*pair) for pair in zip(rows, seconds, strict=True)]


class Chain(Composition):
    """Sequence of calibrators, each of which calibrates the output of the one before.

    Parameters
    ----------
    cv : int, optional
        Number of folds: fit every stage but the first to out-of-fold outputs of the stage before.
        By default stages are fitted to in-sample outputs, which are over-optimistic.

    Examples
    --------
    >>> from calibrant import Chain, FlattenedIsotonic, VectorScaling
    >>> from calibrant.datasets import overconfident_digits
    >>> scores, y, new_scores, new_y = overconfident_digits()
    >>> chain = Chain([VectorScaling(), FlattenedIsotonic()], cv=5).fit(scores, y)
    >>> chain.predict_proba(new_scores).shape
    (747, 10)
    """

    method = "chain"
    title = "Chain"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if any(part.method == "masked" for part in self._inside()):
            problem = "has stages that would give absent options a probability; use "
            problem += "MaskedCalibrator around a single calibrator instead"
            raise wrong("calibrators", self.calibrators, problem)

    def _solve(self, batch: SimplexBatch) -> dict[str, object]:
        fitted = []
        stages = self._inside()
        for i, stage in enumerate(stages):
            fitted.append(fit_part(stage, on_simplex(batch)))
            if i + 1 < len(stages):
                if self.cv is None:
                    outputs = outputs_of(fitted[-1], batch.scores)
                else:
                    batch, folds = batch.in_folds(self.cv)
                    outputs = out_of_fold(stage, batch, folds)
                batch = batch.with_probabilities(outputs)
        return {"calibrators_": fitted, "solver_report_": fitted[-1].solver_report_}

    def _compose(self) -> CalibrationMap:
        return ChainMap(tuple(map(stage_of, self.calibrators_)))


class Mixture(Composition):
    """Weighted average of the outputs of several calibrators.

    Parameters
    ----------
    weights : {"fixed", "fit"} or array-like, default="fixed"
        "fixed" gives equal weights; "fit" minimises the NLL over the weights; numbers are divided
        by their sum.
    cv : int, optional
        Number of folds: with ``weights="fit"``, fit the weights to out-of-fold outputs.

    Attributes
    ----------
    weights_ : ndarray of shape (n_calibrators,)
        Weights of the calibrators, which sum to 1.

    Examples
    --------
    >>> from calibrant import FlattenedIsotonic, Mixture, TemperatureScaling
    >>> from calibrant.datasets import overconfident_digits
    >>> scores, y, new_scores, new_y = overconfident_digits()
    >>> mixture = Mixture([TemperatureScaling(), FlattenedIsotonic()]).fit(scores, y)
    >>> mixture.weights_
    array([0.5, 0.5])
    """

    method = "mixture"
    title = "Mixture"

    weights: str | ArrayLike = "fixed"
    weights_: Floats = fitted()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.weights, str):
            gate.check_option("weights", self.weights, ("fixed", "fit"))
            return
        n_parts = len(self._inside())
        try:
            weights = np.asarray(self.weights, dtype=float)
        except (TypeError, ValueError):
            weights = np.empty(0)
        is_known = weights.shape == (n_parts,) and np.isfinite(weights).all()
        if not is_known or weights.min() < 0.0 or not weights.any():
            problem = f"must be {n_parts} finite numbers, none negative, or 'fixed' or 'fit'"
            raise wrong("weights", self.weights, problem)

    def _solve(self, batch: SimplexBatch) -> dict[str, object]:
        started = perf_counter()
        parts = self._inside()
        rows = on_simplex(batch)
        fitted = list(threads.each(lambda part: fit_part(part, rows), parts))
        if isinstance(self.weights, str) and self.weights == "fit":
            # The largest likelihood, of out-of-fold outputs where ``cv`` asks for it.
            if self.cv is None:
                outputs = [outputs_of(part, batch.scores) for part in fitted]
            else:
                batch, folds = batch.in_folds(self.cv)
                outputs = [out_of_fold(part, batch, folds) for part in parts]
            of_label = np.arange(batch.n_rows), batch.class_index
            stacked = np.column_stack([output[of_label] for output in outputs])
            weights, report = solve_mixture(stacked, batch.weight)
        else:
            given = np.ones(len(parts)) if isinstance(self.weights, str) else self.weights
            weights = np.asarray(given, dtype=float) / np.max(given)  # sums stay finite
            weights /= weights.sum()
            report = SolverReport("fixed", float("nan"), 0.0, 0.0, 0, perf_counter() - started)
        return {"calibrators_": fitted, "weights_": weights, "solver_report_": report}

    def _compose(self) -> CalibrationMap:
        return MixtureMap(tuple(map(stage_of, self.calibrators_)), self.weights_)
