"""The page in a real browser: offline, by mouse and keyboard, on a phone, in the dark."""

import itertools

import pytest

from browser import PHONE, Visit
from calibrant._text import clean
from report.names import HOSTILE


@pytest.fixture
def visit(browser, hostile_page):
    with Visit(browser, hostile_page) as opened:
        yield opened


def test_the_policy_stops_requests_scripts_and_styles(visit):
    refused = visit.values(
        "() => fetch('https://example.org/').then(() => 'sent', () => 'refused')"
    )
    assert refused == "refused"
    visit.values(
        """() => {
          const image = document.createElement('img');
          image.src = 'https://example.org/pixel.png';
          const script = document.createElement('script');
          script.textContent = 'document.title = "owned"';
          document.body.append(image, script);
        }"""
    )
    visit.page.wait_for_timeout(100)
    assert visit.page.title() != "owned"
    tried = [url for url in visit.requests if "example.org" in url]
    assert sorted(tried) == sorted(url for url, why in visit.failed if why == "csp")
    for what in ("connect", "img-src", "script-src"):
        assert any("Content Security Policy" in t and what in t for t in visit.complaints), what


def test_hostile_names_stay_text_and_nothing_is_asked_for(visit, hostile_page):
    page = visit.page
    assert visit.requests == [hostile_page.as_uri()]
    assert visit.complaints == visit.dialogs == []
    assert page.title() == "<script>alert(6)</script> report"
    assert page.locator("script").count() == 2  # the numbers and the script of the page
    assert page.locator("img, iframe, object, embed, link, form").count() == 0
    names = page.locator("#class-table tbody th bdi").all_inner_texts()
    expected = {" ".join(clean(name).split()) for name in HOSTILE}
    assert {" ".join(name.split()) for name in names} == expected
    assert page.locator("[onerror], [onfocus], [autofocus], [onload]").count() == 0
    assert visit.clipped() == []  # no word of a picture is cut off


def test_every_hostile_class_can_be_chosen(visit):
    page = visit.page
    options = page.locator("#view option")
    assert options.count() == 1 + len(HOSTILE)
    for i in range(options.count()):
        value = options.nth(i).get_attribute("value")
        page.select_option("#view", value)
        shown = page.locator(".figures[data-view]:visible")
        assert shown.count() == 1
        assert shown.get_attribute("data-view") == value
        assert shown.locator("svg").count() == (3 if value == "all" else 2)
    assert visit.dialogs == []
    assert visit.complaints == []


def read_column(page, place):
    return [
        float(value)
        for value in page.locator("#method-table tbody tr").evaluate_all(
            f"rows => rows.map(row => row.cells[{place}].dataset.value)"
        )
    ]


def test_sorting_by_mouse_and_keyboard_is_announced(visit):
    page = visit.page
    head = page.locator("#method-table thead th").nth(2)
    button = head.get_by_role("button")
    button.click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert read_column(page, 2) == sorted(read_column(page, 2))
    button.focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert read_column(page, 2) == sorted(read_column(page, 2), reverse=True)
    other = page.locator("#method-table thead th").nth(3)
    other.get_by_role("button").focus()
    page.keyboard.press("Space")
    assert other.get_attribute("aria-sort") == "ascending"
    assert head.get_attribute("aria-sort") is None
    assert read_column(page, 3) == sorted(read_column(page, 3))


def test_class_table_filters_sorts_and_shows_diagrams(visit):
    page = visit.page
    page.fill("#filter", "QUOTED")
    assert page.locator("#class-table tbody tr").count() == 1
    assert page.locator("#matches").inner_text() == "1 of 1 matching classes"
    page.get_by_role("button", name="Show the diagram of class").click()
    chosen = page.locator("#view").input_value()
    assert chosen == f"c{HOSTILE.index(HOSTILE[3])}"
    assert page.locator(f".figures[data-view={chosen}]:visible").count() == 1
    assert visit.values("() => document.activeElement.id") == "view"
    page.fill("#filter", "no such class")
    assert page.locator("#class-table tbody tr").count() == 0
    page.fill("#filter", "")
    head = page.locator("#class-table thead th").nth(1)
    head.get_by_role("button").click()
    rows = [int(v) for v in page.locator("#class-table tbody td:nth-child(2)").all_inner_texts()]
    assert rows == sorted(rows)
    assert len(rows) == len(HOSTILE)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling(browser, hostile_page, scheme):
    with Visit(browser, hostile_page, PHONE, color_scheme=scheme, has_touch=True) as opened:
        width = opened.values("() => document.documentElement.scrollWidth")
        assert width <= PHONE["width"]
        ground = opened.values("() => getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(21, 23, 27)")
        # Wide tables scroll in their own box, which the keyboard can reach.
        box = opened.page.locator(".scroll").first
        assert box.get_attribute("tabindex") == "0"
        assert box.evaluate("e => e.scrollWidth > e.clientWidth")


