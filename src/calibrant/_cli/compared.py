"""``calibrant compare``: which rows are fitted to and which judge, and what to do next."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant._cli.cost_files import read_cost_file
from calibrant._cli.deciding import classes_of, read_groups, without_groups
from calibrant._cli.showing import naming
from calibrant._files.predictions import has_parts
from calibrant.errors import PredictionFileError

if TYPE_CHECKING:
    from pathlib import Path

    from calibrant._cli.reading import Reading
    from calibrant._files.align import Aligned


class Two(NamedTuple):
    """Rows to fit to and rows to judge on."""

    val: Aligned
    test: Aligned
    sources: dict[str, str]
    groups: tuple[Any, Any] = (None, None)


def read_two(
    val: Path,
    test: Path | None,
    reading: Reading,
    *,
    test_labels: Path | None,
    split: float | None,
    seed: int,
    groups: str | None = None,
) -> Two:
    """Read both parts, from two files, from two parts of one, or by drawing rows of one."""
    of_test = without_groups(replace(reading, labels=test_labels), test or val, groups)
    reading = without_groups(reading, val, groups)
    in_one = test is None or _is_same(val, test)
    if split is not None:
        if not in_one or has_parts(val):
            raise PredictionFileError(f"{val}: --split is for one file without parts")
        return _split(val, reading, split, seed, groups)
    if in_one and not has_parts(val):
        raise PredictionFileError(
            f"{val} has no val_* and test_* parts, and rows that were fitted to cannot judge; give "
            "a second file, or draw rows by --split 0.5"
        )
    told = read_groups(val, groups, "val"), read_groups(test or val, groups, "test")
    first = reading.read(val, usual_part="val", positive_last=True)
    second = of_test.read(test or val, usual_part="test", like=first, positive_last=True)
    sources = {"calibration": first.place.source, "test": second.place.source}
    if first.kind != second.kind:
        a, b = sources.values()
        raise PredictionFileError(
            f"{a} holds {first.kind}, but {b} {second.kind}; choose one by --scores, or convert a "
            "file"
        )
    for part in (first, second):
        part.check()
    return Two(first, second, sources, told)


def _is_same(a: Path, b: Path) -> bool:
    return a.exists() and b.exists() and a.samefile(b)


def _split(path: Path, reading: Reading, share: float, seed: int, groups: str | None) -> Two:
    named = read_groups(path, groups, None)
    whole = reading.read(path, positive_last=True)
    whole.check()
    n_rows = len(whole.y)
    if n_rows < 2:
        raise PredictionFileError(f"{path} has {n_rows} rows, which cannot be split")
    n_val = min(max(1, round(share * n_rows)), n_rows - 1)
    order = np.random.default_rng(seed).permutation(n_rows)
    parts = np.sort(order[:n_val]), np.sort(order[n_val:])
    val, test = (whole.take(rows) for rows in parts)
    told = (None, None)
    if named is not None:
        told = named[parts[0]], named[parts[1]]
    drawn = f"{n_val:,} of {n_rows:,} rows, drawn at random (seed {seed})"
    sources = {
        "calibration": f"{whole.place.source}: {drawn}",
        "test": f"{whole.place.source}: the other {n_rows - n_val:,} rows",
    }
    return Two(val, test, sources, told)


def read_two_costs(costs: Path | None, two: Two, positive: str | None) -> Any:
    """Return the costs of a file, of which errors name it."""
    from calibrant._one_column import ONE_COLUMN
    from calibrant.decisions._cost_tables import read_costs

    if costs is None:
        return None
    with naming(costs):
        classes, is_single = classes_of(two.val, two.test), two.val.kind in ONE_COLUMN
        table = read_cost_file(costs, classes, positive, is_single=is_single)
        if classes is not None:
            read_costs(table, np.asarray(classes))
    return table


def how_to_apply(
    comparison: Any, val: Path, test: Path | None, reading: Reading, groups: str | None = None
) -> list[str]:
    """Command lines that fit and apply the method of the verdict to these files."""
    method = comparison.verdict.applied
    new = val if test is None else test
    suffix = "".join(new.suffixes[-2:]) if new.suffix.lower() == ".gz" else new.suffix
    by_group: list[str] = []
    if method == "grouped" and groups is not None:
        method, by_group = "auto", ["--groups", groups]
    else:
        reading = without_groups(reading, val, groups)
    of_fit = [*reading.words(*(field.name for field in fields(reading))), *by_group]
    of_apply = [*reading.words("normalize", "label_column", "columns", "ignore"), *by_group]
    fit = ["calibrant", "fit", str(val), *of_fit, "--method", method]
    apply = ["calibrant", "apply", "model.calibrant", str(new), *of_apply]
    return [
        shlex.join([*fit, "--output", "model.calibrant"]),
        shlex.join([*apply, "--output", f"calibrated{suffix or '.csv'}"]),
    ]
