"""First process of a bare machine: mounts what kernel and init provide, changes the root, becomes `init.py`.

python3 inside.py ROOT WORK_DIRECTORY [SOURCE=TARGET ...] -- COMMAND...
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

INIT = Path(__file__).resolve().parent / "init.py"
MNT_DETACH = 2


def main(arguments: list[str]) -> None:
    """Make the bare machine's mounts in this mount namespace and run the commands there."""
    end = arguments.index("--")
    root, work_directory = Path(arguments[0]), arguments[1]
    _mount_kernel(root)
    _mount_cgroups(root)
    for pair in arguments[2:end]:
        source, target = pair.split("=", 1)
        _mount("--bind", source, target)
    shutil.copyfile(INIT, root / "run/init.py")
    Path("/proc/sys/kernel/hostname").write_text("bare")
    _change_root(root)
    os.execv("/usr/bin/python3", ["python3", "/run/init.py", work_directory, *arguments[end + 1 :]])  # noqa: S606 - it becomes the namespace's first process


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _mount_kernel(root: Path) -> None:
    _mount("--bind", str(root), str(root))
    for options, name in (
        (("-t", "proc", "proc"), "proc"),
        (("-t", "sysfs", "sysfs"), "sys"),
        (("-t", "tmpfs", "-o", "mode=755", "tmpfs"), "run"),
        (("-t", "devtmpfs", "devtmpfs"), "dev"),
        (("-t", "devpts", "-o", "newinstance,ptmxmode=0666,mode=620,gid=5", "devpts"), "dev/pts"),
        (("-t", "tmpfs", "-o", "mode=1777", "tmpfs"), "dev/shm"),
    ):
        (root / name).mkdir(exist_ok=True)
        _mount(*options, str(root / name))


def _mount_cgroups(root: Path) -> None:
    """Mount the machine's hierarchies at the same places; in a cgroup namespace each begins at our own cgroup."""
    lines = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    if ["/sys/fs/cgroup", "tmpfs"] in [fields[1:3] for fields in lines]:
        _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(root / "sys/fs/cgroup"))
    controllers = {line.split()[0] for line in Path("/proc/cgroups").read_text().splitlines()[1:]}
    for fields in lines:
        if fields[2] not in {"cgroup", "cgroup2"} or not fields[1].startswith("/sys/fs/cgroup"):
            continue
        target = Path(f"{root}{fields[1]}")
        target.mkdir(parents=True, exist_ok=True)
        options = [option for option in fields[3].split(",") if option in controllers or option.startswith("name=")]
        options += ["none"] * any(option.startswith("name=") for option in options)
        _mount("-t", fields[2], *(["-o", ",".join(options)] if options else []), fields[2], str(target))


def _change_root(root: Path) -> None:
    """Make `root` the root of this mount namespace and let go of the old one."""
    subprocess.run(["pivot_root", str(root), str(root / "mnt")], check=True)
    os.chdir("/")
    if ctypes.CDLL(None, use_errno=True).umount2(b"/mnt", MNT_DETACH) != 0:
        raise OSError(ctypes.get_errno(), "the old root stays mounted")


if __name__ == "__main__":
    main(sys.argv[1:])
