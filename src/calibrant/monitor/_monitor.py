"""``CalibrationMonitor``: whether served probabilities are still right, asked at every moment."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from calibrant import _gate as gate
from calibrant import errors
from calibrant._atomic_file import replace_file
from calibrant.monitor._evidence import Evidence, make_bets, make_block
from calibrant.monitor._reading import (
    batch_digests,
    check_classes,
    in_counting_order,
    read_batch,
    read_unlabelled,
)
from calibrant.monitor._results import MeanSequence, MonitorStatus, Periods, report_unlabelled

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from calibrant._types import Floats, Wholes
    from calibrant.monitor._results import UnlabelledReport

MOST_DIGESTS = 4096
"""Number of digests that are remembered, two of a batch with a name."""

FORMAT, VERSION = "calibrant.monitor", 5
"""What the first line of a saved monitor says."""


def _check_name(name: str, value: object) -> str | None:
    """Return a name; refuse other things than text and None."""
    if value is not None and (not isinstance(value, str) or not value):
        raise errors.ParameterError(f"{name}={value!r:.60} must be text, or None")
    return value


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
        rows, classes = read_batch(self.classes_, probabilities, y, time)
        digests = batch_digests(rows, _check_name("batch", batch))
        if not again and not set(digests).isdisjoint(self._digests):
            raise errors.RepeatedBatchError(
                f"this batch of {len(rows.p)} rows was counted before, and a row counts once; if "
                "they are new rows with equal values, pass time= with both batches, or again=True"
            )
        if self._evidence.n_rows == 0:
            self.classes_ = classes
            self._begin(len(classes))
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
        p = read_unlabelled(self.classes_, probabilities)
        return report_unlabelled(p, self._sums, self._evidence.n_rows)

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
        with replace_file(path) as file:
            classes = None if self.classes_ is None else self.classes_.tolist()
            file.write(_to_text({"classes": classes} | _pack(self)).encode())

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
            state = _from_text(content.decode())
            monitor = cls(state["alpha"], classes=state["classes"], run_length=state["run_length"])
            monitor._begin(len(state["_sums"]))
            _unpack(monitor, state)
        except (ValueError, TypeError, LookupError, RecursionError) as error:
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


# The state of a monitor as text: JSON, after a line with its checksum


def _pack(thing: object) -> Any:
    """Return the attributes listed in KEPT, of parts and of dictionaries of parts alike."""
    if isinstance(thing, np.ndarray):
        return thing.tolist()
    if isinstance(thing, dict):
        return {name: _pack(part) for name, part in thing.items()}
    if not hasattr(thing, "KEPT"):
        return thing
    return {name: _pack(getattr(thing, name)) for name in thing.KEPT}


def _unpack(thing: Any, state: dict[str, Any]) -> None:
    """Set the attributes listed in KEPT of an object, and of its parts, to those of a state."""
    for name in thing.KEPT:
        part, value = getattr(thing, name), state[name]
        if hasattr(part, "KEPT"):
            _unpack(part, value)
        elif isinstance(part, dict):
            for key, each in part.items():
                _unpack(each, value[key])
        else:
            is_array = isinstance(part, np.ndarray)
            # An empty list of rows has lost how many columns they have.
            shape = part.shape if is_array and not value else np.shape(value)
            setattr(thing, name, np.array(value, part.dtype).reshape(shape) if is_array else value)


def _to_text(state: Mapping[str, object]) -> str:
    """Return a state as JSON, after a line with its checksum."""
    text = json.dumps(state, separators=(",", ":"))
    head = {"format": FORMAT, "version": VERSION, "sha256": _digest(text)}
    return f"{json.dumps(head)}\n{text}\n"


def _from_text(text: str) -> dict[str, Any]:
    """Read a state back; refuse text that ``_to_text`` has not written."""
    head, _, body = text.partition("\n")
    header = json.loads(head)
    known = {"format": FORMAT, "version": VERSION}
    if not isinstance(header, dict) or not known.items() <= header.items():
        raise errors.StatisticsError(f"its format is not {FORMAT}, version {VERSION}")
    if header.get("sha256") != _digest(body.rstrip("\n")):
        raise errors.StatisticsError("its checksum does not match, so it is damaged or was edited")
    state: dict[str, object] = json.loads(body)
    return state


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
