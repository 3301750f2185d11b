"""Credentials: 0600 option files that survive odd passwords, and that never show one in a message."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.core.records.cell import AttachSpec
from volbench.errors import MissingPrerequisite, UsageError
from volbench.machine.engine.attached import PASSWORD_VARIABLE, account_of
from volbench.machine.engine.connection import Account, read_option_file, write_private

ODD_PASSWORDS = ["", "plain", "with space", "hash#mark", 'quo"te', "back\\slash", "semi;colon", "per%cent", "'x'"]


@pytest.mark.parametrize("password", ODD_PASSWORDS)
def test_what_is_written_to_an_option_file_is_read_back(tmp_path: Path, password: str) -> None:
    write_private(tmp_path / "client.cnf", Account(user="root", password=password, socket="/s").option_file_text())
    assert read_option_file(tmp_path / "client.cnf") == {"user": "root", "password": password, "socket": "/s"}


def test_a_private_file_is_for_its_owner_alone_even_over_an_open_one(tmp_path: Path) -> None:
    path = tmp_path / "client.cnf"
    path.write_text("old")
    path.chmod(0o666)
    write_private(path, "new")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text() == "new"


SECRET = "hunter2"


def test_a_line_break_in_a_password_is_refused_without_showing_it() -> None:
    with pytest.raises(UsageError) as caught:
        Account(user="root", password=f"{SECRET}\n").option_file_text()
    assert SECRET not in str(caught.value)


def test_an_account_does_not_show_its_password() -> None:
    assert SECRET not in repr(Account(user="root", password=SECRET))


def test_an_unreadable_option_file_is_lacking_and_its_lines_are_not_shown(tmp_path: Path) -> None:
    with pytest.raises(MissingPrerequisite, match="cannot be read"):
        read_option_file(tmp_path / "none.cnf")
    (tmp_path / "bad.cnf").write_text(f"password={SECRET}\n")
    with pytest.raises(MissingPrerequisite) as caught:
        read_option_file(tmp_path / "bad.cnf")
    assert SECRET not in str(caught.value)


def test_the_option_files_password_comes_before_the_environments(tmp_path: Path) -> None:
    (tmp_path / "my.cnf").write_text("[client]\nuser=app\npassword=file\nport=3307\n")
    attach = AttachSpec(option_file=str(tmp_path / "my.cnf"))
    account = account_of(attach, {PASSWORD_VARIABLE: SECRET})
    assert (account.user, account.password, account.port) == ("app", "file", 3307)
    assert account_of(AttachSpec(), {PASSWORD_VARIABLE: SECRET}).password == SECRET


def test_a_host_and_a_socket_at_once_are_refused() -> None:
    with pytest.raises(UsageError, match="not both"):
        account_of(AttachSpec(host="db", socket="/s"), {})


def test_a_host_on_the_command_line_wins_over_the_option_files_socket(tmp_path: Path) -> None:
    (tmp_path / "my.cnf").write_text("[client]\nsocket=/s\n")
    account = account_of(AttachSpec(host="db", option_file=str(tmp_path / "my.cnf")), {})
    assert (account.host, account.socket) == ("db", "")


def test_a_relative_socket_is_found_from_every_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers and the sampling process work in `/`. A long path is left as it is: only the short one is valid."""
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    local = account_of(AttachSpec(socket="../s"), {})
    assert local.socket == str(tmp_path / "s")
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    monkeypatch.chdir(deep)
    assert account_of(AttachSpec(socket="./s"), {}).socket == "./s"
