"""``calibrant decide``, and what other commands say of costs, groups, sets and priors."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from calibrant._cli.cost_files import cost_columns, read_cost_file, row_costs
from calibrant._cli.outputs import OutputPath
from calibrant._cli.reading import file_argument, names, path_argument, reading_options
from calibrant._cli.showing import json_option, naming, plain_table, show, write_columns
from calibrant._html import short_number

if TYPE_CHECKING:
    from pathlib import Path

    from calibrant._cli.reading import Reading
    from calibrant._files.align import Aligned
    from calibrant._result import Estimate
    from calibrant.metrics import Predictions

costs_option = click.option(
    "--costs",
    type=path_argument,
    help="Costs of decisions: CSV with a row for each true class and a column for each action, or "
    'JSON {"false_positive": 1, "false_negative": 20}. A name in place of a number is a column of '
    "FILE, for costs that differ by row.",
)
groups_option = click.option(
    "--groups", metavar="COLUMN", help="Column, array or field with the group of each row."
)
coverage_option = click.option(
    "--coverage",
    type=click.FloatRange(0, 1, min_open=True),
    help="Measure sets of the most probable classes whose probabilities sum to this share.",
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


def judge_decisions(
    found: Aligned,
    rows: Predictions,
    costs: Path | None,
    coverage: float | None,
    positive: str | None,
    part: str,
    *,
    has_intervals: bool,
) -> tuple[dict[str, Any], list[str]]:
    """Measure what decisions cost, and how often sets hold the label; as numbers and in words.

    ``rows`` are those of the file, as metrics have them.
    """
    from calibrant import _notices as notices
    from calibrant._one_column import ONE_COLUMN
    from calibrant._text import money
    from calibrant.decisions import expected_cost
    from calibrant.report._decisions import set_sizes

    result: dict[str, Any] = {}
    lines = []
    if costs is not None:
        with naming(costs), notices.kept():  # of the order of columns metrics have warned
            known, is_single = classes_of(found), found.kind in ONE_COLUMN
            rows_of = row_costs(found.place.path, part)
            told: Any = read_cost_file(costs, known, positive, is_single=is_single, rows_of=rows_of)
            own = expected_cost(rows, costs=getattr(told, "matrix", told))
        if not has_intervals:
            realised, predicted = map(_without_interval, (own.realised, own.predicted))
            own = replace(own, realised=realised, predicted=predicted)
        result["cost"] = own.to_dict()
        words = f"{money(own.realised)}; predicted by the probabilities: {money(own.predicted)}"
        lines.append(f"Mean cost per decision: {words}.")
    if coverage is not None:
        sets = set_sizes(found.y, found.probabilities(), coverage, classes=found.classes)
        result["sets"] = sets.to_dict()
        lines.append(str(sets).capitalize())
    return result, lines


def _without_interval(own: Estimate) -> Estimate:
    return own._replace(low=math.nan, high=math.nan)


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


class Served(NamedTuple):
    """A file that was read and calibrated.

    ``y`` is None without labels. ``columns`` are those that ``apply`` writes: what the file has
    beside its scores, and the probabilities; ``metadata`` are those of its schema. Options that a
    row lacks have probability 0.
    """

    probabilities: Any
    y: Any
    groups: Any
    time: Any
    columns: dict[str, Any]
    metadata: Any
    has_absent: bool


def read_served(
    calibrator: Any,
    path: Path,
    part: str | None,
    reading: Reading,
    groups: str | None = None,
    time: str | None = None,
) -> dict[str, Any]:
    """Read a file and calibrate it; ``y`` is there if the file has labels."""
    served = serve(calibrator, path, part, reading, groups, time)
    rows = {"groups": served.groups, "time": served.time, "probabilities": served.probabilities}
    return rows if served.y is None else rows | {"y": served.y}


def serve(
    calibrator: Any,
    path: Path,
    part: str | None,
    reading: Reading,
    groups: str | None = None,
    time: str | None = None,
    *,
    usual_part: str = "test",
) -> Served:
    """Read a file and calibrate it."""
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
    classes = calibrator.classes_
    with open_source(
        path,
        part=part,
        usual_part=usual_part,
        kind=calibrator.scores,
        selection=reading.selection,
    ) as source:
        place, layout = source.place, source.layout
        order = find_order(calibrator, source)
        chunks = [(c.scores, c.labels(), c.batch) for c in source.chunks]
    named = read_groups(path, groups, part or usual_part)
    times = None
    if time is not None:
        remedy = "name the column with --time-column"
        times = read_column(path, time, remedy, part or usual_part, as_stored=True)
    scores = np.concatenate([own for own, *_ in chunks])
    by_group = {}
    if hasattr(calibrator, "for_group"):
        if groups is None:
            raise click.UsageError("the model was fitted with groups; name them with --groups")
        by_group["groups"] = groups_like(named, calibrator.groups_)
    has_absent = source.log is not None and source.log.has_absent
    with naming(path):
        found, _ = calibrate_rows(calibrator, scores, order, source, 0, by_group)
        if has_absent:
            found = leave_out_absent(found, scores, source.kind, order)
    raw = [own for _, own, _ in chunks if own is not None]
    labels = np.concatenate(raw) if raw else None
    columns = _columns_beside(
        found, labels, [batch for *_, batch in chunks], source, order, classes
    )
    is_sure = layout is None or layout.is_named
    if labels is not None and not (
        is_sure or {str(v) for v in labels} <= {str(c) for c in classes}
    ):
        labels = None
    y = None if labels is None else read_labels(labels, place, as_text=classes.dtype.kind in "OU")
    metadata = None if source.schema is None else source.schema.metadata
    return Served(found, y, named, times, columns, metadata, has_absent)


def _columns_beside(
    found: Any, labels: Any, batches: list[Any], source: Any, order: Any, classes: Any
) -> dict[str, Any]:
    """Return the columns of a file with probabilities for its scores, as ``apply`` writes it."""
    import pyarrow as pa

    names = source.place.names or [str(c) for c in classes]
    names = names if order is None else [names[j] for j in order]
    values = dict(zip(names, found.T[-len(names) :], strict=True))  # of one column the positive one
    if source.layout is None:
        return ({} if labels is None else {"label": labels}) | values
    table = pa.Table.from_batches(batches)
    following = iter(values.items())
    scores = set(source.layout.score_names)
    return dict(
        next(following) if name in scores else (name, table.column(j))
        for j, name in enumerate(source.layout.names)
    )


def _conformal_sets(
    calibrator: Any,
    calibration: Path,
    coverage: float,
    served: Served,
    reading: Reading,
    groups: str | None,
) -> Any:
    """Return sets of classes that hold the label so often, by the labelled rows of a file."""
    from dataclasses import replace as with_fields

    from calibrant.decisions import ConformalSets
    from calibrant.errors import PredictionFileError

    own = serve(calibrator, calibration, None, reading, groups, usual_part="val")
    if own.y is None:
        raise PredictionFileError(
            f"{calibration} has no labels; --calibration needs rows with labels that the model was "
            "not fitted to (--label-column)"
        )
    classes = calibrator.classes_
    with naming(calibration):
        conformal = ConformalSets(coverage).fit(own.probabilities, own.y, classes=classes)
    sets = conformal.predict_set(served.probabilities)
    if served.has_absent:  # an option that a row lacks is in no set
        sets = with_fields(sets, members=sets.members & (served.probabilities > 0.0))
    return sets


@click.command()
@click.argument("model", type=path_argument)
@click.argument("file", type=file_argument)
@click.option("-o", "--output", type=OutputPath(), required=True, help="Table to write: .csv.")
@costs_option
@click.option(
    "--coverage",
    type=click.FloatRange(0, 1, min_open=True),
    help="Write a set of classes for each row; this share of sets contains the label. Needs "
    "--calibration.",
)
@click.option(
    "--calibration",
    type=path_argument,
    help="Labelled rows like those of FILE that MODEL was not fitted to, for --coverage.",
)
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
    calibration: Path | None,
    groups: str | None,
    part: str | None,
    reading: Reading,
    as_json: bool,
) -> None:
    """Write a decision, or a set of classes, for each row of FILE.

    The scores in FILE are calibrated with MODEL first. The table has the columns of FILE, with
    calibrated probabilities in place of the scores, and `decision` and `cost`, or `set`.

    \b
    Examples:
      calibrant decide model.calibrant new.csv -o decisions.csv --costs costs.csv
      calibrant decide model.calibrant new.csv -o sets.csv --coverage 0.9 --calibration other.csv
    """  # noqa: D301
    from calibrant import model_file

    if costs is None and coverage is None:
        raise click.UsageError("say what to decide by: --costs FILE, --coverage SHARE, or both")
    if (coverage is None) is not (calibration is None):
        raise click.UsageError(
            "--coverage SHARE and --calibration FILE go together: sets hold the label of this "
            "share of rows by labelled rows that the model was not fitted to"
        )
    with naming(model):
        calibrator = model_file.load(model)
    check_groups(calibrator, model, groups)
    for name in cost_columns(costs):
        reading = without_groups(reading, file, name)
    served = serve(calibrator, file, part, reading, groups)
    n_rows = len(served.probabilities)
    columns: dict[str, Any] = {}
    table = plain_table(f"{n_rows:,} rows of {file}", "")
    if costs is not None:
        rows_of = row_costs(file, part or "test")
        columns |= _decide_by_costs(calibrator, served, costs, rows_of, reading.positive, table)
    if coverage is not None and calibration is not None:
        sets = _conformal_sets(calibrator, calibration, coverage, served, reading, groups)
        columns["set"] = [";".join(map(str, own)) for own in sets.labels()]
        table.add_row(f"mean size of sets for {coverage:.0%}", f"{sets.sizes.mean():.2f}")
    twice = [name for name in columns if name in served.columns]
    if twice:
        raise click.UsageError(f"{file} has a column {twice[0]!r}, which decide writes; rename it")
    write_columns(output, served.columns | columns, served.metadata)
    result = {"output": str(output), "rows": n_rows, "source": str(file)}
    if costs is not None:
        result["expected_cost"] = float(columns["cost"].mean())
    show(result, as_json, table)


def _decide_by_costs(
    calibrator: Any, served: Served, costs: Path, rows_of: Any, positive: str | None, table: Any
) -> dict[str, Any]:
    """Return the cheapest action of each row and its expected cost, and add their shares."""
    from calibrant._one_column import ONE_COLUMN
    from calibrant.decisions._cost_tables import CostTable, action_costs, read_costs

    classes = calibrator.classes_
    with naming(costs):
        is_single = calibrator.scores in ONE_COLUMN
        told = {"is_single": is_single, "rows_of": rows_of}
        own = read_cost_file(costs, classes.tolist(), positive, **told)
        own = own if isinstance(own, CostTable) else read_costs(own, classes)
    cells = action_costs(served.probabilities, own.matrix)
    chosen, paid = cells.argmin(axis=1), cells.min(axis=1)
    table.add_row("expected cost per row", short_number(paid.mean()))
    for place, action in enumerate(own.actions):
        table.add_row(f"decided {action}", f"{(chosen == place).mean():.1%}")
    return {"decision": [str(own.actions[place]) for place in chosen], "cost": paid}
