"""Fits to chunks of rows: on a cluster, out of memory, or night after night."""

from __future__ import annotations

import copy
from abc import ABC
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from calibrant import _notices as notices
from calibrant import _simplex as simplex
from calibrant import _threads as threads
from calibrant import errors
from calibrant._calibrators.parameters import Parameters, replace_state, stored_names
from calibrant._columns import column_order, feature_names
from calibrant._containers import column_names, to_matrix
from calibrant._labels import check_labels
from calibrant._one_column import ONE_COLUMN, check_positive, how_to_pass
from calibrant.scale._chunks import Chunks
from calibrant.scale._lists import TopLists
from calibrant.scale._sources import RowSource, SourceChunks, as_chunks
from calibrant.scale._statistics import RowStatistics, Solution, Statistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from calibrant._maps.base import CalibrationMap

SHARED = {"scores", "classes", "normalize", "min_probability"}
"""Parameters of every calibrator; statistics have them in their own way, or not at all."""


def _is_incremental(calibrator: FromChunks) -> bool:
    if calibrator._statistics is None:  # noqa: SLF001  (ours)
        raise AttributeError(
            f"{type(calibrator).__name__} has no partial_fit: it needs all rows at once"
        )
    return True


class FromChunks(Parameters, ABC):
    """What calibrators do with chunks of rows; ``_statistics`` is the class of theirs, if any."""

    _statistics: ClassVar[type[Statistics] | None] = None
    _takes_lists: ClassVar[bool] = False  # that a fit is the same whichever class is which
    # Of ``Calibrator``: a fit to a checked calibration set, and what there is to say of one.
    _fit_batch: ClassVar[Callable[..., dict[str, Any]]]
    _complaints: ClassVar[Callable[..., Iterator[Warning]]]
    _missing: ClassVar[Callable[..., Iterator[Warning]]]
    _warn_of_few_rows: ClassVar[Callable[..., None]]
    _check_columns: ClassVar[Callable[..., Any]]
    _warn_of_shares: ClassVar[Callable[..., None]]

    scores: str
    classes: Any
    normalize: str | None
    min_probability: float
    n_jobs: int | None

    if TYPE_CHECKING:
        map_: CalibrationMap

    @property
    def _kind(self) -> str:
        """Kind of scores that the fitted calibrator takes."""
        own: str = self.map_.kind
        return self.scores if ONE_COLUMN.get(self.scores) == own else own

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "_statistics" in vars(cls) and cls._statistics is not None:
            own: Any = {f.name: f.metadata.get("check") for f in fields(cls)}
            cls._statistics.checks = {k: own[k] for k in stored_names(cls) if k not in SHARED}

    def statistics(self, classes: Any, *, max_rows: int | None = None) -> Statistics:
        """Return empty statistics for this calibrator, to be updated and merged anywhere.

        Parameters
        ----------
        classes : array-like of shape (n_classes,), or Chunks
            Label of each column, or chunks whose labels are read.
        max_rows : int, optional
            Largest number of rows to keep; if no more are counted, the fit equals that in memory.

        Returns
        -------
        statistics : Statistics
            With ``update``, ``merge``, ``scale``, ``to_bytes`` and ``from_bytes``;
            ``fit_statistics`` fits a calibrator to them.
        """
        self._check_parameters()
        if isinstance(classes, Chunks):
            classes = self._known(None, None, classes, self.classes)
        shared: dict[str, Any] = {"scores": self.scores, "normalize": self.normalize}
        shared["max_rows"] = max_rows
        if self._statistics is None:
            return RowStatistics(classes, **shared)
        own = {name: getattr(self, name) for name in stored_names(type(self))}
        return self._statistics(classes, **shared, **{k: own[k] for k in own.keys() - SHARED})

    def fit_statistics(self, statistics: Statistics, chunks: Chunks | None = None) -> Self:
        """Fit to the rows that statistics have counted.

        Parameters
        ----------
        statistics : Statistics
            Statistics made by the method ``statistics`` of this calibrator.
        chunks : Chunks, optional
            The same rows, if they can be read again: some methods need further passes.

        Returns
        -------
        self : object
            The fitted calibrator. It keeps the statistics as ``statistics_``, from which
            ``partial_fit`` continues.
        """
        self._fit_counted(statistics, chunks)
        if self._statistics is not None:
            vars(self)["statistics_"] = copy.deepcopy(statistics)  # the caller may go on counting
        return self

    def _fit_counted(self, statistics: Statistics, chunks: Chunks | None) -> Self:
        """Fit to what was counted, and remember nothing of it."""
        wanted = self.statistics(statistics.classes)
        if statistics.method != wanted.method:
            raise errors.ParameterError(
                f"statistics were made for {statistics.describe()}, not for "
                f"{type(self).__name__}; make them with its method statistics()"
            )
        self._refuse_other_settings(statistics, wanted)
        if statistics.n_rows == 0:
            raise errors.ShapeError("no chunk has a row with a weight: there is nothing to fit")
        solution = self._solution(statistics, is_last=chunks is None)
        while chunks is not None and solution.again is not None:
            solution.again.merge(chunks.count(solution.again.empty()))
            solution = self._solution(solution.again)
        fitted = solution.fitted
        is_whole, refitted = self._statistics is not None and not solution.is_of_kept_rows, None
        if chunks is not None and not is_whole and not statistics.kept.is_complete:
            refitted = self._fit_stages(fitted, statistics, chunks)
        names, is_staged = None if chunks is None else chunks.names, refitted is not None
        self._adopt(statistics, refitted or fitted, names, is_whole=is_whole, is_staged=is_staged)
        return self

    def _fit_stages(self, *_: Any) -> dict[str, Any] | None:
        """Fit what a fit to kept rows consists of to all of them; None if that is not possible."""
        return None

    def _refuse_other_settings(self, statistics: Statistics, wanted: Statistics) -> None:
        """Refuse statistics that would be solved with other parameters than the calibrator has."""
        theirs, own = (
            {"scores": one.scores, "normalize": one.normalize, **one.options}
            for one in (statistics, wanted)
        )
        for name in own.keys() & theirs.keys():
            if own[name] != theirs[name]:
                raise errors.ParameterError(
                    f"statistics were counted with {name}={errors.in_words(theirs[name])}, but "
                    f"this {type(self).__name__} has {errors.in_words(own[name])}; set the same "
                    f"{name}, or count the rows again"
                )

    @available_if(_is_incremental)  # type: ignore[untyped-decorator]
    def partial_fit(
        self,
        scores: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
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
            The fitted calibrator. Its ``statistics_`` hold all rows counted so far; save
            ``statistics_.to_bytes()`` to continue in another process.
        """
        simplex.check_number("decay", decay, low=0.0, high=1.0)
        before: Statistics | None = vars(self).get("statistics_")
        if before is None and "map_" in vars(self):
            notices.warn(
                errors.ForgottenRowsWarning(
                    f"this {type(self).__name__} kept no statistics of the rows it was fitted to "
                    "(fit and model files keep none), so partial_fit starts again without them. "
                    "To continue a fit, save statistics_.to_bytes() after partial_fit, and call "
                    "fit_statistics(Statistics.from_bytes(data)) first"
                )
            )
        chunks = as_chunks(scores, y, sample_weight)
        if isinstance(scores, TopLists):
            scores.check(self)
        names = column_names(scores, self.scores) if chunks is None else chunks.names
        if before is None:
            known = self._known(scores, y, chunks, self.classes if classes is None else classes)
            before = self.statistics(known)
        elif classes is not None and not np.array_equal(np.asarray(classes), before.classes):
            raise errors.ParameterError(
                f"classes are not {errors.some_in_words(before.classes)}, as in the first call; "
                "pass None"
            )
        empty = before.empty()
        new = empty.update(scores, y, sample_weight) if chunks is None else chunks.count(empty)
        found = copy.deepcopy(before).scale(decay).merge(new)
        solution = self._solution(found, is_last=True)
        self._adopt(found, solution.fitted, names, is_whole=not solution.is_of_kept_rows)
        vars(self)["statistics_"] = found
        return self

    def _known(self, scores: Any, y: Any, chunks: Chunks | None, classes: Any) -> NDArray[Any]:
        """Return the class of each column."""
        shape = "one dimension or one column"
        if chunks is None:
            matrix = to_matrix(scores, self.scores)
            n_columns, shape = matrix.shape[1], f"shape {matrix.shape}"
            names = column_names(scores, self.scores)
        else:
            n_columns, names = chunks.n_classes, chunks.names
        if n_columns == 1 and self.scores not in ONE_COLUMN:
            raise errors.ClassCountError(f"scores has {shape}: {how_to_pass(self.scores)}")
        if classes is not None:
            y = classes
        elif chunks is not None:
            y = chunks.labels()
        is_single, told = self.scores in ONE_COLUMN, classes is not None
        names, n_columns = (None, 2) if is_single else (names, n_columns)
        how: dict[str, Any] = {"classes": classes, "names": names, "is_single": is_single}
        _, known = check_labels(y, len(y), n_columns, **how)
        column_order(names, known, told=told)
        if is_single:
            check_positive(known, told=told)
        return known

    def _fit_chunks(self, chunks: Chunks) -> Self:
        """Fit to all chunks, in as many passes over them as it takes; to lists as they are."""
        if isinstance(chunks, SourceChunks) and isinstance(chunks.source, TopLists):
            return self._fit_lists(chunks.source, chunks.y, chunks.weight)
        empty = self.statistics(chunks)
        simplex.check_floor(self.min_probability, empty.n_classes)
        return self._fit_counted(chunks.count(empty), chunks)

    def _fit_lists(self, lists: TopLists, y: Any, sample_weight: Any) -> Self:
        """Fit to lists of the best classes, and note what is known of the full rows."""
        lists.check(self)
        batch = lists.batch(y, sample_weight, self.classes)
        fitted = self._fit_batch(batch)
        self._warn_of_few_rows(batch.n_rows, batch.n_classes)
        lists.warn_of_columns(batch)
        for complaint in self._complaints(batch, fitted):
            notices.warn(complaint)
        low, high = lists.bounds(batch, fitted["map_"], float(self.min_probability))
        note = f"{lists}: the NLL of the full rows is between {low:.6g} and {high:.6g}"
        report = fitted["solver_report_"]
        fitted["solver_report_"] = replace(report, notes=(*report.notes, note))
        replace_state(self, fitted)
        return self

    def _solution(self, statistics: Statistics, *, is_last: bool = False) -> Solution:
        simplex.check_floor(self.min_probability, statistics.n_classes)
        if self._statistics is None:
            return Solution(self._fit_batch(statistics.kept_batch()))
        with threads.jobs(self.n_jobs), threads.few_blas_threads(0):
            found = statistics.solution()
            if is_last:
                _ = found.fitted  # here, where threads are few
            return found

    def _lazily(self, method: str, scores: Any, dtype: Any, n_columns: int | None) -> NDArray[Any]:
        """Return the lazy result of a method on a Dask collection; names are checked at once.

        Of lists and stacked rows it is computed, block by block.
        """
        if isinstance(scores, RowSource):
            found: NDArray[Any] = scores.apply(self, method)
            return found
        from calibrant.scale.dask import map_rows, to_array

        self._check_columns(scores, to_array(scores).shape)
        self.__dict__.pop("statistics_", None)  # predictions need none, and it would travel
        lazy: NDArray[Any] = map_rows(self, method, scores, dtype, n_columns)
        return lazy

    def _adopt(
        self,
        statistics: Statistics,
        fitted: dict[str, Any],
        names: list[Any] | None,
        *,
        is_whole: bool,
        is_staged: bool = False,
    ) -> None:
        """Take the fit over, and say what there is to say of it."""
        batch, present = statistics.kept_batch(), statistics.labels > 0.0
        simplex.warn_of_batch(batch, present)
        self._warn_of_few_rows(statistics.n_rows, statistics.n_classes)
        self._warn_of_shares(batch, fitted["map_"])
        if self._statistics is None:
            found = list(self._complaints(batch, fitted))
            remedy = "methods with partial_fit use all rows if the chunks can be read again"
            if is_staged:
                firsts = [path[0] for path in fitted["paths_"]]
                kept = [one.method for one in firsts if not hasattr(one, "partial_fit")]
                but = f" but {', '.join(kept)}" if kept else ""
                remedy = (
                    f"first stages{but} were fitted to all rows, weights and later stages were not"
                )
        else:
            found = list(self._missing(present, statistics.classes))
            complaint = fitted["solver_report_"].complaint
            found += [] if complaint is None else [complaint]
            remedy = (
                "the other rows could not be read again: call fit, or fit_statistics with "
                "chunks=, to use all rows; FIR and SCIR need only one pass"
            )
        if not is_whole and not statistics.kept.is_complete:
            found.append(
                errors.SampledRowsWarning(
                    f"{type(self).__name__} was fitted to {statistics.kept.n_rows:,} of "
                    f"{statistics.n_rows:,} rows, sampled by their scores; {remedy}"
                )
            )
        for complaint in {str(one): one for one in found}.values():
            notices.warn(complaint)
        about = {"n_features_in_": statistics.n_classes, "classes_": statistics.classes}
        names = None if self.scores in ONE_COLUMN else names
        replace_state(self, about | fitted | feature_names(names))


def fit_together(
    parts: Sequence[FromChunks], statistics: Statistics, chunks: Chunks
) -> list[FromChunks]:
    """Fit copies of calibrators to all rows; each pass over the chunks counts for all of them.

    The rows that were kept are those of ``statistics``, which have counted the same chunks.
    """
    found = [copy.copy(part) for part in parts]
    waiting: dict[int, Statistics] = {}
    for place, part in enumerate(found):
        waiting[place] = part.statistics(statistics.classes)
        del waiting[place].parts["kept"]
    solutions: dict[int, Solution] = {}
    while waiting:
        if any(one.parts for one in waiting.values()):
            count_together(chunks, list(waiting.values()))
        for place, one in waiting.items():
            if one.before is None:  # the first pass
                one.parts["kept"] = statistics.kept
                one.n_rows, one.labels = statistics.n_rows, statistics.labels
            solutions[place] = found[place]._solution(one)  # noqa: SLF001  (ours)
        again = {place: solutions[place].again for place in waiting}
        waiting = {place: one for place, one in again.items() if one is not None}
    for place, part in enumerate(found):
        about = {"n_features_in_": statistics.n_classes, "classes_": statistics.classes}
        replace_state(part, about | solutions[place].fitted)
    return found


def count_together(chunks: Chunks, statistics: Sequence[Statistics]) -> None:
    """Count several statistics of the same classes in one pass over chunks."""
    empty = statistics[0].empty()
    empty.parts = {
        f"{place}/{name}": part.empty()
        for place, one in enumerate(statistics)
        for name, part in one.parts.items()
    }
    counted = chunks.count(empty)
    for place, one in enumerate(statistics):
        one.parts = {name: counted.parts[f"{place}/{name}"] for name in one.parts}
        one.n_rows, one.labels = counted.n_rows, counted.labels
