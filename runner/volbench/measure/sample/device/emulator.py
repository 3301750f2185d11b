"""Source `emulator`: what an emulated volume counts itself, under the metric names of `ebs_nvme` and more.

`late_ratio` is the share of operations that completed later than the model wanted: how far the emulation is true.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from volbench.core.records.series import SeriesRow
from volbench.measure.sample.change import Change, ratio
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.device.ebs_nvme import ebs_rates
from volbench.measure.sample.interface import Reading, Sampler, Unavailable, Values
from volbench.measure.sample.parsers.emulator import REQUEST, parse_counters
from volbench.measure.sample.shared import Shared

ANSWER_TIMEOUT_S = 5.0
_ANSWER_BYTES_MAX = 1 << 20
_DATA = ("read", "write", "flush")


class EmulatorSampler(Sampler):
    """Asks the control socket at each tick, on one connection.

    Args:
        path: the socket; None: the volume is not emulated.
    """

    source: ClassVar[str] = "emulator"
    lane: ClassVar[str] = "emulator"

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._socket: socket.socket | None = None

    @classmethod
    @override
    def from_config(cls, config: SamplingConfig, shared: Shared) -> Sampler:
        """Return the sampler."""
        return cls(Path(config.emulator_socket) if config.emulator_socket else None)

    @classmethod
    def is_remote(cls, config: SamplingConfig) -> bool:
        """Return whether the volume is emulated."""
        return bool(config.emulator_socket)

    def read(self) -> Values:
        """Return the counters now."""
        try:
            return parse_counters(self._ask())
        except (OSError, ValueError) as error:
            self.close()
            raise Unavailable(f"the emulated volume does not answer: {error}") from error

    def _ask(self) -> bytes:
        if self._socket is None:
            if self._path is None:
                raise Unavailable("the volume is not an emulated one")
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket.settimeout(ANSWER_TIMEOUT_S)
            self._socket.connect(str(self._path))
        self._socket.sendall(REQUEST)
        answer = b""
        while not answer.endswith(b"\n"):
            chunk = self._socket.recv(1 << 16)
            if not chunk or len(answer) > _ANSWER_BYTES_MAX:
                raise ConnectionResetError("the connection ended within an answer")
            answer += chunk
        return answer

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    @staticmethod
    def rates(before: Reading, after: Reading) -> Iterator[SeriesRow]:
        """Yield rates; of a volume that was mounted anew meanwhile, only what is true of the moment."""
        change = Change(source=EmulatorSampler.source, before=before, after=after)
        if not change.usable:
            return
        for name, limit in after.values:
            if name == "balance_percent":
                yield change.row("balance_percent", after.values[name, limit], limit)
        if change.grown("uptime_s") is None:
            return
        yield from change.rows(ebs_rates(change, ""))
        yield from change.rows(_of_the_model(change))
        for disk in change.entities("disk_limit_per_s"):
            rates = [(f"{name}_per_s", change.per_s(name, disk)) for name in ("disk_reads", "disk_writes")]
            limit_per_s = change.gauge("disk_limit_per_s", disk)
            yield from change.rows([*rates, ("disk_limit_per_s", limit_per_s)], disk)
        for operation in change.entities("op_count"):
            if not change.gauge("op_count", operation):
                continue  # never used: not of interest
            count = change.grown("op_count", operation)
            waited_ms = ratio(change.grown("op_time_us", operation), count, scale=1e-3)
            per_s = change.per_s("op_count", operation)
            yield from change.rows([("operations_per_s", per_s), ("operation_await_ms", waited_ms)], operation)


def _of_the_model(change: Change) -> Iterator[tuple[str, float | None]]:
    flushes = change.grown("op_count", "flush")
    yield "flushes_per_s", change.per_s("op_count", "flush")
    yield "f_await_ms", ratio(change.grown("op_time_us", "flush"), flushes, scale=1e-3)
    metadata = [operation for operation in change.entities("op_count") if operation not in _DATA]
    if metadata:
        count = sum(change.grown("op_count", operation) or 0 for operation in metadata)
        time_us = sum(change.grown("op_time_us", operation) or 0 for operation in metadata)
        yield "metadata_ops_per_s", count / change.dt_s
        yield "metadata_await_ms", ratio(time_us, count, scale=1e-3)
    yield "waited_s_per_s", change.per_s("waited_us", unit=1e6)
    yield "errors_per_s", _errors_per_s(change)
    yield "late_ratio", ratio(change.grown("late"), change.grown("judged"))
    yield "lateness_s_per_s", change.per_s("lateness_us", unit=1e6)


def _errors_per_s(change: Change) -> float | None:
    operations = change.entities("op_errors")
    return (
        sum(change.grown("op_errors", operation) or 0 for operation in operations) / change.dt_s
        if operations
        else None
    )
