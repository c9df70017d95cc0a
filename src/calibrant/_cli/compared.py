"""``calibrant compare``: which rows are fitted to and which judge, and what to do next."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant._cli.costs import CostFile
from calibrant._cli.outputs import is_same
from calibrant._cli.showing import naming
from calibrant._files.arrays import has_parts
from calibrant._files.predictions import is_log, is_table
from calibrant._files.values import features_of
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
    features: tuple[Any, Any] = (None, None)


def read_two(
    val: Path,
    test: Path | None,
    reading: Reading,
    *,
    test_labels: Path | None,
    split: float | None,
    seed: int,
    groups: str | None = None,
    features: tuple[str, ...] | None = None,
) -> Two:
    """Read both parts, from two files, from two parts of one, or by drawing rows of one."""
    in_one = test is None or is_same(val, test)
    if split is not None:
        if not in_one or has_parts(val):
            raise PredictionFileError(f"{val}: --split is for one file without parts")
        return _split(val, reading, split, seed, groups, features)
    if in_one and not has_parts(val):
        raise PredictionFileError(
            f"{val} has no val_* and test_* parts, and rows that were fitted to cannot judge; give "
            "a second file, or draw rows by --split 0.5"
        )
    beside = _beside(groups, features)
    first = reading.read(val, usual_part="val", positive_last=True, beside=beside)
    second = replace(reading, labels=test_labels).read(
        test or val, usual_part="test", like=first, positive_last=True, beside=beside
    )
    sources = {"calibration": first.place.source, "test": second.place.source}
    if first.kind != second.kind:
        a, b = sources.values()
        raise PredictionFileError(
            f"{a} holds {first.kind}, but {b} {second.kind}; choose one by --scores, or convert a "
            "file"
        )
    for part in (first, second):
        part.check()
    named = first.groups(groups), second.groups(groups)
    if features is None:
        return Two(first, second, sources, named)
    tables = features_of(first.beside, features), features_of(second.beside, features)
    return Two(first, second, sources, named, tables)


def _beside(groups: str | None, features: tuple[str, ...] | None) -> dict[str, str]:
    """Return the columns to read beside the scores, with their options."""
    own = {} if groups is None else {groups: "--groups"}
    return own | dict.fromkeys(features or (), "--features")


def _split(
    path: Path,
    reading: Reading,
    share: float,
    seed: int,
    groups: str | None,
    features: tuple[str, ...] | None,
) -> Two:
    whole = reading.read(path, positive_last=True, beside=_beside(groups, features))
    whole.check()
    named = whole.groups(groups)
    n_rows = len(whole.y)
    if n_rows < 2:
        raise PredictionFileError(f"{path} has {n_rows} rows, which cannot be split")
    n_val = min(max(1, round(share * n_rows)), n_rows - 1)
    order = np.random.default_rng(seed).permutation(n_rows)
    parts = np.sort(order[:n_val]), np.sort(order[n_val:])
    val, test = (whole.take(rows) for rows in parts)
    of_parts = (None, None) if named is None else (named[parts[0]], named[parts[1]])
    columns: tuple[Any, Any] = (None, None)
    if features is not None:
        table = features_of(whole.beside, features)
        columns = table.iloc[parts[0]], table.iloc[parts[1]]
    drawn = f"{n_val:,} of {n_rows:,} rows, drawn at random (seed {seed})"
    sources = {
        "calibration": f"{whole.place.source}: {drawn}",
        "test": f"{whole.place.source}: the other {n_rows - n_val:,} rows",
    }
    return Two(val, test, sources, of_parts, columns)


def read_two_costs(costs: Path | None, two: Two, positive: str | None) -> Any:
    """Return the costs of a file, of which errors name it."""
    from calibrant._gate import ONE_COLUMN

    if costs is None:
        return None
    with naming(costs):
        classes, is_single = two.val.known_classes(two.test), two.val.kind in ONE_COLUMN
        table = CostFile(costs).read(classes, positive, is_single=is_single)
    return getattr(table, "matrix", table)


def how_to_apply(
    comparison: Any,
    val: Path,
    test: Path | None,
    reading: Reading,
    groups: str | None = None,
    features: tuple[str, ...] | None = None,
) -> list[str]:
    """Command lines that fit and apply the method of the verdict to these files."""
    method = comparison.verdict.applied
    new = val if test is None else test
    suffix = "".join(new.suffixes[-2:]) if new.suffix.lower() == ".gz" else new.suffix
    by_group: list[str] = []
    by_feature: list[str] = []
    if method == "grouped" and groups is not None:
        method, by_group = "auto", ["--groups", groups]
    elif method == "features" and features is not None:
        named = ",".join(f'"{n}"' if "," in n else n for n in features)
        method, by_feature = "auto", ["--features", named]
    elif groups is not None and (is_table(val) or is_log(val)):
        reading = replace(reading, ignore=(*(reading.ignore or ()), groups))
    of_fit = [*reading.words(*(f.name for f in fields(reading))), *by_group, *by_feature]
    of_apply = [*reading.words("normalize", "label_column", "columns", "ignore"), *by_group]
    fit = ["calibrant", "fit", str(val), *of_fit, "--method", method]
    apply = ["calibrant", "apply", "model.calibrant", str(new), *of_apply]
    return [
        shlex.join([*fit, "--output", "model.calibrant"]),
        shlex.join([*apply, "--output", f"calibrated{suffix or '.csv'}"]),
    ]
