"""Links, files, modules and functions that the pages name exist, and calls run as described."""

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
import tomllib

import dask.array
import numpy as np
import pytest

from calibrant import FlattenedIsotonic, NormalizationAwareIsotonic
from calibrant.datasets import simulated_scores
from test_architecture import LAYERS, ROOT, SOURCE

PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/**/*.md")]
TEXTS = {path: path.read_text(encoding="utf-8") for path in PAGES}
ARCHITECTURE = TEXTS[ROOT / "docs" / "explanation" / "architecture.md"]
GUIDE = TEXTS[ROOT / "CONTRIBUTING.md"]
BUILD = TEXTS[ROOT / "docs" / "explanation" / "development.md"]
MODULES = set().union(*LAYERS)
OUTER = r"(src|tests|docs|paper|benchmarks|tools)/[\w./-]*"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def prose(text):
    """The text without its blocks of code."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def spans(text):
    """What stands in backticks."""
    return re.findall(r"`([^`\n]+)`", prose(text))


def find(name):
    """The object of a dotted name, with or without the package."""
    parts = name.removeprefix("calibrant.").split(".")
    found = importlib.import_module("calibrant")
    for place, part in enumerate(parts):
        module = ".".join(["calibrant", *parts[: place + 1]])
        try:
            inside = hasattr(found, part)
            found = getattr(found, part) if inside else importlib.import_module(module)
        except ImportError:  # of an extra that is not installed: the name or the file has to do
            is_file = SOURCE.joinpath(*parts[: place + 1]).with_suffix(".py").exists()
            home = SOURCE.joinpath(*parts[:place]).with_suffix(".py")  # half loaded by now, perhaps
            text = home.read_text("utf-8") if home.exists() else ""
            inside = re.search(rf"^(def|class) {part}\b", text, flags=re.MULTILINE)
            assert is_file or inside or part in found.__all__, name
            return None
    return found


def anchors(text):
    """Anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(text), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere():
    for page, text in TEXTS.items():
        for link in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
            if "://" in link:
                continue
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists(), f"{page}: {link}"
            known = anchors(target.read_text(encoding="utf-8")) if anchor else {""}
            assert anchor in known, f"{page}: {link}"


@pytest.mark.filterwarnings("ignore:.*Any type hint is inferred")  # mlflow, where it is installed
def test_what_is_named_exists():
    """Modules, classes and functions by their dotted names; files by their paths."""
    beginnings = "|".join(MODULES | {"calibrant"})
    named = {(page, span) for page, text in TEXTS.items() for span in spans(text)}

    def match(pattern):
        return [(page, span) for page, span in named if re.fullmatch(pattern, span)]

    paths = [(page, ROOT / span) for page, span in match(OUTER)]
    paths += [(page, SOURCE / span) for page, span in match(rf"({beginnings})/[\w./]*")]
    assert [(page, path) for page, path in paths if not path.exists()] == []
    for _, span in match(rf"({beginnings})(\.(?!py$|csv$|log$|parquet$)\w+)+"):
        find(span)


def test_scripts_import_what_exists():
    """Those that no test runs: they write pages and measure."""
    scripts = [
        *ROOT.glob("tools/*.py"),
        *ROOT.glob("benchmarks/*.py"),
        *ROOT.glob("tests/*/make.py"),
    ]
    nodes = [node for path in scripts for node in ast.walk(ast.parse(path.read_text("utf-8")))]
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    names = [f"{node.module}.{alias.name}" for node in imports for alias in node.names]
    ours = [name for name in names if name.startswith("calibrant.")]
    assert len(ours) > 30
    for name in ours:
        find(name)


def test_what_builds_the_package_is_one():
    """Editable installs are built by the group, all others by the build system, and ninja."""
    assert PROJECT["build-system"]["requires"] == PROJECT["dependency-groups"]["build"][:-1]


def test_the_picture_shows_the_layers():
    layers = re.split(r"├─+┤", ARCHITECTURE)
    lines = [re.findall(r"│ (.+?) *│$", layer, flags=re.MULTILINE) for layer in layers]
    assert [set(" · ".join(some).split(" · ")) for some in lines] == LAYERS[::-1]


