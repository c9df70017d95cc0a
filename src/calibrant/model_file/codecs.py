"""The table of what a file can hold: one entry for each calibrator.

The method of a file is looked up here and nowhere else; nothing is imported or called because a
file names it. To add a calibrator, add an entry: a stable name, the class, the kind of each fitted
attribute and, if the attributes must agree with each other, a check.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.calibrators.auto import AutoCalibrator, AutoReport, Candidate
from calibrant.calibrators.composition import Chain, Mixture
from calibrant.calibrators.dirichlet import DirichletCalibration
from calibrant.calibrators.flattened import FlattenedIsotonic
from calibrant.calibrators.monotone_spline import MonotoneSpline
from calibrant.calibrators.normalization_aware import NormalizationAwareIsotonic
from calibrant.calibrators.one_vs_rest import OneVsRestBeta, OneVsRestIsotonic, OneVsRestPlatt
from calibrant.calibrators.one_vs_rest_bins import OneVsRestBBQ, OneVsRestHistogram
from calibrant.calibrators.scaling import MatrixScaling, TemperatureScaling, VectorScaling
from calibrant.calibrators.shared_classwise import SharedClasswise
from calibrant.calibrators.sorted_cumulative import SortedCumulativeIsotonic
from calibrant.calibrators.structured import StructuredScaling
from calibrant.calibrators.top_label import TopLabelHistogram, TopLabelIsotonic
from calibrant.model_file.kinds import (
    Array,
    Kind,
    Listed,
    Number,
    Optional,
    Part,
    Plain,
    RankedSteps,
    Record,
    Steps,
)
from calibrant.model_file.limits import (
    DEEPEST_LOGIT,
    LARGEST_PRODUCT,
    MAX_CLASSES,
    MAX_KNOTS,
    require,
)
from calibrant.model_file.maps import Maps
from calibrant.solvers.bayesian_binning import AveragedHistogram
from calibrant.solvers.beta import BetaMap
from calibrant.solvers.histogram import Histogram
from calibrant.solvers.normalization_aware.ways import WAYS, Annealing
from calibrant.solvers.one_vs_rest import PiecewiseLinear
from calibrant.solvers.platt import Sigmoid
from calibrant.solvers.report import SolverReport
from calibrant.step_function import StepFunction

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibrant.calibrators.base import Calibrator


@dataclass(frozen=True, slots=True)
class Codec:
    """How one class of calibrators is stored.

    Attributes
    ----------
    method : str
        Its name in files; never reused for another class.
    cls : type
    fields : dict of str to Kind
        Its fitted attributes.
    check : callable, optional
        Raises ``FittedValueError`` unless the attributes agree with each other.
    work : int
        What it does for one class of a row, in units of ``limits.WORK_PER_BYTE``; work that grows
        with its arrays or maps comes on top.
    before : dict of str to object
        Parameters that came after the first files of this method, where what those were fitted
        with is not today's default.
    upgrade : callable, optional
        Changes a dict of stored parameters to those of today, in place; may refuse them.
    """

    method: str
    cls: type[Calibrator]
    fields: dict[str, Kind]
    check: Callable[[Any], None] | None = None
    work: int = 1
    before: dict[str, Any] = field(default_factory=dict)
    upgrade: Callable[[dict[str, Any]], None] | None = None


def _check_chain(chain: Chain) -> None:
    _check_parts(chain, chain.calibrators_[:1], chain.scores)
    _check_parts(chain, chain.calibrators_[1:], "probabilities")
    _check_sums(chain.calibrators_[:-1])


def _check_mixture(mixture: Mixture) -> None:
    _check_parts(mixture, mixture.calibrators_, mixture.scores)
    _check_weights(mixture.weights_)


def _check_auto(auto: AutoCalibrator) -> None:
    for path in auto.paths_:
        _check_parts(auto, path[:1], auto.scores)
        _check_parts(auto, path[1:], "probabilities")
        _check_sums(path[:-1])
    _check_weights(auto.weights_)


def _check_parts(whole: Calibrator, parts: list[Calibrator], scores: str) -> None:
    """Refuse parts of other classes, or that expect another kind of scores than they get."""
    for part in parts:
        same = part.classes_ is whole.classes_ or np.array_equal(part.classes_, whole.classes_)
        require(same, f"a part of {type(whole).__name__} has other classes")
        require(part.scores == scores, f"a part of {type(whole).__name__} expects {part.scores}")
        named = hasattr(part, "feature_names_in_")
        require(not named, f"a part of {type(whole).__name__} has names of columns")


def _check_sums(stages: list[Calibrator]) -> None:
    """Refuse stages that need not return what the next stage takes."""
    for stage in stages:
        codec = BY_CLASS[type(stage)]
        summing = getattr(stage, "normalize_output", True)
        require(summing, "a stage gets rows that need not sum to 1")
        for name, kind in codec.fields.items():
            _check_sums(list(kind.parts(getattr(stage, name))))


def _check_weights(weights: Any) -> None:
    require(abs(float(weights.sum()) - 1.0) <= 1e-12, "weights_ do not sum to 1")


def _check_groups(shared: SharedClasswise) -> None:
    last = int(shared.groups_.max())
    require(last + 1 == len(shared.curves_), "groups_ do not have one map each")


def _check_top_label(top: TopLabelHistogram | TopLabelIsotonic) -> None:
    n_curves = len(top.classes_) if top.per_class else 1
    require(len(top.curves_) == n_curves, f"{len(top.curves_)} maps where there are {n_curves}")


def _check_spline(spline: MonotoneSpline) -> None:
    knots, slopes = spline.knots_, spline.slopes_
    require(len(slopes) == len(knots) + 1, "slopes_ are not one more than knots_")
    require(len(knots) <= MAX_KNOTS, f"there are {len(knots)} knots_, {MAX_KNOTS} at most")
    require(np.all(np.diff(knots) > 0), "knots_ do not increase")
    # Predictions that do not differ give slopes up to 1e303, so the product counts.
    reach = float(np.abs(knots).max()) - spline.zero_logit_
    require(float(slopes.max()) * reach <= LARGEST_PRODUCT, "slopes_ times knots_ overflow")


def _check_structured(structured: StructuredScaling) -> None:
    reach = -structured.scale_ * structured.zero_logit_
    require(reach <= LARGEST_PRODUCT, "scale_ times zero_logit_ overflows")
    if structured.bound == 0:  # else the logarithms are bounded, whatever the scale is
        largest = max(1.0, float(np.abs(structured.coef_).max())) * len(structured.classes_)
        require(largest * reach <= LARGEST_PRODUCT, "coef_ times scale_ overflows")


def _gather_solver(parameters: dict[str, Any]) -> None:
    """Make one object of a solver's name and the options that once stood beside it."""
    solver = parameters.get("solver", "exact")
    if isinstance(solver, str):
        names = {option.name for option in fields(Annealing)} & parameters.keys()
        annealing = Annealing(**{name: parameters.pop(name) for name in names})
        annealing.check()
        if solver in WAYS:
            parameters["solver"] = annealing if solver == annealing.name else WAYS[solver]()


