"""Readers of one record of a log: the options of a question, their scores, and the right one.

A new layout is a function ``read(record, log) -> Question`` and a row of ``READERS``.
"""

from __future__ import annotations

import json
import math
import string
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from calibrant.errors import PredictionFileError
from calibrant.errors import some_in_words as some

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from calibrant._files.source import Request

FILE, QUESTION = "file", "question id"
"""Columns with the file of each row, and with its question, unless records have these fields."""

ID_FIELDS = ("custom_id", "question_id", "instance_id", "id")
DETAILS = ("doc", "metadata")
"""Fields with the number of a question, and those that hold more about it."""

SCORE_FIELDS = {"probs": "probabilities", "logits": "logits", "logprobs": "logits", "scores": None}
"""Fields of scores in plain records, with their kind where the name tells it."""

BEFORE_OPTION, AFTER_OPTION = " \t\n\u0120\u2581(*", " \t\n.):*"
"""Signs around an option in a token; vocabularies write a space as U+0120 or U+2581."""

LETTERS = list(string.ascii_uppercase)
TRUTH_FIELDS = ("correct", "is_correct", "right", "label")
TRUTH = {"true": 1, "1": 1, "1.0": 1, "c": 1, "false": 0, "0": 0, "0.0": 0, "i": 0}
"""Fields that say whether an answer was right, and how; C and I are those of Inspect."""

SMALLEST_MASS = 1e-12
"""Mass of an option that is not listed, at least."""


def fields_of(value: object) -> dict[str, object]:
    """Return an object of JSON; an empty one of all else."""
    return value if isinstance(value, dict) else {}


def items_of(value: object) -> list[object]:
    """Return a list of JSON; an empty one of all else."""
    return value if isinstance(value, list) else []


