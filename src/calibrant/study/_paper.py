"""The paper's own estimators: our classes without the priors that our defaults have.

Each is its parent with other defaults. FIR has no prior, so that ``fir`` is the paper's as it is;
NA-FIR by the paper's Algorithm 1 is ``na-fir-annealing``.
"""

from __future__ import annotations

from calibrant import (
    MatrixScaling,
    NormalizationAwareIsotonic,
    OneVsRestIsotonic,
    SortedCumulativeIsotonic,
    TemperatureScaling,
    VectorScaling,
)
from calibrant._calibrators.parameters import choice, number

EPSILON = 1e-12
"""Lower bound of the probabilities of an output.

The paper adds "a small epsilon" without saying which. This is the one below which the NLL of a
study does not tell probabilities apart, so that it decides nothing else.
"""


class PaperNormalizationAware(NormalizationAwareIsotonic):
    """NA-FIR as in the paper's equation 4: the exact optimum without a prior.

    Parameters
    ----------
    prior_strength : "cv" or float, default=0
        Number of pseudo-observations; the paper has none.
    """

    method = "na-fir-paper"
    title = "NA-FIR, no prior"
    summary = "one isotonic step function, the paper's objective"
    good_for = "comparison"
    place, in_paper = 30, False

    prior_strength: str | float = number(default=0.0, high=1e12, words=("cv",))
    min_probability: float = EPSILON


class PaperSortedCumulative(SortedCumulativeIsotonic):
    """SCIR as in the paper: no share of temperature scaling, and g as the regression leaves it.

    Parameters
    ----------
    prior_share : "cv" or float in [0, 1], default=0
        Weight of the temperature-scaled row; the paper has none, but a small constant.
    raise_to_even : bool, default=False
        Whether g is raised to r / k where it is below.
    """

    method = "scir-paper"
    title = "SCIR, no prior"
    summary = "isotonic in the top-r sums and in r, the paper's objective"
    good_for = "comparison"
    place, in_paper = 31, False

    prior_share: str | float = number(default=0.0, high=1.0, words=("cv",))
    raise_to_even: bool = choice(default=False)
    min_probability: float = EPSILON


class PaperOneVsRestIsotonic(OneVsRestIsotonic):
    """IR-OvR as in the paper, without pseudo-observations.

    Parameters
    ----------
    prior_strength : float, default=0
        Number of pseudo-observations; the paper has none.
    """

    method = "ir-ovr-paper"
    title = "IR-OvR, no prior"
    summary = "an isotonic map for each class, no prior"
    good_for = "comparison"
    place, in_paper = 32, False

    prior_strength: float = number(default=0.0, high=1e12)
    min_probability: float = EPSILON


class PaperTemperature(TemperatureScaling):
    """TS as in the paper's equation 1, without pseudo-observations.

    Parameters
    ----------
    prior_strength : float, default=0
        Number of pseudo-observations; the paper has none.
    """

    method = "ts-paper"
    title = "TS, no prior"
    summary = "one number, the temperature, no prior"
    good_for = "comparison"
    place, in_paper = 33, False

    prior_strength: float = number(default=0.0, high=1e12)
    min_probability: float = EPSILON


class PaperVector(VectorScaling):
    """VS as in the paper, without pseudo-observations.

    Parameters
    ----------
    prior_strength : float, default=0
        Number of pseudo-observations; the paper has none.
    """

    method = "vs-paper"
    title = "VS, no prior"
    summary = "a slope and an intercept for each logit, no prior"
    good_for = "comparison"
    place, in_paper = 34, False

    prior_strength: float = number(default=0.0)
    min_probability: float = EPSILON


class PaperMatrix(MatrixScaling):
    """MS as in the paper, without pseudo-observations or penalty.

    Parameters
    ----------
    prior_strength : float, default=0
        Number of pseudo-observations; the paper has none.
    odir : float, default=0
        Strength of the penalty off the diagonal and on the intercepts; the paper has none.
    """

    method = "ms-paper"
    title = "MS, no prior"
    summary = "affine in the logits, no prior"
    good_for = "comparison"
    place, in_paper = 35, False

    prior_strength: float = number(default=0.0)
    odir: float = number(default=0.0)
    min_probability: float = EPSILON
