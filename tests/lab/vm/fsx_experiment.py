"""Inside the machine: the FSx report's own experiment, a copy of small files over NFS by option and version.

python3 fsx_experiment.py FILE

An ext4 on a disk whose writes and flushes take DISK_MS (dm-delay) is exported to this machine; netem makes the
round trip long. Combined are the export's sync and async, the client's sync and async, NFS version and nconnect.
Requests are the client's own counts, writes and flushes those of the disk.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from volbench.measure.sample.parsers.mountstats import parse_mountstats

MOUNT, EXPORT, SOURCE = Path("/mnt/data"), Path("/mnt/other/export"), Path("/tmp/source")
DIRECTORIES, FILES, FILE_BYTES = 4, 40, 20_000
ROUND_TRIP_MS, DISK_MS = 20, 40
"""Long against what emulated processors need for a request."""
EXPORTS, CLIENTS = ("sync", "async"), ("async", "sync")
VERSIONS = {"4.2": "vers=4.2", "3": "vers=3,nolock", "4.2, nconnect=16": "vers=4.2,nconnect=16"}
"""`async` is the client's default: a mount without either option."""
COMMON = "noatime,rsize=1048576,wsize=1048576"
PROGRAMS = {
    "cp -r": ["cp", "-r", str(SOURCE), str(MOUNT / "copy")],
    "4 KiB writes": [sys.executable, __file__, "pieces"],
}


def main(target: Path) -> None:
    """Measure every combination; a result is written after each."""
    make_source()
    rows: list[dict[str, object]] = []
    for export, (version, options), client in itertools.product(EXPORTS, VERSIONS.items(), CLIENTS):
        export_as(export)
        for program, command in PROGRAMS.items():
            if program != "cp -r" and version != "4.2":
                continue
            mount(f"{COMMON},{options},{client}")
            row = {"export": export, "client": client, "nfs": version, "program": program, **copied(command)}
            rows.append(row)
            print(row, flush=True)
            subprocess.run(["umount", MOUNT], check=True)
            shutil.rmtree(EXPORT / "copy")
            target.write_text(json.dumps(describe(rows), indent=1) + "\n")


def describe(rows: list[dict[str, object]]) -> dict[str, object]:
    """What was set, beside the rows."""
    return {
        "kernel": os.uname().release,
        "files": FILES,
        "file_bytes": FILE_BYTES,
        "round_trip_ms": ROUND_TRIP_MS,
        "disk_ms": DISK_MS,
        "rows": rows,
    }


def make_source() -> None:
    """Make the directory that is copied."""
    for number in range(FILES):
        path = SOURCE / f"d{number % DIRECTORIES}" / f"f{number:03}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(FILE_BYTES))


def write_pieces() -> None:
    """Copy by writes of 4 KiB, as programs do that write what they have."""
    for path in sorted(SOURCE.glob("*/*")):
        copy = MOUNT / "copy" / path.relative_to(SOURCE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_bytes()
        with copy.open("wb", buffering=0) as file:
            for begin in range(0, len(content), 4096):
                file.write(content[begin : begin + 4096])


def export_as(option: str) -> None:
    """Export anew with `sync` or `async`."""
    Path("/etc/exports").write_text(f"{EXPORT} 127.0.0.1(rw,{option},no_root_squash,fsid=0,no_subtree_check)\n")
    subprocess.run(["exportfs", "-ra"], check=True)


def mount(options: str) -> None:
    """Mount the export."""
    path = EXPORT if "vers=3" in options else Path("/")
    subprocess.run(["mount", "-t", "nfs", "-o", options, f"127.0.0.1:{path}", MOUNT], check=True)


def copied(command: list[str]) -> dict[str, object]:
    """Time and counts of one copy, for one file; closing is part of it, writing back after it is not."""
    os.sync()
    before, begin_s = counts(), time.monotonic()
    subprocess.run(command, check=True)
    seconds, after = time.monotonic() - begin_s, counts()
    grown = {name: round((after[name] - before[name]) / FILES, 2) for name in after if after[name] > before[name]}
    disk = {name: grown.pop(f"disk {name}", 0.0) for name in ("writes", "flushes")}
    return {"ms_per_file": round(1000 * seconds / FILES, 1), "requests": grown, **disk}


def counts() -> Counter[str]:
    """Requests of the client, and writes and flushes of the disk below the export."""
    mounts = [
        mountstat
        for mountstat in parse_mountstats(Path("/proc/self/mountstats").read_text())
        if mountstat.mount_point == str(MOUNT)
    ]
    result = Counter({name: operation.operations for name, operation in mounts[-1].operations.items()})
    fields = Path(f"/sys/class/block/{os.environ['EXPORT_DISK']}/stat").read_text().split()
    result.update({"disk writes": int(fields[4]), "disk flushes": int(fields[15])})
    return result


if __name__ == "__main__":
    if sys.argv[1] == "pieces":
        write_pieces()
    else:
        main(Path(sys.argv[1]))
