"""Sources that the kernel keeps: rates by the formulas that their tools use."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
from sampled_rates import FIXTURES, rates

from volbench.measure.sample.device.diskstats import DiskStats
from volbench.measure.sample.device.mountstats import MountStats
from volbench.measure.sample.host.cpu import Cpu
from volbench.measure.sample.host.psi import Pressure
from volbench.measure.sample.host.vm import VirtualMemory
from volbench.measure.sample.interface import Unavailable, Values
from volbench.measure.sample.parsers.diskstats import parse_diskstats


def disk(line: str) -> Values:
    return {
        (name, disk): value
        for disk, counters in parse_diskstats(line).items()
        for name, value in asdict(counters).items()
        if value is not None
    }


def test_iostat_formulas() -> None:
    before = disk("8 0 sda 100 10 2000 300 50 5 4000 900 2 700 1200 0 0 0 0 7 70")
    after = disk("8 0 sda 300 30 6096 700 150 9 8096 1400 3 1200 3200 0 0 0 0 11 86")
    result = rates(DiskStats, before, after, dt_s=2.0)
    assert result["reads_per_s", "sda"] == 100
    assert result["read_mib_per_s", "sda"] == 1.0
    assert result["reads_merged_per_s", "sda"] == 10
    assert result["r_await_ms", "sda"] == 2.0
    assert result["w_await_ms", "sda"] == 5.0
    assert result["f_await_ms", "sda"] == 4.0
    assert result["r_size_kib", "sda"] == pytest.approx(4096 * 512 / 200 / 1024)
    assert result["aqu_sz", "sda"] == 1.0
    assert result["util_ratio", "sda"] == 0.25
    assert result["in_flight", "sda"] == 3


def test_a_disk_at_rest_has_no_waiting_times() -> None:
    same = disk("8 0 sda 100 10 2000 300 50 5 4000 900 0 700 1200 0 0 0 0 7 70")
    result = rates(DiskStats, same, same)
    assert result["reads_per_s", "sda"] == 0
    assert result["util_ratio", "sda"] == 0
    assert not {name for name, _ in result} & {"r_await_ms", "w_await_ms", "f_await_ms", "d_await_ms", "r_size_kib"}


def test_milliseconds_that_wrapped_still_give_a_waiting_time() -> None:
    before = disk("8 0 sda 100 0 0 4294967290 0 0 0 0 0 4294967290 4294967290")
    after = disk("8 0 sda 110 0 0 14 0 0 0 0 0 14 14")
    result = rates(DiskStats, before, after)
    assert result["r_await_ms", "sda"] == 2.0
    assert result["util_ratio", "sda"] == pytest.approx(0.02)


def test_a_disk_that_was_replaced_has_no_rate() -> None:
    before = disk("8 0 sda 100 0 800 5 9 0 9 9 0 9 9")
    after = disk("8 0 sda 3 0 24 1 20 0 20 20 0 20 20")
    assert rates(DiskStats, before, after) == {}


def test_flushes_are_absent_where_the_kernel_does_not_count_them() -> None:
    before = disk("8 0 sda 100 0 800 5 9 0 9 9 0 9 9")
    after = disk("8 0 sda 200 0 1600 9 19 0 19 19 0 19 19")
    assert ("flushes_per_s", "sda") not in rates(DiskStats, before, after)


def test_a_disk_that_vanishes_is_unavailable_and_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "diskstats"
    file.write_text("8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n")
    sampler = DiskStats(["sda"], file)
    assert sampler.probe().present
    file.write_text("8 16 sdb 1 2 3 4 5 6 7 8 9 10 11\n")
    with pytest.raises(Unavailable, match="no line for sda"):
        sampler.read()
    file.write_text("8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n")
    assert sampler.read()["reads", "sda"] == 1
    sampler.close()


def test_pressure_is_a_share_of_the_interval() -> None:
    before: Values = {("io_some_us", ""): 1_000_000, ("io_full_us", ""): 0}
    after: Values = {("io_some_us", ""): 1_500_000, ("io_full_us", ""): 200_000}
    assert rates(Pressure, before, after, dt_s=2.0) == {
        ("io_some_ratio", ""): 0.25,
        ("io_full_ratio", ""): 0.1,
    }


def test_pressure_is_absent_with_a_reason_where_the_kernel_has_none(tmp_path: Path) -> None:
    result = Pressure(tmp_path).probe()
    assert not result.present
    assert "No such file" in result.reason


def test_cpu_shares_add_up_to_one() -> None:
    sampler = Cpu(FIXTURES / "stat.txt")
    before = sampler.read()
    sampler.close()
    after = {key: value + number for number, (key, value) in enumerate(before.items())}
    result = rates(Cpu, before, after)
    shares = ("user_ratio", "system_ratio", "iowait_ratio", "steal_ratio", "idle_ratio")
    assert sum(result[name, ""] for name in shares) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("cpu0", "cpu1", "least"),
    [
        ((10, 100), (100, 100), 0.1),
        ((100, 100), (0, 100), 0.0),
        ((50, 100), (0, 0), None),  # nothing is known of a CPU whose time stood still
        ((50, 100), (20, -100), None),
    ],
)
def test_the_cpu_with_least_to_do_is_the_least_of_all(
    cpu0: tuple[int, int], cpu1: tuple[int, int], least: float | None
) -> None:
    sampler = Cpu(FIXTURES / "stat.txt")
    before = sampler.read()
    sampler.close()
    grown = {"cpu0": cpu0, "cpu1": cpu1}
    after = dict(before)
    for cpu, (busy, total) in grown.items():
        after["cpu_busy", cpu] += busy
        after["cpu_total", cpu] += total
    assert rates(Cpu, before, after).get(("least_busy_ratio", "")) == least


def test_a_cpu_that_the_scheduler_leaves_out_is_not_the_one_with_least_to_do(tmp_path: Path) -> None:
    (tmp_path / "isolated").write_text("1\n")
    sampler = Cpu(FIXTURES / "stat.txt", tmp_path / "isolated")
    before = sampler.read()
    sampler.close()
    assert {cpu for _, cpu in before if cpu} == {"cpu0"}


def test_cpu_at_the_same_instant_has_no_shares() -> None:
    sampler = Cpu(FIXTURES / "stat.txt")
    same = sampler.read()
    sampler.close()
    assert ("user_ratio", "") not in rates(Cpu, same, same)


def test_swapping_is_pages_a_second() -> None:
    before: Values = {("pswpin", ""): 5, ("pswpout", ""): 5, ("pgfault", ""): 0}
    after: Values = {("pswpin", ""): 5, ("pswpout", ""): 25, ("pgfault", ""): 100}
    result = rates(VirtualMemory, before, after, dt_s=2.0)
    assert result == {
        ("swap_in_pages_per_s", ""): 0,
        ("swap_out_pages_per_s", ""): 10,
        ("page_faults_per_s", ""): 50,
    }


def test_a_device_that_hands_on_bios_has_no_flushes_instead_of_none(tmp_path: Path) -> None:
    """Device mapper and md count no flushes: a committing server would be shown with none."""
    (tmp_path / "class/block/dm-0/queue").mkdir(parents=True)
    (tmp_path / "class/block/nvme1n1/queue").mkdir(parents=True)
    (tmp_path / "class/block/nvme1n1/mq").mkdir()
    file = tmp_path / "diskstats"
    file.write_text(
        "253 0 dm-0 1 0 8 1 5 0 8 1 0 1 1 0 0 0 0 0 0\n259 0 nvme1n1 1 0 8 1 5 0 8 1 0 1 1 0 0 0 0 9 5\n"
    )
    sampler = DiskStats(["dm-0", "nvme1n1"], file, sys=tmp_path)
    before = sampler.read()
    file.write_text(file.read_text().replace(" 9 5\n", " 29 45\n"))
    result = rates(DiskStats, before, sampler.read())
    sampler.close()
    assert ("flushes_per_s", "dm-0") not in result
    assert ("writes_per_s", "dm-0") in result
    assert (result["flushes_per_s", "nvme1n1"], result["f_await_ms", "nvme1n1"]) == (20, 2)


@pytest.fixture
def nfs(tmp_path: Path) -> tuple[Values, Values]:
    """A mount's readings, the second after 100 more reads of 10 ms, of which 8 ms on the wire."""
    file = tmp_path / "mountstats"
    text = (FIXTURES / "mountstats.txt").read_text()
    file.write_text(text)
    sampler = MountStats("/mnt/my data", file)
    assert sampler.probe().present
    before = sampler.read()
    text = text.replace(
        "READ: 12800 12800 0 2662400 210944000 640 51200 52480 0",
        "READ: 12900 12905 0 2662400 210944000 640 52000 53480 0",
    )
    file.write_text(text.replace("209731584", str(209731584 + (1 << 20))))
    after = sampler.read()
    sampler.close()
    return before, after


