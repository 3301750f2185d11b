"""A server that keeps hundreds of statements of each thread: none of ours is cut or lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from scratch_server import scratch_server

from volbench.machine.engine.connection import Account
from volbench.measure.sample.own_account import OwnAccount
from volbench.measure.sample.parsers.performance_schema import OWN_HISTORY, OWN_THREAD_QUERY
from volbench.validation.source.server import read_only

HISTORY = (
    "--group-concat-max-len=1024",  # as MySQL has it; MariaDB's is 1 MiB
    "--performance-schema=ON",
    "--performance-schema-events-statements-history-size=500",
    "--performance-schema-consumer-events-statements-current=ON",
    "--performance-schema-consumer-events-statements-history=ON",
)


@pytest.mark.mysqld
def test_a_long_history_of_our_statements_is_read_whole(tmp_path: Path) -> None:
    """A server cuts GROUP_CONCAT unless the session asks for more: what is left of a line was a traceback."""
    with (
        scratch_server(tmp_path, *HISTORY) as server,
        read_only(Account(user="root", socket=str(server.socket)), snapshot=False) as source,
    ):
        ((thread,),) = source.query(OWN_THREAD_QUERY)
        for number in range(600):
            source.query(f"SELECT {number}")
        ((history,),) = source.query(OWN_HISTORY.format(thread=int(thread)))
    own = OwnAccount()
    own.book(str(history))
    assert own.count == 500
