"""The machine's disks: a Debian 13 root file system with its kernel, and the work tree with its Python packages.

Both are kept in the cache by a digest of what they are made from. A change of the work tree makes only the second
anew, which takes seconds.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bootstrap import offline
from bootstrap.command import run
from bootstrap.console import Console
from bootstrap.directories import Directories
from bootstrap.packages import install, program

SUITE = "trixie"
PACKAGES = (
    "bcache-tools", "btrfs-progs", "ca-certificates", "cryptsetup-bin", "crun", "dbus", "dbus-user-session",
    "dmsetup", "docker-cli", "docker.io", "e2fsprogs", "fdisk", "fio", "git", "initramfs-tools", "iproute2",
    "iptables", "kmod", "libpam-systemd", "linux-image-amd64", "lvm2", "mariadb-server", "mdadm", "nbd-client",
    "nbd-server", "nfs-common", "nfs-kernel-server", "nvme-cli", "open-iscsi", "parted", "podman", "procps",
    "python3", "rpcbind", "sysbench", "sysstat", "systemd-sysv", "tgt", "thin-provisioning-tools", "udev", "uidmap",
    "xfsprogs",
)  # fmt: skip
NEEDS = (
    *offline.DEBOOTSTRAP_NEEDS,
    program("qemu-system-x86_64", "qemu-system-x86", reason="runs the virtual machine"),
    program("mke2fs", "e2fsprogs", reason="makes the virtual machine's disks"),
)
TEST_PACKAGES = ("hypothesis", "pytest", "pytest-timeout", "pytest-xdist")
TREE = ("runner", "suites", "tests", "pyproject.toml")
ROOT_IMAGE_BYTES = "6G"
FIRST_PROCESS = """#!/bin/sh
mount -t devtmpfs dev /dev 2>/dev/null
mount -o ro /dev/vdb /opt/volbench
exec /bin/sh /opt/volbench/tree/tests/lab/vm/init.sh
"""
SYSTEMD_PROCESS = """#!/bin/sh
mount -o ro /dev/vdb /opt/volbench
modprobe -a 9pnet_virtio 9p virtio_console
mkdir -p /share
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 share /share
exec python3 /opt/volbench/tree/tests/lab/vm/agent.py
"""
SYSTEMD_UNIT = """[Unit]
Description=The lab's agent
After=local-fs.target systemd-udevd.service dbus.service
[Service]
Environment=HOME=/root
ExecStart=/bin/sh /sbin/lab-agent
ExecStopPost=/bin/systemctl --force poweroff
[Install]
WantedBy=multi-user.target
"""
NOT_STARTED = ("containerd", "docker", "docker.socket", "mariadb", "nbd-server", "nfs-server", "rpcbind", "tgt")
"""Services of Debian's packages: tests and labs start what they need."""
PYTHON = "3.13"
"""Of the suite."""
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, kw_only=True)
class Image:
    """What a machine boots from; none of these files is written to."""

    kernel: Path
    initrd: Path
    root: Path
    tree: Path


def ensure_image(paths: Directories, console: Console) -> Image:
    """Return the machine's disks, made where they are missing. Raises MissingPrerequisite when that fails."""
    install(NEEDS, paths, console)
    cache = paths.cache / "vm"
    cache.mkdir(parents=True, exist_ok=True)
    root = _remaining(cache / f"root-{_root_digest()}", lambda new: _make_root(new, paths, console))
    digest = _tree_digest(paths.root)
    tree = _remaining(cache / f"tree-{digest}", lambda new: _make_tree(new, root, paths, console))
    _remove_others(cache, {root.name, tree.name})
    return Image(kernel=root / "vmlinuz", initrd=root / "initrd", root=root / "root.img", tree=tree / "tree.img")


def _remaining(directory: Path, make: Callable[[Path], None]) -> Path:
    if not directory.exists():
        with tempfile.TemporaryDirectory(prefix="new-", dir=directory.parent) as new:
            made = Path(new) / directory.name
            made.mkdir()
            make(made)
            made.rename(directory)
    return directory


def _remove_others(cache: Path, names: set[str]) -> None:
    """Remove what older packages or an older tree needed."""
    for entry in cache.glob("*-*"):
        if entry.name.startswith(("root-", "tree-")) and entry.name not in names:
            shutil.rmtree(entry)


def _root_digest() -> str:
    made_from = [SUITE, *PACKAGES, FIRST_PROCESS, SYSTEMD_PROCESS, SYSTEMD_UNIT, *NOT_STARTED]
    return hashlib.sha256("\n".join(made_from).encode()).hexdigest()[:12]


