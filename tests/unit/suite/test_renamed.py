"""Older names of keys are read as today's, and a warning says where each is and what to write."""

from __future__ import annotations

import pytest

from volbench.errors import UsageError
from volbench.records.steps.crash import CrashStep
from volbench.records.steps.ddl import DdlStep
from volbench.records.steps.oltp import OltpStep
from volbench.suite.capacity import capacity_suite
from volbench.suite.load import check_suite
from volbench.suite.model import SuiteFile
from volbench.suite.sweep import with_parameters

OLD = """\
name: old
low_power: true
steps:
  - {kind: oltp, name: load, beside: [{kind: dump, to: nowhere}]}
  - kind: crash
    how: kill_server
  - {kind: ddl, name: tables, altered: 7}
  - {kind: cold_read, warm_too: false}
scales:
  ci: {steps.tables.altered: 3, steps.crash.how: auto}
sweep:
  factors:
    steps.tables.altered: {base: 5, levels: [6]}
"""


def read(*settings: str, text: str = OLD) -> tuple[SuiteFile, list[str]]:
    warnings: list[str] = []
    return check_suite(text, name="s.yaml", settings=settings, warn=warnings.append), warnings


def test_each_older_name_is_read_and_named_with_its_line() -> None:
    suite, warnings = read()
    load, crash, tables = suite.steps[:3]
    assert isinstance(load, OltpStep)
    assert isinstance(crash, CrashStep)
    assert isinstance(tables, DdlStep)
    assert (suite.underpowered, len(load.concurrent), crash.fault, tables.altered_tables) == (
        True, 1, "kill_server", 7,
    )  # fmt: skip
    assert [warning.partition(";")[0] for warning in warnings] == [
        "s.yaml:2: low_power: this key is called 'underpowered' now",
        "s.yaml:4: steps.0.beside: this key is called 'concurrent' now",
        "s.yaml:6: steps.1.how: this key is called 'fault' now",
        "s.yaml:7: steps.2.altered: this key is called 'altered_tables' now",
        "s.yaml:8: steps.3.warm_too: this key is called 'warm_read' now",
        "s.yaml:10: scales.ci.steps.tables.altered: this key is called 'steps.tables.altered_tables' now",
        "s.yaml:10: scales.ci.steps.crash.how: this key is called 'steps.crash.fault' now",
        "s.yaml:13: sweep.factors.steps.tables.altered: this key is called 'steps.tables.altered_tables' now",
    ]


def test_an_option_with_an_older_name_still_wins_over_the_file() -> None:
    suite, warnings = read("steps.crash.how=auto", text="name: s\nsteps: [{kind: crash, fault: kill_server}]\n")
    step = suite.steps[0]
    assert isinstance(step, CrashStep)
    assert step.fault == "auto"
    assert warnings == [
        "--set steps.crash.how=auto: steps.crash.how: this key is called 'steps.crash.fault' now; write that, a "
        "later version will refuse the old name"
    ]


def test_a_scale_and_a_sweep_with_older_names_reach_their_keys() -> None:
    suite, _ = read("scale=ci")
    step = suite.steps[2]
    assert isinstance(step, DdlStep)
    assert step.altered_tables == 3
    varied = with_parameters(suite.resolved(), {"steps.tables.altered": 6}).steps[2]
    assert isinstance(varied, DdlStep)
    assert varied.altered_tables == 6


def test_both_names_of_one_key_are_a_fault() -> None:
    with pytest.raises(UsageError, match=r"steps\.0\.how: unknown key"):
        read(text="name: s\nsteps: [{kind: crash, fault: auto, how: auto}]\n")


def test_a_name_of_the_users_own_is_never_translated() -> None:
    text = "name: s\nsteps: [{kind: oltp, options: {how: 1, beside: 2}}]\nvolumes: {low_power: 'path:/mnt'}\n"
    suite, warnings = read(text=text)
    assert warnings == []
    assert isinstance(suite.steps[0], OltpStep)
    assert suite.steps[0].options == {"how": 1, "beside": 2}
    assert list(suite.volumes) == ["low_power"]


def test_the_load_of_an_old_suite_is_searched_without_its_concurrent_steps() -> None:
    text = capacity_suite(OLD, name="s.yaml", step="load", rates=(10,), repeats=4)
    suite, warnings = read(text=text)
    assert warnings == []
    assert isinstance(suite.steps[0], OltpStep)
    assert suite.steps[0].concurrent == ()
