"""What notebooks show of an estimator: scikit-learn's diagram, and the certificate of the fit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sklearn import get_config
from sklearn.utils import estimator_html_repr

from calibrant._html import escape, folded
from calibrant._solvers.report import SolverReport, certificate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SITE = "https://calibrant.readthedocs.io/page/"
"""Read the Docs sends readers from there to the page in the version that is its default."""


class Diagram:
    """Base of estimators: a diagram that links to our site and has the certificate of the fit."""

    _doc_link_module = "calibrant"
    _doc_link_template = _SITE + "reference/names/{estimator_module}.{estimator_name}.html"

    def _html_repr(self) -> str:
        """Return the diagram and, of what is fitted, the certificate below it.

        Not inside the diagram's own element: that has colours of its own, which are unreadable
        where a page gives its outputs another background.
        """
        try:
            diagram: str = estimator_html_repr(self)
        except Exception:  # noqa: BLE001  (parts may be anything before fit, which says what is wrong)
            return f"<pre>{escape(repr(self))}</pre>"
        fits = list(self._certified())
        if fits:
            reached = [(type(fit).__name__, fit.solver_report_) for fit in fits]
            diagram += folded("Certificate", certificate(reached), is_open=True)
        for fit in fits:
            if hasattr(fit, "report_"):  # of the candidates
                diagram += folded("Report", fit.report_._repr_html_())
        return diagram

    def _certified(self) -> Iterator[Any]:
        """Yield what is fitted by a solver that reports what it reached: itself, or its parts."""
        if isinstance(getattr(self, "solver_report_", None), SolverReport):
            yield self

    def _repr_html_inner(self) -> str:
        return self._html_repr()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        found = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            found["text/html"] = self._html_repr()
        return found


class DiagramOfParts(Diagram):
    """Base of calibrators that hold a list of others, whose boxes and certificates they show."""

    _arrangement = "serial"
    _parts: Any

    def _sk_visual_block_(self) -> SimpleNamespace:
        names, parts = zip(*self._parts, strict=True)
        fitted = getattr(self, "calibrators_", parts)
        return boxes(self._arrangement, list(zip(names, fitted, strict=True)))

    def _certified(self) -> Iterator[Any]:
        parts: list[Any] = []
        for part in getattr(self, "calibrators_", ()):
            parts += part._certified()  # noqa: SLF001  (ours)
        yield from parts
        for fit in super()._certified():
            if fit.solver_report_ not in [part.solver_report_ for part in parts[-1:]]:
                yield fit  # unless it is a chain, which has the report of its last stage


def boxes(kind: str, parts: Sequence[tuple[str, Any]]) -> SimpleNamespace:
    """Return named parts, "serial" or "parallel", as scikit-learn's diagram reads them."""
    return SimpleNamespace(
        kind=kind,
        estimators=[part for _, part in parts],
        names=[f"{name}: {type(part).__name__}" for name, part in parts],
        name_details=[str(part) for _, part in parts],
        dash_wrapped=True,
    )
