"""Limits of instances for EBS: the vendor's tables as a CSV, made by release/ec2_limits.py.

The copy of 2026-04 is an EC2 User Guide, "Amazon EBS-optimized instance types". Three types that it no longer has
(p2) are of "Amazon EC2 Instance Types" as of 2024-08. Of 788 types in both, 4 have other figures since (u7i, u7in).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from volbench.core.base.parse import parse_finite
from volbench.core.profile.schema import Figure
from volbench.errors import UsageError

RDS_PREFIX = "db."
TABLE = "Amazon EC2 User Guide, EBS-optimized instance types, copy of 2026-04"
_BURST = Figure(
    value=1800,
    unit="s at the maximum",
    source="Amazon EC2 User Guide: at least 30 minutes a day; that it refills at the baseline is volbench's guess",
    assumed=True,
)
_COLUMNS = {
    "iops": ("instance_iops", "IOPS", "baseline"),
    "iops_max": ("instance_iops_max", "IOPS", "maximum"),
    "mb_per_s": ("instance_throughput", "bytes per s", "baseline"),
    "mb_per_s_max": ("instance_throughput_max", "bytes per s", "maximum"),
}
_MB = 1e6


def instance_rows(path: Path) -> dict[str, dict[str, Figure]]:
    """Return the figures of each type of a CSV; empty where there is no such file. Raise UsageError."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        try:
            return {row["type"]: _figures(row) for row in csv.DictReader(file)}
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(
                "the table of instances cannot be read", where=str(path), evidence=repr(error)
            ) from error


def ec2_type(instance: str) -> str:
    """Return the EC2 type of a class of RDS: db.r6g.large runs on r6g.large, with the same limits for EBS."""
    return instance.removeprefix(RDS_PREFIX)


def _figures(row: Mapping[str, str]) -> dict[str, Figure]:
    figures = {"burst_seconds": _BURST}
    for column, (name, unit, text) in _COLUMNS.items():
        value = parse_finite(row[column]) * (_MB if unit != "IOPS" else 1.0)
        figures[name] = Figure(value=value, unit=unit, source=f"{TABLE}: {text}", assumed=False)
    return figures
