"""The type of inventories: kind -> object -> attribute -> text."""

from __future__ import annotations

import re
from collections.abc import Mapping

Attributes = Mapping[str, str]
Inventory = dict[str, dict[str, Attributes]]


def quoted(text: str) -> str:
    """Return a string literal that means the same in every sql_mode: in hex unless all characters are plain."""
    if re.fullmatch(r"[A-Za-z0-9_$ -]+", text):
        return f"'{text}'"
    return "0x" + text.encode().hex() if text else "''"
