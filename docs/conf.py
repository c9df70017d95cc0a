"""Settings of the site: ``make docs`` builds it, without a network; warnings are errors."""

from __future__ import annotations

import re
from importlib.util import find_spec

from sphinx_gallery.sorting import ExplicitOrder

import calibrant

project = "calibrant"
author = "The calibrant developers"
copyright = "2026, the calibrant developers"  # noqa: A001
release = version = calibrant.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_click",
    "sphinx_gallery.gen_gallery",
    "sphinxext.opengraph",
    "sphinx_llms_txt",
]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_templates", "gallery", "examples/*.ipynb"]
templates_path = ["_templates"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
suppress_warnings = ["myst.header"]
nb_execution_mode = "force"  # notebooks are stored without outputs
nb_execution_raise_on_error = True
nb_execution_show_tb = True

autosummary_generate = True
autosummary_imported_members = True
extras = ("mlflow", "onnx", "onnxruntime", "probmetrics", "pyspark", "skl2onnx", "skops", "torch")
autodoc_mock_imports = [name for name in extras if find_spec(name) is None]
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # numpydoc's sections say it
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

GALLERY = ("forest", "costs", "network", "thousand_classes", "letters", "groups", "drift")
GALLERY += ("auto", "na_fir", "scir")  # models first, then what happens in use, then methods
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "capture_repr": (),  # what is printed, and not what the last line returns
    "min_reported_time": 60,  # seconds
    "show_signature": False,
    "thumbnail_size": (600, 330),
    "image_scrapers": ("matplotlib",),
    "within_subsection_order": ExplicitOrder([f"plot_{name}.py" for name in GALLERY]),
}

smartquotes = False  # options begin with two hyphens

html_theme = "pydata_sphinx_theme"
html_title = "calibrant"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_toc_level": 2,
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
ogp_site_url = "https://calibrant.readthedocs.io/"
ogp_enable_meta_description = True
ogp_social_cards = {"enable": False}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


in_tables = {"title", "summary", "good_for", "stands_alone", "place", "in_paper"}
"""What calibrators say of themselves for the tables of methods, which pages show instead."""


def skip_other_members(_app, _what, name, found, _skip, _options):
    """Leave out what scikit-learn documents, routing and scores among it, and texts of tables."""
    module = getattr(found, "__module__", None) or ""
    return True if module.startswith("sklearn") or name in in_tables else None


def trim_examples(_app, _name, source):
    """Leave out the empty last line of examples, which doctest needs and a reader does not."""
    block = r"^( *)```python\n(.*?)\n+^\1```$"
    source[0] = re.sub(block, r"\1```python\n\2\n\1```", source[0], flags=re.DOTALL | re.MULTILINE)


def link_to_pages(_app, _name, source):
    """Point links to files above this directory at the pages that include them."""
    source[0] = re.sub(
        r"\]\((?:\.\./)+CONTRIBUTING\.md", "](/explanation/contributing.md", source[0]
    )


def setup(app):
    """Connect what changes pages while they are read."""
    app.connect("source-read", trim_examples)
    app.connect("source-read", link_to_pages)
    app.connect("autodoc-skip-member", skip_other_members)
