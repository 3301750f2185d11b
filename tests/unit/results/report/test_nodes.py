"""Cells of two volumes on different nodes: the report says so and gives no verdict on the volumes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from synthetic_run import HOST

from volbench.core.records.cell import CellResult
from volbench.core.records.facts import HostFacts
from volbench.core.records.report import Report
from volbench.results.report.build import build_report
from volbench.results.report.cross_run import compare_runs
from volbench.results.report.formats.markdown import markdown
from volbench.results.report.formats.terminal import summary_lines
from volbench.results.report.rows.nodes import changed_together, node_caveats, placed_apart
from volbench.results.report.rows.verdict.pairs import why_decided
from volbench.results.store.files import write_record
from volbench.results.store.run_directory import RESULT_FILE, RUN_FILE, RunDirectory


def on(*names: str, **facts: object) -> list[HostFacts]:
    """Return the hosts of cells on these nodes."""
    return [HOST.model_copy(update={"hostname": name, **facts}) for name in names]


@pytest.mark.parametrize(
    ("baseline", "candidate", "expected"),
    [
        (on(*["n1"] * 5), on(*["n1"] * 5), False),
        (on(*["n1"] * 5), on(*["n2"] * 5), True),
        (on("n1", "n1", "n1", "n2", "n2"), on("n1", "n1", "n2", "n2", "n2"), False),
        (on(*["n1"] * 5), on("n1", "n2", "n2", "n2", "n2"), True),
        (on("f1", "f2", "f3", "f4", "f5"), on("f6", "f7", "f8", "f9", "fa"), False),
        (on("f1", "f2", "f3"), on("f6", "f7", "f8", cpu_model="EPYC"), True),
        (on("f1"), on("f2"), True),
        (on("0a1b2c3d4e5f", container=True), on("f0a1b2c3d4e5", container=True), False),
        ([], on("n1"), False),
    ],
    ids=[
        "one",
        "each-its-own",
        "mixed-alike",
        "mixed-unlike",
        "a-node-a-cell",
        "other-kind",
        "single",
        "docker",
        "none",
    ],
)
def test_nodes_that_change_with_the_volume(
    baseline: list[HostFacts], candidate: list[HostFacts], expected: bool
) -> None:
    assert changed_together(baseline, candidate) is expected


def test_facts_that_differ_are_shown_with_the_nodes() -> None:
    hosts = {
        "a": on("n2", "n2", cloud_instance_type="m5.large", zone="eu-1a"),
        "b": on("n3", cloud_instance_type="c7i.large", zone="eu-1a"),
    }
    first, second = node_caveats(hosts)
    assert first.startswith("Node and volume changed together: a and b ")
    assert second == "Cells ran on several nodes: a on n2 (m5.large, 2 cells); b on n3 (c7i.large, 1 cell)."
    assert list(node_caveats({"a": on("n1"), "b": on("n1")})) == []


@pytest.fixture(name="placed")
def placing(pair: RunDirectory, tmp_path: Path) -> Callable[[Callable[[CellResult], str]], RunDirectory]:
    """Return the run of two volumes, b clearly better, with its cells on other nodes."""

    def location(node_of: Callable[[CellResult], str]) -> RunDirectory:
        path = tmp_path / pair.path.name
        shutil.copytree(pair.path, path)
        directory = RunDirectory.open(path)
        for result in directory.results():
            host = result.host.model_copy(update={"hostname": node_of(result)})
            changed = result.model_copy(update={"host": host})
            write_record(path / "cells" / result.cell_id / RESULT_FILE, changed)
        return RunDirectory.open(path)

    return location


def verdicts(report: Report) -> set[str]:
    return {row.verdict for row in report.comparisons}


def test_volumes_on_a_node_each_get_no_verdict_anywhere(
    placed: Callable[[Callable[[CellResult], str]], RunDirectory],
) -> None:
    directory = placed(lambda result: "node2" if "-a-" in result.cell_id else "node3")
    report = build_report(directory)
    assert report.summary.verdict == "inconclusive"
    assert verdicts(report) == {"inconclusive"}
    assert "node and volume changed together (a on node2, b on node3)" in report.summary.sentence
    assert report.summary.caveats[0].startswith("Node and volume changed together")
    for text in ("\n".join(summary_lines(report)), markdown(report)):
        assert "Cells ran on several nodes: a on node2" in text
    assert {row.verdict for row in compare_runs([directory]).comparisons} == {"inconclusive"}


def test_volumes_on_the_same_two_nodes_keep_their_verdict(
    placed: Callable[[Callable[[CellResult], str]], RunDirectory],
) -> None:
    directory = placed(lambda result: f"node{1 + int(result.cell_id[-1]) % 2}")
    report = build_report(directory)
    assert report.summary.verdict == "candidate_better"
    assert any(caveat.startswith("Cells ran on several nodes") for caveat in report.summary.caveats)


PLACED = {"b": "selector=kind=fargate"}


def test_volumes_that_were_placed_apart_keep_their_verdict_with_the_nodes_said() -> None:
    hosts = {"a": on(*["n1"] * 5), "b": on(*["n2"] * 5, cloud_instance_type="fargate")}
    first, second = node_caveats(hosts, PLACED)
    assert first.startswith("a and b were placed on different nodes (b by selector=kind=fargate)")
    assert "volume and node together" in first
    assert "b on n2 (fargate, 5 cells)" in second
    assert placed_apart("a", "b", PLACED)
    assert not placed_apart("a", "c", PLACED), "these two may use the same nodes: the rule of before holds"


def test_cells_on_two_nodes_are_compared_within_each(
    placed: Callable[[Callable[[CellResult], str]], RunDirectory],
) -> None:
    directory = placed(lambda result: f"node{1 + int(result.cell_id[-1]) % 2}")
    report = build_report(directory)
    assert {row.nodes for row in report.comparisons} == {2}
    assert any(
        caveat.endswith("Volumes are compared within each of 2 nodes, in one test.")
        for caveat in report.summary.caveats
    )


def test_a_run_over_nodes_is_not_decided_before_each_has_a_block(
    placed: Callable[[Callable[[CellResult], str]], RunDirectory],
) -> None:
    one_node = placed(lambda _: "node1")
    assert why_decided(one_node) == "every pair of volumes has a verdict"
    requests = one_node.run.model_copy(update={"target_options": {"nodes": "2"}})
    write_record(one_node.path / RUN_FILE, requests)
    assert why_decided(RunDirectory.open(one_node.path)) == ""
