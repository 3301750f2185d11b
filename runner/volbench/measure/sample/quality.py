"""How well each source was sampled, from the raw readings: also after the sampling process was killed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from volbench.core.records.cell import SourceQuality
from volbench.measure.sample.raw import End, Header, RawTick, SourcePresence, read_raw

_SLACK = 1e-9


@dataclass(kw_only=True)
class _Account:
    """What is known of one source: `ticks_read` had a reading; at `silent` ones the source did not give one."""

    first_tick: int
    remote: bool = False
    present: bool = False
    reason: str = ""
    ticks_read: set[int] = field(default_factory=set)
    silent: set[int] = field(default_factory=set)
    why_silent: str = ""

    def quality(self, source: str, window: range) -> SourceQuality:
        if not self.ticks_read:
            reason = self.why_silent or self.reason or "sampling ended before its first tick"
            return SourceQuality(source=source, available=False, reason=reason)
        due = range(max(window.start, self.first_tick), max(window.stop, window.start, self.first_tick))
        silent = sum(tick in due for tick in self.silent - self.ticks_read)
        read_count = sum(tick in due for tick in self.ticks_read)
        notes = [self.reason] if self.reason and self.present else []
        if silent:
            notes.append(f"no reading at {silent} ticks: {self.why_silent}")
        return SourceQuality(
            source=source,
            available=True,
            reason="; ".join(notes),
            ticks_due=len(due) - silent,
            ticks_missed=max(0, len(due) - silent - read_count),
        )


def source_quality(
    raw_file: Path, *, window_s: tuple[float, float] | None = None, until_s: float | None = None
) -> list[SourceQuality]:
    """Return ticks due and missed by source; absent sources with their reason.

    Missed is what the *sampler* did not do in time. A tick at which a source had nothing to say (the server was
    being restarted, or took longer than a tick to answer) was not due; `reason` counts those.

    Args:
        raw_file: raw/samples.jsonl.
        window_s: only ticks due in window_s[0] < t <= window_s[1]; None: the whole time of sampling.
        until_s: when sampling was meant to end, should the process have died before.

    Raises RunUnreadable.
    """
    accounts: dict[str, _Account] = {}
    interval_s, last_tick, end_s = 1.0, 0, None
    for record in read_raw(raw_file):
        if isinstance(record, Header):
            interval_s = record.interval_s
        elif isinstance(record, SourcePresence):
            account = accounts.setdefault(record.source, _Account(first_tick=record.next_tick))
            account.remote = account.remote or record.remote
            if record.presence.present or not account.present:
                account.present, account.reason = record.presence.present, record.presence.reason
        elif isinstance(record, RawTick):
            _book(accounts, record, interval_s)
            last_tick = max(last_tick, record.tick)
        elif isinstance(record, End):
            end_s = record.end_s
    end_s = end_s if end_s is not None else until_s
    window = _window(window_s, end_s if end_s is not None else last_tick * interval_s, interval_s)
    return [account.quality(source, window) for source, account in sorted(accounts.items())]


def _book(accounts: dict[str, _Account], tick: RawTick, interval_s: float) -> None:
    """Count a remote source that took several intervals to answer as read at all ticks that passed."""
    slow = range(tick.tick + 1, tick.tick + 1 + math.floor((tick.late_s + tick.took_s) / interval_s))
    for source in tick.read:
        accounts[source].ticks_read.add(tick.tick)
    for source, reason in tick.failed.items():
        accounts[source].silent.add(tick.tick)
        accounts[source].why_silent = reason
    for source in (*tick.read, *tick.failed):
        if slow and accounts[source].remote:
            accounts[source].silent.update(slow)
            accounts[source].why_silent = tick.failed.get(source, f"it took {tick.took_s:.1f} s to answer")


def _window(window_s: tuple[float, float] | None, end_s: float, interval_s: float) -> range:
    """Return ticks that are due after the window's start and up to its end, and not after sampling ended."""
    start_s, stop_s = (0.0, end_s) if window_s is None else window_s
    first = math.floor(start_s / interval_s + _SLACK) + 1
    last = math.floor(min(stop_s, end_s) / interval_s + _SLACK)
    return range(first, max(first, last + 1))
