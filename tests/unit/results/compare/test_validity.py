"""Validity: each rule on samples that break it, the evidence in its reason, and silence where nothing is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from volbench.core.records.cell import FILES_COPIED, StepResult, ValidityLimits
from volbench.core.records.series import SeriesRow
from volbench.results.compare.validity.observation import CellObservation, observe
from volbench.results.compare.validity.reasons import invalid_reasons, notes_of
from volbench.results.store.series import write_series

LIMITS = ValidityLimits()
WINDOW_S = (10.0, 70.0)
QUIET_S = (0.1, 2.2)
Ticks = Iterable[float]


def rows(
    source: str, metric: str, values: Mapping[float, float] | float, ticks: Ticks = range(1, 81), entity: str = ""
) -> list[SeriesRow]:
    by_tick = values if isinstance(values, Mapping) else dict.fromkeys(map(float, ticks), values)
    return [
        SeriesRow(t_s=t_s, source=source, metric=metric, value=value, entity=entity)
        for t_s, value in sorted(by_tick.items())
    ]


def seen_in(
    folder: Path,
    *groups: list[SeriesRow],
    window_s: tuple[float, float] = WINDOW_S,
    quiet_s: tuple[float, float] | None = QUIET_S,
    interval_s: float = 1.0,
    clock_step_s: float = 0.0,
    details: Mapping[str, float] | None = None,
    cpus: int | None = None,
) -> CellObservation:
    path = folder / "series.parquet"
    write_series(path, [row for group in groups for row in group])
    step = StepResult(
        step="s", kind="oltp", parameters={}, window_s=window_s, metrics={}, details=dict(details or {})
    )
    return observe(path, step, quiet_s=quiet_s, interval_s=interval_s, clock_step_s=clock_step_s, cpus=cpus)


CPU = rows("cpu", "steal_ratio", 0.0)


@pytest.mark.parametrize(
    ("at", "beyond", "arguments"),
    [
        ({"client_cpu_ratio": 0.9}, {"client_cpu_ratio": 0.97}, ("CPU-bound", "97 %", "90 %")),
        ({"offered_ratio": 0.95}, {"offered_ratio": 0.9}, ("fell behind", "90 %", "95 %")),
        ({"missed_ratio": 0.01}, {"missed_ratio": 0.034}, ("samples were missed", "3.4 %", "1 %")),
        ({"steal_ratio": 0.05}, {"steal_ratio": 0.12}, ("hypervisor", "12 %", "5 %")),
        ({"swapped_pages": 0.0}, {"swapped_pages": 17.0}, ("swapped", "17 pages", "limit 0")),
        ({"foreign_iops": 50.0}, {"foreign_iops": 81.0}, ("not at rest", "81 I/O per second", "limit 50")),
        ({"clock_step_s": -0.5}, {"clock_step_s": -2.0}, ("wall clock", "-2.00 s", "0.5 s")),
        (
            {"lateness_changes": {"throughput": 0.01, "p95": 0.02}},
            {"lateness_changes": {"throughput": 0.01, "p95": 0.2}},
            ("fell behind its model", "changed p95 by 20 %", "2 %"),
        ),
        (
            {"server_read_mib": 100.0, "device_read_mib": 50.0},
            {"server_read_mib": 100.0, "device_read_mib": 20.0},
            ("a cache answered", "100 MiB", "20 MiB", "50 %"),
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_a_rule_holds_at_its_limit_and_names_evidence_and_limit_beyond_it(
    at: dict[str, Any], beyond: dict[str, Any], arguments: tuple[str, ...]
) -> None:
    assert invalid_reasons(CellObservation(**at), LIMITS) == ()
    (reason,) = invalid_reasons(CellObservation(**beyond), LIMITS)
    assert all(term in reason for term in arguments), reason


def test_every_broken_rule_gives_its_reason() -> None:
    observation = CellObservation(client_cpu_ratio=1.0, missed_ratio=0.5, steal_ratio=0.5, clock_step_s=9.0)
    assert len(invalid_reasons(observation, LIMITS)) == 4


def test_what_is_not_known_breaks_no_rule(tmp_path: Path) -> None:
    """No sample of any source, no detail: nothing is said, neither by default nor from an empty file."""
    observed = seen_in(tmp_path, quiet_s=None)
    assert observed == CellObservation(clock_step_s=0.0, only_server_reads=True)
    assert invalid_reasons(CellObservation(), LIMITS) == invalid_reasons(observed, LIMITS) == ()
    assert {getattr(CellObservation(), field.name) for field in fields(CellObservation)} == {None}


def test_details_of_the_step_are_looked_at(tmp_path: Path) -> None:
    observed = seen_in(tmp_path, CPU, details={"client_cpu_ratio": 0.99, "offered_ratio": 0.5, "offered_due": 3000})
    assert len(invalid_reasons(observed, LIMITS)) == 2


@pytest.mark.parametrize(("due", "valid"), [(500.0, True), (50_000.0, False)])
def test_a_poisson_rate_may_fall_short_by_chance(due: float, valid: bool) -> None:
    """7 % below the rate is chance for 500 arrivals (one deviation is 4.5 %), and is none for 50,000."""
    reasons = invalid_reasons(CellObservation(offered_ratio=0.93, offered_due=due), LIMITS)
    assert (reasons == ()) == valid


@pytest.mark.parametrize(
    ("missing", "interval_s", "ratio"), [((), 1.0, 0.0), ((30, 31, 32), 1.0, 0.05), (range(40, 81), 1.0, 31 / 60)]
)
def test_missed_ticks_are_counted_in_the_window(
    tmp_path: Path, missing: Ticks, interval_s: float, ratio: float
) -> None:
    left = [tick for tick in range(1, 81) if tick not in missing]
    observed = seen_in(tmp_path, rows("cpu", "steal_ratio", 0.0, left), interval_s=interval_s)
    assert observed.missed_ratio == pytest.approx(ratio)


def test_a_sampler_that_died_before_the_window_missed_all_of_it(tmp_path: Path) -> None:
    observed = seen_in(tmp_path, rows("cpu", "steal_ratio", 0.0, range(1, 6)))
    assert observed.missed_ratio == 1.0


def test_ticks_are_counted_by_any_source_of_the_machine_and_not_by_the_server(tmp_path: Path) -> None:
    """A suite may leave the CPU out; a server that restarts says nothing for a while and nothing was missed."""
    device = rows("diskstats", "reads_per_s", 1.0, entity="sda")
    server = rows("innodb", "data_read_mib_per_s", 0.0, range(20, 40))
    assert seen_in(tmp_path, device, server).missed_ratio == 0.0
    assert seen_in(tmp_path, server).missed_ratio is None


def test_a_window_shorter_than_the_interval_has_no_tick_to_miss(tmp_path: Path) -> None:
    assert seen_in(tmp_path, CPU, window_s=(10.2, 10.7)).missed_ratio is None


def test_steal_is_a_mean_over_time(tmp_path: Path) -> None:
    """A sample after nine missed ticks is about ten seconds: it counts ten times."""
    steal = {float(tick): 0.0 for tick in range(9, 21)} | {30.0: 0.1}
    observed = seen_in(tmp_path, rows("cpu", "steal_ratio", steal), window_s=(10.0, 30.0))
    assert observed.steal_ratio == pytest.approx(0.05)


@pytest.mark.parametrize(("is_read", "share"), [(True, 0.1), (False, 1.0)])
def test_a_quota_that_ended_holds_the_client_back_while_it_had_periods(
    is_read: bool, share: float, tmp_path: Path
) -> None:
    """Recorded: one tick after a quota was taken away. A group that is read and has no period is not held."""
    read = rows("cgroup_cpu", "cpus_used", 0.3, ticks=range(11, 21), entity="client") if is_read else []
    held = rows("cgroup_cpu", "throttled_ratio", {11.0: 1.0}, entity="client")
    observed = seen_in(tmp_path, CPU, read, held, window_s=(10.0, 20.0))
    assert observed.client_throttled_ratio == pytest.approx(share)


def test_swapped_pages_are_rate_times_the_real_interval(tmp_path: Path) -> None:
    swap_in = {10.0: 9.0, 11.0: 2.0, 14.0: 2.0, 15.0: 0.0}
    observed = seen_in(
        tmp_path,
        rows("vm", "swap_in_pages_per_s", swap_in),
        rows("vm", "swap_out_pages_per_s", {11.0: 1.0}),
        window_s=(10.0, 15.0),
    )
    assert observed.swapped_pages == pytest.approx(2 + 3 * 2 + 1)


def test_at_the_edges_of_the_window_a_sample_counts_with_its_part(tmp_path: Path) -> None:
    """Ticks are not at the window's edges: 10.5 .. 12.25 is half a second of one sample, a quarter of another."""
    swap = {10.0: 100.0, 11.0: 10.0, 12.0: 20.0, 13.0: 40.0, 14.0: 100.0}
    observed = seen_in(tmp_path, rows("vm", "swap_in_pages_per_s", swap), window_s=(10.5, 12.25))
    assert observed.swapped_pages == pytest.approx(0.5 * 10 + 20 + 0.25 * 40)


