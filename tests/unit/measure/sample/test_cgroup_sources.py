"""The server's control group: its counters, its limits and its quota, of both versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from sampled_rates import FIXTURES, rates

from volbench.measure.sample.cgroup import cgroup_io
from volbench.measure.sample.cgroup.cgroup_cpu import CgroupCpuAccount, find_cpu_files
from volbench.measure.sample.cgroup.cgroup_io import CgroupIoAccount, find_directory
from volbench.measure.sample.interface import Unavailable
from volbench.measure.sample.server_group import ServerGroup


def sysfs(tmp_path: Path, disks: Mapping[str, str]) -> Path:
    """A sysfs with whole disks by major:minor."""
    sys = tmp_path / "sys"
    for folder in ("dev/block", "class/block"):
        (sys / folder).mkdir(parents=True)
    for number, name in disks.items():
        (sys / "devices" / name).mkdir(parents=True)
        (sys / "dev/block" / number).symlink_to(sys / "devices" / name)
        (sys / "class/block" / name).symlink_to(sys / "devices" / name)
    return sys


def version_2_group(tmp_path: Path) -> Path:
    group = tmp_path / "cgroup" / "system.slice" / "server.scope"
    group.mkdir(parents=True)
    (group / "io.stat").write_text((FIXTURES / "io-stat-v2.txt").read_text())
    return group


def test_a_group_of_version_2_is_found_and_read_by_device_name(tmp_path: Path) -> None:
    group = version_2_group(tmp_path)
    sys = sysfs(tmp_path, {"8:16": "sdb"})
    assert find_directory("0::/system.slice/server.scope\n", tmp_path / "cgroup") == group
    sampler = CgroupIoAccount(group, sys=sys)
    assert sampler.probe().present
    values = sampler.read()
    sampler.close()
    assert values["reads", "sdb"] == 192
    assert values["reads", "8:0"] == 10


def test_a_group_of_version_1_is_found_below_its_controller(tmp_path: Path) -> None:
    group = tmp_path / "blkio" / "docker" / ("0123456789abcdef" * 4)
    group.mkdir(parents=True)
    (group.parent / "cgroup.procs").write_text("")
    (group / "blkio.throttle.io_serviced").write_text((FIXTURES / "blkio-serviced-v1.txt").read_text())
    (group / "blkio.throttle.io_service_bytes").write_text((FIXTURES / "blkio-bytes-v1.txt").read_text())
    assert find_directory((FIXTURES / "proc-cgroup-v1.txt").read_text(), tmp_path) == group
    sampler = CgroupIoAccount(group, sys=tmp_path / "none")
    assert sampler.probe().present
    assert sampler.read()["write_bytes", "8:16"] == 314773504
    sampler.close()


def test_the_root_group_of_version_1_is_absent(tmp_path: Path) -> None:
    for name in ("blkio.throttle.io_serviced", "blkio.throttle.io_service_bytes"):
        (tmp_path / name).write_text("Total 0\n")
    result = CgroupIoAccount(tmp_path).probe()
    assert (result.present, "root group" in result.reason) == (False, True)


def test_a_group_that_counted_nothing_gives_no_zero(tmp_path: Path) -> None:
    group = version_2_group(tmp_path)
    (group / "io.stat").write_text("253:0 \n")
    sampler = CgroupIoAccount(group)
    assert sampler.probe().present
    with pytest.raises(Unavailable, match="counted no I/O"):
        sampler.read()
    sampler.close()


def test_the_tightest_limit_of_version_2_is_that_of_any_group_around_the_server(tmp_path: Path) -> None:
    """A pod's, a slice's or a unit's limit holds back all that is below; limits of other disks do not count."""
    group = version_2_group(tmp_path)
    for around in (group, group.parent, tmp_path / "cgroup"):
        (around / "cgroup.procs").write_text("")
    (group / "io.max").write_text(
        "8:16 rbps=max wbps=max riops=1200 wiops=max\n8:0 rbps=max wbps=max riops=5 wiops=5\n"
    )
    (group.parent / "io.max").write_text("8:16 rbps=2097152 wbps=max riops=800 wiops=max\n")
    sampler = CgroupIoAccount(group, ("sdb",), sys=sysfs(tmp_path, {"8:16": "sdb", "8:0": "sda"}))
    assert sampler.probe().present
    before = sampler.read()
    (group.parent / "io.max").write_text("8:16 rbps=2097152 wbps=max riops=max wiops=max\n")
    after = sampler.read()
    sampler.close()
    limits = {name for name, who in rates(CgroupIoAccount, before, before) if who == "server" and "max" in name}
    assert limits == {"read_iops_max", "read_mib_per_s_max"}
    assert rates(CgroupIoAccount, before, before)["read_iops_max", "server"] == 800
    assert rates(CgroupIoAccount, before, after)["read_iops_max", "server"] == 1200, "the group's own is left"


