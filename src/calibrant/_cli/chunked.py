"""``fit`` and ``evaluate``: on directories, on tables larger than memory, and on files."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import click

from calibrant._cli.showing import naming
from calibrant._progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from calibrant._calibrators.base import Calibrator
    from calibrant._cli.reading import Reading
    from calibrant._files.align import Aligned
    from calibrant._files.directory import TableChunks
    from calibrant.metrics._cumulative import ClassShares
    from calibrant.metrics._significance import CalibrationTest
    from calibrant.metrics._table import Evaluation
    from calibrant.scale._statistics import Statistics

ARENA_MAX = -8  # of malloc.h

TEST_DRAWS = 5
"""Draws of the calibration test for each resample behind the intervals."""

chunks_option = click.option(
    "--chunks", is_flag=True, help="Read a table in chunks, if it is larger than memory."
)


class Fitted(NamedTuple):
    """A calibrator, the rows that it was fitted to, the rows that were read, and from where.

    Rows are fewer than were read where a method that needs them as they are got a sample.
    """

    calibrator: Calibrator
    n_rows: int
    n_read: int
    source: str

    @classmethod
    def to(
        cls, calibrator: Calibrator, statistics: Statistics, source: str, *, read_again: bool
    ) -> Self:
        """Say what a calibrator saw of the rows that statistics have counted."""
        from calibrant.scale._statistics import RowStatistics

        n_read = statistics.n_rows
        if isinstance(statistics, RowStatistics):
            needs_rows = calibrator.method != "auto"  # its stages see all rows
        else:  # the first pass tells others than these the rows that were kept
            needs_rows = not read_again and calibrator.method not in {"fir", "scir"}
        needs_rows &= not statistics.kept.is_complete
        return cls(calibrator, statistics.kept.n_rows if needs_rows else n_read, n_read, source)


def is_of_tables(path: Path) -> bool:
    """Whether a path is a directory of tables, which are read in chunks; logs are read whole."""
    from calibrant._files.records import is_log

    return path.is_dir() and not is_log(path)


def open_chunks(path: Path, part: str | None, reading: Reading, advance: Any) -> TableChunks:
    """Open tables to be read in chunks; refuse options that are for single files."""
    # The usual allocator of Arrow reserves a gibibyte at once, and each thread its part.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    import pyarrow as pa

    from calibrant._files.directory import TableChunks

    if part is not None:
        raise click.UsageError(f"--part is for npz files; {path} is read in chunks")
    if reading.labels is not None:
        raise click.UsageError(f"--labels is for npy files; tables of {path} use --label-column")
    with suppress(AttributeError, OSError, TypeError):  # glibc's: an arena for each thread
        ctypes.CDLL(None).mallopt(ARENA_MAX, 1)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    told: dict[str, Any] = {"classes": reading.classes, "positive": reading.positive}
    how: dict[str, Any] = {"selection": reading.selection, "kind": reading.kind}
    chunks = TableChunks(path, progress=advance, **how, **told)
    reading.refuse_to_normalize(path, chunks.kind)
    return chunks


def evaluate_file(
    found: Aligned,
    advance: Callable[..., None],
    bins: int,
    resamples: int,
    seed: int,
    *,
    ordered: bool = False,
    groups: Any = None,
) -> tuple[Evaluation, CalibrationTest | None, ClassShares]:
    """Measure a file that was read whole."""
    from calibrant import metrics

    matrix = found.probabilities()
    told: dict[str, Any] = {"classes": found.classes}
    draws = {"n_bins": bins, "random_state": seed, **told}
    shares = metrics.class_shares(found.y, matrix, **told)
    how = {"n_resamples": resamples, "ordered": ordered, "progress": advance, "groups": groups}
    result = metrics.evaluate(found.y, matrix, **how, **draws)
    if resamples == 0:
        return result, None, shares
    n_draws = resamples * TEST_DRAWS
    return result, metrics.calibration_test(found.y, matrix, n_resamples=n_draws, **draws), shares


def evaluate_chunks(
    path: Path,
    part: str | None,
    reading: Reading,
    bins: int,
    resamples: int,
    seed: int,
    *,
    ordered: bool = False,
) -> tuple[Evaluation, CalibrationTest | None, ClassShares]:
    """Measure all rows, in one pass."""
    from calibrant.metrics._reading import known_classes
    from calibrant.metrics._statistics import MetricStatistics
    from calibrant.metrics._table import usual_groups

    with progress_bar(f"reading {path}") as advance, naming(path):
        chunks = open_chunks(path, part, reading, advance)
        if reading.classes is None or reading.positive is not None:
            chunks.put_positive_last()
        classes = known_classes(chunks, chunks.classes)
        empty = MetricStatistics(
            classes,
            scores=chunks.kind,
            normalize=reading.rows,
            n_bins=bins,
            ordered=ordered,
            n_groups=usual_groups(len(classes), bins) if resamples else 1,
        )
        counted = chunks.count(empty)
        found = counted.solve(n_resamples=resamples, random_state=seed)
        test = None
        if resamples:
            n_draws = resamples * TEST_DRAWS
            test = counted.calibration_test(n_resamples=n_draws, random_state=seed)
        return found, test, counted.class_shares()


def fit_chunks(
    method: str, path: Path, part: str | None, reading: Reading, kept: Path | None, decay: float
) -> Fitted:
    """Fit to all rows.

    ``kept`` is where statistics are found and left: files that they have counted are not counted
    again, and older ones weigh ``decay`` times less.
    """
    from calibrant._calibrators.methods import make_calibrator
    from calibrant._files.ledger import Ledger

    with progress_bar(f"reading {path}") as advance, naming(path):
        chunks = open_chunks(path, part, reading, advance)
        if reading.positive is not None:
            chunks.put_positive_last(by_name=True)
        calibrator = make_calibrator(
            method, scores=chunks.kind, classes=chunks.classes, normalize=reading.rows
        )
        if kept is not None and not hasattr(calibrator, "partial_fit"):
            raise click.UsageError(
                f"--statistics needs a method with partial_fit, such as na-fir; {method} has none"
            )
        empty = calibrator.statistics(chunks)
        if kept is None:
            counted = chunks.count(empty)
            calibrator.fit_statistics(counted, chunks)
            return Fitted.to(calibrator, counted, str(path), read_again=True)
        ledger = Ledger(empty, path, kept)
        for files in ledger.runs(chunks.files, decay):
            for file, counted in zip(files, chunks.count_each(empty, files), strict=True):
                ledger.add(file, counted)
        again = chunks if ledger.can_repeat(chunks.files) else None
        calibrator.fit_statistics(ledger.statistics, again)
    return Fitted.to(calibrator, ledger.statistics, str(path), read_again=again is not None)
