"""When a volume is full at production's load: data grow without end, binary logs until the first is removed.

The replay tells what the log adds to the files, and the log's mean load is taken to go on for so much of each day
as the plan says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from volbench.profile.resolve import resolve_spec
from volbench.records.gate import Decision
from volbench.records.validation import CheckRow, GrowthOutlook, GrowthPlan, Replayed
from volbench.validation.burst import INTERVALS_MIN, LEFT_OUT, relative_reach
from volbench.validation.file_sizes import Stored
from volbench.validation.move import spoken_s
from volbench.validation.volume_load import Count
from volbench.volume.facts.discovery import discover

DAY_S = 86400.0
_TARGET = re.compile(r"(?:insert|replace)\b.*?\binto\s+(\S+)|update\s+(\S+)")
_ADDS = ("insert", "replace", "update", "call")


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Bytes a second of the log, with both ends of a 95 % interval."""

    likely: float
    low: float
    high: float

    def a_day(self, busy_s: float) -> tuple[float, float, float]:
        """Bytes a day with so many seconds like the log's."""
        return self.likely * busy_s, self.low * busy_s, self.high * busy_s


@dataclass(frozen=True, kw_only=True)
class Growth:
    """What a second of the log adds: to data, and to binary logs where there are any."""

    data: Rate
    binlog: Rate | None


def volume_bytes(plan: GrowthPlan) -> int:
    """The size of the plan's volume. Raises UsageError for a wrong SPEC, EnvironmentLacks for no such directory."""
    if plan.volume:
        return resolve_spec(plan.volume, name="growth.volume").size_bytes
    return discover(Path(plan.data_dir)).size_bytes or 0


def growth_of(
    before: Stored | None, after: Stored | None, counts: Sequence[Count], found: Replayed
) -> Growth | None:
    """What the log adds, by the files before and after; None where they cannot be seen or the replay was too short.

    What fills a file is known to a step only, but no file is filled by more pages than were created.
    How unevenly the load writes is told by the redo log.
    """
    if before is None or after is None or len(counts) <= INTERVALS_MIN or found.log_s <= 0 or not found.sent:
        return None
    uneven = relative_reach(counts, lambda one: one.redo_bytes)
    pace = found.statements / found.sent / found.log_s
    grew = {name: size - _size(before, name) for name, size in _sizes(after) if size > _size(before, name)}
    steps = {name: after.spaces[name].step_bytes for name in {*grew, *_written(found, after)}}
    created = after.created_bytes - before.created_bytes
    least = min(created, sum(max(0, size - steps[name]) for name, size in grew.items()))
    most = min(created, sum(grew.values()) + sum(steps.values()))
    likely = min(max(sum(grew.values()), least), most)
    data = Rate(likely=pace * likely, low=pace * least * (1 - uneven), high=pace * most * (1 + uneven))
    if before.binlog_bytes is None or after.binlog_bytes is None:
        return Growth(data=data, binlog=None)
    logged = pace * (after.binlog_bytes - before.binlog_bytes)
    if logged < 0 or created < 0:
        return None  # one was removed meanwhile, or the server began anew
    return Growth(
        data=data, binlog=Rate(likely=logged, low=logged * (1 - uneven), high=logged * (1 + uneven))
    )  # fmt: skip


def outlook_of_growth(found: Growth, after: Stored, plan: GrowthPlan, size_bytes: int) -> GrowthOutlook:
    """When the volume is full, and at both ends of the interval."""
    data = found.data.a_day(plan.busy_s)
    binlog = found.binlog.a_day(plan.busy_s) if found.binlog else (None, None, None)
    room = plan.full * size_bytes - after.bytes_without_binlog
    likely, late, early = (
        full_after_s(room, of_data / DAY_S, (of_binlog or 0.0) / DAY_S, after)
        for of_data, of_binlog in zip(data, binlog, strict=True)
    )
    come_to = None
    if binlog[0] is not None and after.kept_s is not None:
        come_to = binlog[0] / DAY_S * after.kept_s + after.binlog_file_bytes
    return GrowthOutlook(
        size_bytes=size_bytes, used_bytes=after.bytes_without_binlog,
        data_per_day=data[0], data_per_day_low=data[1], data_per_day_high=data[2],
        binlog_per_day=binlog[0], binlog_per_day_low=binlog[1], binlog_per_day_high=binlog[2],
        binlog_kept_s=after.kept_s, binlog_bytes=come_to,
        full_s=likely, full_s_low=early, full_s_high=late,
    )  # fmt: skip