REPORT = Record(
    SolverReport,
    {
        "solver": Plain(str),
        "objective": Number(anything=True),
        "violation": Number(anything=True),
        "tolerance": Number(anything=True),
        "rounds": Plain(int),
        "seconds": Number(anything=True),
        "n_blocks": Optional(Plain(int)),
        "notes": Listed(Plain(str), tuple),
    },
)
AUTO_REPORT = Record(
    AutoReport,
    {
        "candidates": Listed(
            Record(
                Candidate,
                {
                    "path": Plain(str),
                    "nll": Number(anything=True),
                    "difference": Number(anything=True),
                    "standard_error": Number(anything=True),
                    "weight": Number(0.0, 1.0),
                    "seconds": Number(anything=True),
                },
            ),
            tuple,
            at_least=1,
        ),
        "n_rows": Plain(int),
        "n_folds": Plain(int),
        "mixture_nll": Number(anything=True),
    },
)
_REPORTED: dict[str, Kind] = {"solver_report_": REPORT}
_LOGGED: dict[str, Kind] = {"zero_logit_": Number(DEEPEST_LOGIT, 0.0), **_REPORTED}
_TEMPERATURE: dict[str, Kind] = {"inverse_temperature_": Number(0.0), **_LOGGED}
_MATRIX: dict[str, Kind] = {"coef_": Array("kk"), "intercept_": Array("k"), **_LOGGED}
_NO_PRIOR: dict[str, Any] = {"prior_strength": 0.0}
_PARTS = Listed(Part(), at_least=1, length="p")


