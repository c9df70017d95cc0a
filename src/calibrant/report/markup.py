"""What pages are made with; asked for only when a page is built."""

try:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup, escape
except ImportError as error:
    raise ImportError(
        "reports need jinja2; install it with: pip install 'calibrant[cli]'"
    ) from error

__all__ = ["Environment", "Markup", "StrictUndefined", "escape"]