def test_nfs_rates(nfs: tuple[Values, Values]) -> None:
    result = rates(MountStats, *nfs)
    assert result["reads_per_s", ""] == 100
    assert result["read_mib_per_s", ""] == 1.0
    assert result["r_await_ms", ""] == 10
    assert result["r_rtt_ms", ""] == 8
    assert result["retransmissions_per_s", ""] == 5
    assert result["metadata_ops_per_s", ""] == 0
    assert ("w_await_ms", "") not in result
    assert ("metadata_await_ms", "") not in result


def test_reads_by_read_plus_are_reads_and_opens_without_attributes_are_opens(tmp_path: Path) -> None:
    """A client of NFS 4.2 reads by READ_PLUS alone: no reads and 200 operations of metadata would both be wrong."""
    before, after = changed_mount(
        tmp_path,
        "READ_PLUS: 100 100 0 8000 1600000 0 150 200 0\n\tOPEN_NOATTR: 10 10 0 0 0 0 10 20 0",
        "READ_PLUS: 300 300 0 24000 4800000 0 550 700 0\n\tOPEN_NOATTR: 30 30 0 0 0 0 50 100 0",
    )
    result = rates(MountStats, before, after)
    assert result["reads_per_s", ""] == 200
    assert result["r_await_ms", ""] == 2.5
    assert result["r_rtt_ms", ""] == 2
    assert result["open_await_ms", ""] == 4
    assert result["metadata_ops_per_s", ""] == 20
    assert result["metadata_await_ms", ""] == 4