def _curves(*forms: type, length: str = "k") -> dict[str, Kind]:
    return {"curves_": Maps(length, (PiecewiseLinear, *forms)), **_REPORTED}


CODECS = (
    Codec("ts", TemperatureScaling, _TEMPERATURE, before=_NO_PRIOR),
    Codec("vs", VectorScaling, {"coef_": Array("k"), "intercept_": Array("k"), **_LOGGED}, work=3),
    Codec("ms", MatrixScaling, _MATRIX, work=3, before={"odir": 0.0}),
    Codec("dirichlet", DirichletCalibration, _MATRIX, work=3),
    Codec("fir", FlattenedIsotonic, {"step_function_": Steps(), **_REPORTED}),
    Codec(
        "na-fir",
        NormalizationAwareIsotonic,
        {
            "step_function_": Steps(),
            "prior_strength_": Number(0.0, 1e12),
            "cv_results_": Optional(
                Record(dict, {"prior_strength": Array("s"), "negative_log_likelihood": Array("s")})
            ),
            **_REPORTED,
        },
        upgrade=_gather_solver,
    ),
    Codec(
        "scir",
        SortedCumulativeIsotonic,
        {
            "step_function_": RankedSteps(),
            "prior_share_": Number(0.0, 1.0),
            "prior_report_": Optional(REPORT),
            **_TEMPERATURE,
        },
        work=8,
    ),
    Codec("ir-ovr", OneVsRestIsotonic, _curves(), before=_NO_PRIOR),
    Codec("platt-ovr", OneVsRestPlatt, _curves(Sigmoid)),
    Codec("beta-ovr", OneVsRestBeta, _curves(BetaMap)),
    Codec("hb-ovr", OneVsRestHistogram, _curves(Histogram), before=_NO_PRIOR),
    Codec("bbq-ovr", OneVsRestBBQ, _curves(AveragedHistogram)),
    Codec(
        "scw",
        SharedClasswise,
        {
            "groups_": Array("k", 0, MAX_CLASSES, whole=True),
            **_curves(StepFunction, Histogram, length="g"),
        },
        _check_groups,
        work=5,
    ),
    Codec("m2b-hb", TopLabelHistogram, _curves(Histogram, length="c"), _check_top_label, work=3),
    Codec("m2b-ir", TopLabelIsotonic, _curves(StepFunction, length="c"), _check_top_label, work=3),
    Codec(
        "structured",
        StructuredScaling,
        {
            "coef_": Array("k|kk"),
            "intercept_": Array("k"),
            "scale_": Number(0.0, 1e300),
            **_LOGGED,
            "inverse_temperature_": Number(0.0),
        },
        _check_structured,
        work=4,
        before=_NO_PRIOR,
    ),
    Codec(
        "spline",
        MonotoneSpline,
        {"knots_": Array("n"), "slopes_": Array("s", 0.0, 1e303), **_LOGGED},
        _check_spline,
        work=5,  # with a thousand knots
        before=_NO_PRIOR,
    ),
    Codec(
        "chain",
        Chain,
        {"calibrators_": _PARTS, "solver_report_": Optional(REPORT)},
        _check_chain,
    ),
    Codec(
        "mixture",
        Mixture,
        {"calibrators_": _PARTS, "weights_": Array("p", 0.0, 1.0), **_REPORTED},
        _check_mixture,
    ),
    Codec(
        "auto",
        AutoCalibrator,
        {
            "paths_": Listed(Listed(Part(), at_least=1), at_least=1, length="p"),
            "weights_": Array("p", 0.0, 1.0),
            "report_": AUTO_REPORT,
            **_REPORTED,
        },
        _check_auto,
        before={"caution": 0.0},
    ),
)
BY_CLASS: dict[type, Codec] = {codec.cls: codec for codec in CODECS}
BY_METHOD = {codec.method: codec for codec in CODECS}
OPTIONS: dict[str, type] = {cls.__name__: cls for cls in WAYS.values()}
"""Objects that hold options and are parameters themselves, by their names in files."""
