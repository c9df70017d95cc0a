"""The one decorator of all kernels."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numba
from numba.core.caching import FunctionCache

if TYPE_CHECKING:
    from collections.abc import Callable


class _Cache(FunctionCache):
    """Machine code on disk, if possible: where it cannot be kept or read, it is made again."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            found = super().load_overload(sig, target_context)
        except Exception:  # noqa: BLE001  (pickle raises anything on a file that was cut off)
            return None
        # Two processes that start at once may give one number to code for different arguments.
        return found if found is None or found.signature.args == tuple(sig) else None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(Exception):  # a full disk, or an index that was cut off
            super().save_overload(sig, data)


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile ``function`` at its first call, and keep the machine code on disk if possible.

    No signatures, so read-only arrays are accepted; no ``fastmath``, which deletes checks for
    NaN; no ``parallel``, whose default threading layer aborts when two Python threads meet.
    ``nogil`` lets callers run chunks in threads of their own.
    """
    compiled: Any = numba.njit(nogil=True, error_model="numpy")(function)
    if compiled is not function:  # as it is with NUMBA_DISABLE_JIT
        with suppress(RuntimeError):  # no writable place, as in a read-only install
            compiled._cache = _Cache(function)  # noqa: SLF001
    return compiled  # type: ignore[no-any-return]
