"""A step's context on a directory of a test's own: no server but what the test gives, everything recorded kept."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from volbench.core.base import ownership
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.series import HistogramRow, SeriesRow
from volbench.machine.volume.facts.discovery import discover
from volbench.measure.workload.interface import Clock, StepContext


@dataclass
class Kept:
    """Takes what a step records."""

    rows: list[SeriesRow] = field(default_factory=list)
    histograms: list[HistogramRow] = field(default_factory=list)

    def series(self, rows: Iterable[SeriesRow]) -> None:
        self.rows += rows

    def histogram(self, row: HistogramRow) -> None:
        self.histograms.append(row)


class NoServer:
    """A server that steps which only use files stop and start; it says whether it runs."""

    def __init__(self) -> None:
        self.running = True
        self.starts = 0

    def stop(self) -> None:
        self.running = False

    def start(self) -> float:
        self.running, self.starts = True, self.starts + 1
        return 0.0

    def alive(self) -> bool:
        return self.running

    def own(self, _purpose: str, *, where: str) -> NoServer:  # noqa: ARG002
        return self


def _no_server() -> Any:
    return NoServer()


def context_on(directory: Path, *, server: Any = None) -> tuple[StepContext, Kept]:
    """A context whose volume is `directory`/volume, marked as ours, and what is recorded in it."""
    volume, scratch = directory / "volume", directory / "scratch"
    ownership.claim(volume, purpose="test")
    scratch.mkdir(exist_ok=True)
    remaining = Kept()
    context = StepContext(
        server=server or _no_server(),
        dataset=DatasetSpec(),
        volume_facts=discover(volume),
        volume_dir=volume,
        scratch_dir=scratch,
        seed=7,
        clock=Clock(zero_monotonic_ns=time.monotonic_ns()),
        record=remaining,
    )
    return context, remaining
