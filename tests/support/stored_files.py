"""Figures of the examples as the repository keeps them: JSON, compressed to a tenth, in files `NAME.json.xz`.

`xz -dc FILE` shows one. Pages for a reader, report.md and report.html, are beside them as they are.
"""

from __future__ import annotations

import lzma
from pathlib import Path

SUFFIX = ".xz"
REPORT = f"report.json{SUFFIX}"


def stored_text(path: Path) -> str:
    """Return the text of a compressed file.

    Raises:
        OSError: it cannot be read.
        lzma.LZMAError: it is damaged.
    """
    return lzma.decompress(path.read_bytes(), lzma.FORMAT_XZ).decode()


def store_text(path: Path, text: str) -> None:
    """Write a compressed file; one that has the text already stays as it is, whichever version compressed it.

    Raises:
        ValueError: the name does not end with .xz.
    """
    if path.suffix != SUFFIX:
        raise ValueError(f"{path}: a compressed file ends with {SUFFIX}")
    if not path.is_file() or stored_text(path) != text:
        path.write_bytes(lzma.compress(text.encode(), lzma.FORMAT_XZ, preset=9 | lzma.PRESET_EXTREME))
