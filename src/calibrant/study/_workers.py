"""Processes that compute tasks; the death of one costs its task a second try, and no other."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import Pipe, connection, get_context, resource_tracker
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")

MOST_TRIES = 2


def compute(
    function: Callable[[Task], Outcome], tasks: Sequence[Task], n_workers: int
) -> Iterator[tuple[Task, Outcome | None]]:
    """Compute tasks in processes, in the order given; yield each with its result when it is done.

    The function is importable and raises nothing, tasks can be pickled. Processes end with this
    generator and with this process, however it ends. The result is None if the process died in
    both tries; that none can be started is a RuntimeError.
    """
    life, end_of_life = Pipe(duplex=False)
    pools: list[ProcessPoolExecutor] = []
    own = threading.local()

    def start() -> ProcessPoolExecutor:
        # A pool of one: the death of its process would take the tasks of others with it.
        spawn = get_context("spawn")  # a fork would copy the locks of other threads
        pool = ProcessPoolExecutor(1, spawn, initializer=_begin, initargs=(life,))
        pools.append(pool)
        try:
            pool.submit(os.getpid).result()
        except BrokenProcessPool as error:
            raise RuntimeError(
                "a worker process ended before it started; in a script, call run_study "
                'under if __name__ == "__main__":, or pass n_jobs=0'
            ) from error
        return pool

    def run(task: Task) -> Outcome | None:
        """Compute a task in the process of this thread."""
        for _ in range(MOST_TRIES):
            own.pool = getattr(own, "pool", None) or start()
            try:
                result: Outcome = own.pool.submit(function, task).result()
            except BrokenProcessPool:
                own.pool = None
                if end_of_life.closed:
                    break
            else:
                return result
        return None

    if hasattr(signal, "pthread_sigmask"):
        resource_tracker.ensure_running()  # with the first process it would start, and lift masks
    threads = ThreadPoolExecutor(min(n_workers, len(tasks)) or 1, initializer=_block_interrupts)
    try:
        running = {threads.submit(run, task): task for task in tasks}
        for done in as_completed(running):
            yield running[done], done.result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        end_of_life.close()  # which ends every process at once, whatever it does
        threads.shutdown()
        for pool in pools:
            pool.shutdown()
        life.close()


def _begin(life: connection.Connection) -> None:
    """Prepare a process: Ctrl-C goes to all, and the parent decides when they end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(life,), daemon=True).start()


def _end_with(life: connection.Connection) -> None:
    """End this process when the other end of a pipe is closed, or whoever holds it is dead."""
    connection.wait([life])
    os._exit(1)


def _block_interrupts() -> None:
    """Let the processes that a thread starts inherit a mask for Ctrl-C."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
