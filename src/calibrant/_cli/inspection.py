"""``calibrant inspect``: what a model file holds, in lines that can be read."""

from __future__ import annotations

from typing import Any

MOST_VALUES, LONGEST = 8, 60
"""Lists, such as the classes, are cut after so many values or letters."""


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
                facts[f"part {place}: {inner.pop('method')} ({inner.pop('class')})"] = inner
        elif key == "parameters":
            facts[key] = {k: v for k, v in value.items() if k != "classes" or v != known}
        elif key == "arrays":
            sizes = {name: " x ".join(map(str, shape)) for name, (_, shape) in value.items()}
            facts[key] = {name: f"{sizes[name]} {dtype}" for name, (dtype, _) in value.items()}
        elif key not in {"classes", "n_classes"} or classes is None or found["classes"] != classes:
            facts[key] = value
    return facts


def _block(found: dict[str, Any]) -> list[str]:
    """Facts under each other, their values in a column; what is not known is left out."""
    facts = {k: v for k, v in found.items() if v == v and v not in (None, (), [], {})}  # noqa: PLR0124  (NaN)
    width = max((len(key) for key, value in facts.items() if not _is_block(value)), default=0)
    lines: list[str] = []
    for key, value in facts.items():
        if _is_block(value):
            inner = _block(value) if isinstance(value, dict) else _table(value)
            lines += [key, *(f"  {line}" for line in inner)] if inner else []
        elif key == "notes":  # sentences, each of which says something else
            heads = [key, *[""] * len(value)]
            lines += [f"{h:<{width}}  {_text(v)}" for h, v in zip(heads, value, strict=False)]
        else:
            lines.append(f"{key:<{width}}  {_text(value)}")
    return lines


def _is_block(value: Any) -> bool:
    is_list = isinstance(value, list | tuple)
    return isinstance(value, dict) or (is_list and all(isinstance(item, dict) for item in value))


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
    """Rows with the same fields, in columns; those that nobody knows are left out."""
    heads = [head for head in rows[0] if any(row[head] == row[head] for row in rows)]
    cells = [heads, *([_text(row[head]) for head in heads] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    is_text = [isinstance(rows[0][head], str) for head in heads]
    return [
        "  ".join(
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(row, widths, is_text, strict=True)
        ).rstrip()
        for row in cells
    ]
