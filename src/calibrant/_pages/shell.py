"""The shell of every page: one HTML file whose policy forbids all that it does not hold."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from calibrant import __version__
from calibrant._extras import advice
from calibrant._text import printable, visible

try:
    from jinja2 import DictLoader, Environment, StrictUndefined
    from markupsafe import Markup
except ImportError as error:
    raise ImportError(f"reports need jinja2; {advice()}") from error

__all__ = ["Markup", "render_page"]


def render_page(
    room: str,
    *,
    template: str = "page.html.jinja",
    has_images: bool = False,
    style_of: str | None = None,
    **context: object,
) -> str:
    """Return the page of a package, from its template and ``page.css``.

    The template extends ``shell.html.jinja``, which needs ``title`` and ``sections``. There are no
    scripts. ``style_of`` is another package whose style the page has.
    """
    css = _read("calibrant._pages", "shell.css") + _read(style_of or room, "page.css")
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    policy = ["default-src 'none'", f"style-src 'sha256-{digest}'"]
    policy += ["img-src data:"] * has_images
    templates = {
        "shell.html.jinja": _read("calibrant._pages", "shell.html.jinja"),
        "page.html.jinja": _read(room, template),
    }
    environment = Environment(
        loader=DictLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,  # not Markup
    )
    environment.filters["clean"] = printable
    page = environment.get_template("page.html.jinja").render(
        version=__version__,
        policy="; ".join([*policy, "base-uri 'none'", "form-action 'none'"]),
        css=css,
        **context,
    )
    return page + "\n"


def _read(room: str, name: str) -> str:
    return resources.files(room).joinpath(name).read_text(encoding="utf-8")
