"""Source `vm`: swapping and page faults of the whole machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from volbench.core.records.series import SeriesRow
from volbench.measure.sample.change import Change
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.files import KernelFile
from volbench.measure.sample.interface import Reading, Sampler, Values
from volbench.measure.sample.parsers.stat import parse_vmstat
from volbench.measure.sample.shared import Shared

_METRICS = {
    "pswpin": "swap_in_pages_per_s",
    "pswpout": "swap_out_pages_per_s",
    "pgfault": "page_faults_per_s",
    "pgmajfault": "major_faults_per_s",
}


class VirtualMemory(Sampler):
    """Reads /proc/vmstat; a kernel without swap has no counters of swapping."""

    source: ClassVar[str] = "vm"

    def __init__(self, path: Path = Path("/proc/vmstat")) -> None:
        self._file = KernelFile(path)

    @classmethod
    @override
    def from_config(cls, config: SamplingConfig, shared: Shared) -> Sampler:
        """Return the sampler."""
        return cls()

    def read(self) -> Values:
        """Return the counters of swapping and faults that the kernel has."""
        return {(name, ""): value for name, value in parse_vmstat(self._file.read(), _METRICS).items()}

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @staticmethod
    def rates(before: Reading, after: Reading) -> Iterator[SeriesRow]:
        """Yield pages and faults a second."""
        change = Change(source=VirtualMemory.source, before=before, after=after)
        if change.usable:
            yield from change.rows((metric, change.per_s(name)) for name, metric in _METRICS.items())
