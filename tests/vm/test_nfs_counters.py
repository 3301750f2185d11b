"""The NFS client's counters under a known load, against the server's own and the number of files."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from volbench.machine.host.blockstats import device_read_bytes
from volbench.machine.volume.facts.discovery import discover
from volbench.measure.sample.device.mountstats import MountStats
from volbench.measure.sample.interface import Reading

pytestmark = pytest.mark.vm
LAB = Path(__file__).resolve().parents[1] / "lab/vm"
MOUNT = Path("/mnt/data")
FILES, FILE_BYTES = 20, 100_000
READS = {"3": 6, "4.1": 25, "4.2": 68}
"""Where /proc/net/rpc/nfsd counts the operation by which this client reads: READ, READ, READ_PLUS."""


@pytest.fixture(scope="module", autouse=True)
def server() -> Iterator[None]:
    script = f"A=/dev/nvme0n1; mkdir -p /mnt/data /mnt/other; . {LAB}/nfs_server.sh; lab_export"
    subprocess.run(["bash", "-euc", script], check=True, timeout=300)
    yield
    subprocess.run(
        ["bash", "-c", "rpc.nfsd 0; exportfs -ua; umount /mnt/other; wipefs -qaf /dev/nvme0n1"], check=True
    )


@pytest.fixture(params=list(READS))
def version(request: pytest.FixtureRequest) -> Iterator[str]:
    source = "127.0.0.1:/mnt/other/export" if request.param == "3" else "127.0.0.1:/"
    options = f"vers={request.param}" + (",nolock" if request.param == "3" else "")
    mount = ["mount", "-t", "nfs", "-o", options, source, str(MOUNT)]
    subprocess.run(mount, check=True, timeout=300)
    for number in range(FILES):
        (MOUNT / f"f{number}").write_bytes(os.urandom(FILE_BYTES))
    subprocess.run(["umount", str(MOUNT)], check=True)  # what is cached goes
    subprocess.run(mount, check=True, timeout=300)
    yield str(request.param)
    subprocess.run(["umount", str(MOUNT)], check=True)


def server_reads(version: str) -> int:
    kind = "proc3" if version == "3" else "proc4ops"
    for line in Path("/proc/net/rpc/nfsd").read_text().splitlines():
        if line.startswith(f"{kind} "):
            return int(line.split()[2 + READS[version]])
    raise AssertionError(kind)


def test_a_cold_read_is_counted_as_reads_of_all_its_bytes(version: str) -> None:
    facts = discover(MOUNT)
    assert facts.nfs_version == version
    sampler = MountStats(str(MOUNT))
    first = Reading(t_s=time.monotonic(), values=sampler.read())
    served_before, delivered_before = server_reads(version), device_read_bytes(facts)
    for number in range(FILES):
        assert len((MOUNT / f"f{number}").read_bytes()) == FILE_BYTES
    second = Reading(t_s=time.monotonic(), values=sampler.read())
    sampler.close()
    served, delivered = server_reads(version) - served_before, device_read_bytes(facts)
    values = {row.metric: row.value for row in MountStats.rates(first, second)}
    reads = values["reads_per_s"] * (second.t_s - first.t_s)
    assert reads == pytest.approx(served)
    assert reads >= FILES
    assert "unknown_ops_per_s" not in values
    assert values["r_await_ms"] >= values["r_rtt_ms"] > 0
    assert delivered is not None
    assert delivered_before is not None
    assert delivered - delivered_before >= FILES * FILE_BYTES
