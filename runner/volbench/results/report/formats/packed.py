"""What a page holds packed: data, and large closed sections, whose rows take a tenth of their markup.

The page's `packed.js` makes the rows again when the page opens, one element after the other. Elements and
attributes that are not in these lists pass neither here nor there, so the text of a run stays a text.
"""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64encode
from html.parser import HTMLParser
from typing import Any

from markupsafe import Markup

PACKED_FROM = 8_192
"""Characters of markup; what is smaller stays as it is, and needs no script."""
TAGS = frozenset(
    (
        "b",
        "code",
        "dd",
        "div",
        "dl",
        "dt",
        "figcaption",
        "figure",
        "h3",
        "h4",
        "p",
        "span",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "tr",
        "wbr",
    )
)
DRAWN_TAGS = frozenset(("line", "polygon", "polyline", "svg", "title"))
"""Elements of SVG, which the script makes in its namespace."""
ATTRIBUTES = frozenset(
    (
        "aria-hidden",
        "aria-label",
        "class",
        "data-label",
        "points",
        "preserveAspectRatio",
        "role",
        "style",
        "tabindex",
        "title",
        "viewBox",
        "x1",
        "x2",
        "y1",
        "y2",
    )
)
NOTE = (
    "What is closed here needs JavaScript, which comes with this page, and a browser of 2023 or later."
    " report.json, in the same directory, has its figures; points of curves are in the tables of the cells."
)
_BETWEEN_ROWS = frozenset(("dl", "svg", "table", "thead", "tbody", "tr"))
_CASED = {name.lower(): name for name in ATTRIBUTES}
"""HTML reads names of attributes in small letters, and SVG tells them apart."""
_VOID = frozenset(("wbr",))
_SPACES = re.compile(r"[ \n\t]+")

Element = list[Any]
"""[tag, attributes, *parts]; a part is a text or an element."""


def packed_json(value: Any) -> Markup:
    """Return JSON, deflated (RFC 1950) and in base64: a fifth of its size."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(b64encode(zlib.compress(text.encode(), 9)).decode())  # noqa: S704 - letters of base64


def packed(section: Markup) -> Markup:
    """Return the content of a closed section; of a large one, what the page's script makes it from.

    Raises ValueError where a template has an element or an attribute that the script does not make.
    """
    if len(section) < PACKED_FROM:
        return section
    return Markup('<p class="note" data-packed="{}">{}</p>').format(packed_json(_elements(section)), NOTE)


def _elements(section: str) -> list[Any]:
    parser = _Parser()
    parser.feed(section)
    parser.close()
    if len(parser.open) != 1:
        raise ValueError(f"<{parser.open[-1][0]}> is not closed")
    return parser.open[0][2:]


class _Parser(HTMLParser):
    """Elements of the lists, and their texts with one space for several."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[Element] = [["", {}]]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {_CASED.get(name, name): value or "" for name, value in attrs}
        if tag not in TAGS | DRAWN_TAGS or not attributes.keys() <= ATTRIBUTES:
            raise ValueError(f"packed.js does not make <{tag}> with {', '.join(attributes) or 'no attribute'}")
        element: Element = [tag, attributes]
        self.open[-1].append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        if self.open.pop()[0] != tag:
            raise ValueError(f"</{tag}> closes something else")

    def handle_data(self, data: str) -> None:
        text = _SPACES.sub(" ", data)
        if text != " " or self.open[-1][0] not in _BETWEEN_ROWS:
            self.open[-1].append(text)
