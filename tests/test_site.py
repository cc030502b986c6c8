"""The face of the project: what it shows is measured, what it promises is there, and nothing in it is too old."""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import asot
from asot.learn.pictures import COLORS

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))
pytest.importorskip("sphinx")

from parts import bars, charts, questions, readme, tables, uses  # noqa: E402


def test_every_chart_has_bars_of_measured_numbers():
    for chart in charts.CHARTS:
        if charts.is_there(chart):
            found = list(charts.groups(chart))
            assert found, chart.title
            assert all(bar.value > 0 for group in found for bar in group.bars), chart.title


def test_every_area_and_every_field_has_a_chart():
    assert {chart.area for chart in charts.CHARTS} == set(charts.AREAS)
    assert {field for chart in charts.CHARTS for field in chart.fields} == set(charts.FIELDS)


def test_every_bar_links_to_the_table_it_was_read_from():
    for chart in charts.CHARTS:
        if charts.is_there(chart):
            drawn = bars.draw_chart(chart)
            assert set(re.findall(r'href="([^"]+)"', drawn)) == {f"tables/{chart.source}.html"}


def test_a_chart_without_a_table_is_left_out(monkeypatch):
    lost = charts.Chart("gromov", "no table has this title", "no_such_table", ("cells",))
    monkeypatch.setattr(bars, "CHARTS", (lost, *(one for one in charts.CHARTS if one.area == "exact")))
    (drawn,) = bars.BenchmarkCharts.run(None)
    assert lost.title not in str(drawn)
    assert 'id="gromov"' not in str(drawn)
    assert 'id="exact"' in str(drawn)


MADE = {
    "gpu_sizes": """**2 dimensions.**

| points | masses | GPU, pairs/s | CPU threads, pairs/s |
| ------ | -----: | -----------: | -------------------: |
| 64     |  equal |    2,000,000 |              250,000 |
""",
    "layer_gpu": """Forward and backward:

| case |            whole call | CPU threads | POT core in a loop | ot.batch |
| ---- | --------------------: | ----------: | -----------------: | -------: |
| a    | 0.5 µs (met: ≤ 2 ms)  |        4 µs |                    |          |
""",
    "layer": """Value and gradient, one thread:

| case | asot, µs each |    rival | its µs each |
| ---- | ------------: | -------: | ----------: |
| a    |           0.5 | POT core |         4.0 |
""",
    "gromov": """Spaces:

| method | points | µs a pair |
| ------ | -----: | --------: |
| POT    |     20 |       4.0 |
| asot   |     20 |       0.5 |
""",
    "index": """Members:

| what                   |               elapsed |
| ---------------------- | --------------------: |
| open                   |                   1 s |
| 10 nearest, certain    | 0.5 µs (met: < 50 ms) |
| brute force, per query |                  4 µs |
""",
}
"""Tables in the form in which their benchmarks write them: half a microsecond beside four."""


@pytest.mark.parametrize("source", MADE)
def test_charts_of_tables_that_may_be_absent(source, monkeypatch):
    monkeypatch.setattr(charts, "read", lambda name: tables.parse(name, MADE[source]))
    chart = next(one for one in charts.CHARTS if one.source == source)
    (group,) = charts.groups(chart)
    assert [bar.value for bar in group.bars] == pytest.approx([5e-7, 4e-6])
    assert group.bars[0].who.startswith("asot")


def test_a_number_that_is_not_there_is_an_error_that_names_the_file():
    with pytest.raises(LookupError, match="exact_shared"):
        tables.read("exact_shared").table("Microseconds").find("31", "asot")


def test_the_strip_of_the_first_page_shows_the_numbers_of_the_tables():
    drawn = "".join(bars.strip())
    shared = tables.number(tables.read("exact_shared").table("Microseconds").find("30", "asot"))
    assert (f"{shared:.2f} µs" if shared >= 1 else f"{1000 * shared:.0f} ns") in drawn
    assert drawn.count('class="race"') == 3


def test_the_tables_of_the_readme_are_those_of_the_benchmarks():
    text = readme.README.read_text(encoding="utf-8")
    assert readme.written(text) == text, "run python docs/parts/readme.py"


def test_other_numbers_of_the_readme_stand_in_a_table():
    text = readme.README.read_text(encoding="utf-8")
    for name, words in (("memory", "19 MB"), ("gpu_neighbors", "26.3 s")):
        assert words in text
        assert words in tables.read(name).text, f"{words} is not what {name}.md says"


