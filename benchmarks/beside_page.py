"""What ``beside.py`` found, as tables in Markdown."""

from statistics import geometric_mean

TOO_SLOW = 1.1


def table(head, rows):
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def duration(seconds):
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def warm(found, do):
    """The ratio of each cell with the seconds of the newer release; slower ones are bold."""
    columns = found[do]
    methods = list(dict.fromkeys(m for cells in columns.values() for m in cells))

    def text(cell):
        if cell is None:
            return ""
        ratio = f"{cell['ratio']:.2f}"
        ratio = f"**{ratio}**" if cell["ratio"] > TOO_SLOW else ratio
        return f"{ratio} ({duration(cell['new'])})"

    rows = [[f"`{m}`", *(text(cells.get(m)) for cells in columns.values())] for m in methods]
    means = [geometric_mean(c["ratio"] for c in cells.values()) for cells in columns.values()]
    rows.append(["geometric mean", *(f"{mean:.2f}" for mean in means)])
    return table([do, *columns], rows)


def first(found):
    head = ["first fit and prediction", "old", "of a warm one", "new", "of a warm one"]
    rows = [
        [
            f"`{method}`",
            *(
                text
                for name in ("old", "new")
                for text in (duration(of[name]["first"]), f"{of[name]['ratio']:.3g} x")
            ),
        ]
        for method, of in found.items()
    ]
    return table(head, rows)


def threads(found):
    rows = [
        [name, duration(of["one"]), duration(of["two"]), f"{of['gain']:.2f} x"]
        for name, of in found.items()
    ]
    return table(["", "one thread", "two", "gain"], rows)


def commands(found):
    rows = [[n, duration(of["seconds"]), f"{of['ratio']:.2f} x"] for n, of in found.items()]
    return table(["`calibrant apply` of 1,000 rows", "seconds", "ratio"], rows)


def sizes(found):
    both = found["old"], found["new"]
    methods = both[0]["resident"]
    rows = [
        [f"resident after a fit of `{m}`", *(f"{of['resident'][m]:.0f} MiB" for of in both)]
        for m in methods
    ]
    rows.append(["installed", *(f"{sum(of['install'].values()) / 1e6:.0f} MB" for of in both)])
    if found["wheel"]:
        rows.append(["wheel", "", f"{found['wheel'] / 1e6:.1f} MB"])
    return table(["", "old", "new"], rows)


def tables(result):
    """All tables that there are numbers for."""
    parts = []
    if "warm" in result:
        parts += [warm(result["warm"], do) for do in ("fit", "predict")]
        cells = [
            c for do in result["warm"].values() for source in do.values() for c in source.values()
        ]
        ratios = [cell["ratio"] for cell in cells]
        slow = sum(ratio > TOO_SLOW for ratio in ratios)
        parts.append(
            f"The geometric mean of all {len(ratios)} ratios is {geometric_mean(ratios):.2f}; "
            f"{slow} of them are above {TOO_SLOW}."
        )
    writers = {"first": first, "threads": threads, "commands": commands, "sizes": sizes}
    parts += [write(result[name]) for name, write in writers.items() if result.get(name)]
    return "\n\n".join(parts) + "\n"


def put_into(page, text):
    """Replace what is between the marks of a page."""
    before, _, rest = page.read_text(encoding="utf-8").partition("<!-- tables -->\n")
    after = rest.partition("<!-- end -->\n")[2]
    page.write_text(f"{before}<!-- tables -->\n\n{text}\n<!-- end -->\n{after}", encoding="utf-8")
