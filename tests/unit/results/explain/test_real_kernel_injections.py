"""What is named on steps of a real kernel in which a cause was made, each recorded before the rule was mended.

tests/lab/vm/injections.yaml says what was made.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from kernel_throttle import with_columns
from recorded_step import recorded_step

from volbench.core.records.named_metrics import PSI
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.findings import explain_case


def findings(case: Case) -> tuple[Cause, ...]:
    return explain_case(case).findings


def causes(case: Case) -> list[str]:
    return [finding.cause for finding in findings(case)]


@pytest.mark.parametrize("name", ["journal-iops"])
def test_a_sync_that_waits_for_a_slow_journal_is_not_lost_above_the_device(name: str) -> None:
    """The journal is on a device of its own, where a write takes 22 ms; the data's device takes 1.3."""
    case = recorded_step(name)
    first = findings(case)[0]
    assert first.cause == "storage.sync_latency"
    assert "host.io_wait" not in causes(case)
    (journal,) = (row for row in first.evidence if row.metric == "journal_write_ms")
    assert "the file system's journal is on dm-0" in journal.text


@pytest.mark.parametrize("name", ["journal-iops"])
def test_without_the_journals_device_the_same_wait_lies_above(name: str) -> None:
    assert "host.io_wait" in causes(replace(recorded_step(name), journal=()))


@pytest.mark.parametrize("name", ["neighbour-raw", "neighbour-writes", "lvm-neighbour"])
def test_others_io_counts_for_commits_that_have_no_instrument(name: str) -> None:
    """MariaDB shows 27 to 39 % of statement time in files; 38 to 48 % more are commits that wait.

    Others fill the limit of two of these devices: they come before it.
    """
    first = findings(recorded_step(name))[0]
    assert first.cause == "interference.io"
    assert (first.share or 0.0) >= 0.15


@pytest.mark.parametrize("name", ["calm", "nfs-calm"])
def test_a_load_that_gets_its_rate_is_held_back_by_no_latency_near_the_threshold(name: str) -> None:
    """Three transactions a second of which one takes 16 to 49 ms: a sync of 4.2 and 6.6 ms, a read of 3.0."""
    case = recorded_step(name)
    assert case.is_served
    assert [cause for cause in causes(case) if cause.startswith("storage.")] == []


@pytest.mark.parametrize("name", ["calm", "nfs-calm"])
def test_a_latency_of_twice_the_threshold_is_named_at_any_rate(name: str) -> None:
    case = recorded_step(name)
    of_syncs = ("performance_schema", "file_sync_s_per_s", "binlog")
    seconds = case.grid.column(*of_syncs)
    assert seconds is not None
    slow = with_columns(
        case, {of_syncs: seconds * 3, ("performance_schema", "wait_s_per_s", "file_binlog"): seconds * 3}
    )
    assert "storage.sync_latency" in causes(slow)


def test_operations_that_a_suspended_mapping_holds_are_the_volumes() -> None:
    """Clients stand for 3 s three times; the device has nothing to do, and tasks wait for I/O all along."""
    case = recorded_step("suspended")
    first = findings(case)[0]
    assert first.cause == "storage.stall"
    assert "server.stall" not in causes(case)
    assert "a layer above it held its operations" in first.evidence[0].text


@pytest.mark.parametrize(
    ("waits_else", "stall"), [(0.0, "server.stall"), (0.45, "server.stall"), (1.0, "server.stall")]
)
def test_tasks_that_wait_for_io_as_much_at_other_times_say_nothing_of_stands(waits_else: float, stall: str) -> None:
    """Nobody waits for I/O, or others do so all the time: then it is the server that stood."""
    case = with_columns(
        recorded_step("suspended"), {(PSI.io_some_ratio.source, PSI.io_some_ratio.name, ""): waits_else}
    )
    assert [cause for cause in causes(case) if cause.endswith(".stall")] == [stall]


def test_reads_that_wait_for_cpus_under_a_quota_are_not_lost_on_the_host() -> None:
    """A read takes 10.4 ms in the server and 0.9 at the device; its tasks wait 5.6 s a second for idle CPUs."""
    names = causes(recorded_step("cpu-max-60"))
    assert names[0] == "cpu.server_saturated"
    assert "host.io_wait" not in names


def test_no_layer_above_the_device_loses_what_the_next_second_has_too_much() -> None:
    """Reads of 46 ms in the server and 29 at the device, counted a second later in one of them (recorded)."""
    assert "host.io_wait" not in causes(recorded_step("lvm-iops-commits"))


