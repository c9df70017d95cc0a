"""``calibrant study``: the experiment of the paper over a directory of prediction files."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from calibrant._cli.outputs import OutputPath
from calibrant._cli.showing import json_option, show
from calibrant._cli.stop import final_message
from calibrant._progress import progress_bar


class StudyGroup(click.Group):
    """What is not the name of a command is the directory of ``run``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put "run" before anything that is neither a command nor a call for help."""
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=StudyGroup, subcommand_metavar="DIR -o OUT | COMMAND [ARGS]...")
def study() -> None:
    """Run every method on many classifiers, as in the paper.

    DIR has files dataset_model.npz with the arrays val_labels, test_labels and val_probs,
    test_probs (or val_logits, test_logits), or is an HDF5 file of CalArena.

    \b
    Example:
      calibrant study predictions -o out
    """  # noqa: D301


@study.command(name="run")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=OutputPath(), required=True, help="Directory to write to.")
@click.option("--methods", help="Separated by commas, or 'all'; by default the paper's and auto.")
@click.option(
    "-j", "--jobs", type=click.IntRange(min=1), help="Number of processes; one per core by default."
)
@click.option("--seed", default=0, show_default=True, help="Seed of random numbers.")
@click.option("--retry-failed", is_flag=True, help="Run cells that failed again.")
@click.option("--table-only", is_flag=True, help="Write only the table of numbers.")
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    help="Directory of CalArena's results for an HDF5 file; adds win rates against them.",
)
@json_option
def run_command(
    directory: Path,
    output: Path,
    methods: str | None,
    jobs: int | None,
    seed: int,
    retry_failed: bool,
    table_only: bool,
    against: Path | None,
    as_json: bool,
) -> None:
    """Fit every method to every file in DIR and evaluate it.

    Finished cells are kept in OUT/cells: run the same command again after a crash, or with more
    files or methods, to continue. If DIR is an HDF5 file of CalArena, its result files are written
    to OUT/calarena.

    \b
    Examples:
      calibrant study run predictions -o out --methods ts,na-fir,scir
      calibrant study run cv-multiclass.h5 -o out --against CalArena/results/cv-multiclass
    """  # noqa: D301
    from rich.console import Console

    from calibrant import study as library

    _check_against(against, directory)
    chosen: Any = methods.split(",") if methods and methods != "all" else methods
    started = time.monotonic()
    plain: dict[str, Any] = {"markup": False, "highlight": False, "soft_wrap": True}
    console = Console(stderr=True)
    goes_on = final_message("stopped; run the same command to continue")
    with goes_on, progress_bar("study", console=console) as advance:
        table = library.run_study(
            directory,
            output,
            chosen,
            n_jobs=jobs,
            seed=seed,
            retry_failed=retry_failed,
            progress=advance,
            message=lambda text: console.print(f"calibrant: {text}", **plain),
        )
    written = []
    if not table_only:
        with progress_bar("drawing"):
            written = library.write_outputs(table, output)
    rates = [] if against is None else _win_rates(against, output / "calarena" / directory.stem)
    frame = table.frame
    lost = frame[(frame["metric"] == "nll") & frame["value"].isna()]
    failures = (lost["dataset"] + "_" + lost["model"] + ": " + lost["method"]).tolist()
    result = {
        "output": str(output),
        "classifiers": len(table.cases),
        "methods": table.methods,
        "failures": failures,
        "written": [str(path) for path in written],
        "win_rates": rates,
        "seconds": time.monotonic() - started,
    }
    show(result, as_json, _summary(result))


def _check_against(against: Path | None, source: Path) -> None:
    """Find out before a long run whether there is something to compare with."""
    from calibrant.study import read_results

    if against is None:
        return
    if source.suffix.lower() not in {".h5", ".hdf5"}:
        raise click.UsageError(
            f"--against needs one HDF5 file of CalArena, and {source} is not one"
        )
    read_results(against)


def _win_rates(against: Path, own: Path) -> list[dict[str, Any]]:
    """Win rates by the two proper scores, of published results and ours."""
    from calibrant.study import win_rates

    found = []
    for metric in ("brier", "logloss"):
        rates = win_rates(against, own, metric=metric).reset_index()
        n_experiments = int(rates.pop("experiments")[0])
        methods = rates.to_dict("records")
        found.append({"metric": metric, "experiments": n_experiments, "methods": methods})
    return found


def _summary(result: dict[str, Any]) -> str:
    n_cells = result["classifiers"] * len(result["methods"])
    size = f"{result['classifiers']} classifiers x {len(result['methods'])} methods"
    lines = [f"{result['output']}: {size} in {timedelta(seconds=round(result['seconds']))}"]
    if result["failures"]:
        lines.append(f"{len(result['failures'])} of {n_cells} cells failed: see study.log")
    for rates in result["win_rates"]:
        lines.append(f"Win rates by {rates['metric']}, {rates['experiments']} experiments:")
        width = max(len(rate["method"]) for rate in rates["methods"])
        for rate in rates["methods"]:
            limits = f"{rate['lower']:.2f} to {rate['upper']:.2f}"
            lines.append(f"  {rate['method']:<{width}}  {rate['score']:.3f}  ({limits})")
    pages = [path for path in result["written"] if path.endswith(".html")]
    lines += [f"Report: {Path(page).resolve().as_uri()}" for page in pages]
    return "\n".join(lines)