def is_score(value: object) -> TypeGuard[float]:
    """Whether a value of JSON is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def describe(value: object) -> str:
    """Name a value of JSON for a message, in a few words."""
    return "missing" if value is None else f"{json.dumps(value):.60}"


class Record(NamedTuple):
    """An object of JSON, where it stands, and the name of its file."""

    fields: dict[str, object]
    where: str
    file: str

    def error(self, fault: str) -> PredictionFileError:
        """Return the error about this record."""
        return PredictionFileError(f"{self.where}{fault}")

    def value(self, name: str, option: str) -> str | int | float:
        """Return a text or number beside the scores."""
        value = self.fields.get(name)
        for inner in DETAILS:  # of the task, in samples of lm-evaluation-harness and Inspect
            if value is None:
                value = fields_of(self.fields.get(inner)).get(name)
        if value is None and name in (FILE, QUESTION):
            value = self.file if name == FILE else self.question
        if not isinstance(value, str | int | float):
            remedy = f"fill it, drop the record, or name another ({option})"
            raise self.error(f": the field {name!r} is {describe(value)}; {remedy}")
        return value

    def labelled(self, known: Mapping[str, object], request: Request) -> Record:
        """Return the record with its label, which another file has by the id."""
        if self.question not in known:
            raise self.error(f": {request.labels} has no label of {self.question!r:.60} (--labels)")
        return self._replace(fields=self.fields | {request.label or "label": known[self.question]})

    @property
    def question(self) -> str:
        """What tells the question from others, and is the same for every model: else its place."""
        if "doc_id" in self.fields:
            return f"{self.fields['doc_id']} {self.fields.get('doc_hash', '')}"
        own = [str(self.fields[name]) for name in ID_FIELDS if name in self.fields]
        return own[0] if own else self.where.rpartition(", ")[2]

    def label(self, name: str) -> str | int | None:
        """Return the label as it stands; None if there is none."""
        label = self.fields.get(name)
        if not (label is None or isinstance(label, str | int)):
            fault = f"the label {name!r} is {describe(label)}"
            raise self.error(f": {fault}; write the name of one option")
        return label

    @property
    def answer(self) -> str:
        """Answer of a sample: what the scorer of Inspect read, or a field of a plain record."""
        return str(self.scorer.get("answer", self.fields.get("answer", ""))).strip()

    @property
    def scorer(self) -> dict[str, object]:
        """What the first scorer of Inspect says; nothing of other records."""
        return fields_of(next(iter(fields_of(self.fields.get("scores")).values()), None))

    @property
    def options(self) -> list[str] | None:
        """Options that a plain record or a completion lists."""
        given = self.fields.get("options")
        if not isinstance(given, list) or not all(isinstance(own, str) for own in given):
            return None
        return [option.strip() for option in given]


class Question(NamedTuple):
    """Scores of the options of a question, their names, the place of the right one, and a kind."""

    scores: list[float]
    names: list[str]
    label: int | None = None
    kind: str = "logits"
    of_object: bool = False


@dataclass(frozen=True)
class Log:
    """The records of a file, what was asked of it, and what all records together tell."""

    records: list[Record]
    request: Request

    @cached_property
    def reader(self) -> LogReader:
        """Reader of the records, by the layout of the first one."""
        first = self.records[0]
        for reader in READERS:
            if reader.recognises(first.fields, self):
                return reader
        raise first.error(
            f" has the fields {some(list(first.fields), 8)}; write scores in one field 'probs' "
            "or 'logits', or choose their field with --columns"
        )

    @property
    def title(self) -> str:
        """Name of the layout, with the unit of confidences."""
        is_percent = self.reader.read is read_confidence and self.is_percent
        return self.reader.title + (" in percent" if is_percent else "")

    @cached_property
    def field(self) -> str | None:
        """Field of the scores, or of a confidence, of plain records; None if not one was found."""
        fields = self.records[0].fields
        chosen = [name for name in self.request.columns or SCORE_FIELDS if name in fields]
        if not chosen and "confidence" in fields:
            return "confidence"
        return chosen[0] if len(chosen) == 1 else None

    @cached_property
    def is_percent(self) -> bool:
        """Whether confidences are in percent: a file has all of them so, as 0.9 is hardly 0.9 %."""
        values = [record.fields.get(str(self.field)) for record in self.records]
        return max((value for value in values if is_score(value)), default=0.0) > 1.0

    @cached_property
    def options(self) -> list[str] | None:
        """Options of completions: what the labels are; of letters, as many as a record has."""
        if self.request.log_classes is not None:
            return self.request.log_classes
        labels = (record.label(self.request.label or "label") for record in self.records)
        said = {str(label).strip() for label in labels if label is not None}
        if not said or not said <= {*LETTERS}:
            return sorted(said) or None
        n_options = max(len(record.options or ()) for record in self.records)
        return LETTERS[: max(1 + LETTERS.index(max(said)), n_options)]

    @cached_property
    def agreement(self) -> tuple[Counter[str], Counter[tuple[str, str]]]:
        """How many samples each question has, and how many of them give each answer."""
        answers = [(record.question, record.answer) for record in self.records]
        return Counter(question for question, _ in answers), Counter(answers)

    @property
    def is_repeated(self) -> bool:
        """Whether questions were asked more than once."""
        return max(self.agreement[0].values()) > 1


def to_question(
    record: Record, values: Iterable[object], names: Sequence[str], label: str | int | None = None
) -> Question:
    """Check a question: two options or more, each with a name of its own and a finite number.

    The label is the name of the right option.
    """
    scores = []
    for name, value in zip(names, values, strict=True):
        if not is_score(value) or not -1e300 < value < 1e300:  # NaN is not, either
            remedy = "write a finite number, or leave out options that the question does not have"
            raise record.error(
                f": the score of option {name!r:.200} is {describe(value)}; {remedy}"
            )
        scores.append(float(value))
    if len(scores) < 2:
        raise record.error(": at least two options are needed; drop the record")
    if len(set(names)) < len(names):
        fault = f": the options {some(names, 8)} are not all different"
        raise record.error(f"{fault}; write scores as plain records")
    if label is None:
        return Question(scores, list(names))
    if str(label).strip() not in names:
        raise record.error(
            f": the label {label!r:.200} is not among the options {some(names, 8)} of its row"
        )
    return Question(scores, list(names), names.index(str(label).strip()))


def read_plain(record: Record, log: Log) -> Question:
    """Read an object of scores by option, or a list of scores; null is no option.

    A label is the name of an option; a number beside a list is the place of one, from 0.
    """
    given, right = record.fields.get(str(log.field)), record.label(log.request.label or "label")
    if isinstance(given, dict):
        named = [(option.strip(), value) for option, value in given.items()]
    elif isinstance(given, list):
        names = record.options or [str(j) for j in range(len(given))]
        if len(names) != len(given):
            raise record.error(f": {len(given)} scores for {len(names)} options; write one each")
        if isinstance(right, int) and 0 <= right < len(names):
            right = names[right]
        named = list(zip(names, given, strict=True))
    else:
        raise record.error(f": {log.field!r} is {describe(given)}; write the score of each option")
    present = [(option, value) for option, value in named if value is not None]
    scores, options = [value for _, value in present], [option for option, _ in present]
    is_logits = log.request.kind == "logits"
    kind = SCORE_FIELDS.get(str(log.field)) or ("logits" if is_logits else "probabilities")
    question = to_question(record, scores, options, right)
    return question._replace(kind=kind, of_object=isinstance(given, dict))


def read_confidence(record: Record, log: Log) -> Question:
    """Read how sure a model says to be of its answer, and whether that was right."""
    value = record.fields.get(str(log.field))
    scale, remedy = 1.0, "; write 0 to 1"
    if log.is_percent:
        scale = 100.0
        remedy = ", but others are larger than 1; write all as percent, or all from 0 to 1"
    if not is_score(value) or not 0.0 <= value <= scale or (log.is_percent and 0 < value < 1):
        raise record.error(f": {log.field!r} is {describe(value)}{remedy}")
    return _stated(value / scale, _truth_of(record, log))


def read_repeated(record: Record, log: Log) -> Question:
    """Read a sample of a question that was asked several times: how many give the same answer."""
    n_samples, n_alike = log.agreement
    share = n_alike[record.question, record.answer] / n_samples[record.question]
    return _stated(share, _truth_of(record, log, record.scorer.get("value")))


def _truth_of(record: Record, log: Log, said: object = None) -> int | None:
    """Return whether an answer was right, as a scorer or the label says; None if nothing does."""
    if said is None:
        usual = next((field for field in TRUTH_FIELDS if field in record.fields), "label")
        said = record.label(log.request.label or usual)
    if said is not None and str(said).strip().casefold() not in TRUTH:
        raise record.error(f": the label {said!r:.200} is neither true nor false")
    return None if said is None else TRUTH[str(said).strip().casefold()]


def _stated(sure: float, truth: int | None) -> Question:
    """Return how sure a model is of its answer, and whether that was right."""
    return Question([1.0 - sure, sure], ["false", "true"], truth, "probabilities")


def read_helm(record: Record, _: Log) -> Question:
    """Read the statistics of an instance of HELM: ``max_prob``, and whether it matched exactly."""
    statistics = [fields_of(own) for own in items_of(record.fields["stats"])]
    means = {fields_of(own.get("name")).get("name"): own.get("mean") for own in statistics}
    sure, right = means.get("max_prob"), means.get("exact_match")
    if not is_score(sure) or not 0.0 <= sure <= 1.0 + 1e-9 or not is_score(right):
        fault = " has no max_prob and exact_match, which only multiple choice has"
        raise record.error(f"{fault}, of models with log-probabilities")
    return _stated(min(sure, 1.0), int(right))


def read_lm_eval(record: Record, _: Log) -> Question:
    """Read a sample of lm-evaluation-harness: log-likelihoods of the options, and ``target``."""
    fields = record.fields
    values: list[object] = []
    for answer in items_of(fields.get("filtered_resps") or fields.get("resps")):
        pair = answer
        while isinstance(pair, list) and pair and isinstance(pair[0], list):
            pair = pair[0]
        if not (isinstance(pair, list) and len(pair) == 2):  # log-likelihood, is it greedy
            raise record.error(" has generated text; write scores of options as plain records")
        try:  # newer logs have numbers as text
            values.append(float(pair[0]))
        except (TypeError, ValueError):
            values.append(pair[0])
    question = to_question(record, values, _continuations(fields.get("arguments"), len(values)))
    target = str(fields.get("target")).strip()
    if fields.get("target") is None:
        return question
    # A number is a place; the text of an option, too, may be one: the log tells what was right.
    places = [int(target)] if target.isdecimal() and len(target) < 9 else []
    places += [j for j, name in enumerate(question.names) if name == target]
    is_right, best = fields.get("acc"), question.scores.index(max(question.scores))
    agreeing = [
        j
        for j in places
        if j < len(question.names) and (not is_score(is_right) or (j == best) == (is_right == 1))
    ]
    if not agreeing:
        raise record.error(
            f": the target {target!r:.200} is not one right option of {some(question.names, 8)}, "
            f"or contradicts acc, which is {describe(is_right)}; drop the record"
        )
    return question._replace(label=agreeing[0])


def _continuations(arguments: object, n_options: int) -> list[str]:
    """Texts of the options: what follows the question in each request."""
    texts = []
    for one in [*arguments.values()] if isinstance(arguments, dict) else items_of(arguments):
        pair = [*one.values()] if isinstance(one, dict) else items_of(one)
        if len(pair) == 2 and isinstance(pair[1], str):
            texts.append(pair[1].strip())
    return texts if len(texts) == n_options else [str(j) for j in range(n_options)]


def read_inspect(record: Record, _: Log) -> Question:
    """Read a sample of Inspect: letters of its ``choices``, ``target``, and log-probabilities."""
    choices = items_of(record.fields.get("choices"))
    if not 2 <= len(choices) <= 26:
        raise record.error(" has no choices; only samples of multiple_choice() can be read")
    target = record.fields["target"]
    if isinstance(target, list) and len(target) == 1:
        record = record._replace(fields=record.fields | {"target": target[0]})
    return _read_tokens(record, LETTERS[: len(choices)], record.label("target"))


def read_completion(record: Record, log: Log) -> Question:
    """Read a completion with ``top_logprobs``, whose options are those of all labels."""
    names, own = log.options, record.options
    if names is None:
        raise record.error(" has no label; use --label-column, or name the options with --classes")
    if own is not None and {*names} <= {*LETTERS}:
        names = LETTERS[: len(own)]  # one for each text
    return _read_tokens(record, names, record.label(log.request.label or "label"))


def _read_tokens(record: Record, names: list[str], label: str | int | None) -> Question:
    """Read the log-probabilities of options at the token of a response that is one of them.

    Tokens with and without a space are one option.
    """
    tokens = [fields_of(token) for token in _logprobs_of(record.fields) or []]
    tokens = [token for token in tokens if token.get("top_logprobs")]
    if not tokens:
        raise record.error(
            " has no top_logprobs, which the model or its provider did not return; request them "
            "with logprobs=True, top_logprobs=20, or drop the record"
        )
    # A model that reasons first names its answer last, and other options before; where Inspect has
    # read the answer, it is the last token that says so.
    options = [token for token in tokens if clean(token.get("token")) in names]
    said = [token for token in options if clean(token.get("token")) == record.answer]
    if not options:
        remedy = "request only the option (max_tokens=1), or use --classes"
        raise record.error(f": no token is among {some(names, 8)}; {remedy}")
    answer = (said or options)[-1]
    tops = [fields_of(own) for own in items_of(answer["top_logprobs"])]
    listed = {own.get("token"): own.get("logprob") for own in tops}
    listed.setdefault(answer.get("token"), answer.get("logprob"))
    return to_question(record, _log_masses(record, listed, names), names, label)


def _log_masses(
    record: Record, listed: Mapping[object, object], names: list[str]
) -> Iterable[float]:
    """Return the logarithm of the probability of each option, out of those of listed tokens.

    Options that are not listed share what the listed tokens leave, each at most as much as the
    least of them.
    """
    masses, least, total = dict.fromkeys(names, 0.0), 1.0, 0.0
    for token, logprob in listed.items():
        if not is_score(logprob) or not logprob < 1e-3:  # NaN is not
            fault = f"the logprob of {token!r:.60} is {describe(logprob)}"
            raise record.error(f": {fault}; write a number of at most 0")
        mass = math.exp(logprob)
        least, total = min(least, mass), total + mass
        if clean(token) in masses:
            masses[clean(token)] += mass
    absent = [name for name, mass in masses.items() if mass == 0.0]
    for name in absent:
        masses[name] = max(min((1.0 - total) / len(absent), least), SMALLEST_MASS)
    return map(math.log, masses.values())


def clean(token: object) -> str:
    """Return the option of a token, without the signs around it."""
    return str(token).lstrip(BEFORE_OPTION).rstrip(AFTER_OPTION)


def _logprobs_of(fields: dict[str, object]) -> Sequence[object] | None:
    """Return the tokens of a response with their log-probabilities; None if it is no response.

    Chat completions of OpenAI and vLLM hold them, and its Responses; they stand alone, under
    ``response`` and ``body`` of a batch, or under ``output`` in samples of Inspect. Completions
    and llama.cpp write them in other layouts.
    """
    for name in ("response", "body", "output"):
        if isinstance(fields.get(name), dict):
            return _logprobs_of(fields_of(fields[name]))
    if isinstance(fields.get("output"), list):  # Responses: items, of which some are messages
        items = [fields_of(item) for item in items_of(fields["output"])]
        parts = [fields_of(part) for item in items for part in items_of(item.get("content"))]
        return [token for part in parts for token in items_of(part.get("logprobs"))]
    if isinstance(fields.get("completion_probabilities"), list):
        return [_of_llama(fields_of(own)) for own in items_of(fields["completion_probabilities"])]
    choices = items_of(fields.get("choices"))
    if not (choices and isinstance(choices[0], dict)):
        return None
    logprobs = fields_of(choices[0].get("logprobs"))
    if isinstance(logprobs.get("tokens"), list):  # completions that are no chats
        names = ("tokens", "token_logprobs", "top_logprobs")
        return [
            {"token": token, "logprob": own, "top_logprobs": _listed(fields_of(top))}
            for token, own, top in zip(*(items_of(logprobs.get(n)) for n in names), strict=False)
        ]
    return items_of(logprobs.get("content"))


def _of_llama(token: dict[str, object]) -> dict[str, object]:
    """Return a token of llama.cpp's server, in its layouts of before and of probabilities."""
    if "top_logprobs" in token:
        return token
    listed = [fields_of(own) for own in items_of(token.get("top_probs") or token.get("probs"))]
    probs = {str(own.get("token", own.get("tok_str"))): own.get("prob") for own in listed}
    name = token.get("token", token.get("content"))
    logs = {t: math.log(p) for t, p in probs.items() if is_score(p) and p > 0.0}
    own = token.get("prob")
    logprob = math.log(own) if is_score(own) and own > 0.0 else logs.get(str(name))
    return {"token": name, "logprob": logprob, "top_logprobs": _listed(logs)}


