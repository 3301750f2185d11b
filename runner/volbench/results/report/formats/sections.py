"""A document of sections as Markdown, without its figures, and as a page that needs no network."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from volbench import __version__
from volbench.core.base.text import escape_bars, escape_controls
from volbench.results.explain.wording import number
from volbench.results.report.formats.markdown_text import code, escaped
from volbench.results.report.formats.signed_page import signed_page
from volbench.results.report.views.charts import chart_assets
from volbench.results.report.views.sections import Block, Document, Heading, Items, NamedCause, Table, Text

CODE_CHARACTERS = 120
"""Of code in a table; a longer text ends with dots."""
_Escape = Callable[[str], str]


def sections_page(document: Document) -> str:
    """Return the whole page."""
    assets = chart_assets()
    return signed_page("sections.html.j2", document=document, version=__version__, assets=assets, number=number)


def sections_markdown(document: Document, escape: _Escape = escaped) -> str:
    """Return the whole text.

    Args:
        document: what it says.
        escape: makes text from outside harmless; `str` for a terminal, where nothing is markup.
    """
    lines = [f"# {escape(document.title)}", "", *map(escape, document.about), ""]
    for section in document.sections:
        text = [line for block in section.blocks for line in _block(block, escape)]
        if text:
            lines += [f"## {escape(section.title)}", ""] if section.title else []
            lines += text
    return escape_controls("\n".join(lines) + "\n")


def _block(block: Block, escape: _Escape) -> Iterator[str]:
    match block:
        case Text():
            yield escape(block.text)
        case Heading():
            yield f"### {escape(block.text)}"
        case Items():
            yield from (f"- {escape(text)}" for text in block.texts)
        case Table():
            yield from _table(block, escape)
        case NamedCause():
            yield from _cause(block, escape)
        case _:
            return
    yield ""


def _table(table: Table, escape: _Escape) -> Iterator[str]:
    yield f"| {' | '.join(map(escape, table.heads))} |"
    yield f"|---{('|--:' if table.has_figures else '|---') * (len(table.heads) - 1)}|"
    for first, *figures in table.rows:
        name = escape_bars(f"`{short_code(first)}`") if table.has_code else escape(first)
        yield f"| {' | '.join([name, *map(escape, figures)])} |"


def _cause(cause: NamedCause, escape: _Escape) -> Iterator[str]:
    view, certainty = cause.view, f": {escape(cause.certainty)}" if cause.certainty else ""
    yield f"**{escape(view.title)}** ({code(view.finding.cause)}){certainty}"
    yield ""
    yield from (f"- {escape(evidence.text)}" for evidence in (*view.facts, *view.confidence_basis))
    if view.finding.advice:
        yield f"- advice: {escape(view.finding.advice)}"


def short_code(text: str) -> str:
    """Return code for one line and between backticks, cut after CODE_CHARACTERS."""
    plain = " ".join(text.replace("`", "").split())
    return plain if len(plain) <= CODE_CHARACTERS else f"{plain[:CODE_CHARACTERS]}..."
