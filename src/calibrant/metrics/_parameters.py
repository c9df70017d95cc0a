"""Parameters that many functions share: what they are is written here, once.

``inherit_parameters`` completes the docstring of a function when it is defined, so that ``help``
shows every parameter.
"""

from __future__ import annotations

import inspect
import re
from textwrap import indent
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Function = TypeVar("Function", bound="Callable[..., Any]")

SHARED_PARAMETERS = """\
y_true : array-like of shape (n_rows,)
    True labels of any kind, or one-hot rows.
y_proba : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
    Probabilities, columns in the order of the sorted labels (or of ``classes``); one column
    is the positive class of a binary problem, as in scikit-learn.
n_bins : int
    Number of bins.
strategy : {"uniform", "quantile"}
    Bins of equal width, (low, high] with 0 in the first, as scikit-learn's
    ``calibration_curve`` has them; or of equal mass, where ties are not split: equal
    predictions go to the bin of the midpoint of their cumulative weight.
norm : {"l1", "l2", "max"}
    Mean of the gaps over rows; root of the mean of their squares; or the largest (MCE).
kind : None, "confidence" or a label
    "confidence" is the largest probability of each row against whether it is right; a label
    is the probability of that class against whether it is the label. None is the positive
    class of two, the second, and of more the confidence.
recalibrator : calibrator, optional
    Any calibrator of this package; it is copied. ``StructuredScaling()`` by default, which is
    quick, finds what is wrong with single classes, too, and keeps to temperature scaling where
    there are few rows.
n_folds : int
    Rows are dealt to folds at random, without a look at their labels, in the same way in every
    run and whatever their order.
sample_weight : array-like of shape (n_rows,), optional
    Weight 2 is the row twice, weight 0 is no row. Intervals draw it as one row.
classes : array-like of shape (n_classes,), optional
    Label of each column, where the labels do not name every column; of a single column the
    label of the other class and its own.
pos_label : object, optional
    Label of the class that a single column is of. Labels 0 and 1, -1 and 1, False and True tell
    it by themselves: the larger one.
n_resamples : int
    Resamples of the rows; 0 for no intervals.
confidence_level : float
    Of the intervals.
random_state : None, int, SeedSequence or Generator
    Seeds the draws.
n_jobs : int, optional
    Threads; their number changes no bit. -1 is all cores, -2 all but one. None is what
    ``joblib.parallel_config`` says, else 1.
"""


def _entries(text: str) -> dict[str, str]:
    """Descriptions by name, of a section of parameters without indentation."""
    return {entry.split(" : ")[0]: entry for entry in re.split(r"\n(?=\S)", text.strip("\n"))}


_BY_NAME = _entries(SHARED_PARAMETERS)


def inherit_parameters(function: Function) -> Function:
    """Complete the section "Parameters" of a docstring by those that are described here.

    A description of the function's own comes before the shared one; parameters stand in the order
    of the signature, shared ones with their defaults.
    """
    text = inspect.getdoc(function)
    if text is None:  # python -OO
        return function
    sections: Any = re.fullmatch(
        r"(.*?\n)(?:\nParameters\n-+\n(.*?)\n)?(\nReturns\n.*)", text, re.DOTALL
    )
    head, own, tail = sections.groups()
    described = _entries(own or "")
    entries = []
    for name, parameter in inspect.signature(function).parameters.items():
        entry, default = described.get(name), parameter.default
        if entry is None and name != "self":
            entry = _BY_NAME[name]
            if "optional" not in entry and default is not parameter.empty:
                default = f'"{default}"' if isinstance(default, str) else default
                entry = entry.replace("\n", f", default={default}\n", 1)
        entries += [entry] if entry else []
    section = "\n".join(["", "Parameters", "----------", *entries, ""])
    function.__doc__ = indent(head + section + tail, "    ").strip()
    return function
