"""``CalibrationMonitor``: whether served probabilities are still right, asked at every moment."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from calibrant import _gate as gate
from calibrant import errors
from calibrant._atomic_file import replace_file
from calibrant._kernels.rows import row_hashes
from calibrant._solvers import prior_shift
from calibrant.monitor._evidence import Evidence, MeanSequence, Periods, make_bets, make_block
from calibrant.monitor._results import MonitorStatus, UnlabelledReport

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from calibrant._types import Array, Floats, Labels, Wholes

MOST_DIGESTS = 4096
"""Number of digests that are remembered, two of a batch with a name."""

FORMAT, VERSION = "calibrant.monitor", 5
KNOWN = {"format": FORMAT, "version": VERSION}
"""What the first line of a saved monitor says."""

FEWEST_KINDS = 30
"""Distinct rows that tell a batch from others: of m rows each, another batch has as many of each
with a chance of about (2 pi m)^-15; with fewer kinds, two batches may be equal by chance."""
HASHED_DIGITS, HASHED_OFFSET = 1e9, 0.3819660112501051
"""Rows are hashed by these digits; the offset keeps simple fractions from where they jump."""


def _check_name(name: str, value: object) -> str | None:
    """Return a name; refuse other things than text and None."""
    if value is None or (isinstance(value, str) and value):
        return value
    raise errors.ParameterError(
        f"{name}={value!r:.60} must be text, or None", argument=name, value=value
    )


class CalibrationMonitor:
    """Monitor the calibration of served probabilities, with a bound on false alarms.

    Recalibrations fitted to the rows counted so far bet against the probabilities of new rows;
    their mean wealth is an e-process. If the probabilities are calibrated, the probability that it
    ever reaches 1 / alpha is at most alpha, however often it is checked.

    Parameters
    ----------
    alpha : float, default=0.01
        Probability of any false alarm, over all time.
    classes : array-like of shape (n_classes,), optional
        Label of each column; needed if the first batch lacks a class.
    run_length : float, default=1000000
        Smallest mean number of rows before the change detector finds a change where there is none.
    model : str, optional
        Name of the model that is monitored, such as the SHA-256 of its model file; a
        saved monitor remembers it, and :meth:`load` refuses another.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,) or None
        Label of each column, from the first batch on.
    periods_ : Periods
        Sums over at most 64 periods, which :func:`write_page` draws.

    Notes
    -----
    The bound holds for probabilities that are calibrated given all rows counted before. Batches
    count in the order in which they are passed: if the delay of a label depends on the outcome,
    wait equally long for all. Within a batch rows count in the order of ``time``; rows of equal
    times, or all without it, in an order computed from their probabilities, so that a file sorted
    by label is no evidence. Probabilities below 1e-6 count as 1e-6, so that a single row multiplies
    the e-value by at most a million.

    References
    ----------
    .. [1] A. Ramdas, P. Grünwald, V. Vovk and G. Shafer, "Game-Theoretic Statistics and Safe
       Anytime-Valid Inference", Statistical Science 38, 2023.
    .. [2] A. Henzi and J. F. Ziegel, "Valid sequential inference on probability forecast
       performance", Biometrika 109, 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.monitor import CalibrationMonitor
    >>> rng = np.random.default_rng(0)
    >>> def day(power):
    ...     p = rng.dirichlet([1, 1, 1], 500)
    ...     q = p**power / (p**power).sum(axis=1, keepdims=True)  # what really happens
    ...     return p, [rng.choice(3, p=row) for row in q]
    >>> monitor = CalibrationMonitor(alpha=0.01)
    >>> any(monitor.update(*day(1.0)).alarm for _ in range(10))
    False
    >>> for _ in range(10):
    ...     status = monitor.update(*day(0.5))
    >>> status.alarm, 5000 < status.alarm_row < 6500
    (True, True)
    """

    KEPT: ClassVar[tuple[str, ...]] = (
        *("alpha", "run_length", "model", "periods_", "_alarm_row", "_digests"),
        *("_evidence", "_accuracy", "_confidence", "_gap", "_sums"),
    )

    def __init__(
        self,
        alpha: float = 0.01,
        *,
        classes: ArrayLike | None = None,
        run_length: float = 1_000_000,
        model: str | None = None,
    ) -> None:
        gate.check_number("alpha", alpha, low=1e-12, high=0.5)
        gate.check_number("run_length", run_length, low=1.0, high=1e15)
        self.alpha, self.run_length = float(alpha), float(run_length)
        self.model = _check_name("model", model)
        self.classes_ = None if classes is None else check_classes(np.array(classes))
        self.periods_ = Periods()
        self._alarm_row: int | None = None
        self._accuracy, self._confidence = MeanSequence(0.0, 1.0), MeanSequence(0.0, 1.0)
        self._gap = MeanSequence(-1.0, 1.0)
        self._digests: list[str] = []  # of the last batches, the oldest first
        self._begin(2)  # until the first batch tells how many classes there are

    def _begin(self, n_classes: int) -> None:
        """Start the evidence for ``n_classes`` classes."""
        self._sums = np.zeros(n_classes)  # of probabilities
        self._evidence = Evidence(make_bets(n_classes), self.run_length)

    def update(
        self,
        probabilities: ArrayLike,
        y: ArrayLike,
        time: ArrayLike | None = None,
        *,
        batch: str | None = None,
        again: bool = False,
    ) -> MonitorStatus:
        """Count rows whose labels are known.

        Parameters
        ----------
        probabilities : array-like of shape (n_rows, n_classes)
            What was served.
        y : array-like of shape (n_rows,)
            True labels.
        time : array-like of shape (n_rows,), optional
            Numbers or dates: rows of a batch count in this order, and equal batches are told apart.
            Without it the order of rows within a batch does not matter. Pass
            ``np.arange(n_rows)`` for a long past at once whose order is that of time.
        batch : str, optional
            Name of the batch, such as that of its file and day: one that was counted is refused.
        again : bool, default=False
            Whether to count a batch that was counted before.

        Returns
        -------
        status : MonitorStatus
            As in :meth:`status`.

        Raises
        ------
        RepeatedBatchError
            If a batch of this name is among the last 2048, or one of equal rows, in any order,
            with equal times. Rows of fewer than 30 kinds may be equal by chance, and are counted.
        """
        rows = read_batch(self.classes_, probabilities, y, time)
        digests = batch_digests(rows, _check_name("batch", batch))
        if not again and not set(digests).isdisjoint(self._digests):
            raise errors.RepeatedBatchError(
                f"this batch of {len(rows.p)} rows was counted before, and a row counts once; if "
                "they are new rows with equal values, pass time= with both batches, or again=True"
            )
        if self._evidence.n_rows == 0:
            self.classes_ = rows.classes
            self._begin(len(rows.classes))
        self._digests = [*self._digests, *digests][-MOST_DIGESTS:]
        self._count(*in_counting_order(rows))
        return self.status()

    def update_unlabelled(self, probabilities: ArrayLike) -> UnlabelledReport:
        """Report on rows without labels; the monitor does not change.

        Parameters
        ----------
        probabilities : array-like of shape (n_rows, n_classes)
            What was served.

        Returns
        -------
        report : UnlabelledReport
            Expected accuracy and confusion matrix, and class frequencies with a test, compared with
            the labelled rows counted so far. Whether the probabilities are right it cannot see.
        """
        shape, classes = np.shape(probabilities), self.classes_
        if classes is None:
            classes = np.arange(max(2, *shape[1:]))
        y = np.repeat(classes[:1], shape[0] if shape else 1)  # any labels will do
        p = _check(classes, probabilities, y).scores
        predicted, n_labelled = np.zeros(p.shape), self._evidence.n_rows
        predicted[np.arange(len(p)), p.argmax(axis=1)] = 1.0
        priors, p_value = None, math.nan
        if n_labelled:
            before = self._sums / self._sums.sum()  # frequencies in the labelled rows
            priors, _ = prior_shift.solve_priors(p, before)
            p_value = prior_shift.prior_shift_test(p, before, priors, n_labelled).p_value
        accuracy = float(p.max(axis=1).mean())
        return UnlabelledReport(len(p), accuracy, p.T @ predicted, priors, p_value)

    def _count(self, p: Floats, label: Wholes) -> None:
        """Add checked rows to all that is kept."""
        top = p.argmax(axis=1)
        confidence, hit = p[np.arange(len(top)), top], (top == label).astype(np.float64)
        n_before = self._evidence.n_rows
        path = self._evidence.count(make_block(p, label))
        reached = path >= -math.log(self.alpha)
        if self._alarm_row is None and reached.any():
            self._alarm_row = n_before + int(reached.argmax()) + 1
        self._accuracy.count(hit)
        self._confidence.count(confidence)
        self._gap.count(hit - confidence)
        self.periods_.add(confidence, hit, path)
        self._sums += p.sum(axis=0)

    def status(self) -> MonitorStatus:
        """Return the current state of the monitor.

        Returns
        -------
        status : MonitorStatus
            Evidence, alarm, means with their intervals, and what the last rows look like.
        """
        evidence = self._evidence
        log_e, bets = evidence.log_wealth, evidence.bets
        has_factors = evidence.n_rows > 0 and "classes, recent" in bets
        factors = np.exp(bets["classes, recent"].value) if has_factors else np.zeros(0)
        return MonitorStatus(
            n_rows=evidence.n_rows,
            e_value=math.exp(log_e) if log_e < 709.0 else math.inf,
            log_e_value=log_e,
            largest_log_e_value=evidence.log_largest,
            alarm=self._alarm_row is not None,
            alarm_row=self._alarm_row,
            change_row=evidence.change_row,
            accuracy=self._accuracy.estimate(self.alpha),
            confidence=self._confidence.estimate(self.alpha),
            gap=self._gap.estimate(self.alpha),
            power=1.0 + float(bets["temperature, recent"].value[0]),
            class_factors=tuple(factors.tolist()),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the monitor to a file, atomically; at most 1 MB, without pickle.

        Parameters
        ----------
        path : path-like
            File to write or replace.
        """
        classes = None if self.classes_ is None else self.classes_.tolist()
        state = {"classes": classes, **_kept(self)}
        text = json.dumps(state, default=_to_json, separators=(",", ":"))
        head = json.dumps(KNOWN | {"sha256": _digest(text)})
        with replace_file(path) as file:
            file.write(f"{head}\n{text}\n".encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, model: str | None = None) -> CalibrationMonitor:
        """Load a saved monitor.

        Parameters
        ----------
        path : path-like
            File written by :meth:`save`.
        model : str, optional
            Model whose rows are to be counted. If the monitor was begun with another, it is
            refused: the evidence against one model says nothing about the next.

        Returns
        -------
        monitor : CalibrationMonitor
            The saved monitor.

        Raises
        ------
        StatisticsError
            If the file is not the state of a monitor, is damaged, or is that of another model.
        """
        content = Path(path).read_bytes()
        try:
            head, _, body = content.decode().partition("\n")
            header = json.loads(head)
            if not isinstance(header, dict) or header | KNOWN != header:
                raise errors.StatisticsError(f"its format is not {FORMAT}, version {VERSION}")
            if header.get("sha256") != _digest(body.rstrip("\n")):
                raise errors.StatisticsError(
                    "its checksum does not match, so it is damaged or was edited"
                )
            state = json.loads(body)
            monitor = cls(state["alpha"], classes=state["classes"], run_length=state["run_length"])
            monitor._begin(len(state["_sums"]))
            _restore(monitor, state)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise errors.StatisticsError(
                f"{path} is not the state of a monitor: {str(error)[:300]}; restore it from a "
                "backup, or count all batches again into a new file"
            ) from error
        if model is not None and monitor.model not in (None, model):
            raise errors.StatisticsError(
                f"{path} is the state of the model {monitor.model:.12}, not of {model:.12}, whose "
                "rows are other evidence; start a new state file for it"
            )
        monitor.model = monitor.model if model is None else model
        return monitor


