"""Causes in words: every cause that a rule may name has a heading and a chart; how sure it is comes in words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from proofread import EXAMPLES
from stored_files import REPORT, stored_text
from synthetic_run import build_run, two_volumes

from volbench.core.records.facts import HostFacts
from volbench.core.records.metrics import metric
from volbench.core.records.report import CellRow, EvidenceRow, FindingRow, Report
from volbench.core.records.steps.oltp import OltpStep
from volbench.results import explain
from volbench.results.explain.calibration import CALIBRATION
from volbench.results.report.build import build_report
from volbench.results.report.formats.markdown import markdown
from volbench.results.report.render import render
from volbench.results.report.rows.differences import differing_settings
from volbench.results.report.rows.verdict.lead import cause_title, certainty
from volbench.results.report.views.causes import cause_groups, cause_view, unexplained
from volbench.results.report.views.geometry import log_ticks
from volbench.results.report.views.panels import PANELS

RULES = "".join(path.read_text() for path in Path(explain.__path__[0]).rglob("*.py"))
NAMED = set(re.findall(r'"((?:storage|instance|redo|cpu|lock|memory|interference)\.[a-z_]+)"', RULES))
KEYS = [panel.key for panel in PANELS]


def finding(cause: str = "storage.read_latency", **known_values: object) -> FindingRow:
    return FindingRow.model_validate(
        {"cause": cause, "volume": "a", "step": "load", "cell_ids": ("001",), **known_values}
    )


@pytest.mark.parametrize("cause", sorted(NAMED | set(CALIBRATION.derived.causes)))
def test_every_cause_has_words_and_a_chart(cause: str) -> None:
    assert " " in cause_title(cause)
    assert cause_view(finding(cause), KEYS).panel in KEYS


def test_a_cause_without_words_goes_by_its_name_and_one_without_a_chart_has_no_link() -> None:
    assert cause_title("network.unheard_of") == "network.unheard_of"
    assert cause_view(finding("network.unheard_of"), KEYS).panel == ""
    assert cause_view(finding(), ["latency"]).panel == ""


@pytest.mark.parametrize(
    ("known_values", "text"),
    [
        ({"confidence": 0.967, "share": 0.63}, "very likely, confidence 97 %; explains 63 % of the latency"),
        ({"confidence": 0.75}, "likely, confidence 75 %"),
        ({"confidence": 0.5}, "possible, confidence 50 %"),
        ({"confidence": 0.2}, "a hint only, confidence 20 %"),
        ({"share": 0.5}, "explains 50 % of the latency"),
        ({}, ""),
    ],
)
def test_how_sure_it_is(known_values: dict[str, Any], text: str) -> None:
    assert certainty(finding(**known_values)) == text


def test_what_a_confidence_rests_on_is_a_detail() -> None:
    rows = (
        EvidenceRow(metric="iops", value=1.0, text="fact"),
        EvidenceRow(metric="checks", value=1, text="2 of 6"),
    )
    displayed = cause_view(finding(evidence=rows), KEYS)
    assert [row.text for row in displayed.facts] == ["fact"]
    assert [row.text for row in displayed.confidence_basis] == ["2 of 6"]


def test_page_and_markdown_head_a_cause_in_words(tmp_path: Path) -> None:
    load = OltpStep(name="load", warmup_s=10, duration_s=60)
    directory = build_run(tmp_path, two_volumes(steps=(load,), repeats=1))
    report = build_report(directory)
    (stall,) = (row for row in report.findings if row.cause == "storage.stall")
    page = render(report, directory, "html")
    assert "<h3>The volume stalled <span" in page
    assert f'data-step="load" data-cell="{stall.cell_ids[0]}"' in page
    assert "**The volume stalled** on a (load)" in markdown(report)
    checks = page.index("checks hold")
    assert page.rindex("<summary>Basis of the confidence</summary>", 0, checks) > page.rindex("<ul>", 0, checks)


def test_an_identity_is_no_evidence() -> None:
    """queue = operations x waiting time is how the kernel's counters are made: it proves nothing."""
    assert 'row("little_ratio"' not in RULES


