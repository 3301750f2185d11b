"""The bundled files of suites/: in the checkout, or in the installed package."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_ROOTS = (Path(), _PACKAGE, _PACKAGE.parents[1])


def bundled_path(path: Path) -> Path:
    """Return the path; for a path below suites/ that does not exist, return the bundled file's."""
    if path.parts[:1] != ("suites",):
        return path
    return next((root / path for root in _ROOTS if (root / path).exists()), path)


def bundled_suites() -> list[Path]:
    """Return the bundled suites as they are given on the command line, sorted: suites/quick.yaml."""
    root = next(root for root in (_PACKAGE.parents[1], _PACKAGE) if (root / "suites/quick.yaml").exists())
    files = (root / "suites").glob("*.yaml")
    return sorted(path.relative_to(root) for path in files if "\nsteps:" in path.read_text(encoding="utf-8"))
