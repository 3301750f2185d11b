"""What the cluster tells of objects: their events, and those of the Workload of Kueue that stands for a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.queues import workload_of

Object = dict[str, Any]


def events_of(cluster: Cluster, names: Sequence[str]) -> list[Object]:
    """Return the events of the objects with these names and of their Workload, the oldest first."""
    events = [event for name in names for event in _of_object(cluster, name)]
    if workload := workload_of(events):
        events += _of_object(cluster, workload)
    return sorted(events, key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")


def _of_object(cluster: Cluster, name: str) -> list[Object]:
    answer = cluster.ask(
        "GET", "events", doing=f"reading the events of {name}", fieldSelector=f"involvedObject.name={name}"
    )
    events: list[Object] = answer["items"]
    return events
