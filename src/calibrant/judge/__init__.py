"""Calibrate a model that grades answers to human grades of some of them."""

from calibrant.judge._judge import JudgeReport as JudgeReport
from calibrant.judge._judge import calibrate_judge

__all__ = ["calibrate_judge"]


def __dir__() -> list[str]:
    return __all__
