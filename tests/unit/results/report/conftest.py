"""Runs that the tests of reports share; they are only read."""

from __future__ import annotations

import pytest
from synthetic_run import Synthetic, SyntheticVolume, build_run, hostile, two_volumes

from volbench.core.records.cell import Failure
from volbench.core.records.report import Report
from volbench.results.report.build import build_report
from volbench.results.store.run_directory import RunDirectory

KILLED = Failure(
    cause="server_killed",
    message="mysqld was killed",
    where="step dump",
    evidence="signal 9",
    next_step="look at dmesg",
)


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Two volumes, 5 against 5, b clearly better, a stalls."""
    return build_run(tmp_path_factory.mktemp("pair"), two_volumes())


@pytest.fixture(scope="session")
def pair_report(pair: RunDirectory) -> Report:
    return build_report(pair)


@pytest.fixture(scope="session")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Three repeats on purpose, one invalid cell, one failed cell, one not run."""
    expected = two_volumes(
        repeats=3,
        underpowered=True,
        invalid={("a", 1): "client CPU-bound (0.97 of its cores)"},
        failed={("b", 2): KILLED},
        not_run=frozenset({("b", 3)}),
    )
    return build_run(tmp_path_factory.mktemp("troubled"), expected)


@pytest.fixture(scope="session")
def troubled_report(troubled: RunDirectory) -> Report:
    return build_report(troubled)


@pytest.fixture(scope="session")
def hostile_run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Every free text tries to be markup."""
    return build_run(tmp_path_factory.mktemp("hostile"), hostile())


@pytest.fixture(scope="session")
def hostile_run_report(hostile_run: RunDirectory) -> Report:
    return build_report(hostile_run)


@pytest.fixture(scope="session")
def single(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """One volume."""
    return build_run(tmp_path_factory.mktemp("single"), Synthetic(volumes=(SyntheticVolume(name="a"),), repeats=2))


@pytest.fixture(scope="session")
def single_report(single: RunDirectory) -> Report:
    return build_report(single)
