"""A page as its script completes it: with the rows of its packed sections."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode
from typing import Any

from markupsafe import escape

PACKED = re.compile(r'<p class="note" data-packed="([^"]*)">[^<]*</p>')


def packed_sections(page: str) -> list[list[Any]]:
    """Return the content of each packed section, in order."""
    return [json.loads(zlib.decompress(b64decode(text))) for text in PACKED.findall(page)]


def unpacked(page: str) -> str:
    """Return the page with markup where it had packed rows."""
    sections = iter(packed_sections(page))
    return PACKED.sub(lambda _: "".join(map(_markup, next(sections))), page)


def _markup(part: Any) -> str:
    if isinstance(part, str):
        return str(escape(part))
    tag, attributes, *parts = part
    start = "".join(f' {name}="{escape(value)}"' for name, value in attributes.items())
    return f"<{tag}{start}>" if tag == "wbr" else f"<{tag}{start}>{''.join(map(_markup, parts))}</{tag}>"
