"""What a fit is: one frozen class for each kind of map, checked once, when it is made."""

from calibrant._maps.base import *  # noqa: F403
from calibrant._maps.curves import *  # noqa: F403
from calibrant._maps.logits import *  # noqa: F403
from calibrant._maps.steps import *  # noqa: F403

__all__ = sorted(  # noqa: PLE0605  (a list)
    name
    for name, value in globals().items()
    if isinstance(value, type) and value.__module__.startswith("calibrant._maps.")
)
