"""``Calibrator``: what every calibrator shares with scikit-learn and with the others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from calibrant import _gate as gate
from calibrant import _notices as notices
from calibrant import _threads as threads
from calibrant import errors
from calibrant._bad_rows import predict_chunk, to_send
from calibrant._calibrators.checks import ScoreSums, ShiftCheck, find_doubts, sample_of, summarise
from calibrant._calibrators.parameters import (
    Parameters,
    fitted,
    number_of_jobs,
    replace_state,
    take_state,
    wrong,
)
from calibrant._kernels.rows import top_columns
from calibrant._maps.base import CalibrationMap, lift
from calibrant._row_sample import RowSample
from calibrant._solvers.report import SolverReport
from calibrant._solvers.rows import MOST_POINTS, to_points
from calibrant._types import Array, Floats, Label, Labels, ScoresKind
from calibrant.scale import Chunks, as_chunks, is_elsewhere

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sklearn.utils import Tags

    from calibrant._gate import SimplexBatch
    from calibrant._types import BaseEstimator, Bools, ClassifierMixin, TransformerMixin, Wholes
else:
    from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin

FEWEST_ROWS, ROWS_PER_PARAMETER = 100, 5  # below the larger of both a fit warns


class Calibrator(Parameters, ClassifierMixin, TransformerMixin, BaseEstimator):
    """Base class of all calibrators: checks the input and stores the result of a solver.

    A subclass declares its parameters (see ``parameters``), its names, and ``_solver``, or
    implements ``_solve``, which returns what it declares as fitted. One with a ``method`` is known
    everywhere (``methods``). Nothing in ``_solve`` warns: ``_complaints`` of the fitted calibrator
    yields the warnings, so that a calibrator inside another one can be quiet.

    Parameters
    ----------
    scores : {"probabilities", "logits", "positive", "decision"}, default="probabilities"
        Kind of the scores, which is never guessed. For a vector or one column: "positive" is the
        probability of ``classes_[1]``, "decision" its log-odds (margin).
    classes : array-like of shape (n_classes,), optional
        Label of each column; needed if ``y`` lacks a class. For a vector: the negative and the
        positive label, not needed for 0 and 1, -1 and 1, or False and True.
    normalize : {None, "rows"}, default=None
        "rows" divides each row of scores by its sum.
    min_probability : float, default=1e-12
        Smallest probability of the output; rows keep their order and sum to 1. With
        ``normalize_output=False`` smaller values are replaced by it.
    n_jobs : int, optional
        Number of threads for folds, candidates and chunks of rows; results do not depend on it. -1
        means all cores, -2 all but one, None the setting of ``joblib.parallel_config``, else 1. It
        is not saved in model files.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Label of each column.
    map_ : CalibrationMap
        Fitted map from checked scores to probabilities, before ``min_probability`` is applied.
    solver_report_ : SolverReport
        Convergence of the solver; of a sample of rows, how many of how many were kept.
    sample_ : RowSample
        Rows that ``partial_fit`` has counted so far.
    """

    # What a method says of itself; tables, pages, files and the command are made of it.
    method: ClassVar[str | None] = None  # short name in files and commands, which is never reused
    title: ClassVar[str] = ""  # name in tables and pictures
    summary: ClassVar[str] = ""  # what the map is, in a few words
    good_for: ClassVar[str] = ""  # what the method is good for, in a few words
    stands_alone: ClassVar[bool] = True  # whether its parameters all have defaults
    place: ClassVar[int] = 100  # place in tables: those of the paper come first, in its order
    in_paper: ClassVar[bool] = False  # whether the paper's tables have it

    # What it promises; tests look whether it holds.
    keeps_order: ClassVar[bool] = False  # of the classes, as far as it does not make them equal
    same_for_all_classes: ClassVar[bool] = False  # permuting the columns permutes the result

    # How it is fitted.
    beside: ClassVar[str | None] = None  # read beside the scores of a row: "groups" or "features"
    _unlabelled: ClassVar[str | None] = None  # what becomes of classes without a label, in words
    _starts_at_temperature: ClassVar[bool] = False  # ``_solve`` takes a fit of the same rows
    _most_points: ClassVar[int] = MOST_POINTS  # that many rows of two classes become; 0: none
    _solver: ClassVar[Callable[..., Any]]  # of a batch and the parameters; returns ``_found``
    _found: ClassVar[tuple[str, ...]] = ("map_", "solver_report_")
    _registered: ClassVar[dict[str, type[Calibrator]]] = {}  # every class with a ``method``, by it

    scores: ScoresKind = "probabilities"
    classes: ArrayLike | None = None
    normalize: Literal["rows"] | None = None
    min_probability: float = 1e-12
    n_jobs: int | None = number_of_jobs(default=None)

    map_: CalibrationMap = fitted()
    solver_report_: SolverReport = fitted()

    if TYPE_CHECKING:
        classes_: Labels = fitted()
        n_features_in_: int = fitted()

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        method = vars(cls).get("method")
        if method is not None:
            # A class that is defined again, as in a notebook, takes the place of the old one.
            other = cls._registered.setdefault(method, cls)
            if other.__qualname__ != cls.__qualname__:
                raise errors.ParameterError(
                    f"{cls.__qualname__} has the method {method!r}, which {other.__qualname__} has "
                    "already; choose another name"
                )
            cls._registered[method] = cls

    def _solve(self, batch: SimplexBatch, *_: Any, **known: Any) -> dict[str, object]:
        """Fit to a checked calibration set; return the fitted attributes by name.

        ``known`` is what whoever fits it inside another calibrator has found already.
        """
        results = self._solver(batch, **self._options(), **known)
        return dict(zip(self._found, results, strict=False))  # a ScalingFit has more

    def _compose(self) -> CalibrationMap:
        """Return the map: ``_solve`` finds it, or the parts that a composition makes it of."""
        return self.map_

    def _n_parameters(self, n_classes: int) -> int:  # noqa: ARG002
        """Return the effective number of free parameters."""
        return 1

    def _fits_matrix(self, n_classes: int) -> bool:  # noqa: ARG002
        """Whether rows are multiplied by a matrix at ``fit``: large ones have threads of BLAS."""
        return False

    @property
    def _kind(self) -> str:
        """Kind of scores that the fitted calibrator takes."""
        kind = self.map_.kind
        return self.scores if gate.two_column_kind(self.scores) == kind else kind

    def _complaints(self, batch: SimplexBatch) -> Iterator[Warning]:
        """Yield warnings about the fit to ``batch``."""
        present = np.bincount(batch.class_index, minlength=batch.n_classes) > 0
        yield from self._missing(present, batch.classes)
        if self.solver_report_.complaint is not None:
            yield self.solver_report_.complaint

    def _missing(self, present: Bools, classes: Labels) -> Iterator[Warning]:
        if self._unlabelled is not None and not present.all():
            missing = classes[~present]
            yield errors.MissingClassWarning(
                f"{len(missing)} of {len(classes)} classes have no label in the calibration set, "
                f"for example {errors.in_words(missing[0])}; {self._unlabelled}"
            )

    def fit(
        self,
        scores: object,
        y: object = None,
        sample_weight: object = None,
        *,
        groups: object = None,
    ) -> Self:
        """Fit the calibration map.

        Parameters
        ----------
        scores : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
            Predictions of the classifier, of the kind named by ``scores`` in the constructor,
            with columns in the order of the sorted labels (or of ``classes``). A Dask collection
            and ``scale.Chunks`` are sampled where they are; a ``scale.RowSample`` is taken as it
            is. The last two have labels of their own.
        y : array-like of shape (n_rows,)
            True labels.
        sample_weight : array-like of shape (n_rows,), optional
            Sample weights. Weight 2 counts a row twice, weight 0 not at all.
        groups : array-like of shape (n_rows,), optional
            Image, document or patient that each row belongs to. Whatever is chosen by
            cross-validation is then judged on groups that were held out whole.

        Returns
        -------
        self : object
        """
        return self._fit_rows(scores, y, sample_weight, groups)

    def _fit_rows(
        self, scores: object, y: object, sample_weight: object, groups: object, **known: object
    ) -> Self:
        """Fit to rows in memory, chunks or a sample; ``known`` is passed on to ``_solve``."""
        self._check_parameters()
        chunks = _find_chunks(scores, y, sample_weight)
        if groups is not None and (chunks is not None or isinstance(scores, RowSample)):
            raise errors.ContainerError(
                "groups is given with scores in chunks, of which single rows are sampled; pass "
                "arrays in memory, or leave groups out"
            )
        if chunks is not None:
            classes = self._find_classes(scores, y, chunks, self.classes)
            gate.check_floor(self.min_probability, len(classes))
            sample = chunks.sample(classes, scores=self.scores, normalize=self.normalize)
            return self._fit_sample(sample, chunks.names)
        if isinstance(scores, RowSample):
            return self._fit_sample(scores, None)
        if isinstance(scores, gate.SimplexBatch):  # which was checked before
            batch = scores
        else:
            batch = gate.check_batch(
                scores,
                y,
                sample_weight,
                groups=groups,
                kind=self.scores,
                classes=self.classes,
                normalize=self.normalize,
            )
        names = gate.fitted_names(scores, self.scores)
        return self._adopt(self._fit_batch(batch, **known), batch, names, batch.n_rows)

    def _find_classes(
        self, scores: object, y: object, chunks: Chunks | None, classes: object
    ) -> Labels:
        """Return the class of each column; labels are read if ``classes`` does not say."""
        if chunks is None:
            n_columns = gate.to_matrix(scores, self.scores).shape[1]
            names: Sequence[Label] | None = gate.fitted_names(scores, self.scores)
            labels = y
        else:
            n_columns, names = chunks.n_columns, chunks.names
            labels = chunks.labels() if classes is None else classes
        labels = np.atleast_1d(labels if classes is None else classes)  # type: ignore[call-overload]
        if len(labels) == 0:
            raise errors.ShapeError("no row has a weight and a label; pass at least one")
        if n_columns == 1 and not gate.is_single(self.scores):
            raise errors.ShapeError(f"scores has one column: {gate.how_to_pass(self.scores)}")
        return gate.assign_classes(
            labels, len(labels), n_columns, self.scores, names=names, classes=classes
        )[1]

    def _fit_sample(self, sample: RowSample, names: Sequence[Label] | None) -> Self:
        """Fit to the rows of a sample, whose columns may have names."""
        if (self.scores, self.normalize) != (sample.scores, sample.normalize):
            theirs = f"scores={sample.scores!r} and normalize={sample.normalize!r}"
            problem = f"and normalize={self.normalize!r}, but the sample has {theirs}"
            raise wrong("scores", self.scores, problem)
        if self.classes is not None and not np.array_equal(self.classes, sample.classes):
            theirs = errors.some_in_words(sample.classes)
            raise wrong("classes", self.classes, f"are not those of the sample, {theirs}")
        if sample.n_kept == 0:
            raise errors.ShapeError("the sample has no row with a weight: there is nothing to fit")
        batch = sample.batch()
        gate.warn_of_batch(batch)
        fit = self._fit_batch(batch)
        if not sample.is_complete:
            note = f"fitted to {sample.n_kept:,} of {sample.n_rows:,} rows, sampled by content"
            fit.solver_report_ = with_note(fit.solver_report_, note)
        # Repetitions of a row are one row of the batch, but as many of the calibration set.
        n_rows = sample.n_rows if sample.is_complete else batch.n_rows
        return self._adopt(fit, batch, names, n_rows)

    def _adopt(
        self, fit: Self, batch: SimplexBatch, names: Sequence[Label] | None, n_rows: int
    ) -> Self:
        """Warn about a fit of this calibrator, and take its attributes."""
        needed = max(FEWEST_ROWS, ROWS_PER_PARAMETER * self._n_parameters(batch.n_classes))
        if n_rows < needed:
            few = f"{errors.number_of(n_rows, 'row')} of {batch.n_classes} classes"
            message = f"{type(self).__name__} was fitted to {few}; use at least {needed} rows"
            notices.warn(errors.SmallSampleWarning(message))
        # Parts of other calibrators and fits in folds are not asked: nobody predicts with them.
        name, floor = type(self).__name__, float(self.min_probability)
        doubts = [*find_doubts(batch, fit._map_of_scores, floor, name), *fit._complaints(batch)]
        for warning in {str(warning): warning for warning in doubts}.values():
            notices.warn(warning)
        # Predictions are compared with the range of the scores.
        score_range = gate.score_range(batch.scores, batch.kind)
        fit.solver_report_ = replace(fit.solver_report_, score_range=score_range)
        with threads.few_blas_threads(0):
            summary = summarise(sample_of(batch))
        fitted = {name: value for name, value in vars(fit).items() if name.endswith("_")}
        replace_state(self, fitted | {"score_summary_": summary} | gate.feature_names(names))
        return self

    @property
    def _map_of_scores(self) -> CalibrationMap:
        """The map whose mean probabilities are compared with the shares of the classes."""
        return self.map_

    def partial_fit(
        self,
        scores: object,
        y: object = None,
        classes: object = None,
        sample_weight: object = None,
        *,
        decay: float = 1.0,
    ) -> Self:
        """Add rows to those of earlier calls, and fit to all of them.

        Parameters
        ----------
        scores, y, sample_weight
            As in ``fit``, for example of one day.
        classes : array-like of shape (n_classes,), optional
            Label of each column; needed in the first call if ``y`` lacks a class.
        decay : float, default=1.0
            Factor on the weight of all earlier rows: 0.5 ** (1 / 30) halves it in thirty calls.

        Returns
        -------
        self : object
            Its ``sample_`` holds the rows, or a sample of them; ``model_file.save(calibrator,
            path, sample=True)`` keeps it.
        """
        self._check_parameters()
        gate.check_number("decay", decay, low=0.0, high=1.0)
        chunks, before = _find_chunks(scores, y, sample_weight), vars(self).get("sample_")
        names = gate.fitted_names(scores, self.scores) if chunks is None else chunks.names
        if before is None:
            if "map_" in vars(self):
                message = (
                    f"this {type(self).__name__} does not hold the rows of its fit (fit keeps "
                    "none, nor does a model file), so partial_fit starts again without them; use "
                    "partial_fit from the start, and save(..., sample=True)"
                )
                notices.warn(errors.ForgottenRowsWarning(message))
            asked = self.classes if classes is None else classes
            known = self._find_classes(scores, y, chunks, asked)
            sample = RowSample(known, scores=self.scores, normalize=self.normalize)
        else:
            if classes is not None and not np.array_equal(np.asarray(classes), before.classes):
                theirs = errors.some_in_words(before.classes)
                problem = f"are not those of the first call, {theirs}; pass None"
                raise wrong("classes", classes, problem)
            if names is not None and gate.is_single(self.scores):
                fitted = getattr(self, "feature_names_in_", None)
                gate.check_single_name(names[0], fitted, type(self).__name__)
            sample = copy.copy(before).scale(decay)
        if chunks is None:
            sample.update(scores, y, sample_weight)
        else:
            sample.merge(
                chunks.sample(
                    sample.classes,
                    max_cells=sample.max_cells,
                    scores=self.scores,
                    normalize=self.normalize,
                )
            )
        self._fit_sample(sample, names)
        self.__dict__["sample_"] = sample
        return self

    def _fit_batch(self, batch: SimplexBatch, **known: object) -> Self:
        """Return a copy that is fitted to a checked calibration set, without a warning."""
        gate.check_floor(self.min_probability, batch.n_classes)
        n_given = batch.n_rows
        if n_given > self._most_points > 0:
            batch = to_points(batch, self._most_points)
        n_rows, n_classes = batch.n_rows, batch.n_classes
        fit = take_state(self)
        parameters = {name: value for name, value in vars(fit).items() if not name.endswith("_")}
        n_products = n_rows * n_classes**2 if self._fits_matrix(n_classes) else 0
        n_jobs = 1 if batch.scores.size < threads.FEW_CELLS else self.n_jobs
        threads.check_jobs("n_jobs", self.n_jobs)
        with threads.jobs(n_jobs), threads.few_blas_threads(n_products):
            fitted = fit._solve(batch, **known)  # noqa: SLF001  (itself)
        fit.__dict__ = parameters | fitted
        fit.n_features_in_, fit.classes_ = n_classes, batch.classes
        fit.map_ = fit._compose()  # noqa: SLF001  (itself)
        if n_rows < n_given:  # the certificate is that of the points
            note = f"fitted to {n_rows:,} weighted points of {n_given:,} rows"
            fit.solver_report_ = with_note(fit.solver_report_, note)
        return fit

    def check(self, scores: object) -> ShiftCheck:
        """Test whether new scores look like those of the calibration set; labels are not needed.

        Parameters
        ----------
        scores : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
            Predictions of the same kind as at ``fit``.

        Returns
        -------
        check : ShiftCheck
            ``alarm``, the p-values behind it, and what to do about it, in words: print it.

        Examples
        --------
        >>> from calibrant import TemperatureScaling
        >>> from calibrant.datasets import simulated_scores
        >>> scores, y = simulated_scores(2000)
        >>> calibrator = TemperatureScaling().fit(scores[:1000], y[:1000])
        >>> calibrator.check(scores[1000:]).alarm
        False
        >>> sure = scores[scores.max(axis=1) > 0.9]
        >>> calibrator.check(sure).alarm
        True
        """
        sums = self._score_sums()
        self._add_scores(sums, scores)
        return sums.compare()

    def _score_sums(self) -> ScoreSums:
        """Return sums without rows, which ``_add_scores`` adds to."""
        check_is_fitted(self, "classes_")
        summary = vars(self).get("score_summary_")
        if summary is None:
            raise errors.ContainerError(
                f"{type(self).__name__} has no summary of the scores of its fit, which parts of "
                "other calibrators and older files lack; fit it again"
            )
        return ScoreSums(summary)

    def _add_scores(self, sums: ScoreSums, scores: object) -> None:
        rows = self._checked_rows(scores)
        sums.add(gate.softmax(rows) if self.map_.kind == "logits" else rows)

    def _checked_rows(self, scores: object) -> Floats:
        """Return rows as the map of the fitted calibrator takes them."""
        matrix = gate.to_matrix(scores, self._kind)
        order = self._check_columns(scores, matrix.shape)
        rows = gate.check_rows(matrix, self._kind, self.normalize)
        return rows if order is None else np.take(rows, order, axis=1)

    def predict_proba(self, scores: object) -> Floats:
        """Return calibrated probabilities.

        Parameters
        ----------
        scores : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
            Predictions of the same kind as at ``fit``.

        Returns
        -------
        probabilities : ndarray of shape (n_rows, n_classes)
            Rows sum to 1, with columns in the order of ``classes_``; float32 for float32 and
            float16 input. Lazy for Dask collections and ``scale.Chunks``; that of a data frame
            of Dask is one, with its index and a column for each class.
        """
        return self._predict_proba(scores)

    def _predict_proba(self, scores: object, beside: object = None) -> Floats:
        """Return probabilities; ``beside`` is what ``_read_beside`` takes."""
        self = self._take()  # noqa: PLW0642
        if is_elsewhere(scores):
            return self._predict_lazily("predict_proba", scores)
        if isinstance(scores, gate.SimplexBatch):
            matrix: Array = scores.scores
        else:
            matrix = gate.to_matrix(scores, self._kind)
        out = np.empty((len(matrix), self.n_features_in_), dtype=gate.output_dtype(scores))
        for rows, _, calibrated in self._calibrate(scores, matrix, beside):
            out[rows] = calibrated
        return out

    def _predict_lazily(self, method: str, scores: object) -> Floats:
        """Return the lazy result of a method, in the form of the engine that holds the scores."""
        sent = to_send(self)
        if isinstance(scores, Chunks):
            of_chunks = scores.map(partial(_predict_of_chunk, sent, method, scores.names))
            return cast("Floats", of_chunks)
        from calibrant.scale.dask import map_rows, to_array

        self._check_columns(scores, to_array(scores).shape)
        is_label = method == "predict"
        dtype = self.classes_.dtype if is_label else gate.output_dtype(scores)
        n_columns = None if is_label else self.n_features_in_
        of_dask: Floats = map_rows(sent, method, scores, dtype, n_columns)
        return of_dask

    def _read_beside(self, n_rows: int, given: object) -> tuple[Array, ...]:  # noqa: ARG002
        """Return what the map takes besides the scores of each row."""
        return ()

    def _calibrate(
        self, scores: object, matrix: Array, beside: object
    ) -> Iterator[tuple[slice, Floats, Floats]]:
        """Yield rows, their scores and their probabilities, columns in the order of ``classes_``.

        ``matrix`` is ``scores`` without their names. Chunks are worked on in threads.
        """
        fitted_map, kind = self.map_, self._kind
        checked_before = scores.scores if isinstance(scores, gate.SimplexBatch) else None
        order = self._check_columns(scores, matrix.shape)
        gate.refuse_other_index(scores, None, beside, self.beside or "")
        by_row = self._read_beside(len(matrix), beside)

        def work(rows: slice) -> tuple[slice, Floats, Floats]:
            if checked_before is not None:
                checked = checked_before[rows]
            else:
                checked = gate.check_rows(matrix[rows], kind, self.normalize, rows.start)
            if rows.start == 0:
                gate.warn_of_kind(checked, fitted_map.kind)
                score_range = self.solver_report_.score_range
                other = gate.find_other_range(checked, fitted_map.kind, score_range)
                if other is not None:
                    notices.warn(other)
            if order is not None:
                checked = np.take(checked, order, axis=1)
            mapped = fitted_map(checked, *(values[rows] for values in by_row))
            calibrated = lift(
                mapped, self.min_probability, sums_to_one=fitted_map.sums_to_one, given=checked
            )
            return rows, checked, calibrated

        parts = list(gate.small_chunks(len(matrix), self.n_features_in_))
        if len(parts) == 1:  # to ask joblib for its threads takes longer than to map a row
            threads.check_jobs("n_jobs", self.n_jobs)
            yield work(parts[0])
            return
        with threads.jobs(self.n_jobs):
            yield from threads.each(work, parts)

    def predict_log_proba(self, scores: object) -> Floats:
        """Return the logarithms of the calibrated probabilities."""
        return log_of(self.predict_proba(scores))

    def transform(self, scores: object) -> Floats:
        """Return calibrated probabilities; ``predict_proba`` for pipelines and ``set_output``."""
        return self.predict_proba(scores)

    def predict(self, scores: object) -> Labels:
        """Return the label of the largest calibrated probability.

        Ties are broken by the scores, then by the order of ``classes_``.
        """
        return self._predict(scores)

    def _predict(self, scores: object, beside: object = None) -> Labels:
        """Return labels; ``beside`` is what ``_read_beside`` takes."""
        self = self._take()  # noqa: PLW0642
        if is_elsewhere(scores):
            return self._predict_lazily("predict", scores)
        matrix = gate.to_matrix(scores, self._kind)
        best = np.empty(len(matrix), dtype=np.intp)
        for rows, checked, calibrated in self._calibrate(scores, matrix, beside):
            top_columns(calibrated, checked, best[rows])
        return self.classes_[best]

    def get_feature_names_out(self, input_features: object = None) -> Labels:  # noqa: ARG002
        """Return the names of the output columns: the classes."""
        check_is_fitted(self, "classes_")
        return np.array([str(c) for c in self.classes_], dtype=object)

    def _take(self) -> Self:
        """Return the fitted calibrator as it is now."""
        taken = take_state(self)
        if "classes_" not in vars(taken):
            check_is_fitted(taken, "classes_")  # raises; it is slow, as it asks for all tags
        return taken

    def _check_columns(self, scores: object, shape: tuple[int, ...]) -> Wholes | None:
        """Check names and number of columns; return their order if it is not ``classes_``'s."""
        if gate.is_single(self._kind):
            name, fitted = gate.single_name(scores), getattr(self, "feature_names_in_", None)
            gate.check_positive(self.classes_, name, are_given=True)
            gate.check_single_name(name, fitted, type(self).__name__)
            return None
        if shape[1] != self.n_features_in_:
            remedy = f" {gate.how_to_pass(self.map_.kind)}" if shape[1] == 1 else ""
            raise errors.ShapeError(
                f"X has {shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input: scores has shape {shape}; pass one "
                f"column for each class seen at fit.{remedy}"
            )
        names = gate.column_names(scores)
        order = None if names is None else gate.order_of(names, self.classes_)
        if order is None or names is None:
            gate.check_names(names, getattr(self, "feature_names_in_", None), type(self).__name__)
            return None
        return gate.changed_order(order, names)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.scores in ("probabilities", "positive")
        return tags


def _find_chunks(scores: object, y: object, sample_weight: object) -> Chunks | None:
    """Return chunks of what comes in chunks; None for what is in memory."""
    given = scores, y, sample_weight
    if isinstance(scores, Chunks) or "dask" in map(gate.library, given):
        return as_chunks(scores, y, sample_weight)
    return None


def _predict_of_chunk(
    calibrator: Calibrator, method: str, names: Sequence[Label] | None, scores: object
) -> Array:
    names = gate.column_names(scores) or names
    return predict_chunk(calibrator, method, np.asarray(scores), names, "raise")[0]


def with_note(report: SolverReport, note: str) -> SolverReport:
    """Add a remark to the report of a solver."""
    return replace(report, notes=(*report.notes, note))


def log_of(probabilities: Floats) -> Floats:
    """Logarithms of probabilities, that of zero included."""
    with np.errstate(divide="ignore"):
        logs: Floats = np.log(probabilities)
    return logs
