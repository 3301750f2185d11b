"""Inside the machine: requests of a real NFS client for each action on files, by version and options.

python3 nfs_operations.py FILE

The export is an ext4 on an NVMe device, reached over loopback by the kernel's own client and server. Requests are
counted by the client (mountstats); the server's own counts (/proc/net/rpc/nfsd) and the flushes of its disk stand
beside them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from volbench.measure.sample.parsers.mountstats import parse_mountstats

MOUNT = Path("/mnt/data")
TREE = Path("/tmp/tree")
FILES = 20
FILE_BYTES = 20_000
VARIANTS = {
    "3": ("vers=3,nolock", True),
    "4.1": ("vers=4.1", False),
    "4.2": ("vers=4.2", False),
    "4.2, delegations": ("vers=4.2", True),
    "4.2, nconnect=4": ("vers=4.2,nconnect=4", False),
    "4.2, sync": ("vers=4.2,sync", False),
}
"""Mount options, and whether the server may hand out delegations (leases-enable)."""
PROC4 = {3: "ACCESS", 4: "CLOSE", 5: "COMMIT", 6: "CREATE", 15: "LOOKUP", 18: "OPEN", 25: "READ", 28: "REMOVE",
         29: "RENAME", 34: "SETATTR", 38: "WRITE", 68: "READ_PLUS"}  # fmt: skip
"""Operations by their number (RFC 8881, RFC 7862), as /proc/net/rpc/nfsd counts them."""
PROC3 = {2: "SETATTR", 3: "LOOKUP", 4: "ACCESS", 6: "READ", 7: "WRITE", 8: "CREATE", 12: "REMOVE", 14: "RENAME",
         21: "COMMIT"}  # fmt: skip


def main(target: str) -> None:
    """Count every action under every variant."""
    make_tree()
    rows = []
    for name, (options, leases) in VARIANTS.items():
        Path("/proc/sys/fs/leases-enable").write_text("1" if leases else "0")
        _mount(options)
        for action, (run, repeated) in ACTIONS.items():
            if repeated:
                _remount(options)
            rows.append({"variant": name, "action": action, **_counted(run, options)})
            print(rows[-1], flush=True)
        subprocess.run(["umount", MOUNT], check=True)
        shutil.rmtree("/mnt/other/export/work", ignore_errors=True)
    Path(target).write_text(
        json.dumps({"kernel": os.uname().release, "files": FILES, "rows": rows}, indent=1) + "\n"
    )


def _mount(options: str) -> None:
    version = "/mnt/other/export" if "vers=3" in options else "/"
    subprocess.run(["mount", "-t", "nfs", "-o", options, f"127.0.0.1:{version}", MOUNT], check=True)
    (MOUNT / "work").mkdir(exist_ok=True)


def _counted(run: Callable[[str], None], options: str) -> dict[str, object]:
    """Requests a file, at client and server, and flushes of the server's disk."""
    os.sync()
    before = _counts()
    run(options)
    after = _counts()
    client, server, disk = map(_per_file, before, after)
    return {"requests": client, "server": server, "flushes": disk.get("flushes", 0.0)}


def _per_file(before: Counter[str], after: Counter[str]) -> dict[str, float]:
    return {name: round((after[name] - before[name]) / FILES, 2) for name in after if after[name] > before[name]}


def _counts() -> tuple[Counter[str], Counter[str], Counter[str]]:
    mounts = [m for m in parse_mountstats(Path("/proc/self/mountstats").read_text()) if m.mount_point == str(MOUNT)]
    client = Counter({name: operation.operations for name, operation in mounts[-1].operations.items()})
    server: Counter[str] = Counter()
    for line in Path("/proc/net/rpc/nfsd").read_text().splitlines():
        kind, _, *numbers = line.split()
        names = {"proc4ops": PROC4, "proc3": PROC3}.get(kind, {})
        server.update({name: int(numbers[number]) for number, name in names.items() if number < len(numbers)})
    device = Path(f"/sys/class/block/{os.environ['EXPORT_DISK']}/stat").read_text().split()
    return client, server, Counter({"flushes": int(device[15])})


