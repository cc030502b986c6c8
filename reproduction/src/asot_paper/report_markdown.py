"""The report as Markdown, as GitHub shows it: pipe tables, pictures in files beside the text."""

from __future__ import annotations

from asot_paper.report_document import Block, Bullets, Card, Code, Document, Entry, Figure, Section, Table, Text


def to_markdown(document: Document, stem: str) -> str:
    """The text of the report. ``stem`` begins the names of its pictures."""
    parts = [
        f"# {document.title}",
        document.lead,
        f"*{document.made}. Written by `asot paper report`; edits are lost.*",
    ]
    if document.notice:
        parts.append(f"> **Note.** {document.notice}")
    parts += [_card(card) for card in document.cards]
    if document.picture is not None:
        parts.append(_block(document.picture, stem))
    parts.append("\n".join(["**Contents**", "", *(f"- [{s.title}](#{s.name})" for s in document.sections)]))
    parts += [_section(section, stem) for section in document.sections]
    return "\n\n".join(_plain(part) for part in parts) + "\n"


def _plain(text: str) -> str:
    """Angle brackets that the document escapes become entities, since a backslash does not stop HTML everywhere."""
    return text.replace("\\<", "&lt;").replace("\\>", "&gt;")


def _card(card: Card) -> str:
    return f"**{card.label}: {card.headline}.** {card.words}"


def _section(section: Section, stem: str) -> str:
    heading = f'<a id="{section.name}"></a>\n\n## {section.title}'
    return "\n\n".join([heading, *(_block(block, stem) for block in section.blocks)])


def _block(block: Block, stem: str) -> str:
    if isinstance(block, Text):
        return block.words
    if isinstance(block, Bullets):
        return "\n".join(f"- {item}" for item in block.items)
    if isinstance(block, Code):
        return "\n".join(["```bash", *block.lines, "```"])
    if isinstance(block, Table):
        return f"{_table(block)}\n\n*{block.caption}*"
    return _figure(block, stem)


def _figure(figure: Figure, stem: str) -> str:
    return f"![{figure.title}: {figure.caption}]({stem}-{figure.name}.svg)\n\n*{figure.caption}*"


def _table(table: Table) -> str:
    names = list(table.columns)
    if table.groups:
        width = table.group_width
        names[1:] = [f"{table.groups[place // width]} {name}" for place, name in enumerate(names[1:])]
    align = ["---"] + ["--:"] * (len(names) - 1 - table.n_words) + ["---"] * table.n_words
    rows = [[_entry(entry) for entry in row] for row in table.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in (names, align, *rows))


def _entry(entry: Entry) -> str:
    return f"**{entry.words}**" if entry.best else entry.words
