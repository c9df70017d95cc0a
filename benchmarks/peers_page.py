"""What ``peers.py`` found, in Markdown."""

from collections import defaultdict

from beside_page import duration, table
from page_parts import not_run, paragraphs

FASTER = 0.95
"""Below this ratio of theirs to ours another is said to be faster, or to need less."""

WHY = {
    (
        "ts",
        "probmetrics",
    ): "ours handles exact zeros, and makes separate passes for logarithm, softmax and lower bound",
    ("vs", "probmetrics"): "as for `ts`",
    (
        "ir-ovr",
        "scikit-learn",
    ): "pseudo-observations, which keep our curves from 0 and 1, give them "
    "almost one step for each value, so that looking up a value takes longer",
    ("ir-ovr", "netcal"): "as for scikit-learn",
    ("conf-ece", "relplot"): "it does not check rows, which costs more than the metric itself",
}
"""Why theirs is faster, by our method or the metric, and the package."""

CLASS_BY_CLASS = "One class at a time needs less memory than all rows, checked and sorted once."
"""Why theirs needs less memory."""

BRIER, SAME = "brier", 1e-6
MEBIBYTE = 1 << 20
SIDES = ("ours", "theirs")


def label(cell):
    return f"`{cell['ours']}`, {cell['package']} {cell['method']}"


def peers(found):
    """Ratios of theirs to ours."""
    pairs, metrics = found.get("pairs", []), found.get("metrics", [])
    sizes = [
        size for size in found["all_sizes"] if any(c["size"] == size for c in (*pairs, *metrics))
    ]
    sizes += [s for s in dict.fromkeys(c["size"] for c in (*pairs, *metrics)) if s not in sizes]
    fit = ratios("fit: ours, theirs", pairs, label, sizes, lambda c: c.get("fit") or c.get("both"))
    predict = ratios("predict", pairs, label, sizes, lambda c: c.get("predict"))
    judged = ratios("metric", metrics, lambda c: f"{c['metric']}, {c['package']}", sizes, dict)
    return paragraphs(
        "## Compared with other packages",
        _installed(found["peers"]),
        "Their time divided by ours, with our time in brackets. Below 1, in bold, theirs is "
        "faster. Both use their default parameters. Predictions are made for the rows of the fit. "
        "Venn-Abers predictors do all their work at prediction: their fit and prediction together "
        "are compared with one-vs-rest isotonic regression.",
        fit,
        predict,
        judged,
        _disagreements(metrics),
        not_run(found["all_sizes"], sizes),
        _first(pairs),
        _memory(pairs, sizes),
    )


def _installed(found):
    there = [f"{name} {one['version']}" for name, one in found.items() if "version" in one]
    parts = [f"Installed: {', '.join(there)}."]
    parts += [
        f"{name} cannot be installed: {one['error']}"
        for name, one in found.items()
        if "error" in one
    ]
    return "\n".join(parts)


def ratios(title, cells, name, sizes, part):
    """A table of ratios, pairs by sizes."""
    names = list(dict.fromkeys(map(name, cells)))
    at = {(name(cell), cell["size"]): part(cell) for cell in cells}
    rows = [[one, *(ratio_text(at.get((one, size))) for size in sizes)] for one in names]
    rows = [row for row in rows if any(row[1:])]
    return table([title, *sizes], rows) if rows else ""


def ratio_text(found):
    if not found:
        return ""
    if "ratio" in found:
        text = f"{found['ratio']:.2f}" if found["ratio"] < 10 else f"{found['ratio']:.0f}"
        text = f"**{text}**" if found["ratio"] < 1 else text
        return f"{text} ({duration(found['ours'])})"
    said = [f"{side}: {_plain(found[side])}" for side in ("ours", "theirs") if side in found]
    return "; ".join(said)


def _plain(value):
    """Seconds, or what went wrong, in a cell of a table."""
    if not isinstance(value, str):
        return duration(value)
    text = value.replace("|", "/").replace("`", "'")
    return text if len(text) <= 70 else f"{text[:67]}..."