def _make_root(new: Path, paths: Directories, console: Console) -> None:
    console.say(f"making the virtual machine's Debian {SUITE} by debootstrap: some minutes, once")
    root, mirror, log = new / "root", offline.find_mirror(), paths.log("vm")
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(root)]
    run(
        [*command, *([mirror] if mirror else [])],
        log=log,
        label=f"debootstrap of Debian {SUITE}",
        timeout_s=offline.DEBOOTSTRAP_LIMIT_S,
    )
    (root / "opt/volbench").mkdir()
    (root / "sbin/lab-init").write_text(FIRST_PROCESS)
    (root / "sbin/lab-init").chmod(0o755)
    _add_unit(root, log)
    for name, pattern in (("vmlinuz", "vmlinuz-*"), ("initrd", "initrd.img-*")):
        shutil.copyfile(next((root / "boot").glob(pattern)), new / name)
    _make_ext4(new / "root.img", root, label="root", size=ROOT_IMAGE_BYTES, log=log)


def _add_unit(root: Path, log: Path) -> None:
    """Let systemd, where it is the first process, start the agent and nothing else of Debian's services."""
    (root / "sbin/lab-agent").write_text(SYSTEMD_PROCESS)
    (root / "etc/systemd/system/volbench-lab.service").write_text(SYSTEMD_UNIT)
    for command in (["enable", "volbench-lab"], ["disable", *NOT_STARTED], ["set-default", "multi-user.target"]):
        run(["chroot", str(root), "systemctl", *command], log=log, label=f"systemctl {command[0]}", timeout_s=60)


def _tree_files(work_tree: Path) -> list[str]:
    listed = subprocess.run(
        ["git", "-C", str(work_tree), "ls-files", "-z", "--cached", "--others", "--exclude-standard", *TREE],
        capture_output=True,
        check=True,
    ).stdout.decode()
    return sorted(name for name in listed.split("\0") if name and (work_tree / name).is_file())


def _tree_digest(work_tree: Path) -> str:
    digest = hashlib.sha256((work_tree / "requirements.lock").read_bytes())
    digest.update(_root_digest().encode())
    for name in _tree_files(work_tree):
        digest.update(name.encode() + b"\0" + hashlib.sha256((work_tree / name).read_bytes()).digest())
    return digest.hexdigest()[:12]


def _make_tree(new: Path, root: Path, paths: Directories, console: Console) -> None:
    console.say("making the disk with the work tree and its Python packages")
    content, log = new / "content", paths.log("vm")
    (content / "tree").mkdir(parents=True)
    for name in _tree_files(paths.root):
        target = content / "tree" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(paths.root / name, target)
    for built in (paths.root / "runner/volbench/sql").glob("*.so"):
        shutil.copy2(built, content / "tree/runner/volbench/sql" / built.name)
    _install_packages(content / "site", paths, log)
    _compile(content, root / "root", log)
    _make_ext4(new / "tree.img", content, label="volbench", size=_size_of(content), log=log)
    shutil.rmtree(content)


def _install_packages(site: Path, paths: Directories, log: Path) -> None:
    """Install the locked packages for the machine's Python; pytest and its plugins in the locked versions."""
    locked = (paths.root / "requirements-dev.lock").read_text().splitlines()
    tests = [line.rstrip(" \\") for line in locked if line.split("==")[0] in TEST_PACKAGES]
    command = [
        str(paths.venv / "bin/uv"), "pip", "install", "--quiet", "--target", str(site), "--python-version", PYTHON,
        "--python-platform", "x86_64-manylinux_2_36", "--only-binary", ":all:",
        "-r", str(paths.root / "requirements.lock"), *tests,
    ]  # fmt: skip
    run(command, log=log, label="installing Python packages for the virtual machine", timeout_s=600)


def _compile(content: Path, root: Path, log: Path) -> None:
    """Compile all modules by the machine's own Python: its processor is slow."""
    directory = root / "opt/volbench"
    script = f"mount --bind {content} {directory} && exec chroot {root} python3 -m compileall -q -j 2 /opt/volbench"
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", f"{script} || true"]
    run(command, log=log, label="compiling Python modules", timeout_s=600)


def _size_of(content: Path) -> str:
    used = subprocess.run(["du", "-sm", str(content)], capture_output=True, check=True, text=True).stdout.split()[0]
    return f"{int(int(used) * 1.3) + 64}M"


def _make_ext4(image: Path, content: Path, *, label: str, size: str, log: Path) -> None:
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-d", str(content), "-L", label, str(image), size]
    run(command, log=log, label=f"making {image.name}", timeout_s=600)