def test_version_1_holds_a_group_to_its_own_limits_alone(tmp_path: Path) -> None:
    """blkio-controller.rst: throttling treats all groups as one flat list."""
    group = tmp_path / "blkio" / "docker" / "server"
    group.mkdir(parents=True)
    for location in (group, group.parent):
        (location / "cgroup.procs").write_text("")
        (location / "blkio.throttle.io_serviced").write_text((FIXTURES / "blkio-serviced-v1.txt").read_text())
        (location / "blkio.throttle.io_service_bytes").write_text((FIXTURES / "blkio-bytes-v1.txt").read_text())
        for name in ("read_iops", "write_iops", "read_bps", "write_bps"):
            (location / f"blkio.throttle.{name}_device").write_text("")
    (group / "blkio.throttle.write_iops_device").write_text("8:16 300\n")
    (group.parent / "blkio.throttle.write_iops_device").write_text("8:16 100\n")
    (group / "blkio.throttle.read_bps_device").write_text("8:16 12582912\n")
    sampler = CgroupIoAccount(group, ("sdb",), sys=sysfs(tmp_path, {"8:16": "sdb"}))
    assert sampler.probe().present
    values = sampler.read()
    sampler.close()
    limits = {entry: value for entry, value in rates(CgroupIoAccount, values, values).items() if "max" in entry[0]}
    assert limits == {("write_iops_max", "server"): 300, ("read_mib_per_s_max", "server"): 12}


def test_no_hierarchy_with_an_account_is_none(tmp_path: Path) -> None:
    assert find_directory("0::/\n", tmp_path) is None


def test_the_cpu_account_of_a_group_of_version_1_and_of_its_quota(tmp_path: Path) -> None:
    """Half of the periods were held back, and half a CPU was used."""
    for controller, name, text in (
        ("cpu", "cpu.stat", "nr_periods 10\nnr_throttled 5\nthrottled_time 400000123\n"),
        ("cpuacct", "cpuacct.usage", "2500000000\n"),
    ):
        group = tmp_path / controller / "docker" / "abc"
        group.mkdir(parents=True)
        (group / name).write_text(text)
    files = find_cpu_files("2:cpuacct:/docker/abc\n1:cpu:/docker/abc\n0::/docker/abc\n", tmp_path)
    sampler = CgroupCpuAccount({"server": files, "client": ()})
    assert sampler.probe().present
    values = sampler.read()
    sampler.close()
    assert values == {
        ("used_us", "server"): 2_500_000,
        ("periods", "server"): 10,
        ("throttled", "server"): 5,
        ("throttled_us", "server"): 400_000,
    }
    later: dict[tuple[str, str], float] = {
        ("used_us", "server"): 3_000_000,
        ("periods", "server"): 20,
        ("throttled", "server"): 10,
        ("throttled_us", "server"): 1_000_000,
    }
    assert rates(CgroupCpuAccount, values, later) == {
        ("cpus_used", "server"): 0.5,
        ("throttled_ratio", "server"): 0.5,
        ("throttled_s_per_s", "server"): 0.6,
    }


def test_a_group_of_version_2_without_a_quota_has_no_throttled_ratio(tmp_path: Path) -> None:
    """Without a quota no period is counted: nothing is known of being held back, not even zero."""
    group = tmp_path / "system.slice"
    group.mkdir()
    (group / "cpu.stat").write_text("usage_usec 100\nuser_usec 60\nnr_periods 0\nnr_throttled 0\n")
    (group / "cpu.max").write_text("max 100000\n")
    assert find_cpu_files("0::/system.slice\n", tmp_path) == (str(group / "cpu.stat"),)
    assert find_cpu_files("0::/\n", tmp_path) == ()
    before: dict[tuple[str, str], float] = {
        ("used_us", "client"): 100,
        ("periods", "client"): 0,
        ("throttled", "client"): 0,
    }
    assert set(rates(CgroupCpuAccount, before, before)) == {("cpus_used", "client")}


def slices(tmp_path: Path) -> tuple[Path, Path]:
    """A service of version 2 in a slice; systemd enables controllers in a slice that has a limit, and not below."""
    service = tmp_path / "system.slice" / "mysql.service"
    service.mkdir(parents=True)
    for group in (service, service.parent):
        (group / "cgroup.procs").write_text("")
        (group / "cgroup.controllers").write_text("cpu io memory pids\n")
        (group / "cpu.stat").write_text("usage_usec 100\nuser_usec 60\n")
    return service, service.parent


