"""Calibrate a model that grades answers to human grades of some of them."""

from calibrant.judge._groups import GroupComparison as GroupComparison
from calibrant.judge._groups import compare_judged
from calibrant.judge._judge import JudgeReport as JudgeReport
from calibrant.judge._judge import calibrate_judge
from calibrant.judge._pairs import PairReport as PairReport
from calibrant.judge._pairs import judge_pairs
from calibrant.judge._plan import LabelPlan as LabelPlan
from calibrant.judge._plan import plan_labels

__all__ = ["calibrate_judge", "compare_judged", "judge_pairs", "plan_labels"]


def __dir__() -> list[str]:
    return __all__