def test_a_cache_that_answers_for_the_device_is_seen(tmp_path: Path) -> None:
    server = rows("innodb", "data_read_mib_per_s", 10.0)
    device = rows("diskstats", "read_mib_per_s", 1.0, entity="nvme1n1")
    (reason,) = invalid_reasons(seen_in(tmp_path, CPU, server, device), LIMITS)
    assert "the server read 600 MiB, the device delivered 60 MiB" in reason


@pytest.mark.parametrize(
    ("server_mib_per_s", "device_mib_per_s"), [(10.0, 10.0), (10.0, 14.0), (0.2, 0.0)], ids=str
)
def test_a_device_that_delivers_all_or_a_little_more_or_a_little_reading_is_valid(
    tmp_path: Path, server_mib_per_s: float, device_mib_per_s: float
) -> None:
    server = rows("innodb", "data_read_mib_per_s", server_mib_per_s)
    device = rows("diskstats", "read_mib_per_s", device_mib_per_s, entity="sda")
    assert invalid_reasons(seen_in(tmp_path, CPU, server, device), LIMITS) == ()


def test_without_a_block_device_nothing_is_said_of_caches(tmp_path: Path) -> None:
    """Memory, NFS: there is no device to compare with."""
    observed = seen_in(tmp_path, CPU, rows("innodb", "data_read_mib_per_s", 500.0))
    assert observed.device_read_mib is None
    assert invalid_reasons(observed, LIMITS) == ()