@pytest.mark.parametrize(("name", "is_told"), [("3f2a9c0b1d4e", False), ("db-2", True)])
def test_a_container_id_is_no_difference(tmp_path: Path, name: str, is_told: bool) -> None:
    """Each cell's agent runs in a container of its own; a host that has a name differs."""
    directory = build_run(tmp_path, two_volumes(repeats=1))
    first, second = directory.results()
    renamed = [
        result.model_copy(
            update={
                "host": HostFacts.model_validate({**result.host.model_dump(), "hostname": host, "container": True})
            }
        )
        for result, host in ((first, "aaaaaaaaaaaa"), (second, name))
    ]
    volume_of = {cell.cell_id: cell.volume for cell in directory.run.cells}
    assert ("host.hostname" in differing_settings(renamed, volume_of)) == is_told


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.75, 0.86, [6.0, 7.0]),  # 5.6 to 7.2 ms: 1, 2 and 5 lie outside
        (0.6, 1.5, [5.0, 10.0, 20.0]),
        (-1.0, 5.0, [0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0, 100000.0]),
    ],
)
def test_log_axes_have_ticks_where_the_data_are(low: float, high: float, ticks: list[float]) -> None:
    result = log_ticks(low, high)
    assert set(ticks) <= set(result)
    assert all(10**low * 0.999 <= tick <= 10**high * 1.001 for tick in result)


def located(volume: str, step: str, cause: str, share: float | None) -> FindingRow:
    return finding(cause, volume=volume, step=step, share=share, confidence=0.95)


def test_what_only_some_volumes_have_comes_before_what_all_have() -> None:
    """The causes of a real run of three volumes: a small pool everywhere, spent credits on one volume."""
    pool, burst, backup = "memory.buffer_pool_small", "storage.burst_exhausted", "interference.backup"
    groups = cause_groups(
        [
            located("gp2-1000", "shop", pool, 0.96),
            located("gp2-1000", "night", pool, 0.25),
            located("gp3", "shop", pool, 0.94),
            located("gp3", "night", pool, 0.25),
            located("gp2", "shop", pool, 0.93),
            located("gp2", "night", backup, 0.94),
            located("gp2", "night", burst, 0.70),
            located("gp2", "morning", burst, 0.79),
        ]
    )
    assert [(group.strongest.cause, group.location) for group in groups] == [
        (backup, "gp2 (night)"),
        (burst, "gp2 (morning)"),
        (pool, "gp2-1000 (shop)"),
    ]
    assert groups[1].sentences[-1] == "Also, with figures of its own, on gp2 (night), 70 % of the latency."
    assert groups[2].sentences[-1].endswith("; gp2-1000 (night), 25 % of the latency; 1 more.")


def test_findings_of_different_strength_are_not_joined_under_the_strongest() -> None:
    """Disk's own finding had 0.19, and was listed under the 85 % of gp3."""
    sure = [finding(volume="gp3", step=step, confidence=0.85, share=0.5) for step in ("point-select", "read-write")]
    hint = finding(volume="disk", step="read-write", confidence=0.19, share=0.5)
    unseen = finding(volume="disk", step="dump", confidence=0.85, share=0.5, valid=False)
    groups = cause_groups([*sure, hint, unseen])
    assert sorted((group.location, len(group.further)) for group in groups) == [
        ("disk (dump)", 0),
        ("disk (read-write)", 0),
        ("gp3 (point-select)", 1),
    ]
    texts = {group.location: " ".join(group.sentences) for group in groups}
    assert "confidence 85 %" in texts["gp3 (point-select)"]
    assert "disk" not in texts["gp3 (point-select)"]
    assert "A hint only, confidence 19 %" in texts["disk (read-write)"]
    assert "the step or a part of it is invalid in every cell of this volume" in texts["disk (dump)"]


