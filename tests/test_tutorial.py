"""The tutorial runs and says what comes out of it; diagrams link to pages that are there."""

import json
import re
import warnings
from pathlib import Path

import matplotlib as mpl
import pytest

NOTEBOOK = Path(__file__).parents[1] / "docs" / "start" / "tutorial.ipynb"
CELLS = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
TEXTS = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "markdown"]


@pytest.fixture(scope="module")
def names():
    """What the cells leave behind, run one after the other in one process."""
    mpl.use("agg")
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i, cell in enumerate(CELLS):
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), f"cell {i}", "exec"), found)
    yield found
    mpl.pyplot.close("all")


def test_it_holds_no_outputs():
    code = [cell for cell in CELLS if cell["cell_type"] == "code"]
    assert len(code) >= 10
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


def test_its_links_lead_somewhere():
    links = re.findall(r"\]\(([^)]+)\)", "\n".join(TEXTS))
    assert len(links) >= 5
    assert [link for link in links if not (NOTEBOOK.parent / link).is_file()] == []


def test_its_numbers_are_what_the_text_says(names):
    before, after, together = names["before"], names["after"], names["together"]
    assert before.accuracy.value == pytest.approx(6 / 7, abs=0.01)  # "six digits in seven"
    assert round(100 * before.confidence_ece.value) == 14
    parts = {"negative_log_likelihood": 1 / 6, "confidence_ece": 1 / 4}
    for metric, part in parts.items():
        old, new = getattr(before, metric), getattr(after, metric)
        assert new.value / old.value == pytest.approx(part, abs=0.04)
        assert new.high < old.low
    assert together.negative_log_likelihood.value < after.negative_log_likelihood.value
    assert names["loaded"].predict_proba(names["raw"]).tolist() == names["calibrated"].tolist()
    value = names["value"]
    assert value.after.value / value.before.value == pytest.approx(0.5, abs=0.05)
    assert value.per_row.low > 0.0
    errors = {r.method: r.error for r in names["comparison"].results}
    assert list(errors) == ["uncalibrated", *names["methods"]]
    assert errors["ts"] > errors["uncalibrated"]
    assert errors["auto"] < 0.5 * errors["uncalibrated"]
    assert list(names["curves"]) == ["naive Bayes", "calibrated"]
