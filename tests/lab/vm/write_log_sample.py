"""Inside the machine: a small log of device mapper's log-writes target, of requests that are known.

PYTHONPATH=...:tests/lab python3 -m vm.write_log_sample FILE
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import sys
from pathlib import Path

from vm.power_inside import disk
from vm.power_server import LOG_NAME, bash, mark
from vm.write_log import read_entries

SECTOR_BYTES = 512
BLKDISCARD = 0x1277


def main(target: Path) -> None:
    """Send the requests, and copy the log."""
    size = bash(f"modprobe dm_log_writes; blockdev --getsz {disk(0)}").strip()
    bash(f"dmsetup create {LOG_NAME} --table '0 {size} log-writes {disk(0)} {disk(1)}'; udevadm settle")
    device = os.open(f"/dev/mapper/{LOG_NAME}", os.O_RDWR | os.O_DIRECT)
    mark("begin")
    write(device, 0, "a")
    mark("unflushed")
    os.fsync(device)
    mark("flushed")
    write(device, 1, "b", flags=os.RWF_DSYNC)
    mark("synchronous")
    write(device, 2, "c", sectors=2)
    fcntl.ioctl(device, BLKDISCARD, struct.pack("QQ", 4 * SECTOR_BYTES, 8 * SECTOR_BYTES))
    mark("end")
    os.close(device)
    bash(f"udevadm settle; dmsetup remove --retry {LOG_NAME}")
    log = os.open(disk(1), os.O_RDONLY)
    target.write_bytes(os.pread(log, read_entries(log)[-1].data_at, 0))


def write(device: int, sector: int, letter: str, sectors: int = 1, flags: int = 0) -> None:
    """Write sectors past the page cache, from memory that is aligned as that requires."""
    with mmap.mmap(-1, mmap.PAGESIZE) as memory:
        memory[: sectors * SECTOR_BYTES] = letter.encode() * sectors * SECTOR_BYTES
        with memoryview(memory) as view, view[: sectors * SECTOR_BYTES] as data:
            os.pwritev(device, [data], sector * SECTOR_BYTES, flags)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
