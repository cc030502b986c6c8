"""How the site is built: ``python -m sphinx -W docs build/site``. It needs no network, and neither does the result."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import matplotlib

import asot

sys.path.insert(0, str(Path(__file__).parent))
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
    "parts.front",
    "parts.figures",
    "parts.bars",
    "parts.links",
    "parts.search",
    "parts.questions",
    "parts.uses",
]
myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
nitpicky = False

exclude_patterns = ["results", "examples", "gallery", "parts", "static"]
html_extra_path = ["results"]  # the paper's report is a page of its own
default_role = "code"

html_theme = "pydata_sphinx_theme"
html_title = "asot"
html_static_path = ["static", "figures"]
(Path(__file__).parent / "figures").mkdir(
    exist_ok=True
)  # parts.front fills it
html_css_files = ["site.css"]
html_js_files = ["filter.js"]
html_sidebars = {"index": [], "benchmarks": []}
html_show_sourcelink = False
html_theme_options: dict[str, Any] = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "header_links_before_dropdown": 7,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
copyright = "The asot developers, BSD-3-Clause"


def _house_style(conf: Any, name: str) -> None:
    """Every example of the gallery begins with the style of `asot.plots`."""
    matplotlib.rcdefaults()
    matplotlib.use("Agg")
    matplotlib.rcParams.update(
        {
            **asot.plots.STYLE,
            "figure.figsize": (6.0, 4.2),
            "figure.titlesize": 11,
            "figure.titleweight": "bold",
            "lines.markersize": 5,
        }
    )


sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"__init__\.py"
    if find_spec("zarr")
    else r"__init__\.py|stored",  # Zarr needs Python 3.11
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1,
    "remove_config_comments": True,
    "reset_modules": (_house_style, "seaborn"),
    "backreferences_dir": "auto_gallery/uses",
    "doc_module": ("asot",),
    "thumbnail_size": (500, 350),
    "matplotlib_animations": False,
    "capture_repr": (),  # what examples print is shown, and not what their last line is
    "abort_on_example_error": True,
}
