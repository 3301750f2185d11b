"""sysbench's configuration file."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest

from volbench.errors import MissingPrerequisite
from volbench.machine.engine.connection import Account, account_from, read_option_file
from volbench.machine.engine.sysbench.config import sysbench_config, sysbench_files


def test_values_are_quoted_so_that_sysbench_reads_them_whole() -> None:
    """Spaces, commas and number signs would end an unquoted value."""
    text = sysbench_config(Account(user="b", password="a b,#c=d", socket="/run/s"), "sbtest")
    assert text == "mysql-user='b'\nmysql-password='a b,#c=d'\nmysql-db='sbtest'\nmysql-socket='/run/s'\n"


def test_an_apostrophe_needs_the_other_quotes() -> None:
    """Whichever kind is not in the value."""
    assert 'mysql-password="it\'s"' in sysbench_config(Account(user="b", password="it's"), "d")


@pytest.mark.parametrize("password", ["both ' and \"", "x" * 300, "line\nbreak"])
def test_what_sysbench_cannot_hold_is_refused(password: str) -> None:
    """And the message does not show it."""
    with pytest.raises(MissingPrerequisite) as caught:
        sysbench_config(Account(user="b", password=password), "d")
    assert password not in str(caught.value)


def test_without_a_socket_it_is_host_and_port() -> None:
    """Attached servers may have no socket."""
    text = sysbench_config(Account(user="b", host="127.0.0.1", port=3307), "d")
    assert "mysql-host='127.0.0.1'\n" in text
    assert "mysql-port='3307'\n" in text
    assert "mysql-socket" not in text


def test_the_file_is_private_and_goes_away(tmp_path: Path) -> None:
    """Also when the block fails."""
    option_file = tmp_path / "client.cnf"
    option_file.write_text('[client]\nuser=u\npassword="p w"\nsocket=/s\n')
    account = account_from(read_option_file(option_file))
    with contextlib.suppress(ZeroDivisionError), sysbench_files(account, "d") as files:
        path = files.config
        assert path.stat().st_mode & 0o777 == 0o600
        assert "mysql-password='p w'" in path.read_text()
        raise ZeroDivisionError
    assert not path.exists()
    assert list(tmp_path.iterdir()) == [option_file]


def test_a_directory_is_made_only_for_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed leaves its directory behind."""
    monkeypatch.setattr(tempfile, "TemporaryDirectory", pytest.fail)
    with sysbench_files(Account(user="u", socket="/s"), "d") as files:
        assert files.directory == Path("/")
