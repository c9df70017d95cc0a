"""How a calibrator declares its parameters, and what a fit gives it.

A calibrator is a dataclass: an annotated attribute with a default is a keyword of the constructor,
one that is ``fitted()`` is what ``fit`` sets. So signatures stay explicit, for scikit-learn, for
editors and for type checkers, and nobody writes ``self.x = x``. What a base documents of them, its
subclasses inherit.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, fields
from inspect import cleandoc
from typing import Any, Literal, TypeVar, dataclass_transform, get_type_hints

from calibrant import _gate as gate
from calibrant import _threads as threads
from calibrant.errors import ParameterError, in_words

_HEADING = re.compile(r"^(\w[\w ]+)\n-+\n", re.MULTILINE)
_ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)


def inherit_docstring(cls: type, example: str = "") -> None:
    """Add parameters, attributes and references of the bases of a class to its docstring.

    It gets the ``example``, unless it has its own.
    """
    head, own = _split(cls) if "__doc__" in vars(cls) else ("", {})
    lists = {"Parameters": own.pop("Parameters", ""), "Attributes": own.pop("Attributes", "")}
    for base in cls.__mro__[1:]:
        inherited = _split(base)[1]
        own.setdefault("References", inherited.get("References", ""))
        for name, text in lists.items():
            entries = _ENTRY.split(inherited.get(name, ""))
            lists[name] += "".join(new for new in entries if not _names(new) & _names(text))
    own["Examples"] = own.pop("Examples", example)  # the last one
    sections = (f"{n}\n{'-' * len(n)}\n{text}" for n, text in (lists | own).items() if text)
    cls.__doc__ = "\n".join([head.rstrip() + "\n", *sections])


def _split(documented: object) -> tuple[str, dict[str, str]]:
    """Return what a docstring says before its sections, and these by name."""
    head, *rest = _HEADING.split(cleandoc(documented.__doc__ or ""))
    bodies = (body.rstrip() + "\n" for body in rest[1::2])
    return head, dict(zip(rest[::2], bodies, strict=True))


def _names(section: str) -> set[str]:
    """Names that entries describe, as ``a, b : float`` does."""
    heads = (entry.partition("\n")[0].partition(" :")[0] for entry in _ENTRY.split(section))
    return {name.strip(" *") for head in heads for name in head.split(",") if head}


Default = TypeVar("Default")
Estimator = TypeVar("Estimator")

SMALLEST_POSITIVE = math.ulp(0.0)

EXAMPLE = """\
>>> from {home} import {name}
>>> from calibrant.datasets import simulated_scores
>>> scores, y = simulated_scores()
>>> calibrator = {name}().fit(scores, y)
>>> calibrator.predict_proba(scores[:2]).shape
(2, 3)
"""  # of a method that shows none of its own


def number(
    *,
    default: Default,
    low: float = 0.0,
    high: float = math.inf,
    whole: bool = False,
    infinite: bool = False,
    words: tuple[str, ...] = (),
) -> Default:
    """Declare a parameter that is a number in [low, high], or one of ``words``.

    It may be None if that is its default. Solvers get None for a word, which all of them know.
    """

    def check(name: str, value: object) -> None:
        if isinstance(value, str) and words:
            gate.check_option(name, value, words)
        elif value is not None or default is not None:
            gate.check_number(name, value, low=low, high=high, whole=whole, infinite=infinite)

    def read(value: float | str | None) -> float | None:
        return None if value is None or isinstance(value, str) else (int if whole else float)(value)

    return field(default=default, metadata={"check": check, "read": read})


def choice(allowed: tuple[object, ...] = (True, False), *, default: Default) -> Default:
    """Declare a parameter that is one of a few values."""

    def check(name: str, value: object) -> None:
        gate.check_option(name, value, allowed)

    return field(default=default, metadata={"check": check, "read": type(default)})


def number_of_jobs(*, default: Default) -> Default:
    """Declare ``n_jobs``, which is no part of a fit."""
    return field(default=default, metadata={"check": threads.check_jobs, "stored": False})


def fitted(*, init: Literal[False] = False) -> Any:
    """Declare what ``fit`` sets."""
    return field(init=init)


@dataclass_transform(
    kw_only_default=True,
    eq_default=False,
    field_specifiers=(number, choice, number_of_jobs, fitted, field),
)
class Parameters:
    """Base of what is made of keywords; subclasses are dataclasses by themselves."""

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        dataclass(kw_only=True, eq=False, repr=False, match_args=False)(cls)
        is_public = vars(cls).get("method") and cls.__module__.startswith("calibrant.")
        home = cls.__module__.partition("._")[0]  # the public module above it
        example = EXAMPLE.format(home=home, name=cls.__name__) if is_public else ""
        inherit_docstring(cls, example)

    def _check_parameters(self) -> None:
        """Refuse parameters outside their documented values."""
        for parameter in fields(self):  # type: ignore[arg-type]
            if "check" in parameter.metadata:
                parameter.metadata["check"](parameter.name, getattr(self, parameter.name))

    def _options(self) -> dict[str, Any]:
        """Return the parameters that are numbers and choices, as solvers take them."""
        return {
            parameter.name: parameter.metadata["read"](getattr(self, parameter.name))
            for parameter in fields(self)  # type: ignore[arg-type]
            if "read" in parameter.metadata
        }


def wrong(argument: str, value: object, problem: str) -> ParameterError:
    """Return the error about the value of a parameter."""
    return ParameterError(f"{argument}={in_words(value)} {problem}", argument=argument, value=value)


def stored_names(cls: type) -> list[str]:
    """Return the names of the parameters that belong to a fit, sorted."""
    return sorted(f.name for f in fields(cls) if f.init and f.metadata.get("stored", True))


def fitted_types(cls: type) -> dict[str, Any]:
    """Return the type of each attribute that ``fit`` sets."""
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in fields(cls) if not f.init}


class FromMap(property):
    """A fitted attribute by its familiar name: a property that reads a field of ``map_``."""

    def __init__(self, name: str) -> None:
        super().__init__(lambda fit: getattr(fit.map_, name), doc=f"``map_.{name}``.")


def replace_state(estimator: object, fitted: dict[str, object]) -> None:
    """Replace the fitted attributes of an estimator; parameters stay.

    A new dictionary takes the place of the old one in a single assignment, because other threads
    may predict with an estimator that is fitted again.
    """
    kept = vars(estimator).copy()
    for name in ("feature_names_in_", "sample_", "score_summary_"):  # not every fit sets these
        kept.pop(name, None)
    estimator.__dict__ = kept | fitted


def take_state(estimator: Estimator) -> Estimator:
    """Return the estimator as it is now, which no later ``fit`` or ``set_params`` changes."""
    taken = object.__new__(type(estimator))
    taken.__dict__ = vars(estimator).copy()
    return taken
