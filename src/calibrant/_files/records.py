"""Records of JSON, and in them the options of a question, their scores and the right one.

There is a function for each layout: lm-evaluation-harness, completions with ``top_logprobs``, which
Inspect has in its samples, too, plain records, and confidences that a model states.
"""

from __future__ import annotations

import json
import math
import string
import struct
from functools import partial
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from zipfile import ZipFile

from calibrant._files.arrays import decoding, open_binary
from calibrant._files.tables import open_text, suffix_of
from calibrant._gate import ONE_COLUMN
from calibrant.errors import PredictionFileError
from calibrant.errors import some_in_words as some

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from zipfile import ZipInfo

    from calibrant._files.columns import Request

LINES = (".jsonl", ".ndjson")
ZSTANDARD = 93
"""Method of compression of Inspect, which zipfile knows from Python 3.14 on."""

SCORE_FIELDS = {"probs": "probabilities", "logits": "logits", "logprobs": "logits", "scores": None}
"""Fields of scores in plain records, with their kind where the name tells it."""

BEFORE_OPTION, AFTER_OPTION = " \t\n\u0120\u2581(", " \t\n.):"
"""Signs around an option in a token; vocabularies write a space as U+0120 or U+2581."""

TRUTH_FIELDS = ("correct", "is_correct", "right", "label")
TRUTH = {"true": 1, "1": 1, "false": 0, "0": 0}
"""Fields that say whether an answer was right, and how."""

SMALLEST_MASS = 1e-12
"""Mass of an option that is not listed, at least."""


class Record(NamedTuple):
    """An object of JSON, where it stands, and its line, or its place counted from 0."""

    fields: dict[str, Any]
    where: str
    place: int

    def error(self, fault: str) -> PredictionFileError:
        """Return the error about this record."""
        return PredictionFileError(f"{self.where}{fault}")


def field_of(record: Record, name: str, option: str) -> str | int | float:
    """Return a text or number beside the scores of a record."""
    value = record.fields.get(name)
    if not isinstance(value, str | int | float):
        raise record.error(
            f": the field {name!r} is {describe(value)}; fill it, drop the record, or name another "
            f"({option})"
        )
    return value


def read_records(path: Path) -> list[Record]:
    """Return the records of a file."""
    suffix = suffix_of(path)
    read = _read_lines if suffix in LINES else _read_samples if suffix == ".eval" else _read_list
    records = list(read(path))
    if not records:
        raise PredictionFileError(f"{path} has no records; write one JSON object per line")
    return records


def _read_lines(path: Path) -> Iterator[Record]:
    """Yield the objects of a file with one in each line."""
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield _record(line, f"{path}, line {number}", number)


def _read_samples(path: Path) -> Iterator[Record]:
    """Yield the samples of an Inspect log, a zip file, in its order."""
    with open_binary(path, "an Inspect log") as file, decoding(path, "an Inspect log"):
        archive = ZipFile(file)
        samples = [m for m in archive.infolist() if m.filename.startswith("samples/")]
        for place, member in enumerate(samples):
            raw = _unzip(archive, file, member)
            yield _record(raw, f"{path}, sample {member.filename[8:]!r}", place)


def _unzip(archive: ZipFile, file: IO[bytes], member: ZipInfo) -> bytes:
    """Return the bytes of a member."""
    if member.compress_type != ZSTANDARD:
        return archive.read(member)
    import pyarrow as pa

    file.seek(member.header_offset)  # a header of 30 bytes, which ends with two lengths
    n_name, n_extra = struct.unpack("<HH", file.read(30)[26:])
    file.seek(n_name + n_extra, 1)
    packed = pa.BufferReader(file.read(member.compress_size))
    with pa.CompressedInputStream(packed, "zstd") as stored:
        unpacked: bytes = stored.read()
        return unpacked


def _read_list(path: Path) -> Iterator[Record]:
    """Yield the samples of an Inspect log in JSON, or the objects of a list."""
    with open_text(path) as file:
        whole = _parse(file.read(), str(path))
    records = whole.get("samples") if isinstance(whole, dict) else whole
    if not isinstance(records, list):
        raise PredictionFileError(
            f"{path} is neither an Inspect log with samples nor a list of objects; if it has one "
            "JSON object per line, rename it to .jsonl"
        )
    for place, fields in enumerate(records):
        yield _record(fields, f"{path}, record {place} (from 0)", place)


