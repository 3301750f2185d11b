"""The bundled files of suites/: in the checkout, or in the installed package."""

from __future__ import annotations

from pathlib import Path

from volbench.core.base import safe_files
from volbench.errors import Refused

_PACKAGE = Path(__file__).resolve().parents[2]
_ROOTS = (Path(), _PACKAGE, _PACKAGE.parents[1])


def bundled_path(path: Path) -> Path:
    """Return the path; for a path below suites/ that does not exist, return the bundled file's.

    Raises Refused where somebody has put a `suites` of his own into another user's directory, such as /tmp.
    """
    if path.parts[:1] != ("suites",):
        return path
    chosen = next((root / path for root in _ROOTS if (root / path).exists()), path)
    if chosen == path and chosen.exists():
        _refuse_planted(path)
    return chosen


def _refuse_planted(path: Path) -> None:
    """Raise Refused for another user's file of a bundled one's name: a suite may name scripts that are run."""
    planted = safe_files.planted_entry(path)
    if planted is not None:
        raise Refused(
            f"{path} in the working directory is another user's",
            where=str(path.absolute()),
            evidence=f"{planted}; it would be read in place of volbench's own file of that name",
            next_step="work in a directory of your own, or give the absolute path of the file that you mean",
        )


def bundled_suites() -> list[Path]:
    """Return the bundled suites as they are given on the command line, sorted: suites/quick.yaml."""
    root = next(root for root in (_PACKAGE.parents[1], _PACKAGE) if (root / "suites/quick.yaml").exists())
    files = (root / "suites").glob("*.yaml")
    return sorted(path.relative_to(root) for path in files if "\nsteps:" in path.read_text(encoding="utf-8"))
