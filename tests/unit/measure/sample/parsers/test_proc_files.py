"""Texts of the kernel, of several versions, become counters; nothing is invented for what is not in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volbench.measure.sample.parsers.cgroup import GroupIoCounters, join_blkio, parse_io_stat, parse_proc_cgroup
from volbench.measure.sample.parsers.diskstats import parse_diskstats
from volbench.measure.sample.parsers.netstat import parse_netstat
from volbench.measure.sample.parsers.psi import parse_pressure
from volbench.measure.sample.parsers.stat import CpuTicks, parse_cpu_list, parse_cpus, parse_stat, parse_vmstat

FIXTURES = Path(__file__).parents[4] / "fixtures" / "sample"


def fixture(name: str) -> str:
    return (FIXTURES / name).read_text()


def test_diskstats_of_linux_before_4_18_have_neither_discards_nor_flushes() -> None:
    disk = parse_diskstats(fixture("diskstats-14-columns.txt"))["sda"]
    assert (disk.reads, disk.read_sectors, disk.writes, disk.in_flight) == (44101, 2901234, 882341, 3)
    assert (disk.busy_ms, disk.weighted_ms) == (455001, 932466)
    assert disk.discards is None
    assert disk.flushes is None


def test_diskstats_with_18_columns_have_discards_but_no_flushes() -> None:
    disk = parse_diskstats(fixture("diskstats-18-columns.txt"))["nvme1n1"]
    assert (disk.discards, disk.discard_sectors, disk.discard_ms) == (12, 4096, 7)
    assert disk.flushes is None


def test_diskstats_with_20_columns_have_all() -> None:
    disks = parse_diskstats(fixture("diskstats-20-columns.txt"))
    assert len(disks) == 10
    assert disks["loop7"].reads == 0
    assert disks["vda"].flushes is not None
    assert disks["vda"].flushes > 0


def test_only_wanted_disks_are_parsed() -> None:
    assert list(parse_diskstats(fixture("diskstats-14-columns.txt"), {"sda1"})) == ["sda1"]


def test_columns_of_a_later_kernel_are_left_out() -> None:
    line = fixture("diskstats-18-columns.txt").rstrip() + " 5 6 7 8\n"
    disk = parse_diskstats(line)["nvme1n1"]
    assert (disk.flushes, disk.flush_ms) == (5, 6)


@pytest.mark.parametrize("text", ["no disks here", "8 0 sda 1 2 3"])
def test_what_is_no_diskstats_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="diskstats"):
        parse_diskstats(text)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=17, max_size=17))
def test_every_number_lands_in_its_field(numbers: list[int]) -> None:
    disk = parse_diskstats("8 0 sda " + " ".join(map(str, numbers)))["sda"]
    assert [getattr(disk, name) for name in type(disk).__slots__] == numbers


def test_pressure_totals_are_microseconds() -> None:
    text = "some avg10=2.68 avg60=4.32 avg300=7.04 total=60779442\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
    assert parse_pressure(text) == {"some": 60779442, "full": 7}


def test_recorded_pressure_has_both_kinds() -> None:
    assert parse_pressure(fixture("pressure-io.txt")).keys() == {"some", "full"}


def test_pressure_of_cpu_before_5_13_has_no_full_line() -> None:
    assert parse_pressure("some avg10=0.00 avg60=0.00 avg300=0.00 total=12\n") == {"some": 12}


def test_pressure_without_a_total_is_refused() -> None:
    with pytest.raises(ValueError, match="pressure"):
        parse_pressure("some avg10=1.00")


def test_stat_of_this_machine() -> None:
    counters = parse_stat(fixture("stat.txt"))
    assert counters.user > 0
    assert counters.context_switches > 0
    assert counters.procs_running >= 1


def test_each_cpu_of_stat_has_all_its_ticks_and_those_without_idling() -> None:
    """cpu0 46248 20735 30729 224604 2811 0 215 342: idle and iowait are the fourth and the fifth."""
    cpus = parse_cpus(fixture("stat.txt"))
    assert set(cpus) == {"cpu0", "cpu1"}
    assert cpus["cpu0"] == CpuTicks(total=325_684, busy=98_269)


@pytest.mark.parametrize(
    ("text", "cpus"), [("\n", set()), ("3\n", {"cpu3"}), ("1-3,5\n", {"cpu1", "cpu2", "cpu3", "cpu5"})]
)
def test_a_list_of_cpus(text: str, cpus: set[str]) -> None:
    assert parse_cpu_list(text) == cpus


@pytest.mark.parametrize("text", ["x", "1-2-3", "0-99999999"])
def test_no_list_of_cpus(text: str) -> None:
    with pytest.raises(ValueError, match=r"CPUs|invalid literal"):
        parse_cpu_list(text)


def test_stat_without_the_line_of_all_cpus_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks"):
        parse_stat("ctxt 5\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n")


def test_vmstat_gives_what_is_wanted_and_there() -> None:
    vmstat = parse_vmstat(fixture("vmstat.txt"), {"pswpin", "pswpout", "pgfault", "no_such_line"})
    assert vmstat.keys() == {"pswpin", "pswpout", "pgfault"}


def test_io_stat_takes_keys_in_any_order_and_lines_without_pairs() -> None:
    io_stat = parse_io_stat(fixture("io-stat-v2.txt"))
    assert io_stat == {
        "8:16": GroupIoCounters(read_bytes=1459200, write_bytes=314773504, reads=192, writes=353),
        "8:0": GroupIoCounters(read_bytes=40960, write_bytes=28672, reads=10, writes=7),
    }


def test_version_1_joins_its_two_files_and_skips_the_totals() -> None:
    result = join_blkio(fixture("blkio-serviced-v1.txt"), fixture("blkio-bytes-v1.txt"))
    assert result == {
        "8:16": GroupIoCounters(read_bytes=1459200, write_bytes=314773504, reads=192, writes=353),
        "8:0": GroupIoCounters(read_bytes=16384, write_bytes=0, reads=4, writes=0),
    }


def test_a_group_of_version_1_without_io_has_no_device() -> None:
    assert join_blkio("Total 0\n", "Total 0\n") == {}


def test_cgroup_paths_by_controller() -> None:
    paths = parse_proc_cgroup(fixture("proc-cgroup-v1.txt"))
    assert paths["blkio"] == paths[""] == "/docker/" + "0123456789abcdef" * 4
    assert parse_proc_cgroup(fixture("proc-cgroup-v2.txt")) == {"": "/system.slice/docker-0123456789abcdef.scope"}
    assert parse_proc_cgroup("4:cpu,cpuacct:/a:b\n") == {"cpu": "/a:b", "cpuacct": "/a:b"}


def test_protocol_counters_stand_below_their_names() -> None:
    """Recorded from /proc/net/snmp and /proc/net/netstat of Linux 6.18."""
    counters = parse_netstat(fixture("netstat.txt"))
    assert counters["Tcp.RetransSegs"] == 4900
    assert counters["TcpExt.TCPTimeouts"] == 27
    assert counters["TcpExt.TCPLossProbes"] == 4893


@pytest.mark.parametrize("text", ["Tcp: A B\n", "Tcp: A B\nTcp: 1\n", "Tcp: A\nUdp: 1\n", "Tcp: A\nTcp: x\n"])
def test_protocol_counters_that_do_not_belong_together_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_netstat(text)
