"""Speed, durability and price of volumes in one table, and which of them another one makes pointless."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from types import MappingProxyType

import pytest
from synthetic_run import Synthetic, SyntheticVolume, build_run

from volbench.core.records.goals.pricing import PricingSpec, StorageClassRow
from volbench.core.records.metrics import metric
from volbench.core.records.report import CellRow, DurabilityRow, Report
from volbench.core.records.run import VolumeSpec
from volbench.results.credits.prices import Prices, load_prices
from volbench.results.explain.run import explain_run
from volbench.results.report.build import build_report
from volbench.results.report.formats.markdown import markdown
from volbench.results.report.formats.terminal import summary_lines
from volbench.results.report.render import render
from volbench.results.report.rows.storage_classes import (
    Traffic,
    Traffics,
    notes,
    price_text,
    standing_text,
    storage_class_rows,
    transaction_traffic,
)
from volbench.results.report.views.frontier import frontiers
from volbench.results.store.files import write_record
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory

PRICES = load_prices()
SPEC = PricingSpec(step="read-write")
SECONDS_IN_MONTH = 730 * 3600


def volume(name: str, spec: str = "") -> VolumeSpec:
    kind, location = ("emulated", spec.partition("?")[0]) if spec else ("path", "/mnt/x")
    options = dict(field.partition("=")[::2] for field in spec.partition("?")[2].split("&") if field)
    return VolumeSpec(name=name, kind=kind, location=location, options=options, text=f"{kind}:{spec or location}")


def cell(name: str, tps: float, *, valid: bool = True, threads: int = 4) -> CellRow:
    values = {"tps": metric("tps", tps), "latency_ms_p95": metric("latency_ms_p95", 1000 / tps)}
    return CellRow(
        cell_id=f"{name}-{tps}",
        volume=name,
        step="read-write",
        kind="oltp",
        parameters={"threads": threads},
        block=0,
        repeat=1,
        valid=valid,
        metrics=values,
    )


def losses(name: str, lost: int = 0, failed: int = 0) -> DurabilityRow:
    return DurabilityRow(
        volume=name,
        step="crash",
        fault="power_cut",
        cells=1,
        cuts=2,
        acknowledged_commits=500,
        lost_commits=lost,
        torn_or_damaged=0,
        failed_recoveries=failed,
        recovery_s=3.5,
    )


def rows_of(
    volumes: dict[str, str],
    cells: list[CellRow],
    *,
    durability: tuple[DurabilityRow, ...] = (),
    traffics: Traffics = MappingProxyType({}),
    spec: PricingSpec = SPEC,
    prices: Prices = PRICES,
) -> dict[str, StorageClassRow]:
    specs = [volume(name, text) for name, text in volumes.items()]
    rows = storage_class_rows(spec, specs, cells, durability, traffics, prices)
    return {row.volume: row for row in rows}


GP2, GP3, IO2 = "ebs-gp2?size=100GiB", "ebs-gp3?size=100GiB", "ebs-io2?size=100GiB&iops=6000"


def test_a_speed_is_the_figure_of_every_other_table() -> None:
    """Of a volume without a valid cell, disturbed ones alone: others are known to be wrong by more than that."""
    known = {"bounds": {"tps": (90.0, None), "latency_ms_p95": (0.0, 12.0)}}
    disturbed = [cell("gp3", tps, valid=False).model_copy(update=known) for tps in (100, 104)]
    row = rows_of({"gp3": GP3}, [*disturbed, cell("gp3", 7, valid=False)])["gp3"]
    assert (row.tps, row.cells, row.valid) == (102.0, 2, False)


def test_a_million_transactions_cost_a_months_price_over_a_months_transactions() -> None:
    """gp3: 100 GiB at 0.08; io2: 100 GiB at 0.125 and 6,000 IOPS at 0.065. Medians of the valid cells."""
    cells = [cell("gp3", 100), cell("gp3", 120), cell("gp3", 900, valid=False), cell("io2", 400)]
    rows = rows_of({"gp3": GP3, "io2": IO2}, cells, durability=(losses("gp3"), losses("io2")))
    gp3, io2 = rows["gp3"], rows["io2"]
    assert (gp3.tps, gp3.tps_range, gp3.cells, gp3.valid) == (110.0, (100.0, 120.0), 2, True)
    assert (gp3.price_month, io2.price_month) == (pytest.approx(8.0), pytest.approx(12.5 + 390.0))
    assert gp3.price_per_million == pytest.approx(8.0 / (110.0 * SECONDS_IN_MONTH) * 1e6)
    assert (gp3.recovery_s, gp3.lost_commits, gp3.acknowledged_commits, gp3.cuts) == (3.5, 0, 500, 2)
    assert (gp3.frontier, io2.frontier, gp3.assumed) == (True, True, True)
    assert price_text(gp3) == "~8.00 USD a month, ~0.0277 a million"
    assert any("read 2026-11" in text and "us-east-1" in text for text in notes(list(rows.values())))


def test_a_slower_and_dearer_volume_is_dominated_and_certainly_so_only_when_all_cells_say_so() -> None:
    volumes = {"gp3": GP3, "gp2": GP2}
    apart = rows_of(volumes, [cell("gp3", 100), cell("gp3", 120), cell("gp2", 50), cell("gp2", 60)])
    assert (apart["gp2"].dominated_by, apart["gp2"].certain, apart["gp2"].frontier) == (("gp3",), True, False)
    assert standing_text(apart["gp2"]) == "dominated by gp3"
    overlapping = rows_of(volumes, [cell("gp3", 100), cell("gp3", 55), cell("gp2", 50), cell("gp2", 60)])
    assert (overlapping["gp2"].dominated_by, overlapping["gp2"].certain) == (("gp3",), False)
    single = rows_of(volumes, [cell("gp3", 100), cell("gp2", 50)])
    assert not single["gp2"].certain
    assert standing_text(single["gp2"]) == "dominated by gp3 (their cells overlap, or are single)"
    faster = rows_of(volumes, [cell("gp3", 100), cell("gp2", 101)])
    assert all(row.frontier for row in faster.values())


@pytest.mark.parametrize("fault", [losses("gp3", lost=7), losses("gp3", failed=1)])
def test_a_volume_that_loses_commits_dominates_nothing(fault: DurabilityRow) -> None:
    cells = [cell("gp3", 100), cell("gp2", 50)]
    rows = rows_of({"gp3": GP3, "gp2": GP2}, cells, durability=(fault, losses("gp2")))
    assert (rows["gp2"].frontier, rows["gp3"].frontier) == (True, False)
    assert "not on the frontier" in standing_text(rows["gp3"])


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("", "the suite's pricing.volumes does not say what x is"),
        ("ebs-2016", "the list has no price of ebs-2016"),
        ("fsx-openzfs?deployment=multi-az", "the list has no price of fsx-openzfs with these options"),
        ("efs-elastic", "efs-elastic is charged by traffic, and none was sampled"),
    ],
)
def test_a_volume_without_a_known_price_says_why_and_takes_no_part(spec: str, reason: str) -> None:
    rows = rows_of({"x": spec, "gp2": GP2}, [cell("x", 900), cell("gp2", 50)])
    assert (rows["x"].price_month, rows["x"].price_per_million, rows["x"].price_unavailable_reason) == (
        None,
        None,
        reason,
    )
    assert standing_text(rows["x"]) == "not comparable without price"
    assert (rows["x"].frontier, rows["gp2"].frontier) == (False, True)


def test_a_layout_is_not_priced_as_its_data_alone() -> None:
    """The volume of the data has a price, and the layout costs more."""
    layout = volume("a", GP3).model_copy(update={"layout": (volume("a.log", GP3),)})
    [row] = storage_class_rows(SPEC, [layout], [cell("a", 100)], (), MappingProxyType({}), PRICES)
    assert row.price_month is None
    assert row.price_unavailable_reason == "a is a layout of several volumes: add the prices of each"


def test_a_real_volume_is_priced_as_the_suite_says() -> None:
    spec = PricingSpec(step="read-write", volumes={"fast": "ebs-io2?size=200GiB&iops=1000"})
    row = rows_of({"fast": ""}, [cell("fast", 10)], spec=spec)["fast"]
    assert (row.price_month, row.priced_as) == (pytest.approx(25 + 65), "ebs-io2?size=200GiB&iops=1000")


def test_traffic_is_what_transactions_moved_all_month() -> None:
    """100 GiB at 0.30; 1 MiB read and 2 MiB written a transaction at 0.03 and 0.06 a GiB."""
    traffics: dict[tuple[str, str, int | None], Traffic] = {
        ("x", "read-write", 4): Traffic(read=2.0**20, write=2.0**21)
    }
    rows = rows_of({"x": "efs-elastic?stored=100GiB"}, [cell("x", 10)], traffics=traffics)
    gib = 10 * SECONDS_IN_MONTH / 1024
    assert rows["x"].price_month == pytest.approx(30 + gib * 0.03 + 2 * gib * 0.06)


def test_a_cluster_costs_its_disks_and_says_what_is_left_out() -> None:
    spec = "ceph-rbd?replicas=2&osds=3&osd=ebs-gp3?size=67GiB"
    row = rows_of({"ceph": spec}, [cell("ceph", 10)])["ceph"]
    assert (row.price_month, row.price_exclusions) == (
        pytest.approx(3 * 67 * 0.08),
        ("the nodes that run the OSDs",),
    )
    assert "The price of ceph leaves out the nodes that run the OSDs" in list(notes([row]))


def test_credits_and_disturbed_cells_are_named() -> None:
    rows = rows_of({"gp2": GP2, "spent": f"{GP2}&credits=0"}, [cell("gp2", 9, valid=False), cell("spent", 3)])
    assert (rows["gp2"].has_credits, rows["spent"].has_credits) == (True, False)
    assert (rows["gp2"].valid, rows["gp2"].tps) == (False, 9.0)
    texts = list(notes(list(rows.values())))
    assert "gp2 began with burst credits: its speed may not last, and so its price per million" in texts
    assert "gp2 has no valid cell: these are its disturbed ones" in texts


def test_a_burst_speed_and_an_incomplete_price_dominate_no_settled_volume() -> None:
    """Cheaper and faster, but the speed may not last, or the price is a lower bound."""
    volumes = {
        "gp2": "ebs-gp2?size=50GiB",
        "nvme": "local-nvme?size=10GB",
        "gp3": GP3,
        "gp2-large": GP2,
        "nvme-large": "local-nvme?size=40GB",
    }
    speeds = {"gp2": 200, "nvme": 900, "gp3": 100, "gp2-large": 150, "nvme-large": 800}
    rows = rows_of(volumes, [cell(name, tps) for name, tps in speeds.items()])
    assert [name for name, row in rows.items() if row.frontier] == ["gp2", "nvme", "gp3"]
    assert rows["gp2-large"].dominated_by == ("gp2",)
    assert rows["nvme-large"].dominated_by == ("nvme",)
    assert standing_text(rows["nvme"]) == "on the frontier, by an incomplete price"
    assert standing_text(rows["gp2"]) == "on the frontier, by a burst speed"
    (frontier,) = frontiers(list(rows.values()))
    gp3 = next(mark for mark in frontier.marks if mark.volume == "gp3")
    assert f"{gp3.at:.2f},{gp3.top:.2f}" in frontier.steps
    assert len(frontier.steps.split()) == 3


def test_a_volume_without_any_cell_keeps_its_row() -> None:
    row = rows_of({"gp3": GP3, "gp2": GP2}, [cell("gp3", 9)])["gp2"]
    assert (row.tps, row.cells, row.price_per_million, row.price_month) == (None, 0, None, pytest.approx(10.0))
    assert standing_text(row) == "not comparable without speed"


def test_each_load_is_compared_with_itself() -> None:
    cells = [cell("gp3", 10, threads=1), cell("gp2", 20, threads=1), cell("gp3", 90), cell("gp2", 40)]
    specs = [volume("gp3", GP3), volume("gp2", GP2)]
    rows = storage_class_rows(SPEC, specs, cells, (), {}, PRICES)
    assert [(row.volume, row.parameters["threads"], row.frontier) for row in rows] == [
        ("gp3", 1, True),
        ("gp2", 1, True),
        ("gp3", 4, True),
        ("gp2", 4, False),
    ]


def test_the_chart_places_dearer_volumes_to_the_right_and_faster_ones_higher() -> None:
    cells = [cell("gp3", 100), cell("gp2", 50), cell("io2", 400)]
    rows = rows_of({"gp3": GP3, "gp2": GP2, "io2": IO2}, cells)
    (frontier,) = frontiers(list(rows.values()))
    marks = {mark.volume: mark for mark in frontier.marks}
    assert marks["gp3"].at < marks["gp2"].at < marks["io2"].at
    assert marks["io2"].top < marks["gp3"].top < marks["gp2"].top
    assert [marks[name].style for name in ("gp3", "gp2", "io2")] == ["frontier", "dominated", "frontier"]
    corners = [tuple(map(float, point.split(","))) for point in frontier.steps.split()]
    assert corners[1] == (marks["gp3"].at, marks["gp3"].top)
    assert corners[-2] == (marks["io2"].at, marks["io2"].top)
    assert corners == sorted(corners, key=lambda corner: (corner[0], -corner[1]))
    assert all(0 <= end <= 100 for corner in corners for end in corner)


@pytest.fixture(scope="module", name="run")
def run_with_prices(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Two volumes on paths: one that the suite says what it is, one that it does not."""
    volumes = (SyntheticVolume(name="a"), SyntheticVolume(name="b", speed=2.0))
    directory = build_run(tmp_path_factory.mktemp("priced"), Synthetic(volumes=volumes, repeats=4))
    pricing = PricingSpec(step="read-write", volumes={"a": "ebs-gp3?size=100GiB", "b": "ebs-gp2?size=100GiB"})
    suite = directory.run.suite.model_copy(update={"pricing": pricing})
    write_record(directory.path / "run.json", directory.run.model_copy(update={"suite": suite}))
    return RunDirectory.open(directory.path)


