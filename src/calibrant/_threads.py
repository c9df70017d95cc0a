"""Work on several threads, with the bits, the warnings and the errors of one.

Tasks do not share what they write, and whoever sums over them does so in their order: that is why
the number of threads changes no bit.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from calibrant import _notices as notices
from calibrant import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from threadpoolctl import ThreadpoolController

Task = TypeVar("Task")
Found = TypeVar("Found")

LARGE = 1_000_000_000
"""Multiplications in one product of matrices from which it is worth threads of its own."""

FEW_CELLS = 20_000
"""Cells of a calibration set below which threads wait for each other longer than they work."""

_n_threads: ContextVar[int | None] = ContextVar("_n_threads", default=None)
"""Threads that work may use here; None where nobody has said."""

_is_worker: ContextVar[bool] = ContextVar("_is_worker", default=False)
"""Whether this is one of several threads already, which starts no others."""

_has_one_blas_thread: ContextVar[bool] = ContextVar("_has_one_blas_thread", default=False)
"""Whether products of matrices are kept to one thread."""


def check_jobs(name: str, n_jobs: object) -> None:
    """Refuse what is neither None nor a whole number other than 0."""
    is_whole = isinstance(n_jobs, int | np.integer) and not isinstance(n_jobs, bool)
    if n_jobs is not None and (not is_whole or n_jobs == 0):
        raise errors.ParameterError(
            f"{name}={errors.in_words(n_jobs)} is not a number of threads; use 1 or more, -1 for "
            "all cores, -2 for all but one, or None for joblib.parallel_config, else 1",
            argument=name,
            value=n_jobs,
        )


def count_threads(n_jobs: int | None = None) -> int:
    """Return how many threads ``n_jobs`` is here: one within a thread of ours or of joblib."""
    check_jobs("n_jobs", n_jobs)
    import joblib

    backend, configured = joblib.parallel.get_active_backend()
    has_threads = sys.platform != "emscripten"  # Pyodide cannot start any
    if _is_worker.get() or backend.nesting_level or not has_threads:
        return 1
    if n_jobs is None:
        n_jobs = _n_threads.get() or configured or 1
    return int(n_jobs) if n_jobs > 0 else max(1, joblib.cpu_count() + 1 + int(n_jobs))


@contextmanager
def jobs(n_jobs: int | None) -> Iterator[None]:
    """Let the work inside use as many threads as ``n_jobs`` says."""
    token = _n_threads.set(count_threads(n_jobs))
    try:
        yield
    finally:
        _n_threads.reset(token)


def each(work: Callable[[Task], Found], tasks: Sequence[Task]) -> Iterator[Found]:
    """Do each task on as many threads as there are for it, and yield what they return in order.

    The first task in order that fails ends it with its error, and warnings point to the line that
    asked.
    """
    n_threads = min(len(tasks), count_threads()) if len(tasks) > 1 else 1
    if n_threads == 1:
        yield from map(work, tasks)
        return
    # joblib would drop the context of whoever asks: names of arguments, and settings of numpy.
    contexts = [copy_context() for _ in tasks]

    def attempt(number: int) -> tuple[list[Warning], Any, Exception | None]:
        return contexts[number].run(_attempt, work, tasks[number])

    pool = ThreadPoolExecutor(n_threads, "calibrant", _apply_settings, _settings())
    is_stopped = False
    try:
        for kept, result, error in pool.map(attempt, range(len(tasks))):
            for warning in kept:
                notices.warn(warning)
            if error is not None:
                raise error
            yield result
    except KeyboardInterrupt:
        is_stopped = True  # now: what the threads still do is for nobody
        raise
    finally:
        pool.shutdown(wait=not is_stopped, cancel_futures=True)


def _attempt(
    work: Callable[[Task], Found], task: Task
) -> tuple[list[Warning], Found | None, Exception | None]:
    """Do a task in a thread; return its warnings, and its result or its error."""
    _is_worker.set(True)
    with notices.kept() as kept:
        try:
            return kept, work(task), None
        except Exception as error:  # noqa: BLE001  (raised again by who asked)
            return kept, None, error


def _settings() -> tuple[Any, ...]:
    """Return what belongs to the thread that asks, and not to the process."""
    config = {}
    if "sklearn" in sys.modules:  # whoever has not imported it has set nothing
        from sklearn import get_config

        config = get_config()
    return np.geterr(), config, _has_one_blas_thread.get()


def _apply_settings(errstate: Any, config: dict[str, object], has_one_blas_thread: bool) -> None:
    """Begin a thread with the settings of the one that asked."""
    np.seterr(**errstate)
    if config:
        from sklearn import set_config

        set_config(**config)
    if has_one_blas_thread:  # with OpenMP every thread has to say so for itself
        _blas().limit(limits=1)


@cache
def _blas() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    # Looks at every library that is loaded: 20 ms.
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def few_blas_threads(n_products: int) -> Iterator[None]:
    """Let a fit whose largest product has ``n_products`` multiplications use BLAS threads.

    The number of threads changes the last bits of a product, so it depends on its size alone.
    """
    if n_products >= LARGE or _is_worker.get():
        yield
        return
    token = _has_one_blas_thread.set(True)
    try:
        with _blas().limit(limits=1):
            yield
    finally:
        _has_one_blas_thread.reset(token)
