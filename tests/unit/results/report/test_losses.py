"""A headline says which volume or setting lost acknowledged commits, in words that a reader cannot miss."""

from __future__ import annotations

import re

import pytest
from synthetic_run import OLTP, Synthetic, SyntheticVolume, build_run

from volbench.core.records.goals.gate import Gate
from volbench.core.records.report import DurabilityRow, Report
from volbench.core.records.steps.crash import CrashStep
from volbench.core.suite.policy import check_policy
from volbench.results.compare.losses import losing_volumes, loss_text, with_losses
from volbench.results.gate.gate import gate_report
from volbench.results.report.build import build_report
from volbench.results.report.formats.gate import GateFormat, render_gate
from volbench.results.report.formats.terminal import terminal_summary
from volbench.results.report.render import render
from volbench.results.report.wording import damage_text, recovery_text
from volbench.results.site.summary import summarise
from volbench.results.store.run_directory import RunDirectory

POLICY = "schema: 2\nname: p\nconditions:\n  - valid cells >= 1\n"

BASE = DurabilityRow(
    volume="a",
    step="crash",
    fault="power_cut",
    cells=1,
    cuts=1,
    acknowledged_commits=200,
    lost_commits=0,
    torn_or_damaged=0,
    recovery_s=2.0,
)


def row(**changes: object) -> DurabilityRow:
    return BASE.model_copy(update=changes)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, ""),
        ({"lost_commits": 5}, "; but a lost 5 of 200 acknowledged commits"),
        (
            {"lost_commits": 200, "failed_recoveries": 1},
            "; but a lost 200 of 200 acknowledged commits and did not recover from the power cut",
        ),
        ({"cuts": 6, "failed_recoveries": 2}, "; but a did not recover from 2 of 6 power cuts"),
        ({"fault": "kill_server", "failed_recoveries": 1}, "; but a did not recover from the kill of the server"),
        ({"torn_or_damaged": 3}, "; but a has 3 torn commits or damaged rows or tables"),
    ],
)
def test_a_headline_ends_with_what_cuts_cost(changes: dict[str, object], text: str) -> None:
    assert with_losses("b is better than a", [row(**changes)]) == f"b is better than a{text}"


def test_settings_that_lose_are_named_and_the_gravest_comes_first() -> None:
    rows = [
        row(settings={"sync_binlog": "1", "log_bin": "ON"}),
        row(settings={"sync_binlog": "0", "log_bin": "ON"}, lost_commits=3),
        row(volume="b", lost_commits=100),
        row(volume="c", lost_commits=1),
    ]
    assert loss_text(rows) == (
        "b lost 100 of 200 acknowledged commits, and a with sync_binlog=0 lost 3 of 200 acknowledged commits,"
        " and c lost commits too; a with sync_binlog=1 lost none of 200"
    )
    failed = [*rows, row(volume="d", failed_recoveries=1), row(volume="e", lost_commits=2)]
    assert ", and a with sync_binlog=0, e and c lost commits too; " in loss_text(failed)
    assert ", and a with sync_binlog=0, e, c and f lost commits or suffered damage too; " in loss_text(
        [*failed, row(volume="f", torn_or_damaged=1)]
    )
    assert loss_text([*rows[2:], row(volume="d", lost_commits=9), row(volume="f", torn_or_damaged=1)]).endswith(
        ", and c and f lost commits or suffered damage too"
    )


def test_a_headline_names_all_that_lose_in_one_clause() -> None:
    """Two had figures, three were named after them, and one clause took four lines."""
    rows = [row(volume="b", lost_commits=100), row(volume="c", lost_commits=1), row(volume="d")]
    assert losing_volumes(rows[:1]) == "b lost 100 of 200 acknowledged commits"
    assert losing_volumes(rows) == "b and c lost acknowledged commits"
    failed = [*rows, row(volume="e", failed_recoveries=1)]
    assert losing_volumes(failed) == "e, b and c did not recover or lost acknowledged commits"
    assert losing_volumes(rows[2:]) == ""


def test_a_headline_says_of_the_best_one_that_it_lost_commits() -> None:
    """`nfs=3 is better ...; not safe: all but mode=sync lost commits` was read as advice to take nfs=3."""
    rows = [*(row(volume=name, lost_commits=5) for name in "abcd"), row(volume="e")]
    text = "in the crash tests all but e lost acknowledged commits"
    assert losing_volumes(rows) == text
    assert losing_volumes(rows, praised="b") == f"{text}, b too"
    assert losing_volumes(rows, praised="e") == text
    assert losing_volumes(rows[3:], praised="d") == "d lost 5 of 200 acknowledged commits"


def test_a_headline_says_which_volumes_lost_nothing() -> None:
    """The one setting that kept every commit was called worse, and no word said that it kept them."""
    lost, kept_all = row(lost_commits=5), [row(volume=name, acknowledged_commits=1625) for name in "bcde"]
    assert loss_text([lost, kept_all[0]]).endswith(" commits; b lost none of 1,625")
    assert loss_text([lost, *kept_all[:2]]).endswith("; b lost none of 1,625 and c lost none of 1,625")
    assert loss_text([lost, *kept_all]).endswith("; the other 4 lost none of 6,500")
    assert loss_text(kept_all) == ""


def test_what_a_failed_recovery_leaves_unchecked_is_not_called_undamaged() -> None:
    """`0` stood below `torn or damaged` of a server that never came back."""
    assert damage_text(row(failed_recoveries=1, recovery_s=None)) == "–"
    assert damage_text(row(cuts=4, failed_recoveries=1)) == "0, 1 of 4 cuts not checked"
    assert damage_text(row(torn_or_damaged=1200)) == "1,200"
    assert recovery_text(row(failed_recoveries=1, recovery_s=None)) == "failed"


@pytest.fixture(scope="module", params=[1, 2, 4])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A run of so many volumes, each of which lost commits."""
    volumes = tuple(SyntheticVolume(name=name, speed=1.0 + number) for number, name in enumerate("abcd"))
    steps = (OLTP, CrashStep(name="crash"))
    expected = Synthetic(volumes=volumes[: request.param], steps=steps, repeats=3)
    return build_run(tmp_path_factory.mktemp("run"), expected)


def gate_of(report: Report) -> Gate:
    loaded = check_policy(POLICY, name="p.yaml")
    return gate_report(report, loaded.policy, policy_text=POLICY, origins=loaded.origins, where="p.yaml")


def test_no_page_leaves_a_loss_out(run: RunDirectory) -> None:
    """A headline, a line of the terminal and a gate's `go` were silent on what every cut cost."""
    report = build_report(run)
    losses = losing_volumes(report.durability)
    assert losses.startswith(f"{report.volumes[0].name}")
    assert " lost " in losses
    assert f"; not safe: {losses}" in report.summary.headline
    assert terminal_summary(report).verdict[0] == f"{report.summary.headline}."
    assert losses in render(report, run, "md")
    heading = re.search("<h1>.*</h1>", render(report, run, "html"))
    assert heading
    assert losses in heading[0].replace("\N{NO-BREAK SPACE}", " ")
    assert loss_text(report.durability) in summarise(report).sentence


@pytest.mark.parametrize("format_name", ["text", "md", "json", "junit", "html"])
def test_no_gate_leaves_a_loss_out(run: RunDirectory, format_name: GateFormat) -> None:
    report = build_report(run)
    if len(report.volumes) > 1:
        gate = gate_of(report)
        assert gate.decision == "go"
        assert gate.reason.endswith(f"; but {loss_text(report.durability)}")
        assert " acknowledged commits" in render_gate(gate, format_name)