def full_after_s(room: float, data_per_s: float, binlog_per_s: float, after: Stored | None) -> float | None:
    """Until so much room is filled; None: never. A binary log is removed as a whole, so one more is there."""
    if room <= 0:
        return 0.0
    both = data_per_s + binlog_per_s
    within = room / both if both > 0 else None
    if after is None or after.kept_s is None or not binlog_per_s:
        return within
    if within is not None and within <= after.kept_s:
        return within
    left = room - binlog_per_s * after.kept_s - after.binlog_file_bytes
    if left <= data_per_s * after.kept_s:
        return after.kept_s
    return left / data_per_s if data_per_s > 0 else None


def growth_check(found: GrowthOutlook | None, replay: Replayed, plan: GrowthPlan) -> CheckRow:
    """go when even the early end of the interval lasts as long as asked, no-go when the late end does not."""
    if found is None:
        text = (
            f"the candidate's files were not seen to grow: the replay has to take more than {INTERVALS_MIN} s, "
            "with the rights PROCESS and REPLICATION CLIENT"
        )
        return CheckRow(check="growth", decision="undecided", text=text)
    doubts = list(_doubts(replay))
    decision: Decision = "undecided"
    if not lasts(found.full_s_high, plan):
        decision = "no-go"
    elif lasts(found.full_s_low, plan) and not doubts:
        decision = "go"
    details = (*_details(found), *doubts)
    return CheckRow(check="growth", decision=decision, text=growth_text(found, plan), details=details)


def lasts(full_s: float | None, plan: GrowthPlan) -> bool:
    """Whether that is not before it is asked for."""
    return full_s is None or full_s >= plan.lasts_s


def _sizes(of: Stored) -> Iterator[tuple[str, int]]:
    return ((name, space.filled_bytes) for name, space in of.spaces.items())


def _size(of: Stored, name: str) -> int:
    return of.spaces[name].filled_bytes if name in of.spaces else 0


def _written(found: Replayed, after: Stored) -> Iterator[str]:
    """Tablespaces of the tables that statements add to; those of triggers and procedures are not known."""
    targets = {match[1] or match[2] for one in found.classes if (match := _TARGET.match(one.fingerprint))}
    tables = {target.split(".")[-1].strip("`") for target in targets}
    for name in after.spaces:  # schema/table, with #p#partition behind it
        if name.rpartition("/")[2].partition("#")[0].lower() in tables:
            yield name


def _doubts(found: Replayed) -> Iterator[str]:
    unseen = found.left_out.get(LEFT_OUT, 0)
    if unseen:
        yield f"{unseen} statements that write were not replayed, so more is added than was seen"
    adding = [one for one in found.classes if one.fingerprint.startswith(_ADDS)]
    failed = sum(one.errors for one in adding)
    if failed:
        yield f"{failed} of {sum(one.statements for one in adding)} statements that write failed, so more is added"


def growth_text(found: GrowthOutlook, plan: GrowthPlan, load: str = "at the log's mean load") -> str:
    """When the volume is full, in words."""
    volume = f"{plan.full:.0%} of {spoken_bytes(found.size_bytes)} are used"
    asked = f"{spoken_s(plan.lasts_s)} are asked for"
    if found.full_s_low is None:
        return f"{volume} never {load}; {asked}"
    likely, low, high = (
        "never" if one is None else spoken_s(one) for one in (found.full_s, found.full_s_low, found.full_s_high)
    )
    return f"{volume} after {likely} [{low}, {high}] {load}; {asked}"


def _details(found: GrowthOutlook) -> Iterator[str]:
    yield (
        f"data grow by {spoken_bytes(found.data_per_day)} a day "
        f"[{spoken_bytes(found.data_per_day_low)}, {spoken_bytes(found.data_per_day_high)}], on top of "
        f"{spoken_bytes(found.used_bytes)} that data, undo, temporary tables and redo take now"
    )
    if found.binlog_per_day is None:
        yield "the candidate writes no binary log: one would take room too"
    elif found.binlog_kept_s is None:
        yield f"binary logs grow by {spoken_bytes(found.binlog_per_day)} a day and are never removed"
    else:
        yield (
            f"binary logs grow by {spoken_bytes(found.binlog_per_day)} a day, are kept "
            f"{spoken_s(found.binlog_kept_s)}, and come to {spoken_bytes(found.binlog_bytes or 0)}"
        )


def spoken_bytes(amount: float) -> str:
    """Bytes as one says them."""
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20)):
        if amount >= size:
            return f"{amount / size:.3g} {unit}"
    return f"{amount / 1024:.3g} KiB"