def test_a_screen_reader_finds_its_way_and_focus_can_be_seen(visit):
    page = visit.page
    page.keyboard.press("Tab")
    assert visit.values("() => document.activeElement.className") == "skip"
    outline = visit.values("() => getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    levels = [
        int(name[1])
        for name in page.locator("h1:visible, h2:visible, h3:visible").evaluate_all(
            "all => all.map(e => e.tagName)"
        )
    ]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    for landmark in ("header", "nav", "main", "footer"):
        assert page.locator(landmark).count() == 1
    assert page.locator("th:not([scope])").count() == 0
    assert page.locator("svg:not([aria-hidden]):not([role=img])").count() == 0
    unnamed = page.locator("svg[role=img]").evaluate_all(
        "all => all.filter(e => !(e.getAttribute('aria-label') || '').trim()).length"
    )
    assert unnamed == 0
    ids = visit.values("() => [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    dangling = visit.values(
        """() => [...document.querySelectorAll(
          '[aria-labelledby], [aria-controls], label[for], use, a[href^="#"]')]
          .flatMap(e => [e.getAttribute('aria-labelledby'), e.getAttribute('aria-controls'),
            e.getAttribute('for'), (e.getAttribute('href') || '#').slice(1)])
          .filter(id => id && !document.getElementById(id))"""
    )
    assert dangling == []


def test_everything_is_there_without_scripts_and_in_print(browser, hostile_page, visit):
    visit.page.emulate_media(media="print")
    assert visit.page.locator(".controls:visible, nav:visible, #filter:visible").count() == 0
    with Visit(browser, hostile_page, java_script_enabled=False) as opened:
        page = opened.page
        assert page.locator(".figures[data-view=all] svg:visible").count() == 3
        assert page.locator(".controls:visible").count() == 0
        assert page.locator("#class-table tbody tr").count() == len(HOSTILE)


def test_ten_thousand_classes_are_usable(browser, big_page):
    assert big_page.stat().st_size < 5_000_000
    with Visit(browser, big_page, PHONE) as opened:
        page = opened.page
        assert opened.complaints == []
        assert opened.requests == [big_page.as_uri()]
        assert page.locator("#class-table tbody tr").count() == 50
        assert page.locator("#matches").inner_text() == "50 of 10000 classes"
        page.fill("#filter", "number 9999")
        assert page.locator("#class-table tbody th").all_inner_texts() == [
            "<b>class</b> number 9999"
        ]
        page.fill("#filter", "")
        page.locator("#more").click()
        assert page.locator("#class-table tbody tr").count() == 550
        assert page.locator("*").count() < 30_000
        assert opened.values("() => document.documentElement.scrollWidth") <= PHONE["width"]


@pytest.mark.parametrize(("scheme", "blue"), [("light", "0, 114, 178"), ("dark", "108, 192, 240")])
def test_pictures_have_the_colours_of_the_page(browser, hostile_page, scheme, blue):
    with Visit(browser, hostile_page, color_scheme=scheme) as opened:
        strokes, inks, grounds = (
            set(
                opened.page.locator(f"svg[role=img]:visible {what}").evaluate_all(
                    f"all => all.map(e => getComputedStyle(e).{key})"
                )
            )
            for what, key in (("path", "stroke"), ("text", "fill"), ("path", "fill"))
        )
        text = opened.values("() => getComputedStyle(document.body).color")
        soft = opened.values("() => getComputedStyle(document.querySelector('footer p')).color")
        page = opened.values("() => getComputedStyle(document.body).backgroundColor")
    assert f"rgb({blue})" in strokes
    assert inks == {text, soft}
    assert page in grounds  # of hollow points


def test_other_methods_are_folded_away_and_printed_all_the_same(browser, long_page):
    with Visit(browser, long_page) as opened:
        page = opened.page
        assert page.locator("#other-table").is_hidden()
        page.locator("#others summary").click()
        assert page.locator("#other-table").is_visible()
        assert page.locator("#other-table thead button").count() > 5
        assert opened.clipped() == []
    with Visit(browser, long_page, java_script_enabled=False) as opened:
        opened.page.emulate_media(media="print")
        assert opened.page.locator("#other-table").is_visible()
