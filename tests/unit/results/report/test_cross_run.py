"""Comparing runs: what may be compared, what is refused with the facts that differ, and who is the baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from synthetic_run import OLTP, Synthetic, SyntheticVolume, build_run, two_volumes

from volbench.core.records.cell import CellResult
from volbench.core.records.facts import HostFacts
from volbench.errors import IncomparableRuns, UsageError
from volbench.results.report.cross_run import CrossRunComparison, compare_runs
from volbench.results.store.files import write_record
from volbench.results.store.run_directory import RESULT_FILE, RUN_FILE, RunDirectory

FIRST, SECOND = "20260302T093000Z-synthetic-0a1b2c", "20260303T093000Z-synthetic-3d4e5f"
Making = Callable[..., RunDirectory]


@pytest.fixture(name="make")
def making(tmp_path: Path) -> Making:
    """Builds a run of one volume, five cells of one load; changes of run.json as keywords.

    `host` changes facts of the cells' host, `orchestrator` those of the host that started them.
    """

    def make(
        name: str,
        run_id: str,
        *,
        speed: float = 1.0,
        step: Mapping[str, object] | None = None,
        version: str = "8.4.7",
        host: Mapping[str, object] | None = None,
        orchestrator: Mapping[str, object] | None = None,
        **changes: object,
    ) -> RunDirectory:
        steps = (OLTP.model_copy(update={"duration_s": 12.0, **(step or {})}),)
        expected = Synthetic(volumes=(SyntheticVolume(name=name, speed=speed),), steps=steps)
        directory = build_run(tmp_path, expected, run_id=run_id)
        run = directory.run
        changed = run.model_copy(update={"host": _changed(run.host, orchestrator), **changes})
        write_record(directory.path / RUN_FILE, changed)
        for result in directory.results():
            host_facts = _changed(result.host, host)
            _with_version(directory, result.model_copy(update={"host": host_facts}), version)
        return RunDirectory.open(directory.path)

    return make


def _changed(facts: HostFacts, changes: Mapping[str, object] | None) -> HostFacts:
    return HostFacts.model_validate({**facts.model_dump(), **(changes or {})})


def _with_version(directory: RunDirectory, result: CellResult, version: str) -> None:
    assert result.server is not None
    server = result.server.model_copy(update={"version": version})
    write_record(
        directory.path / "cells" / result.cell_id / RESULT_FILE, result.model_copy(update={"server": server})
    )


def tps_of(result: CrossRunComparison) -> Any:
    return next(row for row in result.comparisons if row.metric == "tps")


def test_two_runs_of_one_suite_are_compared_by_volume(make: Making) -> None:
    """The first run's volume is the baseline."""
    result = compare_runs([make("a", FIRST), make("b", SECOND, speed=1.5)])
    assert result.groups == ("a", "b")
    row = tps_of(result)
    assert (row.baseline, row.candidate, row.verdict) == ("a", "b", "better")
    assert row.runs == (5, 5)


def test_the_order_of_the_runs_decides_the_baseline(make: Making) -> None:
    first, second = make("a", FIRST), make("b", SECOND, speed=1.5)
    row = tps_of(compare_runs([second, first]))
    assert (row.baseline, row.candidate, row.verdict) == ("b", "a", "worse")


def test_cells_of_a_volume_that_both_runs_have_are_put_together(make: Making, tmp_path: Path) -> None:
    both = build_run(tmp_path, two_volumes(steps=(OLTP.model_copy(update={"duration_s": 12.0}),)), run_id=FIRST)
    assert tps_of(compare_runs([both, make("a", SECOND)])).runs == (10, 5)


def test_one_volume_in_two_runs_is_compared_by_run(make: Making) -> None:
    """Whether anything changed between two dates."""
    runs = [make("a", FIRST), make("a", SECOND, speed=0.6)]
    with pytest.raises(UsageError, match=r"nothing to compare(.|\n)*--by run"):
        compare_runs(runs)
    result = compare_runs(runs, by="run")
    assert result.groups == (f"{FIRST}/a", f"{SECOND}/a")
    assert tps_of(result).verdict == "worse"


