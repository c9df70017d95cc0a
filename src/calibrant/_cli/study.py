"""``calibrant study``: the experiment of the paper over a directory of prediction files."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from calibrant._cli.options import PATH, command, output_option, shared
from calibrant._cli.showing import show, tell
from calibrant._progress import progress_bar

if TYPE_CHECKING:
    from pathlib import Path


@command()
@click.argument("directory", metavar="DIR", type=PATH)
@output_option("Directory to write to.")
@click.option("--methods", help="Separated by commas, or 'all'; by default the paper's and auto.")
@click.option(
    "-j", "--jobs", type=click.IntRange(min=1), help="Number of processes; one per core by default."
)
@click.option("--retry-failed", is_flag=True, help="Run cells that failed again.")
@click.option("--table-only", is_flag=True, help="Write only the table of numbers.")
@click.option(
    "--against",
    type=PATH,
    help="Directory of CalArena's results for an HDF5 file; adds win rates against them.",
)
@shared("seed", "as_json")
def study(
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
    """Fit every method to every file in DIR and evaluate it, as in the paper.

    DIR has files dataset_model.npz with the arrays val_labels, test_labels and val_probs,
    test_probs (or val_logits, test_logits), or is an HDF5 file of CalArena, whose result files
    are written to OUT/calarena. Finished cells are kept in OUT/cells: run the same command again
    after a crash, or with more files or methods, to continue.

    \b
    Example:
      calibrant study predictions -o out
      calibrant study cv-multiclass.h5 -o out --against CalArena/results/cv-multiclass
    """  # noqa: D301
    from calibrant import study as library

    if against is not None:  # before a long run
        if directory.suffix.lower() not in {".h5", ".hdf5"}:
            raise click.UsageError(f"--against needs an HDF5 file of CalArena; {directory} is none")
        library.read_results(against)
    chosen: Any = methods.split(",") if methods and methods != "all" else methods
    started = time.monotonic()
    with progress_bar("study") as advance:
        table = library.run_study(
            directory,
            output,
            chosen,
            n_jobs=jobs,
            seed=seed,
            retry_failed=retry_failed,
            progress=advance,
            message=tell,
        )
    written = []
    if not table_only:
        with progress_bar("drawing"):
            written = library.write_outputs(table, output)
    rates = [] if against is None else _win_rates(against, output / "calarena" / directory.stem)
    lost = table.frame[(table.frame["metric"] == "nll") & table.frame["value"].isna()]
    result = {
        "output": str(output),
        "classifiers": len(table.cases),
        "methods": table.methods,
        "failures": (lost["dataset"] + "_" + lost["model"] + ": " + lost["method"]).tolist(),
        "written": [str(path) for path in written],
        "win_rates": rates,
        "seconds": time.monotonic() - started,
    }
    show(result, as_json, _summary(result))


def _win_rates(against: Path, results: Path) -> list[dict[str, Any]]:
    """Win rates by the two proper scores, of published results and ours."""
    from calibrant.study import win_rates

    result = []
    for metric in ("brier", "logloss"):
        rates = win_rates(against, results, metric=metric).reset_index()
        n_experiments = int(rates.pop("experiments")[0])
        methods = rates.to_dict("records")
        result.append({"metric": metric, "experiments": n_experiments, "methods": methods})
    return result


def _summary(result: dict[str, Any]) -> str:
    n_classifiers, n_methods = result["classifiers"], len(result["methods"])
    duration = timedelta(seconds=round(result["seconds"]))
    lines = [f"{result['output']}: {n_classifiers} classifiers x {n_methods} methods in {duration}"]
    if result["failures"]:
        n_failed, n_cells = len(result["failures"]), n_classifiers * n_methods
        lines.append(f"{n_failed} of {n_cells} cells failed: see study.log")
    for rates in result["win_rates"]:
        lines.append(f"Win rates by {rates['metric']}, {rates['experiments']} experiments:")
        line = "  {score:.3f} ({lower:.2f} to {upper:.2f})  {method}"
        lines += [line.format(**rate) for rate in rates["methods"]]
    lines += [f"Report: {path}" for path in result["written"] if path.endswith(".html")]
    return "\n".join(lines)
