"""Diagnosis of pods from their status and events: pure functions over objects of the API server."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from volbench.machine.placement.kubernetes.affinity import FURTHER_NODE, NODE_OF_RUN
from volbench.machine.placement.kubernetes.manifests import AGENT, KEEPER, SERVER
from volbench.machine.placement.kubernetes.scheduling import QUEUED, UNSCHEDULABLE, Reason, unscheduled_reasons

Object = dict[str, Any]
_AT_ONCE = {
    "ErrImageNeverPull": "image_missing",
    "InvalidImageName": "image_missing",
    "CreateContainerError": "container_refused",
    "RunContainerError": "container_refused",
}
_NEVER_PULLED = frozenset({"ErrImageNeverPull", "InvalidImageName"})
"""No registry is asked, so there is nothing to wait for."""
_SOON = {"ImagePullBackOff": "image_missing", "CreateContainerConfigError": "container_refused"}
"""Reasons of a waiting container that do not go away."""
_EVENTS_SHOWN = 6


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """Why a pod does not start, or was ended: a cause with its evidence."""

    cause: str
    what: str
    evidence: str
    final: bool
    """Waiting does not help."""
    next_step: str = ""
    at_once: bool = False
    """Nothing can pass in a moment."""


def status_of(pod: Object, name: str) -> Object:
    """Return the status of one of the pod's containers; empty before it has one."""
    status = pod.get("status", {})
    statuses = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    return next((container_status for container_status in statuses if container_status["name"] == name), {})


def has_ended(pod: Object, name: str) -> bool:
    """Return whether a container has ended."""
    return "terminated" in status_of(pod, name).get("state", {})


def is_running(pod: Object, name: str) -> bool:
    """Return whether a container runs."""
    return "running" in status_of(pod, name).get("state", {})


def is_over(pod: Object) -> bool:
    """Return whether all containers of the pod have ended."""
    return pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}


def pinned_node(pod: Object) -> str:
    """Return the node that the pod must run on as its run's other cells do; empty if there is none."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    follows = pod["spec"].get("affinity", {}).get("podAffinity", {}).get(required)
    return str(pod["metadata"].get("annotations", {}).get(NODE_OF_RUN, "")) if follows else ""


def _further(pod: Object) -> str:
    """Return `further ` for a pod that must avoid the nodes that its run has measured on already."""
    return "further " if FURTHER_NODE in pod["metadata"].get("annotations", {}) else ""


def _unscheduled(pod: Object, message: str, claim_events: Sequence[Object]) -> Trouble:
    reasons = unscheduled_reasons(message, claim_events)
    further = _further(pod)
    if further and reasons and reasons[0].cause == QUEUED:  # this run's own holders are among those in the way
        reasons = [Reason(UNSCHEDULABLE, "all nodes have a holder of this run, or cells of another", "add a node")]
    cause = reasons[0].cause if reasons else UNSCHEDULABLE
    whats = "; ".join(dict.fromkeys(reason.what for reason in reasons))
    node = pinned_node(pod)
    if cause == QUEUED:
        summary = whats
    elif node:
        summary = f"node {node}, on which this run measures, cannot run the pod"
        summary += f": {whats}" if whats else ""
    else:
        summary = f"no {further}node can run the pod: {whats}" if whats else "no node can run the pod"
    next_step = next((reason.next_step for reason in reasons if reason.next_step), "")
    return Trouble(cause=cause, what=summary, evidence=message, final=False, next_step=next_step)


def mount_trouble(events: Sequence[Object]) -> Trouble | None:
    """Return why the node cannot attach or mount the claim's volume; None if no event says so."""
    for event in reversed(events):
        if event.get("reason") in {"FailedAttachVolume", "FailedMount", "ProvisioningFailed"}:
            return Trouble(
                cause="volume_pending",
                what="the claim's volume cannot be provisioned, attached or mounted",
                evidence=f"{event['reason']}: {event.get('message')}",
                final=False,
            )
    return None


_OTHER_ARCHITECTURE = re.compile(
    r"no match for platform in manifest|no matching manifest for \S+"
    r"|no image found in (?:manifest list|image index)|exec format error"
)
"""Of containerd, Docker and CRI-O, which find no image for the node in the registry; of the kernel (ENOEXEC)."""
_ARCHITECTURE_STEP = (
    "push the image for the node's architecture (`docker buildx build --platform linux/amd64,linux/arm64`),"
    " or choose nodes with --target-option selector=kubernetes.io/arch=amd64"
)


def architecture_trouble(pod: Object, name: str, events: Sequence[Object] = ()) -> Trouble | None:
    """Return the trouble of an image that was not built for the node's architecture; None without a sign of it.

    A registry's image without that architecture cannot be pulled. One that is on the node all the same is refused
    by the kernel: its last log line, which the container's termination message repeats, is `exec format error`.

    Args:
        events: of the pod; some kubelets give the reason only there.
    """
    status = status_of(pod, name)
    states = [status.get(when, {}) for when in ("state", "lastState")]
    texts = [str(details.get("message", "")) for state in states for details in state.values()]
    image = str(status.get("image", ""))
    texts += [message for event in events if image and image in (message := str(event.get("message", "")))]
    text = next((message for message in texts if _OTHER_ARCHITECTURE.search(message)), None)
    if text is None:
        return None
    return Trouble(
        cause="image_architecture",
        what=f"the image {image} is not for the architecture of node {_node_name(pod)}",
        evidence=f"container {name}: {text.strip()}",
        final=True,
        next_step=_ARCHITECTURE_STEP,
    )


def _node_name(pod: Object) -> str:
    return str(pod["spec"].get("nodeName", "(none yet)"))


