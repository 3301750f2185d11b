"""Groups of causes and of metrics are sets of names that exist: a name that merely begins alike is in none."""

from __future__ import annotations

import numpy as np
import pytest

from volbench.core.records.metric import LATENCIES, LATENCY_NAMES
from volbench.core.records.metrics import CATALOGUE
from volbench.core.records.named_metrics import Client, NamedMetric, PerformanceSchema
from volbench.core.records.report import EvidenceRow
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.causes import CAUSES, OF_VOLUME
from volbench.results.explain.components import data_case
from volbench.results.explain.evidence.association import cell_correlations
from volbench.results.explain.ranking import ranked_by
from volbench.results.report.rows.load_limit import is_limit
from volbench.results.stats.grid import Grid
from volbench.results.store.series import SeriesKey

SECONDS = 40
NOISE = np.random.default_rng(3).standard_normal(SECONDS)


def finding(cause: str, share: float) -> Cause:
    kind = EvidenceRow(metric="note", value=None, text="")
    return Cause(
        cause=cause,
        window_s=(0.0, 1.0),
        share=share,
        checks=(True,),
        one_of_two=True,
        evidence=(kind,),
        advice="",
    )


def order(*findings: Cause) -> list[str]:
    return [finding.cause for finding in ranked_by(findings, lambda finding: finding.share or 0.0)]


def test_of_two_causes_of_the_volume_the_second_has_half_of_its_weight() -> None:
    """A name of no descriptor is none of the volume, though it begins with `storage.`."""
    second, further = finding("storage.degraded", 0.5), finding("cpu.steal", 0.4)
    assert order(finding("storage.iops_limit", 0.6), second, further) == [
        "storage.iops_limit",
        "cpu.steal",
        "storage.degraded",
    ]
    assert order(finding("storage.iops_limits", 0.6), second, further) == [
        "storage.iops_limits",
        "storage.degraded",
        "cpu.steal",
    ]


def test_of_equal_weights_the_volumes_own_causes_come_first() -> None:
    own = finding("cpu.steal", 0.5)
    assert order(finding("interference.io", 0.5), own) == ["cpu.steal", "interference.io"]
    assert order(finding("interference.iot", 0.5), own) == ["interference.iot", "cpu.steal"]


def test_groups_are_those_of_the_descriptors() -> None:
    assert {name for name in CAUSES if name.startswith("storage.")} == OF_VOLUME
    assert {name for name in CAUSES if name.startswith("interference.")} == {
        name for name, info in CAUSES.items() if info.is_of_others
    }
    assert {name for name in CAUSES if name.startswith("cpu.")} == {
        name for name, info in CAUSES.items() if info.uses_up_cpus
    }


@pytest.mark.parametrize(("cause", "limits"), [("cpu.steal", True), ("cpu.stolen", False), ("none", False)])
def test_a_load_is_limited_by_causes_that_exist(cause: str, limits: bool) -> None:
    assert is_limit(cause) is limits


def grid_of(*metrics: NamedMetric) -> Grid:
    columns = {SeriesKey.of(metric): 100 + NOISE for metric in (Client.latency_ms_p95, *metrics)}
    return Grid(t_s=np.arange(1.0, SECONDS + 1), width_s=1.0, columns=columns)


def test_what_statements_took_explains_no_latency() -> None:
    """A metric that merely begins with `query_` is another one."""
    counted = PerformanceSchema.query_s_per_s, PerformanceSchema.statement_ms
    cache = NamedMetric("performance_schema", "query_cache_waits_per_s")
    correlated = cell_correlations(grid_of(*counted, cache), SeriesKey.of(Client.latency_ms_p95))
    assert {key.metric for key in correlated} == {cache.name}


def test_waits_for_files_are_classes_that_exist() -> None:
    """With the binary log elsewhere its waits are none of the data's volume; another class is no wait for files."""
    metric = PerformanceSchema.wait_s_per_s
    entities = ("file_data", "file_binlog", "binlog_group", "binlog_groups", "table")
    columns = {SeriesKey.of(metric, entity): 1 + NOISE**2 for entity in entities}
    grid = Grid(t_s=np.arange(1.0, SECONDS + 1), width_s=1.0, columns=columns)
    case = Case(name="load", grid=grid, cell_grid=grid, kind="oltp", elsewhere=("binlog",))
    data = data_case(case).grid
    waited = {entity: float(np.sum(data.columns[SeriesKey.of(metric, entity)])) for entity in entities}
    assert {entity for entity, seconds in waited.items() if seconds > 0} == {"file_data", "binlog_groups", "table"}


def test_latencies_are_metrics_that_exist() -> None:
    assert {name for name in CATALOGUE if name.startswith("latency_ms_")} - LATENCY_NAMES == {
        "latency_ms_p95_slowest"
    }
    assert [metric.name for metric in LATENCIES if metric.level is None] == ["latency_ms_max", "latency_ms_mean"]
