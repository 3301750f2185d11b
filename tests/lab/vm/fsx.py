"""Runs the FSx report's own experiment in the machine, and writes the table of it."""

from __future__ import annotations

import json
from pathlib import Path

from vm.machine import Machine

INSIDE = "/opt/volbench/tree/tests/lab/vm"
LIMIT_S = 2400.0
HEAD = """# The FSx report's experiment with a real NFS server and client

`cp` of {files} files of {file_bytes:,} bytes to an NFS mount, by the export's `sync` or `async`, the client's
`sync` or `async` (its default) and the version; one of each. Both ends are the kernel's ({kernel})
in one virtual machine: netem makes a round trip {round_trip_ms} ms, and writes and flushes of the exported disk
(ext4) take {disk_ms} ms by dm-delay, long against what emulated processors need for a request. So counts hold, and
so do ratios of times; times themselves do not. `make lab-vm LAB_VM="record fsx"` measures, `LAB_VM=table` writes
this page. Other options: `noatime,rsize=1048576,wsize=1048576`.

*Requests* are the client's own counts (mountstats) for one file, *writes* and *flushes* those of the exported disk.

| program | NFS | export | client | ms a file | requests a file | writes | flushes |
|---|---|---|---|--:|---|--:|--:|
"""
LEAST = 0.2


def record_fsx(machine: Machine, file: Path) -> None:
    """Measure all combinations; written to `file`. Raises MissingPrerequisite when that fails."""
    machine.checked(
        f"""A=$(readlink -f /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_volume0)
DISK=${{A##*/}}
mkdir -p /mnt/data /mnt/other
modprobe -a dm_delay sch_netem
dmsetup create slow --table "0 $(blockdev --getsz $A) delay $A 0 0 $A 0 40"
A=/dev/mapper/slow
. {INSIDE}/nfs_server.sh
lab_export
tc qdisc add dev lo root netem delay 10ms
cd /tmp
EXPORT_DISK=$DISK python3 {INSIDE}/fsx_experiment.py /share/fsx.json
tc qdisc del dev lo root""",
        limit_s=LIMIT_S,
    )
    file.write_text((machine.share / "fsx.json").read_text())


def fsx_table(file: Path) -> str:
    """The table of a recording, as Markdown."""
    recording = json.loads(file.read_text())
    lines = []
    for row in sorted(
        recording["rows"], key=lambda pair: (pair["program"] != "cp -r", pair["nfs"], pair["export"] == "async")
    ):
        counts = {name: count for name, count in row["requests"].items() if count >= LEAST}
        requests = ", ".join(f"{name} {count:g}" if count != 1 else name for name, count in sorted(counts.items()))
        cells = (row["program"], row["nfs"], row["export"], row["client"], f"{row['ms_per_file']:.0f}", requests)
        lines.append("| " + " | ".join((*cells, f"{row['writes']:g}", f"{row['flushes']:g}")) + " |\n")
    return HEAD.format(**recording) + "".join(lines)
