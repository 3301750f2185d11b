"""Why a test may be skipped: each reason is listed with its remedy; any other one is a fault of the set-up."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

#: A combination of parameters that makes no sense says so with this prefix; no machine would run it.
NOT_APPLICABLE = "does not apply: "


@dataclass(frozen=True, kw_only=True)
class Lack:
    """Something that a machine may lack: a pattern of the skip's reason, what it means, how to get it."""

    means: str
    pattern: str
    why: str
    remedy: str


LACKS = (
    Lack(
        means="a Kubernetes cluster",
        pattern=r"needs kubernetes:|stops an API server|makes the namespace|labels nodes|volumes of the lab"
        r"|nodes share one machine|makes definitions of the whole cluster|pods reach this machine",
        why="pods are tried on a real cluster",
        remedy="make test-kubernetes (makes one where none answers)",
    ),
    Lack(
        means="a CSI driver's sources",
        pattern=r"VOLBENCH_CSI names no checkouts",
        why="snapshots are tried with a real driver",
        remedy="VOLBENCH_CSI=DIR with checkouts of kubernetes-csi (tests/lab/kubernetes/README.md)",
    ),
    Lack(
        means="an NFS client in the kernel",
        pattern=r"needs nfs:|mountstats is not there",
        why="exports are mounted by the kernel",
        remedy="modprobe nfs, on a kernel that has the module",
    ),
    Lack(
        means="the virtual machine",
        pattern=r"needs vm:",
        why="they need a kernel with NFS, NVMe and cgroup v2, and erase devices",
        remedy="make test-vm",
    ),
    Lack(
        means="FUSE and loop devices",
        pattern=r"needs emulator:|no loop devices here|needs the daemon",
        why="emulated volumes are file systems and loop devices",
        remedy="root, on a kernel with FUSE and loop devices",
    ),
    Lack(
        means="a server that encrypts",
        pattern=r"needs a server that encrypts",
        why="tables and logs are encrypted by the server of this machine, too",
        remedy="MariaDB's complete package (mariadb-server), or MySQL from 8.0.24 on",
    ),
    Lack(
        means="direct I/O in the temporary directory",
        pattern=r"no O_DIRECT here",
        why="a contrast of sizes is a load without the page cache",
        remedy="TMPDIR on a file system that has it",
    ),
    Lack(
        means="FUSE over io_uring",
        pattern=r"this kernel has no FUSE over io_uring",
        why="emulated block volumes may get their requests that way",
        remedy="Linux 6.18.3 or later with CONFIG_FUSE_IO_URING",
    ),
    Lack(
        means="a C compiler",
        pattern=r"cc is not there",
        why="a library that lets calls of the runner fail is compiled",
        remedy="apt-get install gcc libc6-dev, as `make test` does where it builds the emulator",
    ),
    Lack(
        means="an EBS volume",
        pattern=r"ebs_(nvme|csi) is not there",
        why="its counters are read from the device",
        remedy="an EC2 instance of the Nitro system",
    ),
    Lack(
        means="pressure stall information",
        pattern=r"psi is not there",
        why="the kernel counts it only when it is told to",
        remedy="boot with psi=1",
    ),
    Lack(
        means="control groups of version 2",
        pattern=r"cgroup_(io|cpu) is not there",
        why="their counters are read there",
        remedy="boot with systemd.unified_cgroup_hierarchy=1",
    ),
    Lack(
        means="IPv6",
        pattern=r"this machine has no IPv6",
        why="an address of each family is listened at",
        remedy="a kernel and a loopback device with IPv6",
    ),
    Lack(
        means="a newer kernel",
        pattern=r"this kernel answers by mincore|the kernel gives no mnt_id",
        why="cachestat(2) came with Linux 6.5, mnt_id with 5.8",
        remedy="Linux 6.5 or later",
    ),
    Lack(
        means="a disk below /var/tmp",
        pattern=r"/var/tmp is not on a disk|temporary files are in /dev/shm|no device counter for the temporary",
        why="pages are evicted to a device",
        remedy="TMPDIR on a disk",
    ),
    Lack(
        means="the right to mount",
        pattern=r"mount|needs root|root's rights|root is attacked|somebody else plants it"
        r"|only root (becomes|gives)",
        why="tests mount file systems of their own",
        remedy="run as root",
    ),
    Lack(
        means="a user other than root",
        pattern=r"root may write everywhere",
        why="a refused write is tried",
        remedy="run as a user without rights",
    ),
    Lack(
        means="a memory cgroup",
        pattern=r"no memory cgroup can be made",
        why="the page cache is limited by one",
        remedy="root, with the memory controller mounted",
    ),
    Lack(
        means="a Docker engine with the images",
        pattern=r"needs docker:|no image ",
        why="servers run in containers",
        remedy="make images",
    ),
    Lack(
        means="a local server with sysbench",
        pattern=r"needs mysqld:|the pair is set up in MariaDB's words",
        why="the local target starts it",
        remedy="make local",
    ),
    Lack(
        means="the history of the repository",
        pattern=r"the clone is shallow",
        why="commits that blame passes over are looked up",
        remedy="git fetch --unshallow",
    ),
    Lack(
        means="a Go compiler",
        pattern=r"no Go \d",
        why="workflows are checked by actionlint, which is built from its Go module",
        remedy="Go 1.25 or later on PATH",
    ),
    Lack(
        means="a program",
        pattern=r"is not installed|there is no [\w/.-]+$|^needs [a-z][\w.-]*\b(?!:)|^no [\w.-]+( here)?$"
        r"|needs cargo: the wheel|no Chromium|when we are killed",
        why="the test runs it",
        remedy="make test installs it where the distribution has it",
    ),
)


def lack_of(reason: str) -> Lack | None:
    """The listed lack that a skip's reason is about; None for a reason that is not listed."""
    return next((lack for lack in LACKS if re.search(lack.pattern, reason)), None)


def summary(reasons: Iterable[str]) -> tuple[list[str], list[str]]:
    """Lines of a table of what the skipped tests lacked, and the reasons that are not listed, with their counts."""
    lacks: Counter[Lack] = Counter()
    unlisted: Counter[str] = Counter()
    not_applicable = 0
    for reason in reasons:
        if reason.startswith(NOT_APPLICABLE):
            not_applicable += 1
        elif (lack := lack_of(reason)) is None:
            unlisted[reason] += 1
        else:
            lacks[lack] += 1
    rows = [("tests", "need", "because", "how to get it")]
    rows += [(str(count), lack.means, lack.why, lack.remedy) for lack, count in lacks.most_common()]
    if not_applicable:
        rows.append((str(not_applicable), "nothing", "the combination does not apply", "-"))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return lines if len(rows) > 1 else [], [f"{count} x {reason}" for reason, count in unlisted.most_common()]
