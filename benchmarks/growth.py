"""Time and memory of every method over rows and over classes, with fitted slopes.

    make bench-growth

Rows grow from 1,000 to 1,000,000 at 10 classes, classes from 10 to 5,000 at 5,000 rows. Every cell
is a process of its own, on one thread, that fits a few rows first: seconds are of the processor,
bytes what the call needs at most beyond the rows and what was held before. A slope is that of log
seconds over log size: 1 is linear. Where a fit takes longer than the limit, larger sizes are left
out. The JSON file holds ``growth``, a list of

    {"method", "what": "fit" | "predict", "over": "rows" | "classes", "sizes": [...],
     "seconds": [...], "peak_bytes": [...], "slope", "left_out": [...]}

and is written whole after each.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np

from measure import peak_bytes_of, seconds_of, simulate
from our_methods import CLASSES, make
from workers import ONE_THREAD

ROWS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
COLUMNS = (10, 30, 100, 300, 1_000, 2_000, 5_000)
AT = {"rows": 10, "classes": 5_000}
"""How many classes there are while rows grow, and rows while classes do."""


def cell(method, n_rows, n_classes):
    """Seconds and bytes of a fit and of a prediction of the same rows, in this process."""
    p, y = simulate(300, 3)
    small = make(None, method, 3)
    small.fit(p, y)
    small.predict(p)
    p, y = simulate(n_rows, n_classes)
    own = make(None, method, n_classes)
    found = {}
    for what, run in (("fit", lambda: own.fit(p, y)), ("predict", lambda: own.predict(p))):
        timed = {}
        peak = peak_bytes_of(lambda run=run, timed=timed: timed.update(seconds_of(run)))
        # A call that takes long is measured once; the others once more, now that all is warm.
        seconds = timed["cpu"] if timed["cpu"] > 5 else min(timed["cpu"], seconds_of(run)["cpu"])
        found[what] = {"seconds": seconds, "peak_bytes": peak}
    return found


def fresh(method, n_rows, n_classes, limit):
    """A cell in a new process; nothing if it took too long or failed."""
    command = [sys.executable, __file__, "--cell", method, str(n_rows), str(n_classes)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return None
    return json.loads(done.stdout) if done.returncode == 0 else None


def slope_of(sizes, seconds):
    """Slope of log seconds over log size."""
    if len(sizes) < 2:
        return math.nan
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def grow(method, over, sizes, limit):
    """Cells of growing sizes, as two entries of ``growth``."""
    done = []
    for size in sizes:
        shape = (size, AT["rows"]) if over == "rows" else (AT["classes"], size)
        found = fresh(method, *shape, limit)
        if found is None:
            break
        done.append(found)
        words = ", ".join(f"{one['seconds']:.3g} s {what}" for what, one in found.items())
        print(f"{method}, {shape[0]:,} x {shape[1]:,}: {words}", flush=True)
    reached, left_out = list(sizes[: len(done)]), list(sizes[len(done) :])
    for what in ("fit", "predict"):
        seconds = [one[what]["seconds"] for one in done]
        slope = slope_of(reached, seconds)
        yield {
            "method": method,
            "what": what,
            "over": over,
            "sizes": reached,
            "seconds": seconds,
            "peak_bytes": [one[what]["peak_bytes"] for one in done],
            "slope": None if math.isnan(slope) else slope,
            "left_out": left_out,
        }


def main():
    if sys.argv[1:2] == ["--cell"]:
        warnings.simplefilter("ignore")
        method, n_rows, n_classes = sys.argv[2:]
        print(json.dumps(cell(method, int(n_rows), int(n_classes))))
        return
    from calibrant import _trial as trial
    from peers import BUILD, Results, machine

    def numbers(text):
        return [int(one) for one in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=BUILD / "growth.json")
    parser.add_argument("--methods", type=lambda text: text.split(","), default=list(CLASSES))
    parser.add_argument("--rows", type=numbers, default=ROWS)
    parser.add_argument("--classes", type=numbers, default=COLUMNS)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for a cell")
    parser.add_argument("--again", action="store_true", help="measure what is there")
    options = parser.parse_args()
    os.environ |= ONE_THREAD  # the processes inherit it
    results = Results(options.output)
    results.found |= {
        "versions": trial.versions(),
        "machine": machine(),
        "limit": options.limit,
        "all_methods": list(CLASSES),
        "all_rows": ROWS,
        "all_classes": COLUMNS,
    }
    for method in options.methods:
        for over, sizes in (("rows", options.rows), ("classes", options.classes)):
            if results.has("growth", method=method, over=over) and not options.again:
                continue
            for entry in grow(method, over, sizes, options.limit):
                key = {name: entry[name] for name in ("method", "what", "over")}
                results.put("growth", entry, **key)


if __name__ == "__main__":
    main()
