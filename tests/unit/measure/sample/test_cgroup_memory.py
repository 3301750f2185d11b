"""The memory of the server's control group: of version 2, with the limits of the groups around it."""

from __future__ import annotations

from pathlib import Path

import pytest
from sampled_rates import rates

from volbench.measure.sample.cgroup.cgroup_memory import CgroupMemoryAccount, find_memory_groups
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.interface import Unavailable
from volbench.measure.sample.shared import Shared

SERVICE = "0::/system.slice/mysql.service\n"
MIB = 1 << 20


def write_group(
    group: Path, *, high: str = "max", most: str = "max", events: int = 0, used: int = 64 * MIB
) -> None:
    group.mkdir(parents=True, exist_ok=True)
    (group / "memory.current").write_text(f"{used}\n")
    (group / "memory.high").write_text(f"{high}\n")
    (group / "memory.max").write_text(f"{most}\n")
    (group / "memory.events.local").write_text(f"low 0\nhigh {events}\nmax 0\noom 0\noom_kill 0\n")
    (group / "memory.stat").write_text(f"anon 1\nworkingset_refault_file {events}\npgsteal {256 * events}\n")


def test_limits_and_events_of_the_slice_count_for_the_service_in_it(tmp_path: Path) -> None:
    """memory.high of a slice holds back all that is in it; the least limit is the one that is met."""
    slice_, service = tmp_path / "system.slice", tmp_path / "system.slice/mysql.service"
    write_group(slice_, high=str(80 * MIB))
    write_group(service, most=str(200 * MIB))
    sampler = CgroupMemoryAccount(find_memory_groups(SERVICE, tmp_path))
    before = sampler.read()
    write_group(slice_, high=str(80 * MIB), events=6)
    write_group(service, most=str(200 * MIB), events=2, used=72 * MIB)
    assert rates(CgroupMemoryAccount, before, sampler.read(), dt_s=2) == {
        ("used_mib", "server"): 72.0,
        ("limit_mib", "server"): 80.0,
        ("high_events_per_s", "server"): 4.0,  # (6 + 2) / 2
        ("max_events_per_s", "server"): 0.0,
        ("reclaimed_mib_per_s", "server"): 1.0,  # 2 x 256 pages of 4 KiB in 2 s
        ("refaults_per_s", "server"): 1.0,
    }


def test_a_container_is_held_by_the_limits_of_the_groups_around_it(tmp_path: Path) -> None:
    """An engine makes a container's group below a slice or a parent group, whose limits hold the container too."""
    parent, container = tmp_path / "databases.slice", tmp_path / "databases.slice/docker-0a1b.scope"
    write_group(parent, high=str(80 * MIB))
    write_group(container, most=str(200 * MIB))
    for group in (tmp_path, parent, container):
        (group / "cgroup.procs").touch()
    config = SamplingConfig(raw_file="", zero_monotonic_ns=0, cgroup_dir=str(container))
    values = CgroupMemoryAccount.from_config(config, Shared(config)).read()
    assert values["limit_bytes", "server"] == 80 * MIB


def test_a_service_without_the_controller_is_counted_in_its_slice(tmp_path: Path) -> None:
    write_group(tmp_path / "system.slice")
    (tmp_path / "system.slice/mysql.service").mkdir()
    assert find_memory_groups(SERVICE, tmp_path) == (tmp_path / "system.slice",)


@pytest.mark.parametrize("proc_cgroup", ["0::/\n", "4:memory:/docker/abc\n", "0::/../elsewhere\n", ""])
def test_the_root_group_and_version_1_have_no_account(tmp_path: Path, proc_cgroup: str) -> None:
    sampler = CgroupMemoryAccount(find_memory_groups(proc_cgroup, tmp_path))
    assert not sampler.probe().present
    with pytest.raises(Unavailable):
        sampler.read()


def test_a_group_that_is_removed_is_missing_and_no_zero(tmp_path: Path) -> None:
    service = tmp_path / "system.slice/mysql.service"
    write_group(service)
    sampler = CgroupMemoryAccount((service,))
    assert sampler.probe().present
    (service / "memory.stat").unlink()
    with pytest.raises(Unavailable, match="No such file"):
        sampler.read()