def test_missed_ticks_make_no_cache(tmp_path: Path) -> None:
    """The device was not sampled for nine seconds; the sample after them is about all of that time."""
    ticks = [tick for tick in range(1, 81) if not 20 < tick < 30]
    server = rows("innodb", "data_read_mib_per_s", 10.0)
    device = rows("diskstats", "read_mib_per_s", 10.0, ticks, entity="sda")
    assert seen_in(tmp_path, server, device).device_read_mib == pytest.approx(600.0)


def test_a_restart_of_the_server_is_no_time_of_reading(tmp_path: Path) -> None:
    """Its counters begin anew: the first sample after 20 s without one is about one interval, not about 20."""
    server = rows("innodb", "data_read_mib_per_s", 10.0, [*range(1, 21), *range(40, 81)])
    device = rows("diskstats", "read_mib_per_s", {t: 0.0 if 20 < t < 40 else 10.0 for t in range(1, 81)})
    observed = seen_in(tmp_path, CPU, server, device)
    assert observed.server_read_mib is not None
    assert observed.device_read_mib is not None
    assert observed.server_read_mib <= observed.device_read_mib + 10
    assert invalid_reasons(observed, LIMITS) == ()


def at_rest(iops: float, in_step: float) -> list[SeriesRow]:
    values = {float(tick): iops if tick <= 2 else 9999.0 if tick < 10 else in_step for tick in range(1, 81)}
    return rows("diskstats", "writes_per_s", values, entity="sda")


def test_io_of_others_before_the_cell_is_seen_and_ours_is_not(tmp_path: Path) -> None:
    """Copying the data begins where the quiet time ends; the sample across that edge is not looked at."""
    busy = seen_in(tmp_path, CPU, at_rest(400, in_step=500))
    assert busy.foreign_iops == 400
    assert "400 I/O per second (limit 50; 10 % of the 500 in the step)" in invalid_reasons(busy, LIMITS)[0]
    assert invalid_reasons(seen_in(tmp_path, CPU, at_rest(3, in_step=500)), LIMITS) == ()


