"""The files of suites/ that come with volbench: beside a checkout's code, or within the installed package."""

from __future__ import annotations

from pathlib import Path

DIRECTORY = "suites"
_PACKAGE = Path(__file__).resolve().parents[1]
_CHECKOUT = _PACKAGE.parents[1]


def shipped(path: Path | str) -> Path:
    """A path that begins with suites/: below the working directory if it is there, else what volbench came with."""
    roots = (Path.cwd(), _PACKAGE, _CHECKOUT)
    return next((root / path for root in roots if (root / path).exists()), _CHECKOUT / path)


def is_shipped(path: Path) -> bool:
    """Whether a name is one of suites/, to be looked for where volbench is when it is not here."""
    return path.parts[:1] == (DIRECTORY,)
