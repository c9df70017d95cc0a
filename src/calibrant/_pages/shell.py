"""The shell of every page: one HTML file whose policy forbids all that it does not hold."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import Any

from calibrant import __version__
from calibrant._extras import advice
from calibrant._html import visible
from calibrant._text import clean

try:
    from jinja2 import DictLoader, Environment, StrictUndefined
    from markupsafe import Markup
except ImportError as error:
    raise ImportError(f"reports need jinja2; {advice()}") from error

__all__ = ["Markup", "render_page"]


def render_page(
    room: str, *, has_images: bool = False, style_of: str | None = None, **context: Any
) -> str:
    """Return the page of a package, from its ``page.html.jinja`` and ``page.css``.

    The template extends ``shell.html.jinja``, which needs ``title`` and ``sections``. A page with
    ``numbers`` has the script ``page.js``, which reads them; ``style_of`` is another package whose
    style it has.
    """
    css = _read("calibrant._pages", "shell.css") + _read(style_of or room, "page.css")
    script = _read(room, "page.js") if "numbers" in context else ""
    policy = ["default-src 'none'", f"style-src {_digest(css)}"]
    policy += [f"script-src {_digest(script)}"] * bool(script) + ["img-src data:"] * has_images
    templates = {
        "shell.html.jinja": _read("calibrant._pages", "shell.html.jinja"),
        "page.html.jinja": _read(room, "page.html.jinja"),
    }
    environment = Environment(
        loader=DictLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=lambda found: visible(found) if type(found) is str else found,  # not Markup
    )
    environment.filters["clean"] = clean
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    page = environment.get_template("page.html.jinja").render(
        version=__version__,
        policy="; ".join([*policy, "base-uri 'none'", "form-action 'none'"]),
        css=css,
        script=script,
        **context,
    )
    return page + "\n"


def _read(room: str, name: str) -> str:
    return resources.files(room).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
