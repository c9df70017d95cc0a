"""The page in a real browser: offline, by mouse and keyboard, on a phone, in the dark."""

import itertools

import numpy as np
import pytest

from browser import PHONE, Visit
from calibrant import TemperatureScaling
from calibrant._text import printable
from calibrant.report import ModelAnswers, compare_models, write_models
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
    for what in ("connect", "img-src", "script"):
        assert any("Content Security Policy" in t and what in t for t in visit.complaints), what


def test_hostile_names_stay_text_and_nothing_is_asked_for(visit, hostile_page):
    page = visit.page
    assert visit.requests == [hostile_page.as_uri()]
    assert visit.complaints == visit.dialogs == []
    assert page.title() == "<script>alert(6)</script> report"
    assert page.locator("script, img, iframe, object, embed, link, form").count() == 0
    names = page.locator("#classes-table tbody th bdi").all_inner_texts()
    expected = {" ".join(printable(name).split()) for name in HOSTILE}
    assert {" ".join(name.split()) for name in names} == expected
    assert page.locator("[onerror], [onfocus], [autofocus], [onload]").count() == 0
    assert visit.clipped() == []  # no word of a picture is cut off


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
        assert page.locator("#others-table").is_hidden()
        page.locator("#others summary").click()
        assert page.locator("#others-table").is_visible()
        assert opened.clipped() == []
    with Visit(browser, long_page) as opened:
        opened.page.emulate_media(media="print")
        assert opened.page.locator("#others-table").is_visible()
        assert opened.page.locator("nav:visible").count() == 0


@pytest.mark.parametrize("screen", [{"width": 1280, "height": 900}, PHONE], ids=["desk", "phone"])
def test_the_page_of_models_fits_and_asks_for_nothing(browser, tmp_path, screen):
    z = np.random.default_rng(0).normal(0, 2, (60, 3))
    names = ["<b>bold</b>", "a-model-with-a-rather-long-name-of-forty-signs"]
    own = [ModelAnswers(z, z.argmax(1), name, "a task", kind="logits") for name in names]
    path = tmp_path / "models.html"
    write_models(path, compare_models(own, calibrator=TemperatureScaling()))
    with Visit(browser, path, screen) as opened:
        assert opened.requests == [path.as_uri()]
        assert opened.complaints == opened.dialogs == []
        assert opened.clipped() == []
        assert opened.values("() => document.documentElement.scrollWidth") <= screen["width"]
        shown = opened.page.locator("#models-table tbody th bdi").all_inner_texts()
        assert sorted(shown) == sorted(names)
