"""Advice and evidence that fit the step and the kind of volume, and bounds that fit what was measured."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from synthetic_cell import Load, Storage, columns
from synthetic_run import Synthetic, SyntheticVolume, build_run

from volbench.core.profile.files import profile_names, whole_profile
from volbench.core.records.steps.oltp import OltpStep
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.findings import explain_case
from volbench.results.explain.rules.host.cpu_evidence import waits_elsewhere
from volbench.results.explain.rules.levers import commits, more
from volbench.results.explain.run_cases import cases_of
from volbench.results.stats.grid import Grid, align
from volbench.results.store.loaded_run import load_run
from volbench.results.store.series import SeriesKey

LIMITED = Load(queue=24, threads=24)


def case_of(load: Load, storage: Storage, *, counters: bool = True, **given: object) -> Case:
    grid = align(columns(load, storage, counters=counters))
    return Case(name="load", grid=grid, cell_grid=grid, threads=load.threads, cpus=8, **given)  # type: ignore[arg-type]


def finding(case: Case, cause: str) -> Cause:
    return next(named for named in explain_case(case).findings if named.cause == cause)


def limit_advice(profile: str) -> str:
    return finding(case_of(LIMITED, Storage(iops=1000.0), profile=profile), "storage.iops_limit").advice


@pytest.mark.parametrize(
    ("profile", "says"),
    [
        ("ebs-gp3", "Provision more IOPS, or"),
        ("ebs-io2", "Provision more IOPS, or"),
        ("ebs-gp2", "Enlarge the volume (gp2 has none to provision"),
        ("ebs-2016", "Enlarge the volume (gp2 has none to provision"),
        ("ceph-rbd", "Give the pool more OSDs"),
        ("efs-bursting", "Change the file system to elastic throughput"),
        ("local-nvme", "Take a machine with a faster disk"),
        ("", "whichever its type allows"),
        ("no-such-profile", "whichever its type allows"),
    ],
)
def test_more_is_had_as_the_kind_of_volume_allows(profile: str, says: str) -> None:
    advice = limit_advice(profile)
    assert says in advice
    assert ("Provision" in advice) == ("Provision" in says or "whichever" in says)


def test_every_profile_says_how_it_gives_more_of_what_it_limits() -> None:
    silent = [
        (name, limit.resource)
        for name in profile_names()
        for limit in whole_profile(name).limits
        if limit.scope == "volume"
        and limit.resource not in whole_profile(name).parameters
        and limit.resource not in whole_profile(name).more
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("kind", "says", "never"),
    [
        ("oltp", "look at the buffer pool", "fewer and larger"),
        ("dump", "less data to read", "buffer pool"),
        ("restore", "less data to read", "per transaction"),
        ("small_files", "or fewer and larger operations", "buffer pool"),
        ("fio", "gives more than 1,000 IOPS.", "or fewer"),
    ],
)
def test_less_is_asked_for_as_the_step_allows(kind: str, says: str, never: str) -> None:
    load = dataclasses.replace(LIMITED, read_part=0.9)
    case = case_of(load, Storage(iops=1000.0), kind=kind, profile="ebs-gp3")
    advice = finding(case, "storage.iops_limit").advice
    assert says in advice
    assert never not in advice


def test_no_commits_are_grouped_where_none_are_made() -> None:
    def advice_of(kind: str) -> str:
        case = case_of(Load(queue=8, threads=8, read_part=0.1), Storage(latency_ms=20.0), kind=kind)
        return finding(case, "storage.sync_latency").advice

    assert "for each commit (group commit)" in advice_of("oltp")
    assert "commit (" not in advice_of("ddl")


def test_a_server_that_counts_no_commit_makes_none() -> None:
    case = case_of(LIMITED, Storage(iops=1000.0))
    assert commits(case)
    counted = {SeriesKey(source="innodb", metric="commits_per_s", entity=""): np.zeros(len(case.grid))}
    assert not commits(dataclasses.replace(case, grid=dataclasses.replace(case.grid, columns=counted)))


def emptied(before: float, after: float, **given: object) -> Cause:
    """A volume whose balance is empty from the 12th of 36 samples on."""
    rate = np.where(np.arange(36) < 12, before, after)
    balance = np.where(np.arange(36) < 12, 50.0, 0.0)
    values = {"reads_per_s": 0.9 * rate, "writes_per_s": 0.1 * rate, "balance_percent": balance}
    grid = Grid(
        t_s=60.0 * np.arange(1.0, 37.0),
        width_s=60.0,
        columns={SeriesKey(source="cloudwatch", metric=name, entity="v"): item for name, item in values.items()},
    )
    case = Case(name="v", grid=grid, cell_grid=grid, kind="recorded", disk="v", recorded=True, **given)  # type: ignore[arg-type]
    return finding(case, "storage.burst_exhausted")


def test_rates_before_and_after_are_of_equal_loads_only() -> None:
    def texts(cause: Cause) -> str:
        return " ".join(row.text for row in cause.evidence)

    assert "without credits the volume gave 100 IOPS; before it gave up to 3,000 IOPS" in texts(emptied(3000, 100))
    swept = emptied(3980, 4405, changes_load=True)
    assert "before it gave" not in texts(swept)
    assert swept.kind != "some failed"
    assert "before it gave" not in texts(emptied(3980, 4405))


def test_credits_of_other_volumes_than_ebs_are_not_had_from_ebs() -> None:
    advice = emptied(3000, 100, profile="ceph-rbd").advice
    assert "Give the pool more OSDs" in advice
    assert "gp3" not in advice


@pytest.mark.parametrize(("of_volume", "alone"), [(0.1, True), (0.9, False)])
def test_an_instance_is_not_the_only_limit_where_the_volume_counts_its_own(of_volume: float, alone: bool) -> None:
    counted = columns(LIMITED, Storage(iops=1000.0), counters=True)
    grid = align(counted)
    ratios = {"instance_exceeded_iops_ratio": 0.95, "volume_exceeded_iops_ratio": of_volume}
    changed = {
        key: np.full(len(grid), ratios.get(key.metric, 0.0)) if "exceeded" in key.metric else column
        for key, column in grid.columns.items()
    }
    grid = dataclasses.replace(grid, columns=changed)
    case = Case(name="x", grid=grid, cell_grid=grid, threads=24, cpus=8)
    named = finding(case, "instance.storage_limit")
    advice = named.advice
    assert ("its own limit was not reached" in named.volume_advice) is alone
    assert ("both limits were met" in advice) is not alone


def streams(kind: str) -> Case:
    """One stream that waits for reads of 0.8 ms nearly all the time."""
    values = {
        ("diskstats", "reads_per_s"): 1200.0,
        ("diskstats", "writes_per_s"): 0.0,
        ("diskstats", "r_await_ms"): 0.8,
        ("diskstats", "aqu_sz"): 0.96,
        ("cpu", "user_ratio"): 0.05,
        ("cpu", "system_ratio"): 0.05,
    }
    noise = 1 + np.random.default_rng(1).normal(0, 0.1, 30)
    grid = Grid(
        t_s=np.arange(1.0, 31.0),
        width_s=1.0,
        columns={
            SeriesKey(source=source, metric=metric, entity="sda" if source == "diskstats" else ""): value * noise
            for (source, metric), value in values.items()
        },
    )
    return Case(name="step", grid=grid, cell_grid=grid, kind=kind, threads=1, cpus=2)


def test_a_measurement_of_the_volume_that_waits_for_it_acquits_nothing() -> None:
    explained = explain_case(streams("fio"))
    assert "none" not in [named.cause for named in explained.findings]
    assert any("they measure how fast it is" in note for note in explained.notes)


def test_a_step_that_waits_for_a_fast_volume_is_not_said_to_wait_for_something_else() -> None:
    (named,) = explain_case(streams("small_files")).findings
    assert named.cause == "none"
    assert "neither slow nor at a limit" in named.advice
    assert "buffer pool" not in named.advice
    assert named.evidence[0].text == "95 % of the streams' time is waiting for the volume, in short waits"


def test_cpus_explain_no_more_than_clients_do_not_wait_for_otherwise() -> None:
    """Tasks of the cell are runnable for 94 % of what 8 clients have; reads at the device have their part of it."""
    case = case_of(
        Load(queue=3.0, threads=8, read_part=0.95, cpu_busy=0.97, cpu_s_per_s=7.0), Storage(latency_ms=0.4)
    )
    added = {
        ("tasks", "cpus_used", "cell"): 7.2,
        ("tasks", "run_delay_s_per_s", "cell"): 0.32,
        ("performance_schema", "file_reads_per_s", "data"): 7000.0,
        ("performance_schema", "file_read_s_per_s", "data"): 3.0,
    }
    more_columns = {
        SeriesKey(source=source, metric=metric, entity=entity): np.full(len(case.grid), value)
        for (source, metric, entity), value in added.items()
    }
    grid = dataclasses.replace(case.grid, columns={**case.grid.columns, **more_columns})
    busy = dataclasses.replace(case, grid=grid, cell_grid=grid)
    elsewhere = waits_elsewhere(busy)
    assert 0.1 < elsewhere < 0.6
    named = finding(busy, "cpu.server_saturated")
    assert named.share is not None
    assert named.share <= 1 - elsewhere
    assert any(row.metric == "cpu_share_max" for row in named.evidence)


def test_a_volume_of_an_unknown_kind_is_told_of_both_ways() -> None:
    assert more(case_of(LIMITED, Storage(iops=1000.0)), "throughput") == (
        "Provision more throughput or enlarge the volume, whichever its type allows"
    )


def test_the_kind_of_a_runs_volume_is_that_of_its_spec_or_of_its_target_option(tmp_path: Path) -> None:
    """An emulated one, one from a snapshot on gp2, a real one that is called gp3, and one of an unknown kind."""
    snapshot = {"emulated_profile": "snapshot-lazy-load", "emulated_parameters": {"base": "ebs-gp2"}}
    volumes = (
        SyntheticVolume(name="a", facts={"emulated_profile": "ceph-rbd"}),
        SyntheticVolume(name="b", facts=snapshot),
        SyntheticVolume(name="c", profile="ebs-gp3?iops=6000"),
        SyntheticVolume(name="d"),
    )
    load = OltpStep(name="load", warmup_s=10, duration_s=30)
    loaded = load_run(build_run(tmp_path, Synthetic(volumes=volumes, steps=(load,), repeats=1)))
    kinds = {
        result.cell_id.split("-")[1]: case.profile for result in loaded.results for case in cases_of(loaded, result)
    }
    assert kinds == {"a": "ceph-rbd", "b": "ebs-gp2", "c": "ebs-gp3", "d": ""}