def _record(content: Any, where: str, place: int) -> Record:
    """Return a record out of its bytes, or out of a value of JSON."""
    fields = _parse(content, where) if isinstance(content, bytes) else content
    if not isinstance(fields, dict):
        raise PredictionFileError(
            f'{where} is {describe(fields)}, not a JSON object; write {{"probs": {{"A": 0.7, "B": '
            '0.3}, "label": "A"}'
        )
    return Record(fields, where, place)


def _parse(raw: bytes, where: str) -> Any:
    """Return a value of JSON."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise PredictionFileError(
            f"{where} is not JSON: {error}; write one complete JSON object per line, in UTF-8"
        ) from error


def describe(value: Any) -> str:
    """Name a value of JSON for a message, in a few words."""
    return "missing" if value is None else f"{json.dumps(value):.60}"


class LoggedRow(NamedTuple):
    """Scores of the options of a question, their names, and the place of the right one."""

    scores: list[float]
    names: list[str]
    label: int | None
    of_object: bool = False


class LogLayout(NamedTuple):
    """How records are read: their name, the kind of the scores, and the function of one record."""

    title: str
    kind: str
    read: Callable[[Record], LoggedRow]
    is_stated: bool = False


def find_layout(records: list[Record], request: Request, classes: list[str] | None) -> LogLayout:
    """Tell the layout of a file by its first record; options and units are those of all records."""
    first = records[0]
    fields = first.fields
    if request.kind in ONE_COLUMN and "confidence" not in fields:
        raise first.error(f": --scores {request.kind} is for one number per row")
    if "resps" in fields or "filtered_resps" in fields:
        layout = LogLayout("samples of lm-evaluation-harness", "logits", read_lm_eval)
    elif isinstance(fields.get("output"), dict) and "target" in fields:
        layout = LogLayout("samples of Inspect", "logits", read_inspect)
    elif not request.columns and _logprobs_of(fields) is not None:
        names = classes or _options_by_labels(records, request.label)
        read = partial(read_completion, names=names, label=request.label or "label")
        layout = LogLayout("completions with top_logprobs", "logits", read)
    else:
        return _find_plain(first, records, request)
    if request.kind not in (None, layout.kind):
        raise first.error(
            f" is one of {layout.title}, whose scores are log-likelihoods; use --scores logits"
        )
    return layout


def _find_plain(first: Record, records: list[Record], request: Request) -> LogLayout:
    """Find the field of the scores, or of a confidence, of plain records."""
    fields = first.fields
    chosen = [name for name in request.columns or SCORE_FIELDS if name in fields]
    if not chosen and "confidence" in fields:
        chosen = ["confidence"]
    if len(chosen) != 1:
        raise first.error(
            f" has the fields {some(list(fields), 8)}; write scores in one field 'probs' or "
            "'logits', or choose their field with --columns"
        )
    name = chosen[0]
    if is_score(fields[name]):
        values: list[Any] = [record.fields.get(name) for record in records]
        values = [value for value in values if is_score(value)]
        scale = 100.0 if max(values) > 1.0 else 1.0
        read = partial(read_confidence, name=name, scale=scale, label=request.label)
        unit = " in percent" if scale > 1.0 else ""
        return LogLayout(f"records with a confidence {name!r}{unit}", "probabilities", read, True)
    said = SCORE_FIELDS.get(name)
    if said is not None and request.kind not in (None, said):
        raise first.error(f": the field {name!r} holds {said}, not {request.kind}")
    read = partial(read_plain, name=name, label=request.label or "label")
    kind = said or request.kind or "probabilities"
    return LogLayout(f"records with the field {name!r}", kind, read)


def _label_of(record: Record, name: str) -> str | int | None:
    """Label of a record as it stands; None if it has none."""
    label = record.fields.get(name)
    if not (label is None or isinstance(label, str | int)):
        raise record.error(
            f": the label {name!r} is {describe(label)}; write the name of one option"
        )
    return label


def is_score(value: Any) -> bool:
    """Whether a value of JSON is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _row(record: Record, values: Iterable[Any], names: Sequence[str]) -> LoggedRow:
    """Check a row: two options or more, each with a name of its own and a finite number."""
    scores = []
    for name, value in zip(names, values, strict=True):
        if not is_score(value) or not -1e300 < value < 1e300:  # NaN is not, either
            raise record.error(
                f": the score of option {name!r:.200} is {describe(value)}; write a finite number, "
                "or leave out options that the question does not have"
            )
        scores.append(float(value))
    if len(scores) < 2:
        raise record.error(": at least two options are needed; drop the record")
    if len(set(names)) < len(names):
        raise record.error(
            f": the options {some(names, 8)} are not all different; write scores as plain records"
        )
    return LoggedRow(scores, list(names), None)


