"""Options of a question, their scores and the right one, out of a record of an evaluation.

There is a function for each layout: lm-evaluation-harness, Inspect, completions with
``top_logprobs``, and plain records.
"""

from __future__ import annotations

import math
import string
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from calibrant._files.columns import LABEL_NAMES
from calibrant._files.records import describe
from calibrant.errors import PredictionFileError
from calibrant.errors import some_in_words as some

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from calibrant._files.records import Record

OPTION_FIELDS = ("options", "choices")
COMPLETION_FIELDS = ("response", "body", "completion", "output")
BEFORE_OPTION = " \t\n\u0120\u2581("
AFTER_OPTION = " \t\n.):"
"""Signs around an option in a token; vocabularies write a space as U+0120 or U+2581."""

TRUTH_FIELDS = ("correct", "is_correct", "right")
TRUTH = dict.fromkeys(("true", "1", "right", "correct", "c", "yes"), 1)
TRUTH |= dict.fromkeys(("false", "0", "wrong", "incorrect", "i", "no"), 0)
"""Fields that say whether an answer was right, and how."""

SMALLEST_MASS = 1e-12
"""Mass of an option that is not listed, at least."""


class LoggedRow(NamedTuple):
    """Scores of the options of a question, their names, and the place of the right one.

    ``said`` is the label as it was told, if it was; ``of_object`` are names that are keys.
    """

    scores: list[float]
    names: list[str]
    label: int | None
    said: str | None = None
    of_object: bool = False


def label_field(fields: dict[str, Any], chosen: str | None) -> str | None:
    """Name of the field with the label: the chosen one, or the only one with a usual name."""
    if chosen is not None:
        return chosen
    named = [name for name in fields if name.casefold() in LABEL_NAMES]
    return "label" if "label" in named else named[0] if len(named) == 1 else None


def label_of(record: Record, chosen: str | None) -> Any:
    """Label of a record as it stands; None if it has none."""
    fields = record.fields
    if chosen is not None and chosen not in fields:
        raise record.error(f" has no field {chosen!r} (--label-column), only {some(list(fields))}")
    name = label_field(fields, chosen)
    label = None if name is None else fields[name]
    if isinstance(label, list) and len(label) == 1:
        label = label[0]
    if isinstance(label, list | dict) or (isinstance(label, float) and not label.is_integer()):
        raise record.error(f": the label is {describe(label)}; write the name of one option")
    return int(label) if isinstance(label, float) else label


def _find_label(label: Any, names: list[str], where: str) -> int | None:
    """Place of the right option, by its name or else its place."""
    if label is None:
        return None
    text = str(label).strip()
    if text in names:
        return names.index(text)
    if text.isdecimal() and len(text) < 9 and int(text) < len(names):
        return int(text)
    raise PredictionFileError(
        f"{where}: the label {label!r:.200} is not among the options {some(names, 8)} of its row"
    )


def own_options(fields: dict[str, Any]) -> list[str] | None:
    """Options that a record lists."""
    for name in OPTION_FIELDS:
        given = fields.get(name)
        if isinstance(given, list) and given and all(isinstance(o, str) for o in given):
            return [option.strip() for option in given]
    return None


