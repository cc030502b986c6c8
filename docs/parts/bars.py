"""Charts as HTML: bars that are links to their table, fit any width, and follow the theme's colors."""

from __future__ import annotations

from html import escape
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive

from parts.charts import AREAS, CHARTS, FIELDS, Bar, Chart, Group, groups, is_there, said
from parts.tables import Table, read


def draw_bar(bar: Bar, most: float, ours: bool, link: str) -> str:
    share = max(100 * bar.value / most, 0.4)
    kind = "bar ours" if ours else "bar"
    return (
        f'<a class="{kind}" href="{link}"><span class="who">{escape(bar.who)}</span>'
        f'<span class="track"><span class="fill" style="width:{share:.1f}%"></span></span>'
        f'<span class="value">{escape(bar.text)}</span></a>'
    )


def draw_group(group: Group, link: str) -> str:
    """A label and its bars; asot's own come first."""
    most = max(bar.value for bar in group.bars)
    rows = "".join(draw_bar(bar, most, bar.who.startswith("asot"), link) for bar in group.bars)
    label = f'<div class="label">{escape(group.label)}</div>' if group.label else ""
    return f'<div class="group">{label}{rows}</div>'


def draw_chart(chart: Chart) -> str:
    fields = " ".join(chart.fields)
    head = f'<section class="chart" data-fields="{fields}" data-area="{chart.area}"><h4>{escape(chart.title)}</h4>'
    report, link = read(chart.source), f"tables/{chart.source}.html"
    drawn = "".join(draw_group(group, link) for group in groups(chart))
    source = f'<p class="source">{escape(said(report, chart.packages))}. <a href="{link}">The table</a></p>'
    return f"{head}{drawn}{source}</section>"


class BenchmarkCharts(Directive):
    """All charts, by area, below buttons that keep those of a field."""

    def run(self) -> list[nodes.Node]:
        buttons = "".join(f'<button data-field="{one}">{name}</button>' for one, name in FIELDS.items())
        everything = '<button data-field="all" class="on">all fields</button>'
        drawn = [f'<div class="filter" role="group" aria-label="field">{everything}{buttons}</div>']
        for area, name in AREAS.items():
            charts = "".join(draw_chart(chart) for chart in CHARTS if chart.area == area and is_there(chart))
            head = f'<div class="area" id="{area}"><h3>{escape(name)}</h3>'
            if charts:
                drawn.append(f'{head}<div class="charts">{charts}</div></div>')
        return [nodes.raw("", "\n".join(drawn), format="html")]


class FirstStrip(Directive):
    """Three races for the first page: two of time and one of error, each with the best rivals that were measured."""

    def run(self) -> list[nodes.Node]:
        return [nodes.raw("", "".join(strip()), format="html")]


def strip() -> list[str]:
    shared = next(chart for chart in CHARTS if chart.source == "exact_shared")
    points = next(chart for chart in CHARTS if chart.source == "exact_points")
    errors = next(chart for chart in CHARTS if chart.source == "strategy_rivals")
    kept = {
        "Exact, one shared cost": (shared, _one(shared, "k = 30"), 4, "per pair of histograms on 30 anchors"),
        "Exact, between graphs": (points, _one(points, "COX2"), 3, "per pair of molecules (COX2)"),
        "Within an error you choose": (errors, _chosen(errors), 4, "off the exact distances between digits"),
    }
    found = ['<div class="strip">']
    for title, (chart, group, count, unit) in kept.items():
        link = f"tables/{chart.source}.html"
        shown = Group("", group.bars[:count])
        found.append(
            f'<div class="race"><h3>{title}</h3><p class="unit">{unit}</p>{draw_group(shown, link)}'
            f'<p class="source">{escape(said(read(chart.source), chart.packages))}</p></div>'
        )
    return [*found, "</div>"]


def _one(chart: Chart, label: str) -> Group:
    return next(group for group in groups(chart) if group.label == label)


def _chosen(chart: Chart) -> Group:
    """asot at its default aim, and those who estimate, from the least error to the largest."""
    (group,) = groups(chart)
    ours = [bar for bar in group.bars if bar.who == 'asot, error="2%"']
    rivals = [bar for bar in group.bars if not bar.who.startswith(("asot", "anchors"))]
    return Group("", (*ours, *sorted(rivals, key=lambda bar: bar.value)))


class MeasuredTables(Directive):
    """The tables of a report as they were written, or the one below a caption."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"caption": str}

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        report, caption = read(name), self.options.get("caption")
        drawn = "".join(draw_table(table) for table in ([report.table(caption)] if caption else report.tables))
        source = f'<p class="source">{escape(said(report, ()))}. <a href="tables/{name}.html">The whole table</a></p>'
        return [nodes.raw("", f'<div class="pst-scrollable-table-container">{drawn}</div>{source}', format="html")]


def draw_table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    rows = ("".join(f"<td>{escape(row[name])}</td>" for name in table.columns) for row in table.rows)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<table class="table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def setup(app: Any) -> None:
    app.add_directive("measured-tables", MeasuredTables)
    app.add_directive("benchmark-charts", BenchmarkCharts)
    app.add_directive("first-strip", FirstStrip)