@pytest.fixture(scope="module", name="report")
def report_with_prices(run: RunDirectory) -> Report:
    return build_report(run)


def test_every_format_has_the_table(run: RunDirectory, report: Report) -> None:
    assert [(row.volume, row.frontier) for row in report.storage_classes] == [("a", True), ("b", True)]
    text = markdown(report)
    assert "| read-write threads=8 | transactions/s | p95 | recovery |" in text
    assert "\\~8.00 USD a month" in text
    assert any("b:" in line and "10.00 USD a month" in line for line in summary_lines(report))
    page = render(report, run, "html")
    assert '<section id="storage-classes">' in page
    section = page.partition('<section id="storage-classes">')[2].partition("</section>")[0]
    assert section.count('class="knot f') == 2


def test_traffic_is_known_of_disturbed_cells_where_no_other_is_there(run: RunDirectory, tmp_path: Path) -> None:
    """What a transaction moves does not depend on how fast the machine was."""
    copy = shutil.copytree(run.path, tmp_path / "copy")
    for path in copy.glob("cells/*/result.json"):
        path.write_text(re.sub(r'"valid": ?true', '"valid": false', path.read_text()))
    disturbed = transaction_traffic(explain_run(load_run(RunDirectory.open(copy))))
    assert disturbed == transaction_traffic(explain_run(load_run(run)))
    assert ("a", "read-write", 8) in disturbed


def test_a_suite_without_prices_has_no_such_section(pair_report: Report) -> None:
    assert pair_report.storage_classes == ()
    assert "transactions/s | p95 | recovery" not in markdown(pair_report)
