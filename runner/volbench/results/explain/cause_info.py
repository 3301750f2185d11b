"""What a cause is: its words in reports and documentation, and how findings weigh it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from volbench.results.explain.objection import Claim, Suggestion
from volbench.results.explain.quantile import Waits, WaitTime
from volbench.results.explain.topics import Topic

Group = Literal[
    "the volume is at a limit",
    "the volume is slow",
    "the host or the instance",
    "something else uses the disk or the CPUs",
    "the server or the client",
    "the way to the server",
    "not the volume",
]
GROUPS: tuple[Group, ...] = get_args(Group)
"""In the order of docs/causes.md."""
State = Literal["busy CPUs", "CPUs busy with others"]
"""A state of the host, see `stretch_findings`."""
ExplainsCollapse = Literal["", "always", "where CPUs are what became longer"]
"""Whether a cause explains that a load did next to nothing for a while, see `collapses`; empty: it does not."""
ShareOf = Literal["statements", "clients", "clients where waits for CPUs are counted"]
"""Whose time a share is of: of statements' time, or of the clients', which is more; see `clients_time`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CauseInfo:
    """A cause that a finding may name.

    Args:
        name: such as `storage.iops_limit`.
        group: its part of docs/causes.md.
        title: the heading in reports, a sentence without its full stop.
        meaning, signs, advice: paragraphs of docs/causes.md, in Markdown; signs with the figures of the rule.
        panels: keys of the charts that show it, the best first.
        accounts_for: what moves because of it, so that a metric of this with which p95 moves is no second story,
            see `topics`; empty: it says of no metric that it moves.
        options: options of a volume or a server that act on it.
        moment: what happens at the begin of its window, for the timelines; empty for a cause without a moment.
        all_along: it is there during the whole step; of a part that something else made slow it explains less.
        explains_fall: it explains why a load does much less for a while.
        explains_collapse: so it does of a collapse, other than by `explains_fall` and `is_change`.
        by_medians: the rule compares medians of a step with a threshold.
        is_change: the whole step is needed to see it.
        waits_for_volume: what it explains are waits for the volume, or another's use of it, which a faster one
            shortens; so are those of causes of the volume itself.
        uses_up_cpus: it says that CPUs are what is used up.
        claims: what it claims, so that the check can rebuild and refute it, see `check.objections`.
        waits: how even the waits are that it makes, from which the check rebuilds p95, see `check.claimed`.
        wait_time: the seconds of sessions that it makes longer: p95 is rebuilt as they vary in its time.
        share_of: whose time its share is of.
        yields_to: causes whose doing it is where it shows in a stretch of the step only: not named then.
        yields_to_falls: so is what explains a fall of the load: not named then.
        state: so is this state of the host, where it is there in the rest of the step: not named then.
        effect_of: causes that make it: at the time of one of these it is named only where it shows without it, too.
        brings: causes that are its doing as far as it took speed, where their time lies within its own.
        left_by: causes that take of the level that it names: at the time of one of these it is what they leave.
        suppresses: causes that are the same operations seen with less: not named beside it.
        suggested_as: it is what objections to other findings suggest by this name, see `suggestions`.
        contradicts: causes that cannot be true of the same seconds beside it; the surer one stays, and two that
            are as sure are one of two.
    """

    name: str
    group: Group
    title: str
    meaning: str
    signs: str
    advice: str
    panels: tuple[str, ...]
    accounts_for: frozenset[Topic] = frozenset()
    options: frozenset[str] = frozenset()
    moment: str = ""
    all_along: bool = False
    explains_fall: bool = False
    explains_collapse: ExplainsCollapse = ""
    by_medians: bool = False
    is_change: bool = False
    waits_for_volume: bool = False
    uses_up_cpus: bool = False
    claims: frozenset[Claim] = frozenset()
    waits: Waits = "counted"
    wait_time: WaitTime = "storage"
    share_of: ShareOf = "statements"
    yields_to: frozenset[str] = frozenset()
    yields_to_falls: bool = False
    state: State | None = None
    effect_of: frozenset[str] = frozenset()
    brings: frozenset[str] = frozenset()
    left_by: frozenset[str] = frozenset()
    suppresses: frozenset[str] = frozenset()
    suggested_as: Suggestion = ""
    contradicts: frozenset[str] = frozenset()

    @property
    def is_of_volume(self) -> bool:
        """Whether it is a limit or the slowness of the volume itself."""
        return self.group in GROUPS[:2]

    @property
    def is_of_others(self) -> bool:
        """Whether it is something else that uses the disk or the CPUs."""
        return self.group == "something else uses the disk or the CPUs"

    @property
    def is_helped_by_volume(self) -> bool:
        """Whether a faster volume shortens what it explains."""
        return self.waits_for_volume or self.is_of_volume
