"""A real browser, for every page that is written."""

import os
import shutil

import pytest

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


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
