"""``build_report`` and ``write_report``: a comparison as one self-contained HTML page."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from typing import TYPE_CHECKING, Any

from calibrant.atomic_file import replace_file
from calibrant.report import content
from calibrant.report.figures import forest_figure, reliability_frames
from calibrant.report.markup import Environment, Markup, StrictUndefined
from calibrant.report.panels import build_panels
from calibrant.report.verdict import reach_verdict

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from calibrant.report.results import Comparison


def build_report(
    comparison: Comparison,
    *,
    title: str = "Calibration report",
    commands: Sequence[str] | None = None,
) -> str:
    """Return the page: no network, no other files, names of classes and files as plain text.

    Parameters
    ----------
    comparison : Comparison
        From :func:`calibrant.report.compare`.
    title : str, default="Calibration report"
        Heading of the page.
    commands : sequence of str, optional
        Command lines that apply the method of the verdict, where the ones that are derived from
        ``comparison.sources`` do not suit.

    Returns
    -------
    page : str
        HTML.

    Examples
    --------
    >>> from calibrant.datasets import overconfident_digits
    >>> from calibrant.report import build_report, compare
    >>> scores, y, new_scores, new_y = overconfident_digits()
    >>> page = build_report(compare(y, scores, new_y, new_scores, "ts", n_resamples=20))
    >>> page.splitlines()[0]
    '<!DOCTYPE html>'
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string(_resource("page.html.jinja"))
    return template.render(_context(comparison, title, commands)) + "\n"


def write_report(
    path: str | os.PathLike[str],
    comparison: Comparison,
    *,
    title: str = "Calibration report",
    commands: Sequence[str] | None = None,
) -> None:
    """Write the page to a file, whole or not at all.

    Parameters
    ----------
    path : path-like
        The file to write.
    comparison, title, commands
        As in :func:`build_report`.
    """
    page = build_report(comparison, title=title, commands=commands).encode("utf-8")
    with replace_file(path) as file:
        file.write(page)


def _resource(name: str) -> str:
    return resources.files("calibrant.report").joinpath(name).read_text(encoding="utf-8")


def _context(comparison: Comparison, title: str, commands: Sequence[str] | None) -> dict[str, Any]:
    verdict = reach_verdict(comparison)
    css, script = _resource("page.css"), _resource("page.js")
    settings = comparison.settings
    applied = content.applied_method(comparison, verdict)
    columns, rows = content.method_table(comparison, verdict)
    class_rows = content.class_rows(comparison, applied)
    views = [
        {"id": f"c{j}", "name": f"class {content.clean(comparison.classes[j])}"}
        for j in comparison.shown
    ]
    return {
        "title": content.clean(title),
        "policy": _policy(css, script),
        # Both come with the package; nothing of the data is in them.
        "css": Markup(css),
        "script": Markup(script),
        "frames": reliability_frames(),
        "baseline": comparison.baseline,
        "versions": comparison.versions,
        "created": comparison.created,
        "n_methods": len(comparison.results),
        "n_val": f"{settings['n_val']:,}",
        "n_test": f"{settings['n_test']:,}",
        "n_classes": comparison.n_classes,
        "n_bins": settings["n_bins"],
        "level": f"{100 * settings['confidence_level']:g} %",
        "has_intervals": settings["n_resamples"] > 0,
        "verdict": verdict,
        "columns": columns,
        "rows": rows,
        "failures": content.failures(comparison),
        "forest": forest_figure(comparison, verdict.chosen),
        "panels": build_panels(comparison, verdict),
        "views": views,
        "after": content.clean(applied),
        "class_heads": content.CLASS_HEADS,
        "class_sorted": content.CLASS_SORTED,
        "class_rows": class_rows,
        "applied": content.clean(applied),
        "python": content.python_lines(comparison, applied),
        "commands": content.command_lines(comparison, applied, commands),
        "facts": content.run_facts(comparison),
        "numbers": embed_json(content.page_numbers(comparison, applied)),
    }


def _policy(*inline: str) -> str:
    """Return a policy that forbids all but the inline style and script of the page."""
    style, script = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in inline
    )
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
        "base-uri 'none'; form-action 'none'"
    )


def embed_json(value: Any) -> Markup:
    r"""Return JSON that can stand in a script element whatever its strings hold.

    Examples
    --------
    >>> from calibrant.report.page import embed_json
    >>> print(embed_json({"name": "</script><!--"}))
    {"name":"\u003c/script\u003e\u003c!--"}
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)
