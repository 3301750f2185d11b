"""Memory of a control group of version 2 on a real kernel: a service that reads more than its slice may keep."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from volbench.measure.sample.cgroup.cgroup_memory import CgroupMemoryAccount, find_memory_groups
from volbench.measure.sample.interface import Reading

pytestmark = pytest.mark.vm
ROOT = Path("/sys/fs/cgroup")
SLICE, SERVICE = "memory.slice", "memory.slice/mysql.service"
HIGH_BYTES, FILE_BYTES = 24 << 20, 64 << 20
MIB = 1 << 20


@pytest.fixture
def held_slice() -> Iterator[Path]:
    """A slice with memory.high, around a service without a limit of its own."""
    (ROOT / SERVICE).mkdir(parents=True)
    (ROOT / "cgroup.subtree_control").write_text("+memory")
    (ROOT / SLICE / "cgroup.subtree_control").write_text("+memory")
    (ROOT / SLICE / "memory.high").write_text(str(HIGH_BYTES))
    yield ROOT / SLICE
    (ROOT / SERVICE).rmdir()
    (ROOT / SLICE).rmdir()


@pytest.mark.usefixtures("held_slice")
def test_what_a_slice_takes_back_is_the_services() -> None:
    """Page cache beyond the slice's memory.high is taken back: the kernel's own counts say so."""
    file = Path("/var/tmp/memory.bin")
    file.write_bytes(bytes(FILE_BYTES))
    groups = find_memory_groups(f"0::/{SERVICE}\n", ROOT)
    assert groups == (ROOT / SERVICE, ROOT / SLICE)
    sampler = CgroupMemoryAccount(groups)
    assert sampler.probe().present
    os.sync()  # what is dirty stays in the cache, and with the group that wrote it
    subprocess.run(["sh", "-c", "echo 3 >/proc/sys/vm/drop_caches"], check=True)
    before = Reading(t_s=time.monotonic(), values=sampler.read())
    script = f"echo $$ >{ROOT / SERVICE}/cgroup.procs; cat {file} >/dev/null"
    subprocess.run(["sh", "-ec", script], check=True, timeout=120)
    after = Reading(t_s=time.monotonic(), values=sampler.read())
    file.unlink()
    values = {row.metric: row.value for row in CgroupMemoryAccount.rates(before, after)}
    assert values["limit_mib"] == HIGH_BYTES / MIB
    assert values["used_mib"] <= 1.25 * HIGH_BYTES / MIB  # high is no hard limit
    taken_back_mib = values["reclaimed_mib_per_s"] * (after.t_s - before.t_s)
    assert taken_back_mib >= 0.8 * (FILE_BYTES - HIGH_BYTES) / MIB
    assert values["high_events_per_s"] > 0