def test_the_guide_names_every_module():
    named = set(spans(GUIDE)) | set(spans(BUILD))
    for path in SOURCE.iterdir():
        if path.name == "__pycache__" or not (path.is_dir() or path.suffix == ".py"):
            continue
        name = path.relative_to(SOURCE).as_posix() + ("/" if path.is_dir() else "")
        assert name in named, name


def test_the_method_of_the_guide_works():
    """In a process of its own: a class with a name is a method from then on."""
    command = [sys.executable, "-m", "doctest", "-o", "NORMALIZE_WHITESPACE", "CONTRIBUTING.md"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class _Arrived(BaseException):
    """The last step was reached; nothing more is to be run."""


def steps(call):
    """The first name of each step of a call."""
    section = ARCHITECTURE.partition(f"## How {call}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\d\. `([\w.]+)`", section, flags=re.MULTILINE)


def code_of(name):
    """What runs when a function, a command or a class is called; None for what is compiled."""
    found = find(name)
    if type(found).__name__ == "cython_function_or_method":
        return None
    found = getattr(found, "callback", found)
    found = found.__post_init__ if isinstance(found, type) else found
    return inspect.unwrap(found).__code__


def follow(name_of_call, call):
    """Call, and return the steps that were not reached one after the other."""
    names = steps(name_of_call)
    left = [(code, name) for name in names if (code := code_of(name)) is not None]

    def watch(frame, event, _):
        if event == "call" and frame.f_code is left[0][0]:
            del left[0]
            if not left:
                raise _Arrived

    assert 5 <= len(names) <= 8
    sys.setprofile(watch)
    try:
        call()
    except _Arrived:
        pass
    finally:
        sys.setprofile(None)
    return [name for _, name in left]


def test_fit_and_predict_proba_run_as_the_page_says():
    scores, y = simulated_scores(200)
    calibrator = FlattenedIsotonic().fit(scores, y)
    assert follow("`fit` runs", lambda: NormalizationAwareIsotonic().fit(scores, y)) == []
    assert follow("`predict_proba` runs", lambda: calibrator.predict_proba(scores)) == []


def test_the_way_of_fit_on_dask_is_that_in_memory_but_for_two_steps():
    scores, y = simulated_scores(2000)
    lazy = [dask.array.from_array(one, chunks=(500, *one.shape[1:])) for one in (scores, y)]
    with dask.config.set(scheduler="synchronous"):
        assert follow("`fit` on Dask runs", lambda: NormalizationAwareIsotonic().fit(*lazy)) == []
    in_memory, on_dask = steps("`fit` runs"), steps("`fit` on Dask runs")
    assert len(set(on_dask) - set(in_memory)) == 2


def test_a_file_is_read_as_the_page_says(tmp_path):
    """In at most six modules, that of the command among them."""
    from calibrant._cli.main import run

    (tmp_path / "p.csv").write_text("a,b,label\n0.25,0.75,b\n0.5,0.5,a\n")
    words = ["evaluate", str(tmp_path / "p.csv"), "--resamples", "0"]
    assert follow("a file is read", lambda: run(words)) == []
    assert len({name.rpartition(".")[0] for name in steps("a file is read")}) <= 6


def test_compare_and_study_run_as_the_page_says(tmp_path, monkeypatch):
    from calibrant._cli.main import run

    scores, y = simulated_scores(200)
    both = {f"{part}_probs": scores for part in ("val", "test")}
    both |= {f"{part}_labels": y for part in ("val", "test")}
    path = tmp_path / "small_simulated.npz"
    np.savez(path, **both)
    options = ["--methods", "ts", "--report", os.fspath(tmp_path / "page.html")]
    assert follow("`compare` runs", lambda: run(["compare", str(path), *options])) == []
    words = [os.fspath(tmp_path), "-o", os.fspath(tmp_path / "out"), "--methods", "ts"]
    monkeypatch.setattr("calibrant.study._run.count_threads", lambda _: 0)  # in this process
    assert follow("`study` runs", lambda: run(["study", *words])) == []
