"""What a page of a report draws over time: the data of its script, unpacked."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode
from typing import Any

DATA = re.compile(r'<script type="text/plain" id="timeline-data">([^<]*)</script>')


def timeline_data(page: str) -> dict[str, Any] | None:
    """Return the data; None where the page has no timelines."""
    match = DATA.search(page)
    if match is None:
        return None
    data: dict[str, Any] = json.loads(zlib.decompress(b64decode(match[1])))
    return data
