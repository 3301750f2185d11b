"""Conditions are read exactly or refused with a message; nothing else ever happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volbench.errors import UsageError
from volbench.results.gate.language import (
    EXAMPLES,
    CheckIs,
    Condition,
    FindingIs,
    MetricLimit,
    NotWorse,
    ValidCells,
    parse_condition,
    parse_conditions,
)

RUNNER = Path(__file__).parents[4] / "runner" / "volbench"
P95 = "latency_ms_p95"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("latency_ms_p95 <= 20", MetricLimit(metric=P95, operator="<=", limit=20)),
        ("latency_ms_p95<=20ms", MetricLimit(metric=P95, operator="<=", limit=20)),
        ("  latency_ms_p95 < 0.5 s ", MetricLimit(metric=P95, operator="<", limit=500)),
        ("dump_s <= 4h", MetricLimit(metric="dump_s", operator="<=", limit=14_400)),
        ("tps >= 1500", MetricLimit(metric="tps", operator=">=", limit=1500)),
        ("tps > 1500 1/s", MetricLimit(metric="tps", operator=">", limit=1500)),
        ("dump_bytes < 3GiB", MetricLimit(metric="dump_bytes", operator="<", limit=3 * 2**30)),
        ("dump_mib_per_s >= 12 MiB/s", MetricLimit(metric="dump_mib_per_s", operator=">=", limit=12)),
        ("server_cpu_ratio <= 80%", MetricLimit(metric="server_cpu_ratio", operator="<=", limit=0.8)),
        ("gp3 not worse than gp2 by > 10 %", NotWorse(volume="gp3", than="gp2", by=0.1)),
        ("candidate not worse than current", NotWorse(volume="candidate", than="current", by=0)),
        ("a not worse than b by > 5% in tps", NotWorse(volume="a", than="b", by=0.05, metric="tps")),
        ("finding storage.stall absent", FindingIs(cause="storage.stall", present=False)),
        ("finding none present", FindingIs(cause="none", present=True)),
        ("valid cells >= 5", ValidCells(at_least=5)),
        ("checksums equal", CheckIs(name="checksums")),
    ],
)
def test_a_condition_is_read(text: str, expected: Condition) -> None:
    assert parse_condition(text, where="p.yaml:1") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("latency_p95 <= 20", "perhaps you meant latency_ms_p95"),
        ("tps = 20", "never exactly equal"),
        ("tps == 20", "never exactly equal"),
        ("tps >= fast", "the limit of tps"),
        ("dump_s <= 4 hours", "the limit of dump_s"),
        ("latency_ms_p95 <= 20 MiB", "the limit of latency_ms_p95"),
        ("tps >= " + "9" * 400, "cannot be read"),
        ("finding storage.stal absent", "perhaps you meant storage.stall"),
        ("a not worse than b by > 10", "no share below 100 %"),
        ("a not worse than b by > 1.2.3 %", "not a share"),
        ("a not worse than b by > 5 % in iops_read", "no better direction"),
        ("", "cannot be read"),
        ("please be fast", "latency_ms_p95 <= 20 ms"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_condition(text, where="p.yaml:7")
    assert message in str(caught.value)
    assert caught.value.where == "p.yaml:7"


WORDS = [
    "tps",
    P95,
    "dump_s",
    "<=",
    ">=",
    "<",
    "=",
    "by",
    ">",
    "10",
    "%",
    "1e9",
    "4h",
    "-3",
    "nan",
    "inf",
    "not",
    "worse",
    "than",
    "finding",
    "storage.stall",
    "absent",
    "present",
    "valid",
    "cells",
    "equal",
    "in",
    "candidate",
    "\n",
    "é",
]


@given(st.one_of(st.text(max_size=120), st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)))
def test_any_text_is_a_condition_or_one_clear_refusal(text: str) -> None:
    try:
        condition = parse_condition(text, where="p.yaml:1")
    except UsageError:
        return
    if isinstance(condition, MetricLimit):
        assert -1e300 < condition.limit < 1e300


def test_every_fault_of_a_policy_is_named_with_its_line() -> None:
    texts = ["latency_p95 <= 20 ms", "candidate not worse then current by > 10 %", "valid cells >= 5"]
    with pytest.raises(UsageError, match="2 conditions cannot be read") as raised:
        parse_conditions(texts, ["p.yaml:4", "p.yaml:5", "p.yaml:6"])
    assert "p.yaml:4: no metric is called 'latency_p95'" in raised.value.evidence
    assert "p.yaml:5" in raised.value.evidence
    assert "the nearest form is `candidate not worse than current by > 10 %`" in raised.value.evidence
    with pytest.raises(UsageError, match="no metric is called") as raised:
        parse_conditions([texts[0], texts[2]], ["p.yaml:4", "p.yaml:6"])
    assert raised.value.where == "p.yaml:4"


def test_every_example_is_a_condition() -> None:
    for text in EXAMPLES:
        parse_condition(text, where="examples")


def test_findings_have_only_causes_that_policies_know() -> None:
    """A rule that names a new cause has to put it into the list that conditions are checked against."""
    from volbench.results.explain.causes import CAUSES  # noqa: PLC0415 - beside what it is about

    families = "storage|instance|memory|cpu|lock|redo|interference"
    named = {
        match
        for path in (RUNNER / "results").rglob("*.py")
        for match in re.findall(rf'"((?:{families})\.[a-z_]+)"', path.read_text(encoding="utf-8"))
    }
    assert named
    assert named <= set(CAUSES)
