"""The client programs that are installed here give no password to a stranger, with TLS or without."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from rogue_server import RogueServer, any_certificate

from volbench.errors import UsageError
from volbench.machine.engine.connection import Account, MemoryFile, check_client
from volbench.machine.engine.sysbench.config import sysbench_files

pytestmark = pytest.mark.mysqld
PASSWORD = "s3cret-of-production"
BOUND_S = 15.0
LOG = """# Time: 2026-01-01T00:00:00.000000Z
# User@Host: app[app] @ localhost []  Id: 1
# Query_time: 0.000001  Lock_time: 0.000000 Rows_sent: 0  Rows_examined: 0
select 1;
"""
REQUESTS = [
    {"plugin": "mysql_clear_password"},
    {"plugin": "sha256_password"},
    {"plugin": "caching_sha2_password", "full": True},
    {"first_plugin": "caching_sha2_password", "full": True},
    {"first_plugin": "mysql_clear_password"},
]


def run(program: str, account: Account, directory: Path) -> None:
    """Start a program as volbench does, with the account's option file."""
    if program == "sysbench":
        with sysbench_files(account, "x") as files:
            argv = [f"--config-file={files.config}", "oltp_read_only", "--tables=1", "--time=1", "run"]
            environment = {**os.environ, **files.environment}
            execute(["sysbench", *argv], cwd=files.directory, env=environment)
        return
    options = MemoryFile(account.option_file_text())
    if program == "pt-upgrade":
        (directory / "q.log").write_text(LOG)
        source = f"F={options.path},D=x"
        execute([program, "--config", "", "--no-version-check", source, source, str(directory / "q.log")])
        return
    arguments = {
        "mysql": ["-e", "SELECT 1"],
        "mysqldump": ["x"],
        "mydumper": ["--outputdir", str(directory / "out")],
        "myloader": ["--directory", str(directory)],
    }
    argv = [program, f"--defaults-file={options.path}", *arguments[program]]
    try:
        check_client(argv)
    except UsageError:
        return  # MySQL's: it is not started
    execute(argv)


def execute(argv: list[str], **more: object) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):  # the stranger let it in and answers nothing
        subprocess.run(argv, capture_output=True, timeout=BOUND_S, check=False, **more)  # type: ignore[call-overload]


@pytest.mark.parametrize("program", ["mysql", "mysqldump", "mydumper", "myloader", "sysbench", "pt-upgrade"])
def test_no_client_program_gives_a_stranger_the_password(tmp_path: Path, program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    any_one = any_certificate(tmp_path)
    for request in REQUESTS:
        for certificate in (None, any_one):
            with RogueServer(certificate=certificate, **request).serving() as server:  # type: ignore[arg-type]
                run(program, Account(user="u", password=PASSWORD, host="127.0.0.1", port=server.port), tmp_path)
            assert PASSWORD.encode() not in server.received, (request, certificate)
