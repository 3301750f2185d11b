"""Control groups of version 2 on a real kernel: a service in a slice, held back by limits of either."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from volbench.machine.host.sysfs import block_device_named
from volbench.measure.sample.cgroup.cgroup_cpu import CgroupCpuAccount, find_cpu_files
from volbench.measure.sample.cgroup.cgroup_io import CgroupIoAccount, find_directory
from volbench.measure.sample.interface import Reading

pytestmark = pytest.mark.vm
ROOT = Path("/sys/fs/cgroup")
SLICE, SERVICE = "system.slice", "system.slice/mysql.service"
PROC_CGROUP = f"0::/{SERVICE}\n"
WRITE_IOPS, QUOTA = 40, 0.25
SECONDS = 6


@pytest.fixture(params=["in the service", "in the slice"])
def limited(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The group that has the limits; controllers are enabled there and not below, as systemd does it."""
    service = ROOT / SERVICE
    service.mkdir(parents=True, exist_ok=True)
    enable(ROOT, "+")
    if request.param == "in the service":
        enable(ROOT / SLICE, "+")
    yield service if request.param == "in the service" else ROOT / SLICE
    enable(ROOT / SLICE, "-")
    service.rmdir()
    (ROOT / SLICE).rmdir()


def enable(group: Path, sign: str) -> None:
    (group / "cgroup.subtree_control").write_text(f"{sign}io {sign}cpu {sign}memory")


def started(*command: str) -> subprocess.Popen[bytes]:
    """A process of the service."""
    script = f'echo $$ >{ROOT / SERVICE}/cgroup.procs && exec "$@"'
    return subprocess.Popen(
        ["sh", "-c", script, "sh", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(timeout=30)


def test_a_limit_of_operations(limited: Path) -> None:
    """The limit is that of io.max, wherever it is; traffic is the service's, where the service has an account."""
    device = block_device_named("/dev/nvme1n1")
    assert device is not None
    number = Path(f"/sys/class/block/{device.disk}/dev").read_text().strip()
    (limited / "io.max").write_text(f"{number} wiops={WRITE_IOPS}")
    sampler = CgroupIoAccount(find_directory(PROC_CGROUP), (device.disk,))
    assert sampler.probe().present
    writer = started("dd", "if=/dev/zero", f"of=/dev/{device.disk}", "bs=4k", "oflag=direct", "count=100000")
    time.sleep(1)  # the first second is not held back
    first = Reading(t_s=time.monotonic(), values=sampler.read())
    disk_first = writes_of(device.disk)
    time.sleep(SECONDS)
    second = Reading(t_s=time.monotonic(), values=sampler.read())
    disk_second = writes_of(device.disk)
    ended(writer)
    sampler.close()
    values = {(row.metric, row.entity): row.value for row in CgroupIoAccount.rates(first, second)}
    assert values["write_iops_max", "server"] == WRITE_IOPS
    at_disk = (disk_second - disk_first) / (second.t_s - first.t_s)
    assert at_disk == pytest.approx(WRITE_IOPS, rel=0.25)
    if limited.name == "mysql.service":
        assert values["write_ops_per_s", "server"] == pytest.approx(at_disk, rel=0.1)
    else:
        assert ("write_ops_per_s", "server") not in values


def writes_of(disk: str) -> int:
    return int(Path(f"/sys/class/block/{disk}/stat").read_text().split()[4])


def test_a_quota_of_processor_time(limited: Path) -> None:
    """A loop that wants one CPU and may have a quarter is held back in most periods."""
    (limited / "cpu.max").write_text(f"{int(QUOTA * 100000)} 100000")
    files = find_cpu_files(PROC_CGROUP, ROOT)
    sampler = CgroupCpuAccount({"server": files})
    loop = started("sh", "-c", "while :; do :; done")
    time.sleep(1)
    first = Reading(t_s=time.monotonic(), values=sampler.read())
    time.sleep(SECONDS)
    second = Reading(t_s=time.monotonic(), values=sampler.read())
    ended(loop)
    sampler.close()
    values = {(row.metric, row.entity): row.value for row in CgroupCpuAccount.rates(first, second)}
    assert values["cpus_used", "server"] == pytest.approx(QUOTA, rel=0.25)
    assert values["throttled_ratio", "server"] > 0.8
