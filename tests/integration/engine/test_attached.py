"""A server of somebody else: only asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from supervised_engine import DATASET, Engine

from volbench.core.records.cell import AttachSpec
from volbench.errors import MissingPrerequisite, UsageError
from volbench.machine.engine.attached import PASSWORD_VARIABLE, AttachedServer
from volbench.machine.engine.server import ACCOUNT_FILE, Server
from volbench.machine.engine.template import (
    Template,
)


class TestAttached:
    @pytest.fixture
    def running(self, engine: Engine, template: Template) -> Iterator[Server]:
        with engine.seeded(template) as bench:
            server = bench.server()
            server.start()
            yield server

    def test_answers_with_the_password_of_an_option_file(self, running: Server) -> None:
        with AttachedServer(AttachSpec(option_file=str(running.option_file))) as attached:
            assert attached.query("SELECT COUNT(*) FROM sbtest.sbtest1") == [(DATASET.rows,)]
            assert attached.facts().version == running.facts().version
            assert attached.data_dir == running.data_dir
            assert attached.alive()
            assert attached.option_file.stat().st_mode & 0o777 == 0o600
            private = attached.option_file
            for refused in (attached.start, attached.stop, attached.kill, attached.initialise):
                with pytest.raises(MissingPrerequisite, match="did not start"):
                    refused()
            assert running.alive()
        assert not private.exists()

    def test_a_wrong_password_is_a_usage_error_that_does_not_show_it(
        self, running: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(PASSWORD_VARIABLE, "wrong-one")
        with pytest.raises(UsageError, match="denied access to 'root'") as caught:
            AttachedServer(AttachSpec(socket=str(running.socket)))
        assert "wrong-one" not in str(caught.value)
        monkeypatch.setenv(PASSWORD_VARIABLE, (running.data_dir / ACCOUNT_FILE).read_text())
        AttachedServer(AttachSpec(socket=str(running.socket))).close()

    def test_an_account_that_the_server_refuses_is_no_silent_server(self, running: Server, tmp_path: Path) -> None:
        """An expired password, a locked account: each server's own errors."""
        running.query("CREATE USER late@localhost IDENTIFIED BY 'of-a-test'")
        options = tmp_path / "late.cnf"
        options.touch(mode=0o600)
        options.write_text(f"[client]\nuser=late\npassword=of-a-test\nsocket={running.socket}\n")
        AttachedServer(AttachSpec(option_file=str(options))).close()
        for change, reason in (("PASSWORD EXPIRE", "its password has expired"), ("ACCOUNT LOCK", "it is locked")):
            running.query(f"ALTER USER late@localhost {change}")
            with pytest.raises(UsageError, match=f"refuses the account 'late': {reason}"):
                AttachedServer(AttachSpec(option_file=str(options)))

    def test_nobody_at_the_place_is_lacking(self, tmp_path: Path) -> None:
        with pytest.raises(MissingPrerequisite, match="does not answer"):
            AttachedServer(AttachSpec(socket=str(tmp_path / "none.sock")))
        with pytest.raises(MissingPrerequisite, match="does not answer"):
            AttachedServer(AttachSpec(host="127.0.0.1", port=1))