class Kept(Protocol):
    """A part of a monitor, which names what a state has of it."""

    KEPT: ClassVar[tuple[str, ...]]


def _kept(part: Kept) -> dict[str, object]:
    """Return what a state has of a part."""
    return {name: getattr(part, name) for name in part.KEPT}


def _to_json(part: Kept | Array) -> object:
    """Return an array or a part as JSON can write it."""
    return part.tolist() if isinstance(part, np.ndarray) else _kept(part)


def _restore(part: Kept, state: Mapping[str, Any]) -> None:
    """Set what a state has of a part, and of the parts of it."""
    for name in part.KEPT:
        own, value = getattr(part, name), state[name]
        if hasattr(own, "KEPT"):
            _restore(own, value)
        elif isinstance(own, dict):
            for key, each in own.items():
                _restore(each, value[key])
        elif isinstance(own, np.ndarray):
            # An empty list of rows has lost how many columns they have.
            shape = np.shape(value) if value else own.shape
            setattr(part, name, np.array(value, own.dtype).reshape(shape))
        else:
            setattr(part, name, value)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# Batches, checked before anything of them is counted


class _MonitorArguments(errors.Arguments):
    """Names of the arguments of a monitor in messages."""

    scores = "probabilities"
    if_logits = "a monitor needs the probabilities that were served, after calibration"
    if_untold = "pass classes= with the label of each column to CalibrationMonitor"


