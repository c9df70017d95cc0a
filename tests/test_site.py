"""What ``tools/check_site.py`` finds on a site."""

import pytest
from check_site import names_in_code, unlinked, without_version

from calibrant import __version__

GUIDE = """# Guide

```python
>>> import numpy as np
>>> from calibrant import PriorShift, metrics
>>> from calibrant.metrics import (
...     evaluate,
... )
>>> found = evaluate

```

```python
from calibrant.plots import draw_map  # not run
```

from calibrant import Chain
"""
USED = ["calibrant.PriorShift", "calibrant.metrics.evaluate", "calibrant.plots.draw_map"]


@pytest.fixture
def site(tmp_path):
    """Return a site of one guide, and its source; neither links to the other."""
    for folder in ("docs/guides", "docs/start", "site/guides", "site/reference/names"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "docs" / "guides" / "some.md").write_text(GUIDE)
    (tmp_path / "site" / "guides" / "some.html").write_text("<p>PriorShift</p>")
    for full in (*USED, "calibrant.Chain"):
        (tmp_path / "site" / "reference" / "names" / f"{full}.html").write_text("<p>Described</p>")
    return tmp_path / "site", tmp_path / "docs"


def test_a_name_without_a_link_is_found_in_both_directions(site):
    pages, sources = site
    assert names_in_code(GUIDE) == {*USED, "calibrant.metrics"}
    assert len(unlinked(pages, sources)) == 2 * len(USED)
    links = [f'<a href="../reference/names/{full}.html#{full}">x</a>' for full in USED]
    (pages / "guides" / "some.html").write_text("".join(links))
    found = unlinked(pages, sources)
    assert found == [f"{full} does not link back to guides/some.html" for full in USED]
    for full in USED:
        page = pages / "reference" / "names" / f"{full}.html"
        page.write_text('<a href="../../guides/some.html">x</a>')
    assert unlinked(pages, sources) == []


def test_a_page_without_the_version_is_found(site):
    pages, _ = site
    for page in pages.glob("*/names/*.html"):
        page.write_text(f"<title>calibrant {__version__}</title>")
    assert without_version(pages) == ["guides/some.html does not say its version"]
