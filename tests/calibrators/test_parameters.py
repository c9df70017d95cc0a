"""Parameters outside their documented values are refused by name; each is documented once."""

import numpy as np
import pytest

import calibrant
from calibrant import (
    DirichletCalibration,
    MonotoneSpline,
    NormalizationAwareIsotonic,
    OneVsRestPlatt,
    SortedCumulativeIsotonic,
    StructuredScaling,
    TemperatureScaling,
)
from calibrant._calibrators.composition import Composition
from calibrant._calibrators.methods import methods
from calibrant._calibrators.parameters import inherit_docstring
from calibrant.study import (
    Annealing,
    OneVsRestBBQ,
    OneVsRestHistogram,
    SharedClasswise,
    TopLabelHistogram,
    TopLabelIsotonic,
)
from conftest import refuses, simulate

REFUSED = {
    NormalizationAwareIsotonic: {
        "prior_strength": [-1.0, "best", float("nan"), None],
        "tol": [0.0],
        "max_rounds": [0],
    },
    SortedCumulativeIsotonic: {"prior_share": ["auto", -0.1, 1.1, None], "max_rank": [0, 2.5]},
    StructuredScaling: {
        "form": ["full"],
        "strength": ["cv", -1.0, None],
        "bound": [-0.1, 2.0],
        "tol": [-1.0],
        "max_rounds": [0, 1.5],
    },
    MonotoneSpline: {
        "n_knots": [0, 2.5],
        "strength": ["evidence", -1.0, np.nan],
        "tol": [-1.0],
        "max_rounds": [0],
    },
    DirichletCalibration: {"odir": [-1]},
    SharedClasswise: {
        "map": ["beta"],
        "n_groups": [0],
        "n_bins": [0],
        "strategy": ["depth"],
        "normalize_output": ["no"],
    },
    TopLabelHistogram: {"n_bins": [0], "points_per_bin": [-1], "per_class": ["yes"]},
    TopLabelIsotonic: {"normalize_output": [None]},
    OneVsRestPlatt: {"smooth_labels": ["yes"]},
    OneVsRestHistogram: {"n_bins": [0, 2.5], "strategy": ["depth"]},
    OneVsRestBBQ: {"spread": [0.5], "prior_weight": [-1]},
    Annealing: {
        "min_blocks": [2.5],
        "split_size_threshold": [0],
        "epsilon_change": [0.0],
        "beta": [-1.0],
        "n_iterations": [0],
        "n_iterations_no_change": [-5],
        "max_rounds": [10],
        "prior_strength": [-1.0],
    },
}


@pytest.mark.parametrize("cls", REFUSED, ids=lambda cls: cls.__name__)
def test_values_outside_their_range_are_refused_by_name(cls):
    scores, y = simulate(150, 3)
    for name, values in REFUSED[cls].items():
        for value in values:
            with refuses(name) as caught:
                cls(**{name: value}).fit(scores, y)
            assert caught.value.value is value


COMPOSED = (
    calibrant.Chain,
    calibrant.Mixture,
    calibrant.GroupedCalibrator,
    calibrant.FeatureCalibrator,
)


@pytest.mark.parametrize("cls", [*methods(study=True).values(), *COMPOSED])
def test_every_parameter_is_described_once(cls):
    """Also what a base describes for all of its subclasses; and there is an example."""
    sections = cls.__doc__.partition("\nParameters\n")[2]
    described, _, rest = sections.partition("\nAttributes\n")
    is_list = issubclass(cls, Composition)
    for name in ("calibrators", "scores") if is_list else cls().get_params(deep=False):
        assert described.count(f"\n{name} : ") == 1, name
    for name in ("classes_", "map_", "solver_report_"):
        assert rest.count(f"\n{name} : ") == 1, name
    assert "\nExamples\n--------\n>>> " in rest


def test_what_a_base_documents_is_inherited_after_its_own():
    doc = TemperatureScaling.__doc__
    places = [doc.index(f"\n{name} : ") for name in ("tol", "zero_probability", "scores", "n_jobs")]
    assert places == sorted(places)


def test_what_a_class_describes_itself_is_not_inherited():
    class Cold(TemperatureScaling):
        """A colder one.

        Parameters
        ----------
        tol : float
            Another meaning.
        """

    inherit_docstring(Cold, ">>> Cold()\n")
    assert Cold.__doc__.count("\ntol : ") == 1
    assert "Another meaning" in Cold.__doc__
    assert ">>> Cold()" in Cold.__doc__
