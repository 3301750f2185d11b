"""Each page of findings agrees with itself: all recorded runs and recordings, read as a reader sees them.

The lab's raw runs are read the same way by `test_raw_sample.py`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from contradictions import contradictions, exceeded, too_sure
from explained_recordings import explanation_of

from volbench.core.records.report import EvidenceRow, FindingRow
from volbench.errors import UsageError
from volbench.results.explain.causes import CAUSES
from volbench.results.explain.evidence.device import Device
from volbench.results.explain.findings import Explanation
from volbench.results.explain.pooling import finding_rows
from volbench.results.explain.run import RunExplanation, explain_run
from volbench.results.explain.run_cases import cases_of
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory

TESTS = Path(__file__).parents[3]
FIXTURES = TESTS / "fixtures"
RUNS = [TESTS / "golden" / "run", *(path.parent for path in (FIXTURES / "kernel-throttle").glob("*/run.json"))]
RECORDINGS = [
    FIXTURES / "pt-stalk",
    *(
        path
        for directory in ("recordings", "lab-recordings", "evidence")
        for path in (FIXTURES / directory).iterdir()
        if path.is_dir()
    ),
]


ALL_ALONG = {name for name, cause in CAUSES.items() if not (cause.is_change or cause.explains_fall)} - {"none"}
"""Causes that act in each of equal cells, or in none of them."""


@cache
def explained(run: Path) -> RunExplanation:
    return explain_run(load_run(RunDirectory(run)))


@pytest.mark.parametrize("run", sorted(RUNS), ids=lambda run: run.name)
def test_findings_of_a_recorded_run_agree(run: Path) -> None:
    rows = explained(run).findings
    assert contradictions(rows) == []
    assert too_sure(rows) == []


@pytest.mark.parametrize("run", sorted(RUNS), ids=lambda run: run.name)
def test_what_one_of_three_equal_cells_shows_is_none_or_a_question(run: Path) -> None:
    """Each recorded cell, beside two in which nothing was found."""
    for (volume, step), views in explained(run).views.items():
        for cell, view in views.items():
            nothing = Explanation(findings=())
            rows = finding_rows(volume, step, {cell: view.explanation, "2": nothing, "3": nothing})
            assert all((row.confidence or 0.0) <= 1 / 3 for row in rows)
            assert all(row.advice.startswith("This is a question and no answer") for row in rows)
            assert not {row.cause for row in rows} & ALL_ALONG


@pytest.mark.parametrize("run", sorted(RUNS), ids=lambda run: run.name)
def test_no_limit_of_a_recorded_run_lies_below_what_was_served(run: Path) -> None:
    loaded = load_run(RunDirectory(run))
    for result in loaded.results:
        for case in cases_of(loaded, result):
            rows = [
                row
                for row in explained(run).findings
                if row.step == case.name and result.cell_id == row.cell_ids[0]
            ]
            assert case.device is None or exceeded(rows, case.device, case.grid.t_s) == []


@pytest.mark.parametrize("recording", sorted(RECORDINGS), ids=lambda path: path.name)
def test_findings_of_a_recording_agree(recording: Path) -> None:
    try:
        result = explanation_of(recording)
    except UsageError:  # no recording of a volume: nothing is named
        return
    assert contradictions(result.findings) == []
    assert too_sure(result.findings) == []
    for timeline in result.timelines:
        assert timeline.device is None or exceeded(timeline.findings, timeline.device, timeline.grid.t_s) == []


def finding(
    cause: str,
    advice: str = "",
    *evidence: tuple[str, float | str, str],
    window_s: tuple[float, float] = (0.0, 9.0),
    confidence: float = 0.8,
) -> FindingRow:
    return FindingRow(
        cause=cause,
        volume="a",
        step="load",
        cell_ids=("1",),
        window_s=window_s,
        share=0.5,
        confidence=confidence,
        evidence=tuple(EvidenceRow(metric=metric, value=value, text=text) for metric, value, text in evidence),
        advice=advice,
    )


IOPS = ("iops", 909.0, "the volume gives 909 IOPS and no more, with 15 operations in flight")
GROUP = ("read_iops", 916.0, "the server's control group may read 916 IOPS and did 910 IOPS")
SURE, DOUBTFUL = ("checks", "all held", ""), ("checks", "one of two", "")


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        (finding("none"), finding("storage.stall"), "none acquits the volume beside storage.stall"),
        (
            finding("interference.cpu", "Move them. A faster volume changes little here."),
            finding("memory.reclaim"),
            "another volume is no help beside memory.reclaim",
        ),
        (
            finding("instance.storage_limit", "A larger type: a larger volume would not help."),
            finding("storage.split_operations"),
            "another volume is no help",
        ),
        (
            finding("memory.buffer_pool_small", "A larger pool: the volume answers fast, it is asked too often."),
            finding("storage.sync_latency"),
            "says that the volume is fast",
        ),
        (
            finding("memory.buffer_pool_small", "A larger pool: each read is fast."),
            finding("storage.read_latency"),
            "says that the volume is fast",
        ),
        (
            finding("cpu.server_saturated", "More CPU for the server."),
            finding("storage.stall", "", ("cpu_busy_ratio", 0.2, "the host's CPUs are 20 % busy")),
            "asks for CPUs of which 20 % are busy",
        ),
        (
            finding("storage.iops_limit", "", IOPS),
            finding("storage.degraded", "", ("iops", 1500.0, "it does 1,500 operations a second")),
            "shows 1500.0 served",
        ),
        (
            finding("storage.iops_limit", "", IOPS, DOUBTFUL),
            finding("host.io_limit", "", GROUP, SURE),
            "limit iops, to 909 and to 916",
        ),
    ],
)
def test_a_contradiction_is_seen(first: FindingRow, second: FindingRow, sentence: str) -> None:
    for page in ([first, second], [second, first]):
        texts = contradictions(page)
        assert any(sentence in text or _turned(sentence) in text for text in texts), texts


def _turned(sentence: str) -> str:
    """The same pair of limits in the other order."""
    return "limit iops, to 916 and to 909" if "limit iops" in sentence else sentence


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (finding("memory.buffer_pool_small", "A larger pool: each read is fast."), finding("storage.sync_latency")),
        (
            finding("cpu.server_saturated", "More CPU.", ("server_throttled_ratio", 0.9, "a quota")),
            finding("storage.stall", "", ("cpu_busy_ratio", 0.2, "the host's CPUs are 20 % busy")),
        ),
        (
            finding("storage.iops_limit", "", IOPS),
            finding("storage.degraded", "", ("iops", 1100.0, "it does 1,100 operations a second")),
        ),
        (
            finding("storage.iops_limit", "", IOPS),
            finding("storage.degraded", "", ("iops", 1500.0, "it does 1,500"), window_s=(9.0, 20.0)),
        ),
        (
            finding("storage.iops_limit", "", IOPS, DOUBTFUL),
            finding("instance.storage_limit", "", GROUP, DOUBTFUL),
        ),
        (finding("interference.cpu", "A faster volume changes little here."), finding("lock.row_contention")),
    ],
)
def test_what_may_stand_together_is_no_contradiction(first: FindingRow, second: FindingRow) -> None:
    assert contradictions([first, second]) == []


@pytest.mark.parametrize(
    ("served", "text", "is_exceeded"),
    [
        ([300.0, 380.0, 380.0, 380.0, 300.0], "gives 300 IOPS and no more", True),
        ([300.0, 370.0, 370.0, 370.0, 300.0], "gives 300 IOPS and no more", False),
        ([300.0, 380.0, 380.0, 300.0, 380.0], "gives 300 IOPS and no more", False),
        ([300.0, 380.0, 380.0, 380.0, 300.0], "gives 300 IOPS of writes and no more", False),
        ([300.0, 380.0, 380.0, 380.0, 300.0], "gives 300 IOPS of reads and no more", True),
        ([300.0, 380.0, 380.0, 380.0, 300.0], "gave 300 IOPS", False),
    ],
)
def test_a_limit_below_what_was_served_is_seen(served: list[float], text: str, is_exceeded: bool) -> None:
    rate = np.array(served)
    device = Device(
        source="diskstats",
        entity="a",
        iops=rate,
        mib_per_s=None,
        await_ms=None,
        in_flight=None,
        reads=rate,
        writes=np.zeros(5),
    )
    row = finding("storage.iops_limit", "", ("iops", 300.0, text))
    assert (exceeded([row], device, np.arange(1.0, 6.0)) != []) is is_exceeded
    later = row.model_copy(update={"window_s": (2.0, 9.0)})
    assert exceeded([later], device, np.arange(1.0, 6.0)) == []


def test_two_steps_and_two_volumes_are_two_pages() -> None:
    none, stall = finding("none"), finding("storage.stall")
    assert contradictions([none, stall.model_copy(update={"step": "second"})]) == []
    assert contradictions([none, stall.model_copy(update={"volume": "b"})]) == []


@pytest.mark.parametrize(("confidence", "sure"), [(0.994, False), (0.995, True), (1.0, True)])
def test_what_prints_as_certain_is_too_sure(confidence: float, sure: bool) -> None:
    """Two digits are printed, and whole percents."""
    assert (too_sure([finding("storage.stall", confidence=confidence)]) != []) is sure
