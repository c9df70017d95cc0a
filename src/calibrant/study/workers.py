"""Processes that compute tasks; the death of one costs its task a second try, and no other."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter, deque
from contextlib import contextmanager, suppress
from multiprocessing import connection, get_context, parent_process, resource_tracker
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_POOLS = ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "VECLIB_MAXIMUM")
ONE_THREAD = {f"{pool}_THREADS": "1" for pool in _POOLS}
TRIES = 2


class Death(NamedTuple):
    """In place of a result: the process died in every try, last with this exit code."""

    exit_code: int | None


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def compute(
    function: Callable[[Any], Any], tasks: Sequence[Any], n_workers: int
) -> Iterator[tuple[Any, Any]]:
    """Compute tasks in processes, in the order given; yield each with its result when it is done.

    The function is importable and raises nothing, tasks can be hashed and pickled. Processes use
    one thread each, and end with this process however it ends. The result is a :class:`Death` if
    the process died in both tries; that none can be started is a RuntimeError.
    """
    waiting = deque(tasks)
    tries: Counter[Any] = Counter()
    workers = [_Worker(function) for _ in range(min(n_workers, len(waiting)))]
    try:
        while workers:
            for found in connection.wait([worker.pipe for worker in workers]):
                worker = next(w for w in workers if w.pipe is found)
                task, result = worker.receive()
                if isinstance(result, Death):
                    workers.remove(worker)
                    tries[task] += 1
                    if tries[task] < TRIES:
                        waiting.append(task)
                    else:
                        yield task, result
                    if waiting:
                        workers.append(_Worker(function))
                    continue
                if task is not None:
                    yield task, result
                if waiting:
                    worker.send(waiting.popleft())
                else:
                    worker.stop()
                    workers.remove(worker)
    finally:
        for worker in workers:
            worker.kill()


class _Worker:
    """A process, the pipe to it and the task that it has."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        context = get_context("spawn")  # a fork would copy the locks of other threads
        self.pipe, theirs = context.Pipe()
        self.task: Any = None
        self._is_ready = False
        self._process = context.Process(target=_serve, args=(theirs, function), daemon=True)
        with _one_thread(), _deaf_to_interrupts():
            self._process.start()
        theirs.close()  # so that the pipe ends when the process does

    def send(self, task: Any) -> None:
        self.task = task
        with suppress(OSError):  # it died meanwhile: the end of the pipe will say so
            self.pipe.send(task)

    def receive(self) -> tuple[Any, Any]:
        """Return the task and its result; no task with the first message, which says "ready"."""
        task, self.task = self.task, None
        try:
            result = self.pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            self.pipe.close()
            if not self._is_ready:
                raise RuntimeError(
                    "a worker process ended before it began; in a script, call run_study under "
                    'if __name__ == "__main__":, or pass n_jobs=0'
                ) from None
            return task, Death(self._process.exitcode)
        self._is_ready = True
        return task, result

    def stop(self) -> None:
        """Let it end: it has nothing to do."""
        self.pipe.close()
        self._process.join()

    def kill(self) -> None:
        self._process.kill()
        self.stop()


def _serve(pipe: Any, function: Callable[[Any], Any]) -> None:
    """Compute one task after the other until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the parent decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        pipe.send("ready")
        while True:
            pipe.send(function(pipe.recv()))


def _end_with_parent() -> None:
    """Do not go on computing for a parent that was killed."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Start processes with one thread for linear algebra: there is one of them for each core."""
    kept = {name: os.environ[name] for name in ONE_THREAD if name in os.environ}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name in ONE_THREAD:
            del os.environ[name]
        os.environ.update(kept)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Let a process that is starting inherit a mask for Ctrl-C."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # with the first process it would start, and lift the mask
    kept = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, kept)