def test_a_write_of_a_log_is_its_sync_on_a_mount_that_writes_synchronously() -> None:
    """NFS mounted `sync` with round trips of 20 ms: a write of the log takes 27 ms, and its fsync 0.1."""
    case = recorded_step("nfs-sync-mount-commits")
    first = findings(case)[0]
    assert first.cause == "storage.sync_latency"
    assert "a synchronous write of the log takes 27.5 ms" in first.evidence[0].text
    elsewhere = replace(case, mount_options=tuple(set(case.mount_options) - {"sync"}))
    assert "storage.sync_latency" not in causes(elsewhere)


def test_a_volume_whose_disks_others_fill_is_not_slow_by_itself() -> None:
    """A check of a RAID reads 6 MiB a second of each member; the array itself does 3 to 42 operations a second."""
    case = recorded_step("raid1-check-commits")
    assert causes(case)[0] == "interference.io"
    assert "storage.degraded" not in causes(case)
    assert causes(replace(case, below=None, disks=()))[0] == "storage.degraded"


def test_what_takes_speed_for_a_part_of_a_step_comes_before_what_is_there_all_along() -> None:
    """A volume that is slow for 2.5 of each 6.5 s, and one that stands twice for 2.9 s, on CPUs that are busy."""
    slow, standing = (recorded_step(name) for name in ("periodic-slow-commits", "nbd-paused-reads"))
    assert causes(slow)[:2] == ["storage.degraded", "cpu.server_saturated"]
    assert causes(standing)[:2] == ["storage.stall", "cpu.server_saturated"]
    (loss,) = (row for row in findings(standing)[0].evidence if row.metric == "loss")
    assert loss.value == pytest.approx(5.8 / 22, abs=0.03)
    assert "of the step's speed was lost in it" in loss.text


def test_syncs_that_are_slow_all_along_come_before_the_stands_that_they_bring() -> None:
    assert causes(recorded_step("lvm-snapshot"))[:2] == ["storage.sync_latency", "storage.stall"]


def test_a_load_is_served_that_gets_its_rate_but_for_stands_of_its_client() -> None:
    """The client is stopped for 2.5 s three times: neither the server nor the volume has to do with it."""
    case = recorded_step("client-paused")
    tps, of_clients = case.grid.column("client", "tps"), ("client", "tps", "")
    assert tps is not None
    assert case.is_served
    assert causes(case) == []
    assert not with_columns(case, {of_clients: tps / 2}).is_served


def test_answers_of_an_nfs_server_that_wait_for_cpus_of_this_host_accuse_no_volume() -> None:
    """A sync takes 11 ms on CPUs that are 100 % busy, 15 ms under a closed loop; 2.2 ms is an operation alone."""
    served, closed = recorded_step("nfs-calm-hogs"), recorded_step("nfs-unreachable")
    assert causes(served) == []
    (sync,) = (finding for finding in findings(closed) if finding.cause == "storage.sync_latency")
    assert sync.one_of_two
    assert "cpus_of_client" in {row.metric for row in sync.evidence}
    idle = {
        ("cpu", "user_ratio", ""): 0.2,
        ("cpu", "system_ratio", ""): 0.2,
        (PSI.cpu_some_ratio.source, PSI.cpu_some_ratio.name, ""): 0.0,
    }
    assert causes(with_columns(served, idle)) == ["storage.sync_latency"]
    (sync,) = (
        finding for finding in findings(with_columns(closed, idle)) if finding.cause == "storage.sync_latency"
    )
    assert not sync.one_of_two


def test_tasks_that_wait_for_io_while_no_disk_is_busy_wait_above_it() -> None:
    """io.cost holds the group back: tasks wait for I/O in 68 % of the time, the disk is busy in 11 %."""
    case = recorded_step("cost-model-commits")
    first = findings(case)[0]
    assert first.cause == "host.io_wait"
    assert "held_above_ratio" in {row.metric for row in first.evidence}
    assert "server.stall" not in causes(case)
    assert "host.io_wait" not in causes(without_waits(case))


def without_waits(case: Case) -> Case:
    """The step as if no task of the host had waited for I/O."""
    return with_columns(case, {(PSI.io_some_ratio.source, PSI.io_some_ratio.name, ""): 0.0})


def test_a_server_that_is_paused_is_not_held_by_what_its_disk_does() -> None:
    assert causes(recorded_step("server-paused"))[0] == "server.stall"


def test_a_constant_round_trip_is_slow_reads_and_no_limit() -> None:
    """netem: six clients' reads take 54 ms each, whether 87 or 99 of them come in a second."""
    (first, *_) = findings(recorded_step("nfs-netem-reads"))
    assert first.cause == "storage.read_latency"
    assert not first.one_of_two