def test_a_quota_of_the_slice_holds_back_the_service_in_it(tmp_path: Path) -> None:
    """The service's own cpu.stat counts no throttled period: the slice's does."""
    service, slice_ = slices(tmp_path)
    (slice_ / "cpu.max").write_text("50000 100000\n")
    (slice_ / "cpu.stat").write_text("usage_usec 900\nnr_periods 10\nnr_throttled 5\nthrottled_usec 70\n")
    files = find_cpu_files("0::/system.slice/mysql.service\n", tmp_path)
    assert files == (str(service / "cpu.stat"), str(slice_ / "cpu.stat"))
    sampler = CgroupCpuAccount({"server": files})
    before = sampler.read()
    (service / "cpu.stat").write_text("usage_usec 500100\nuser_usec 60\n")
    (slice_ / "cpu.stat").write_text("usage_usec 900000\nnr_periods 20\nnr_throttled 13\nthrottled_usec 1600070\n")
    after = sampler.read()
    sampler.close()
    assert rates(CgroupCpuAccount, before, after) == {
        ("cpus_used", "server"): 0.5,
        ("throttled_ratio", "server"): 0.8,
        ("throttled_s_per_s", "server"): 1.6,  # of two CPUs together
    }


@pytest.mark.parametrize("limited", ["service", "slice"])
def test_a_quota_of_the_group_that_server_and_load_share_is_of_both(tmp_path: Path, limited: str) -> None:
    """A run in a service of systemd, or in a container: everything of it is in one group."""
    service, slice_ = slices(tmp_path)
    group = service if limited == "service" else slice_
    (group / "cpu.max").write_text("15000 100000\n")
    (group / "cpu.stat").write_text("usage_usec 100\nnr_periods 10\nnr_throttled 5\nthrottled_usec 70\n")
    server, _move = moved_server(tmp_path)
    for process in ("77", "self"):
        (tmp_path / "proc" / process / "cgroup").write_text("0::/system.slice/mysql.service\n")
    sampler = CgroupCpuAccount({}, server=server, cgroups=tmp_path)
    before = sampler.read()
    (group / "cpu.stat").write_text("usage_usec 150100\nnr_periods 20\nnr_throttled 15\nthrottled_usec 1700070\n")
    result = rates(CgroupCpuAccount, before, sampler.read())
    sampler.close()
    assert result["throttled_ratio", "cell"] == 1
    assert result["throttled_s_per_s", "cell"] == 1.7
    assert {entity for _, entity in result} == {"cell"}


def test_a_shared_group_that_counts_no_quota_is_no_account(tmp_path: Path) -> None:
    """A session without the CPU controller: it has the time of all that runs there, and no periods."""
    slices(tmp_path)
    server, _move = moved_server(tmp_path)
    for process in ("77", "self"):
        (tmp_path / "proc" / process / "cgroup").write_text("0::/system.slice/mysql.service\n")
    sampler = CgroupCpuAccount({}, server=server, cgroups=tmp_path)
    with pytest.raises(Unavailable, match="no quota"):
        sampler.read()
    sampler.close()


def test_limits_of_the_slice_are_known_where_the_service_has_no_account(tmp_path: Path) -> None:
    service, slice_ = slices(tmp_path)
    assert find_directory("0::/system.slice/mysql.service\n", tmp_path) is None
    (slice_ / "io.stat").write_text("8:16 rbytes=1 wbytes=1 rios=1 wios=1 dbytes=0 dios=0\n")
    (slice_ / "io.max").write_text("8:16 rbps=max wbps=max riops=max wiops=50\n")
    assert find_directory("0::/system.slice/mysql.service\n", tmp_path) == service
    sampler = CgroupIoAccount(service, ("sdb",), sys=sysfs(tmp_path, {"8:16": "sdb"}))
    assert sampler.probe().present
    values = sampler.read()
    sampler.close()
    assert values == {("write_iops_max", "server"): 50}  # the slice's traffic is of others, too


def test_a_group_whose_controllers_lack_io_says_so(tmp_path: Path) -> None:
    """Containers of Podman without root: systemd delegates no I/O to users, so that they have no account."""
    service = tmp_path / "cgroup" / "user.slice" / "libpod-1.scope"
    service.mkdir(parents=True)
    (service / "cgroup.controllers").write_text("cpu memory pids\n")
    for group in (service, service.parent):
        (group / "cgroup.procs").write_text("")
    (service.parent / "io.max").write_text("")
    sampler = CgroupIoAccount(find_directory("0::/user.slice/libpod-1.scope\n", tmp_path / "cgroup"), ("sdb",))
    assert sampler.probe().present
    with pytest.raises(Unavailable, match=r"not enabled for .*libpod-1.scope \(enabled: cpu, memory, pids\)"):
        sampler.read()
    sampler.close()


