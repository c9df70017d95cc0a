"""The sdist and the wheel have what was committed and is needed, and the wheel compiled kernels.

Run it in the repository with both files: ``python .ci/check_dist.py dist/*.tar.gz dist/*.whl``.
"""

import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

LIMIT = 10_000_000  # bytes
KERNELS = "calibrant/_kernels/"
SOURCES = (".pyx", ".pxd", "meson.build")
BESIDE = {"backend/build_backend.py", "conftest.py", "meson.build", "meson.options"}
BESIDE |= {"pyproject.toml", "CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md"}


def committed(*folders):
    """Names of files in the folders of the repository."""
    command = ["git", "ls-files", *folders]
    return {*subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()}


def equal(found, expected):
    """Fail with the names that only one has."""
    assert found == expected, f"missing {expected - found}, beside them {found - expected}"


def check_sdist(path):
    """All of the package, the tests that need nothing else of the repository, and nine files."""
    with tarfile.open(path) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    tests = {name for name in names if name.startswith("tests/")}
    equal(names - tests, committed("src") | BESIDE | {"PKG-INFO"})
    assert "tests/conftest.py" in tests <= committed("tests"), tests - committed("tests")
    print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB, {len(names)} files")


def check_wheel(path):
    """All of the package but what kernels are compiled from, and these for each processor."""
    with ZipFile(path) as wheel:
        names = {*wheel.namelist()}
    about = {name for name in names if ".dist-info/" in name}
    names -= about
    compiled = {name for name in names if name.endswith((".so", ".pyd"))}
    package = committed("src/calibrant")
    equal(
        names - compiled,
        {name.removeprefix("src/") for name in package if not name.endswith(SOURCES)},
    )
    expected = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    equal({name.partition("/")[2] for name in about}, expected)

    modules = {Path(name).stem for name in package if name.endswith(".pyx")} - {"processor"}
    found = {build: set() for build in ("", "baseline/", "x86_64_v3/")}
    for name in compiled:
        build, _, file = name.removeprefix(KERNELS).rpartition("/")
        found[build and build + "/"].add(file.partition(".")[0])
    equal(found[""], {"memoryviews", "processor"})
    equal(found["baseline/"], modules)
    equal(found["x86_64_v3/"], modules if "x86_64" in path.name else set())

    size = path.stat().st_size
    print(f"{path.name}: {size / 1e6:.2f} MB, {len(compiled)} compiled modules, {len(names)} files")
    assert size <= LIMIT, f"more than {LIMIT / 1e6:.0f} MB"


for argument in map(Path, sys.argv[1:]):
    (check_wheel if argument.suffix == ".whl" else check_sdist)(argument)
