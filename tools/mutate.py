"""Mutation testing: change one thing in the package, and see whether a test notices.

    OMP_NUM_THREADS=1 python tools/mutate.py cover           which tests reach which line; minutes
    OMP_NUM_THREADS=1 python tools/mutate.py run [N [SEED]]  N mutants, 500 by default

A mutant has one comparison, operator, constant, call of min or max, or condition changed in a
module of ``_maps``, ``_objectives``, ``_solvers`` or ``metrics``. It is killed if one of the tests
that reach its line fails, or does not end. Run it in a checkout of its
own: sources are changed in place, one at a time, and put back. Results go to
``build/mutants.jsonl``; a run goes on where it was interrupted.
"""

import ast
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "calibrant"
ROOMS = ("_maps", "_objectives", "_solvers", "metrics")
TESTS = ("tests/maps", "tests/objectives", "tests/solvers", "tests/metrics", "tests/calibrators")
COVERAGE, RESULTS = ROOT / "build" / "mutants.coverage", ROOT / "build" / "mutants.jsonl"
MOST_TESTS = 40
"""Tests of a line that are run: the last ones, which are the most particular."""

MOST_SECONDS = 180  # after which a mutant is taken for one without an end

SWAPS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
NAMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}
NAMES |= {"floor": "ceil", "ceil": "floor", "any": "all", "all": "any"}


def python(*words, **options):
    return subprocess.run([sys.executable, *words], cwd=ROOT, check=False, **options)


def cover():
    """Note for each line which tests reach it."""
    COVERAGE.parent.mkdir(exist_ok=True)
    words = [f"--cov=calibrant.{room}" for room in ROOMS]
    words += ["--cov-context=test", "--cov-report=", "-q", "-m", "not slow", "-p", "no:randomly"]
    done = python("-m", "pytest", *words, *TESTS, env=environment())
    print("tests ended with", done.returncode)


def environment():
    import os

    return os.environ | {"COVERAGE_FILE": str(COVERAGE), "HYPOTHESIS_PROFILE": "local"}


def tests_of_lines():
    """Return the tests that reach each line of each file."""
    from coverage import CoverageData

    data, found = CoverageData(str(COVERAGE)), {}
    data.read()
    for path in data.measured_files():
        for line, contexts in data.contexts_by_lineno(path).items():
            names = [name.removesuffix("|run") for name in contexts if name]
            found.setdefault((path, line), []).extend(names)
    return found


class Mutator(ast.NodeTransformer):
    """Counts the places where something can be changed; changes the one with a number."""

    def __init__(self, wanted=-1):
        self.wanted, self.places, self.change = wanted, [], None

    def place(self, node, text):
        self.places.append((node.lineno, text))
        return len(self.places) - 1 == self.wanted

    def visit_Compare(self, node):
        self.generic_visit(node)
        other = SWAPS.get(type(node.ops[0]))
        if other and self.place(node, f"{type(node.ops[0]).__name__} -> {other.__name__}"):
            node.ops[0] = other()
        return node

    def visit_BinOp(self, node):
        self.generic_visit(node)
        other = SWAPS.get(type(node.op))
        is_type = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
        if (
            other
            and not is_type
            and self.place(node, f"{type(node.op).__name__} -> {other.__name__}")
        ):
            node.op = other()
        return node

    def visit_BoolOp(self, node):
        self.generic_visit(node)
        other = SWAPS[type(node.op)]
        if self.place(node, f"{type(node.op).__name__} -> {other.__name__}"):
            node.op = other()
        return node

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        is_sign = isinstance(node.op, ast.USub | ast.Not)
        if is_sign and self.place(node, f"{type(node.op).__name__} left out"):
            return node.operand
        return node

    def visit_Constant(self, node):
        value = node.value
        if isinstance(value, bool):
            if self.place(node, f"{value} -> {not value}"):
                return ast.copy_location(ast.Constant(not value), node)
        elif isinstance(value, int | float):
            other = value + 1 if isinstance(value, int) else value * 2 + 0.1
            if self.place(node, f"{value!r} -> {other!r}"):
                return ast.copy_location(ast.Constant(other), node)
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        name = getattr(node.func, "id", getattr(node.func, "attr", None))
        if name in NAMES and self.place(node, f"{name} -> {NAMES[name]}"):
            field = "id" if isinstance(node.func, ast.Name) else "attr"
            setattr(node.func, field, NAMES[name])
        return node

    def visit_If(self, node):
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return node
        self.generic_visit(node)
        if self.place(node, "condition negated"):
            node.test = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
        return node

    def visit_arguments(self, node):
        return node  # defaults of parameters have tests of their own

    def visit_AnnAssign(self, node):
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_Raise(self, node):
        return node  # texts of errors


def places_of(path):
    mutator = Mutator()
    mutator.visit(ast.parse(path.read_text("utf-8")))
    return mutator.places


def mutants():
    """Return every mutant: file, number of its place, line and change."""
    found = []
    for room in ROOMS:
        for path in sorted((SOURCE / room).rglob("*.py")):
            for number, (line, text) in enumerate(places_of(path)):
                found.append((path, number, line, text))
    return found


def judge(path, number, tests):
    """Run the tests of a line on a mutant; return whether one of them failed."""
    original = path.read_text("utf-8")
    tree = Mutator(number).visit(ast.parse(original))
    words = ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests]
    try:
        path.write_text(ast.unparse(ast.fix_missing_locations(tree)), "utf-8")
        try:
            is_survivor = python(*words, capture_output=True, timeout=MOST_SECONDS).returncode == 0
        except subprocess.TimeoutExpired:
            is_survivor = False
    finally:
        path.write_text(original, "utf-8")
    return "survived" if is_survivor else "killed"


def run(n_mutants=500, seed=0):
    covered, every = tests_of_lines(), mutants()
    chosen = random.Random(int(seed)).sample(every, min(int(n_mutants), len(every)))
    known = set()
    if RESULTS.exists():
        known = {(m["file"], m["number"]) for m in map(json.loads, RESULTS.open())}
    for path, number, line, text in chosen:
        file = str(path.relative_to(ROOT))
        if (file, number) in known:
            continue
        tests = covered.get((str(path), line), [])[-MOST_TESTS:]
        result = judge(path, number, tests) if tests else "not reached"
        entry = {"file": file, "number": number, "line": line, "change": text, "result": result}
        with RESULTS.open("a") as log:
            log.write(json.dumps(entry) + "\n")
    counts = Counter(m["result"] for m in map(json.loads, RESULTS.open()))
    print(f"{len(every)} places; of {sum(counts.values())} mutants: {dict(counts)}")


if __name__ == "__main__":
    {"cover": cover, "run": run}[sys.argv[1]](*sys.argv[2:])
