"""docs/causes.md: its table of causes and a section for each, generated from the descriptors beside the rules."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from volbench.results.explain.cause_info import GROUPS, CauseInfo
from volbench.results.explain.causes import CAUSES

WIDTH = 130
_TABLE = "| group | causes |\n"
_SECTIONS = {"Meaning": "meaning", "What you see": "signs", "What to do": "advice"}


def causes_page(text: str) -> str:
    """Return the page with its table and sections rewritten; what stands before the table is kept.

    Raises ValueError for a page without the table.
    """
    introduction, table, _ = text.partition(_TABLE)
    if not table:
        raise ValueError("the page has no table of causes")
    return introduction + "\n".join([*_table(), *_decision(), *_sections()])


def _table() -> Iterator[str]:
    yield _TABLE.rstrip()
    yield "|---|---|"
    for group in GROUPS:
        names = [name for name, cause in CAUSES.items() if cause.group == group]
        yield f"| {group} | {', '.join(f'[`{name}`](#{_anchor(name)})' for name in names)} |"


def _decision() -> Iterator[str]:
    """Yield the table of who decides: what is checked of each cause, and what it excludes."""
    yield "\n## Who decides"
    yield (
        "Descriptors say what a cause claims, and so what the check looks at; which other cause it is the doing of,"
    )
    yield "where it shows in a stretch of the step only; and what cannot be true with it.\n"
    yield "| cause | claims | yields to | excludes |"
    yield "|---|---|---|---|"
    for name, cause in CAUSES.items():
        if cause.claims or cause.yields_to or cause.contradicts:
            first, excluded = (
                ", ".join(f"`{name}`" for name in sorted(names)) or "–"
                for names in (cause.yields_to, cause.contradicts)
            )
            yield f"| `{name}` | {', '.join(sorted(cause.claims)) or '–'} | {first} | {excluded} |"


def _sections() -> Iterator[str]:
    for cause in CAUSES.values():
        yield f"\n## {cause.name}\n*{cause.title}.*\n"
        yield "\n\n".join(_paragraphs(cause))
    yield ""


def _paragraphs(cause: CauseInfo) -> Iterator[str]:
    for heading, piece in _SECTIONS.items():
        paragraph = f"**{heading}.** {getattr(cause, piece)}"
        yield textwrap.fill(paragraph, WIDTH, break_long_words=False, break_on_hyphens=False)


def _anchor(name: str) -> str:
    return name.replace(".", "")