def test_a_sentence_about_a_cause_has_no_nested_brackets() -> None:
    evidence = (EvidenceRow(metric="iops", value=2963, unit="1/s", text="the volume gives 2,963 IOPS (46 MiB/s)"),)
    (group,) = cause_groups([finding(volume=name, evidence=evidence, confidence=0.9) for name in ("a", "b")])
    for text in (group.location, *group.sentences):
        assert not re.search(r"\([^)]*\(", text)
        assert text.count("(") == text.count(")")


def test_acquittals_come_last_and_the_first_cause_of_a_step_before_its_second() -> None:
    groups = cause_groups(
        [
            located("a", "fio", "none", None),
            located("a", "load", "storage.stall", None),
            located("a", "load", "storage.read_latency", 0.5),
        ]
    )
    assert [group.strongest.cause for group in groups] == ["storage.stall", "storage.read_latency", "none"]


def test_a_hint_comes_after_what_is_likely() -> None:
    """As on a busy machine: hints of one volume alone came before the cause that was very likely on both."""
    hint = finding("memory.buffer_pool_small", volume="disk", share=0.17, confidence=0.12)
    cpu = [finding("interference.cpu", volume=volume, share=0.71, confidence=0.99) for volume in ("ram", "disk")]
    none = finding("none", volume="ram", step="idle")
    groups = cause_groups([hint, *cpu, none])
    assert [group.strongest.cause for group in groups] == ["interference.cpu", "memory.buffer_pool_small", "none"]


def cell_of(volume: str, latency_ms: float, *, valid: bool = True, used: tuple[str, ...] = ()) -> CellRow:
    return CellRow(
        cell_id=volume,
        volume=volume,
        block=1,
        repeat=1,
        step="load",
        kind="oltp",
        parameters={},
        valid=valid,
        used_within_bounds=used,
        metrics={"latency_ms_mean": metric("latency_ms_mean", latency_ms)},
    )


def test_the_cause_of_the_slower_volume_comes_first() -> None:
    """As in the demo: a saturated CPU explains nearly all of 7 ms on disk, an IOPS limit most of 90 ms on gp3."""
    disk, gp3 = (
        located(volume, "load", cause, share)
        for volume, cause, share in (("disk", "cpu.server_saturated", 0.95), ("gp3", "storage.iops_limit", 0.89))
    )
    slow_gp3 = [cell_of("disk", 7.0), cell_of("gp3", 90.0), cell_of("disk", 900.0, valid=False)]
    assert [group.strongest for group in cause_groups([disk, gp3], slow_gp3)] == [gp3, disk]
    slow_disk = [cell_of("disk", 90.0), cell_of("gp3", 7.0)]
    assert [group.strongest for group in cause_groups([disk, gp3], slow_disk)] == [disk, gp3]
    disturbed = [cell_of(volume, ms, valid=False, used=("tps",)) for volume, ms in (("disk", 7.0), ("gp3", 90.0))]
    assert [group.strongest for group in cause_groups([disk, gp3], disturbed)] == [gp3, disk]
    assert [group.strongest for group in cause_groups([disk, gp3])] == [disk, gp3]


def test_nothing_is_grouped_from_no_findings() -> None:
    assert cause_groups([]) == ()


@pytest.mark.parametrize(
    ("length_s", "reason"),
    [
        (3.0, "on efs the step lasts 3 s, and at one sample a second a cause takes 5 s to be checked"),
        (7.0, "none of the causes that are checked explains it"),
    ],
)
def test_a_step_too_short_to_be_checked_is_not_said_to_have_no_cause(length_s: float, reason: str) -> None:
    """`None of the causes that are checked explains it` stood below 43 times as slow a clone of three seconds."""
    report = Report.model_validate_json(stored_text(EXAMPLES / "efs-small-files" / REPORT))
    cells = tuple(
        cell.model_copy(update={"window_s": (0.0, length_s)}) if cell.step == "git" else cell
        for cell in report.cells
    )
    found = tuple(finding for finding in report.findings if finding.volume != "efs")
    (text,) = unexplained(report.model_copy(update={"cells": cells, "findings": found}))
    assert text.startswith("No likely cause was found in git on efs (")
    assert text.endswith(f" as on ebs), by time for all phases: {reason}.")
