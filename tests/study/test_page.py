"""The page of a study in a real browser: from disk, on a phone, in the dark, with hostile names."""

import pytest

from calibrant.study.page import count_failures, find_best
from study.small_tables import EVIL_DATASET, EVIL_METHOD, EVIL_MODEL, hostile_outputs, table_of

VISITS = {
    "desktop": ({"width": 1280, "height": 900}, "light"),
    "phone": ({"width": 390, "height": 844}, "light"),
    "dark phone": ({"width": 390, "height": 844}, "dark"),
}
FACTS = """() => ({
  width: document.documentElement.scrollWidth,
  ground: getComputedStyle(document.body).backgroundColor,
  images: [...document.images].map(i => ({ok: i.complete && i.naturalWidth > 0, alt: i.alt})),
  scripts: document.querySelectorAll('script, iframe, object, embed, link, form').length,
  handlers: document.querySelectorAll('[onerror], [onload], [autofocus]').length,
  heads: [...document.querySelectorAll('h1, h2, h3')].map(e => +e.tagName[1]),
  unscoped: document.querySelectorAll('th:not([scope])').length,
  labels: [...document.querySelectorAll('[role=region]')].map(e =>
    e.getAttribute('aria-label') && e.tabIndex === 0),
  dangling: [...document.querySelectorAll('a[href^="#"]')].filter(a =>
    !document.getElementById(a.getAttribute('href').slice(1))).length,
  ids: [...document.querySelectorAll('[id]')].map(e => e.id),
  wide: [...document.querySelectorAll('.scroll')].some(e => e.scrollWidth > e.clientWidth),
  text: document.body.textContent,
  tables: document.querySelectorAll('table').length,
})"""


@pytest.fixture(scope="module")
def seen(browser):
    """The page opened in every way, and what is seen."""
    path = hostile_outputs()[1] / "index.html"
    seen = {}
    for name, (viewport, scheme) in VISITS.items():
        context = browser.new_context(viewport=viewport, color_scheme=scheme)
        page = context.new_page()
        requests, complaints = [], []
        page.on("request", lambda r, into=requests: into.append(r.url))
        page.on("console", lambda m, into=complaints: into.append(m.text))
        page.on("pageerror", lambda e, into=complaints: into.append(str(e)))
        page.on("dialog", lambda d, into=complaints: (into.append(d.message), d.dismiss()))
        page.goto(path.as_uri())
        facts = page.evaluate(FACTS) | {"requests": [*requests]}
        refused = page.evaluate(
            "() => fetch('https://example.org/').then(() => 'sent', () => 'refused')"
        )
        seen[name] = facts | {"refused": refused}
        # The refusal itself is a complaint, and the only one.
        seen[name]["complaints"] = [c for c in complaints if "example.org" not in c]
        context.close()
    return seen


@pytest.fixture(params=VISITS)
def visit(request, seen):
    return seen[request.param]


def test_opens_from_disk_and_asks_for_nothing(visit):
    asked = [url for url in visit["requests"] if not url.startswith("data:image/svg+xml;base64,")]
    assert [url.partition(":")[0] for url in asked] == ["file"]
    assert visit["complaints"] == []
    assert visit["refused"] == "refused"


def test_every_figure_is_shown_and_described(visit):
    assert len(visit["images"]) > 40
    assert all(image["ok"] for image in visit["images"])
    assert all(len(image["alt"]) > 20 for image in visit["images"])


def test_a_phone_scrolls_inside_boxes_only(visit, seen):
    limit = 1280 if visit is seen["desktop"] else 390
    assert visit["width"] <= limit
    assert visit["wide"]
    assert all(visit["labels"])


def test_dark_and_light(seen):
    assert seen["phone"]["ground"] == "rgb(255, 255, 255)"
    assert seen["dark phone"]["ground"] == "rgb(21, 23, 27)"


def test_hostile_names_stay_text(visit):
    assert visit["scripts"] == 0
    assert visit["handlers"] == 0
    for name in (EVIL_METHOD, EVIL_DATASET, EVIL_MODEL):
        assert name in visit["text"]


def test_a_screen_reader_finds_its_way(visit):
    assert visit["heads"][0] == 1
    assert visit["heads"].count(1) == 1
    assert visit["unscoped"] == 0
    assert visit["dangling"] == 0
    assert len(visit["ids"]) == len(set(visit["ids"]))


def test_every_table_is_on_the_page(visit):
    _, directory, _ = hostile_outputs()
    assert visit["tables"] == 1 + len(list(directory.glob("tables/*.md")))


def test_the_page_is_one_file_with_nothing_to_load():
    _, directory, _ = hostile_outputs()
    page = (directory / "index.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "<script" not in page
    assert "default-src &#39;none&#39;" in page
    assert 'style="' not in page


def test_the_best_are_named_with_those_within_chance():
    values = [[3.0, 1.0, 2.0, 9.0]] * 40
    found = find_best(table_of(values, ("uncalibrated", "na-fir", "ts", "spline")))
    assert found == [
        {
            "metric": "NLL",
            "paper": "NA-FIR (1.00)",
            "paper_near": "",
            "all": "NA-FIR (1.00)",
            "all_near": "",
        }
    ]
    few = find_best(table_of(values[:2], ("uncalibrated", "na-fir", "ts", "spline")))
    assert few[0]["paper_near"] == "TS (2.00), Uncalibrated (3.00)"


def test_failures_are_counted():
    table = table_of([[1.0, float("nan")], [1.0, 2.0]], ("ts", "ms"), datasets=["a", "b"])
    assert count_failures(table) == [{"method": "ms", "n": "1", "cases": "a / m0"}]
