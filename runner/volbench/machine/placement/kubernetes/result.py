"""Facts of a cell that only the cluster knows: pod times as metrics, and why its server ended."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from volbench.core.records.cell import CellResult, Failure, StepResult
from volbench.core.records.metrics import PLACEMENT_STEP, metric
from volbench.machine.placement.kubernetes.manifests import AGENT, SERVER
from volbench.machine.placement.kubernetes.pods import Trouble, status_of

Object = dict[str, Any]
_LIMIT_RANGER = "kubernetes.io/limit-ranger"
"""Annotation by which the namespace's LimitRange tells which requests and limits it has set."""
_PULLED = re.compile(r"Successfully pulled image .* in ((?:[\d.]+(?:h|ms|m|s))+)")
_DURATION = re.compile(r"([\d.]+)(h|ms|m|s)")
_UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_UNSPECIFIC_CAUSES = frozenset(
    {"", "step_failed", "supervisor_gone", "server_gone", "server_killed", "connection_lost"}
)
"""Causes that an agent may report if another process ended the server."""


def enrich_from_cluster(
    file: Path,
    pod: Object,
    trouble: Trouble | None,
    events: Sequence[Object] = (),
    *,
    node: Object | None = None,
    volume: Mapping[str, object] | None = None,
) -> None:
    """Complete a collected result.json.

    Args:
        node: the pod's node, None if unknown.
        volume: fields of VolumeFacts that tell which volume the cell was on, and who else used it.
    """
    if not file.exists():
        return
    result = CellResult.model_validate_json(file.read_bytes())
    changes: dict[str, Any] = {
        "host": result.host.model_copy(update=node_facts(node)),
        "volume_facts": result.volume_facts.model_copy(update=dict(volume or {})),
    }
    if result.steps:
        changes["steps"] = (*result.steps, placement_step(pod, result, events))
    if trouble is not None and result.failure is not None and result.failure.cause in _UNSPECIFIC_CAUSES:
        changes["failure"] = _with_termination(result.failure, trouble)
    text = result.model_copy(update=changes).model_dump_json(indent=1, by_alias=True)
    file.write_text(text + "\n")


def node_facts(node: Object | None) -> dict[str, str]:
    """Return fields of HostFacts for what the cluster knows of a node; what it does not know is absent."""
    if node is None:
        return {}
    labels, info = node["metadata"].get("labels", {}), node.get("status", {}).get("nodeInfo", {})
    facts = {
        "cloud_instance_type": labels.get("node.kubernetes.io/instance-type"),
        "zone": labels.get("topology.kubernetes.io/zone"),
        "kernel": info.get("kernelVersion"),
        "kubelet": info.get("kubeletVersion"),
        "container_runtime": info.get("containerRuntimeVersion"),
    }
    return {name: value for name, value in facts.items() if value}


def needs_cause(file: Path) -> bool:
    """Return whether an event outside the pod may have caused the agent's failure."""
    if not file.exists():
        return False
    failure = CellResult.model_validate_json(file.read_bytes()).failure
    return failure is not None and failure.cause in _UNSPECIFIC_CAUSES


def placement_step(pod: Object, result: CellResult, events: Sequence[Object] = ()) -> StepResult:
    """Return how long the cluster took to start the cell. Pod times have a resolution of one second."""
    metrics = {name: metric(name, value) for name, value in pod_times_s(pod, events).items()}
    started = next((phase for phase in result.phases if phase.name == "start"), None)
    if started is not None:
        metrics["mysqld_ready_s"] = metric("mysqld_ready_s", started.t1_s - started.t0_s)
    details = {"node": pod["spec"].get("nodeName", ""), "pod": pod["metadata"]["name"]}
    if limits := pod["metadata"].get("annotations", {}).get(_LIMIT_RANGER):
        details["limit_range"] = limits
    return StepResult(
        step=PLACEMENT_STEP,
        kind=PLACEMENT_STEP,
        parameters={},
        window_s=(0.0, 0.0),
        metrics=metrics,
        details=details,
    )


def pod_times_s(pod: Object, events: Sequence[Object] = ()) -> dict[str, float]:
    """Return seconds by metric, for the moments in the pod's status and events."""
    status = pod.get("status", {})
    created = _moment(pod["metadata"].get("creationTimestamp"))
    conditions = {
        condition["type"]: _moment(condition.get("lastTransitionTime"))
        for condition in status.get("conditions", [])
        if condition.get("status") == "True"
    }
    scheduled = conditions.get("PodScheduled")
    agent_state = status_of(pod, AGENT).get("state", {})
    agent = _moment((agent_state.get("terminated") or agent_state.get("running") or {}).get("startedAt"))
    spans = {
        "pod_scheduled_s": (created, scheduled),
        "pod_sandbox_s": (scheduled, conditions.get("PodReadyToStartContainers")),
        "pod_volume_attached_s": (scheduled, _last(events, "SuccessfulAttachVolume")),
        "pod_server_started_s": (created, _first_start(status_of(pod, SERVER))),
        "pod_ready_s": (created, agent),
    }
    times = {
        name: (end - begin).total_seconds()
        for name, (begin, end) in spans.items()
        if begin is not None and end is not None and end >= begin
    }
    pulls = [_pull_s(str(event.get("message"))) for event in events if event.get("reason") == "Pulled"]
    pull_times = [pull_s for pull_s in pulls if pull_s is not None]
    return {**times, "pod_image_pull_s": sum(pull_times)} if pull_times else times


def _first_start(server: Object) -> datetime | None:
    """Return the first start of a container: the kubelet restarts the server's after the supervisor's end."""
    restarts = server.get("restartCount", 0)
    state = (
        server.get("state", {}).get("running") if not restarts else server.get("lastState", {}).get("terminated")
    )
    return _moment((state or {}).get("startedAt")) if restarts <= 1 else None


def _last(events: Sequence[Object], reason: str) -> datetime | None:
    moments = [
        _moment(event.get("lastTimestamp") or event.get("eventTime"))
        for event in events
        if event.get("reason") == reason
    ]
    return max((moment for moment in moments if moment is not None), default=None)


def _pull_s(message: str) -> float | None:
    """Return `Successfully pulled image "x" in 1m2.5s (...)`; None for an image that was there already."""
    match = _PULLED.search(message)
    if match is None:
        return None
    return sum(float(number) * _UNITS_S[unit] for number, unit in _DURATION.findall(match[1]))


def _with_termination(failure: Failure, trouble: Trouble) -> Failure:
    evidence = "; ".join(text for text in (trouble.evidence, failure.message, failure.evidence) if text)
    return failure.model_copy(update={"cause": trouble.cause, "message": trouble.what, "evidence": evidence})


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
