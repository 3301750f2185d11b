"""The handshake of versions: an agent measures for an orchestrator of its own version only.

Agents run in an image that the user may name, and that may be older or newer than the orchestrator. Another version
may measure otherwise, and a run's record names one version.
"""

from __future__ import annotations

from volbench import __version__
from volbench.core.records.cell import CellSpec
from volbench.errors import MissingPrerequisite


def require_version(cell: CellSpec) -> None:
    """Raise MissingPrerequisite for a cell of an orchestrator of another version; one that names none is taken."""
    if cell.volbench_version in ("", __version__):
        return
    raise MissingPrerequisite(
        "the tools image has another version of volbench than the machine that started the run",
        where="agent",
        evidence=f"the image has {__version__}, the run is measured by {cell.volbench_version}",
        next_step=f"name an image of {cell.volbench_version} (--tools-image, VOLBENCH_TOOLS_IMAGE; `make images` "
        f"builds it), or use volbench {__version__}",
        cause="version_differs",
    )
