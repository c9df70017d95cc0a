"""Hugging Face's ``evaluate``: where its module of calibration lies."""

from __future__ import annotations

from pathlib import Path


def module_path() -> str:
    """Return the path of the module for ``evaluate.load``.

    Returns
    -------
    path : str
        File of the module, whose metrics are ``confidence_ece``, ``classwise_ece``,
        ``negative_log_likelihood`` and ``brier_score``.

    Examples
    --------
    >>> from calibrant.hooks import module_path
    >>> module_path().endswith("calibration.py")
    True
    """
    return str(Path(__file__).with_name("calibration.py"))
