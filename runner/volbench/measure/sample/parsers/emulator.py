"""The answer of an emulated volume's control socket to `{"do": "counters"}`."""

from __future__ import annotations

import math
from typing import Any

from volbench.core.base.parse import parse_json
from volbench.core.records.sources.device.emulator import DATA_OPERATIONS, METADATA_OPERATIONS
from volbench.measure.sample.interface import Values

LATENESS_BIN = "lateness_bin"
"""Counter of the operations whose lateness fell into a bin; its entity is the operation and the bin's number."""
BINS_PER_OCTAVE = 4
REQUEST = b'{"do": "counters"}\n'
_NVME = {
    "total_read_ops": "reads",
    "total_write_ops": "writes",
    "total_read_bytes": "read_bytes",
    "total_write_bytes": "write_bytes",
    "total_read_time": "read_us",
    "total_write_time": "write_us",
    "ebs_volume_performance_exceeded_iops": "volume_exceeded_iops_us",
    "ebs_volume_performance_exceeded_tp": "volume_exceeded_throughput_us",
    "ec2_instance_ebs_performance_exceeded_iops": "instance_exceeded_iops_us",
    "ec2_instance_ebs_performance_exceeded_tp": "instance_exceeded_throughput_us",
    "volume_queue_length": "queue_length",
}


def parse_counters(line: bytes) -> Values:
    """Return counters of the volume (entity empty), of each operation, and the balance of each limit.

    Raises ValueError for an answer that is an error, or none of this protocol.
    """
    answer = parse_json(line)
    if not isinstance(answer, dict) or answer.get("ok") is not True:
        raise ValueError(f"the emulated volume answered {line[:200]!r}")
    try:
        return _values_of(answer["counters"])
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"the emulated volume's counters lack {error}") from error


def _values_of(counters: dict[str, Any]) -> Values:
    values: Values = {(name, ""): counters["nvme"][key] for key, name in _NVME.items()}
    values["uptime_s", ""] = counters["uptime_s"]
    values["waited_us", ""] = counters["waited_us"]
    fidelity = counters["fidelity"]
    values["judged", ""], values["late", ""] = fidelity["operations"], fidelity["late"]
    if "lateness_us_mean" in fidelity:
        values["lateness_us", ""] = round(fidelity["lateness_us_mean"] * fidelity["operations"])
    for name in (
        *DATA_OPERATIONS,
        *METADATA_OPERATIONS,
    ):  # one that never happened is left out of the answer: it was counted, as 0
        operation = counters["operations"].get(name, {})
        for counter in ("count", "errors", "time_us"):
            values[f"op_{counter}", name] = operation.get(counter, 0)
        for lateness in operation.get("lateness", ()):  # daemons before this counter have none
            lower_us = lateness["lower_us"]
            number = round(math.log2(lower_us) * BINS_PER_OCTAVE) if lower_us > 0 else 0
            values[LATENESS_BIN, f"{name} {number}"] = lateness["count"]
    for balance in counters["balances"]:
        values["balance_percent", balance["limit"]] = balance["percent"]
    for disk in counters.get("disks", ()):  # volumes without disks have none
        for counter in (name for name in ("reads", "writes", "limit_per_s") if disk[name] is not None):
            values[f"disk_{counter}", f"disk {disk['disk']}"] = disk[counter]
    return values
