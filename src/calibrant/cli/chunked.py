"""``fit`` and ``evaluate`` on directories, and on tables larger than memory."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from calibrant.cli.progress import progress_bar

if TYPE_CHECKING:
    from pathlib import Path

    from calibrant.calibrators.base import Calibrator
    from calibrant.cli.reading import Reading
    from calibrant.files.directory import TableChunks
    from calibrant.metrics.evaluation import Evaluation
    from calibrant.metrics.shares import ClassShares
    from calibrant.metrics.significance import CalibrationTest

ARENA_MAX = -8  # of malloc.h

TEST_DRAWS = 5
"""Draws of the calibration test for each resample behind the intervals."""

chunks_option = click.option(
    "--chunks", is_flag=True, help="Read a table in chunks, as a directory is: it may be large."
)


def open_chunks(path: Path, part: str | None, reading: Reading, advance: Any) -> TableChunks:
    """Open tables to be read in chunks; refuse options that are for single files."""
    # The usual allocator of Arrow reserves a gibibyte at once, and each thread its part.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    import pyarrow as pa

    from calibrant.files.directory import TableChunks

    if part is not None:
        raise click.UsageError(f"--part is for npz files; {path} is read in chunks")
    if reading.labels is not None:
        raise click.UsageError(f"--labels is for npy files; the tables of {path} have a column")
    with suppress(
        AttributeError, OSError, TypeError
    ):  # glibc's: an arena for each thread would be reserved
        ctypes.CDLL(None).mallopt(ARENA_MAX, 1)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    kind = reading.kind or "probabilities"
    if reading.normalize and kind == "logits":
        raise click.UsageError(f"--normalize is for probabilities; {path} holds logits")
    return TableChunks(
        path, wish=reading.wish, kind=kind, classes=reading.classes, progress=advance
    )


def evaluate_chunks(
    path: Path, part: str | None, reading: Reading, bins: int, resamples: int, seed: int
) -> tuple[Evaluation, CalibrationTest | None, ClassShares]:
    """Measure all rows, in one pass."""
    from calibrant.metrics.counted import known_classes
    from calibrant.metrics.statistics import MetricStatistics, usual_groups

    with progress_bar(f"reading {path}") as advance:
        chunks = open_chunks(path, part, reading, advance)
        classes = known_classes(chunks, chunks.classes)
        empty = MetricStatistics(
            classes,
            scores=reading.kind or "probabilities",
            normalize=reading.rows,
            n_bins=bins,
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
    method: str,
    path: Path,
    part: str | None,
    reading: Reading,
    kept: Path | None,
    decay: float,
) -> tuple[Calibrator, int]:
    """Fit to all rows; return the calibrator and how many they are.

    ``kept`` is where statistics are found and left: files that they have counted are not counted
    again, and older ones weigh ``decay`` times less.
    """
    from calibrant.calibrators.methods import make_calibrator
    from calibrant.files.ledger import Ledger

    with progress_bar(f"reading {path}") as advance:
        chunks = open_chunks(path, part, reading, advance)
        calibrator = make_calibrator(
            method,
            scores=reading.kind or "probabilities",
            classes=chunks.classes,
            normalize=reading.rows,
        )
        if kept is not None and not hasattr(calibrator, "partial_fit"):
            raise click.UsageError(
                f"--statistics is for methods that can add rows to others; {method} cannot"
            )
        empty = calibrator.statistics(chunks)
        if kept is None:
            counted = chunks.count(empty)
            calibrator.fit_statistics(counted, chunks)
            return calibrator, counted.n_rows
        ledger = Ledger(empty, path, kept)
        new = ledger.new_files(chunks.files)
        if new and ledger.sizes:
            ledger.decay(decay)
        for file, counted in zip(new, chunks.count_each(empty, new), strict=True):
            ledger.add(file, counted)
        again = chunks if ledger.can_repeat(chunks.files) else None
        calibrator.fit_statistics(ledger.statistics, again)
    return calibrator, ledger.statistics.n_rows