NAMED = _MonitorArguments()


class CheckedRows(NamedTuple):
    """Checked rows; labels are columns."""

    p: Floats
    label: Wholes
    classes: Labels
    time: Floats | None
    key: NDArray[np.uint64]
    """Hash of the probabilities."""


def _check(classes: Labels | None, probabilities: ArrayLike, y: ArrayLike) -> gate.SimplexBatch:
    """Return checked rows, with the columns of their labels."""
    # Two classes may be one column, or one number a row: the probability of the second.
    shape = np.shape(probabilities)
    kind = "positive" if len(shape) == 1 or shape[1:] == (1,) else "probabilities"
    with errors.naming(NAMED):
        return gate.check_batch(probabilities, y, kind=kind, classes=classes, is_chunk=True)


def read_batch(
    classes: Labels | None, probabilities: ArrayLike, y: ArrayLike, time: ArrayLike | None
) -> CheckedRows:
    """Check labelled rows."""
    batch = _check(classes, probabilities, y)
    # The last digit of a cell is of how the sum of its row was rounded.
    cells = (HASHED_DIGITS * batch.scores + HASHED_OFFSET).astype(np.int64)
    key = row_hashes(cells, np.zeros(len(cells), dtype=np.intp))
    times = None if time is None else _read_times(time, len(cells))
    known = check_classes(batch.classes)
    return CheckedRows(batch.scores, batch.class_index, known, times, key)


