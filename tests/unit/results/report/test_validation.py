"""A validation in every format: the golden page, nothing lost, and nothing of a server is markup."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from synthetic_run import HOSTILE

from volbench.core.records.goals.capacity import CapacityRow
from volbench.core.records.goals.gate import ConditionRow, GroupRow
from volbench.core.records.validation.result import (
    CheckRow,
    ReplayClass,
    Replayed,
    RunReference,
    ServerSide,
    Validation,
)
from volbench.results.report.formats.validation import (
    validation_html,
    validation_junit,
    validation_markdown,
    validation_text,
)

GOLDEN = Path(__file__).resolve().parents[3] / "golden"


def outcome(message: str = "orders") -> Validation:
    """One of each decision, in checks and in conditions."""
    side = ServerSide(address="db-old:3306", flavor="mariadb", version="10.11.6", user="volbench")
    return Validation(
        decision="no-go",
        reason="1 of 3 checks fail: objects; all 1 conditions hold",
        name=f"shop, {message}",
        plan_sha256="0" * 64,
        started_at="2026-11-21T10:00:00Z",
        finished_at="2026-11-21T10:20:00Z",
        volbench_version="0.2.0",
        schemas=("shop",),
        source_changed=False,
        source=side,
        candidate=side.model_copy(update={"address": "/run/s", "flavor": "mysql", "version": "9.7.0"}),
        checks=(
            CheckRow(
                check="objects",
                decision="no-go",
                text="2 differ, of 66",
                details=(f"trigger shop.{message}: missing on the candidate", "index x: missing"),
            ),
            CheckRow(check="checksums", decision="go", text="all equal: 2700 rows of 6 tables"),
            CheckRow(
                check="replay",
                decision="undecided",
                text="50236 of 50236 statements in 26 s; late",
                details=tuple(f"detail {number}" for number in range(25)),
            ),
        ),
        conditions=(
            ConditionRow(
                check="checksums equal", where="p:5", decision="go", reason="all equal", rationale=message
            ),
            ConditionRow(
                check="tps >= 10",
                where="p:6",
                decision="undecided",
                groups=(
                    GroupRow(
                        volume="gp3", step=message, decision="undecided", text="3 of 3", cells=3, more_cells=2
                    ),
                ),
            ),
        ),
        runs=(RunReference(run_id="r1", suite="s", report_sha256="1" * 64, complete=True, emulated=("gp3",)),),
        replay=Replayed(
            statements=300,
            sent=300,
            excluded={},
            log_s=10,
            speed=1,
            planned_s=10,
            duration_s=10,
            peak_per_s=40,
            connections=3,
            shared_connections=0,
            second_resolution=False,
            writes=False,
            late=0,
            late_share=0,
            client_cpu_share=0.1,
            errors={},
            classes=(
                ReplayClass(
                    fingerprint=f"select {message}",
                    statements=300,
                    errors=300,
                    logged_ms_p50=1.5,
                    logged_ms_p95=2.25,
                    service_ms_p50=1,
                    service_ms_p95=None,
                    response_ms_p50=12.5,
                    response_ms_p95=34567,
                ),
            ),
        ),
        capacities=(
            CapacityRow(
                volume="gp3",
                load="l",
                run_id="r1",
                cells=1,
                sustained_per_s=1,
                low_per_s=1,
                high_per_s=None,
                confidence=None,
                queries_per_transaction=None,
            ),
        ),
        advice={"pt-config-diff": f"1 config difference {message}"},
        statements_sent_to_source={message: 3},
    )


def test_what_pipelines_read_is_the_golden_one() -> None:
    """Readers' pipelines parse it: change it on purpose only, and the file with it."""
    assert validation_markdown(outcome()) == (GOLDEN / "validation.md").read_text()
    assert validation_junit(outcome()) == (GOLDEN / "validation.junit.xml").read_text()


def test_every_format_says_each_check_each_condition_and_that_it_is_a_rehearsal() -> None:
    for text in (validation_text(outcome()), validation_markdown(outcome()), validation_html(outcome())):
        for output in ("NO-GO", "objects", "checksums equal", "tps", "rehearsal"):
            assert output in text
        assert "and 5 more, in validation.json" in text


def test_junit_counts_what_fails_and_what_is_open() -> None:
    root = ElementTree.fromstring(validation_junit(outcome()))  # noqa: S314 - our own text
    [suite] = root.findall("testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("5", "1", "2")
    [failure] = root.iter("failure")
    assert "index x: missing" in (failure.get("message") or "")


def test_nothing_of_a_server_is_markup() -> None:
    page, text = validation_html(outcome(HOSTILE)), validation_markdown(outcome(HOSTILE))
    for written in (page, text):
        assert "<script>" not in written
        assert "<img src=x" not in written
    ElementTree.fromstring(validation_junit(outcome(HOSTILE)))  # noqa: S314 - our own text


def test_the_record_survives_its_file() -> None:
    assert Validation.model_validate_json(outcome().model_dump_json(by_alias=True)) == outcome()
