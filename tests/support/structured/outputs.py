"""What every output of a command must be, whatever the input said: it parses, and has no control characters."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from html.parser import HTMLParser
from xml.etree import ElementTree

from packed_rows import unpacked

_VOID = frozenset(
    [
        "area",
        "base",
        "br",
        "col",
        "embed",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "source",
        "track",
        "wbr",
        "circle",
        "line",
        "path",
        "rect",
    ]
)
_NO_FIGURE = re.compile(r"(?<![\w./<>\"'-])[-+−]?(?:nan|inf|NaN|Infinity|infinity)(?![\w./-])")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_SCRIPT = re.compile(r"<(?:script|img)\b", re.IGNORECASE)


class BadOutput(AssertionError):
    """An output that does not parse, or that is not safe to show."""


def check_controls(text: str, name: str) -> None:
    """Raise BadOutput for characters that control a terminal or change the direction of writing."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return
    for character in set(text) - {"\n", "\t"}:
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            raise BadOutput(f"{name}: the character U+{ord(character):04X}")


def check_figures(text: str, name: str) -> None:
    """Raise BadOutput for `nan` or `inf` where a figure is."""
    if match := _NO_FIGURE.search(text):
        raise BadOutput(f"{name}: no figure: {text[max(0, match.start() - 60) : match.end() + 20]!r}")


def check_terminal(text: str) -> None:
    """Judge what a terminal shows."""
    check_controls(text, "terminal")
    check_figures(text, "terminal")


def check_markdown(text: str) -> None:
    """Judge Markdown: no markup of a stranger, and tables with as many cells in each row as in their head."""
    check_controls(text, "Markdown")
    check_figures(text, "Markdown")
    if _SCRIPT.search(text):
        raise BadOutput("Markdown: markup of a stranger")
    width = 0
    for line in text.split("\n"):
        cells = len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) if line.startswith("|") else 0
        if width and cells and cells != width:
            raise BadOutput(f"Markdown: {cells} separators in a row of a table of {width}: {line[:200]!r}")
        width = cells


def check_csv(text: str) -> None:
    """Judge CSV: rows of one length, no formula, no control character."""
    check_controls(text.replace("\r", ""), "CSV")
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    if rows and any(len(row) != len(rows[0]) for row in rows):
        raise BadOutput("CSV: rows of several lengths")
    for row in rows[1:]:
        for cell in row:
            check_figures(cell, "CSV")
            if cell.startswith(_FORMULA) and not _is_number(cell):
                raise BadOutput(f"CSV: a formula: {cell[:80]!r}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_json(text: str) -> None:
    """Judge JSON: what a strict parser of another language takes."""

    def refuse(name: str) -> float:
        raise BadOutput(f"JSON: {name}")

    value = json.loads(text, parse_constant=refuse)
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise BadOutput("JSON: half a character") from error


def check_xml(text: str) -> None:
    """Judge JUnit."""
    ElementTree.fromstring(text)  # noqa: S314 - our own output
    check_controls(text, "JUnit")
    check_figures(text, "JUnit")


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name.startswith("on"):
                raise BadOutput(f"HTML: the attribute {name}")
            check_controls(value or "", f"HTML {tag} {name}")
            if name not in ("title", "data-title", "aria-label", "id", "class", "data-volume"):
                check_figures(f" {value or ''} ".replace(",", " ").replace("(", " "), f"HTML {tag} {name}")
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        if not self.open or self.open.pop() != tag:
            raise BadOutput(f"HTML: </{tag}> closes something else")

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            if "alert(1)" in data and not data.lstrip().startswith(("{", "[")):
                raise BadOutput("HTML: a script of a stranger")
        elif not self.open or self.open[-1] != "style":
            self.text.append(data)


_DATA = re.compile(r'<script type="application/json"[^>]*>(.*?)</script>', re.DOTALL)


def check_html(text: str) -> None:
    """Judge a page: its tags are balanced, its data is JSON, and nothing in it is a stranger's markup."""
    page = _Page()
    page.feed(unpacked(text))
    page.close()
    if page.open:
        raise BadOutput(f"HTML: <{page.open[-1]}> is not closed")
    visible = " ".join(page.text)
    check_controls(visible.replace("\r", ""), "HTML")
    check_figures(visible, "HTML")
    for data in _DATA.findall(text):
        check_json(data)


CHECKS = {
    "html": check_html,
    "md": check_markdown,
    "csv": check_csv,
    "json": check_json,
    "junit": check_xml,
    "text": check_terminal,
}
"""Format -> what judges an output of it; raises BadOutput, or what the parser raises."""
