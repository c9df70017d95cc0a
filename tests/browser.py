"""A real browser, for every page that is written."""

import os
import shutil

import pytest

ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}


def find_browser():
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        if found := shutil.which(name):
            return found
    return None


@pytest.fixture(scope="session")
def browser():
    """Chromium without a window. Where there is none, that is a failure in CI and a skip here."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sync_playwright = None
    path = find_browser()
    if sync_playwright is None or path is None:
        missing = "playwright" if sync_playwright is None else "chromium"
        if os.environ.get("CI"):
            pytest.fail(f"{missing} is not installed")
        pytest.skip(f"{missing} is not installed")
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield started
        started.close()


class Visit:
    """A page that was opened, with everything it asked for and complained about."""

    def __init__(self, browser, path, viewport=None, **options):
        self.context = browser.new_context(viewport=viewport or DESKTOP, **options)
        self.page = self.context.new_page()
        self.requests, self.complaints, self.dialogs = [], [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.failed = []
        self.page.on("requestfailed", lambda r: self.failed.append((r.url, r.failure)))
        self.page.on("dialog", self._dismiss)
        self.page.goto(path.as_uri())

    def _dismiss(self, dialog):
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()

    def values(self, script):
        return self.page.evaluate(script)

    def clipped(self):
        """Words of pictures that stick out of them; all panels are looked at, as in print."""
        self.page.emulate_media(media="print")
        return self.values(
            """() => [...document.querySelectorAll('svg[role=img] text')].filter(word => {
              const own = word.getBoundingClientRect();
              const all = word.ownerSVGElement.getBoundingClientRect();
              return own.width > 0 && (own.left < all.left - 0.5 || own.right > all.right + 0.5
                || own.top < all.top - 0.5 || own.bottom > all.bottom + 0.5);
            }).map(word => word.textContent)"""
        )