def _with_label(record: Record, row: LoggedRow, label: str | int | None) -> LoggedRow:
    """Return a row with the place of the right option, which is given by its name."""
    name = str(label).strip()
    if label is not None and name not in row.names:
        raise record.error(
            f": the label {label!r:.200} is not among the options {some(row.names, 8)} of its row"
        )
    return row._replace(label=None if label is None else row.names.index(name))


def read_plain(record: Record, name: str, label: str) -> LoggedRow:
    """Read an object of scores by option, or a list of scores; null is no option.

    A label is the name of an option; a number beside a list is the place of one, from 0.
    """
    given, right = record.fields.get(name), _label_of(record, label)
    if isinstance(given, dict):
        named = [(option.strip(), value) for option, value in given.items()]
    elif isinstance(given, list):
        names = _own_options(record) or [str(j) for j in range(len(given))]
        if len(names) != len(given):
            raise record.error(f": {len(given)} scores for {len(names)} options; write one each")
        if isinstance(right, int) and 0 <= right < len(names):
            right = names[right]
        named = list(zip(names, given, strict=True))
    else:
        raise record.error(f": {name!r} is {describe(given)}; write the score of each option")
    present = [(option, value) for option, value in named if value is not None]
    row = _row(record, [value for _, value in present], [option for option, _ in present])
    return _with_label(record, row, right)._replace(of_object=isinstance(given, dict))


def _own_options(record: Record) -> list[str] | None:
    """Options that a record lists."""
    given = record.fields.get("options")
    if not isinstance(given, list) or not all(isinstance(own, str) for own in given):
        return None
    return [option.strip() for option in given]


def read_confidence(record: Record, name: str, scale: float, label: str | None) -> LoggedRow:
    """Read how sure a model says to be of its answer, and whether that was right.

    A file has all numbers from 0 to 1, or all in percent: 0.9 is hardly 0.9 %.
    """
    value: Any = record.fields.get(name)
    if not is_score(value) or not 0.0 <= value <= scale or (scale > 1.0 and 0.0 < value < 1.0):
        raise record.error(
            f": {name!r} is {describe(value)}, but others are larger than 1; write all as percent, "
            "or all from 0 to 1"
            if scale > 1.0
            else f": {name!r} is {describe(value)}; write 0 to 1"
        )
    usual = next((field for field in TRUTH_FIELDS if field in record.fields), "label")
    said = _label_of(record, label or usual)
    truth = None if said is None else TRUTH.get(str(said).strip().casefold(), -1)
    if truth == -1:
        raise record.error(f": the label {said!r:.200} is neither true nor false")
    return LoggedRow([1.0 - value / scale, value / scale], ["false", "true"], truth)


def read_lm_eval(record: Record) -> LoggedRow:
    """Read a sample of lm-evaluation-harness: log-likelihoods of the options, and ``target``."""
    fields = record.fields
    values: list[Any] = []
    for answer in fields.get("filtered_resps") or fields.get("resps") or []:
        pair = answer
        while isinstance(pair, list) and pair and isinstance(pair[0], list):
            pair = pair[0]
        if not (isinstance(pair, list) and len(pair) == 2):  # log-likelihood, is it greedy
            raise record.error(" has generated text; write scores of options as plain records")
        try:  # newer logs have numbers as text
            values.append(float(pair[0]))
        except (TypeError, ValueError):
            values.append(pair[0])
    row = _row(record, values, _continuations(fields.get("arguments"), len(values)))
    target = str(fields.get("target")).strip()
    if fields.get("target") is None:
        return row
    # A number is a place; the text of an option, too, may be one: the log tells what was right.
    places = [int(target)] if target.isdecimal() and len(target) < 9 else []
    places += [j for j, name in enumerate(row.names) if name == target]
    is_right, best = fields.get("acc"), row.scores.index(max(row.scores))
    agreeing = [
        j
        for j in places
        if j < len(row.names) and (not is_score(is_right) or (j == best) == (is_right == 1))
    ]
    if not agreeing:
        raise record.error(
            f": the target {target!r:.200} is not one right option of {some(row.names, 8)}, or "
            f"contradicts acc, which is {describe(is_right)}; drop the record"
        )
    return row._replace(label=agreeing[0])


