"""Settings of the site: ``make docs`` builds it, without a network; warnings are errors."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

from sphinx_gallery.sorting import ExplicitOrder

import calibrant

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))  # for link_names and gallery_style

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
    "link_names",
]
# autosummary writes pages of the first kind that it takes for reStructuredText
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb", ".ipynb": "myst-nb"}
exclude_patterns = ["_build", "_templates", "gallery", "examples/*.ipynb"]
templates_path = ["_templates"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
suppress_warnings = ["myst.header"]
nb_execution_mode = "force"  # notebooks are stored without outputs
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_timeout = 300  # seconds of a cell, on a machine with other work

# Notebooks run without the settings and start-up files of whoever builds the site; the kernel's
# warning that it listens on this machine without encryption is not one about a page.
profile = Path(mkdtemp()) / "profile_default"
profile.mkdir()
(profile / "ipython_kernel_config.json").write_text('{"IPKernelApp": {"log_level": 40}}')
os.environ["IPYTHONDIR"] = str(profile.parent)
atexit.register(shutil.rmtree, profile.parent, ignore_errors=True)

autosummary_generate = True
autosummary_imported_members = True
extras = ("inspect_ai", "mlflow", "onnx", "onnxruntime", "probmetrics", "pyspark")
extras += ("skl2onnx", "skops", "torch")
autodoc_mock_imports = [name for name in extras if find_spec(name) is None]
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # numpydoc's sections say it
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

GALLERY = (
    "forest",
    "costs",
    "network",
    "thousand_classes",
    "letters",
    "groups",
    "features",
    "drift",
)
GALLERY += ("auto", "na_fir", "scir")  # models first, then what happens in use, then methods
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "capture_repr": (),  # what is printed, and not what the last line returns
    "write_computation_times": False,
    "show_signature": False,
    "thumbnail_size": (600, 330),
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib", "gallery_style.set_style"),
    "within_subsection_order": ExplicitOrder([f"plot_{name}.py" for name in GALLERY]),
}

smartquotes = False  # options begin with two hyphens

html_theme = "pydata_sphinx_theme"
html_title = f"calibrant {version}"  # in the header of every page
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_search_scorer = str(Path(__file__).with_name("search_scorer.js"))
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

# What people type whose page has another title: entries of the index, which a search finds first.
search_words = {
    "start/install": "install, installation, pip, conda",
    "start/ten-minutes": "logits, softmax, neural network, tutorial, getting started, quickstart",
    "start/methods": "methods, isotonic regression, Platt scaling, which method",
    "guides/two-classes": "binary, binary classification, imbalanced, imbalanced data, "
    "class imbalance, positive class, two classes, rare events, pos_label, class_weight, SMOTE",
    "guides/classifiers": "random forest, forest, boosted trees, gradient boosting, SVM, pipeline, "
    "cross-validation",
    "guides/from-scikit-learn": "CalibratedClassifierCV, scikit-learn, sklearn, LightGBM, XGBoost, "
    "CatBoost, early stopping, eval_set, ColumnTransformer, GridSearchCV, TimeSeriesSplit, "
    "GroupKFold, FrozenEstimator, prefit",
    "start/questions": "questions, FAQ, how many rows, sample size, number of rows",
    "guides/language-models": "LLM, language model, GPT, logprobs, multiple choice, confidence",
    "guides/choose-a-model": "compare models, leaderboard, lm-eval, Inspect, MMLU, benchmark",
    "guides/trust-a-judge": "judge, LLM as a judge, grading, PPI, Bradley-Terry, pairwise, arena",
    "guides/cli": "csv, parquet, command line, CLI, files, terminal",
    "guides/a-billion-predictions": "spark, pyspark, dask, ray, big data, out of core, partial_fit",
    "guides/metrics": "ECE, expected calibration error, confidence interval, Brier score, "
    "log loss, calibration error, metrics",
    "guides/plots": "reliability diagram, calibration curve, calibration plot, plot, matplotlib",
    "guides/decisions": "threshold, costs, abstain, prior shift, conformal, groups, fairness",
    "guides/into-production": "ONNX, MLflow, PyTorch, export, deploy, serving, pickle, save, load",
    "guides/monitor": "drift, monitor, monitoring, alarm",
    "guides/report": "report, HTML",
    "guides/threads": "n_jobs, threads, parallel, speed",
    "explanation/the-paper": "paper, Arad and Rosset, Algorithm 1, Algorithm 2, split_blocks, "
    "projection pair, super-additivity, Figure 1, Figure 2, Figure 3, Table 1, Table 2, "
    "Proposition 4.1, errata",
    "reference/names/calibrant.TemperatureScaling": "temperature scaling, temperature",
    "reference/names/calibrant.VectorScaling": "vector scaling",
    "reference/names/calibrant.DirichletCalibration": "Dirichlet calibration",
    "reference/names/calibrant.OneVsRestBeta": "beta calibration",
}


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
    """Point links to files above at the pages that include them."""
    source[0] = re.sub(
        r"\]\((?:\.\./)+CONTRIBUTING\.md", "](/explanation/contributing.md", source[0]
    )


def add_search_words(app, name, source):
    """Put the words that a page is to be found by into the index."""
    if name in search_words:
        words = ", ".join(f"! {word}" for word in search_words[name].split(", "))
        is_markdown = app.env.doc2path(name).suffix == ".md"
        entry = f"```{{index}} {words}\n```\n\n" if is_markdown else f".. index:: {words}\n\n"
        source[0] = entry + source[0]


def name_what_has_no_name(_app, _name, _template, context, _doctree):
    """Give screen readers the roles and names that docutils and the theme leave out."""
    body = context.get("body", "")
    context["body"] = body.replace('role="doc-biblioentry"', 'role="listitem"')
    toctree = context["generate_toctree_html"]

    def with_names(*given, **options):
        soup = toctree(*given, **options)
        for summary in soup.select("summary") if hasattr(soup, "select") else ():
            summary["aria-label"] = f"Pages of {summary.find_previous('a').get_text()}"
        return soup

    context["generate_toctree_html"] = with_names


def setup(app):
    """Connect what changes pages while they are read."""
    app.connect("source-read", trim_examples)
    app.connect("source-read", link_to_pages)
    app.connect("source-read", add_search_words)
    app.connect("html-page-context", name_what_has_no_name, priority=900)
    app.connect("autodoc-skip-member", skip_other_members)
