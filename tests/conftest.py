"""Skips what this machine has no means for, and fails it where REQUIRE names the means."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterable
from contextlib import suppress

import pytest
from hypothesis import settings

from bootstrap import lexer
from bootstrap.console import open_console
from bootstrap.directories import find_directories
from volbench.errors import MissingPrerequisite

pytest_plugins = ["costs", "forked"]  # options --costs and --forks
pytest.register_assert_rewrite("cluster_run", "live_run")  # their assertions tell what they compared
import machine  # noqa: E402 - it imports them
import skips  # noqa: E402

# A busy machine fails no test; pytest's own timeout stays. CI tries the same examples each time: what is found
# by chance is found where somebody looks at it.
settings.register_profile("volbench", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("volbench")
collect_ignore = ["fixtures"]  # the tests among them belong to extensions: integration/test_extending.py
REQUIRED = pytest.StashKey[Iterable[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Read REQUIRE; signals as usual."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:  # by nohup or a shell's `&`: commands under test inherit it
            signal.signal(number, usual)
    if not hasattr(config, "workerinput"):
        _build_lexer()
    try:
        config.stash[REQUIRED] = machine.parse_require(os.environ.get("REQUIRE", ""))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error


def _build_lexer() -> None:
    """Compile the SQL lexer of these sources where that was not done; without a compiler, what needs it fails."""
    with suppress(MissingPrerequisite):
        lexer.ensure_lexer(find_directories(), open_console())


def pytest_report_header(config: pytest.Config) -> list[str]:
    """What REQUIRE asks for and what is there."""
    return [f"required: {name}: {machine.look(name).evidence}" for name in sorted(config.stash[REQUIRED])]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that take minutes, or images from a registry, run when they are asked for: by any `-m`."""
    if config.getoption("markexpr"):
        return
    slow = [item for item in items if item.get_closest_marker("slow") or item.get_closest_marker("servers")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


def pytest_collection_finish() -> None:
    """Leave out of garbage collection what lives as long as the session: modules, and thousands of tests."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """So that the interpreter can free it when it ends."""
    gc.unfreeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail a test whose marker names means that are missing."""
    for name in machine.QUESTIONS:
        if item.get_closest_marker(name) is None:
            continue
        result = machine.look(name)
        if result.present:
            continue
        if name in item.config.stash[REQUIRED]:
            pytest.fail(machine.reason(result), pytrace=False)
        pytest.skip(machine.reason(result))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Required means that are missing fail the session, and so do skips for a reason that nobody has listed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    faults = bool(_missing(session.config)) or bool(reporter and skips.summary(_skip_reasons(reporter))[1])
    if faults and session.config.stash[REQUIRED] and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what skipped tests lacked and how to get it, and what REQUIRE asks for and this machine lacks."""
    table, unlisted = skips.summary(_skip_reasons(terminalreporter))
    if table:
        terminalreporter.section("skipped tests")
    for line in table:
        terminalreporter.write_line(line)
    for line in unlisted:
        terminalreporter.write_line(
            f"skipped for a reason that tests/support/skips.py does not list: {line}", red=True
        )
    for name in _missing(terminalreporter.config):
        terminalreporter.write_line(f"REQUIRE={name}: {machine.reason(machine.look(name))}", red=True)


def _skip_reasons(reporter: pytest.TerminalReporter) -> list[str]:
    """The reason of each skipped test, as pytest.skip or a mark states it."""
    reports = reporter.stats.get("skipped", [])
    return [
        str(report.longrepr[2]).removeprefix("Skipped: ")
        for report in reports
        if isinstance(report.longrepr, tuple)
    ]


def _missing(config: pytest.Config) -> list[str]:
    return [name for name in sorted(config.stash[REQUIRED]) if not machine.look(name).present]
