"""The files of suites/ that come with volbench: beside a checkout's code, or within the installed package."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_ROOTS = (Path(), _PACKAGE, _PACKAGE.parents[1])


def shipped(path: Path) -> Path:
    """A path as it is; one below suites/ that is not here: where volbench came with it, if it did."""
    if path.parts[:1] != ("suites",):
        return path
    return next((root / path for root in _ROOTS if (root / path).exists()), path)