def make_tree() -> None:
    """Make the directory, archive and repository that are copied."""
    shutil.rmtree(TREE, ignore_errors=True)
    TREE.mkdir()
    for number in range(FILES):
        (TREE / f"f{number:02}").write_bytes(os.urandom(FILE_BYTES))
    script = """cd /tmp && tar cf tree.tar tree && rm -rf repository && cp -r tree repository && cd repository
git init -q . && git add . && git -c user.name=a -c user.email=a@b commit -qm a"""
    subprocess.run(["sh", "-ec", script], check=True)


def _paths(folder: str = "made") -> list[Path]:
    (MOUNT / "work" / folder).mkdir(exist_ok=True)
    return [MOUNT / "work" / folder / f"f{number:02}" for number in range(FILES)]


def _write(path: Path, flags: int, *, piece: int = FILE_BYTES, sync: bool = False) -> None:
    descriptor = os.open(path, flags | os.O_WRONLY, 0o644)
    for _ in range(FILE_BYTES // piece):
        os.write(descriptor, bytes(piece))
    if sync:
        os.fsync(descriptor)
    os.close(descriptor)


def create(_: str) -> None:
    """Create, write, close."""
    for path in _paths():
        _write(path, os.O_CREAT)


def create_exclusively(_: str) -> None:
    """The same with O_EXCL."""
    for path in _paths("excl"):
        _write(path, os.O_CREAT | os.O_EXCL)


def create_and_sync(_: str) -> None:
    """The same with fsync before close."""
    for path in _paths("fsync"):
        _write(path, os.O_CREAT, sync=True)


def create_by_pieces(_: str) -> None:
    """The same by writes of 4,000 bytes."""
    for path in _paths("pieces"):
        _write(path, os.O_CREAT, piece=4000)


def rewrite(_: str) -> None:
    """Open with O_TRUNC, write, close."""
    for path in _paths():
        _write(path, os.O_TRUNC)


def write_and_sync(_: str) -> None:
    """Write and fsync in one open file, as a log does."""
    descriptor = os.open(_paths()[0], os.O_WRONLY)
    for number in range(FILES):
        os.pwrite(descriptor, bytes(4096), 4096 * number)
        os.fsync(descriptor)
    os.close(descriptor)


def read(_: str) -> None:
    """Open, read, close."""
    for path in _paths():
        path.read_bytes()


def stat(_: str) -> None:
    """Stat."""
    for path in _paths():
        path.stat()


def rename(_: str) -> None:
    """Rename."""
    for path in _paths():
        path.rename(path.with_suffix(".new"))


def delete(_: str) -> None:
    """Unlink."""
    for path in _paths():
        path.with_suffix(".new").unlink()


def copy(_: str) -> None:
    """Copy by cp -r."""
    subprocess.run(["cp", "-r", TREE, MOUNT / "work/cp"], check=True)


def copy_with_attributes(_: str) -> None:
    """Copy by cp -a."""
    subprocess.run(["cp", "-a", TREE, MOUNT / "work/cp-a"], check=True)


def extract(_: str) -> None:
    """Extract by tar."""
    subprocess.run(["tar", "-xf", "/tmp/tree.tar", "-C", MOUNT / "work"], check=True)


def clone(_: str) -> None:
    """Clone by git."""
    subprocess.run(["git", "clone", "-q", "file:///tmp/repository", MOUNT / "work/clone"], check=True)


def _remount(options: str) -> None:
    subprocess.run(["umount", MOUNT], check=True)
    _mount(options)


ACTIONS: dict[str, tuple[Callable[[str], None], bool]] = {
    "create, write, close": (create, False),
    "… with O_EXCL": (create_exclusively, False),
    "… with fsync": (create_and_sync, False),
    "… by 4,000 bytes": (create_by_pieces, False),
    "O_TRUNC, write, close": (rewrite, False),
    "write, fsync (open file)": (write_and_sync, False),
    "stat after a mount": (stat, True),
    "stat again": (stat, False),
    "read after a mount": (read, True),
    "read again": (read, False),
    "rename": (rename, False),
    "unlink": (delete, False),
    "cp -r": (copy, False),
    "cp -a": (copy_with_attributes, False),
    "tar x": (extract, False),
    "git clone": (clone, False),
}
"""What is done, and whether the export is mounted anew before."""


if __name__ == "__main__":
    main(sys.argv[1])
