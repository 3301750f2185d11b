"""The kernel's own throttle: limits and traffic of a control group of version 1, read while fio is held back."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from volbench.machine.host.sysfs import disks_of
from volbench.measure.sample.cgroup.cgroup_io import CgroupIoAccount, find_directory
from volbench.measure.sample.interface import Reading

BLKIO = Path("/sys/fs/cgroup/blkio")
READ_IOPS = 400
SECONDS = 3
BUSY_MACHINE = 0.6
"""Share of its limit that fio reaches where it gets few CPUs; the limit around it is a quarter."""

THROTTLE = BLKIO / "blkio.throttle.read_iops_device"
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not THROTTLE.exists() or shutil.which("fio") is None,
    reason="does not apply: needs root, fio and the blkio controller of control groups version 1",
)


@pytest.fixture
def group() -> Iterator[Path]:
    """A group of blkio within another one."""
    location = BLKIO / f"volbench-test-{os.getpid()}"
    (location / "server").mkdir(parents=True)
    yield location / "server"
    (location / "server").rmdir()
    location.rmdir()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    """A loop device of 64 MiB, by its kernel name."""
    image = tmp_path / "image"
    image.write_bytes(os.urandom(64 << 20))
    command = ["losetup", "--find", "--show", "--direct-io=on", str(image)]
    made = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    yield Path(made.stdout.strip()).name
    subprocess.run(["losetup", "--detach", made.stdout.strip()], check=True, timeout=120)


def number_of(disk: str) -> str:
    return (Path("/sys/class/block") / disk / "dev").read_text().strip()


def readings_under_load(group: Path, disk: str) -> tuple[Reading, Reading, str]:
    """Two readings while fio reads at random in the group, and fio's own figure of reads a second."""
    sampler = CgroupIoAccount(find_directory(f"1:blkio:/{group.relative_to(BLKIO)}\n"), (disk,))
    assert sampler.probe().present
    command = [
        "fio",
        "--name=r",
        f"--filename=/dev/{disk}",
        "--rw=randread",
        "--bs=16k",
        "--direct=1",
        "--ioengine=libaio",
        "--iodepth=8",
        "--time_based",
        f"--runtime={SECONDS + 1}",
        "--output-format=terse",
        "--terse-version=3",
    ]
    joined = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(group), *command]
    fio = subprocess.Popen(joined, stdout=subprocess.PIPE, text=True)
    time.sleep(1.0)  # fio's first second: it opens its file and fills its queue
    first = Reading(t_s=time.monotonic(), values=sampler.read())
    time.sleep(SECONDS - 1.0)
    second = Reading(t_s=time.monotonic(), values=sampler.read())
    output, _ = fio.communicate(timeout=60)
    sampler.close()
    return first, second, output.strip().split(";")[7]


def test_a_group_at_its_limit_is_sampled_with_limit_and_rate(group: Path, disk: str) -> None:
    (group / "blkio.throttle.read_iops_device").write_text(f"{number_of(disk)} {READ_IOPS}")
    (group / "blkio.throttle.write_bps_device").write_text(f"{number_of(disk)} {3 << 20}")
    first, second, fio_iops = readings_under_load(group, disk)
    values = {(row.metric, row.entity): row.value for row in CgroupIoAccount.rates(first, second)}
    assert values["read_iops_max", "server"] == READ_IOPS
    assert values["write_mib_per_s_max", "server"] == 3
    assert ("write_iops_max", "server") not in values
    reads = values["read_ops_per_s", "server"]
    assert BUSY_MACHINE * READ_IOPS < reads < 1.05 * READ_IOPS
    assert reads == pytest.approx(float(fio_iops), rel=0.2), "fio counts its whole time"
    assert values["read_mib_per_s", "server"] == pytest.approx(reads * 16 / 1024, rel=0.01)
    assert values["reads_per_s", disk] == values["read_ops_per_s", "server"]


def test_version_1_does_not_hold_a_group_to_the_limit_around_it(group: Path, disk: str) -> None:
    """What the sampler rests on: fio in the inner group reads faster than the outer one's limit."""
    (group.parent / "blkio.throttle.read_iops_device").write_text(f"{number_of(disk)} {READ_IOPS // 4}")
    (group / "blkio.throttle.read_iops_device").write_text(f"{number_of(disk)} {READ_IOPS}")
    first, second, _ = readings_under_load(group, disk)
    values = {(row.metric, row.entity): row.value for row in CgroupIoAccount.rates(first, second)}
    assert values["read_iops_max", "server"] == READ_IOPS
    assert BUSY_MACHINE * READ_IOPS < values["read_ops_per_s", "server"] < 1.05 * READ_IOPS


def test_a_limit_below_a_loop_device_is_the_volumes_too(group: Path, disk: str, tmp_path: Path) -> None:
    (below,) = disks_of([disk]) - {disk}
    (group / "blkio.throttle.read_iops_device").write_text(f"{number_of(below)} {READ_IOPS}")
    first, second, fio_iops = readings_under_load(group, disk)
    values = {(row.metric, row.entity): row.value for row in CgroupIoAccount.rates(first, second)}
    assert values["read_iops_max", "server"] == READ_IOPS
    assert BUSY_MACHINE * READ_IOPS < float(fio_iops) < 1.05 * READ_IOPS
