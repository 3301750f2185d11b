"""What a cell's containers request of a node, from the suite: pods without requests are evicted first."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable

from volbench.core.records.base import parse_size_bytes
from volbench.core.records.cell import CellSpec
from volbench.core.records.steps import Step
from volbench.errors import MissingPrerequisite

_POOL_DEFAULT_BYTES = 128 << 20
"""Of MySQL and MariaDB."""
_POOL_OVERHEAD = 1.25
_SERVER_BYTES = 512 << 20
_BYTES_PER_CLIENT = 4 << 20
_CPU_PER_CLIENT = 50
_SERVER_MILLICPU = (250, 500)
"""Least and most: more would keep pods off the small nodes that suites are tried on."""
AGENT_REQUESTS = {"cpu": "100m", "memory": "256Mi"}


def server_requests(cell: CellSpec) -> dict[str, str]:
    """Return the server's requests: pool and connections in memory, the most clients of a step in CPUs."""
    pool_bytes = _POOL_DEFAULT_BYTES
    with contextlib.suppress(ValueError):  # the server refuses it with its own message
        pool_bytes = parse_size_bytes(cell.server.config.get("innodb_buffer_pool_size", _POOL_DEFAULT_BYTES))
    clients = clients_max(cell.steps)
    memory_bytes = pool_bytes * _POOL_OVERHEAD + _SERVER_BYTES + clients * _BYTES_PER_CLIENT
    least, most = _SERVER_MILLICPU
    return {
        "cpu": f"{min(most, max(least, clients * _CPU_PER_CLIENT))}m",
        "memory": f"{memory_bytes / (1 << 20):.0f}Mi",
    }


_SIZES = ("server_cpu=2", "server_memory=4Gi", "agent_cpu=1", "agent_memory=1Gi")
_LIMITS = " ".join(f"--target-option {size}" for size in _SIZES)
_THROTTLES = "(a CPU limit throttles the server)"
_STORAGE = "--target-option ephemeral_storage=10Gi"


def limits_refused(where: str, message: str) -> MissingPrerequisite | None:
    """Return the failure for a namespace whose quota or LimitRange refuses the pod's sizes; None for others.

    Args:
        message: of the event FailedCreate of the pod's Job.
    """
    if "failed quota" in message and "must specify" in message:
        return MissingPrerequisite(
            "the namespace's ResourceQuota demands sizes that the pod's containers do not name",
            where=where,
            evidence=message,
            next_step=f"name them, such as {_sizes(message)}",
            cause="quota",
        )
    if re.search(r"(maximum|minimum) \S+ usage per|max limit to request ratio per", message):
        next_step = f"see `kubectl describe limitrange`; choose sizes within it, such as {_sizes(message)}"
        return MissingPrerequisite(
            "the namespace's LimitRange refuses the sizes of the pod's containers",
            where=where,
            evidence=message,
            next_step=next_step,
            cause="quota",
        )
    return None


def _sizes(message: str) -> str:
    """Return the options that name the sizes which the message is about."""
    storage = "ephemeral-storage" in message
    advice = "" if storage and not re.search(r"cpu|memory", message) else f"{_LIMITS} {_THROTTLES}"
    return " ".join(filter(None, (_STORAGE if storage else "", advice)))


def clients_max(steps: Iterable[Step]) -> int:
    """Return the most threads of any step."""
    threads = [getattr(step, "threads", 1) for step in steps]
    return max((max(count) if isinstance(count, tuple) else count for count in threads), default=1)
