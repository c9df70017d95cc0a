"""Check the site that was built: links, names, code that is cut off, searches, and axe-core.

``python tools/check_site.py build/site [AXE.min.js [every]]``. Links need nothing else; the others
need playwright and Chromium, axe-core its file (``npm install axe-core``) as well. Whatever lacks
what it needs is left out, with a word. With ``every`` (``make check-docs EVERY=every``) axe-core
looks at all pages, which takes minutes, else at one of each kind. Ends with 1 where anything was
found.
"""

from __future__ import annotations

import ast
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote, urldefrag, urlsplit

FIRST = {  # what somebody types, and the page that they are looking for
    "binary": "guides/two-classes",
    "ONNX": "guides/into-production",
    "imbalanced": "guides/two-classes",
    "two classes": "guides/two-classes",
    "positive class": "guides/two-classes",
    "temperature scaling": "reference/names/calibrant.TemperatureScaling",
    "reliability diagram": "guides/plots",
    "spark": "guides/a-billion-predictions",
    "mlflow": "guides/into-production",
    "LightGBM": "guides/from-scikit-learn",
    "CalibratedClassifierCV": "guides/from-scikit-learn",
    "how many rows": "start/questions",
    "threshold": "guides/decisions",
    "groups": "guides/decisions",
    "drift": "guides/monitor",
    "csv": "guides/cli",
    "logits": "start/ten-minutes",
    "install": "start/install",
    "random forest": "guides/classifiers",
    "LLM": "guides/language-models",
    "confidence interval": "guides/metrics",
    "Algorithm 2": "explanation/the-paper",
    "split_blocks": "explanation/the-paper",
    "projection pair": "explanation/the-paper",
    "super-additivity": "explanation/the-paper",
    "Figure 1": "explanation/the-paper",
}

LOOKED_AT = (  # wide and narrow, light and dark
    "index",
    "start/methods",
    "start/tutorial",
    "guides/classifiers",
    "guides/from-scikit-learn",
    "start/questions",
    "guides/plots",
    "reference/names/calibrant.NormalizationAwareIsotonic",
    "reference/command",
    "examples/plot_forest",
    "evidence/quality",
    "search",
)
DOCS = Path(__file__).parents[1] / "docs"
WIDTH = 1400  # pixels of a window in which code is seen whole
SIZES = {"wide": (1280, 900), "narrow": (390, 844)}


