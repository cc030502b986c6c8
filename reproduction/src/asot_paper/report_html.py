"""The report as one page: no script, no font, no picture from elsewhere.

Charts are inline and take their colours from the style sheet, in light and in dark. Wide tables scroll in their own
frame, so that the page itself never does sideways. Whatever comes from the document is escaped on its way into a tag.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from asot_paper.pictures import panel_svg, swatch_svg
from asot_paper.report_document import Block, Bullets, Card, Code, Document, Entry, Figure, Section, Table, Text

_INLINE = re.compile(
    r"\\(?P<plain>.)|`(?P<code>[^`]+)`|\*\*(?P<strong>(?:\\.|[^*])+)\*\*|\*(?P<em>(?:\\.|[^*])+)\*"
    r"|\[(?P<text>(?:\\.|[^\]])+)\]\((?P<link>#[\w-]+)\)"
)


def to_html(document: Document) -> str:
    """The whole page as text."""
    title = escape(_bare(document.title))
    contents = "".join(f'<li><a href="#{one.name}">{inline(one.title)}</a></li>' for one in document.sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<meta name="description" content="{escape(document.lead)}">\n'
        f'<title>{title}</title>\n<link rel="icon" href="data:,">\n<style>{STYLE}</style>\n</head>\n<body>\n'
        f"{_first_screen(document)}\n"
        f'<nav aria-label="Contents"><h2>Contents</h2><ol>{contents}</ol></nav>\n'
        f"<main>\n{''.join(map(_section, document.sections))}</main>\n"
        f"<footer><p>{inline(document.made)}</p></footer>\n</body>\n</html>\n"
    )


def _first_screen(document: Document) -> str:
    notice = f'<p class="notice" role="note">{inline(document.notice)}</p>' if document.notice else ""
    picture = "" if document.picture is None else _figure(document.picture)
    return (
        f'<header><h1>{inline(document.title)}</h1><p class="lead">{inline(document.lead)}</p>{notice}'
        f'<div class="opening"><div class="cards">{"".join(map(_card, document.cards))}</div>{picture}</div></header>'
    )


def _card(card: Card) -> str:
    return (
        f'<section class="card"><h2>{inline(card.label)}</h2><p class="headline">{inline(card.headline)}</p>'
        f"<p>{inline(card.words)}</p></section>"
    )


def _section(section: Section) -> str:
    blocks = "\n".join(map(_block, section.blocks))
    return f'<section id="{section.name}"><h2>{inline(section.title)}</h2>\n{blocks}\n</section>\n'


def _block(block: Block) -> str:
    if isinstance(block, Text):
        return f"<p>{inline(block.words)}</p>"
    if isinstance(block, Bullets):
        return f"<ul>{''.join(f'<li>{inline(item)}</li>' for item in block.items)}</ul>"
    if isinstance(block, Code):
        lines = escape("\n".join(block.lines))
        frame = '<div class="scroll" role="region" tabindex="0" aria-label="Commands">'
        return f"{frame}<pre><code>{lines}</code></pre></div>"
    return _table(block) if isinstance(block, Table) else _figure(block)


def _figure(figure: Figure) -> str:
    entries = "".join(f"<li>{swatch_svg(one)}{escape(one.label)}</li>" for one in figure.sheet.legend())
    legend = f'<ul class="legend">{entries}</ul>' if entries else ""
    panels = "".join(map(panel_svg, figure.sheet.panels))
    width = {1: " one", 2: " two"}.get(figure.sheet.columns, "")
    return (
        f'<figure id="figure-{figure.name}">{legend}'
        f'<div class="panels{width}">{panels}</div><figcaption>{inline(figure.caption)}</figcaption></figure>'
    )


# -------------------------------------------------------------------------------------------------------------- tables


def _table(table: Table) -> str:
    kind = "words" if table.n_words == len(table.columns) - 1 else "numbers"
    label = escape(_bare(table.caption))
    whole = _uniform_columns(table)
    rows = "".join(_row(table, row, place, whole) for place, row in enumerate(table.rows))
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}"><table id="table-{table.name}" '
        f'class="{kind}"><caption><span>{inline(table.caption)}</span></caption><thead>{_head(table)}</thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _head(table: Table) -> str:
    first, *others = (inline(name) for name in table.columns)
    below = "".join(f'<th scope="col"{_classes(table, place)}>{name}</th>' for place, name in enumerate(others, 1))
    if not table.groups:
        return f'<tr><th scope="col">{first}</th>{below}</tr>'
    groups = "".join(
        f'<th scope="colgroup" colspan="{table.group_width}">{inline(group)}</th>' for group in table.groups
    )
    return f'<tr><th scope="col" rowspan="2">{first}</th>{groups}</tr><tr>{below}</tr>'


def _row(table: Table, entries: Sequence[Entry], place: int, whole: set[int]) -> str:
    fields = []
    for column, entry in enumerate(entries):
        if column == 0:
            fields.append(f'<th scope="row">{inline(entry.words)}</th>')
        elif column not in whole:
            fields.append(f"<td{_classes(table, column, entry)}>{_field(entry)}</td>")
        elif place == 0:
            fields.append(f'<td class="whole" rowspan="{len(table.rows)}">{_field(entry)}</td>')
    return f"<tr>{''.join(fields)}</tr>"


def _uniform_columns(table: Table) -> set[int]:
    """Columns that say the same, quietly, in every row: they say it once."""
    if len(table.rows) < 2:
        return set()
    columns = [(place, set(column)) for place, column in enumerate(zip(*table.rows, strict=True))]
    return {place for place, entries in columns if len(entries) == 1 and next(iter(entries)).quiet}


def _classes(table: Table, column: int, entry: Entry | None = None) -> str:
    names = ["quiet"] if entry is not None and entry.quiet else []
    names += ["text"] if column >= len(table.columns) - table.n_words else []
    names += ["first"] if table.groups and (column - 1) % table.group_width == 0 else []
    return f' class="{" ".join(names)}"' if names else ""


def _field(entry: Entry) -> str:
    words = re.sub(r"( ± [\d.,]+)", r'<span class="spread">\1</span>', inline(entry.words))
    return f"<strong>{words}</strong>" if entry.best else words


# -------------------------------------------------------------------------------------------------------------- inline


def inline(words: str) -> str:
    """Words of a document as HTML.

    >>> inline("**a** `b<c` \\\\*d\\\\* <e>")
    '<strong>a</strong> <code>b&lt;c</code> *d* &lt;e&gt;'
    """
    parts, end = [], 0
    for found in _INLINE.finditer(words):
        parts.append(escape(words[end : found.start()]))
        parts.append(_marked(found))
        end = found.end()
    return "".join(parts) + escape(words[end:])


def _marked(found: re.Match[str]) -> str:
    kind, content = next((kind, content) for kind, content in found.groupdict().items() if content is not None)
    if kind == "plain":
        return escape(content)
    if kind == "code":
        return f"<code>{escape(content)}</code>"
    if kind == "text":
        return f'<a href="{escape(found["link"])}">{inline(content)}</a>'
    return f"<{kind}>{inline(content)}</{kind}>"


def _bare(words: str) -> str:
    """Words without markup, for attributes."""
    return re.sub(r"\\(.)", r"\1", re.sub(r"(?<!\\)[*`]", "", words))


# --------------------------------------------------------------------------------------------------------------- style

STYLE = """
:root { color-scheme: light dark;
  --page: #fcfbf8; --raised: #f3f1ea; --ink: #1f211f; --quiet: #5b5f5b; --rule: #dedbd1; --accent: #0a6a58;
  --s1: #1f6fb2; --s2: #a1640b; --s3: #7756b3; --s4: #c23b22; --s5: #0a7d68; --s6: #6a7079; --s7: #b0457e;
  --s8: #23819a; --serif: Charter, "Bitstream Charter", "Sitka Text", Cambria, Georgia, serif;
  --sans: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", Arial, sans-serif; }
@media (prefers-color-scheme: dark) { :root {
  --page: #15171a; --raised: #1e2125; --ink: #e7e6e1; --quiet: #a6aaa6; --rule: #353a3f; --accent: #63cdb5;
  --s1: #6db1f0; --s2: #e0a347; --s3: #b9a0f1; --s4: #f4836b; --s5: #4fcab0; --s6: #a5acb4; --s7: #e78fc0;
  --s8: #62c4da; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
body { margin: 0 auto; max-width: 1168px; padding: 0 24px 64px; background: var(--page); color: var(--ink);
  font: 17px/1.6 var(--serif); overflow-wrap: break-word; }
h1, h2 { line-height: 1.2; font-weight: 600; text-wrap: balance; }
h1 { margin: 40px 0 10px; font-size: 34px; letter-spacing: -0.01em; }
h2 { margin: 0 0 14px; font-size: 25px; }
p, ul { margin: 0 0 16px; }
main p, main li, .lead { max-width: 46em; }
a { color: var(--accent); text-underline-offset: 0.15em; }
a:focus-visible, .scroll:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
p code, li code { white-space: nowrap; }
code { font: 0.88em/1.5 ui-monospace, "Cascadia Mono", Menlo, Consolas, "Liberation Mono", monospace; }
.lead { color: var(--quiet); font-size: 18px; line-height: 1.5; max-width: none; }
.notice { border-left: 3px solid var(--s2); padding: 4px 0 4px 14px; }
.opening { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 424px); gap: 28px 44px; align-items: start;
  margin-top: 24px; }
.opening > :only-child { grid-column: 1 / -1; }
.card { border-top: 1px solid var(--rule); padding: 12px 0 2px; }
.card h2 { margin: 0; font: 600 14px/1.4 var(--sans); color: var(--accent); letter-spacing: 0.01em; }
.card p { margin: 4px 0 12px; line-height: 1.52; }
.card .headline { margin: 2px 0 4px; font-size: 23px; line-height: 1.25; font-weight: 600; text-wrap: balance; }
nav { border-block: 1px solid var(--rule); margin: 36px 0 12px; padding: 16px 0; font: 16px/1.4 var(--sans); }
nav h2 { margin: 0 0 8px; font: 600 14px/1.4 var(--sans); color: var(--quiet); }
nav ol { list-style: none; margin: 0; padding: 0; columns: 300px 3; column-gap: 32px; }
nav li { margin: 0; padding: 5px 0; break-inside: avoid; }
main > section { margin-top: 52px; scroll-margin-top: 12px; }
ul { padding-left: 1.2em; } li { margin-bottom: 8px; }
figure { margin: 0 0 28px; }
.opening figure { background: var(--raised); border-radius: 10px; padding: 18px; margin: 0; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 332px), 1fr)); gap: 16px 20px; }
.panels.one { grid-template-columns: minmax(0, 440px); } .panels.two { max-width: 840px; }
.panels svg { display: block; width: 100%; height: auto; font-family: var(--sans); }
figcaption, caption { font: 15px/1.5 var(--sans); color: var(--quiet); }
figcaption { margin-top: 10px; max-width: 52em; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; list-style: none; padding: 0; margin: 0 0 12px;
  font: 15px/1.5 var(--sans); }
