"""``calibrant inspect``: what a model file holds, in lines that can be read."""

from __future__ import annotations

import math
from typing import Any

MOST_VALUES, LONGEST = 8, 60
"""Lists, such as the classes, are cut after so many values or letters."""

INDENT = "  "


def inspection_text(found: dict[str, Any]) -> str:
    """Return the description of a model file, a fact in a line and parts indented."""
    return "\n".join(_block(_without_repetition(found)))


def _without_repetition(found: dict[str, Any], classes: Any = None) -> dict[str, Any]:
    """Leave out classes that were named before, and give parts a heading."""
    known = found.get("classes", classes)
    facts: dict[str, Any] = {}
    for key, value in found.items():
        if key == "parts":
            for place, part in enumerate(value, start=1):
                inner = _without_repetition(part, known)
                name = f"part {place}: {inner.pop('method')} ({inner.pop('class')})"
                facts[name] = inner
        elif key == "parameters":
            facts[key] = {k: v for k, v in value.items() if k != "classes" or v != known}
        elif key == "arrays":
            facts[key] = {
                name: f"{' x '.join(map(str, shape))} {dtype}"
                for name, (dtype, shape) in value.items()
            }
        elif key not in {"classes", "n_classes"} or classes is None or found["classes"] != classes:
            facts[key] = value
    return facts


def _block(found: dict[str, Any]) -> list[str]:
    """Facts under each other, their values in a column."""
    facts = {key: value for key, value in found.items() if value not in (None, (), [], {})}
    width = max((len(key) for key, value in facts.items() if not _is_block(value)), default=0)
    lines: list[str] = []
    for key, value in facts.items():
        if _is_block(value):
            inner = _block(value) if isinstance(value, dict) else _table(value)
            lines += [key, *(INDENT + line for line in inner)] if inner else []
        else:
            first, *others = _texts(value)
            lines.append(f"{key:<{width}}  {first}")
            lines += [f"{'':<{width}}  {line}" for line in others]
    return lines


def _is_report(value: Any) -> bool:
    return isinstance(value, dict) and {"solver", "violation", "rounds"} <= value.keys()


def _is_block(value: Any) -> bool:
    if isinstance(value, dict):
        return not _is_report(value)
    return isinstance(value, list | tuple) and all(isinstance(item, dict) for item in value)


def _texts(value: Any) -> list[str]:
    """Lines of one value."""
    if not _is_report(value):
        return [_text(value)]
    reached = f"{value['solver']}: objective {value['objective']:.6g}"
    if value["n_blocks"] is not None:
        reached += f", {value['n_blocks']} blocks"
    rounds = f"{value['rounds']} {'round' if value['rounds'] == 1 else 'rounds'}"
    spent = rounds if math.isnan(value["seconds"]) else f"{rounds} in {value['seconds']:.2g} s"
    if value["tolerance"] > 0:  # else a closed form
        violation = f"violated by {value['violation']:.1e}, {value['tolerance']:.0e} was asked for"
        spent += f", optimality {violation}"
    return [reached, spent, *_binning(value), *map(_text, value["notes"])]


def _binning(report: dict[str, Any]) -> list[str]:
    """Say what binning may have cost, where scores were binned."""
    found = report["binning"]
    if found is None:
        return []
    text = f"{found['n_bins']:,} bins, optimality for the scores themselves violated by at most "
    text += f"{found['violation']:.1e}"
    if not math.isnan(found["excess"]):
        text += f", objective above the least by at most {found['excess']:.1e}"
    return [text]


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        texts = [_text(item) for item in value[:MOST_VALUES]]
        while len(texts) > 1 and len(", ".join(texts)) > LONGEST:
            texts.pop()
        more = f", ... ({len(value):,} in all)" if len(value) > len(texts) else ""
        return ", ".join(texts) + more
    text = str(value)
    return text if text.isprintable() else repr(text)


def _table(rows: Any) -> list[str]:
    """Rows with the same fields, in columns."""
    heads = [head for head in rows[0] if any(row[head] == row[head] for row in rows)]  # not NaN
    cells = [heads] + [
        [f"{row[h]:.4g}" if isinstance(row[h], float) else _text(row[h]) for h in heads]
        for row in rows
    ]
    widths = [max(len(row[place]) for row in cells) for place in range(len(heads))]
    is_text = [isinstance(rows[0][head], str) for head in heads]
    return [
        "  ".join(
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(row, widths, is_text, strict=True)
        ).rstrip()
        for row in cells
    ]
