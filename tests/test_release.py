"""What a release says of itself: its version, its day, and the licences of what it needs."""

import importlib.util
import os
import re
import tomllib
from pathlib import Path

import calibrant
from test_architecture import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read(*names):
    return ROOT.joinpath(*names).read_text(encoding="utf-8")


def test_every_file_has_the_same_version_and_day():
    version, day = re.search(r"^## (\S+) \((\S+)\)$", read("CHANGELOG.md"), re.MULTILINE).groups()
    assert version == calibrant.__version__ == PROJECT["version"]
    citation = dict(re.findall(r"^([\w-]+): (.+)$", read("CITATION.cff"), re.MULTILINE))
    assert (citation["version"], citation["date-released"]) == (version, day)


def test_the_oldest_versions_that_are_tried_are_the_oldest_that_are_allowed():
    asked = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["cli"]]
    tried = dict(line.split("==") for line in read(".ci", "oldest.txt").split())
    least = dict(one.split(">=") for one in asked)
    assert tried.keys() == least.keys()
    for name, version in least.items():
        assert re.fullmatch(rf"{re.escape(version)}(\.0)*", tried[name]), name


def test_the_conda_recipe_has_the_version_and_the_requirements():
    recipe = read("conda", "recipe.yaml")
    assert f'version: "{PROJECT["version"]}"' in recipe
    run = re.search(r"^  run:.*\n((?:    - .+\n)+)", recipe, re.MULTILINE).group(1)
    asked = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["cli"]]
    wanted = {one.replace("matplotlib", "matplotlib-base").replace(">=", " >=") for one in asked}
    assert set(re.findall(r"- (.+)", run)) == wanted | {"python"}


def test_licences_are_those_of_all_direct_dependencies():
    """``python tools/write_licences.py`` writes them."""
    spec = importlib.util.spec_from_file_location("writer", ROOT / "tools" / "write_licences.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    _, direct, others = writer.PAGE.read_text(encoding="utf-8").split("\n## ")
    rows = re.findall(r"^\| \[([\w.-]+)\S* \| (.+) \| (.+) \|$", direct, re.MULTILINE)
    wanted = {}
    for extra, found in writer.requirements().items():
        for one in found:
            wanted.setdefault(writer.named(one), []).append(f"`{extra}`" if extra else "all")
    assert {name: extras.split(", ") for name, _, extras in rows} == wanted
    # What is distributed beside a package under the GPL would be under it as well.
    assert not re.search(r"(?<!L)GPL", direct + others)


def test_no_file_names_the_host_of_a_package_index():
    """Which index an installation asks is for whoever installs to say; links go to packages."""
    hosts = re.compile(r"(pypi|pythonhosted|npmjs|anaconda)\.(org|com|io)\b")
    made = {"build", "dist", "examples", "names", "__pycache__", "node_modules"}
    kinds = {".npz", ".npy", ".png", ".parquet", ".calibrant", ".gz", ".so", ".h5", ".eval"}
    looked_at = 0
    for folder, inner, files in os.walk(ROOT):
        hidden = {one for one in inner if one.startswith(".")} - {".github", ".ci"}
        inner[:] = set(inner) - made - hidden
        texts = [Path(folder, name) for name in files if Path(name).suffix not in kinds]
        looked_at += len(texts)
        found = {path: hosts.search(path.read_text("utf-8", errors="replace")) for path in texts}
        assert [(str(path), one[0]) for path, one in found.items() if one] == []
    assert looked_at > 300


def test_tests_of_the_sdist_need_none_that_it_leaves_out():
    found = (ROOT / "meson.build").read_text(encoding="utf-8")
    listed = re.findall(r'"([\w/.]+)"', "".join(re.findall(r"others \+?= \[(.*)\]", found)))
    left_out = [ROOT / "tests" / name for name in listed]
    assert len(left_out) > 5
    assert all(path.exists() for path in left_out)
    names = "|".join(re.escape(Path(name).stem) for name in listed)
    needed = re.compile(rf"^\s*(?:from|import) (?:\w+\.)*(?:{names})\b", re.MULTILINE)
    kept = [
        path
        for path in ROOT.glob("tests/**/*.py")
        if not any(path.is_relative_to(other) for other in left_out)
    ]
    assert [path for path in kept if needed.search(path.read_text(encoding="utf-8"))] == []