def check_classes(classes: Labels) -> Labels:
    """Refuse classes that a state cannot hold, before anything is counted."""
    try:
        json.dumps(classes.tolist())
    except TypeError as error:
        raise errors.LabelError(
            f"the class {classes[0]!s:.60} cannot be saved: a monitor needs text, numbers or "
            "booleans",
            remedy="convert labels and classes= to text",
            argument="classes",
        ) from error
    return classes


def _read_times(time: ArrayLike, n_rows: int) -> Floats:
    """Return numbers as they are, and dates as numbers, of UTC if they have no zone."""
    stored = np.asarray(time)
    if stored.shape != (n_rows,):
        problem = f"time has shape {stored.shape}, but probabilities has {n_rows} rows"
        raise errors.ShapeError(problem, remedy="pass one number or date for each", argument="time")
    try:
        if stored.dtype.kind not in "iuf":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of numpy, about zones: it heeds them
                dates = stored.astype("datetime64[us]")
            stored = np.where(np.isnat(dates), np.nan, dates.astype(np.int64))
    except (TypeError, ValueError) as error:
        problem = f"time has values that are neither numbers nor dates ({error})"
        remedy = "pass numbers, datetimes, or text such as 2026-01-31T12:00"
        raise errors.DataError(problem, remedy=remedy, argument="time") from error
    if not np.isfinite(stored).all():
        raise errors.NonFiniteError(
            "is missing",
            remedy="pass a time for every row, or leave time out",
            argument="time",
            row=int(np.argmin(np.isfinite(stored))),
        )
    return stored.astype(np.float64)


def in_counting_order(rows: CheckedRows) -> tuple[Floats, Wholes]:
    """Return rows and labels by their times, by a hash of the rows where these are equal.

    Files are sorted by label, or by score, and bets would learn that order. One that does not
    depend on labels makes none of them predictable. Equal rows are shuffled by their number.
    """
    order = np.argsort(rows.key, kind="stable")
    is_first = np.append(True, np.diff(rows.key[order]) != 0)
    if not is_first.all():
        place, number = np.arange(len(order)), np.empty(len(order), dtype=np.int64)
        number[order] = place - np.maximum.accumulate(np.where(is_first, place, 0))
        numbered = np.column_stack([rows.key.view(np.int64), number])
        order = np.argsort(row_hashes(numbered, np.zeros_like(place)), kind="stable")
    if rows.time is not None:
        order = order[np.argsort(rows.time[order], kind="stable")]
    return rows.p[order], rows.label[order]


def batch_digests(rows: CheckedRows, batch: str | None) -> list[str]:
    """Return digests that a batch is known by: of its name, and of its rows in any order."""
    contents = [] if batch is None else [b"name" + batch.encode()]
    hashes, kind = rows.key + rows.label.astype(np.uint64), b"rows"
    if rows.time is not None:
        moments = np.column_stack([hashes.view(np.int64), rows.time.view(np.int64)])
        hashes, kind = row_hashes(moments, np.zeros(len(hashes), dtype=np.intp)), b"time"
    if len(np.unique(hashes)) >= FEWEST_KINDS:
        contents.append(kind + np.sort(hashes).tobytes())
    return [hashlib.blake2b(content, digest_size=8).hexdigest() for content in contents]
