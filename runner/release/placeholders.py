"""What has to be settled before a release: the address of the repository, and the news fragments.

`python -m release.placeholders` needs nothing but Python, for the workflow.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from volbench.errors import UsageError, VolbenchError

ROOT = Path(__file__).resolve().parents[2]
PLACEHOLDER = re.compile(r"\b(?:example\.invalid/)?OWNER/volbench\b")
_FILES = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "pyproject.toml", "Makefile", "action.yml", "docs/*.md")
_FRAGMENTS = "docs/changes"
_SHOWN_MAX = 12


def placeholder_lines(root: Path) -> list[str]:
    """Return `FILE:LINE` of every placeholder for the repository's address in a source tree."""
    files = sorted(file for pattern in _FILES for file in root.glob(pattern))
    return [
        f"{file.relative_to(root)}:{number}"
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        if PLACEHOLDER.search(line)
    ]


def unassembled_fragments(root: Path) -> list[str]:
    """Return the names of the news fragments that are not part of CHANGELOG.md yet."""
    return sorted(file.name for file in (root / _FRAGMENTS).glob("*.md") if file.name != "README.md")


def refuse_unsettled(root: Path) -> None:
    """Raise UsageError, once for everything, if a source tree has a placeholder or a news fragment left."""
    lines, fragments = placeholder_lines(root), unassembled_fragments(root)
    faults, steps = [], []
    if lines:
        faults.append(f"the repository's address is a placeholder in {_listed(lines)}")
        steps.append("put the repository's address in place of example.invalid/OWNER/volbench and OWNER/volbench")
    if fragments:
        faults.append(f"{_FRAGMENTS} has {_listed(fragments)}")
        steps.append("assemble the fragments with: .venv/bin/towncrier build --yes --version VERSION")
    if faults:
        raise UsageError(
            "this source is not ready for a release",
            where=str(root),
            evidence="; ".join(faults),
            next_step=", ".join(steps) + "; then commit",
        )


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN_MAX
    return ", ".join(names[:_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


if __name__ == "__main__":
    try:
        refuse_unsettled(ROOT)
    except VolbenchError as error:
        print(f"release: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
