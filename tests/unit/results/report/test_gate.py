"""A decision in every format: nothing is lost, nothing from outside is markup, a rehearsal is called one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

import pytest
from synthetic_run import HOSTILE, build_run, hostile, two_volumes
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.core.records.goals.gate import ConditionRow, Gate
from volbench.core.suite.policy import check_policy, load_policy
from volbench.results.gate.gate import gate_report
from volbench.results.report.build import build_report
from volbench.results.report.formats.gate import GateFormat, condition_details, render_gate
from volbench.results.store.run_directory import RunDirectory

GOLDEN = Path(__file__).resolve().parents[3] / "golden"
POLICIES = Path(__file__).resolve().parents[4] / "suites/policies"


def decided(directory: RunDirectory, *conditions: str) -> Gate:
    text = "schema: 2\nname: the shop's\nconditions:\n" + "".join(f"  - {condition}\n" for condition in conditions)
    loaded = check_policy(text, name="p.yaml")
    return gate_report(
        build_report(directory), loaded.policy, policy_text=text, origins=loaded.origins, where="p.yaml"
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return build_run(tmp_path_factory.mktemp("run"), two_volumes(steps=two_volumes().steps[:1]))


@pytest.fixture(scope="module")
def three_ways(run: RunDirectory) -> Gate:
    return decided(run, "tps >= 500", "{check: latency_ms_p95 <= 1 ms, rationale: promised}", "checksums equal")


@pytest.mark.parametrize("expected", get_args(GateFormat))
def test_every_format_says_each_condition_and_the_decision(three_ways: Gate, expected: GateFormat) -> None:
    text = render_gate(three_ways, expected)
    for output in (
        "tps",
        "latency_ms_p95",
        "checksums equal",
        "no-go" if expected in {"json", "junit"} else "NO-GO",
    ):
        assert output in text
    assert text.endswith("\n")


@pytest.mark.parametrize(("expected", "file"), [("md", "gate.md"), ("junit", "gate.junit.xml")])
def test_what_pipelines_read_is_the_golden_one(three_ways: Gate, expected: GateFormat, file: str) -> None:
    """Change it on purpose only, and the file with it."""
    assert render_gate(three_ways, expected) == (GOLDEN / file).read_text()


def row_of(**known_values: object) -> dict[str, object]:
    return {"decision": "go", "text": "1 of 1 cells are valid", "cells": 1, **known_values}


def test_volumes_and_steps_with_the_same_evidence_share_a_line() -> None:
    """Parameters are named where a step has several loads, and only there."""
    groups = [
        row_of(volume="gp2", step="shop", parameters={"threads": 64}),
        row_of(volume="gp2", step="night", parameters={"threads": 16, "rate": 2.0}),
        row_of(volume="gp3", step="shop", parameters={"threads": 64}),
        row_of(volume="gp3", step="night", parameters={"threads": 32, "rate": 2.0}, more_cells=4),
        row_of(volume="gp3", text="never idle"),
    ]
    row = ConditionRow.model_validate({"check": "", "where": "", "decision": "go", "groups": groups})
    assert condition_details(row) == [
        "gp2 (shop, night threads=16 rate=2.0); gp3 (shop): 1 of 1 cells are valid",
        "gp3 (night threads=32 rate=2.0): 1 of 1 cells are valid; about 4 more valid cells would decide",
        "gp3: never idle",
    ]


def test_junit_counts_failures_and_what_is_open(three_ways: Gate) -> None:
    root = ElementTree.fromstring(render_gate(three_ways, "junit"))  # noqa: S314 - our own text
    [suite] = root.findall("testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")


def test_json_is_the_record(three_ways: Gate) -> None:
    assert Gate.model_validate(json.loads(render_gate(three_ways, "json"))) == three_ways


def test_nothing_from_a_run_becomes_markup(tmp_path: Path) -> None:
    gate = decided(build_run(tmp_path, hostile()), "tps >= 500", "valid cells >= 5")
    for expected in ("html", "md"):
        text = render_gate(gate, expected)
        assert HOSTILE not in text
        assert "<script" not in text
        assert "<img" not in text
    ElementTree.fromstring(render_gate(gate, "junit"))  # noqa: S314 - our own text


def test_an_emulated_volume_makes_it_a_rehearsal(three_ways: Gate) -> None:
    emulated = three_ways.model_copy(update={"emulated": ("b",)})
    for expected in ("text", "md", "html"):
        assert "rehearsal" in render_gate(emulated, expected)
        assert "rehearsal" not in render_gate(three_ways, expected)


def test_the_page_to_sign_names_what_is_signed(three_ways: Gate) -> None:
    text = render_gate(three_ways, "html")
    assert three_ways.report_sha256 in text
    assert three_ways.policy_sha256 in text
    assert "Signature" in text


@pytest.mark.parametrize(
    ("condition", "code"), [("tps >= 1", 0), ("tps >= 100000", 1), ("checksums equal", 6), ("tps is nice", 2)]
)
def test_the_exit_code_is_the_decision(run: RunDirectory, tmp_path: Path, condition: str, code: int) -> None:
    policy = tmp_path / "p.yaml"
    policy.write_text(f"schema: 2\nconditions: [{condition!r}]\n")
    ended = CliRunner().invoke(app, ["gate", str(run.path), "--policy", str(policy)])
    # An expected failure is made an exit code by main(), which a runner of commands does not go through.
    assert ended.exit_code == code or getattr(ended.exception, "exit_code", None) == code


@pytest.mark.parametrize("path", sorted(POLICIES.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_policies_can_be_read(path: Path, run: RunDirectory) -> None:
    loaded = load_policy(path)
    gate_report(
        build_report(run), loaded.policy, policy_text=loaded.text, origins=loaded.origins, where=loaded.name
    )