@pytest.mark.parametrize(
    ("difference", "fact", "values"),
    [
        ({"step": {"threads": (32,)}}, "steps.0.threads.0", ("8", "32")),
        ({"version": "8.0.44"}, "engine.version", ("8.4.7", "8.0.44")),
        ({"host": {"cpus": 2}}, "host.cpus", ("8", "2")),
        ({"host": {"cpu_model": "EPYC"}}, "host.cpu_model", ("Xeon 8259CL", "EPYC")),
        ({"host": {"memory_bytes": 16 << 30}}, "host.memory_bytes", (str(32 << 30), str(16 << 30))),
        ({"target": "local"}, "target", ("docker", "local")),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_changes_the_numbers_by_itself_is_refused_by_name_with_both_values(
    make: Making, difference: dict[str, Any], fact: str, values: tuple[str, str]
) -> None:
    runs = [make("a", FIRST), make("b", SECOND, **difference)]
    with pytest.raises(IncomparableRuns) as caught:
        compare_runs(runs)
    assert caught.value.exit_code == 4
    assert f"{fact}: {FIRST}: {values[0]} | {SECOND}: {values[1]}" in caught.value.evidence
    assert "--by" in caught.value.next_step


LAPTOPS = (
    {"cpu_model": "Core i7", "cpus": 4, "memory_bytes": 8 << 30, "hostname": "anna"},
    {"cpu_model": "M3", "cpus": 12, "memory_bytes": 64 << 30, "hostname": "ben"},
)


def test_equal_nodes_are_compared_whichever_laptops_started_the_runs(make: Making) -> None:
    first, second = LAPTOPS
    result = compare_runs([make("a", FIRST, orchestrator=first), make("b", SECOND, speed=1.5, orchestrator=second)])
    assert tps_of(result).verdict == "better"
    assert result.context == {}


def test_different_nodes_are_refused_although_one_laptop_started_both_runs(make: Making) -> None:
    large = {"cloud_instance_type": "m5.large", "cpus": 2}
    larger = {"cloud_instance_type": "c7i.4xlarge", "cpus": 16}
    laptop = LAPTOPS[0]
    runs = [make("a", FIRST, host=large, orchestrator=laptop), make("b", SECOND, host=larger, orchestrator=laptop)]
    with pytest.raises(IncomparableRuns) as caught:
        compare_runs(runs)
    assert f"host.cpus: {FIRST}: 2 | {SECOND}: 16" in caught.value.evidence
    assert f"host.cloud_instance_type: {FIRST}: m5.large | {SECOND}: c7i.4xlarge" in caught.value.evidence


def test_an_instance_type_that_one_run_does_not_know_refuses_nothing(make: Making) -> None:
    result = compare_runs(
        [make("a", FIRST, host={"cloud_instance_type": "m5.large"}), make("b", SECOND, speed=1.5)]
    )
    assert tps_of(result).verdict == "better"


def test_every_fact_that_differs_is_named(make: Making) -> None:
    runs = [make("a", FIRST), make("b", SECOND, version="8.0.44", host={"cpus": 2})]
    with pytest.raises(IncomparableRuns) as caught:
        compare_runs(runs)
    assert caught.value.evidence.count("; ") == 1


def test_a_refusal_ends_where_its_next_step_is_taken(make: Making) -> None:
    runs = [make("a", FIRST), make("a", SECOND, version="8.0.44", speed=0.7)]
    with pytest.raises(IncomparableRuns, match=r"--by engine\.version"):
        compare_runs(runs)
    result = compare_runs(runs, by="engine.version")
    assert result.groups == ("8.4.7", "8.0.44")
    assert tps_of(result).verdict == "worse"


def test_by_a_fact_the_others_must_still_agree(make: Making) -> None:
    runs = [make("a", FIRST), make("a", SECOND, version="8.0.44", host={"cpus": 2})]
    with pytest.raises(IncomparableRuns, match=r"host\.cpus") as caught:
        compare_runs(runs, by="engine.version")
    assert "engine.version" not in caught.value.evidence


def test_what_may_differ_is_noted(make: Making) -> None:
    result = compare_runs([make("a", FIRST), make("b", SECOND, host={"kernel": "6.12"}, started_at="2026-04-01")])
    assert result.context["host.kernel"] == {FIRST: "6.1.0-28-amd64", SECOND: "6.12"}
    assert set(result.context) == {"host.kernel", "started_at"}


def test_an_unknown_fact_is_refused_with_those_that_there_are(make: Making) -> None:
    with pytest.raises(UsageError, match=r"engine\.versions(.|\n)*known: volume, run, .*engine\.version") as caught:
        compare_runs([make("a", FIRST), make("b", SECOND)], by="engine.versions")
    assert caught.value.exit_code == 2


def test_only_the_metrics_that_are_asked_for(make: Making) -> None:
    result = compare_runs([make("a", FIRST), make("b", SECOND)], metrics=["tps", "qps"])
    assert {row.metric for row in result.comparisons} == {"tps", "qps"}


def test_a_single_run_is_compared_within_itself(pair: RunDirectory) -> None:
    result = compare_runs([pair])
    assert result.groups == ("a", "b")
    assert result.context == {}


def test_by_run_each_volume_is_held_against_itself_in_the_first_run(tmp_path: Path) -> None:
    """Twelve groups have a base that somebody would choose, and not the first of the alphabet."""
    steps = (OLTP.model_copy(update={"duration_s": 12.0}),)
    runs = [build_run(tmp_path, two_volumes(steps=steps), run_id=run_id) for run_id in (FIRST, SECOND)]
    pairs = {(row.baseline, row.candidate) for row in compare_runs(runs, by="run").comparisons}
    assert pairs == {(f"{FIRST}/{name}", f"{SECOND}/{name}") for name in "ab"}
    stated = compare_runs(runs, by="run", against=f"{SECOND}/b")
    assert {row.baseline for row in stated.comparisons} == {f"{SECOND}/b"}
    assert {row.candidate for row in stated.comparisons} == {f"{FIRST}/a", f"{FIRST}/b", f"{SECOND}/a"}


def test_an_unknown_metric_and_an_unknown_group_are_named_with_the_nearest(make: Making) -> None:
    runs = [make("a", FIRST), make("b", SECOND)]
    with pytest.raises(UsageError, match=r"metric 'tsp'(.|\n)*perhaps you meant 'tps'"):
        compare_runs(runs, metrics=["tsp"])
    with pytest.raises(UsageError, match=r"no group 'c'(.|\n)*the groups are a, b"):
        compare_runs(runs, against="c")