.legend li { display: flex; align-items: center; gap: 6px; margin: 0; }
.swatch { flex: none; }
.scroll { overflow-x: auto; margin: 0 0 26px; max-width: 100%; }
pre { margin: 0; padding: 14px 16px; background: var(--raised); border-radius: 8px; width: max-content;
  min-width: 100%; font-size: 16px; }
table { border-collapse: collapse; font: 15px/1.4 var(--sans); font-variant-numeric: tabular-nums lining-nums; }
caption { text-align: left; padding-bottom: 8px; }
caption span { display: inline-block; position: sticky; left: 0; max-width: min(52em, calc(100vw - 32px)); }
th, td { padding: 6px 8px; text-align: left; vertical-align: top; border-bottom: 1px solid var(--rule); }
thead th { color: var(--quiet); font-weight: 600; vertical-align: bottom; }
thead tr:last-child th, thead th[rowspan] { border-bottom: 1.5px solid var(--quiet); }
th[scope=colgroup] { text-align: center; color: var(--ink); border-bottom: 0; }
tbody th { font-weight: 500; }
.numbers th:first-child { white-space: nowrap; position: sticky; left: 0; background: var(--page); padding-left: 0; }
.numbers td, .numbers thead th:not(:first-child, [scope=colgroup]), .numbers thead tr + tr th {
  text-align: right; white-space: nowrap; position: static; padding-left: 8px; }