def waiting_trouble(
    pod: Object, claim_events: Sequence[Object] = (), events: Sequence[Object] = ()
) -> Trouble | None:
    """Return why a pod does not start; None if unknown.

    Args:
        claim_events: of the pod's claim, the oldest first.
        events: of the pod.
    """
    for condition in pod.get("status", {}).get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return _unscheduled(pod, str(condition.get("message", "")), claim_events)
    for name in (SERVER, AGENT, KEEPER):
        if wrong := architecture_trouble(pod, name, events):
            return wrong
        waiting = status_of(pod, name).get("state", {}).get("waiting", {})
        reason = waiting.get("reason", "")
        cause = _AT_ONCE.get(reason) or _SOON.get(reason)
        if cause is not None:
            image = status_of(pod, name).get("image", "")
            return Trouble(
                cause=cause,
                what=f"the image {image} cannot be pulled"
                if cause == "image_missing"
                else "a container is refused",
                evidence=f"container {name}: {reason}: {waiting.get('message', '')}",
                final=True,
                at_once=reason in _NEVER_PULLED,
            )
    return None


def ended_trouble(pod: Object) -> Trouble | None:
    """Return why the pod or one of its containers ended, if not by the agent itself."""
    status = pod.get("status", {})
    if full := _storage_limit(status):
        return full
    if status.get("reason") in {"Evicted", "NodeLost", "Preempting", "NodeShutdown", "Terminated"}:
        cause = "node_lost" if status["reason"] in {"NodeLost", "NodeShutdown", "Terminated"} else "evicted"
        return Trouble(
            cause=cause,
            what=f"the cluster ended the pod: {status['reason']}",
            evidence=str(status.get("message", "")),
            final=True,
        )
    for condition in status.get("conditions", []):
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True":
            lost = condition.get("reason") in {"DeletionByTaintManager", "DeletionByPodGC"}
            return Trouble(
                cause="node_lost" if lost else "evicted",
                what="the cluster ended the pod",
                evidence=f"{condition.get('reason')}: {condition.get('message', '')}",
                final=True,
            )
    for name in (SERVER, AGENT):
        if wrong := architecture_trouble(pod, name):
            return wrong
        container_status = status_of(pod, name)
        for state in (container_status.get("state", {}), container_status.get("lastState", {})):
            ended = state.get("terminated", {})
            if ended.get("reason") == "OOMKilled":
                return Trouble(
                    cause="oom",
                    what=f"the {name}'s container was killed for lack of memory",
                    evidence=_end(ended),
                    final=True,
                )
    return _deleted(pod) or _server_killed(pod)


_STORAGE_LIMIT = re.compile(r"exceeds the (total )?limit|exceeded its local ephemeral storage limit")
"""Of the kubelet's eviction manager, for an emptyDir, all containers and one."""


def _storage_limit(status: Object) -> Trouble | None:
    """Return the trouble of a pod that was evicted for what it wrote itself: another one would do so too."""
    message = str(status.get("message", ""))
    if status.get("reason") != "Evicted" or not _STORAGE_LIMIT.search(message):
        return None
    return Trouble(
        cause="storage_limit",
        what="the pod wrote more to the node's disk than it may",
        evidence=message.strip(),
        final=True,
        next_step="--target-option ephemeral_storage=SIZE is the limit of containers that have one",
    )


def _deleted(pod: Object) -> Trouble | None:
    """Return the trouble of a deleted pod; only for pods that volbench did not delete."""
    moment = pod["metadata"].get("deletionTimestamp")
    if moment is None:
        return None
    return Trouble(cause="pod_deleted", what="another client deleted the pod", evidence=f"at {moment}", final=True)


def _server_killed(pod: Object) -> Trouble | None:
    """Return the trouble of a killed server; after its command `quit` the supervisor exits with 0."""
    container_status = status_of(pod, SERVER)
    ends = [container_status.get(when, {}).get("terminated", {}) for when in ("state", "lastState")]
    ended = next((end for end in ends if end.get("exitCode", 0) != 0), None)
    if ended is None:
        return None
    return Trouble(
        cause="server_killed",
        what="another process ended the server's container",
        evidence=_end(ended),
        final=True,
    )


def _end(ended: Object) -> str:
    return f"{ended.get('reason')}, exit code {ended.get('exitCode')}, at {ended.get('finishedAt')}"


def describe_pod(pod: Object | None, events: Sequence[Object], logs: str) -> str:
    """Return node, containers, last events and last log lines, for a message."""
    return "\n".join(
        [*_lines(pod), *(_event(event) for event in events[-_EVENTS_SHOWN:]), *filter(None, [logs.strip()])]
    )


def _lines(pod: Object | None) -> Iterator[str]:
    if pod is None:
        yield "pod: none"
        return
    status = pod.get("status", {})
    node = pod["spec"].get("nodeName", "no node yet")
    yield f"pod {pod['metadata']['name']} on {node}: {status.get('phase')} {status.get('reason', '')}".rstrip()
    for name in (SERVER, AGENT, KEEPER):
        for when in ("state", "lastState"):
            for state_name, details in status_of(pod, name).get(when, {}).items():
                texts = [str(details[key]) for key in ("reason", "message") if details.get(key)]
                code = f", exit code {details['exitCode']}" if "exitCode" in details else ""
                prefix = "before, " if when == "lastState" else ""
                yield f"{prefix}container {name}: {state_name} {': '.join(texts)}{code}"


def _event(event: Object) -> str:
    count = event.get("count") or 1
    return f"event {event.get('reason')}: {event.get('message')}" + (f" (x{count})" if count > 1 else "")
