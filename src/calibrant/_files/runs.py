"""Runs of evaluations below a directory: which model answered which task in which files."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from zipfile import BadZipFile, ZipFile

from calibrant._files.formats import files_below
from calibrant._files.logs import unzip

if TYPE_CHECKING:
    from pathlib import Path

SAMPLES = re.compile(r"samples_(.+)_(\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")
"""Name of a file of lm-evaluation-harness: the task and the time."""

OF_HELM = "per_instance_stats.json"


class Run(NamedTuple):
    """Answers of a model to a task; ``part`` is the task of a file in a group of tasks."""

    model: str
    task: str
    part: str
    created: str
    file: Path


def find_runs(home: Path) -> tuple[list[Run], list[Run]]:
    """Return the newest run of every model and task below a directory, and those before it."""
    read = (_read_run(file, home) for file in files_below(home, "log"))
    runs = [run for run in read if run is not None]
    runs.sort(key=lambda run: (run.created, str(run.file)))
    newest = {(run.model, run.task, run.part): run for run in runs}
    return list(newest.values()), [run for run in runs if run not in newest.values()]


def _read_run(file: Path, home: Path) -> Run | None:
    """Return what a file holds, by its name, its header or what lies beside it."""
    samples = SAMPLES.fullmatch(file.name)
    if samples is not None:
        task, created = samples.groups()
        results = _read_json(file.with_name(f"results_{created}.json"))
        model = results.get("model_name") or file.parent.name
        return Run(str(model), _group_of(task, results), task, created, file)
    if (file.parent / OF_HELM).exists():
        spec = _read_json(file.with_name("run_spec.json"))
        model = spec.get("adapter_spec", {}).get("model") or file.parent.parent.name
        name = re.sub(r",?model=[^,]*", "", str(spec.get("name", file.parent.name))).rstrip(":")
        return Run(str(model), name, name, "", file) if file.name == OF_HELM else None
    header = _read_header(file)
    if header is not None:
        task = str(header.get("task"))
        return Run(str(header.get("model")), task, task, str(header.get("created")), file)
    if file.suffix == ".json":  # results, which tools write beside their samples
        return None
    name = re.sub(r"\.(jsonl|ndjson|eval)(\.gz)?$", "", file.relative_to(home).as_posix())
    model, _, task = name.partition("/")
    return Run(model, task, task, "", file)


def _read_json(file: Path) -> dict[str, Any]:
    """Return an object of JSON; an empty one where there is none."""
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads(file.read_bytes())
        return found if isinstance(found, dict) else {}
    return {}


def _group_of(task: str, results: dict[str, Any]) -> str:
    """Return the outermost group of a task of lm-evaluation-harness, such as mmlu."""
    homes = {
        inner: group
        for group, tasks in results.get("group_subtasks", {}).items()
        for inner in tasks
        if inner != group
    }
    seen = set()
    while task in homes and task not in seen:
        seen.add(task)
        task = homes[task]
    return task


def _read_header(file: Path) -> dict[str, Any] | None:
    """Return what an Inspect log says about its evaluation; None if it is no such log."""
    whole: Any = {}
    if file.suffix == ".json":
        whole = _read_json(file)
    elif file.suffix == ".eval":
        with suppress(OSError, ValueError, KeyError, BadZipFile), file.open("rb") as stored:
            archive = ZipFile(stored)
            name = "header.json" if "header.json" in archive.namelist() else "_journal/start.json"
            whole = json.loads(unzip(archive, stored, archive.getinfo(name)))
    header = whole.get("eval") if isinstance(whole, dict) else None
    return header if isinstance(header, dict) else None
