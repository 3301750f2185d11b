"""A layout's volumes, each by itself: what the log's volume does is not said of the data's, nor the other way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from synthetic_cell import Load, Storage, columns

from volbench.core.records.facts import VolumeFacts
from volbench.core.records.layout import ComponentFacts
from volbench.core.records.report import FindingRow
from volbench.results.explain.accounts.demand import PredictionUnavailable, demand_of
from volbench.results.explain.case import Case
from volbench.results.explain.components import component_cases, data_case
from volbench.results.explain.findings import explain_case, explain_component
from volbench.results.explain.pooling import with_components
from volbench.results.stats.grid import align
from volbench.results.store.series import Series, SeriesKey

LIMITED = Storage(latency_ms=0.8, iops=300)
LOG = ComponentFacts(name="log", roles=("redo", "binlog"), volume_facts=VolumeFacts(path="/log", disk="sda"))
LIMIT = "storage.iops_limit"


def case_of(*, limited: str) -> Case:
    """The volume `limited` gives 300 operations a second; the other one of data and log is idle and fast."""
    of_limited = columns(Load(read_part=0.65 if limited == "data" else 0.1), LIMITED)
    series: dict[SeriesKey, Series] = {}
    for key, column in of_limited.items():
        name = replace(key, source=f"{key.source}@log") if limited == "log" and key.source == "diskstats" else key
        series[name] = column
        if key.source == "diskstats":
            idle = 0.5 if "await" in key.metric else 1.0
            second = key if limited == "log" else replace(key, source="diskstats@log")
            series[second] = Series(t_s=column.t_s, value=np.full(len(column.t_s), idle))
    waits = {"data": ("file_redo", "file_binlog"), "log": ("file_data",)}[limited]
    for key, column in list(series.items()):
        if key.metric == "wait_s_per_s" and key.entity in waits:
            series[key] = Series(t_s=column.t_s, value=np.zeros(len(column.t_s)))
    total = align(series)
    return Case(name="rw", grid=total, cell_grid=total, disk="sda", threads=16, cpus=2, elsewhere=LOG.roles)


def of_log(case: Case) -> Case:
    [(name, observed)] = component_cases(case, [LOG])
    assert name == "log"
    return observed


@pytest.mark.parametrize("limited", ["data", "log"])
def test_a_limit_is_said_of_the_volume_that_meets_it_alone(limited: str) -> None:
    case = case_of(limited=limited)
    of_data = {finding.cause for finding in explain_case(case).findings}
    of_others = {finding.cause for finding in explain_component(of_log(case)).findings}
    assert (LIMIT in of_data, LIMIT in of_others) == (limited == "data", limited == "log")


def test_the_device_and_the_files_of_each_volume_are_its_own() -> None:
    case = case_of(limited="log")
    data, log = data_case(case), of_log(case)
    assert data.device is not None
    assert log.device is not None
    assert np.nanmedian(log.device.iops) == pytest.approx(300, rel=0.05)
    assert np.nanmedian(data.device.iops) == pytest.approx(2)
    assert data.budget is not None
    assert log.budget is not None
    assert data.budget.share("redo_sync", "binlog_sync") == 0
    assert log.budget.share("data_reads") == 0
    assert log.budget.share("redo_sync", "binlog_sync") > 0.3
    assert not data.budget.hides_commits
    assert all("@" not in key.source for observed in (data, log) for key in observed.grid.columns)


def test_what_if_has_a_model_of_one_volume() -> None:
    """Time that one volume's model would take for CPU is a wait for the other."""
    case = case_of(limited="log")
    for observed in (case, data_case(case), of_log(case)):
        demand = demand_of(observed)
        assert isinstance(demand, PredictionUnavailable)
        assert "several volumes" in demand.reason


def test_without_a_layout_a_case_stays_as_it_is() -> None:
    case = replace(case_of(limited="data"), elsewhere=())
    assert data_case(case) is case


def test_a_volume_of_temporary_files_is_not_explained() -> None:
    """No class of waits is of its files alone."""
    tmp = ComponentFacts(name="tmp", roles=("tmp",), volume_facts=VolumeFacts(path="/tmp/x"))
    assert list(component_cases(case_of(limited="data"), [tmp])) == []


def test_the_data_volume_is_not_acquitted_where_the_log_volume_has_a_cause() -> None:
    """`none` says that the volume is no problem, and the reader takes it for all of the layout."""
    innocent = FindingRow(cause="none", volume="a", step="rw", cell_ids=("c",), confidence=0.9)
    of_component = FindingRow(
        cause=LIMIT, volume="a", step="rw", cell_ids=("c",), share=0.5, confidence=0.9, component="log"
    )
    assert with_components([innocent], [of_component]) == (of_component,)
    assert with_components([innocent], []) == (innocent,)