class Page(HTMLParser):
    """What a page links to, and the anchors it has."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors.update(attributes[key] for key in ("id", "name") if attributes.get(key))
        key = {"a": "href", "link": "href", "img": "src", "script": "src"}.get(tag)
        if attributes.get(key):
            self.links.add(attributes[key])


def broken_links(site):
    """Return every link inside the site whose file or anchor is not there."""
    pages = {
        path.resolve(): Page(path.read_text("utf-8"))
        for path in site.rglob("*.html")
        if "_static" not in path.parts
    }
    found = []
    for path, page in pages.items():
        for link in sorted(page.links):
            address, anchor = urldefrag(link)
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            place = unquote(parts.path)
            target = (path.parent / place).resolve() if place else path
            if target.is_dir():
                target /= "index.html"
            is_there = target in pages or target.exists()
            if not is_there or (
                anchor and target in pages and unquote(anchor) not in pages[target].anchors
            ):
                found.append(f"{path.relative_to(site.resolve())} links to {link}")
    return found


def undocumented(site):
    """Return every public name that the site has no description of."""
    from write_reference import MODULES, public_names

    modules = [*MODULES, *(inner for inside in MODULES.values() for inner in inside)]
    found = []
    for module in modules:
        for name in {*public_names(module)} - {"__version__"}:
            full = f"{module}.{name}"
            page = site / "reference" / "names" / f"{full}.html"
            if full not in modules and f'id="{full}"' not in (
                page.read_text("utf-8") if page.exists() else ""
            ):
                found.append(f"{full} has no description")
    return sorted(found)


def names_in_code(text):
    """Return the full names that the Python on a page imports from the package."""
    found = set()
    for block in re.findall(r"^ *```python\n(.*?)^ *```", text, flags=re.DOTALL | re.MULTILINE):
        lines = block.splitlines()
        if ">>>" in block:
            lines = [line.strip()[4:] for line in lines if line.strip()[:3] in {">>>", "..."}]
        for module, names in re.findall(
            r"^\s*from (calibrant[\w.]*) import (\([^)]*\)|.*)$", "\n".join(lines), re.MULTILINE
        ):
            line = f"from {module} import {names.partition('#')[0].strip()}"
            found |= {f"{module}.{alias.name}" for alias in ast.parse(line).body[0].names}
    return found


def unlinked(site, docs=DOCS):
    """Return every public name that a guide imports without a link, there or back."""
    found, known = [], {path.stem for path in (site / "reference" / "names").glob("*.html")}
    for source in sorted([*docs.glob("guides/*.md"), *docs.glob("start/*.md")]):
        page = site / source.relative_to(docs).with_suffix(".html")
        links = {urldefrag(link)[0] for link in Page(page.read_text("utf-8")).links}
        for full in sorted(names_in_code(source.read_text("utf-8")) & known):
            if f"../reference/names/{full}.html" not in links:
                found.append(f"{page.relative_to(site)} does not link to {full}")
            described = site / "reference" / "names" / f"{full}.html"
            back = f"../../{page.relative_to(site).as_posix()}"
            if back not in {
                urldefrag(link)[0] for link in Page(described.read_text("utf-8")).links
            }:
                found.append(f"{full} does not link back to {page.relative_to(site)}")
    return found


def without_version(site):
    """Return every page that does not say of which version it is."""
    import calibrant

    pages = [path for path in site.rglob("*.html") if "_static" not in path.parts]
    said = f"calibrant {calibrant.__version__}"
    found = [path.relative_to(site) for path in pages if said not in path.read_text("utf-8")]
    return [f"{page} does not say its version" for page in found]


def cut_off(browser, address, site):
    """Return every block of code that is wider than the page, in a window of 1,400 pixels."""
    found, page = [], browser.new_page(viewport={"width": WIDTH, "height": 900})
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site).as_posix()
        if name.startswith("_") or "<pre" not in path.read_text("utf-8"):
            continue
        page.goto(f"{address}/{name}")
        lines = page.eval_on_selector_all(
            ".bd-content pre",
            "all => all.filter(one => one.scrollWidth > one.clientWidth + 1)"
            ".map(one => one.innerText.slice(0, 60))",
        )
        found += [f"{name} cuts off code at {WIDTH} pixels: {line!r}" for line in lines]
    page.close()
    return found


def wrong_searches(browser, address):
    """Return every search whose first result is another page than the one expected."""
    found = []
    page = browser.new_page()
    for words, expected in FIRST.items():
        page.goto(f"{address}/search.html?q={quote(words)}")
        page.wait_for_function("document.querySelector('.search-summary')?.innerText")
        links = "#search-results ul.search li a:first-child"
        hrefs = page.eval_on_selector_all(links, "all => all.map(a => a.getAttribute('href'))")
        pages = [urldefrag(href)[0].removeprefix("./").removesuffix(".html") for href in hrefs]
        if pages[:1] != [expected]:
            found.append(f"a search for {words!r} finds {pages[:3]} first, not {expected}")
    page.close()
    return found


def pages_of(site):
    """Return the names of all pages that axe-core does not look at anyway."""
    names = (path.relative_to(site).as_posix() for path in sorted(site.rglob("*.html")))
    pages = (name.removesuffix(".html") for name in names if not name.startswith("_"))
    return [name for name in pages if name not in LOOKED_AT]


def violations(browser, address, axe, others):
    """Return what axe-core calls serious or critical: of some pages in all looks, others in one."""
    found = set()
    for size, (width, height) in SIZES.items():
        for scheme in ("light", "dark"):
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme=scheme,
                reduced_motion="reduce",  # no colours halfway between two
            )
            page = context.new_page()
            is_usual = (size, scheme) == ("wide", "light")
            for name in (*LOOKED_AT, *others) if is_usual else LOOKED_AT:
                page.goto(f"{address}/{name}.html")
                page.add_script_tag(path=str(axe))
                for rule in page.evaluate("axe.run().then(all => all.violations)"):
                    if rule["impact"] in ("serious", "critical"):
                        where = [" ".join(map(str, one["target"])) for one in rule["nodes"]]
                        also = f" and {len(where) - 3} more" if len(where) > 3 else ""
                        found.add(
                            f"{name}, {size}, {scheme}: {rule['id']} ({rule['impact']}): "
                            f"{'; '.join(where[:3])}{also}"
                        )
            context.close()
    return sorted(found)


def main(site, axe=None, every=None):
    site = Path(site)
    found, silent = broken_links(site), undocumented(site)
    print(f"links: {len(found)} broken; public names: {len(silent)} without a description")
    found += silent
    missing, old = unlinked(site), without_version(site)
    print(f"names in guides: {len(missing)} without a link; pages: {len(old)} without the version")
    found += missing + old
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sync_playwright = None
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = next(filter(None, map(shutil.which, names)), None)
    if sync_playwright is None or chromium is None:
        print("search, code and axe-core: left out, for want of playwright or Chromium")
    else:
        address = site.resolve().as_uri()
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            wrong = wrong_searches(browser, address)
            print(f"search: {len(wrong)} of {len(FIRST)} wrong")
            wide = cut_off(browser, address, site)
            print(f"code: {len(wide)} blocks cut off at {WIDTH} pixels")
            found += wrong + wide
            if axe is None or not Path(axe).exists():
                print("axe-core: left out, for want of its file")
            else:
                serious = violations(browser, address, axe, pages_of(site) if every else ())
                print(f"axe-core: {len(serious)} serious")
                found += serious
            browser.close()
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
