"""What helps at a limit, as the kind of volume and the step allow: how to get more, and how to need less."""

from __future__ import annotations

from functools import cache

from volbench.core.profile.files import is_profile_path, whole_profile
from volbench.core.records.named_metrics import Innodb
from volbench.core.records.steps import step_kind
from volbench.errors import UsageError
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.device import Resource
from volbench.results.stats.grid import mean

_UNIT: dict[Resource, str] = {"iops": "IOPS", "throughput": "throughput"}
_SEVERAL_STATEMENTS = "a larger buffer pool, fewer writes per transaction"


def more(case: Case, resource: Resource) -> str:
    """Return an order that gets more of a resource from this kind of volume: `Provision more IOPS`.

    A kind of volume whose profile says neither how nor that it is provisioned is one of which nothing is known.
    """
    return _of_profile(case.profile, resource) or (
        f"Provision more {_UNIT[resource]} or enlarge the volume, whichever its type allows"
    )


@cache
def _of_profile(name: str, resource: Resource) -> str:
    if not name or is_profile_path(name):
        return ""
    try:
        profile = whole_profile(name)
    except UsageError:  # of another version
        return ""
    if text := profile.more.get(resource):
        return text
    return f"Provision more {_UNIT[resource]}" if resource in profile.parameters else ""


def fewer(case: Case, resource: Resource) -> str:
    """Return what needs less of a resource: `; or fewer operations: look at the buffer pool`; empty: nothing does.

    A step that measures the volume itself (fio) has nothing to save.
    """
    kind, reads = step_kind(case.kind), _reads_rule(case)
    if case.recorded and case.budget is None and not case.variables:  # whether a server runs there is not known
        return f"; or fewer operations (of a server: {_SEVERAL_STATEMENTS})"
    if kind.transactions or case.recorded:
        return f"; or fewer operations: look at the {'buffer pool' if reads else 'writes per transaction'}"
    if kind.has_statements:
        return f"; or less data to {'read' if reads else 'write'}, or another time for it"
    if kind.queue_swept:
        return ""
    return "; or fewer and larger operations" if resource == "iops" else "; or less data"


def fewer_of_none(case: Case) -> str:
    """Return what needs fewer operations where each is short already."""
    if step_kind(case.kind).transactions or case.recorded:
        return f"Fewer operations help (a larger buffer pool{', commits in groups' if commits(case) else ''})"
    return "Fewer operations help"


def commits(case: Case) -> bool:
    """Return whether the server commits in the step: as it counts, or as loads of transactions do."""
    counted = mean(case.at(Innodb.commits_per_s))
    return step_kind(case.kind).transactions if counted is None else counted > 0


def _reads_rule(case: Case) -> bool:
    if case.device is None or case.device.reads is None or case.device.writes is None:
        return True
    return (mean(case.device.reads) or 0.0) >= (mean(case.device.writes) or 0.0)
