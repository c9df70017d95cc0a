"""Write the licences of all dependencies: ``python tools/write_licences.py``.

pip says what it would install for calibrant and all of its extras, with the metadata of each
package; nothing is installed. ``python tools/write_licences.py REPORT`` reads what
``pip install --dry-run --report REPORT`` wrote.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "licences.md"
TITLES = {  # of licences, as older metadata write them
    "3-clause bsd license": "BSD-3-Clause",
    "apache 2.0": "Apache-2.0",
    "apache license v2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd": "BSD",
    "bsd license": "BSD",
    "dual license": "Apache-2.0 OR BSD-3-Clause",  # python-dateutil
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "nvidia proprietary software": "LicenseRef-NVIDIA-Proprietary",
    "python software foundation license": "PSF-2.0",
}
READ = {  # in the licence files of packages whose metadata do not tell
    "agent-client-protocol": "Apache-2.0",
    "cuda-toolkit": "LicenseRef-NVIDIA-Proprietary",  # no file, but a list of NVIDIA's packages
    "huey": "MIT",
    "skops": "MIT",
    "tiktoken": "MIT",
    "tqdm": "MPL-2.0 AND MIT",
    "word2number": "MIT",
}
HEAD = """# Licences

calibrant is under the [BSD 3-Clause licence](https://spdx.org/licenses/BSD-3-Clause.html). Its
wheel has nobody else's code in it, but for what Cython writes into compiled modules, which Cython's
licence does not cover. What calibrant needs is installed beside it, under licences of its own.

`python tools/write_licences.py` writes this page from the metadata of the newest versions, as pip
chooses them on Linux for Python {python}; `make sbom` lists exact versions. "BSD" is what packages
say that do not tell which. Files in a package may have licences of their own: wheels of numpy and
scipy bring a Fortran library under the GPL with the exception of GCC, which asks nothing of users.

{verdict}

## Direct dependencies

| package | licence | for |
|---|---|---|
{direct}

## What these bring along

| package | licence | through |
|---|---|---|
{others}
"""


def requirements() -> dict[str, list[Requirement]]:
    """Return what calibrant needs (``""``) and what each of its extras adds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = {"": project["dependencies"], **project["optional-dependencies"]}
    return {extra: [Requirement(text) for text in texts] for extra, texts in found.items()}


def resolved() -> dict:
    """Return pip's report on installing everything."""
    wanted = sorted({str(one) for found in requirements().values() for one in found})
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
    done = subprocess.run([*pip, "--report", "-", *wanted], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def licence(about: dict) -> str:
    """Return the licence of a package as SPDX writes it, as far as its metadata tell."""
    title = about.get("license_expression") or READ.get(canonicalize_name(about["name"]))
    if title:
        return title
    classifiers = [text for text in about.get("classifier", ()) if text.startswith("License ::")]
    titles = [about.get("license") or "", *(text.rpartition(" :: ")[2] for text in classifiers)]
    for title in titles:
        if title.lower() in TITLES:
            return TITLES[title.lower()]
        if re.fullmatch(r"[\w.-]+", title):  # an identifier of SPDX in the older field
            return title
    raise LookupError(f"{about['name']} does not tell its licence: read it, and add it to READ")


def closure(wanted: list[Requirement], packages: dict, environment: dict) -> set[str]:
    """Return the names of all packages that these requirements bring."""
    seen, left = set(), list(wanted)
    while left:
        one = left.pop()
        name, extras = canonicalize_name(one.name), ("", *sorted(one.extras))
        if name not in packages or {(name, extra) for extra in extras} <= seen:
            continue
        seen |= {(name, extra) for extra in extras}
        for text in packages[name].get("requires_dist", ()):
            inner = Requirement(text)
            marker = inner.marker
            if not marker or any(marker.evaluate({**environment, "extra": e}) for e in extras):
                left.append(inner)
    return {name for name, _ in seen}


def link(about: dict) -> str:
    """Return the name of a package with a link to its own page, if its metadata name one."""
    named = (text.partition(", ") for text in about.get("project_url", ()))
    pages = {title.strip().lower().replace(" ", ""): url.strip() for title, _, url in named}
    kinds = ("homepage", "home", "documentation", "docs", "source", "sourcecode", "repository")
    kinds += ("code", "github", "bugtracker")
    own = (about.get("home_page") or "", *(pages.get(kind, "") for kind in kinds))
    index = re.compile("pypi|pythonhosted")  # an index has no page of the package's own
    url = next((url for url in own if url.startswith("http") and not index.search(url)), None)
    name = canonicalize_name(about["name"])
    return f"[{name}]({url})" if url else name


def verdict(licences: dict[str, str]) -> str:
    """Say which licences ask for more than to be named."""
    kinds = {
        "weak copyleft, which changed files of theirs would be under": r"\b(MPL|LGPL|EPL)",
        "copyleft, which what is distributed with them would be under": r"\bA?GPL",
        "not free: their terms are NVIDIA's": r"Proprietary",
    }
    found = {
        kind: sorted(name for name, text in licences.items() if re.search(pattern, text))
        for kind, pattern in kinds.items()
    }
    told = [f"- {kind}: {', '.join(names)}" for kind, names in found.items() if names]
    free = len(licences) - sum(map(len, found.values()))
    lead = f"Of {len(licences)} packages {free} are under permissive licences. The others:"
    return "\n".join([lead, "", *told])


def page(report: dict) -> str:
    """Return the page."""
    packages = {canonicalize_name(one["metadata"]["name"]): one for one in report["install"]}
    packages = {name: one["metadata"] for name, one in packages.items()}
    licences = {name: licence(about) for name, about in packages.items()}
    wanted = requirements()
    brought = {
        extra: closure(found, packages, report["environment"]) for extra, found in wanted.items()
    }
    direct = {canonicalize_name(one.name) for found in wanted.values() for one in found}

    def row(name: str, extras: list[str]) -> str:
        titles = ", ".join(f"`{extra}`" if extra else "all" for extra in extras)
        return f"| {link(packages[name])} | {licences[name]} | {titles} |"

    first, second = [], []
    for name in sorted(packages):
        if name in direct:
            asked = [e for e, found in wanted.items() if name in map(named, found)]
            first.append(row(name, asked))
        else:
            asked = [e for e, names in brought.items() if name in names]
            second.append(row(name, [""] if "" in asked else asked))
    return HEAD.format(
        python=report["environment"]["python_version"],
        verdict=verdict(licences),
        direct="\n".join(first),
        others="\n".join(second),
    )


def named(requirement: Requirement) -> str:
    """Return the name that a requirement is known by."""
    return canonicalize_name(requirement.name)


if __name__ == "__main__":
    found = json.loads(Path(sys.argv[1]).read_text("utf-8")) if sys.argv[1:] else resolved()
    PAGE.write_text(page(found), "utf-8")
