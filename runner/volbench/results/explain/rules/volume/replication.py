"""The rule that names replication: a pool's disks are at their limits, and much of what they do is copies.

A pool of N disks that may do L operations a second each serves N x L reads a second. Each write costs one operation
for each copy, and again for a log where a disk has one: A operations. So it serves N x L / A writes a second. All
of it is counted: A by what the disks did for the client's writes, N and L by disk.
"""

from __future__ import annotations

from collections.abc import Iterator

from volbench.results.explain import thresholds as limit
from volbench.results.explain.accounts.pool import Pool, pool_of
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.rule import COPIES, EXPLAINS_WAITS, OUTSIDE, Rule
from volbench.results.explain.rules.shared_evidence import context
from volbench.results.explain.topics import USE_OF_VOLUME
from volbench.results.explain.wording import number, percent, row

CAUSES = (
    CauseInfo(
        name="storage.replication",
        group="the volume is at a limit",
        title="The disks of the pool are busy with copies",
        panels=("iops", "await"),
        accounts_for=USE_OF_VOLUME,
        options=frozenset({"osd", "osds", "replicas"}),
        meaning=(
            "The volume is a pool of disks (Ceph RBD; emulated volumes only, today). Its disks are at their"
            " limits, and much of what they do is copies: each write is written once for each copy, and again for"
            " a log where a disk has one."
        ),
        signs=(
            "The disks' own counters: a disk reaches 90 % of its limit in at least 10 % of the time, and"
            " together the disks do at least 1.5 times as many writes as the client, and at least 15 % of their"
            " operations are the additional ones. N disks of L operations a second serve N × L reads, and N × L"
            " divided by the disk writes for a write; L is the lowest limit that a disk had in the step, since"
            " burst credits do not last. The finding has all of these figures; the summary of a comparison states"
            " how copies and disks differ between two pools."
            " The name of the volume or of its profile plays no part. Emulated volumes count each disk today;"
            " counters of a real cluster's OSDs are not sampled yet, so on real Ceph the cause is not named."
        ),
        advice=(
            "More disks raise reads and writes in proportion. One copy fewer raises writes only, and tolerates"
            " one disk failure fewer. A log on another device takes its writes off the disks."
        ),
        waits="even",
    ),
)


def replication_findings(case: Case) -> Iterator[Cause]:
    """One finding where disks are at their limits and a write of the client costs several of their operations."""
    pool = None if case.device is None else pool_of(case.grid)
    if pool is None or pool.per_write < limit.REPLICATION_MIN or pool.at_limit_share < limit.POOL_TIME_MIN:
        return
    if pool.copied_share < limit.SHARE_MIN:
        return  # the disks read: what few writes cost in copies is not what fills them
    yield Cause(
        cause="storage.replication",
        decided_by="counted",
        window_s=case.window_s,
        share=pool.at_limit_share * pool.copied_share,
        checks=(True, pool.at_limit_share >= 0.5, pool.disk_per_s >= limit.POOL_FULL * pool.limit_per_s),
        evidence=(
            row(
                "disk_writes_per_write",
                pool.per_write,
                "1",
                f"{number(pool.client_writes_per_s)} writes a second of the client became {number(pool.per_write)}"
                f" each on {pool.disks} disks: copies, and the writes of a log where a disk has one",
            ),
            row(
                "disk_operations_per_s",
                pool.disk_per_s,
                "1/s",
                f"the disks did {number(pool.disk_per_s)} operations a second and may do"
                f" {number(pool.limit_per_s)}{pool.at_which_limit}; the busiest was at its limit in"
                f" {percent(pool.at_limit_share)} of the time",
            ),
            row(
                "pool_writes_per_s_max",
                pool.writes_per_s_max,
                "1/s",
                f"so the pool serves at most {number(pool.writes_per_s_max)} writes a second, and"
                f" {number(pool.limit_per_s)} reads{pool.at_which_limit}",
            ),
            *context(case),
        ),
        advice=_advice(pool),
    )


def _advice(pool: Pool) -> str:
    fewer = pool.limit_per_s / max(1.0, pool.per_write - 1)
    twice = 2 * pool.writes_per_s_max
    return (
        f"{2 * pool.disks} disks like these serve at most {number(twice)} writes a second{pool.at_which_limit}."
        f" With one disk write less for each, {pool.disks} disks serve {number(fewer)}: with a log on another"
        " device, or with a copy less, which is a failed disk less until data is lost. Reads gain from disks, not"
        " from fewer copies."
    )


RULES = (
    Rule(
        name=COPIES,
        causes=frozenset({"storage.replication"}),
        subject="volume",
        find=replication_findings,
        yields_to=EXPLAINS_WAITS,
        yields_to_much=OUTSIDE,
    ),
)
