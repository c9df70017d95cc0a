"""``calibrant decide``, and what other commands say of costs, groups, sets and priors."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from calibrant._cli.reading import file_argument, names, path_argument, reading_options
from calibrant._cli.showing import json_option, naming, plain_table, show, write_columns

if TYPE_CHECKING:
    from pathlib import Path

    from calibrant._cli.reading import Reading
    from calibrant._files.align import Aligned

costs_option = click.option(
    "--costs",
    type=path_argument,
    help="Costs of decisions: CSV with a row for each true class and a column for each action, or "
    'JSON {"false_positive": 1, "false_negative": 20}.',
)
groups_option = click.option(
    "--groups", metavar="COLUMN", help="Column, array or field with the group of each row."
)
coverage_option = click.option(
    "--coverage",
    type=click.FloatRange(0, 1, min_open=True),
    help="Make a set of classes for each row; this share of sets contains the label.",
)
priors_option = click.option(
    "--priors",
    metavar="CLASS=SHARE,...|FILE",
    help="Class frequencies of new rows, or a file of unlabelled rows to estimate them from.",
)


def without_groups(reading: Reading, path: Path, groups: str | None) -> Reading:
    """Return what was said about files, and that a column of groups holds no scores."""
    from calibrant._files.records import is_log
    from calibrant._files.tables import is_table

    if groups is None or not (is_table(path) or is_log(path)):
        return reading
    return replace(reading, ignore=(*(reading.ignore or ()), groups))


def read_groups(path: Path, groups: str | None, part: str | None) -> Any:
    """Return the group of each row of a file as text, or None."""
    from calibrant._files import column

    return None if groups is None else column.read_groups(path, groups, part)


def check_groups(calibrator: Any, model: Path, groups: str | None) -> bool:
    """Whether a model was fitted by group; refuse groups that it does not know or lacks."""
    is_grouped = hasattr(calibrator, "for_group")
    if is_grouped is (groups is None):
        raise click.UsageError(
            f"{model} was fitted {'with' if is_grouped else 'without'} groups: "
            + ("name the column with --groups" if is_grouped else "leave out --groups")
        )
    return is_grouped


def classes_of(*parts: Aligned) -> list[Any] | None:
    """Return the classes that files tell, by names or by their labels."""
    import numpy as np

    from calibrant._one_column import ONE_COLUMN

    first = parts[0]
    if first.classes is not None or any(own.y.ndim != 1 for own in parts):
        return first.classes
    known: list[Any] = np.unique(np.concatenate([own.y for own in parts])).tolist()
    return (
        known if len(known) == (2 if first.kind in ONE_COLUMN else first.matrix.shape[1]) else None
    )


def read_cost_file(
    path: Path, classes: Any, positive: str | None = None, *, is_single: bool = False
) -> Any:
    """Return costs as ``calibrant.decisions`` takes them, with the classes as names of rows.

    The last class is positive if there ``is_single`` column of scores.
    """
    import pandas as pd

    from calibrant.errors import PredictionFileError

    is_json = path.suffix.lower() == ".json"
    try:
        if is_json:
            told = json.loads(path.read_text(encoding="utf-8"))
        else:
            frame = pd.read_csv(path, index_col=0, dtype={0: str})
    except (ValueError, RecursionError) as error:
        raise PredictionFileError(
            f"{path} is neither CSV with a row for each true class and a column for each action, "
            f"nor JSON: {error}"
        ) from error
    if is_json:
        return _named_costs(told, classes, positive, is_single=is_single)
    if classes is not None:
        by_text = {str(label): label for label in classes}
        frame.index = [by_text.get(str(name), name) for name in frame.index]
    return frame


def _named_costs(told: Any, classes: Any, positive: str | None, *, is_single: bool) -> Any:
    """Return costs of a JSON file; those by name as a table, of which the positive class is known.

    In files the classes of columns are always told, which does not tell the positive one.
    """
    import numpy as np
    import pandas as pd

    from calibrant._one_column import tells_positive
    from calibrant.decisions._cost_tables import read_costs
    from calibrant.errors import ParameterError, some_in_words

    if not isinstance(told, dict) or classes is None:
        return told
    known = np.asarray(classes)
    by_text = {str(label): label for label in known.tolist()}
    is_known = is_single or len(known) != 2 or tells_positive(known)
    if (positive is None and not is_known) or (positive is not None and positive not in by_text):
        wrong = "the positive one is not known" if positive is None else f"{positive!r} is not one"
        raise ParameterError(
            "costs are 'false_positive' and 'false_negative', but of the classes "
            f"{some_in_words(known)} {wrong}; name the positive class with --positive, or write "
            "the costs as CSV with a named row for each true class and a column for each action"
        )
    pos_label = None if positive is None else by_text[positive]
    matrix = read_costs(told, known, pos_label=pos_label, is_told=True).matrix
    return pd.DataFrame(matrix, known.tolist(), known.tolist())


def judge_decisions(
    found: Aligned,
    costs: Path | None,
    coverage: float | None,
    positive: str | None = None,
    **draws: int,
) -> tuple[dict[str, Any], list[str]]:
    """Measure what decisions cost, and how often sets hold the label; as numbers and in words."""
    from calibrant import _notices as notices
    from calibrant._one_column import ONE_COLUMN
    from calibrant.decisions import expected_cost
    from calibrant.report._decisions import money, set_sizes

    options: dict[str, Any] = {"classes": found.classes}
    probabilities, result, lines = found.probabilities(), {}, []
    if costs is not None:
        with naming(costs), notices.kept():  # of the order of columns metrics have warned
            known, is_single = classes_of(found), found.kind in ONE_COLUMN
            table = read_cost_file(costs, known, positive, is_single=is_single)
            drawn = options | {"n_resamples": draws["resamples"], "random_state": draws["seed"]}
            own = expected_cost(found.y, probabilities, table, **drawn)
        result["cost"] = own.to_dict()
        words = f"{money(own.realised)}; predicted by the probabilities: {money(own.predicted)}"
        lines.append(f"Mean cost per decision: {words}.")
    if coverage is not None:
        sets = set_sizes(found.y, probabilities, coverage, **options)
        result["sets"] = sets.to_dict()
        lines.append(str(sets).capitalize())
    return result, lines


def to_priors(calibrator: Any, priors: str, found: Aligned, reading: Reading) -> Any:
    """Return the unfitted calibrator with a shift to class frequencies of use behind it."""
    from pathlib import Path

    from calibrant import Chain, PriorShift

    path = Path(priors)
    own = {"scores": calibrator.scores, "classes": calibrator.classes}
    own["normalize"] = calibrator.normalize
    if not path.exists():
        return Chain([calibrator, PriorShift(to_priors=_read_priors(priors, found))], **own)
    chain = Chain([calibrator, PriorShift()], **own).fit(found.scores, found.y)
    shift = chain.calibrators_[-1]
    rows = read_served(chain, path, None, reading)["probabilities"]  # they are not shifted yet
    shift.adapt(rows)
    text = ", ".join(
        f"{label} {share:.4g} ({low:.4g} .. {high:.4g})"
        for label, share, low, high in zip(
            chain.classes_, shift.priors_, shift.priors_low_, shift.priors_high_, strict=True
        )
    )
    changed = "a shift" if shift.p_value_ < shift.alpha else "no shift, so nothing changes"
    click.echo(
        f"calibrant: class frequencies of {path}: {text}; p = {shift.p_value_:.3g}: {changed}",
        err=True,
    )
    return Chain([calibrator, PriorShift(to_priors=shift.to_priors_)], **own)


def _read_priors(text: str, found: Aligned) -> dict[Any, float]:
    """Return the share of each class, as ``no=0.98,yes=0.02`` says it."""
    import numpy as np

    from calibrant.errors import ParameterError

    known = np.unique(found.y).tolist() if found.classes is None else found.classes
    by_text, told = {str(label): label for label in known}, {}
    for part in names(text):
        name, _, share = part.rpartition("=")
        try:
            told[by_text.get(name.strip(), name.strip())] = float(share)
        except ValueError:
            raise ParameterError(
                f"--priors {text!r} is not a file, and {part!r} in it is not CLASS=SHARE; write "
                "no=0.98,yes=0.02, or name a file of unlabelled rows"
            ) from None
    return told


def read_served(
    calibrator: Any,
    path: Path,
    part: str | None,
    reading: Reading,
    groups: str | None = None,
    time: str | None = None,
) -> dict[str, Any]:
    """Read a file and calibrate it; ``y`` is there if the file has labels."""
    import numpy as np

    from calibrant._files.align import read_labels
    from calibrant._files.apply import calibrate_rows, find_order
    from calibrant._files.column import groups_like, read_column
    from calibrant._files.logs import leave_out_absent
    from calibrant._files.predictions import open_source

    if reading.normalize:
        calibrator.set_params(normalize="rows")
    for name in (groups, time):
        reading = without_groups(reading, path, name)
    options: dict[str, Any] = {"part": part, "usual_part": "test", "kind": calibrator.scores}
    classes = calibrator.classes_
    with open_source(path, selection=reading.selection, **options) as source:
        place, layout = source.place, source.layout
        order = find_order(calibrator, source)
        chunks = [(c.scores, c.labels()) for c in source.chunks]
    rows: dict[str, Any] = {"groups": read_groups(path, groups, part or "test"), "time": None}
    if time is not None:
        remedy = "name the column with --time-column"
        rows["time"] = read_column(path, time, remedy, part or "test", as_stored=True)
    scores = np.concatenate([own for own, _ in chunks])
    by_group = {}
    if hasattr(calibrator, "for_group"):
        if groups is None:
            raise click.UsageError("the model was fitted with groups; name them with --groups")
        by_group["groups"] = groups_like(rows["groups"], calibrator.groups_)
    with naming(path):
        found, _ = calibrate_rows(calibrator, scores, order, source, 0, by_group)
        if source.log is not None and source.log.has_absent:
            found = leave_out_absent(found, scores, source.kind, order)
    rows["probabilities"] = found
    raw = [own for _, own in chunks if own is not None]
    y = np.concatenate(raw) if raw else None
    is_sure = layout is None or layout.is_named
    if y is not None and (is_sure or {str(v) for v in y} <= {str(c) for c in classes}):
        rows["y"] = read_labels(y, place, as_text=classes.dtype.kind in "OU")
    return rows


@click.command()
@click.argument("model", type=path_argument)
@click.argument("file", type=file_argument)
@click.option("-o", "--output", type=path_argument, required=True, help="Table to write: .csv.")
@costs_option
@coverage_option
@groups_option
@click.option("--part", type=click.Choice(["val", "test"]), help="Part of an npz file.")
@reading_options("positive", "normalize", "label_column", "columns", "ignore")
@json_option
def decide(
    model: Path,
    file: Path,
    output: Path,
    costs: Path | None,
    coverage: float | None,
    groups: str | None,
    part: str | None,
    reading: Reading,
    as_json: bool,
) -> None:
    """Write a decision, or a set of classes, for each row of FILE.

    The scores in FILE are calibrated with MODEL first.

    \b
    Example:
      calibrant decide model.calibrant new.csv -o decisions.csv --costs costs.csv
    """  # noqa: D301
    from calibrant import model_file
    from calibrant._files.apply import refuse_inputs
    from calibrant._one_column import ONE_COLUMN
    from calibrant.decisions import prediction_sets
    from calibrant.decisions._cost_tables import action_costs, read_costs

    if costs is None and coverage is None:
        raise click.UsageError("say what to decide by: --costs FILE, --coverage SHARE, or both")
    refuse_inputs(output, model, file, costs)
    with naming(model):
        calibrator = model_file.load(model)
    check_groups(calibrator, model, groups)
    rows = read_served(calibrator, file, part, reading, groups)
    probabilities, classes = rows["probabilities"], calibrator.classes_
    columns: dict[str, Any] = {}
    table = plain_table(f"{len(probabilities):,} rows of {file}", "")
    if costs is not None:
        with naming(costs):
            is_single = calibrator.scores in ONE_COLUMN
            own = read_cost_file(costs, classes.tolist(), reading.positive, is_single=is_single)
            told = read_costs(own, classes)
        cells = action_costs(probabilities, told.matrix)
        chosen = cells.argmin(axis=1)
        columns["decision"] = [str(told.actions[place]) for place in chosen]
        columns["cost"] = cells.min(axis=1)
        table.add_row("expected cost per row", f"{columns['cost'].mean():.4g}")
        for place, action in enumerate(told.actions):
            table.add_row(f"decided {action}", f"{(chosen == place).mean():.1%}")
    if coverage is not None:
        sets = prediction_sets(probabilities, coverage, classes=classes)
        columns["set"] = [";".join(map(str, own)) for own in sets.labels()]
        table.add_row(f"mean size of sets for {coverage:.0%}", f"{sets.sizes.mean():.2f}")
    write_columns(output, columns)
    result = {"output": str(output), "rows": len(probabilities), "source": str(file)}
    if costs is not None:
        result["expected_cost"] = float(columns["cost"].mean())
    show(result, as_json, table)
