"""Equal cells of one step are decided together; all cases are constructed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from volbench.results.explain.calibration import Evidence
from volbench.results.explain.cause import Cause
from volbench.results.explain.check.cells import comes_and_goes, served_later
from volbench.results.explain.findings import Explanation
from volbench.results.explain.pooling import finding_rows, refuted_rows
from volbench.results.explain.wording import row


@pytest.mark.parametrize(
    ("result", "goes"),
    [
        ("#", False),
        (".#", True),
        ("##", False),
        ("#.#.", True),
        ("#..#", True),
        ("..##", False),
        ("...#", True),
        ("##..", True),
        ("##.#", False),
        ("....", False),
        ("#####.....", True),
        ("######....", False),
    ],
)
def test_what_acts_all_along_shows_in_most_cells_or_has_begun(result: str, goes: bool) -> None:
    assert (comes_and_goes([cell == "#" for cell in result]) is not None) == goes


@pytest.mark.parametrize(
    ("served", "refuted"),
    [([370.0, 440.0, None], False), ([370.0, 470.0, None], True), ([900.0, 370.0, 370.0], False)],
)
def test_a_limit_is_none_if_a_later_cell_is_served_more(served: list[float | None], refuted: bool) -> None:
    """365 MiB/s and no more; what an earlier cell was served may have been credits."""
    assert (served_later([365.0, None, 365.0], served, "throughput") is not None) == refuted


def cell(
    cause: str, level: float = 0.0, served: float = 0.0, confidence: tuple[bool | None, ...] = (True,)
) -> Explanation:
    if cause == "none":
        named = Cause(cause="none", window_s=(0.0, 9.0), share=None, checks=(True,), evidence=(), advice="")
        return Explanation(findings=(named,), served={"throughput": served})
    evidence = (row("throughput", level, "MiB/s", f"the volume gives {level:g} MiB/s and no more"),)
    named = Cause(
        cause=cause,
        window_s=(0.0, 9.0),
        share=0.5,
        checks=confidence,
        evidence=evidence,
        advice="Buy a faster volume.",
    )
    return Explanation(findings=(named,), served={"throughput": served})


def test_four_equal_cells_of_a_healthy_disk_name_no_limit() -> None:
    """Two of four are said to have a limit of 365 MiB/s, one that CPUs are missing: nothing of it is the step's."""
    cells = {
        "1": cell("storage.throughput_limit", 365.0, 372.0),
        "2": cell("none", served=350.0),
        "3": cell("storage.throughput_limit", 365.0, 370.0),
        "4": cell("cpu.server_saturated", served=340.0),
    }
    assert [finding_row.cause for finding_row in finding_rows("a", "load", cells)] == ["none"]
    refuted = {refuted_row.cause: refuted_row for refuted_row in refuted_rows("a", "load", cells)}
    assert set(refuted) == {"storage.throughput_limit", "cpu.server_saturated"}
    assert refuted["storage.throughput_limit"].cell_ids == ("1", "3")


def test_a_limit_that_a_later_cell_exceeds_is_named_in_no_number_of_cells() -> None:
    cells = {
        "1": cell("storage.throughput_limit", 365.0, 372.0),
        "2": cell("storage.throughput_limit", 365.0, 372.0),
        "3": cell("none", served=480.0),
    }
    assert [finding_row.cause for finding_row in finding_rows("a", "load", cells)] == ["none"]


def test_what_has_a_time_of_its_own_may_be_there_once() -> None:
    cells = {str(number): cell("none") for number in range(3)} | {"3": cell("storage.stall")}
    assert [finding_row.cause for finding_row in finding_rows("a", "load", cells)] == ["storage.stall"]


@pytest.mark.parametrize(
    ("cause", "decided_by", "stands"),
    [
        ("host.io_wait", "level", False),
        ("host.io_wait", "metered", False),
        ("host.io_wait", "before and after", True),
        ("host.io_limit", "counted", True),
        ("network.stalls", "level", False),
        ("network.stalls", "counted", True),
        ("interference.io", "level", True),
    ],
)
def test_what_a_threshold_alone_shows_in_one_of_three_cells_is_no_cause(
    cause: str, decided_by: Evidence, stands: bool
) -> None:
    """It explains a fall of the load elsewhere, and acts all along here."""
    named = replace(cell(cause).findings[0], decided_by=decided_by)
    cells = {"1": cell("none"), "2": Explanation(findings=(named,)), "3": cell("none")}
    assert [row.cause for row in finding_rows("a", "load", cells)] == ([cause] if stands else ["none"])
    assert [row.cause for row in refuted_rows("a", "load", cells)] == ([] if stands else [cause])


@pytest.mark.parametrize(("cells", "question"), [(2, False), (3, True)])
def test_a_hint_is_a_question_without_advice_to_buy(cells: int, question: bool) -> None:
    """A stall that one of two cells shows has half of its confidence, 0.42; of three, 0.28."""
    result = {str(number): cell("none") for number in range(1, cells)} | {"0": cell("storage.stall")}
    (first,) = finding_rows("a", "load", result)
    assert ("Buy" not in first.advice) == question
    assert ("question" in first.advice) == question


def saying(cause: str, advice: str, volume_advice: str = "") -> Explanation:
    named = Cause(
        cause=cause,
        window_s=(0.0, 9.0),
        share=0.5,
        checks=(True,),
        evidence=(),
        advice=advice,
        volume_advice=volume_advice,
    )
    return Explanation(findings=(named,))


CPUS = saying("interference.cpu", "Move them.", "A faster volume changes little here.")


@pytest.mark.parametrize(
    "cause",
    [
        "storage.iops_limit",
        "storage.stall",
        "interference.io",
        "interference.shared_volume",
        "interference.backup",
        "memory.buffer_pool_small",
        "memory.reclaim",
        "redo.checkpoint_stall",
    ],
)
def test_no_advice_acquits_the_volume_next_to_a_cause_that_a_faster_one_helps(cause: str) -> None:
    """In one cell, in another one, or on another volume of the layout; reads that miss a pool are of the volume."""
    second = saying(cause, "Do that.")
    both = Explanation(findings=(*CPUS.findings, *second.findings))
    for cells in ({"1": both}, {"1": both, "2": CPUS, "3": second}):
        advice = {found.cause: found.advice for found in finding_rows("a", "load", cells)}
        assert advice == {"interference.cpu": "Move them.", cause: "Do that."}
    (alone,) = finding_rows("a", "load", {"1": CPUS}, other_causes=[cause])
    assert alone.advice == "Move them."


def test_beside_what_no_volume_helps_advice_says_so() -> None:
    both = Explanation(findings=(*CPUS.findings, *saying("lock.row_contention", "Shorter ones.").findings))
    advice = {found.cause: found.advice for found in finding_rows("a", "load", {"1": both})}
    assert advice["interference.cpu"] == "Move them. A faster volume changes little here."
