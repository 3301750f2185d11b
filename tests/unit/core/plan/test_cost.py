"""The plan's estimates of time and space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from volbench.core.plan.cost import CELL_OVERHEAD_S, POD_OVERHEAD_S, PlanCost, estimate, server_bytes
from volbench.core.records.base import Scalar
from volbench.core.records.cell import ServerSpec
from volbench.core.records.steps.dump import DumpStep
from volbench.core.records.steps.oltp import OltpStep
from volbench.core.suite.load import load_suite


def test_more_repeats_cost_more_cells_and_time_and_no_more_space() -> None:
    suite, _ = load_suite(Path("suites/compare.yaml"))
    once = estimate(suite.model_copy(update={"repeats": 1}).resolved(), volumes=2)
    eleven = estimate(suite.resolved(), volumes=2)
    assert eleven.cells == 11 * once.cells == 22
    assert eleven.wall_s == pytest.approx(11 * once.wall_s)
    assert eleven.volume_bytes == once.volume_bytes
    assert 0 < eleven.measured_s < eleven.wall_s


def test_the_compare_suite_is_planned_within_eight_minutes() -> None:
    """Of 22 cells; the first six, after which a difference of 20 % may be decided, take about two minutes."""
    suite, _ = load_suite(Path("suites/compare.yaml"))
    cost = estimate(suite.resolved(), volumes=2)
    assert cost.wall_s <= 8 * 60
    assert 6 * cost.wall_s / cost.cells <= 130
    assert cost.measured_s / cost.wall_s >= 0.5


@pytest.mark.parametrize(
    ("duration_s", "size_contrast_s", "contrast_s"),
    [(5.0, None, 0.0), (200.0, None, 13.0), (5.0, 2.0, 7.0), (200.0, 0.0, 0.0)],
)
def test_the_contrast_of_sizes_takes_its_time_once_on_each_volume(
    duration_s: float, size_contrast_s: float | None, contrast_s: float
) -> None:
    """By default after steps of 130 s: the first cell of a volume reads its data with operations of two sizes."""
    suite, _ = load_suite(Path("suites/compare.yaml"))
    steps = (OltpStep(name="load", test="oltp_read_only", warmup_s=0, duration_s=duration_s),)
    sampling = suite.sampling.model_copy(update={"size_contrast_s": size_contrast_s})
    suite = suite.model_copy(update={"steps": steps, "repeats": 3, "sampling": sampling})
    cost = estimate(suite.resolved(), volumes=2)
    without = estimate(
        suite.model_copy(update={"sampling": sampling.model_copy(update={"size_contrast_s": 0.0})}).resolved(),
        volumes=2,
    )
    assert cost.wall_s - without.wall_s == pytest.approx(2 * contrast_s)
    assert cost.measured_s == without.measured_s


def test_a_pod_takes_longer_to_start_than_a_process() -> None:
    suite, _ = load_suite(Path("suites/compare.yaml"))
    local, pods = (estimate(suite.resolved(), volumes=2, overhead_s=s) for s in (CELL_OVERHEAD_S, POD_OVERHEAD_S))
    assert pods.wall_s - local.wall_s == pytest.approx(22 * (POD_OVERHEAD_S - CELL_OVERHEAD_S))


def test_a_dump_on_the_volume_needs_its_space() -> None:
    suite, _ = load_suite(Path("suites/backup-restore.yaml"))
    cost = estimate(suite.resolved(), volumes=1)
    server = server_bytes(suite.resolved().server)
    assert cost.volume_bytes - server > 4 * (cost.template_bytes - server)


def test_a_forecast_of_the_speed_is_in_the_estimate() -> None:
    """38,000 files at 380 a second take 100 s, on a `sync` export at 64 a second 10 minutes."""
    suite, _ = load_suite(Path("suites/fsx-async-writes.yaml"))
    once = suite.model_copy(update={"repeats": 1}).resolved()
    assumed, slow, fast = (
        estimate(once, volumes=1, volume=volume).measured_s for volume in ("other", "fsx.mode-sync", "fsx")
    )
    assert slow - fast == pytest.approx(38_000 / 64 - 100)
    assert slow - assumed > 400


def changed(file: str, **changes: Any) -> PlanCost:
    """Return the cost of a suite's one cell, with a server's options or the last step changed."""
    suite, _ = load_suite(Path(file))
    resolved = suite.model_copy(update={"repeats": 1}).resolved()
    config = {**resolved.server.config, **changes.pop("config", {})}
    server = resolved.server.model_copy(update={"config": config})
    steps = (*resolved.steps[:-1], resolved.steps[-1].model_copy(update=changes))
    return estimate(resolved.model_copy(update={"server": server, "steps": steps}), volumes=1)


def test_a_larger_redo_log_takes_its_space() -> None:
    """compare.yaml has 256 MiB. Before MySQL 8.0.30 there are two files unless the suite names their number."""
    usual, large = (
        changed("suites/compare.yaml", config=config) for config in ({}, {"innodb_redo_log_capacity": "8G"})
    )
    assert large.volume_bytes - usual.volume_bytes == 8 * 2**30 - 256 * 2**20
    assert large.template_bytes - usual.template_bytes == 8 * 2**30 - 256 * 2**20


@pytest.mark.parametrize(
    ("flavor", "config", "redo_mib"),
    [
        ("mysql", {"innodb_log_file_size": "1G"}, 2048),
        ("mysql", {"innodb_log_file_size": "1G", "innodb_log_files_in_group": 1}, 1024),
        ("mariadb", {"innodb_log_file_size": "1G"}, 1024),
        ("any", {"innodb_redo_log_capacity": "8M"}, 100),
        ("mysql", {"innodb_redo_log_capacity": "1g"}, 1024),
        ("mysql", {"loose-innodb-redo-log-capacity": 2**30}, 1024),
        ("mysql", {"INNODB_REDO_LOG_CAPACITY": "1G"}, 1024),
        ("mysql", {"innodb_redo_log_capacity": "much"}, 100),
        ("mysql", {"innodb_log_file_size": "1G", "innodb_log_files_in_group": "x"}, 100),
    ],
)
def test_the_redo_log_is_read_as_the_server_reads_it(flavor: str, config: dict[str, Scalar], redo_mib: int) -> None:
    """Any spelling of the option, sizes in lower case, and a value that the server refuses at its start."""
    server = ServerSpec.model_validate({"flavor": flavor, "config": config})
    assert server_bytes(server) - server_bytes(ServerSpec()) == (redo_mib - 100) * 2**20


def test_writes_at_a_rate_take_the_space_of_their_binary_log() -> None:
    """1,000 transactions a second for 100 s, of 2 KiB; reads have none, and a closed loop's rate is not known."""
    step = OltpStep(name="o", rate=1000, warmup_s=10, duration_s=90)
    assert step.cost(0).binlog_bytes == 100_000 * 2048
    assert step.model_copy(update={"test": "oltp_read_only"}).cost(0).binlog_bytes == 0
    assert step.model_copy(update={"rate": None}).cost(0).binlog_bytes == 0


@pytest.mark.parametrize("config", [{"log_bin": False}, {"log-bin": False}, {"skip_log_bin": True}])
def test_a_binary_log_that_is_off_takes_no_space(config: dict[str, Scalar]) -> None:
    written, without = (
        changed("suites/compare.yaml", config=options, test="oltp_insert", rate=1000.0).volume_bytes
        for options in ({}, config)
    )
    assert written - without > 10_000_000


def test_a_concurrent_step_takes_its_space_and_its_time() -> None:
    """A dump of 6 GiB at 60 MiB/s is waited for after a load of 30 s; one that ends before it costs no time."""
    dump = DumpStep(name="d", tool="mysqldump", to="volume", start_after_s=10)
    data = 6 * 2**30
    load = OltpStep(name="o", warmup_s=10, duration_s=30, concurrent=(dump,))
    cost = load.cost(data)
    assert cost.kept_bytes == dump.cost(data).kept_bytes > 0
    assert cost.measured_s == 30
    assert cost.unmeasured_s == pytest.approx(10 + (10 + 6144 / 60 - 30))
    assert load.model_copy(update={"duration_s": 600.0}).cost(data).unmeasured_s == 10
