"""User and password swapped in an option file: no message shows what stands in the user's place."""

from __future__ import annotations

from pathlib import Path

import pytest
from rogue_server import RogueServer

from volbench.core.records.cell import AttachSpec
from volbench.errors import MissingPrerequisite, UsageError
from volbench.machine.engine.attached import AttachedServer, account_of
from volbench.machine.engine.connection import write_private
from volbench.validation.source.server import read_only

SECRET = "s3cret-of-production"
DENIED = b"\xff\x15\x04#28000Access denied for user '" + SECRET.encode() + b"'@'localhost' (using password: YES)"


def swapped(directory: Path, port: int, user: str = "bench") -> AttachSpec:
    file = directory / "swapped.cnf"
    write_private(file, f'[client]\nuser="{SECRET}"\npassword="bench"\n')
    return AttachSpec(host="127.0.0.1", port=port, user=user, option_file=str(file))


def test_a_login_that_is_refused_shows_no_user_of_an_option_file(tmp_path: Path) -> None:
    with RogueServer(refusal=DENIED).serving() as server:
        attach = swapped(tmp_path, server.port)
        with pytest.raises(UsageError, match="denied access to the user of the option file") as refused:
            AttachedServer(attach)
        assert SECRET not in str(refused.value)
        assert "not swapped" in refused.value.next_step
        with pytest.raises(MissingPrerequisite) as unread, read_only(account_of(attach, {})):
            pass
        assert SECRET not in str(unread.value)
        assert "not swapped" in unread.value.next_step


def test_a_user_that_was_typed_is_shown(tmp_path: Path) -> None:
    assert account_of(swapped(tmp_path, 1, user=SECRET), {}).shown_user == repr(SECRET)
    assert account_of(AttachSpec(host="db1", user="bench"), {}).shown_user == "'bench'"
