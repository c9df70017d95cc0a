"""The page about what ``defaults.py``, ``growth.py`` and ``peers.py`` found."""

from beside_page import duration, table
from page_parts import factor, not_run, paragraphs
from peers_page import better, peers
from quality_page import better_predictions, quality


def build(results, lines):
    """The whole page; parts without results are left out."""
    parts = [
        paragraphs("# Benchmarks", INTRODUCTION, in_short(results.get("peers", {}), lines)),
        defaults(results["defaults"]) if "defaults" in results else "",
        growth(results["growth"]) if "growth" in results else "",
        peers(results["peers"]) if "peers" in results else "",
        quality(lines) if lines else "",
        _another(results.get("peers", {}), lines),
        how(results),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


INTRODUCTION = (
    "How long default fits take, how time and memory grow with the data, and how both compare with "
    "other packages. Speeds are ratios measured in one run on one thread, in seconds of the "
    "processor; other machines give other numbers. `python tools/write_benchmarks.py` writes this "
    "page from the results of `make bench-defaults`, `make bench-growth` and `make bench-peers` in "
    "`build`."
)


def in_short(found, lines):
    """How often ours is faster and how often another package has the best numbers."""
    pairs = found.get("pairs", [])
    timed = {
        "fits": [cell.get("fit") or cell.get("both") or {} for cell in pairs],
        "predictions": [cell.get("predict") or {} for cell in pairs],
        "metrics": found.get("metrics", []),
    }
    ratios = {what: [c["ratio"] for c in cells if "ratio" in c] for what, cells in timed.items()}
    words = [
        f"{sum(ratio > 1 for ratio in some)} of {len(some)} {what}"
        for what, some in ratios.items()
        if some
    ]
    gains = f"**In short.** Ours is faster in {', '.join(words)} that both finish." if words else ""
    others = [one.partition(":")[0].removeprefix("Lowest ") for one in better_predictions(lines)]
    losses = f"Other packages have the lowest {', '.join(others)}." if others else ""
    where = "[Where another is faster or better](#where-another-is-faster-or-better) lists these."
    return " ".join(part for part in (gains, losses, where) if gains or losses)


def _another(found, lines):
    """Where somebody else is faster, needs less, or predicts better."""
    said = [*better(found), *better_predictions(lines)]
    items = "\n".join(f"- {line}" for line in said)
    return paragraphs("## Where another is faster or better", items) if said else ""


def size_of(cell):
    return f"{cell['rows']:,} x {cell['classes']:,}"


def defaults(found):
    """Default fits beside a sort."""
    cells = found["defaults"]
    sizes = list(dict.fromkeys(map(size_of, cells)))
    methods = list(dict.fromkeys(cell["method"] for cell in cells))
    at = {(cell["method"], size_of(cell)): cell for cell in cells}

    def text(cell):
        if cell is None:
            return ""
        return f"{factor(cell['ratio_to_argsort'])} ({duration(cell['seconds'])})"

    rows = [[f"`{m}`", *(text(at.get((m, size))) for size in sizes)] for m in methods]
    return paragraphs(
        "## Default fits",
        "Time of a fit divided by the time that numpy takes to sort the same numbers, "
        "`np.argsort(P.ravel())`:",
        table(["fit", *sizes], rows),
        not_run(found["all_sizes"], sizes),
        not_run(found["all_methods"], methods, "Methods that were not run"),
    )


def growth(found):
    """Slopes and memory."""
    at = {(one["method"], one["what"], one["over"]): one for one in found["growth"]}
    methods = list(dict.fromkeys(one["method"] for one in found["growth"]))
    kinds = [(what, over) for what in ("fit", "predict") for over in ("rows", "classes")]
    head = ["method", *(f"{what}, {over}" for what, over in kinds)]
    head += ["largest fit, rows", "memory", "largest fit, classes", "memory"]
    rows = []
    for method in methods:
        slopes = [_slope(at.get((method, *kind))) for kind in kinds]
        largest = [_largest(at.get((method, "fit", over)), over) for over in ("rows", "classes")]
        rows.append([f"`{method}`", *slopes, *largest[0], *largest[1]])
    return paragraphs(
        "## Growth",
        "Slopes of log seconds against log size: 1 is linear growth. Rows grow at 10 classes, and "
        "classes at 5,000 rows. Small sizes are included; there the constant cost of a call makes "
        "slopes smaller. Memory is what the fit needs in addition to its rows, as a multiple of "
        "their size in float64.",
        table(head, rows),
        "![Seconds of fits over rows and classes](../images/benchmarks-fit.png)",
        "![Seconds of predictions over rows and classes](../images/benchmarks-predict.png)",
        _left_out(found["growth"], found.get("limit")),
        _sizes_run(found),
    )


def _slope(one):
    return "" if one is None or one["slope"] is None else f"{one['slope']:.2f}"


def _largest(one, over):
    """Size and seconds of the largest fit, and its memory."""
    if one is None or not one["sizes"]:
        return "", ""
    size = one["sizes"][-1]
    n_bytes = 8 * size * (10 if over == "rows" else 5_000)
    return f"{size:,}: {duration(one['seconds'][-1])}", f"{one['peak_bytes'][-1] / n_bytes:.1f} x"


def _left_out(entries, limit):
    beyond = [
        f"`{one['method']}` from {one['left_out'][0]:,} {one['over']} on"
        for one in entries
        if one["what"] == "fit" and one.get("left_out")
    ]
    words = f"Left out, because making rows, fitting and predicting together took over {limit:g} s:"
    return f"{words} {', '.join(beyond)}." if beyond else ""


def _sizes_run(found):
    run = {
        over: sorted({s for one in found["growth"] if one["over"] == over for s in one["sizes"]})
        for over in ("rows", "classes")
    }
    parts = []
    for over, sizes in run.items():
        missing = [size for size in found[f"all_{over}"] if size not in sizes]
        if sizes and missing and max(sizes) < max(missing):
            parts.append(f"{max(sizes):,} {over}")
    methods = not_run(
        found["all_methods"],
        {one["method"] for one in found["growth"]},
        "Methods that were not run",
    )
    stopped = f"Here sizes went up to {' and '.join(parts)}." if parts else ""
    return " ".join(part for part in (stopped, methods) if part)


def how(results):
    """What was measured on, and how."""
    machines = {one["machine"]["processor"] for one in results.values()}
    versions = {tuple(one["versions"].items()) for one in results.values()}
    limit = results.get("peers", {}).get("limit")
    words = ["; ".join(f"{name} {number}" for name, number in one) for one in sorted(versions)]
    ended = f" A call of more than {limit:g} s is stopped." if limit else ""
    return paragraphs(
        "## How it was measured",
        "Rows are simulated: logits are normal with a standard deviation of 3, labels are drawn "
        "from their softmax, predictions are over-confident by a factor of two. Our package and "
        "the others run in two environments that are measured in turn, under the same conditions; "
        f"a ratio is the median over pairs.{ended} Every size in the section "
        "on growth is measured in a new process.",
        f"Processor: {', '.join(sorted(machines))}. Ours: {' / '.join(words)}.",
    )
