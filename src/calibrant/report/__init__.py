"""Compare calibrators on a calibration part and a test part, and write one HTML page about it."""

from calibrant.report.comparison import compare
from calibrant.report.page import build_report, write_report
from calibrant.report.paired import Difference
from calibrant.report.results import Comparison, Failure, MethodResult
from calibrant.report.verdict import Verdict, reach_verdict

__all__ = [
    "Comparison",
    "Difference",
    "Failure",
    "MethodResult",
    "Verdict",
    "build_report",
    "compare",
    "reach_verdict",
    "write_report",
]
