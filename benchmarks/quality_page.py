"""What ``peers_quality.py`` found, in Markdown."""

from statistics import mean, median

from beside_page import duration, table
from page_parts import paragraphs

BASE, CHAMPION = "calibrant ts", "calibrant auto"


def numbers(lines, column):
    """Values of a column by file and method, where there are any."""
    return {
        (line["file"], f"{line['package']} {line['method']}"): float(line[column])
        for line in lines
        if line[column]
    }


def quality(lines):
    """Methods of all packages on the same files, but for those of collections."""
    lines = [line for line in lines if not line.get("collection")]
    files = sorted({line["file"] for line in lines})
    methods = list(dict.fromkeys(f"{line['package']} {line['method']}" for line in lines))
    nll, brier, ece = (numbers(lines, column) for column in ("nll", "brier", "conf-ece"))
    seconds = numbers(lines, "fit seconds")
    rows = []
    for method in methods:
        done = [file for file in files if (file, method) in nll]
        if not done:
            continue
        beside = [f for f in done if (f, BASE) in nll]
        over = [nll[f, method] / nll[f, BASE] for f in beside]
        wins = [
            sum(of[f, CHAMPION] < of[f, method] for f in done if (f, CHAMPION) in of)
            for of in (nll, brier)
        ]
        times = [seconds[f, method] for f in done if (f, method) in seconds]
        rows.append(
            (
                mean(over) if over else float("inf"),
                [
                    method,
                    f"{mean(over):.3f}" if over else "",
                    f"{max(over):.3f}" if over else "",
                    f"{100 * mean(ece[f, method] for f in done):.2f}",
                    *("" if method == CHAMPION else f"{won} of {len(done)}" for won in wins),
                    duration(median(times)) if times else "",
                    str(len(files) - len(done)) if len(done) < len(files) else "",
                ],
            )
        )
    head = ["method", "NLL / our TS", "worst file", "conf-ECE %", "`auto` has less NLL"]
    head += ["less Brier", "fit, median", "failed"]
    return paragraphs(
        "## Quality",
        f"All methods on {len(files)} files, fitted to the validation part and judged on the test "
        "part. All methods were given probabilities; rows were divided by their sums. Venn-Abers "
        "predictors are fitted when they predict. [Quality](quality.md) has more files.",
        table(head, [row for _, row in sorted(rows, key=lambda pair: pair[0])]),
    )


def better_predictions(lines):
    """Files on which another package has the best number of all."""
    lines = [line for line in lines if not line.get("collection")]
    titles = {"nll": "NLL", "brier": "Brier score", "conf-ece": "conf-ECE"}
    for column, title in titles.items():
        values = numbers(lines, column)
        best = {}
        for (file, method), value in values.items():
            best[file] = min(best.get(file, (value, method)), (value, method))
        lost = {f: one for f, one in best.items() if not one[1].startswith("calibrant ")}
        if lost:
            of_ours = {
                file: min(v for (f, m), v in values.items() if f == file and m.startswith("calib"))
                for file in lost
            }
            words = [
                f"{file} ({method}, {value:.4g}; ours {of_ours[file]:.4g})"
                for file, (value, method) in sorted(lost.items())
            ]
            yield f"Lowest {title} on {len(lost)} of {len(best)} files: {'; '.join(words)}."