def moved_server(tmp_path: Path) -> tuple[ServerGroup, Callable[[str], None]]:
    """A server that runs as process 77, and what puts it into a group of all hierarchies."""
    (tmp_path / "state").write_text("3 running 77\n")
    for process in ("77", "self"):
        (tmp_path / "proc" / process).mkdir(parents=True)
        (tmp_path / "proc" / process / "cgroup").write_text("4:cpu:/\n3:cpuacct:/\n2:blkio:/\n")

    def move(group: str) -> None:
        (tmp_path / "proc/77/cgroup").write_text(f"4:cpu:/{group}\n3:cpuacct:/{group}\n2:blkio:/{group}\n")

    return ServerGroup(tmp_path / "state", tmp_path / "proc"), move


def test_a_server_that_is_moved_into_a_limited_group_is_followed(tmp_path: Path) -> None:
    """Systemd, or a DBA, sets a limit while the server runs."""
    for name in ("first", "second"):
        group = tmp_path / "blkio" / name
        group.mkdir(parents=True)
        for location in (group, group.parent):
            (location / "cgroup.procs").write_text("")
            (location / "blkio.throttle.io_serviced").write_text((FIXTURES / "blkio-serviced-v1.txt").read_text())
            (location / "blkio.throttle.io_service_bytes").write_text((FIXTURES / "blkio-bytes-v1.txt").read_text())
        for limit in ("read_iops", "write_iops", "read_bps", "write_bps"):
            (group / f"blkio.throttle.{limit}_device").write_text("8:16 300\n" if name == "second" else "")
    server, move = moved_server(tmp_path)
    sampler = CgroupIoAccount(None, ("sdb",), sys=sysfs(tmp_path, {"8:16": "sdb"}), server=server, cgroups=tmp_path)
    assert "root group" in sampler.probe().reason
    move("first")
    assert sampler.probe().present
    before = sampler.read()
    move("second")
    after = sampler.read()
    sampler.close()
    assert set(rates(CgroupIoAccount, before, after)) == {
        (name, "server") for name, _ in cgroup_io.LIMITS.values()
    }, "limits of the new group, and no rates between two groups"
    assert ("read_ops_per_s", "server") in rates(CgroupIoAccount, after, after)
    (tmp_path / "state").write_text("4 stopped 0\n")
    with pytest.raises(Unavailable, match="not known"):
        sampler.read()


def test_a_quota_of_the_servers_group_is_seen_once_it_is_in_one(tmp_path: Path) -> None:
    for controller, file, text in (
        ("cpu", "cpu.stat", "nr_periods 10\nnr_throttled 5\nthrottled_time 9\n"),
        ("cpuacct", "cpuacct.usage", "1000000\n"),
    ):
        for group in ("server", "."):
            (tmp_path / controller / group).mkdir(parents=True, exist_ok=True)
            (tmp_path / controller / group / file).write_text(text)
    server, move = moved_server(tmp_path)
    sampler = CgroupCpuAccount({}, server=server, cgroups=tmp_path)
    assert not sampler.probe().present, "the server is where the client is"
    move("server")
    before = sampler.read()
    (tmp_path / "cpu/server/cpu.stat").write_text("nr_periods 20\nnr_throttled 12\nthrottled_time 99\n")
    result = rates(CgroupCpuAccount, before, sampler.read())
    sampler.close()
    assert result["throttled_ratio", "server"] == pytest.approx(0.7)
    assert result["cpus_used", "server"] == 0
    move("")
    with pytest.raises(Unavailable):
        sampler.read()


def test_a_group_of_the_cpu_controller_alone_has_no_usage_and_a_quota(tmp_path: Path) -> None:
    """The root group of cpuacct counts the whole machine, which is not the server's."""
    for location, text in (
        ("cpu/db/cpu.stat", "nr_periods 10\nnr_throttled 5\n"),
        ("cpuacct/cpuacct.usage", "1\n"),
    ):
        (tmp_path / location).parent.mkdir(parents=True)
        (tmp_path / location).write_text(text)
    files = find_cpu_files("4:cpu:/db\n3:cpuacct:/\n", tmp_path)
    sampler = CgroupCpuAccount({"server": files})
    before = sampler.read()
    (tmp_path / "cpu/db/cpu.stat").write_text("nr_periods 20\nnr_throttled 12\n")
    result = rates(CgroupCpuAccount, before, sampler.read())
    sampler.close()
    assert result == {("throttled_ratio", "server"): pytest.approx(0.7)}
