"""Styles and scripts that the pages of the gallery share: files of one directory, named by their content.

A report of a run is one file. The gallery's pages would repeat the same 100 kB each; here a page refers to files in
`assets`, next to the examples. Each is named by its hash, so that a page keeps those that it was made with.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

ASSETS = "assets"
POLICY = "script-src 'unsafe-inline'; style-src 'unsafe-inline'"
SHARED_POLICY = "script-src 'self' file:; style-src 'self' file: 'unsafe-inline'"
"""The page itself has no script, and its elements have styles. A file is no origin, so that its scheme is named."""
_BLOCK = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)
_REFERENCE = re.compile(rf'(?:href|src)="[./]*/{ASSETS}/([\w.]+)"')


def shared(page: str, examples: Path, place: Path) -> str:
    """Return a page with references to its styles and scripts, and write these files below the examples.

    Args:
        page: a report as it is written for a run.
        place: the directory of the page.
    """
    up = "/".join([".."] * len(place.relative_to(examples).parts))
    (examples / ASSETS).mkdir(exist_ok=True)

    def reference(block: re.Match[str]) -> str:
        text = block[2].strip() + "\n"
        name = hashlib.sha256(text.encode()).hexdigest()[:12] + (".css" if block[1] == "style" else ".js")
        (examples / ASSETS / name).write_text(text, encoding="utf-8")
        link = f"{up}/{ASSETS}/{name}"
        return (
            f'<link rel="stylesheet" href="{link}">' if block[1] == "style" else f'<script src="{link}"></script>'
        )

    return _BLOCK.sub(reference, page.replace(POLICY, SHARED_POLICY))


def remove_unused(examples: Path) -> None:
    """Remove files that no page of the examples refers to."""
    used = {name for page in examples.rglob("*.html") for name in assets_of(page)}
    for file in (examples / ASSETS).glob("*"):
        if file.name not in used:
            file.unlink()


def assets_of(page: Path) -> set[str]:
    """Return the names of the files that a page refers to."""
    return set(_REFERENCE.findall(page.read_text(encoding="utf-8")))
