"""``calibrant compare``: which rows are fitted to and which judge, and what to do next."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._cli.costs import CostFile
from calibrant._cli.outputs import is_same
from calibrant._cli.showing import naming
from calibrant._files.predictions import has_parts, is_log, is_table
from calibrant._gate import ONE_COLUMN
from calibrant.errors import PredictionFileError

if TYPE_CHECKING:
    from pathlib import Path

    from calibrant._cli.reading import Reading
    from calibrant._files.align import Aligned

Two = tuple["Aligned", "Aligned", dict[str, str]]
"""Rows to fit to, rows to judge on, and what they are called in the report."""


def read_two(val: Path, test: Path | None, reading: Reading, test_labels: Path | None) -> Two:
    """Read both parts, from two files or from two parts of one."""
    if (test is None or is_same(val, test)) and not has_parts(val):
        raise PredictionFileError(
            f"{val} has no val_* and test_* parts, and rows that were fitted to cannot judge; give "
            "a second file, or draw rows by --split 0.5"
        )
    first = reading.read(val, usual_part="val", positive_last=True)
    second = replace(reading, labels=test_labels).read(
        test or val, usual_part="test", like=first, positive_last=True
    )
    if first.kind != second.kind:
        raise PredictionFileError(
            f"{first.source} holds {first.kind}, but {second.source} {second.kind}; choose one by "
            "--scores, or convert a file"
        )
    first.check()
    second.check()
    return first, second, {"calibration": first.source, "test": second.source}


def split_rows(path: Path, test: Path | None, reading: Reading, share: float, seed: int) -> Two:
    """Read one file, and draw the rows to fit to."""
    if has_parts(path) or not (test is None or is_same(path, test)):
        raise PredictionFileError(f"{path}: --split is for one file without parts")
    whole = reading.read(path, positive_last=True)
    whole.check()
    n_rows = len(whole.y)
    if n_rows < 2:
        raise PredictionFileError(f"{path} has {n_rows} rows, which cannot be split")
    n_val = min(max(1, round(share * n_rows)), n_rows - 1)
    order = np.random.default_rng(seed).permutation(n_rows)
    val, test_rows = (whole.take(np.sort(rows)) for rows in np.split(order, [n_val]))
    drawn = f"{n_val:,} of {n_rows:,} rows, drawn at random (seed {seed})"
    sources = {
        "calibration": f"{whole.source}: {drawn}",
        "test": f"{whole.source}: the other {n_rows - n_val:,} rows",
    }
    return val, test_rows, sources


def read_costs_of_two(costs: Path, val: Aligned, test: Aligned, positive: str | None) -> Any:
    """Return the costs of a file, of which errors name it."""
    with naming(costs):
        table = CostFile(costs).read(
            val.known_classes(test), positive, is_single=val.kind in ONE_COLUMN
        )
    return getattr(table, "matrix", table)


def how_to_apply(method: str, val: Path, test: Path | None, reading: Reading) -> list[str]:
    """Command lines that fit and apply the method of the verdict to these files."""
    new = val if test is None else test
    suffix = "".join(new.suffixes[-2:]) if new.suffix.lower() == ".gz" else new.suffix
    by_row = {"grouped": "groups", "features": "features"}.get(method)
    if is_table(val) or is_log(val):  # columns that the method does not read are no scores
        others = {"groups": (reading.groups,), "features": reading.features or ()}
        unused = [c for option, own in others.items() if option != by_row for c in own if c]
        reading = replace(reading, ignore=(*(reading.ignore or ()), *unused))
    of_scores = {field.name for field in fields(reading)} - {"groups", "features"}
    of_fit = reading.words(*of_scores, *([by_row] if by_row else []))
    of_apply = reading.words("normalize", "label_column", "columns", "ignore")
    of_apply += reading.words("groups") if by_row == "groups" else []
    method = "auto" if by_row else method
    fit = ["calibrant", "fit", str(val), *of_fit, "--method", method]
    apply = ["calibrant", "apply", "model.calibrant", str(new), *of_apply]
    return [
        shlex.join([*fit, "--output", "model.calibrant"]),
        shlex.join([*apply, "--output", f"calibrated{suffix or '.csv'}"]),
    ]
