"""Structured scaling against probmetrics' SMS; both of our own calibrators at ImageNet's size.

probmetrics (1.3 was measured, with torch 2.13) is imported only here: ``pip install probmetrics``.
"""

import warnings
from importlib.util import find_spec

from calibrant import MonotoneSpline, StructuredScaling, TemperatureScaling
from measure import peak_mebibytes, print_ratios, race, simulate


def structured_matrix_scaling(p, y):
    """Return a fit of probmetrics' SMS, on one thread."""
    import torch
    from probmetrics.calibrators import get_calibrator

    torch.set_num_threads(1)
    return lambda: get_calibrator("sms").fit(p, y)


def against_probmetrics(n_rows, n_classes):
    title = f"fit, {n_rows:,} x {n_classes:,}"
    if find_spec("probmetrics") is None:
        print(f"\n{title}: probmetrics is not installed")
        return
    p, y = simulate(n_rows, n_classes)
    contenders = {
        "probmetrics SMS": structured_matrix_scaling(p, y),
        "StructuredScaling": lambda: StructuredScaling().fit(p, y),
        "StructuredScaling(form='diagonal')": lambda: StructuredScaling(form="diagonal").fit(p, y),
        "MonotoneSpline": lambda: MonotoneSpline().fit(p, y),
        "MonotoneSpline(strength=8)": lambda: MonotoneSpline(strength=8).fit(p, y),
    }
    print_ratios(title, race(contenders, 7), {"StructuredScaling": 1.0})


def at_size(n_rows, n_classes):
    p, y = simulate(n_rows, n_classes)
    contenders = {
        "TemperatureScaling": lambda: TemperatureScaling().fit(p, y),
        "StructuredScaling": lambda: StructuredScaling().fit(p, y),
        "MonotoneSpline": lambda: MonotoneSpline().fit(p, y),
    }
    print_ratios(f"fit, {n_rows:,} x {n_classes:,}", race(contenders, 3))
    structured, spline = StructuredScaling().fit(p, y), MonotoneSpline().fit(p, y)
    contenders = {
        "StructuredScaling": lambda: structured.predict_proba(p),
        "MonotoneSpline": lambda: spline.predict_proba(p),
    }
    print_ratios(f"predict, {n_rows:,} x {n_classes:,}", race(contenders, 3))
    print(f"  peak memory {peak_mebibytes():.0f} MiB")


def main():
    warnings.simplefilter("ignore")
    against_probmetrics(5_000, 100)
    against_probmetrics(10_000, 10)
    at_size(12_500, 1_000)


if __name__ == "__main__":
    main()
