"""Small products of matrices on one thread: waiting for others takes longer than the product."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

LARGE = 1_000_000_000
"""Multiplications in one product from which more than one thread is worth having."""


@cache
def _controller() -> Any:
    return ThreadpoolController()  # looks at every library that is loaded: 20 ms


def few_threads(n_rows: int, n_classes: int) -> AbstractContextManager[Any]:
    """Give products of (rows x classes) and (classes x classes) the threads that they are worth.

    The number of threads belongs to the process, and OpenBLAS lets only the main thread change it.
    So no two threads can undo each other's limits here, and fits in other threads have none.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or n_rows * n_classes**2 >= LARGE:
        return nullcontext()
    limit: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limit
