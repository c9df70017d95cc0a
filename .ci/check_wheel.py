"""The wheel has the package as it was committed, and the compiled kernels: nothing else."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

LIMIT = 10_000_000  # bytes
KERNELS = "calibrant/_kernels/"
SOURCES = (".pyx", ".pxd", "meson.build")

wheel = Path(sys.argv[1])
names = [name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name]
compiled = {name for name in names if name.endswith((".so", ".pyd"))}
others = set(names) - compiled

listed = subprocess.run(
    ["git", "ls-files", "src/calibrant"], capture_output=True, text=True, check=True
).stdout.split()
expected = {name.removeprefix("src/") for name in listed if not name.endswith(SOURCES)}
assert others == expected, f"missing {expected - others}, beside them {others - expected}"

modules = {path.stem for path in Path("src", KERNELS).glob("*.pyx")} - {"processor"}
found = {build: set() for build in ("", "baseline/", "x86_64_v3/")}
for name in compiled:
    build, _, file = name.removeprefix(KERNELS).rpartition("/")
    found[build and build + "/"].add(file.partition(".")[0])
assert found[""] == {"memoryviews", "processor"}, found
assert found["baseline/"] == modules, found
assert found["x86_64_v3/"] == (modules if "x86_64" in wheel.name else set()), found

size = wheel.stat().st_size
print(f"{wheel.name}: {size / 1e6:.2f} MB, {len(compiled)} compiled modules, {len(others)} files")
assert size <= LIMIT, f"more than {LIMIT / 1e6:.0f} MB"
