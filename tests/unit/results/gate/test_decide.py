"""Decisions on reports with known cells: go, no-go and undecided, and never a go that the data do not carry."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from volbench.core.records.cell import COUNTED_AS_SLOWEST
from volbench.core.records.goals.gate import Gate
from volbench.core.records.metrics import metric
from volbench.core.records.report import CellRow, FindingRow, Report, Summary, Timing, VolumeRow
from volbench.core.suite.policy import check_policy
from volbench.errors import UsageError
from volbench.results.gate.gate import EXIT_CODES, gate_report
from volbench.results.stats.sign_test import binomial_tail, more_cells, sign_test

NOON = "2026-03-02T12:00:00Z"
Values = Mapping[str, Sequence[float | None]]


def report(values: Values, *, name: str = "latency_ms_p95", complete: bool = True, **more: object) -> Report:
    """A run of volumes whose cells have these values; None is an invalid cell."""
    cells = [
        CellRow(
            cell_id=f"{repeat:02d}-{volume}",
            volume=volume,
            step="read-write",
            kind="oltp",
            parameters={"threads": 8},
            block=repeat,
            repeat=repeat,
            valid=value is not None,
            metrics={name: metric(name, 1.0 if value is None else value)},
        )
        for volume, row in values.items()
        for repeat, value in enumerate(row, 1)
    ]
    fields: dict[str, object] = {
        "run_id": "r",
        "suite": "s",
        "started_at": NOON,
        "finished_at": NOON,
        "complete": complete,
        "volbench_version": "0",
        "summary": Summary(verdict="mixed", sentence=""),
        "server": None,
        "host": {},
        "timing": Timing(wall_s=1, measured_s=1),
        "comparisons": (),
        "cells": tuple(cells),
        "volumes": tuple(VolumeRow(name=v, kind="path", spec="path:/x") for v in values),
    }
    return Report.model_validate({**fields, **more})


def gate(about: Report, *conditions: str, head: str = "") -> Gate:
    text = f"schema: 2\n{head}conditions:\n" + "".join(f"  - {condition}\n" for condition in conditions)
    loaded = check_policy(text, name="p.yaml")
    return gate_report(about, loaded.policy, policy_text=loaded.text, origins=loaded.origins, where=loaded.name)


def result(cause: str, volume: str = "b", *, confidence: float = 0.9) -> FindingRow:
    cells = tuple(f"{n:02d}-{volume}" for n in range(1, 6))
    return FindingRow(cause=cause, volume=volume, step="read-write", cell_ids=cells, confidence=confidence)


def test_the_sign_test_agrees_with_the_binomial_table() -> None:
    assert binomial_tail(5, 5) == 1 / 32
    assert binomial_tail(8, 7) == 9 / 256
    assert sign_test(5, 5, alpha=0.05) is True
    assert sign_test(4, 4, alpha=0.05) is None
    assert sign_test(5, 0, alpha=0.05) is False
    assert sign_test(0, 0, alpha=0.05) is None
    assert (more_cells(3, 3, alpha=0.05), more_cells(0, 0, alpha=0.05)) == (2, 5)
    assert more_cells(10, 5, alpha=0.05) is None


@pytest.mark.parametrize(
    ("cells", "decision", "more"),
    [
        ([10, 11, 12, 13, 14], "go", None),
        ([10, 11, 12, 13], "undecided", 1),
        ([30, 31, 32, 33, 34], "no-go", None),
        ([10, 11, 12, 13, 30], "undecided", None),
        ([10, 11, 12, 13, None], "undecided", 1),
        ([20, 20, 20, 20, 20], "go", None),
        ([None, None], "undecided", 5),
    ],
)
def test_a_limit_is_decided_by_the_median_of_valid_cells(
    cells: list[float | None], decision: str, more: int | None
) -> None:
    decided = gate(report({"a": [99] * 5, "b": cells}), "latency_ms_p95 <= 20 ms")
    [row] = decided.conditions[0].groups
    assert (decided.decision, row.volume) == (decision, "b")
    if more is not None:
        assert row.more_cells == more


def without_a_value(about: Report, volume: str, cells: int) -> Report:
    """The same report whose last cells of a volume ended with most transactions waiting."""
    rows = list(about.cells)
    numbers = [number for number, row in enumerate(rows) if row.volume == volume][-cells:]
    for number in numbers:
        rows[number] = rows[number].model_copy(update={"metrics": {}, "notes": (f"x: {COUNTED_AS_SLOWEST}",)})
    return about.model_copy(update={"cells": tuple(rows)})


@pytest.mark.parametrize(("slow", "decision"), [(5, "undecided"), (10, "no-go")])
def test_cells_too_slow_to_have_a_percentile_break_its_limit(slow: int, decision: str) -> None:
    """Five cells that keep it decide nothing while five others are slower than was measured."""
    about = without_a_value(report({"a": [99] * 5, "b": [10.0] * 10}), "b", slow)
    decided = gate(about, "latency_ms_p95 <= 20 ms")
    [row] = decided.conditions[0].groups
    assert (decided.decision, row.cells) == (decision, 10)
    assert f"{slow} have none: worse than was measured" in row.text


def test_cells_too_slow_to_have_a_percentile_leave_a_comparison_open() -> None:
    about = without_a_value(report({"a": [99.0] * 9, "b": [10.0] * 10}), "b", 1)
    decided = gate(about, "b not worse than a by > 10 %")
    assert decided.decision == "undecided"
    assert any("1 cells of b have no value" in row.text for row in decided.conditions[0].groups)


def test_the_candidates_are_meant_unless_a_role_or_name_is_given() -> None:
    about = report({"a": [99.0] * 5, "b": [9.0] * 5, "c": [9.0] * 5})
    assert gate(about, "latency_ms_p95 <= 20").decision == "go"
    assert gate(about, "{check: latency_ms_p95 <= 20, volume: current}").decision == "no-go"
    assert gate(about, "{check: latency_ms_p95 <= 20, volume: c}").decision == "go"
    assert gate(about, "latency_ms_p95 <= 20", head="current: c\n").decision == "no-go"


def test_one_volume_alone_is_its_own_candidate() -> None:
    assert gate(report({"a": [9.0] * 5}), "latency_ms_p95 <= 20").decision == "go"


@pytest.mark.parametrize(
    ("name", "before", "after", "decision"),
    [
        ("latency_ms_p95", [20, 21, 20.5, 20.2, 20.8], [20, 20.4, 21, 20.3, 20.6], "go"),
        ("latency_ms_p95", [20, 21, 20.5, 20.2, 20.8], [30, 31, 30.5, 30.2, 30.8], "no-go"),
        ("latency_ms_p95", [20, 21, 20.5, 20.2, 20.8], [15, 30, 18, 27, 22], "undecided"),
        ("latency_ms_p95", [20, 21], [10, 10], "undecided"),
        ("tps", [500, 510, 505, 502, 508], [800, 810, 805, 802, 808], "go"),
        ("tps", [500, 510, 505, 502, 508], [300, 310, 305, 302, 308], "no-go"),
        ("tps", [500, 510, 505, 502, 508], [495, 505, 500, 497, 503], "go"),
    ],
)
def test_not_worse_goes_by_the_interval_in_the_metrics_direction(
    name: str, before: list[float], after: list[float], decision: str
) -> None:
    about = report({"a": before, "b": after}, name=name)
    assert gate(about, "candidate not worse than current by > 10 %").decision == decision


def test_how_many_more_cells_is_said_for_an_open_comparison() -> None:
    about = report({"a": [20, 21, 22, 23, 24], "b": [22.5, 20.5, 24.2, 21.5, 23.5]})
    [row] = gate(about, "b not worse than a by > 10 %").conditions[0].groups
    assert row.decision == "undecided"
    assert row.more_cells is not None
    assert "+" in row.text


def test_the_cells_that_are_proposed_decide_more_often_than_not() -> None:
    """By the binomial distribution, when further cells keep the limit as often as those before."""
    for cells, remaining in ((n, k) for n in range(1, 16) for k in range(n + 1)):
        more = more_cells(cells, remaining, alpha=0.05) if sign_test(cells, remaining, alpha=0.05) is None else None
        if more is None:
            continue
        share = remaining / cells
        decided = sum(
            math.comb(more, k) * share**k * (1 - share) ** (more - k)
            for k in range(more + 1)
            if sign_test(cells + more, remaining + k, alpha=0.05) is not None
        )
        assert decided >= 0.5, (cells, remaining, more, decided)


def test_the_cells_that_are_proposed_decide_a_comparison_too() -> None:
    """Simulated: five cells a side, and as many more as were proposed, of the difference that was estimated."""
    draw, decided, tried = random.Random(11), 0, 0
    for _ in range(60):
        before, after = ([draw.lognormvariate(m, 0.04) for _ in range(5)] for m in (3.0, 3.0 + math.log(1.04)))
        [row] = gate(report({"a": before, "b": after}), "b not worse than a by > 10 %").conditions[0].groups
        if row.decision != "undecided" or row.more_cells is None or row.more_cells > 20:
            continue
        shift = math.log(1 + float(re.findall(r"[−+]?[\d.]+(?= %)", row.text)[0].replace("−", "-")) / 100)
        before += [draw.lognormvariate(3.0, 0.04) for _ in range(row.more_cells)]
        after += [draw.lognormvariate(3.0 + shift, 0.04) for _ in range(row.more_cells)]
        tried += 1
        decided += gate(report({"a": before, "b": after}), "b not worse than a by > 10 %").decision != "undecided"
    assert tried >= 15
    assert decided / tried >= 0.5, (decided, tried)


def test_absent_is_known_only_where_something_was_named() -> None:
    values = {"a": [1.0] * 5, "b": [1.0] * 5}
    absent = "finding storage.stall absent"
    assert gate(report(values), absent).decision == "undecided"
    assert gate(report(values, findings=(result("none"),)), absent).decision == "go"
    assert gate(report(values, findings=(result("storage.stall"),)), absent).decision == "no-go"
    assert gate(report(values, findings=(result("storage.stall", confidence=0.3),)), absent).decision == "undecided"
    on_current = (result("storage.stall", "a"), result("none"))
    assert gate(report(values, findings=on_current), absent).decision == "go"


def test_cells_that_are_too_few_are_undecided_and_counted() -> None:
    decided = gate(report({"a": [1.0] * 5, "b": [1.0, None, 1.0]}), "valid cells >= 5")
    assert decided.decision == "undecided"
    assert decided.conditions[0].groups[0].more_cells == 3
    assert "3 more valid cells" in decided.reason


def test_what_the_run_did_not_check_is_undecided() -> None:
    decided = gate(report({"a": [1.0] * 5}), "checksums equal", "dump_s <= 4h")
    assert [row.decision for row in decided.conditions] == ["undecided", "undecided"]
    assert "no cell of these volumes has dump_s" in decided.conditions[1].reason


def test_an_unfinished_run_is_never_a_go_but_may_be_a_no_go() -> None:
    good, bad = ({"a": [1.0] * 5, "b": [value] * 5} for value in (1.0, 99.0))
    assert gate(report(good, complete=False), "latency_ms_p95 <= 20").decision == "undecided"
    assert gate(report(bad, complete=False), "latency_ms_p95 <= 20").decision == "no-go"


def test_no_go_comes_before_undecided_before_go() -> None:
    about = report({"a": [9.0] * 5, "b": [9.0] * 5})
    assert gate(about, "latency_ms_p95 <= 20", "checksums equal").decision == "undecided"
    assert gate(about, "latency_ms_p95 <= 2", "checksums equal").decision == "no-go"
    assert EXIT_CODES == {"go": 0, "no-go": 1, "undecided": 6}


@pytest.mark.parametrize(
    ("condition", "head", "message"),
    [
        ("{check: tps > 1, volume: c}", "", "no volume 'c'"),
        ("{check: tps > 1, step: nothing}", "", "no step 'nothing'"),
        ("{check: tps > 1, stp: x}", "", "perhaps you meant 'step'"),
        ("z not worse than a", "", "no volume 'z'"),
        ("tps > 1", "candidate: z\n", "no volume 'z'"),
        ("tps > 1", "confidence: 20 %\n", "confidence"),
    ],
)
def test_a_policy_that_does_not_fit_is_refused(condition: str, head: str, message: str) -> None:
    with pytest.raises(UsageError, match=r"p\.yaml") as caught:
        gate(report({"a": [1.0] * 5, "b": [1.0] * 5}), condition, head=head)
    assert message in str(caught.value)


def test_a_wrong_go_is_as_rare_as_the_confidence_says() -> None:
    """The median lies a hair beyond the limit: a go is wrong. 2,000 runs of 7 cells, heavy tails."""
    random.seed(11)
    wrong = 0
    for _ in range(2000):
        cells = [20.0001 * random.lognormvariate(0, 0.5) for _ in range(7)]
        remaining = sum(value <= 20 for value in cells)
        wrong += sign_test(7, remaining, alpha=0.05) is True
    assert wrong / 2000 <= 0.05


@pytest.mark.parametrize(
    "condition",
    ["latency_ms_p95 <= 20", "not worse", "valid cells >= 1", "finding storage.stall absent"],
)
def test_a_volume_whose_cells_failed_or_are_not_there_is_never_passed_over(condition: str) -> None:
    """What failed has no metrics: the volumes beside it must not decide in its place."""
    values: Values = {"a": [10, 10.1, 10.2, 10.3, 10.4], "b": [9, 9.1, 9.2, 9.3, 9.4], "c": [9, 9.1, 9.2, 9.3, 9.4]}
    named = (result("none", "b"), result("none", "c"))
    about = report(values, findings=named)
    condition = "candidate not worse than current by > 10 %" if condition == "not worse" else condition
    assert gate(about, condition).decision == "go"
    failed = tuple(
        cell.model_copy(update={"valid": False, "metrics": {}}) if cell.volume == "c" else cell
        for cell in about.cells
    )
    for cells in (failed, tuple(cell for cell in about.cells if cell.volume != "c")):
        row = gate(about.model_copy(update={"cells": cells, "findings": named[:1]}), condition).conditions[0]
        assert row.decision == "undecided"
        assert [group.volume for group in row.groups if group.decision == "undecided"] == ["c"]


@pytest.mark.parametrize(
    "condition",
    [
        "latency_ms_p95 <= 20",
        "candidate not worse than current by > 10 %",
        "valid cells >= 1",
        "finding storage.stall absent",
    ],
)
@pytest.mark.parametrize("changed", [{"step": "restore"}, {"parameters": {"threads": 64}}])
def test_a_step_that_the_candidate_has_no_cell_of_is_never_passed_over(
    condition: str, changed: dict[str, object]
) -> None:
    """Cells whose server never started have no row: what the volume did elsewhere must not decide for them."""
    about = report({"a": [10, 10.1, 10.2, 10.3, 10.4], "b": [9, 9.1, 9.2, 9.3, 9.4]}, findings=(result("none"),))
    assert gate(about, condition).decision == "go"
    baseline = tuple(
        cell.model_copy(update={**changed, "cell_id": f"{cell.cell_id}-more"})
        for cell in about.cells
        if cell.volume == "a"
    )
    row = gate(about.model_copy(update={"cells": (*about.cells, *baseline)}), condition).conditions[0]
    assert (row.decision, row.groups[-1].volume, row.groups[-1].cells) == ("undecided", "b", 0)


def test_a_finding_of_invalid_cells_explains_no_valid_one() -> None:
    about = report({"a": [1.0] * 5, "b": [1.0] * 5 + [None]})
    of_invalid = result("none").model_copy(update={"cell_ids": ("06-b",), "valid": False})
    decided = gate(about.model_copy(update={"findings": (of_invalid,)}), "finding storage.stall absent")
    assert decided.decision == "undecided"


def test_a_metric_that_other_parameters_do_not_measure_is_not_missing_there() -> None:
    """A step of reads and of writes: each has its own metric, and a limit is about the cells that have it."""
    reads = report({"a": [900.0] * 5, "b": [900.0] * 5}, name="iops_read")
    writes = tuple(
        cell.model_copy(update={"parameters": {"threads": 16}, "metrics": {}, "cell_id": f"w{cell.cell_id}"})
        for cell in reads.cells
    )
    about = reads.model_copy(update={"cells": (*reads.cells, *writes)})
    assert gate(about, "iops_read >= 100").decision == "go"
    failed = tuple(cell.model_copy(update={"valid": False}) for cell in writes)
    about = reads.model_copy(update={"cells": (*reads.cells, *failed)})
    assert gate(about, "iops_read >= 100").decision == "undecided"


CONDITIONS = (
    "latency_ms_p95 <= 20",
    "latency_ms_p95 > 5",
    "tps >= 1",
    "candidate not worse than current by > 10 %",
    "b not worse than a in latency_ms_p95",
    "finding storage.stall absent",
    "finding none present",
    "valid cells >= 3",
    "valid cells >= 0",
    "checksums equal",
)
CELLS = some.lists(some.none() | some.floats(0.1, 100), max_size=7)
CURRENT = "current: a\n"
RANK = {"go": 0, "undecided": 1, "no-go": 2}


@given(
    values=some.fixed_dictionaries({"a": CELLS, "b": CELLS, "c": CELLS}),
    conditions=some.lists(some.sampled_from(CONDITIONS), min_size=1, max_size=4),
    findings=some.lists(some.sampled_from(("none", "storage.stall")), max_size=3),
    complete=some.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_three_values_obey_their_laws_on_any_run(
    values: Values, conditions: list[str], findings: list[str], complete: bool
) -> None:
    """The worst condition decides; their order does not; less data never makes a go."""
    about = report(
        values,
        complete=complete,
        findings=tuple(result(finding, volume) for finding in findings for volume in "bc"),
    )
    decided = gate(about, *conditions, head=CURRENT)
    assert decided.decision == gate(about, *reversed(conditions), head=CURRENT).decision
    assert decided.decision == gate(about, *conditions, *conditions, head=CURRENT).decision
    alone = [RANK[gate(about, condition, head=CURRENT).decision] for condition in conditions]
    assert RANK[decided.decision] == max(alone)
    for volume in ("b", "c"):
        without = about.model_copy(update={"cells": tuple(cell for cell in about.cells if cell.volume != volume)})
        failed = about.model_copy(
            update={
                "cells": tuple(
                    cell.model_copy(update={"valid": False, "metrics": {}}) if cell.volume == volume else cell
                    for cell in about.cells
                )
            }
        )
        for less in (without, failed):
            for item in conditions:
                if "b not" in item and volume == "c":
                    continue  # it is not about this volume
                if item == "valid cells >= 0":
                    continue  # which asks for nothing
                assert gate(less, item, head=CURRENT).decision != "go", (item, volume)


@given(text=some.text(max_size=200) | some.lists(some.sampled_from(CONDITIONS), max_size=3).map(str))
def test_any_file_is_a_policy_or_refused_with_its_name(text: str) -> None:
    for total in (text, f"schema: 2\nconditions:\n  - {text}\n", f"schema: 1\n{text}\nconditions: []\n"):
        try:
            check_policy(total, name="p.yaml")
        except UsageError as error:
            assert "p.yaml" in str(error)  # noqa: PT017 - a policy that is read is fine too