def _listed(logprobs: Mapping[str, object]) -> list[dict[str, object]]:
    return [{"token": token, "logprob": own} for token, own in logprobs.items()]


class LogReader(NamedTuple):
    """A layout of records: its name, the reader of each, and how the first record tells it."""

    title: str
    read: Callable[[Record, Log], Question]
    recognises: Callable[[dict[str, object], Log], bool]


def _is_inspect(first: dict[str, object]) -> bool:
    return isinstance(first.get("output"), dict)


READERS = (
    LogReader(
        "samples of lm-evaluation-harness", read_lm_eval,
        lambda first, _: "resps" in first or "filtered_resps" in first,
    ),
    LogReader(
        "instances of HELM", read_helm,
        lambda first, _: "instance_id" in first and isinstance(first.get("stats"), list),
    ),
    LogReader(
        "repeated samples of Inspect", read_repeated,
        lambda first, log: _is_inspect(first) and not _logprobs_of(first) and log.is_repeated,
    ),
    LogReader(
        "samples of Inspect", read_inspect,
        lambda first, _: _is_inspect(first) and "target" in first,
    ),
    LogReader(
        "completions with top_logprobs", read_completion,
        lambda first, log: not log.request.columns and _logprobs_of(first) is not None,
    ),
    LogReader(
        "records with a confidence", read_confidence,
        lambda first, log: is_score(first.get(str(log.field))),
    ),
    LogReader(
        "repeated samples", read_repeated,
        lambda first, log: log.field is None and "answer" in first and log.is_repeated,
    ),
    LogReader("plain records", read_plain, lambda _, log: log.field is not None),
)  # fmt: skip
"""Every layout; the first one that recognises the first record of a file is taken."""

STATED = {read_helm, read_repeated, read_confidence}
"""Readers of confidences that a model states, or that its answers show."""
