"""Pages of evidence say which version measured them, and are not older than what they measure."""

import re
from pathlib import Path

import evidence
import pytest

ROOT = Path(__file__).parents[1]
THE_PAPER = (ROOT / "docs" / "explanation" / "the-paper.md").read_text("utf-8")


@pytest.mark.parametrize("step", evidence.STEPS, ids=lambda step: step.name)
def test_a_page_is_as_new_as_what_it_measures_or_says_why_not(step):
    """What is older is listed with a reason; what is listed is older."""
    told = evidence.status()[step.name]
    older = told != "up to date"
    listed = step.name in evidence.NOT_MEASURED
    assert older == listed, f"{step.page}: {told}; make evidence DATA=DIR, or NOT_MEASURED"


def test_every_step_runs_a_script_on_modules_that_exist():
    for step in evidence.STEPS:
        assert (ROOT / step.command[0]).exists(), step
        assert (ROOT / "docs" / step.page).exists(), step
        for module in step.sources:
            assert evidence.module_path(module), (step.name, module)
    assert {*evidence.NOT_MEASURED} <= {step.name for step in evidence.STEPS}
    assert all(len(reason) > 20 for reason in evidence.NOT_MEASURED.values())


def write(path, text):
    path.write_text(text, "utf-8")
    evidence.code_of.cache_clear()


def test_the_digest_sees_code_and_neither_comments_nor_types(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "SOURCE", tmp_path)
    room = tmp_path / "calibrant" / "_solvers"
    room.mkdir(parents=True)
    (room / "__init__.py").touch()
    one, other = room / "one.py", room / "other.py"
    write(one, "from calibrant._solvers.other import g\n\ndef f(x):\n    return g(x)\n")
    write(other, "def g(x):\n    return 2 * x\n")
    digest = evidence.digest_of(("_solvers.one",))
    write(
        one,
        '"""A."""\nfrom calibrant._solvers.other import g\n\n\ndef f(x: int) -> int:\n'
        '    """Double."""\n    return g(x)  # twice\n',
    )
    assert evidence.digest_of(("_solvers.one",)) == digest
    write(other, "def g(x):\n    return 3 * x\n")
    assert evidence.digest_of(("_solvers.one",)) != digest
    kernel = room / "kernel.pyx"
    write(one, "from calibrant._solvers.kernel import g\n")
    write(kernel, "cdef int f(int x):  # a comment\n    return x\n")
    digest = evidence.digest_of(("_solvers.one",))
    write(kernel, "cdef int f(int x):\n    return x\n")
    assert evidence.digest_of(("_solvers.one",)) == digest
    write(kernel, "cdef int f(int x):\n    return -x\n")
    assert evidence.digest_of(("_solvers.one",)) != digest
    evidence.code_of.cache_clear()


def test_a_stamp_takes_the_place_of_an_older_one(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "DOCS", tmp_path)
    step, page = evidence.Step("one", "page.md", (), ()), tmp_path / "page.md"
    page.write_text("# Title\n\nWords.\n", "utf-8")
    evidence.stamp(step, "1.0.0", "abc", "123")
    evidence.stamp(evidence.Step("two", "page.md", (), ()), "1.0.0", "abc", "456")
    evidence.stamp(step, "1.1.0", "def", "789")
    text = page.read_text("utf-8")
    stamps = evidence.stamps_of(text)
    assert {name: found["digest"] for name, found in stamps.items()} == {"one": "789", "two": "456"}
    assert evidence.STAMP.sub("", text) == "# Title\n\nWords.\n"


# The paper, section by section


def test_every_row_of_the_paper_has_one_of_three_states_and_a_reason():
    rows = [line.strip("| ").split(" | ") for line in THE_PAPER.splitlines() if line[:1] == "|"]
    rows = [row for row in rows if row[0] != "in the paper" and not row[0].startswith("---")]
    rows = [row for row in rows if row[-1] in {"works", "differs", "cannot be had"}]
    assert len(rows) >= 90
    for row in rows:
        assert len(row) == 3, row
        assert row[1].strip(), row


def test_errata_name_tests_that_exist():
    named = set(re.findall(r"`(test_\w+)`", THE_PAPER))
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests" / "paper").glob("*.py"))
    assert len(named) > 10
    assert {name for name in named if f"def {name}(" not in tests} == set()