def test_every_section_of_the_method_that_code_names_is_there():
    there = set(re.findall(r"^## §(\d+) ", (ROOT / "docs" / "method.md").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        (number, file.name)
        for folder in ("src", "reproduction", "benchmarks", "tests")
        for file in (ROOT / folder).rglob("*")
        if file.suffix in (".py", ".cpp", ".hpp", ".cu", ".cuh")
        for list_of_sections in re.findall(r"method\.md ((?:§\d+(?:, )?)+)", file.read_text(encoding="utf-8"))
        for number in re.findall(r"\d+", list_of_sections)
    }
    assert named
    assert not {(number, name) for number, name in named if number not in there}


@pytest.mark.slow
def test_the_readmes_picture_is_what_the_demo_draws_today():
    """The picture keeps in its file what it claims; the demo is run again here, as in the clone of a reader."""
    image = pytest.importorskip("PIL.Image")
    from asot.demo import claims, run_demo

    with image.open(ROOT / "docs" / "images" / "demo.png") as picture:
        shown = picture.info["Title"]
    assert shown == claims(run_demo(progress=False)), "run asot demo -o docs/images/demo.png"


def test_there_are_five_questions_for_each_of_eight_fields():
    source = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
    fields = source.split("\n## ")[1:]
    assert len(fields) == 8
    assert [len(questions.ROW.findall(field)) for field in fields] == [5] * 8


def test_a_question_whose_answer_is_missing_or_far_away_is_reported(tmp_path):
    (tmp_path / "index.html").write_text('<a href="near.html">n</a>')
    (tmp_path / "near.html").write_text('<section id="here"><code>word</code></section>')
    row = "\n## A field\n\n| Where? | [x]({}) | `{}` |\n"
    good = row.format("near.md#here", "word")
    assert questions.ask(good, tmp_path) == ["A field: there must be 5 questions"]
    assert "does not say 'other'" in questions.ask(row.format("near.md#here", "other"), tmp_path)[0]
    assert "does not say" in questions.ask(row.format("near.md#there", "word"), tmp_path)[0]
    assert "two clicks" in questions.ask(row.format("far.md", "word"), tmp_path)[0]


def test_code_on_pages_fits_80_columns():
    for file in sorted((ROOT / "docs").glob("*.md")) + sorted((ROOT / "docs" / "coming-from").glob("*.md")):
        assert questions.wide_lines(file.read_text(encoding="utf-8")) == [], file.name


def test_every_entry_of_the_reference_links_to_a_page_that_uses_it():
    entries = re.findall(r"^   ([A-Za-z_.]+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(entries) > 40
    assert [name for name in entries if not uses.pages_with(f"asot.{name}")] == []


def test_the_reference_lists_every_public_name():
    """`asot.Name`, and what the packages of sinks, gradients and plots offer; modules themselves are no entries."""
    entries = re.findall(r"^   ([A-Za-z_.]+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
    inside = {package: getattr(asot, package) for package in ("sinks", "gradients", "plots")}
    public = {name for name in asot.__all__ if not hasattr(getattr(asot, name), "__path__")} - {*inside}
    public |= {f"{package}.{name}" for package, module in inside.items() for name in module.__all__}
    public -= {"sinks.Sink", "sinks.Tile", "plots.STYLE", "baselines", "datasets"}  # for authors; a dictionary; modules
    assert sorted(public - {*entries}) == []


OTHERS = ("Beside", "Coming from", "Back to")
"""How sections begin that are about other libraries."""


@pytest.mark.parametrize("page", ["i-have-*.md", "shapes.md", "training.md"])
def test_field_pages_show_a_figure_after_each_step(page):
    """A step is a section with code; what compares with other libraries or hands on to them, and imports, are none."""
    for file in sorted((ROOT / "docs").glob(page)):
        _, *steps = re.split(r"^##+ ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
        steps = [step for step in steps if "```pycon" in step and not step.startswith(OTHERS)]
        assert len(steps) >= 3, file.name
        assert [step.splitlines()[0] for step in steps if "<!-- figure: " not in step] == [], file.name


def test_rivals_are_named_in_words_and_equal_rows_are_one_group():
    for chart in charts.CHARTS:
        if charts.is_there(chart):
            labels = [group.label for group in charts.groups(chart)]
            assert len(labels) == len(set(labels)), chart.title
            told = {bar.who for group in charts.groups(chart) for bar in group.bars}
            assert not told & {"rival", "theirs", *charts.RACED}, chart.title


# machado, oliveira, fernandes 2009, severity 1
SIGHT = {
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def _lab(rgb):
    x = TO_XYZ @ np.clip(rgb, 0, 1) / [0.9505, 1.0, 1.089]
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", SIGHT)
def test_colors_of_plots_stay_apart_for_the_color_blind(sight):
    parts = np.array([[int(color[k : k + 2], 16) for k in (1, 3, 5)] for color in COLORS]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    seen = [_lab(np.array(SIGHT[sight]) @ one) for one in linear]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 15  # 2 is just visible


def test_the_style_is_one_that_matplotlib_takes():
    matplotlib = pytest.importorskip("matplotlib")
    with matplotlib.rc_context(asot.plots.STYLE):
        assert matplotlib.rcParams["axes.prop_cycle"].by_key()["color"] == list(COLORS)


def test_the_site_is_published_from_the_packages_with_which_it_is_tested():
    """asot-paper among them: without it, the reference cannot show the data sets that live there."""
    workflow = (ROOT / ".github" / "workflows" / "docs.yml").read_text(encoding="utf-8")
    for script in (workflow, (ROOT / "run_tests").read_text(encoding="utf-8")):
        assert re.search(r"-(e|-editable) '\.\[dev,torch\]' -(e|-editable) \./reproduction", script)


def test_addresses_are_the_same_everywhere():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    source, pages = (
        re.search(rf'^{name} = "(.+?)/?"$', project, re.MULTILINE)[1] for name in ("Source", "Documentation")
    )
    for file in ("SECURITY.md", "CODE_OF_CONDUCT.md", ".github/ISSUE_TEMPLATE/config.yml", "packaging/conda/meta.yaml"):
        found = re.findall(r"https://[\w.-]*github\.(?:com|io)/[\w./-]+", (ROOT / file).read_text(encoding="utf-8"))
        assert found, file
        assert all(one.startswith((source, pages)) for one in found), file


def test_actions_are_pinned_by_hash_and_may_do_as_little_as_they_need():
    for file in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = file.read_text(encoding="utf-8")
        for used in re.findall(r"uses: (\S+)", text):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", used), f"{file.name}: {used}"
        assert "\npermissions:\n  contents: read\n" in text, file.name
        assert text.count("persist-credentials: false") == text.count("actions/checkout@"), file.name
