"""The one decorator of all kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba

if TYPE_CHECKING:
    from collections.abc import Callable


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile ``function`` at its first call, and keep the machine code on disk if possible.

    No signatures, so read-only arrays are accepted; no ``fastmath``, which deletes checks for
    NaN; no ``parallel``, whose default threading layer aborts when two Python threads meet.
    ``nogil`` lets callers run chunks in threads of their own.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        compiled: Any = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no writable place for the cache, as in a read-only install
        compiled = numba.njit(**options)(function)
    return compiled  # type: ignore[no-any-return]