def _continuations(arguments: Any, n_options: int) -> list[str]:
    """Texts of the options: what follows the question in each request."""
    asked = list(arguments.values()) if isinstance(arguments, dict) else arguments
    texts = []
    for one in asked if isinstance(asked, list) else []:
        pair = list(one.values()) if isinstance(one, dict) else one
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], str):
            texts.append(pair[1].strip())
    return texts if len(texts) == n_options else [str(j) for j in range(n_options)]


def read_inspect(record: Record) -> LoggedRow:
    """Read a sample of Inspect: letters of its ``choices``, ``target``, and log-probabilities."""
    choices = record.fields.get("choices")
    if not isinstance(choices, list) or not 2 <= len(choices) <= 26:
        raise record.error(" has no choices; only samples of multiple_choice() can be read")
    target = record.fields["target"]
    if isinstance(target, list) and len(target) == 1:
        record = record._replace(fields=record.fields | {"target": target[0]})
    return read_completion(record, list(string.ascii_uppercase[: len(choices)]), "target")


def _options_by_labels(records: list[Record], label: str | None) -> list[str] | None:
    """Options of completions: what the labels are; of letters, as many as a record has options."""
    said = {
        str(own).strip() for r in records if (own := _label_of(r, label or "label")) is not None
    }
    if not said:
        return None
    if any(len(text) != 1 or text not in string.ascii_uppercase for text in said):
        return sorted(said)
    n_options = max(len(_own_options(record) or ()) for record in records)
    last = string.ascii_uppercase.index(max(said))
    return list(string.ascii_uppercase[: max(1 + last, n_options)])


def read_completion(record: Record, names: list[str] | None, label: str) -> LoggedRow:
    """Read a completion with ``top_logprobs``, at the token that is an option.

    Tokens with and without a space are one option. Options that are not listed share what the
    listed tokens leave, each at most as much as the least of them.
    """
    if names is None:
        raise record.error(" has no label; use --label-column, or name the options with --classes")
    own = _own_options(record)
    if own is not None and {*names} <= {*string.ascii_uppercase}:
        names = list(string.ascii_uppercase[: len(own)])  # letters, one for each text
    content = _logprobs_of(record.fields) or []
    tokens = [token for token in content if isinstance(token, dict) and token.get("top_logprobs")]
    if not tokens:
        raise record.error(
            " has no top_logprobs, which the model or its provider did not return; request them "
            "with logprobs=True, top_logprobs=20, or drop the record"
        )
    answers = {clean(str(token.get("token"))): token for token in tokens}
    given = [name for name in answers if name in names]
    if len(given) != 1:
        which = f"{'several tokens are' if given else 'no token is'} among {some(names, 8)}"
        raise record.error(f": {which}; request only the option (max_tokens=1), or use --classes")
    answer = answers[given[0]]
    listed = {own.get("token"): own.get("logprob") for own in answer["top_logprobs"]}
    listed.setdefault(answer.get("token"), answer.get("logprob"))
    row = _row(record, _masses(record, listed, names), names)
    return _with_label(record, row, _label_of(record, label))


def _masses(record: Record, listed: dict[Any, Any], names: list[str]) -> list[float]:
    """Return the logarithm of the probability of each option, out of those of listed tokens."""
    masses, least, total = dict.fromkeys(names, 0.0), 1.0, 0.0
    for token, logprob in listed.items():
        if not is_score(logprob) or not logprob < 1e-3:  # NaN is not
            raise record.error(
                f": the logprob of {token!r:.60} is {describe(logprob)}; write a number of at most "
                "0"
            )
        mass = math.exp(logprob)
        least, total = min(least, mass), total + mass
        if clean(str(token)) in masses:
            masses[clean(str(token))] += mass
    absent = [name for name, mass in masses.items() if mass == 0.0]
    for name in absent:
        masses[name] = max(min((1.0 - total) / len(absent), least), SMALLEST_MASS)
    return [math.log(mass) for mass in masses.values()]


def clean(token: str) -> str:
    """Return the option of a token, without the signs around it."""
    return token.lstrip(BEFORE_OPTION).rstrip(AFTER_OPTION)


def _logprobs_of(fields: dict[str, Any]) -> list[Any] | None:
    """Return the tokens of a response with their log-probabilities; None if it is no response.

    Chat completions of OpenAI and vLLM hold them; they stand alone, under ``response`` and
    ``body``, or under ``output`` in samples of Inspect.
    """
    for name in ("response", "body", "output"):
        if isinstance(fields.get(name), dict):
            return _logprobs_of(fields[name])
    choices = fields.get("choices")
    if not (isinstance(choices, list) and choices and isinstance(choices[0], dict)):
        return None
    logprobs = choices[0].get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    return content if isinstance(content, list) else []
