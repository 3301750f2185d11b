"""A program of Percona Toolkit reads names and statements of others: it is confined, and reaches its servers."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile_user import shared_place

from volbench.machine.engine.connection import Account
from volbench.validation.toolkit import InstalledProgram

IS_ROOT = os.geteuid() == 0
SCRIPT = """#!/bin/sh
id -u
ulimit -v
echo "home $HOME"
cat "$1"
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that other users may read, as that of an installed program."""
    with shared_place(0o755) as directory:
        yield directory


def printed(directory: Path, *accounts: Account) -> list[str]:
    program = directory / "pt-upgrade"
    program.write_text(SCRIPT)
    program.chmod(0o755)
    done = InstalledProgram(path=str(program)).run(
        lambda paths: [paths["a.cnf"]], {"a.cnf": "the options"}, timeout_s=60, accounts=accounts
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_it_is_another_user_with_limits_who_reads_its_files_in_memory(directory: Path) -> None:
    user, memory_kib, home, options = printed(directory)
    assert (int(user) in range(61184, 65520)) == IS_ROOT
    assert memory_kib == str(2 << 20)
    assert (home, options) == ("home /nonexistent", "the options")


@pytest.mark.skipif(not IS_ROOT, reason="only root becomes another user")
def test_it_stays_this_user_where_another_one_would_not_reach_the_server(directory: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(directory / "sock"))
        (directory / "sock").chmod(0o777)
        assert printed(directory, Account(user="u", socket=str(directory / "sock")))[0] != "0"
        (directory / "sock").chmod(0o700)
        assert printed(directory, Account(user="u", socket=str(directory / "sock")))[:2] == ["0", str(2 << 20)]
    assert printed(directory, Account(user="u", socket=str(directory / "none")))[0] == "0"
