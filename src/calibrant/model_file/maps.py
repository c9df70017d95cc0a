"""Lists of binary maps, one for each class or group, packed end to end into three arrays.

A map is a few vectors of numbers. The arrays are the form of each map, the length of each vector,
and all numbers, so that a thousand classes take no more arrays than one.
"""

# ruff: noqa: D102  (``Kind`` documents what each method does)
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.model_file.kinds import Kind, Number, agree, check_steps, expect
from calibrant.model_file.limits import LARGEST, require
from calibrant.solvers.bayesian_binning import AveragedHistogram
from calibrant.solvers.beta import BetaMap
from calibrant.solvers.histogram import Histogram
from calibrant.solvers.one_vs_rest import PiecewiseLinear
from calibrant.solvers.platt import BoundedLogs, Sigmoid
from calibrant.step_function import StepFunction

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from calibrant.model_file.reader import Reader
    from calibrant.model_file.writer import Writer

    Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Form:
    """How one class of maps is a few vectors.

    Attributes
    ----------
    code : int
        What stands in the file; never reused.
    n_vectors : int
    split, join : callable
        Map -> vectors, and back.
    check : callable
        Raises unless the map keeps its promises.
    """

    code: int
    n_vectors: int
    split: Callable[[Any], tuple[Numbers, ...]]
    join: Callable[..., Any]
    check: Callable[[Any, str], None]


def _check_piecewise_linear(curve: PiecewiseLinear, name: str) -> None:
    with np.errstate(over="ignore"):
        # Interpolation with an infinite slope would give infinity.
        steepest = (np.diff(curve.y) / np.diff(curve.x)).max(initial=0.0)
    require(steepest < np.inf, f"{name} is too steep")


def _check_step(step: StepFunction, name: str) -> None:
    check_steps(step, name)
    require(step.values[-1] <= 1, f"{name} has a value above 1")


def _check_sigmoid(curve: Sigmoid, name: str) -> None:
    Number().check(curve.slope, f"{name}/slope", {})
    Number().check(curve.intercept, f"{name}/intercept", {})


def _check_beta(curve: BetaMap, name: str) -> None:
    for coefficient in ("a", "b", "c"):
        Number().check(getattr(curve, coefficient), f"{name}/{coefficient}", {})


def _check_average(curve: AveragedHistogram, name: str) -> None:
    check_steps(curve.histogram, name)
    whole, scores = curve.n_bins, curve.log_scores
    counts = whole.dtype.kind == "i" and len(whole) > 0 and whole.min() >= 1
    require(counts and whole.max() <= 2**53, f"{name}: numbers of bins are not whole")
    inside = scores.dtype == np.float64 and scores.min() >= -LARGEST and scores.max() <= LARGEST
    require(inside, f"{name}: log_scores are not in [{-LARGEST}, {LARGEST}]")


def _join_sigmoid(numbers: Numbers) -> Sigmoid:
    require(len(numbers) == 4, "a sigmoid has 4 numbers")
    slope, intercept, low, rest = numbers.tolist()
    return Sigmoid(slope, intercept, BoundedLogs(low, rest))


def _join_beta(numbers: Numbers) -> BetaMap:
    require(len(numbers) == 5, "a beta map has 5 numbers")
    a, b, c, low, rest = numbers.tolist()
    return BetaMap(a, b, c, BoundedLogs(low, rest))


def _join_average(*vectors: Numbers) -> AveragedHistogram:
    *steps, n_bins, log_scores = vectors
    # NaN and what does not fit must not reach the conversion.
    require(n_bins.min() >= 1 and n_bins.max() <= 2**53, "numbers of bins are not whole")
    whole = n_bins.astype(np.int64)
    require((whole == n_bins).all(), "numbers of bins are not whole")
    return AveragedHistogram(Histogram(*steps), whole, log_scores)


def _steps(m: StepFunction | Histogram) -> tuple[Numbers, ...]:
    return m.thresholds, m.values, m.sizes


FORMS: dict[type, Form] = {
    PiecewiseLinear: Form(0, 2, lambda m: (m.x, m.y), PiecewiseLinear, _check_piecewise_linear),
    StepFunction: Form(1, 3, _steps, StepFunction, _check_step),
    Histogram: Form(2, 3, _steps, Histogram, check_steps),
    Sigmoid: Form(
        3,
        1,
        lambda m: (np.array([m.slope, m.intercept, m.logs.low, m.logs.rest]),),
        _join_sigmoid,
        _check_sigmoid,
    ),
    BetaMap: Form(
        4,
        1,
        lambda m: (np.array([m.a, m.b, m.c, m.logs.low, m.logs.rest]),),
        _join_beta,
        _check_beta,
    ),
    AveragedHistogram: Form(
        5,
        5,
        lambda m: (*_steps(m.histogram), m.n_bins.astype(np.float64), m.log_scores),
        _join_average,
        _check_average,
    ),
}
_BY_CODE = {form.code: form for form in FORMS.values()}


@dataclass(frozen=True, slots=True)
class Maps(Kind):
    """A list of binary maps; ``length`` is a letter, as in the shape of an array."""

    length: str
    forms: tuple[type, ...]

    def check(self, value: Any, name: str, sizes: dict[str, int]) -> None:
        require(type(value) is list and value, f"{name} is no list of maps")
        agree(sizes, self.length, len(value), name)
        for i, item in enumerate(value):
            require(type(item) in self.forms, f"{name}/{i} is a {type(item).__name__}")
            FORMS[type(item)].check(item, f"{name}/{i}")

    def write(self, value: Any, name: str, writer: Writer) -> Any:
        forms = [FORMS[type(item)] for item in value]
        vectors = [v for form, item in zip(forms, value, strict=True) for v in form.split(item)]
        writer.put(f"{name}/forms", np.array([form.code for form in forms], dtype=np.int64))
        writer.put(f"{name}/lengths", np.array([len(v) for v in vectors], dtype=np.int64))
        writer.put(f"{name}/numbers", np.concatenate(vectors).astype(np.float64))
        writer.count_maps(len(value))
        return "maps"

    def read(self, stored: Any, name: str, reader: Reader) -> Any:
        expect(stored, "maps", name)
        codes = reader.take(f"{name}/forms", whole=True)
        lengths = reader.take(f"{name}/lengths", whole=True)
        numbers = reader.take(f"{name}/numbers")
        reader.count_maps(len(codes))
        known = [_BY_CODE[code] for code in codes.tolist() if code in _BY_CODE]
        require(len(known) == len(codes), f"{name} has a map of unknown form")
        total = sum(form.n_vectors for form in known)
        require(len(lengths) == total and lengths.min() >= 1, f"{name}: vectors are missing")
        ends = _ends(lengths.tolist())
        require(ends[-1] == len(numbers), f"{name}: vectors do not fill their numbers")
        vectors = iter(numbers[start:end] for start, end in zip([0, *ends], ends, strict=False))
        return [form.join(*(next(vectors) for _ in range(form.n_vectors))) for form in known]


def _ends(lengths: list[int]) -> list[int]:
    """Cumulative sums as Python integers, which do not overflow."""
    ends, end = [], 0
    for length in lengths:
        end += length
        ends.append(end)
    return ends