.numbers th.first, .numbers td.first { padding-left: 16px; }
.numbers td.whole { white-space: normal; text-align: center; vertical-align: middle; width: 5em; min-width: 5em;
  padding: 0 6px; color: var(--quiet); font-size: 14px; background: var(--raised); }
.numbers .text, .numbers thead th.text { text-align: left; white-space: normal; min-width: 16em; max-width: 34em; }
.words th:first-child { padding-left: 0; } .words td, .words tbody th { min-width: 7em; max-width: 34em; }
.quiet, .spread { color: var(--quiet); } td.quiet { font-size: 14px; }
strong { font-weight: 700; } td strong { color: var(--ink); } td strong .spread { font-weight: 400; }
footer { margin-top: 56px; padding-top: 14px; border-top: 1px solid var(--rule); font: 15px/1.5 var(--sans);
  color: var(--quiet); }
.ink { color: var(--ink); } .quiet { color: var(--quiet); } .rule { color: var(--rule); }
.s1 { color: var(--s1); } .s2 { color: var(--s2); } .s3 { color: var(--s3); } .s4 { color: var(--s4); }
.s5 { color: var(--s5); } .s6 { color: var(--s6); } .s7 { color: var(--s7); } .s8 { color: var(--s8); }
@media (max-width: 900px) { .opening { grid-template-columns: minmax(0, 1fr); } }
@media (max-width: 600px) { body { padding: 0 16px 48px; } h1 { margin-top: 24px; font-size: 27px; }
  h2 { font-size: 22px; } .lead { font-size: 17px; } .opening figure { padding: 14px 0 0; background: none; }
  main > section { margin-top: 40px; } }
@media print { :root { --page: #fff; --raised: #f6f6f6; --ink: #000; --quiet: #444; --rule: #ccc; --accent: #064;
    --s1: #1f6fb2; --s2: #a1640b; --s3: #7756b3; --s4: #c23b22; --s5: #0a7d68; --s6: #6a7079; --s7: #b0457e;
    --s8: #23819a; }
  @page { margin: 14mm; } body { font-size: 10.5pt; padding: 0; max-width: none; } h1 { margin-top: 0; }
  .scroll { overflow: visible; } table { font-size: 7.5pt; } th, td { padding: 3px 4px; } nav { display: none; }
  td.quiet, .numbers td.whole { font-size: 7pt; } caption, figcaption, .legend { font-size: 9pt; }
  figure, tr, .card, table { break-inside: avoid; } h2 { break-after: avoid; }
  .opening { grid-template-columns: 1fr 62mm; gap: 8mm; } .card p { font-size: 10pt; } .lead { font-size: 11pt; }
  .panels { grid-template-columns: repeat(3, 1fr); } .panels.two { grid-template-columns: repeat(2, 1fr); }
  pre { white-space: pre-wrap; width: auto; } }
"""
