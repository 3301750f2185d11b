"""A rule: what finds a cause, and which other findings it gives way to. All of it is data, see `deciding`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause

Finder = Callable[[Case], Iterable[Cause]]
Subject = Literal["volume", "step"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One way to find causes in a step, independent of all other rules.

    The sets hold names of rules, or of causes whatever rule finds them. To what does not stand nothing gives way.

    Args:
        name: what docs/causes.md calls it, in words.
        causes: that it may name.
        find: yields what it finds in a step, as if there were no other rule.
        subject: the data's volume, or all of the step; they differ where a server's files are on several volumes.
        yields_to: it does not stand beside one of these.
        yields_to_much: nor beside one of these that explains enough, see `deciding.is_much`.
        yields_to_leading: nor beside one of these that explains enough and leads, see `Cause.leads`.
        yields_within: a finding does not stand whose time lies within that of one of these.
        needs: it stands beside one of these only.
        sound_beside: beside one of these it stands only where no check of it failed.
        one_of_two_with: where its own finding is one of two, so are these; of the latency it explains what they do.
        after: it explains less than these where one of them explains enough and leads, else they less than it.
    """

    name: str
    causes: frozenset[str]
    find: Finder
    subject: Subject = "step"
    yields_to: frozenset[str] = frozenset()
    yields_to_much: frozenset[str] = frozenset()
    yields_to_leading: frozenset[str] = frozenset()
    yields_within: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    sound_beside: frozenset[str] = frozenset()
    one_of_two_with: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()

    @property
    def before(self) -> frozenset[str]:
        """What must be decided before it can be."""
        return self.yields_to | self.yields_to_much | self.yields_to_leading | self.yields_within | self.needs


CACHE_TAKEN, LAZY_LOAD, FEW_OPERATIONS = "page cache taken back", "blocks being fetched", "slow at few operations"
MEMORY_LIMIT = "memory limit met"
ABOVE, METER = "time lost above the device", "scan behind a meter"
FOREIGN = "balance of layers"
SHARED_LIMIT, INSTANCE, BURST = "limit shared with others", "instance's counters", "burst that ended"
BALANCE, PLATEAU = "balance of credits", "plateau with a queue"
DISK_LIMIT = "plateau of a disk below"
SLOWER = "slower from some time on"
READ_AHEAD, STREAMS = "small read-ahead", "streams that wait"
SLOW_FILES, SLOW_UNSEEN = "slow reads and syncs", "slow reads and syncs, device unseen"
LIKELY_LIMIT = "limit or slow volume"
COPIES, METADATA, STALL, ALL_ALONG = (
    "disks of a pool",
    "trips without data",
    "volume stood still",
    "queue all along",
)
SHARED_VOLUME, PIECES = "volume serves more than was sent", "volume counts pieces"
CLIENT_BUSY, CLIENT_HELD, SERVER_HELD, CPUS = (
    "busy load generator",
    "load held back",
    "server held back",
    "busy CPUs",
)
SYNCS_ON_CPUS = "syncs that wait for a CPU"
CONNECTION = "way to the server"

EXPLAINS_WAITS = frozenset({CACHE_TAKEN, LAZY_LOAD, FEW_OPERATIONS})
"""Rules that explain all of the device's waiting times: what names its limits or its latency gives way."""
OUTSIDE = frozenset({ABOVE, METER, FOREIGN})
"""Rules that name what is not the volume itself: what holds operations back above it, and who else uses it."""
LIMITS = frozenset({SHARED_LIMIT, INSTANCE, BURST, BALANCE, PLATEAU, DISK_LIMIT})
SLOW = frozenset({STREAMS, SLOW_FILES, READ_AHEAD})
