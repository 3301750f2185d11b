"""A validation that is interrupted, or killed, leaves no files, no connections, and the source as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import mysql.connector
import pytest
from featured_schema import ACCOUNTS, SCHEMA, STATEMENTS
from scratch_server import ScratchServer, scratch_server
from slow_log_writer import Shop, slow_log
from waiting import wait_for

import volbench
from volbench.machine.engine.connection import Account, connection

pytestmark = pytest.mark.mysqld
BOUND_S = 180.0
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(volbench.__file__).parents[1])}
COMMAND = [sys.executable, "-c", "from volbench.cli.main import main; main()", "validate"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ScratchServer, ScratchServer]]:
    with (
        scratch_server(tmp_path_factory.mktemp("a"), "--log-bin=b", "--server-id=1") as source,
        scratch_server(tmp_path_factory.mktemp("b")) as candidate,
    ):
        for server in (source, candidate):
            account = Account(user="root", socket=str(server.socket))
            with connection(account, timeout_s=60) as opened, opened.cursor() as cursor:
                for statement in (*ACCOUNTS, *STATEMENTS):
                    cursor.execute(statement)
        yield source, candidate


def connections(server: ScratchServer) -> int:
    """Of others than this one, and than the server's own."""
    rows = server.query("SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'root'")
    assert isinstance(rows[0][0], int)
    return rows[0][0] - 1


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_interrupted_in_a_replay(
    tmp_path: Path, pair: tuple[ScratchServer, ScratchServer], sent: signal.Signals, code: int
) -> None:
    """The replay's processes end too, and send nothing more."""
    source, candidate = pair
    (tmp_path / "slow.log").write_text("".join(slow_log(Shop(statements=3000, per_s=50, connections=10))))
    (tmp_path / "plan.yaml").write_text(
        f"schema: 2\nsource: {{socket: {source.socket}, allow_privileged: true}}\n"
        f"candidate: {{socket: {candidate.socket}, disposable: true}}\n"
        f"schemas: [{SCHEMA}]\nreplay: {{slow_log: {tmp_path / 'slow.log'}}}\n"
    )
    out, before = tmp_path / "out", source.query("SHOW MASTER STATUS")
    with (tmp_path / "said").open("wb") as opened:
        running = subprocess.Popen(
            [*COMMAND, str(tmp_path / "plan.yaml"), "--out", str(out)],
            stdout=opened,
            stderr=opened,
            env=ENVIRONMENT,
        )
    try:
        wait_for(lambda: running.poll() is not None or connections(candidate) >= 10, "the replay did not begin")
        written = candidate.query("SELECT COUNT(*) FROM shop.audit")
        wait_for(lambda: candidate.query("SELECT COUNT(*) FROM shop.audit") != written, "the replay does not write")
        running.send_signal(sent)
        assert running.wait(BOUND_S) == code, (tmp_path / "said").read_text()
    finally:
        running.kill()
        running.wait(BOUND_S)
    wait_for(lambda: connections(candidate) == 0 and connections(source) == 0, "connections are left")
    assert not out.exists()
    assert source.query("SHOW MASTER STATUS") == before
    left = candidate.query("SELECT COUNT(*) FROM shop.audit")
    time.sleep(1.0)  # nothing tells that nothing will come; the log writes several rows a second
    assert candidate.query("SELECT COUNT(*) FROM shop.audit") == left


@pytest.mark.parametrize("ending", [KeyboardInterrupt, TimeoutError])
def test_what_ends_a_block_is_not_replaced_by_the_connector(
    pair: tuple[ScratchServer, ScratchServer], ending: type[BaseException]
) -> None:
    """An interruption between a statement and its rows stays an interruption, and its connection ends."""
    account = Account(user="root", socket=str(pair[0].socket))
    before = connections(pair[0])

    def interrupted_query() -> None:
        with connection(account) as opened, opened.cursor() as cursor:
            cursor.execute("SELECT * FROM information_schema.columns")
            raise ending

    with pytest.raises(ending):
        interrupted_query()
    wait_for(lambda: connections(pair[0]) == before, "a connection is left")


def test_an_unread_result_without_an_exception_is_still_an_error(pair: tuple[ScratchServer, ScratchServer]) -> None:
    account = Account(user="root", socket=str(pair[0].socket))
    with connection(account) as opened:
        cursor = opened.cursor()
        cursor.execute("SELECT 1")
        with pytest.raises(mysql.connector.InternalError, match="Unread result"):
            cursor.close()
