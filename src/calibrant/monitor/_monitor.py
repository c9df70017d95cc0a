"""``CalibrationMonitor``: whether served probabilities are still right, asked at every moment."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import logsumexp

from calibrant import _gate as gate
from calibrant import errors
from calibrant._atomic_file import replace_file
from calibrant._kernels.rows import first_top_columns
from calibrant.monitor._bets import MOST_CLASSES_FULL, make_bets, make_block
from calibrant.monitor._evidence import Evidence
from calibrant.monitor._history import MeanSequence, Periods, RecentRows
from calibrant.monitor._reading import (
    Digests,
    check_classes,
    order_for_counting,
    read_rows,
    read_unlabelled,
)
from calibrant.monitor._results import MonitorStatus, report_unlabelled
from calibrant.monitor._state import from_text, pack, to_text, unpack

if TYPE_CHECKING:
    import os

    from numpy.typing import ArrayLike

    from calibrant._calibrators.base import Calibrator
    from calibrant.monitor._bets import Floats
    from calibrant.monitor._reading import CheckedRows
    from calibrant.monitor._results import Proposal, UnlabelledReport

MOST_GROUPS = 32
MOST_CLASSES_WITH_TERMS = 2000
"""Number of classes up to which there is a bet on class frequencies; of a group, 16."""


def _check_name(name: str, value: Any) -> str | None:
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
        Smallest mean number of rows between false alarms of the change detector.
    min_probability : float, default=1e-6
        Smaller probabilities are replaced by this, so that a single row multiplies the e-value by
        at most its inverse.
    model : str, optional
        Name of the model that is monitored, such as its :func:`calibrant.model_file.digest`; a
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
    by label is no evidence. Weights are at most 1: the evidence of a row is raised to that power.

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
        *("alpha", "min_probability", "run_length", "model", "periods_", "_alarm_row", "_digests"),
        *("_evidence", "_groups", "_log_largest", "_log_stake", "_log_wealth", "_means"),
        *("_recent", "_sums"),
    )

    def __init__(
        self,
        alpha: float = 0.01,
        *,
        classes: ArrayLike | None = None,
        run_length: float = 1_000_000,
        min_probability: float = 1e-6,
        model: str | None = None,
    ) -> None:
        gate.check_number("alpha", alpha, low=1e-12, high=0.5)
        gate.check_number("run_length", run_length, low=1.0, high=1e15)
        gate.check_number("min_probability", min_probability, low=1e-12, high=1e-2)
        self.alpha, self.run_length = float(alpha), float(run_length)
        self.min_probability = float(min_probability)
        self.model = _check_name("model", model)
        self.classes_ = None if classes is None else check_classes(np.array(classes))
        self._begin(2)  # until the first batch tells how many classes there are
        self._groups: dict[str, Evidence] = {}
        self._log_stake = 0.0  # log wealth when groups first came: half of it goes to them
        self._alarm_row: int | None = None
        self._log_wealth = self._log_largest = 0.0
        ranges = {"accuracy": (0.0, 1.0), "confidence": (0.0, 1.0), "gap": (-1.0, 1.0)}
        self._means = {name: MeanSequence(*ends) for name, ends in ranges.items()}
        self.periods_ = Periods()
        self._digests = Digests()
        self._recent = RecentRows()

    def update(
        self,
        probabilities: ArrayLike,
        y: ArrayLike,
        time: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
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
        sample_weight : array-like of shape (n_rows,), optional
            Weights in [0, 1], set before the label is known; weight 0 leaves a row out.
        groups : array-like of shape (n_rows,), optional
            Group of each row, at most 32. Half of the wealth is then bet by group, the j-th group
            to come having a share of 1 / (j (j + 1)) of it.
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
        rows, classes = read_rows(self.classes_, probabilities, y, time, sample_weight, groups)
        self._check_groups(rows.groups)
        self._digests.add(rows, _check_name("batch", batch), again=again)
        if self._evidence.n_rows == 0:
            self.classes_ = classes
            self._begin(len(classes))
        self._count(order_for_counting(rows))
        return self.status()

    def update_unlabelled(
        self,
        probabilities: ArrayLike,
        time: ArrayLike | None = None,
        *,
        batch: str | None = None,
        again: bool = False,
    ) -> UnlabelledReport:
        """Report on rows without labels; the e-value does not change.

        Parameters
        ----------
        probabilities : array-like of shape (n_rows, n_classes)
            What was served.
        time, batch, again : optional
            As in :meth:`update`.

        Returns
        -------
        report : UnlabelledReport
            Expected accuracy and confusion matrix, and class frequencies with a test, compared with
            the labelled rows counted so far; and what it cannot see.
        """
        rows = read_unlabelled(self.classes_, probabilities, time)
        self._digests.add(rows, _check_name("batch", batch), again=again)
        report = report_unlabelled(rows.p, self.alpha, self._sums, self._means["gap"].weight)
        self.periods_.add_unlabelled(rows.p.max(axis=1), self._log_wealth)
        return report

    def _check_groups(self, names: Any) -> None:
        n_groups = len({*self._groups, *([] if names is None else np.unique(names).tolist())})
        if n_groups > MOST_GROUPS:
            raise errors.ParameterError(
                f"groups has {n_groups} distinct values, counting earlier batches, but a "
                f"monitor has at most {MOST_GROUPS}; merge rare groups"
            )

    def _begin(self, n_classes: int) -> None:
        """Begin the evidence of all rows."""
        self._sums = np.zeros(n_classes)  # of probabilities
        has_class_terms = n_classes <= MOST_CLASSES_WITH_TERMS
        bets = partial(make_bets, n_classes, has_class_terms=has_class_terms)
        self._evidence = Evidence(bets(), self.run_length, level=bets)

    def _begin_group(self, name: str) -> None:
        """Begin the evidence of the rows of a group."""
        n_classes = len(self._sums)
        bets = make_bets(n_classes, has_class_terms=n_classes <= MOST_CLASSES_FULL)
        self._groups[name] = Evidence(bets)

    def _count(self, rows: CheckedRows) -> None:
        """Add checked rows to all that is kept."""
        p, label, weight = rows[:3]
        top = np.empty(len(p), dtype=np.intp)
        first_top_columns(p, top)
        confidence, hit = p[np.arange(len(p)), top], (top == label).astype(np.float64)
        n_before = self._evidence.n_rows
        path = self._evidence.count(make_block(p, label, weight, self.min_probability))
        if rows.groups is not None or self._groups:
            path = self._count_groups(path, rows)
        self._log_wealth = float(path[-1])
        self._log_largest = max(self._log_largest, float(path.max()))
        reached = path >= -math.log(self.alpha)
        if self._alarm_row is None and reached.any():
            self._alarm_row = n_before + int(reached.argmax()) + 1
        for name, values in zip(self._means, (hit, confidence, hit - confidence), strict=True):
            self._means[name].count(values, weight)
        self.periods_.add_labelled(confidence, hit, weight, path)
        self._sums += weight @ p
        self._recent.add(p, label, hit - confidence, weight)

    def _count_groups(self, path: Floats, rows: CheckedRows) -> Floats:
        """Let half of the wealth be bet group by group; return all of it after each row."""
        p, label, weight, names = rows[:4]
        if not self._groups:
            self._log_stake = self._log_wealth
        for name in [] if names is None else dict.fromkeys(names.tolist()):
            if name not in self._groups:
                self._begin_group(name)
        paths = np.empty((len(self._groups) + 1, len(p)))
        for path_of_group, (name, evidence) in zip(paths, self._groups.items(), strict=False):
            path_of_group[:] = evidence.log_wealth
            mine = np.flatnonzero(names == name) if names is not None else ()
            if len(mine):
                some = p[mine], label[mine], weight[mine]
                after = evidence.count(make_block(*some, self.min_probability))
                last = np.searchsorted(mine, np.arange(len(p)), side="right") - 1
                path_of_group[last >= 0] = after[last[last >= 0]]
        paths[-1] = 0.0  # of groups that may still come
        j = np.arange(1, len(paths))
        shares = np.append(-np.log(j * (j + 1.0)), -math.log(len(paths)))
        by_group = self._log_stake + logsumexp(paths + shares[:, None], axis=0)
        total: Floats = np.logaddexp(path, by_group) - math.log(2.0)
        return total

    def status(self) -> MonitorStatus:
        """Return the current state of the monitor.

        Returns
        -------
        status : MonitorStatus
            Evidence, alarms, and means with their intervals.
        """
        log_e, detector = self._log_wealth, self._evidence.detector
        return MonitorStatus(
            n_rows=self._evidence.n_rows,
            e_value=math.exp(log_e) if log_e < 709.0 else math.inf,
            log_e_value=log_e,
            largest_log_e_value=self._log_largest,
            alarm=self._alarm_row is not None,
            alarm_row=self._alarm_row,
            changes=tuple(detector.changes),
            detector=float(detector.sums.mean()),
            accuracy=self._means["accuracy"].estimate(self.alpha),
            confidence=self._means["confidence"].estimate(self.alpha),
            gap=self._means["gap"].estimate(self.alpha),
            recent_gap=self._recent.gap(self.alpha),
            n_recent=len(self._recent.gaps),
            groups=self._group_status(),
        )

    def _group_status(self) -> dict[str, dict[str, Any]]:
        """Return the evidence of each group, and whether its share alone is worth an alarm."""
        result = {}
        for j, (name, evidence) in enumerate(self._groups.items(), start=1):
            needed = math.log(2.0 * j * (j + 1.0) / self.alpha) - self._log_stake
            result[name] = {
                "n_rows": evidence.n_rows,
                "log_e_value": evidence.log_wealth,
                "threshold": needed,
                "alarm": evidence.log_largest >= needed,
            }
        return result

    def propose(self, calibrator: Calibrator | None = None) -> Proposal | None:
        """Fit a recalibration to recent rows, and measure its gain on later rows.

        Parameters
        ----------
        calibrator : calibrator, optional
            Calibrator of probabilities, which is fitted. By default ``StructuredScaling()``.

        Returns
        -------
        proposal : Proposal or None
            Its calibrator takes the probabilities that are served now: put it behind the model, or
            fit the model's own method to recent rows (``calibrant fit``). None while fewer than 100
            rows are kept, as of more than 400 classes, of which 40,000 cells are.
        """
        return self._recent.propose(calibrator, self.classes_)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the monitor to a file, atomically; at most 1 MB, without pickle.

        Parameters
        ----------
        path : path-like
            File to write or replace.
        """
        with replace_file(path) as file:
            classes = None if self.classes_ is None else self.classes_.tolist()
            file.write(to_text({"classes": classes} | pack(self)).encode())

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
            monitor = cls._of_state(from_text(content.decode()))
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

    @classmethod
    def _of_state(cls, state: dict[str, Any]) -> CalibrationMonitor:
        """Return the monitor of a state."""
        monitor = cls(state["alpha"], classes=state["classes"], run_length=state["run_length"])
        monitor._begin(len(state["_sums"]))
        for name in state["_groups"]:
            monitor._begin_group(name)
        unpack(monitor, state)
        return monitor
