"""What pages are made with; asked for only when a page is built."""

from calibrant.extras import advice

try:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup, escape
except ImportError as error:
    raise ImportError(f"reports need jinja2; {advice()}") from error

__all__ = ["Environment", "Markup", "StrictUndefined", "escape"]
