"""Options that several commands share, each defined once, and refusal to overwrite inputs."""

from __future__ import annotations

import csv
import os
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from calibrant._files.source import Request

    Run = Callable[..., int | None]

PATH = click.Path(path_type=Path)

model_argument = click.argument("model", type=PATH)


class OutputPath(click.Path):
    """A file or directory to write. All other paths that a command takes are inputs."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)


class SafeCommand(click.Command):
    """A command that refuses to write over what it reads, before it does anything."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command, unless an output is also an input or another one, by whatever name."""
        from calibrant._files.formats import find_format
        from calibrant.errors import PredictionFileError

        given = [
            (p, ctx.params[str(p.name)]) for p in self.params if isinstance(p.type, click.Path)
        ]
        several = [(p, own if isinstance(own, tuple) else (own,)) for p, own in given]
        paths = [(param, path) for param, own in several for path in own if path is not None]
        for param, out in paths:
            if not isinstance(param.type, OutputPath):
                continue
            is_data = bool(out.suffix) and find_format(out) is not None
            for other, path in paths:
                # Data in a directory that is read would be read the next time.
                inside = is_data and Path(os.path.realpath(out)).is_relative_to(
                    os.path.realpath(path)
                )
                if other is not param and (is_same(out, path) or inside):
                    is_output = isinstance(other.type, OutputPath)
                    also = f"written by {other.opts[-1]}" if is_output else "an input"
                    raise PredictionFileError(f"{out} is also {also}; write to another file")
        return super().invoke(ctx)


command = partial(click.command, cls=SafeCommand)


def output_option(help_text: str, *, required: bool = True) -> Callable[[Run], Run]:
    """Return the option ``--output`` of a command."""
    return click.option("-o", "--output", type=OutputPath(), required=required, help=help_text)


def split_names(text: str) -> tuple[str, ...]:
    """Split at commas; quotes keep a comma inside of a name."""
    return tuple(name.strip() for name in next(csv.reader([text]), []))


KINDS = click.Choice(["probabilities", "logits", "positive", "decision"])
SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)

SHARED: dict[str, Callable[[Run], Run]] = {
    "part": click.option("--part", type=click.Choice(["val", "test"]), help="Part of an npz file."),
    "kind": click.option(
        "--scores",
        "kind",
        type=KINDS,
        help="What the scores are; npz files say it. For a single column: positive (probability of "
        "the positive class) or decision (its margin).",
    ),
    "positive": click.option(
        "--positive", metavar="LABEL", help="Positive class of two; 1 if the classes are 0 and 1."
    ),
    "normalize": click.option(
        "--normalize", is_flag=True, help="Divide each row by its sum, for counts or percent."
    ),
    "label": click.option(
        "--label-column",
        "label",
        metavar="NAME",
        help="Column with the labels; by default label, target, y or class, or the only text.",
    ),
    "labels": click.option(
        "--labels", type=PATH, help="npy file of labels; of a log, a file with ids and labels."
    ),
    "columns": click.option(
        "--columns", type=split_names, help="Columns of scores, or patterns such as 'prob_*'."
    ),
    "ignore": click.option(
        "--ignore", type=split_names, help="Columns that are not scores, or patterns."
    ),
    "classes": click.option(
        "--classes", type=split_names, help="Class of each column, if their names do not say it."
    ),
    "groups": click.option(
        "--groups", metavar="COLUMN", help="Column, array or field with the group of each row."
    ),
    "features": click.option(
        "--features",
        type=split_names,
        metavar="COLUMN,...",
        help="Columns beside the scores that predictions may depend on.",
    ),
    "costs": click.option(
        "--costs",
        type=PATH,
        help="Costs of decisions: CSV with a row for each true class and a column for each action, "
        'or JSON {"false_positive": 1, "false_negative": 20}.',
    ),
    "level": click.option(
        "--level", type=SHARE, default=0.95, help="Confidence level of the intervals."
    ),
    "seed": click.option("--seed", default=0, help="Seed of random numbers."),
    "jobs": click.option(
        "-j",
        "--jobs",
        type=int,
        default=1,
        help="Number of threads; -1 for all cores. Results do not depend on it.",
    ),
    "as_json": click.option("--json", "as_json", is_flag=True, help="Print JSON for programs."),
}
NOT_OF_FILES = ("costs", "level", "seed", "jobs", "as_json")
SCORES = ("kind", "positive", "normalize", "label", "labels", "columns", "ignore", "classes")
SERVED = ("part", "normalize", "label", "columns", "ignore", "groups")
"""Options of files of labelled scores, and of files that a model calibrates."""


def shared(*chosen: str) -> Callable[[Run], Run]:
    """Give a command some shared options: those about files as one argument ``request``."""
    of_files = [name for name in chosen if name not in NOT_OF_FILES]

    def decorate(run: Run) -> Run:
        @wraps(run)
        def prepared(**arguments: Any) -> int | None:
            if of_files:
                from calibrant._files.source import Request  # not where only help is shown

                given = {name: arguments.pop(name) for name in of_files}
                given = {name: value for name, value in given.items() if value is not None}
                arguments["request"] = Request(**given)
            arguments.pop("as_json", None)  # which ``show`` asks for
            if "jobs" not in chosen:
                return run(**arguments)
            from calibrant import _threads as threads

            with threads.jobs(arguments.pop("jobs")):
                return run(**arguments)

        decorated: Run = prepared
        for name in reversed(chosen):
            decorated = SHARED[name](decorated)
        return decorated

    return decorate


def words(request: Request, chosen: Sequence[str]) -> list[str]:
    """Return options of files as they are typed."""
    result = []
    for name in chosen:
        value = getattr(request, name)
        if not value:
            continue
        result.append({"kind": "--scores", "label": "--label-column"}.get(name, f"--{name}"))
        if isinstance(value, tuple):
            value = ",".join(f'"{n}"' if "," in n else n for n in value)
        if value is not True:
            result.append(str(value))
    return result


def is_same(first: Path, second: Path) -> bool:
    """Whether two paths lead to one file: also where it is not there yet, or has two names."""
    if os.path.realpath(first) == os.path.realpath(second):
        return True
    return first.exists() and second.exists() and first.samefile(second)