def test_reads_and_writes_of_others_add_up(tmp_path: Path) -> None:
    reads = rows("diskstats", "reads_per_s", {2.0: 30.0}, entity="sda")
    writes = rows("diskstats", "writes_per_s", {2.0: 40.0}, entity="sda")
    assert seen_in(tmp_path, reads, writes).foreign_iops == 70


def test_a_little_io_of_others_does_not_matter_beside_a_busy_step(tmp_path: Path) -> None:
    """A shared root disk is never quite at rest: 60 operations a second are 1 % of 6,000."""
    assert invalid_reasons(seen_in(tmp_path, CPU, at_rest(60, in_step=6000)), LIMITS) == ()


def test_the_first_interval_may_begin_right_before_the_quiet_time(tmp_path: Path) -> None:
    """The samplers' first reading is its beginning, and the cell touches the device only after its end."""
    observed = seen_in(tmp_path, CPU, at_rest(400, in_step=500), quiet_s=(1.15, 2.1))
    assert observed.foreign_iops == 400


def test_when_no_whole_interval_lies_in_the_quiet_time_it_is_said(tmp_path: Path) -> None:
    """A sample that ends in it may be about the time before, and one that begins in it about our own copying."""
    observed = seen_in(tmp_path, CPU, at_rest(400, in_step=500), quiet_s=(1.3, 2.2))
    assert observed.foreign_iops is None
    assert invalid_reasons(observed, LIMITS) == ()
    (note,) = notes_of(observed)
    assert "not known" in note


def test_nothing_is_noted_where_there_is_no_device_or_its_rest_is_known(tmp_path: Path) -> None:
    assert notes_of(seen_in(tmp_path, CPU)) == ()
    assert notes_of(seen_in(tmp_path, CPU, at_rest(0, in_step=500))) == ()


def test_late_operations_of_an_emulated_volume_weigh_by_their_number(tmp_path: Path) -> None:
    """Half late in a second of 10 operations, none in a second of 990: one in two hundred."""
    late = rows("emulator", "late_ratio", {11.0: 0.5, 12.0: 0.0})
    rate = rows("emulator", "operations_per_s", {11.0: 10.0, 12.0: 990.0}, entity="read")
    assert seen_in(tmp_path, late, rate).emulator_late_ratio == pytest.approx(0.005)


def test_what_the_kernel_does_for_the_cells_io_is_no_other_work(tmp_path: Path) -> None:
    """A loop device's work queue took about a tenth of two CPUs at 31,000 I/Os a second."""
    unused = (("idle", 0.2), ("iowait", 0.0), ("steal", 0.0))
    machine = [rows("cpu", f"{name}_ratio", value) for name, value in unused]
    uses = (("cell", 1.0), ("emulator", 0.3), ("io_workers", 0.2))
    tasks = [rows("tasks", "cpus_used", value, entity=entity) for entity, value in uses]
    cpu = seen_in(tmp_path, *machine, *tasks, cpus=2).cpu
    assert cpu is not None
    assert cpu.foreign == pytest.approx(1.6 - 1.5)


def test_limits_are_those_of_the_suite() -> None:
    loose = ValidityLimits(client_cpu=1.0, swap_pages=100)
    assert invalid_reasons(CellObservation(client_cpu_ratio=0.99, swapped_pages=99), loose) == ()


class TestReadsByOthers:
    def test_reads_far_beyond_the_servers_own_make_a_load_invalid(self) -> None:
        observation = CellObservation(server_read_mib=480, device_read_mib=3629, only_server_reads=True)
        (reason,) = invalid_reasons(observation, ValidityLimits())
        assert reason.startswith("others read from the device: the server read 480 MiB, the device delivered 3629")

    @pytest.mark.parametrize(("server", "device"), [(0.0, 60.0), (480.0, 700.0), (1000.0, 1050.0)])
    def test_a_little_more_than_the_servers_own_is_allowed(self, server: float, device: float) -> None:
        observation = CellObservation(server_read_mib=server, device_read_mib=device, only_server_reads=True)
        assert not invalid_reasons(observation, ValidityLimits())

    def test_a_load_beside_a_copy_of_the_files_is_not_judged(self, tmp_path: Path) -> None:
        assert seen_in(tmp_path, details={FILES_COPIED: True}).only_server_reads is False

    def test_steps_that_read_files_themselves_are_not_judged(self) -> None:
        assert not invalid_reasons(CellObservation(server_read_mib=10, device_read_mib=900), ValidityLimits())
