"""Inside the machine: a server's load on a stack whose device is logged; nothing of it is cut or recovered here.

PYTHONPATH=...:tests/lab python3 -m vm.power_inside NAME

/share/power/NAME.json says what to do, /share/power/template.tar has the data directory. Device A has the stack, B
gets the log, C is a copy of A from before the log began. NAME.facts.json says what was done.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vm.power_server import LOG_NAME, PowerServer, ServerFailure, bash, commit_marked, mark, unmount
from volbench.measure.workload.crash.ledger import LedgerSpec

SHARE = Path("/share/power")
VOLUME = Path("/mnt/data")
DATA_DIR = VOLUME / "mysql"
BLOCK_BYTES = 4096
EXTENT = re.compile(r"^\s*\d+:\s+\d+\.\.\s*\d+:\s+(\d+)\.\.\s*(\d+):", re.MULTILINE)


def disk(number: int) -> str:
    """The device of a serial number: the kernel finds them in another order at each boot."""
    return str(Path(f"/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_volume{number}").resolve())


@contextmanager
def mounted(spec: dict[str, Any], device: str, script: str) -> Iterator[None]:
    """The stack on a device, mounted during the block."""
    try:
        bash(script, DEVICE=device)
        yield
    finally:
        unmount(VOLUME, spec.get("unmount", ""), DEVICE=device)


def main(name: str) -> None:
    """Make the stack, and load it."""
    spec = json.loads((SHARE / f"{name}.json").read_text())
    bash("modprobe dm_log_writes; mkdir -p /mnt/data /mnt/other")
    make_base(spec)
    facts = load(spec)
    (SHARE / f"{name}.facts.json").write_text(json.dumps(facts) + "\n")


def make_base(spec: dict[str, Any]) -> None:
    """Make the stack with the data directory on device A, and copy A to C: the log begins there."""
    bash("wipefs -qaf $DEVICE; udevadm settle", DEVICE=disk(0))
    bash(spec["make"], DEVICE=disk(0))
    with mounted(spec, disk(0), spec["mount"]):
        bash(f"tar -xSf {SHARE}/template.tar -C {VOLUME}; sync")
    bash(f"dd if={disk(0)} of={disk(2)} bs=4M iflag=direct oflag=direct status=none")


def load(spec: dict[str, Any]) -> dict[str, Any]:
    """Commit on the logged device; return facts of it.

    Clients write down what was acknowledged in memory and as marks of the log, so outside of the device.
    """
    size = bash(f"blockdev --getsz {disk(0)}").strip()
    bash(f"dmsetup create {LOG_NAME} --table '0 {size} log-writes {disk(0)} {disk(1)}'; udevadm settle")
    ledger = LedgerSpec(seed=1, rows_per_commit=spec["rows_per_commit"], row_bytes=spec["row_bytes"])
    place = Path("/run/power")
    place.mkdir(exist_ok=True)
    with mounted(spec, f"/dev/mapper/{LOG_NAME}", spec.get("load_mount", spec["mount"])):
        server = PowerServer(DATA_DIR, {**spec["options"], **spec["load_options"]}, place)
        server.start()
        try:
            facts = {"server": server.query("SELECT VERSION()")[0][0]}
            names = (*spec["options"], "innodb_doublewrite")
            facts["settings"] = {name: str(server.query(f"SELECT @@{name}")[0][0]) for name in names}
            mark("begin")
            begin_s = time.monotonic()
            writers = commit_marked(server, ledger, spec["clients"], spec["commits"], spec["filler_rows"])
            facts |= {"load_s": round(time.monotonic() - begin_s, 1)}
            mark("end")
            facts["commits"] = sum(len(writer.acknowledged) for writer in writers)
            torn = spec["cuts"].get("torn")
            facts["extents"] = extents_of(DATA_DIR / "volbench_ledger/filler.ibd") if torn else []
        finally:
            server.kill()
    status = bash(f"dmsetup status {LOG_NAME}").strip()
    bash(f"udevadm settle; dmsetup remove --retry {LOG_NAME}; sync")
    if "logging_disabled" in status:
        raise ServerFailure(f"the log is incomplete: {status}")
    return facts


def extents_of(file: Path) -> list[tuple[int, int]]:
    """Where a file is on its device, begins and ends in bytes, by the kernel's map of its extents."""
    output = bash(f"filefrag -v -b{BLOCK_BYTES} {file}")
    return [(int(begin) * BLOCK_BYTES, (int(end) + 1) * BLOCK_BYTES) for begin, end in EXTENT.findall(output)]


if __name__ == "__main__":
    main(sys.argv[1])
