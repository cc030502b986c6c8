"""How the site is built: ``python -m sphinx -W docs build/site``. It needs no network, and neither does the result."""

from __future__ import annotations

import re
from typing import Any

import matplotlib

import asot

matplotlib.use("Agg")

project = "asot"
author = "The asot developers"
release = version = asot.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
nitpicky = False

exclude_patterns = ["results", "examples", "gallery"]
html_extra_path = ["results"]  # the paper's report is a page of its own
default_role = "code"

html_theme = "pydata_sphinx_theme"
html_title = "asot"
html_static_path: list[str] = []
html_show_sourcelink = False
html_theme_options: dict[str, Any] = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
copyright = "The asot developers, BSD-3-Clause"

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1,
    "remove_config_comments": True,
    "matplotlib_animations": False,
    "abort_on_example_error": True,
}


def _links_out_of_the_pages(app: Any, name: str, source: list[str]) -> None:
    """Links to files that are no pages of the site: the report is a page beside it, others are named."""
    text = re.sub(r"\[([^\]]+)\]\(results/paper\.md(#\w+)?\)", r'<a href="paper.html">\1</a>', source[0])
    text = re.sub(r"\[([^\]]+)\]\(examples/\)", r"\1", text)
    source[0] = re.sub(r"\[([^\]]+)\]\(\.\./([^)]+)\)", r"\1 (`\2`)", text)


def setup(app: Any) -> None:
    app.connect("source-read", _links_out_of_the_pages)
