"""The rule that names a limit which all users of a volume share: what stays as it is while others come and go."""

from __future__ import annotations

from collections.abc import Iterator

from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.evidence.device import conserved_resource
from volbench.results.explain.rule import EXPLAINS_WAITS, OUTSIDE, SHARED_LIMIT, Rule
from volbench.results.explain.rules.advice import raise_limit_advice
from volbench.results.explain.rules.host.foreign import foreign_intervals
from volbench.results.explain.rules.shared_evidence import context, explains_little, queue_holds
from volbench.results.explain.rules.volume.plateau_rows import LIMIT_CAUSE
from volbench.results.explain.wording import amount, number, row
from volbench.results.stats.grid import Mask


def shared_limit(case: Case) -> Iterator[Cause]:
    """The limit that this server and others share, where they come or go within the step."""
    active = None if case.foreign is None else foreign_intervals(case, case.foreign)
    if active is not None:
        yield from _conserved(case, active)


def _conserved(case: Case, during: Mask) -> Iterator[Cause]:
    """A limit that shows in what stays the same while others' I/O changes what the device is asked for.

    Args:
        case: the step.
        during: intervals with the others' I/O, shape (buckets,).
    """
    conserved = None if case.active_device is None else conserved_resource(case.active_device, during)
    if conserved is None or explains_little(case):
        return
    resource, level, changed = conserved
    free = "operations" if resource == "throughput" else "bytes"
    text = (
        f"with others' I/O and without it the device gives {amount(level, resource)}, while {free} a second change"
        f" {number(changed)} times: it has a rate of its own, and all who use it share it"
    )
    yield Cause(
        cause=LIMIT_CAUSE[resource],
        window_s=case.window_s,
        share=case.storage_share,
        checks=(True, queue_holds(case)),
        decided_by="before and after",
        evidence=(row(resource, level, "1/s" if resource == "iops" else "MiB/s", text), *context(case)),
        advice=raise_limit_advice(case, resource, level),
    )


RULES = (
    Rule(
        name=SHARED_LIMIT,
        causes=frozenset(LIMIT_CAUSE.values()),
        subject="volume",
        find=shared_limit,
        yields_to=EXPLAINS_WAITS,
        after=OUTSIDE,
    ),
)
