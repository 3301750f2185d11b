"""One decision over checks, runs and conditions: the worst wins, and nothing undecided becomes a go."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from synthetic_run import build_run, two_volumes

from volbench.core.records.goals.gate import Decision
from volbench.core.records.report import Report
from volbench.core.records.validation.result import CheckRow
from volbench.core.suite.validation import LoadedPlan, check_validation_plan
from volbench.errors import UsageError
from volbench.results.gate.language import EXAMPLES
from volbench.results.report.build import build_report
from volbench.validation.decision import check_policy, decide_all, decide_policy, run_references
from volbench.validation.dry_run import planned_statements

HEAD = "schema: 2\nsource: {host: a}\ncandidate: {host: b}\n"


def plan(*conditions: str, head: str = "") -> LoadedPlan:
    policy = "policy:\n" + "".join(f"  - {condition}\n" for condition in conditions) if conditions else ""
    return check_validation_plan(HEAD + head + policy, name="plan.yaml")


def check(decision: Decision, name: str = "checksums") -> CheckRow:
    return CheckRow.model_validate({"check": name, "decision": decision, "text": f"said of {name}"})


def decided(
    loaded: LoadedPlan, checks: tuple[CheckRow, ...], reports: tuple[Report, ...] = (), *, changed: bool = False
) -> tuple[Decision, str]:
    scopes = check_policy(loaded.plan, loaded.origins, reports)
    conditions = decide_policy(loaded.plan, loaded.origins, scopes, checks)
    return decide_all(checks, conditions, run_references(scopes), source_changed=changed)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return build_report(build_run(tmp_path_factory.mktemp("run"), two_volumes(steps=two_volumes().steps[:1])))


def test_a_check_decides_the_condition_of_its_name() -> None:
    assert decided(plan("checksums equal"), (check("go"),)) == (
        "go",
        "the one check holds; the one condition holds",
    )
    decision, reason = decided(plan("checksums equal"), (check("no-go"),))
    assert (decision, "1 of 1 condition fails: checksums equal" in reason) == ("no-go", True)


def test_a_check_that_was_not_made_is_named_with_those_that_were() -> None:
    with pytest.raises(UsageError, match="checks no 'queries'") as raised:
        decided(plan("queries equal"), (check("go"),))
    assert (raised.value.where, raised.value.evidence) == ("plan.yaml:5", "it checks: checksums")


def test_the_worst_of_checks_and_runs_wins(report: Report) -> None:
    go, fails = "tps >= 1", "latency_ms_p95 <= 0.001 ms"
    total = report.model_copy(update={"complete": True})
    assert decided(plan(go), (check("go"),), (total,))[0] == "go"
    assert decided(plan(go), (check("no-go"),), (total,))[0] == "no-go"
    assert decided(plan(go, fails), (check("go"),), (total,))[0] == "no-go"
    assert decided(plan(fails), (check("undecided"),), (total,))[0] == "no-go"


def test_a_condition_that_one_of_two_runs_fails_fails(report: Report) -> None:
    """Each run is judged by itself: cells of two runs are never put together."""
    metrics = {name: value.model_copy(update={"value": 1e6}) for name, value in report.cells[0].metrics.items()}
    slow = report.model_copy(
        update={"complete": True, "cells": tuple(c.model_copy(update={"metrics": metrics}) for c in report.cells)}
    )
    total = report.model_copy(update={"complete": True})
    assert decided(plan("latency_ms_p95 <= 100 s"), (), (total,))[0] != "no-go"
    assert decided(plan("latency_ms_p95 <= 100 s"), (), (total, slow))[0] == "no-go"


def test_an_unfinished_run_and_a_missing_one_never_make_a_go(report: Report) -> None:
    unfinished = report.model_copy(update={"complete": False})
    assert decided(plan("tps >= 1"), (check("go"),), (unfinished,))[0] == "undecided"
    assert decided(plan("tps >= 1"), (check("go"),))[0] == "undecided"


def test_a_volume_that_no_run_has_is_a_fault_before_anything_is_read(report: Report) -> None:
    with pytest.raises(UsageError, match="no volume 'gp9'"):
        decided(plan("tps >= 1", head="volume: gp9\n"), (), (report,))


def test_rows_that_differ_while_the_source_is_written_prove_nothing() -> None:
    assert decided(plan(), (check("no-go"),), changed=True)[0] == "undecided"
    assert decided(plan(), (check("no-go"), check("no-go", "objects")), changed=True)[0] == "no-go"


@given(
    conditions=some.lists(some.sampled_from(EXAMPLES) | some.text(min_size=1, max_size=60), max_size=6),
    checks=some.lists(some.sampled_from(("go", "no-go", "undecided")), max_size=4),
)
def test_any_policy_is_refused_with_its_line_or_decided_no_better_than_its_checks(
    conditions: list[str], checks: list[Decision]
) -> None:
    rows = tuple(
        check(item, name) for item, name in zip(checks, ("objects", "checksums", "times", "plans"), strict=False)
    )
    text = "".join(f"  - {{check: {yaml_text(condition)}}}\n" for condition in conditions)
    try:
        loaded = check_validation_plan(HEAD + (f"policy:\n{text}" if text else ""), name="plan.yaml")
        decision, _ = decided(loaded, rows)
    except UsageError as error:
        assert error.where.startswith("plan.yaml")  # noqa: PT017 - a policy that is decided is fine too
        return
    order: dict[Decision, int] = {"go": 0, "undecided": 1, "no-go": 2}
    assert order[decision] >= max((order[row.decision] for row in rows), default=0)


KEYS = (
    "schema",
    "name",
    "source",
    "candidate",
    "schemas",
    "data",
    "queries",
    "settings",
    "replay",
    "capacity",
    "move",
    "runs",
    "volume",
    "confidence",
    "policy",
    "host",
    "socket",
    "slow_log",
    "limit",
    "window",
    "speed",
    "disposable",
)
SCALARS = some.sampled_from((1, 0, -1, "20ms", "4h", "x", "", True, None, 1e308, "100MiB"))
VALUES = some.recursive(
    SCALARS,
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)


@given(found=some.dictionaries(some.sampled_from(KEYS), VALUES, max_size=8))
def test_any_plan_is_read_or_refused_with_its_file(found: dict[str, object]) -> None:
    plan_text = json.dumps({"schema": 1, "source": {"host": "a"}, "candidate": {"host": "b"}, **found})
    try:
        loaded = check_validation_plan(plan_text, name="plan.yaml")
        assert len(list(planned_statements(loaded.plan))) > 10
    except UsageError as error:
        assert "plan.yaml" in str(error)  # noqa: PT017 - a plan that is read is fine too


def yaml_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def test_a_plan_on_disk_is_read_as_a_text_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown key") as raised:
        check_validation_plan(HEAD + "polcy: [checksums equal]\n", name=str(tmp_path))
    assert "perhaps you meant 'policy'" in raised.value.evidence
