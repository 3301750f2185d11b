"""Slow and failing disks for tests: emulated volumes, MySQL on them, runs to assert on. `volbench[pytest]`.

Each function is a context manager; `volbench.testing.plugin` makes the same available as pytest fixtures. What this
module exports stays compatible within a major version. It is imported when it is used: the plugin is loaded in each
pytest session.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from volbench.testing.mysql import VolumeMySqlContainer, mysql_on
    from volbench.testing.runs import GateResult, MeasuredRun, MetricSummary, run_suite
    from volbench.testing.volumes import MountedVolume, PowerLoss, emulated_volume

__all__ = [
    "GateResult",
    "MeasuredRun",
    "MetricSummary",
    "MountedVolume",
    "PowerLoss",
    "VolumeMySqlContainer",
    "emulated_volume",
    "mysql_on",
    "run_suite",
]
_MODULES = {
    "mysql": ("VolumeMySqlContainer", "mysql_on"),
    "runs": ("GateResult", "MeasuredRun", "MetricSummary", "run_suite"),
    "volumes": ("MountedVolume", "PowerLoss", "emulated_volume"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"volbench.testing.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
