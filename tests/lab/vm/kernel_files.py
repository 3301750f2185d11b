"""Inside the machine: writes what the kernel shows of a stack of storage into one JSON file.

python3 kernel_files.py NAME PATH FILE

The file has the table of mounts, every block device of sysfs (symbolic links and small files, as paths below /),
and /proc/diskstats before and after a known load: WRITES synchronous writes of 4 KiB to one file, then its pages
read back from the volume.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

WRITES = 50
BLOCK_BYTES = 4096
PATTERNS = (
    "dev", "partition", "size", "queue/scheduler", "queue/rotational", "queue/read_ahead_kb",
    "queue/logical_block_size", "queue/write_cache", "dm/name", "dm/uuid", "md/level", "md/raid_disks",
    "loop/backing_file", "loop/dio", "device/model", "device/serial",
)  # fmt: skip
FOLDERS = ("slaves", "holders")


def main(name: str, path: str, target: str) -> None:
    """Record one stack whose data directory is `path`."""
    files: dict[str, str] = {}
    links: dict[str, str] = {}
    for entry in sorted(Path("/sys/class/block").iterdir()):
        folder = entry.resolve()
        links[str(entry)] = str(folder)
        _add_device(folder, files, links)
    for entry in sorted(Path("/sys/dev/block").iterdir()):
        links[str(entry)] = str(entry.resolve())
    for entry in sorted(Path("/sys/class/bdi").iterdir()):
        _add_file(entry / "read_ahead_kb", files)
    for entry in sorted(Path("/sys/fs/btrfs").glob("*/devices/*")):
        links[str(entry)] = str(entry.resolve())
    for task in sorted(Path("/sys/fs/ext4").glob("*/journal_task")):
        _add_file(task, files)
        _add_file(Path("/proc") / files.get(str(task), "0") / "comm", files)
    mountinfo = Path("/proc/self/mountinfo").read_text()
    before, after = _load(Path(path))
    mountstats = Path("/proc/self/mountstats").read_text()
    record = {
        "name": name,
        "kernel": os.uname().release,
        "path": path,
        "mountinfo": mountinfo,
        "mountstats": mountstats if "fstype nfs" in mountstats else "",
        "diskstats_before": before,
        "diskstats_after": after,
        "lsblk": json.loads(
            subprocess.run(
                ["lsblk", "--json", "-o", "NAME,TYPE,SIZE,FSTYPE,MOUNTPOINTS"], capture_output=True, check=True
            ).stdout
        ),
        "files": files,
        "links": links,
    }
    Path(target).parent.mkdir(exist_ok=True)
    Path(target).write_text(json.dumps(record, indent=1) + "\n")


def _add_device(folder: Path, files: dict[str, str], links: dict[str, str]) -> None:
    for pattern in PATTERNS:
        _add_file(folder / pattern, files)
    for name in FOLDERS:
        files[f"{folder / name}/"] = ""
        if (folder / name).is_dir():
            links |= {str(entry): str(entry.resolve()) for entry in sorted((folder / name).iterdir())}
    if (folder / "mq").is_dir():
        files[f"{folder}/mq/"] = ""


def _add_file(file: Path, files: dict[str, str]) -> None:
    with suppress(OSError):  # this kind of device has no such file
        files[str(file)] = file.read_text(errors="replace").strip()


def _load(path: Path) -> tuple[str, str]:
    """Write synchronously, then read from the volume; /proc/diskstats before and after."""
    file = path / "load"
    os.sync()
    time.sleep(1)  # what the mount itself began
    before = Path("/proc/diskstats").read_text()
    descriptor = os.open(file, os.O_CREAT | os.O_RDWR)
    for number in range(WRITES):
        os.pwrite(descriptor, bytes(BLOCK_BYTES), number * BLOCK_BYTES)
        os.fdatasync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    for number in range(WRITES):
        os.pread(descriptor, BLOCK_BYTES, number * BLOCK_BYTES)
    os.close(descriptor)
    return before, Path("/proc/diskstats").read_text()


if __name__ == "__main__":
    main(*sys.argv[1:])
