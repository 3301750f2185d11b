"""Frontier, prices and losses of a recorded run of twelve volumes, against its cells and the list of prices."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from command_line import ROOT
from proofread import EXAMPLES
from raw_decisions import StorageClass, dominating, is_faster_in_every_cell, storage_classes, table
from ruamel.yaml import YAML
from stored_files import REPORT, stored_text

from sentences import plain, value_of
from volbench.core.records.goals.pricing import PricingSpec, StorageClassRow
from volbench.core.records.report import Report
from volbench.core.records.run import VolumeSpec
from volbench.results.credits.prices import load_prices
from volbench.results.report.formats.markdown import markdown
from volbench.results.report.rows.storage_classes import Traffic, storage_class_rows

TEXT = stored_text(EXAMPLES / "storage-classes" / REPORT)
REPORT_JSON: dict[str, Any] = json.loads(TEXT)
STEP = "read-write"
SPECS = {row["volume"]: row["priced_as"] for row in REPORT_JSON["storage_classes"]}
MONEY = re.compile(r"(?P<month>[\d,.]+) USD a month, ~?(?P<million>[\d,.]+) a million")


def volume(name: str, spec: str) -> VolumeSpec:
    kind, _, text = spec.partition(":")
    profile, _, options = text.partition("?")
    pairs = dict(field.partition("=")[::2] for field in options.split("&"))
    return VolumeSpec(name=name, kind=kind, location=profile, options=pairs, text=spec)


@pytest.fixture(scope="module")
def raw() -> dict[str, StorageClass]:
    prices = YAML(typ="safe").load((ROOT / "suites" / "prices" / "aws.yaml").read_text())
    return storage_classes(REPORT_JSON, SPECS, prices, step=STEP)


@pytest.fixture(scope="module")
def report() -> Report:
    """The recorded cells with the rows that this version makes of them."""
    recorded = Report.model_validate_json(TEXT)
    moved = {
        (row.volume, row.metric): 1024 * row.value for row in recorded.transactions if row.step == STEP
    }  # one load
    traffics: dict[tuple[str, str, int | None], Traffic] = {
        (name, STEP, 4): Traffic(read=moved[name, "device_read_kib"], write=moved[name, "device_written_kib"])
        for name, metric in moved
        if metric == "device_read_kib"
    }
    volumes = [volume(name, spec) for name, spec in SPECS.items()]
    spec = PricingSpec(step=STEP)
    rows = storage_class_rows(spec, volumes, recorded.cells, recorded.durability, traffics, load_prices())
    return recorded.model_copy(update={"storage_classes": rows})


def objections(rows: Sequence[StorageClassRow], raw: dict[str, StorageClass]) -> list[str]:
    """What rows have otherwise than their cells and the list."""
    texts = []
    for row in rows:
        expected = raw[row.volume]
        better = dominating(expected, raw.values())
        pairs = {
            "tps": (row.tps, pytest.approx(expected.tps)),
            "range": (row.tps_range, pytest.approx((expected.low, expected.high))),
            "p95": (row.latency_ms_p95, pytest.approx(expected.p95_ms)),
            "cells": (row.cells, expected.cells),
            "month": (row.price_month, pytest.approx(expected.month)),
            "million": (row.price_per_million, pytest.approx(expected.per_million)),
            "credits": (row.has_credits, expected.has_credits),
            "without": (set(row.price_exclusions), set(expected.without)),
            "commits": ((row.acknowledged_commits, row.lost_commits), (expected.acknowledged, expected.lost)),
            "dominated": (sorted(row.dominated_by), sorted(rival.name for rival in better)),
            "certain": (row.certain, any(is_faster_in_every_cell(rival, expected) for rival in better)),
            "frontier": (row.frontier, not better and not expected.lost),
        }
        texts += [f"{row.volume} {name}: {stated}" for name, (stated, right) in pairs.items() if stated != right]
    return texts


def test_twelve_classes_are_what_cells_and_prices_make_them(report: Report, raw: dict[str, StorageClass]) -> None:
    assert len(report.storage_classes) == 12
    assert objections(report.storage_classes, raw) == []


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("gp3", {"price_month": 8.3}),
        ("io2", {"price_per_million": 1.46}),
        ("efs-elastic", {"tps": 53.0}),
        ("gp2", {"dominated_by": ()}),
        ("efs-bursting", {"certain": True}),
        ("fsx-async", {"lost_commits": 2099}),
        ("ceph-2x", {"frontier": False}),
        ("nvme", {"price_exclusions": ()}),
        ("st1", {"has_credits": False}),
    ],
)
def test_a_changed_figure_is_objected_to(
    report: Report, raw: dict[str, StorageClass], name: str, change: dict[str, object]
) -> None:
    rows = [row.model_copy(update=change) if row.volume == name else row for row in report.storage_classes]
    assert [text.split(" ")[0] for text in objections(rows, raw)] == [name]


def test_another_price_or_cell_is_another_decision(raw: dict[str, StorageClass]) -> None:
    """The computation itself can come out otherwise: it is no list of what the page says."""
    cheap = {**raw, "io2": replace(raw["io2"], month=7.0)}
    assert [rival.name for rival in dominating(cheap["gp3"], cheap.values())] == ["io2"]
    slow = {**raw, "ceph-2x": replace(raw["ceph-2x"], tps=50.0)}
    assert "ceph-2x" not in [rival.name for rival in dominating(slow["ceph-3x"], slow.values())]


def of_table(text: str, raw: dict[str, StorageClass]) -> list[str]:
    """What a page's table and its notes have otherwise than the cells and the list."""
    texts = []
    lines = [row for row in table(text, f"{STEP} threads") if row[0] in raw and len(row) == 7]
    for name, tps, p95, _, commits, price, standing in lines:
        expected = raw[name]
        better = dominating(expected, raw.values())
        money = MONEY.search(price)
        assert money is not None, price
        numbers = [value_of(figure.split(" ")[0]) for figure in (tps, p95)]
        if [*numbers, value_of(money["million"])] != pytest.approx(
            [expected.tps, expected.p95_ms, expected.per_million], rel=0.006
        ):
            texts.append(f"{name} {tps} {p95} {price}")
        if value_of(money["month"]) != pytest.approx(expected.month, abs=0.0051):
            texts.append(f"{name} {price}")
        if commits != f"{expected.lost:,} of {expected.acknowledged:,}":
            texts.append(f"{name} {commits}")
        dominators = re.search(r"dominated by ([^(]+)", standing)
        stated = sorted(re.split(", | and ", dominators[1].strip())) if dominators else []
        if stated != sorted(rival.name for rival in better) or ("loses" in standing) != (expected.lost > 0):
            texts.append(f"{name} {standing}")
        if ("frontier" in standing) != (not better and not expected.lost) or (
            ("their cells overlap" in standing)
            != (bool(better) and not any(is_faster_in_every_cell(rival, expected) for rival in better))
        ):
            texts.append(f"{name} {standing}")
    if len(lines) != len(raw):
        texts.append(f"{len(lines)} rows of {len(raw)}")
    bursting = set(re.findall(r"(\S+) began with burst credits", text))
    if bursting != {expected.name for expected in raw.values() if expected.has_credits}:
        texts.append(f"credits {bursting}")
    return texts