def _disagreements(cells):
    """Metrics whose values are not ours."""
    apart = {}
    for cell in cells:
        if "values" not in cell:
            continue
        ours, theirs = cell["values"]["ours"], cell["values"]["theirs"]
        if cell["metric"] == BRIER:  # theirs is a sum over classes
            ours *= int(cell["size"].replace(",", "").split(" x ")[1])
        if abs(ours - theirs) > SAME * max(abs(ours), 1):
            apart.setdefault(f"{cell['metric']} of {cell['package']}", (ours, theirs))
    said = [f"{name} ({theirs:.6f}, ours {ours:.6f})" for name, (ours, theirs) in apart.items()]
    but = f", except for {', '.join(said)}" if said else ""
    words = f"The metrics agree to {SAME:g} (others sum the Brier score over k classes)"
    return f"{words}{but}." if cells else ""


def _first(pairs):
    cells = [
        cell
        for cell in pairs
        if all(isinstance(cell.get("first", {}).get(side), dict) for side in SIDES)
    ]
    if not cells:
        return ""
    rows = [
        [label(cell), *(duration(cell["first"][s][k]) for s in SIDES for k in ("import", "call"))]
        for cell in cells
    ]
    head = [f"first call, {cells[0]['size']}", "our import", "our call"]
    return paragraphs(
        "The first fit and prediction of a process, and the imports before it. Ours runs in the "
        "environment of the tests, where scikit-learn, which calibrant imports, imports pandas.",
        table([*head, "their import", "their call"], rows),
    )


def _memory(pairs, sizes):
    """MiB of fits, ours and theirs."""
    at = {}
    for cell in pairs:
        both = cell.get("peak_bytes", {})
        if all("fit" in both.get(side, {}) for side in SIDES):
            ours, theirs = (both[side]["fit"] / MEBIBYTE for side in SIDES)
            at[label(cell), cell["size"]] = f"{ours:.1f}, {theirs:.1f}"
    names = list(dict.fromkeys(name for name, _ in at))
    rows = [[name, *(at.get((name, size), "") for size in sizes)] for name in names]
    if not rows:
        return ""
    return paragraphs(
        "Memory that a fit needs in addition to its rows, in MiB, ours and theirs:",
        table(["fit: ours, theirs", *sizes], rows),
    )


def better(found):
    """Lines about where somebody else is faster or needs less."""
    pairs, metrics = found.get("pairs", []), found.get("metrics", [])
    return [*_faster(pairs), *_faster_metrics(metrics), *_less_memory(pairs)]


def _faster(pairs):
    slower, why = defaultdict(list), {}
    for cell in pairs:
        for what in ("fit", "predict", "both"):
            ratio = cell.get(what, {}).get("ratio", 1.0)
            if ratio < FASTER:
                slower[label(cell)].append(f"{what} {ratio:.2f} ({cell['size']})")
                why[label(cell)] = WHY.get((cell["ours"], cell["package"]))
    for name, found in sorted(slower.items()):
        yield f"{name}: {', '.join(found)} of our time{_because(why[name])}."


def _because(why):
    return f"; {why}" if why else ""


def _faster_metrics(cells):
    slower, why = defaultdict(list), {}
    for cell in cells:
        if cell.get("ratio", 1.0) < FASTER:
            name = f"{cell['metric']} of {cell['package']}"
            slower[name].append(f"{cell['ratio']:.2f} ({cell['size']})")
            why[name] = WHY.get((cell["metric"], cell["package"]))
    for name, found in sorted(slower.items()):
        yield f"{name}: {', '.join(found)} of our time{_because(why[name])}."


def _less_memory(pairs):
    less = defaultdict(list)
    for cell in pairs:
        both = cell.get("peak_bytes", {})
        if all("fit" in both.get(side, {}) for side in SIDES):
            ours, theirs = (both[side]["fit"] for side in SIDES)
            if theirs < FASTER * ours and ours - theirs > MEBIBYTE:
                less[label(cell)].append(f"{theirs / ours:.2f} ({cell['size']})")
    for name, found in sorted(less.items()):
        yield f"{name}: {', '.join(found)} of the memory of our fit. {CLASS_BY_CLASS}"