def is_score(value: Any) -> bool:
    """Whether a value of JSON is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _row(
    values: Iterable[Any], names: Sequence[str], label: Any, where: str, of: str = "score"
) -> LoggedRow:
    """Check a row: two options or more, each with a finite number."""
    found = []
    for name, value in zip(names, values, strict=True):
        try:
            score = float(value) if is_score(value) else math.nan
        except OverflowError:
            score = math.inf
        if not math.isfinite(score):
            raise PredictionFileError(
                f"{where}: the {of} of option {name!r:.200} is {describe(value)}; write a finite "
                "number, or leave out options that the question does not have"
            )
        found.append(score)
    if len(found) < 2:
        raise PredictionFileError(f"{where}: at least two options are needed; drop the record")
    place = _find_label(label, list(names), where)
    return LoggedRow(found, list(names), place, None if label is None else str(label).strip())


def read_plain(record: Record, name: str, label: str | None, flat: Sequence[str] = ()) -> LoggedRow:
    """Read a list of scores, or an object of scores by option; null is no option.

    The fields that are ``flat`` are such an object themselves.
    """
    where, given = f"{record.where}, field {name!r}", record.fields.get(name)
    if flat:
        where, named = record.where, [(n, record.fields.get(n)) for n in flat]
    elif isinstance(given, dict):
        named = [(option.strip(), value) for option, value in given.items()]
    elif isinstance(given, list):
        names = own_options(record.fields) or [str(j) for j in range(len(given))]
        if len(names) != len(given):
            raise record.error(f": {len(given)} scores for {len(names)} options; write one each")
        named = list(zip(names, given, strict=True))
    else:
        found = "missing" if given is None else describe(given)
        raise record.error(f": {name!r} is {found}; write the score of each option")
    present = {option: value for option, value in named if value is not None}
    if len(present) < sum(value is not None for _, value in named):
        raise PredictionFileError(f"{where} has the same option twice; write each option once")
    row = _row(present.values(), list(present), label_of(record, label), where)
    return row._replace(of_object=isinstance(given, dict))


def read_confidence(record: Record, name: str, scale: float, label: str | None) -> LoggedRow:
    """Read how sure a model says to be of its answer, and whether that was right."""
    value: Any = record.fields.get(name)
    if not is_score(value) or not 0.0 <= value <= scale:
        raise record.error(f": {name!r} is {describe(value)}; write 0 to {scale:g}")
    usual = next((field for field in TRUTH_FIELDS if field in record.fields), None)
    said = label_of(record, label or usual)
    truth = None if said is None else TRUTH.get(str(said).strip().casefold(), -1)
    if truth == -1:
        raise record.error(f": the label {said!r:.200} is neither true nor false")
    return LoggedRow([1.0 - value / scale, value / scale], ["false", "true"], truth)


def read_lm_eval(record: Record) -> LoggedRow:
    """Read a sample of lm-evaluation-harness: log-likelihoods of the options, and ``target``."""
    fields, where = record.fields, record.where
    answers = fields.get("filtered_resps") or fields.get("resps")
    values: list[Any] = []
    for answer in answers if isinstance(answers, list) else []:
        found = answer
        while isinstance(found, list) and found and isinstance(found[0], list):
            found = found[0]
        if not (isinstance(found, list) and len(found) == 2):  # log-likelihood, is it greedy
            raise record.error(" has generated text; write scores of options as plain records")
        number = found[0]
        with suppress(ValueError):  # newer logs have numbers as text
            number = float(number) if isinstance(number, str) else number
        values.append(number)
    names = _continuations(fields.get("arguments"), len(values))
    half = len(names) // 2
    if (
        1 < half == len({*names[:half]}) and names[:half] == names[half:]
    ):  # those without the question, for mutual info
        names, values = names[:half], values[:half]
    target = fields.get("target")
    if len(names) > 1 and {*names} == {str(target).strip()}:  # they differ in the question alone
        names, target = [str(j) for j in range(len(names))], _place_of_answer(record, len(names))
    row = _row(values, names, None, where, "log-likelihood")
    # A number is a place; the text of an option, too, may be one: the log tells what was right.
    places = [int(str(target))] if str(target).isdecimal() and len(str(target)) < 9 else []
    places += [j for j, name in enumerate(names) if name == str(target).strip()]
    places = [j for j in places if j < len(names)]
    is_right, best = fields.get("acc"), row.scores.index(max(row.scores))
    agreeing = [j for j in places if not is_score(is_right) or (j == best) == (is_right == 1)]
    if target is not None and not agreeing:
        fault = "not exactly one right option" if not places else f"acc is {is_right}"
        options = f"the target {target!r:.200} of the options {some(names, 8)}"
        raise record.error(f": {options}: {fault}; drop the record")
    return row._replace(label=agreeing[0] if agreeing else None)


def _place_of_answer(record: Record, n_options: int) -> str:
    """Place of the right one of several questions with one continuation, as the document says it.

    The target is that continuation, and says nothing. Documents count answers in text from 1
    (winogrande), and labels from 0 (wsc273).
    """
    doc = record.fields.get("doc")
    answer, label = (doc.get("answer"), doc.get("label")) if isinstance(doc, dict) else (None, None)
    is_told = isinstance(answer, str) and len(answer) < 3 and answer.isdecimal()
    place = int(str(answer)) - 1 if is_told else label
    if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < n_options:
        raise record.error(
            f": all {n_options} continuations are the same, and 'doc' has no 'answer' from '1' or "
            "'label' from 0 that tells the right one; drop the record"
        )
    return str(place)


def _continuations(arguments: Any, n_options: int) -> list[str]:
    """Texts of the options that followed the question, or else their places."""
    given = list(arguments.values()) if isinstance(arguments, dict) else arguments
    texts = []
    for pair in given if isinstance(given, list) else []:
        own = list(pair.values()) if isinstance(pair, dict) else pair
        if isinstance(own, list) and len(own) == 2 and isinstance(own[1], str):
            texts.append(own[1].strip())
    return texts if len(texts) == n_options else [str(j) for j in range(n_options)]


def read_inspect(record: Record) -> LoggedRow:
    """Read a sample of Inspect: letters of its ``choices``, ``target``, and log-probabilities."""
    choices = record.fields.get("choices")
    if not isinstance(choices, list) or not 2 <= len(choices) <= 26:
        raise record.error(" has no choices; only samples of multiple_choice() can be read")
    letters = list(string.ascii_uppercase[: len(choices)])
    return read_completion(record, letters, "target")


def read_completion(
    record: Record, options: list[str] | None, label: str | None = None
) -> LoggedRow:
    """Read a completion with ``top_logprobs``, at the token that is an option.

    Tokens with and without a space are one option. Options that are not listed share what the
    listed tokens leave, each at most as much as the least of them.
    """
    where = record.where
    names = own = own_options(record.fields) or options
    if options is not None and (own is None or not set(own) <= set(options)):
        names = options  # the record lists texts; tokens are letters, as many as there are texts
        if own is not None and set(options) <= set(string.ascii_uppercase):
            names = list(string.ascii_uppercase[: len(own)])
    choices = (_positions(own["logprobs"]) for own in _responses(record.fields) if _has_tokens(own))
    found = next(choices, [])
    if names is None:
        raise record.error(" has no label; use --label-column, or name the options with --classes")
    if not found:
        raise record.error(
            " has no top_logprobs, which the model or its provider did not return; request them "
            "with logprobs=True, top_logprobs=20, or drop the record"
        )
    answers = {clean(token): listed for token, listed in found if clean(token) in names}
    if len(answers) != 1:
        which = f"{'several tokens are' if answers else 'no token is'} among {some(names, 8)}"
        raise record.error(f": {which}; request only the option (max_tokens=1), or use --classes")
    masses, least, listed_mass = dict.fromkeys(names, 0.0), 1.0, 0.0
    for token, logprob in answers.popitem()[1]:
        if not is_score(logprob) or not logprob < 1e-3:  # NaN is not
            number = f"the logprob of {token!r:.60} is {describe(logprob)}"
            raise record.error(f": {number}; write a number of at most 0")
        mass = math.exp(logprob)
        listed_mass += mass
        least = min(least, mass)
        if clean(token) in masses:
            masses[clean(token)] += mass
    absent = [name for name, mass in masses.items() if mass == 0.0]
    for name in absent:
        masses[name] = max(min((1.0 - listed_mass) / len(absent), least), SMALLEST_MASS)
    scores = [math.log(mass) for mass in masses.values()]
    return _row(scores, names, label_of(record, label), where)


def clean(token: str) -> str:
    """Return the option of a token, without the signs around it."""
    return token.lstrip(BEFORE_OPTION).rstrip(AFTER_OPTION)


def _responses(fields: Any) -> Iterator[dict[str, Any]]:
    """Yield a record, and the responses and first choices in it, from the outside in."""
    if isinstance(fields, dict):
        yield fields
        for name in COMPLETION_FIELDS:
            yield from _responses(fields.get(name))
        for name in ("choices", "outputs"):  # of OpenAI and of vLLM
            given = fields.get(name)
            yield from _responses(given[0] if isinstance(given, list) and given else None)


def _has_tokens(fields: dict[str, Any]) -> bool:
    """Whether log-probabilities of tokens stand in a response."""
    logprobs = fields.get("logprobs")
    if isinstance(logprobs, dict):
        return isinstance(logprobs.get("content"), list) or "top_logprobs" in logprobs
    return isinstance(logprobs, list)


def is_completion(fields: dict[str, Any]) -> bool:
    """Whether a record has log-probabilities of tokens, or says that it has none."""
    return any(_has_tokens(own) or own.get("logprobs", "") is None for own in _responses(fields))


def _positions(logprobs: Any) -> list[tuple[str, list[tuple[str, Any]]]]:
    """Token at each position, and the listed ones there with their log-probabilities."""
    if isinstance(logprobs, dict) and isinstance(logprobs.get("content"), list):
        given = [(t, t.get("top_logprobs")) for t in logprobs["content"] if isinstance(t, dict)]
        return [_position(t.get("token"), t.get("logprob"), listed) for t, listed in given]
    if isinstance(logprobs, dict):  # completions of before chats
        parts = [logprobs.get(n) for n in ("tokens", "token_logprobs", "top_logprobs")]
        if all(isinstance(part, list) for part in parts):
            return [_position(*each) for each in zip(*parts, strict=False)]
        return []
    return [_position(None, None, listed) for listed in logprobs]


def _position(token: Any, logprob: Any, listed: Any) -> tuple[str, list[tuple[str, Any]]]:
    """Return a token and the listed ones, of which it is one."""
    pairs: list[tuple[str, Any]] = []
    if isinstance(listed, dict):  # logprobs by token, or vLLM's objects by the id of the token
        for name, value in listed.items():
            own = value if isinstance(value, dict) else {"logprob": value}
            pairs.append((str(own.get("decoded_token", name)), own.get("logprob")))
    elif isinstance(listed, list):
        pairs = [(str(o.get("token")), o.get("logprob")) for o in listed if isinstance(o, dict)]
    if not isinstance(token, str):
        token = pairs[0][0] if pairs else ""  # vLLM's first one is what was drawn
    if all(name != token for name, _ in pairs):
        pairs.append((token, logprob))
    return token, pairs
