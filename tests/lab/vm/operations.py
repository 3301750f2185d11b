"""Counts requests of a real NFS client in the machine, and writes the table of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vm.machine import Machine

INSIDE = "/opt/volbench/tree/tests/lab/vm"
LIMIT_S = 1500.0
HEAD = """# Requests of a real NFS client for each action

Requests that Linux' NFS client makes for one file, counted by itself (mountstats) over {files} files, in a virtual
machine with kernel {kernel}; server: the kernel's, ext4 on an NVMe device, `sync` export. `make lab-vm
LAB_VM="record operations"` counts, `LAB_VM=table` writes this page. Only counts are of use: the processors are
emulated. Requests of less than 0.2 a file are left out: they are made once for a directory.

- *Flushes* of the server's disk for one file, so durable changes.
- `delegations`: a client opens and closes a file that the server has delegated to it without a request. knfsd hands
  delegations out, EFS does not (its documentation, "Unsupported NFSv4 features"): the other rows are without.
- `emulated`: requests of the emulated volume, by the emulator's names (`record emulated`); no disk, no server.
- *Server*: whether its own counts (/proc/net/rpc/nfsd) agree with the client's, for the operations that both have.

| action | NFS | requests a file | flushes | server |
|---|---|---|--:|---|
"""
LEAST = 0.2


def record_operations(machine: Machine, file: Path) -> None:
    """Count all actions under all variants; written to `file`. Raises MissingPrerequisite when that fails."""
    machine.checked(
        f"""A=$(readlink -f /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_volume0)
mkdir -p /mnt/data /mnt/other
. {INSIDE}/nfs_server.sh
lab_export
cd /tmp
EXPORT_DISK=${{A##*/}} python3 {INSIDE}/nfs_operations.py /share/operations.json
umount /mnt/other || {{ rpc.nfsd 0; exportfs -ua; umount /mnt/other; }}
wipefs -qaf $A""",
        limit_s=LIMIT_S,
    )
    file.write_text((machine.share / "operations.json").read_text())


def operations_table(file: Path) -> str:
    """The table of a recording, as Markdown."""
    recording = json.loads(file.read_text())
    rows: dict[tuple[str, str], list[str]] = {}
    emulated = json.loads(file.with_name("emulated-operations.json").read_text())
    for row in [*recording["rows"], *emulated["rows"]]:
        counts = {name: count for name, count in row["requests"].items() if count >= LEAST}
        requests = ", ".join(f"{name} {count:g}" if count != 1 else name for name, count in sorted(counts.items()))
        cells = f"{requests or 'none'} | {_checked(row, counts) if 'server' in row else ' | '}"
        rows.setdefault((row["action"], cells), []).append(row["variant"])
    actions = dict.fromkeys(row["action"] for row in recording["rows"])
    lines = [
        f"| {action} | {'; '.join(variants)} | {cells} |\n"
        for action in actions
        for (of, cells), variants in rows.items()
        if of == action
    ]
    return HEAD.format(**recording) + "".join(lines)


def _checked(row: dict[str, Any], displayed: dict[str, float]) -> str:
    """Flushes, and whether the server counted as many requests."""
    differing = [name for name, count in displayed.items() if row["server"].get(name, count) != count]
    agrees = f"differs: {', '.join(differing)}" if differing else "agrees"
    return f"{row['flushes']:g} | {agrees}"