@pytest.mark.parametrize("page", ["anew", "committed"])
def test_each_number_of_the_page_is_that_of_the_cells(
    report: Report, raw: dict[str, StorageClass], page: str
) -> None:
    committed = (EXAMPLES / "storage-classes" / "report.md").read_text()
    text = plain(markdown(report) if page == "anew" else committed)
    assert of_table(text, raw) == []


@pytest.mark.parametrize(
    ("stated", "wrong"),
    [
        ("~8.00 USD a month", "~8.10 USD a month"),
        ("~0.0619 a million", "~0.0629 a million"),
        ("| 54.7 |", "| 55.7 |"),
        ("2,100 of 2,100", "2,000 of 2,100"),
        ("dominated by ceph-2x", "dominated by gp3"),
        ("gp2 began with burst credits", "gp3 began with burst credits"),
    ],
)
def test_a_wrong_number_of_the_page_is_found(
    report: Report, raw: dict[str, StorageClass], stated: str, wrong: str
) -> None:
    text = plain(markdown(report))
    assert stated in text
    assert of_table(text.replace(stated, wrong), raw)


def test_decisions_are_made_without_volbench() -> None:
    text = (ROOT / "tests" / "support" / "raw_decisions.py").read_text()
    assert not re.search(r"^\s*(?:from|import) volbench", text, re.MULTILINE)