def test_an_operation_that_nobody_knows_is_unknown_and_no_metadata(tmp_path: Path) -> None:
    before, after = changed_mount(tmp_path, "READ_TWICE: 5 5 0 0 0 0 1 1 0", "READ_TWICE: 25 25 0 0 0 0 900 900 0")
    result = rates(MountStats, before, after)
    assert result["unknown_ops_per_s", ""] == 20
    assert result["metadata_ops_per_s", ""] == 0
    assert ("metadata_await_ms", "") not in result


def test_renewing_a_lease_is_no_metadata(tmp_path: Path) -> None:
    before, after = changed_mount(tmp_path, "SEQUENCE: 5 5 0 0 0 0 1 1 0", "SEQUENCE: 6 6 0 0 0 0 90 90 0")
    result = rates(MountStats, before, after)
    assert result["metadata_ops_per_s", ""] == 0
    assert ("unknown_ops_per_s", "") not in result


def changed_mount(tmp_path: Path, before: str, after: str) -> tuple[Values, Values]:
    """Readings of the fixture's first mount, with further operations below its GETATTR."""
    file, readings = tmp_path / "mountstats", []
    text = (FIXTURES / "mountstats.txt").read_text()
    lines = next(line for line in text.splitlines() if line.strip().startswith("GETATTR:"))
    sampler = MountStats("/mnt/my data", file)
    for operations in (before, after):
        file.write_text(text.replace(lines, f"{lines}\n\t{operations}", 1))
        readings.append(sampler.read())
    sampler.close()
    return readings[0], readings[1]


def test_the_first_interval_of_an_operation_counts_from_zero(nfs: tuple[Values, Values]) -> None:
    """An operation that was never made is not listed before: its first interval is no gap for all of metadata."""
    before, after = nfs
    later = {**after, ("operations", "RENAME"): 40, ("transmissions", "RENAME"): 40, ("execute_ms", "RENAME"): 200}
    assert not any(entity == "RENAME" for _, entity in before)
    result = rates(MountStats, before, later)
    assert result["metadata_ops_per_s", ""] == 40
    assert result["metadata_await_ms", ""] == 5


def test_retransmissions_of_one_operation_are_not_made_up_for_by_another(nfs: tuple[Values, Values]) -> None:
    """Five of READ were sent again; eight of GETATTR are not sent yet."""
    before, after = nfs
    later = dict(after)
    later["operations", "GETATTR"] = before["operations", "GETATTR"] + 8
    assert rates(MountStats, before, later)["retransmissions_per_s", ""] == 5


def test_a_mount_that_was_made_anew_has_no_rate(nfs: tuple[Values, Values]) -> None:
    before, after = nfs
    assert rates(MountStats, after, before) == {}


def test_no_nfs_is_absent_with_a_reason(tmp_path: Path) -> None:
    assert MountStats("").probe().reason == "the data directory is not on NFS"
    file = tmp_path / "mountstats"
    file.write_text("device proc mounted on /proc with fstype proc\n")
    assert "no NFS mount on /mnt/x" in MountStats("/mnt/x", file).probe().reason
