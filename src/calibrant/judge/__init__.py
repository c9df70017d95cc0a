"""Calibrate a model that grades answers to human grades of some of them."""

from calibrant.judge._judge import JudgeReport as JudgeReport
from calibrant.judge._judge import LabelPlan as LabelPlan
from calibrant.judge._judge import calibrate_judge, plan_labels
from calibrant.judge._models import GroupComparison as GroupComparison
from calibrant.judge._models import PairReport as PairReport
from calibrant.judge._models import compare_judged, judge_pairs

__all__ = ["calibrate_judge", "compare_judged", "judge_pairs", "plan_labels"]


def __dir__() -> list[str]:
    return __all__
