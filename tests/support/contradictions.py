"""What two findings of one volume and step may not both say, read from the sentences and figures of their rows.

Nothing of the rules is used but which causes a faster volume helps: what a reader sees is what is compared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, groupby, permutations

import numpy as np

from volbench.core.records.report import EvidenceRow, FindingRow
from volbench.results.explain.causes import CAUSES
from volbench.results.explain.evidence.device import Device
from volbench.results.stats.grid import Floats

NO_HELP = re.compile(r"(faster|larger) (volume|one)[^.:]* (chang|would not|does not|not help)", re.IGNORECASE)
ACQUITS = re.compile(r"[Tt]he volume is (not what limits|neither slow nor at a limit)")
FAST = (
    (
        re.compile(r"[Tt]he volume (answers|is) fast\b"),
        re.compile(r"storage\.(read|sync)_latency|storage\.degraded"),
    ),
    (re.compile(r"\breads? (of it )?(is|are) fast\b"), re.compile(r"storage\.(read_latency|degraded)")),
)
"""What is said to be fast, and causes that say the contrary."""
MORE_CPU = re.compile(r"More CPU|give the server CPUs|more CPUs")
BUSY = re.compile(r"CPUs are (\d+) % busy")
BUSY_MIN = 85
HELD_BACK = ("held_back_s_per_s", "server_throttled_ratio", "client_throttled_ratio", "client_cpu_ratio", "sync_ms")
"""Evidence of a quota, of a client that one CPU limits, or of syncs that wait: idle CPUs do not contradict it."""
LEVELS = {
    "iops": ("iops", "read_iops", "write_iops"),
    "throughput": ("throughput", "read_throughput", "write_throughput"),
}
NO_MORE, MAY = (
    re.compile(r"and no more|limited to|limit was exceeded|the limit is"),
    re.compile(r" may (read|write) "),
)
ALIKE = 0.1
"""Levels that lie nearer to each other are of one limit."""
SERVED_ABOVE = 1.25
WHOLE = 1.01
"""Of the latency: what causes of one step explain together at most, as whole percents are read."""


def contradictions(rows: Iterable[FindingRow]) -> list[str]:
    """Return a sentence for each pair of findings of one volume and step that contradict each other."""
    ordered = sorted(rows, key=lambda row: (row.volume, row.step, row.component or ""))
    sentences = []
    for (volume, step), of_step in groupby(ordered, key=lambda row: (row.volume, row.step)):
        page = [*of_step]
        sentences += [f"{volume} {step}: {text}" for text in _more_than_all(page)]
        for first, second in permutations(page, 2):
            sentences += [f"{volume} {step}: {text}" for text in _one_way(first, second)]
        for first, second in combinations(page, 2):
            sentences += [f"{volume} {step}: {text}" for text in _limits(first, second)]
    return sentences


def _more_than_all(page: Sequence[FindingRow]) -> Iterator[str]:
    """Shares of one cell are of one time. Of causes that are one of two the largest counts.

    Of several cells a row has the median of each cause, and medians of unlike cells do not add up.
    """
    if len({row.cell_ids for row in page}) != 1 or len(page[0].cell_ids) != 1:
        return
    sure = sum(row.share or 0.0 for row in page if _checks(row) != "one of two")
    undecided = max((row.share or 0.0 for row in page if _checks(row) == "one of two"), default=0.0)
    if sure + undecided > WHOLE:
        yield f"causes explain {sure + undecided:.0%} of the latency together"


def _one_way(first: FindingRow, second: FindingRow) -> Iterator[str]:
    if first.cause == "none" or ACQUITS.search(first.advice):
        yield f"{first.cause} acquits the volume beside {second.cause}"
    if NO_HELP.search(first.advice) and CAUSES[second.cause].is_helped_by_volume:
        yield f"{first.cause} says that another volume is no help beside {second.cause}"
    for fast, slow in FAST:
        if fast.search(first.advice) and slow.fullmatch(second.cause) and _at_once(first, second):
            yield f"{first.cause} says that the volume is fast beside {second.cause}"
    yield from _cpus(first, second)
    for resource, level in _levels(first):
        for row in second.evidence:
            if row.metric == resource and _is_above(row, level) and _at_once(first, second):
                yield f"{first.cause} is a limit of {level:g}, and {second.cause} shows {row.value} served"


def _cpus(first: FindingRow, second: FindingRow) -> Iterator[str]:
    """Who asks for CPUs lacks them, unless a quota holds it back."""
    if not MORE_CPU.search(first.advice) or any(row.metric in HELD_BACK for row in first.evidence):
        return
    for row in (*first.evidence, *second.evidence):
        busy = BUSY.search(row.text)
        if busy is not None and int(busy[1]) < BUSY_MIN and _at_once(first, second):
            yield f"{first.cause} asks for CPUs of which {busy[1]} % are busy, says {second.cause}"


def _limits(first: FindingRow, second: FindingRow) -> Iterator[str]:
    """Two limits of one kind that act at once: of one level they are one limit, of two the lower one acts alone."""
    if {_checks(first), _checks(second)} == {"one of two"} or not _at_once(first, second):
        return
    for resource, level in _levels(first):
        for alike, of_second in _levels(second):
            if alike == resource:
                yield f"{first.cause} and {second.cause} limit {resource}, to {level:g} and to {of_second:g}"


def _levels(row: FindingRow) -> Iterator[tuple[str, float]]:
    """What a finding says is the most that passes, by resource."""
    for resource, names in LEVELS.items():
        for item in row.evidence:
            is_level = NO_MORE.search(item.text) or MAY.search(item.text)
            if item.metric in names and is_level and isinstance(item.value, int | float):
                yield resource, float(item.value)


def _is_above(row: EvidenceRow, level: float) -> bool:
    served = isinstance(row.value, int | float) and float(row.value) > SERVED_ABOVE * level
    return served and " reads" not in row.text and " writes" not in row.text


def _at_once(first: FindingRow, second: FindingRow) -> bool:
    if first.window_s is None or second.window_s is None:
        return True
    return min(first.window_s[1], second.window_s[1]) > max(first.window_s[0], second.window_s[0])


def _checks(row: FindingRow) -> str:
    return next((str(item.value) for item in row.evidence if item.metric == "checks"), "")


def exceeded(rows: Iterable[FindingRow], device: Device, t_s: Floats) -> list[str]:
    """Return a sentence for each limit below what the device served for three samples in a row in its time.

    Args:
        rows: of the findings.
        device: its series, arrays of shape (samples,).
        t_s: end of each sample, shape (samples,).
    """
    sentences = []
    for row in rows:
        if not row.cause.startswith(("storage.", "instance.")):
            continue  # what is limited above the device, others may do there
        for resource, level in _levels(row):
            first_s, last_s = row.window_s or (-math.inf, math.inf)
            inside = (t_s > first_s + 1e-6) & (t_s <= last_s + 1e-6)
            served = _served(row, device, resource)
            if served is None:
                continue
            above = np.nan_to_num(served[inside]) > SERVED_ABOVE * level
            if any(above[at : at + 3].all() for at in range(len(above) - 2)):
                sentences.append(
                    f"{row.cause} is a limit of {level:g} {resource}, and {served[inside].max():g} are served"
                )
    return sentences


def _served(row: FindingRow, device: Device, resource: str) -> Floats | None:
    """What the limit is about: one direction, where its sentence names one."""
    text = " ".join(item.text for item in row.evidence if item.metric in LEVELS[resource])
    for word, direction in (("read", device.reads), ("write", device.writes)):
        if re.search(rf"\bof {word}s\b|may {word}\b", text):
            of_bytes = device.read_mib_per_s if word == "read" else device.write_mib_per_s
            return direction if resource == "iops" else of_bytes
    return device.iops if resource == "iops" else device.mib_per_s


def too_sure(rows: Sequence[FindingRow]) -> list[str]:
    """Return the findings that are printed as certain."""
    return [f"{row.cause}: {row.confidence}" for row in rows if (row.confidence or 0.0) >= 0.995]
