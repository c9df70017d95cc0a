"""Compare calibrators on a calibration part and a test part, and write one HTML page about it.

What builds the page is loaded when it is first used: comparing needs no template engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant.docstrings import inherit_examples
from calibrant.report.comparison import compare
from calibrant.report.paired import Difference
from calibrant.report.results import Comparison, Failure, MethodResult
from calibrant.report.verdict import Verdict, reach_verdict

if TYPE_CHECKING:
    from calibrant.report.page import build_report, write_report

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

for _result in (Comparison, Difference, Failure, MethodResult):
    inherit_examples(_result, compare)
inherit_examples(Verdict, reach_verdict)


def __getattr__(name: str) -> Any:
    if name in {"build_report", "write_report"}:
        from calibrant.report import page

        return getattr(page, name)
    raise AttributeError(f"module 'calibrant.report' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
