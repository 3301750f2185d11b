"""How well each source was sampled, from the raw readings: also after the sampling process was killed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from volbench.records.cell import SourceQuality
from volbench.sample.raw import End, Found, Header, Tick, read_raw


@dataclass(kw_only=True)
class _Account:
    """What is known of one source: `seen` ticks had a reading; at `silent` ones the source did not give one."""

    remote: bool = False
    present: bool = False
    reason: str = ""
    seen: set[int] = field(default_factory=set)
    silent: set[int] = field(default_factory=set)
    why_silent: str = ""

    def quality(self, source: str, due: range) -> SourceQuality:
        if not self.present:
            return SourceQuality(source=source, present=False, reason=self.reason)
        silent = sum(tick in due for tick in self.silent - self.seen)
        seen = sum(tick in due for tick in self.seen)
        notes = [self.reason] if self.reason else []
        if silent:
            notes.append(f"no reading at {silent} ticks: {self.why_silent}")
        return SourceQuality(
            source=source,
            present=True,
            reason="; ".join(notes),
            ticks_due=len(due) - silent,
            ticks_missed=max(0, len(due) - silent - seen),
        )


def source_quality(
    raw_file: Path, *, window_s: tuple[float, float] | None = None, until_s: float | None = None
) -> list[SourceQuality]:
    """Ticks due and missed by source; absent sources with their reason.

    Missed is what the *sampler* did not do in time. A tick at which a source had nothing to say (the server was
    being restarted, or took longer than a tick to answer) was not due; `reason` counts those.

    Args:
        raw_file: raw/samples.jsonl.
        window_s: only ticks due in window_s[0] < t <= window_s[1]; None: the whole time of sampling.
        until_s: when sampling was meant to end, for a process that died before.

    Raises RunUnreadable.
    """
    accounts: dict[str, _Account] = {}
    header = Header(interval_s=1.0, zero_monotonic_ns=0, first_tick=0)
    last_s = -math.inf
    for record in read_raw(raw_file):
        if isinstance(record, Header):
            header = record
        elif isinstance(record, Found):
            account = accounts.setdefault(record.source, _Account())
            account.remote = record.remote
            if record.presence.present or not account.present:
                account.present, account.reason = record.presence.present, record.presence.reason
        elif isinstance(record, Tick):
            _book(accounts, record, header.interval_s)
            last_s = max(last_s, record.tick * header.interval_s)
        elif isinstance(record, End):
            last_s = record.end_s
    end_s = until_s if until_s is not None and not math.isinf(last_s) and until_s > last_s else last_s
    due = _due(header, (-math.inf, end_s) if window_s is None else window_s)
    return [account.quality(source, due) for source, account in sorted(accounts.items())]


def _book(accounts: dict[str, _Account], tick: Tick, interval_s: float) -> None:
    """A remote source that took several intervals to answer was asked at all the ticks that passed meanwhile."""
    slow = range(tick.tick + 1, tick.tick + 1 + math.floor((tick.late_s + tick.took_s) / interval_s))
    for source in tick.read:
        accounts[source].seen.add(tick.tick)
    for source, why in tick.failed.items():
        accounts[source].silent.add(tick.tick)
        accounts[source].why_silent = why
    for source in (*tick.read, *tick.failed):
        if slow and accounts[source].remote:
            accounts[source].silent.update(slow)
            accounts[source].why_silent = tick.failed.get(source, f"it took {tick.took_s:.1f} s to answer")


def _due(header: Header, window_s: tuple[float, float]) -> range:
    """Ticks with window_s[0] < due <= window_s[1]; the first lines' microseconds are no tick."""
    start_s, end_s = window_s
    first = header.first_tick
    if not math.isinf(start_s):
        first = max(first, math.floor(start_s / header.interval_s + 1e-9) + 1)
    last = -1 if math.isinf(end_s) else math.floor(end_s / header.interval_s + 1e-9)
    return range(first, max(first, last + 1))
