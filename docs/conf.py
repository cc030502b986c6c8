"""How the site is built: ``python -m sphinx -W docs build/site``. It needs no network, and neither does the result."""

from __future__ import annotations

import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import matplotlib
from sphinx.search.en import SearchEnglish
from sphinx.util.logging import getLogger

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
    matplotlib.rcParams.update({**asot.plots.STYLE, "figure.figsize": (6.0, 4.2), "lines.markersize": 5})


sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"__init__\.py" if find_spec("zarr") else r"__init__\.py|stored",  # Zarr needs Python 3.11
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
    "abort_on_example_error": True,
}


def _links_out_of_the_pages(app: Any, name: str, source: list[str]) -> None:
    """Links to files that are not pages of the site: the report and tables lie beside it, others are named."""
    docs, up = Path(app.srcdir).resolve(), "../" * name.count("/")

    def named(link: re.Match[str]) -> str:
        target = ((docs / name).parent / link[2]).resolve()
        return link[0] if target.is_relative_to(docs) else f"{link[1]} (`{target.relative_to(docs.parent)}`)"

    text = re.sub(r"\[([^\]]+)\]\(results/paper\.md(#\w+)?\)", r'<a href="paper.html">\1</a>', source[0])
    text = re.sub(r"\[([^\]]+)\]\(results/(elsewhere-[\w-]+\.md)\)", r'<a href="\2">\1</a>', text)
    text = re.sub(r"\[([^\]]+)\]\(examples/\)", r"\1", text)
    text = re.sub(r"\]\((?:\.\./)+benchmarks/results/([\w-]+\.md)\)", rf"]({up}tables/\1)", text)
    text = re.sub(r"\]\((?:\.\./)+benchmarks/results/\)", rf"]({up}benchmarks.md)", text)
    text = re.sub(r"\n\n```$", "\n```", text, flags=re.M)  # doctest needs the empty line, readers do not
    source[0] = re.sub(r"\[([^\]]+)\]\((\.\./[^)]+)\)", named, text)


def _first_questions_are_found(app: Any, exception: Exception | None) -> None:
    """Warn if the site's search does not find the pages that the table of first questions promises."""
    if exception is not None or app.builder.name != "html":
        return
    text = (Path(app.outdir) / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text[text.index("(") + 1 : text.rindex(")")])
    stem = SearchEnglish({}).stem
    table = (Path(app.srcdir) / "faq.md").read_text(encoding="utf-8")
    for words, page in re.findall(r"^\|[^|]*\|[^|]*\| `([^`]+)` \| \[[^\]]+\]\(([^)#]+)\.md", table, flags=re.M):
        pages = [_pages_with(index, stem(word.lower())) for word in words.split()]
        found = [index["docnames"][number] for number in set.intersection(*pages)]
        if page not in found or len(found) > MOST_RESULTS:
            shown = ", ".join(found[:5])
            getLogger(__name__).warning("the search for %r finds %d pages: %s", words, len(found), shown)


def _pages_with(index: dict[str, Any], term: str) -> set[int]:
    numbers = [index[kind].get(term, []) for kind in ("terms", "titleterms")]
    return {number for found in numbers for number in (found if isinstance(found, list) else [found])}


MOST_RESULTS = 12
"""An answer among more results than a screen shows takes more than two clicks."""


def setup(app: Any) -> None:
    app.connect("source-read", _links_out_of_the_pages)
    app.connect("build-finished", _first_questions_are_found)
