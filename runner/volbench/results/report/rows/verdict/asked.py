"""The caveat that a volume is not what its storage class asks for: measured limits and facts against parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from volbench.core.base.text import number
from volbench.core.records.facts import VolumeFacts
from volbench.core.records.report.findings import FindingRow

_EBS = frozenset({"ebs.csi.aws.com", "ebs.csi.eks.amazonaws.com"})
_FILESYSTEM = ("csi.storage.k8s.io/fstype", "fsType", "fstype")
_GP3 = {"iops": 3000.0, "throughput": 125.0}
"""What a gp3 volume has where its class names nothing (EBS user guide)."""
_PROVISIONED = {"gp3": ("iops", "throughput"), "io1": ("iops",), "io2": ("iops",)}
"""By volume type, which parameters are a limit; that of a gp2 follows from its size."""
_RESOURCES = {
    "storage.iops_limit": ("iops", "IOPS"),
    "storage.throughput_limit": ("throughput", "MiB/s"),
}
_TOLERANCE = 0.1
"""EBS gives provisioned volumes their IOPS within 10 % for 99 % of the time (EBS user guide)."""
WHOLE_LIMIT = "and no more"
"""In the evidence of a limit that the volume has met, and that is not one of its bursts or of one direction."""


def class_caveats(volumes: Mapping[str, VolumeFacts], findings: Sequence[FindingRow]) -> Iterator[str]:
    """Yield a sentence for each volume that is not, or may not be, what its class asks for."""
    for name, facts in volumes.items():
        if facts.class_is_newer:
            yield (
                f"The storage class of volume {name} was made after the volume: what it asks for may not be what"
                " the volume has."
            )
        filesystem = next(
            (facts.class_parameters[key] for key in _FILESYSTEM if key in facts.class_parameters), None
        )
        if filesystem and facts.filesystem and filesystem != facts.filesystem:
            has = f"but the volume has {facts.filesystem}"
            yield f"The storage class of volume {name} asks for {filesystem}, {has}."
        yield from _limits(
            name, facts, [finding for finding in findings if finding.volume == name and finding.valid]
        )


def _limits(name: str, facts: VolumeFacts, findings: Sequence[FindingRow]) -> Iterator[str]:
    """Yield where a limit that was measured is not that of the class: the nearest of several, with both figures."""
    requested = requested_limits(facts)
    for cause, (resource, unit) in _RESOURCES.items():
        levels = [
            float(row.value)
            for finding in findings
            if finding.cause == cause and not finding.component
            for row in finding.evidence
            if row.metric == resource and isinstance(row.value, float | int) and _is_whole(row.text)
        ]
        limit = requested.get(resource)
        if not levels or limit is None:
            continue
        level = min(levels, key=lambda measured: abs(measured - limit))
        if abs(level - limit) > _TOLERANCE * limit:
            reasons = (
                "the instance's own limit, operations that count more than once, or a volume that is another one"
                if level < limit
                else "the volume is another one, or was changed"
            )
            yield (
                f"The storage class of volume {name} asks for {number(limit)} {unit}, but the volume met a limit at"
                f" {number(level)} {unit} ({reasons})."
            )


def requested_limits(facts: VolumeFacts) -> dict[str, float]:
    """Return IOPS and MiB/s that the class asks for; without those that are unknown, or follow from the size."""
    if facts.class_driver not in _EBS:
        return {}
    parameters = facts.class_parameters
    kind = parameters.get("type", "gp3")
    requested = dict(_GP3) if kind == "gp3" else {}
    for resource in _PROVISIONED.get(kind, ()):
        text = parameters.get(resource, "")
        if text.isascii() and text.isdigit():
            requested[resource] = float(text)
    return requested


def _is_whole(text: str) -> bool:
    return WHOLE_LIMIT in text and not any(f" of {direction}s" in text for direction in ("read", "write"))
