"""Source `tcp`: what TCP of this machine had to send again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from volbench.core.records.series import SeriesRow
from volbench.measure.sample.change import Change
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.files import KernelFile
from volbench.measure.sample.interface import Reading, Sampler, Unavailable, Values
from volbench.measure.sample.parsers.netstat import parse_netstat
from volbench.measure.sample.shared import Shared

_METRICS = {
    "Tcp.OutSegs": "segments_sent_per_s",
    "Tcp.RetransSegs": "retransmitted_per_s",
    "TcpExt.TCPTimeouts": "timeouts_per_s",
    "TcpExt.TCPLossProbeRecovery": "probed_losses_per_s",
}
_FILES = (Path("/proc/net/snmp"), Path("/proc/net/netstat"))


class Tcp(Sampler):
    """Reads /proc/net/snmp and /proc/net/netstat of this network namespace.

    Args:
        files: empty: the server is not reached over TCP.
    """

    source: ClassVar[str] = "tcp"

    def __init__(self, files: tuple[Path, ...] = _FILES) -> None:
        self._files = [KernelFile(path) for path in files]

    @classmethod
    @override
    def from_config(cls, config: SamplingConfig, shared: Shared) -> Sampler:
        """Return the sampler."""
        return cls(_FILES if config.over_tcp else ())

    def read(self) -> Values:
        """Return the counters that the kernel has. Raises Unavailable."""
        if not self._files:
            raise Unavailable("the server is not reached over TCP")
        counters = {name: value for file in self._files for name, value in parse_netstat(file.read()).items()}
        return {(name, ""): counters[name] for name in _METRICS if name in counters}

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    @staticmethod
    def rates(before: Reading, after: Reading) -> Iterator[SeriesRow]:
        """Yield segments and waits a second."""
        change = Change(source=Tcp.source, before=before, after=after)
        if change.usable:
            yield from change.rows((metric, change.per_s(name)) for name, metric in _METRICS.items())
