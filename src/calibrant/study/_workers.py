"""Processes that compute tasks; the death of one costs its task a second try, and no other."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter, deque
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import Pipe, connection, get_context, resource_tracker
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MOST_TRIES = 2


def compute(
    function: Callable[[Any], Any], tasks: Sequence[object], n_workers: int
) -> Iterator[tuple[Any, Any]]:
    """Compute tasks in processes, in the order given; yield each with its result when it is done.

    The function is importable and raises nothing, tasks can be hashed and pickled. Processes end
    with this generator and with this process, however it ends. The result is None if the process
    died in both tries; that none can be started is a RuntimeError.
    """
    waiting, tries = deque(tasks), Counter[Any]()
    running: dict[Future[Any], tuple[ProcessPoolExecutor, Any]] = {}
    pools: list[ProcessPoolExecutor] = []
    life, end_of_life = Pipe(duplex=False)

    def start() -> None:
        # A pool of one: the death of its process would take the tasks of others with it.
        spawn = get_context("spawn")  # a fork would copy the locks of other threads
        pools.append(ProcessPoolExecutor(1, spawn, initializer=_begin, initargs=(life,)))
        with _blocked_interrupts():
            running[pools[-1].submit(os.getpid)] = pools[-1], None  # is it ready?

    try:
        for _ in range(min(n_workers, len(waiting))):
            start()
        while running:
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                pool, task = running.pop(done)
                is_dead = isinstance(done.exception(), BrokenProcessPool)
                if is_dead and task is None:
                    raise RuntimeError(
                        "a worker process ended before it started; in a script, call run_study "
                        'under if __name__ == "__main__":, or pass n_jobs=0'
                    )
                tries[task] += is_dead
                if is_dead and tries[task] < MOST_TRIES:
                    waiting.append(task)
                elif task is not None:
                    yield task, None if is_dead else done.result()
                if waiting and is_dead:
                    start()
                elif waiting:
                    task = waiting.popleft()
                    running[pool.submit(function, task)] = pool, task
    finally:
        end_of_life.close()  # which ends every process at once, whatever it does
        for pool in pools:
            pool.shutdown(cancel_futures=True)
        life.close()


def _begin(life: connection.Connection) -> None:
    """Prepare a process: Ctrl-C goes to all, and the parent decides when they end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(life,), daemon=True).start()


def _end_with(life: connection.Connection) -> None:
    """End this process when the other end of a pipe is closed, or whoever holds it is dead."""
    connection.wait([life])
    os._exit(1)


@contextmanager
def _blocked_interrupts() -> Iterator[None]:
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
