"""The rule that names a limit of the disks below a volume's device, which the device itself does not show."""

from __future__ import annotations

from collections.abc import Iterator

from volbench.core.records.report import EvidenceRow
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.evidence.disk_limits import DiskLimit
from volbench.results.explain.rule import (
    BALANCE,
    BURST,
    DISK_LIMIT,
    EXPLAINS_WAITS,
    INSTANCE,
    OUTSIDE,
    SHARED_LIMIT,
    Rule,
)
from volbench.results.explain.rules.advice import raise_limit_advice
from volbench.results.explain.rules.shared_evidence import context, explains_little
from volbench.results.explain.rules.volume.limits import queue_share
from volbench.results.explain.rules.volume.plateau_rows import (
    DECIDED_ELSEWHERE_MAX,
    LIMIT_CAUSE,
    contrast_rows,
    decided_by,
    either_rows,
    elsewhere_rows,
)
from volbench.results.explain.wording import amount, number, row


def limits_of_disks(case: Case) -> Iterator[Cause]:
    """One finding for each resource: the longest level of the disks."""
    if not case.disk_limits or explains_little(case):
        return
    either = [*either_rows(case, [limit.plateau for limit in case.disk_limits])]
    for resource, cause in LIMIT_CAUSE.items():
        met = [limit for limit in case.disk_limits if limit.plateau.resource == resource]
        if not met:
            continue
        longest = max(met, key=lambda limit: limit.plateau.last - limit.plateau.first)
        plateau = longest.plateau
        yield Cause(
            cause=cause,
            window_s=plateau.window_s,
            share=queue_share(case, plateau),
            checks=tuple(check.holds for check in plateau.checks),
            one_of_two=bool(either),
            decided_by=decided_by(plateau),
            confidence_max=DECIDED_ELSEWHERE_MAX if longest.is_decided_elsewhere else 1.0,
            evidence=(
                *_rows(case, longest),
                *elsewhere_rows(case, longest.elsewhere),
                *contrast_rows(longest.size_contrast),
                *either,
                *context(case),
            ),
            advice=f"This is about {_names(case, longest.disks)}. {raise_limit_advice(case, resource, None)}",
        )


def _names(case: Case, disks: tuple[str, ...]) -> str:
    which = f"the disk {disks[0]}" if len(disks) == 1 else f"the disks {', '.join(disks)} together"
    return which if case.disk is None or case.disk in case.disks else f"{which} below {case.disk}"


def _rows(case: Case, limit: DiskLimit) -> Iterator[EvidenceRow]:
    plateau = limit.plateau
    waited = f", an operation takes {number(plateau.await_ms)} ms" if plateau.await_ms is not None else ""
    gives = "gives" if len(limit.disks) == 1 else "give"
    text = (
        f"{_names(case, limit.disks)} {gives} {amount(plateau.level, plateau.resource)} and no more, with"
        f" {plateau.in_flight:.0f} operations in flight{waited}"
    )
    yield row(f"disk_{plateau.resource}", plateau.level, plateau.unit, text)
    for check in plateau.checks:
        if check.holds:
            yield row(check.name, check.value, "1", check.text)


RULES = (
    Rule(
        name=DISK_LIMIT,
        causes=frozenset(LIMIT_CAUSE.values()),
        subject="volume",
        find=limits_of_disks,
        yields_to=EXPLAINS_WAITS | {SHARED_LIMIT, INSTANCE, BURST, BALANCE},
        after=OUTSIDE,
    ),
)
