"""What pt-table-checksum itself left on a real replica: differences by table, and when it proves nothing."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest
from featured_schema import ACCOUNTS, SCHEMA, STATEMENTS
from own_ca import free_port
from scratch_server import ScratchServer, scratch_server

from volbench.core.records.validation.plan import ReplicaPlan
from volbench.core.records.validation.result import CheckRow
from volbench.machine.engine.connection import Account, connection
from volbench.validation.catalog.inventory import read_inventory
from volbench.validation.data.replicas import replica_check
from volbench.validation.source.server import read_only

pytestmark = [
    pytest.mark.mysqld,
    pytest.mark.skipif(shutil.which("mariadbd") is None, reason="the pair is set up in MariaDB's words"),
    pytest.mark.skipif(shutil.which("pt-table-checksum") is None, reason="pt-table-checksum is not installed"),
]
PLAN = ReplicaPlan(on="candidate")
BOUND_S = 60


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ScratchServer, ScratchServer]]:
    """A primary and its replica, with the same rows."""
    port = free_port()
    listening = ("--skip-networking=0", "--bind-address=127.0.0.1", f"--port={port}")
    with (
        scratch_server(tmp_path_factory.mktemp("a"), "--log-bin=b", "--server-id=1", *listening) as primary,
        scratch_server(tmp_path_factory.mktemp("b"), "--server-id=2") as replica,
    ):
        primary.query("CREATE USER repl@'127.0.0.1' IDENTIFIED BY 'repl'")
        primary.query("GRANT REPLICATION SLAVE ON *.* TO repl@'127.0.0.1'")
        replica.query(f"SET GLOBAL gtid_slave_pos = '{position(primary)}'")
        replica.query(
            f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'repl', "
            "MASTER_PASSWORD = 'repl', MASTER_USE_GTID = slave_pos"
        )
        replica.query("START SLAVE")
        with connection(account_of(primary), timeout_s=60) as opened, opened.cursor() as cursor:
            for statement in (*ACCOUNTS, *STATEMENTS):
                cursor.execute(statement)
        follow(primary, replica)
        yield primary, replica


def account_of(server: ScratchServer) -> Account:
    return Account(user="root", socket=str(server.socket))


def position(primary: ScratchServer) -> object:
    return primary.query("SELECT @@GLOBAL.gtid_binlog_pos")[0][0]


def follow(primary: ScratchServer, replica: ScratchServer) -> None:
    """Until the replica has all."""
    assert replica.query(f"SELECT MASTER_GTID_WAIT('{position(primary)}', 25)") == [(0,)]


def checksum(primary: ScratchServer, replica: ScratchServer) -> None:
    subprocess.run(
        [
            "pt-table-checksum",
            "--config",
            "",
            "--no-version-check",
            "--no-check-binlog-format",
            "--recursion-method=none",
            "--no-check-replication-filters",
            f"--databases={SCHEMA}",
            f"S={primary.socket},u=root",
        ],
        check=True,
        capture_output=True,
        timeout=BOUND_S,
    )
    follow(primary, replica)


def checked(server: ScratchServer, plan: ReplicaPlan = PLAN) -> CheckRow:
    with read_only(account_of(server)) as reader:
        return replica_check(reader, plan, [SCHEMA], read_inventory(reader, [SCHEMA])["table"])


def test_a_chunk_that_differs_on_the_replica_is_named_and_none_is_invented(
    pair: tuple[ScratchServer, ScratchServer],
) -> None:
    primary, replica = pair
    assert checked(replica).text == "percona.checksums cannot be read on the candidate"
    checksum(primary, replica)
    clean = checked(replica)
    assert (clean.decision, clean.details) == ("go", ())
    assert clean.text.startswith("6 tables, all equal")
    replica.query("UPDATE shop.customers SET name = 'drifted' WHERE id = 7")
    replica.query("DELETE FROM shop.items WHERE order_id = 9")
    assert checked(replica).decision == "go"  # it says what was so when the tool ran
    checksum(primary, replica)
    row = checked(replica)
    assert row.decision == "no-go"
    assert row.details[0] == "shop.customers: 1 of 1 chunks differ"
    assert row.details[1].startswith("shop.items: 1 of 1 chunks differ, -")
    assert len(row.details) == 2
    replica.query("CREATE TABLE shop.newer (id INT PRIMARY KEY)")
    replica.query("UPDATE percona.checksums SET this_crc = master_crc, this_cnt = master_cnt")
    try:
        assert checked(replica).details == ("shop.newer has no checksums",)
    finally:
        replica.query("DROP TABLE shop.newer")


def test_where_it_proves_nothing_nothing_is_decided(pair: tuple[ScratchServer, ScratchServer]) -> None:
    """On a primary, by old results, and by a chunk whose other side has not come yet."""
    primary, replica = pair
    checksum(primary, replica)
    row = checked(primary)
    assert (row.decision, row.details) == (
        "undecided",
        ("the candidate is no replica, where every checksum equals itself",),
    )
    replica.query(
        "UPDATE percona.checksums SET this_crc = master_crc, this_cnt = master_cnt, ts = NOW() - INTERVAL 9 DAY"
    )
    assert "216 h old" in checked(replica).details[0]
    assert checked(replica, PLAN.model_copy(update={"not_older_s": 10 * 86400.0})).decision == "go"
    replica.query(
        "UPDATE percona.checksums SET master_cnt = NULL, master_crc = NULL, ts = NOW() WHERE tbl = 'heap'"
    )
    assert "shop.heap is not finished" in checked(replica).details
    renamed = "CHANGE master_crc source_crc CHAR(40), CHANGE master_cnt source_cnt INT"  # as the toolkit did later
    replica.query(f"ALTER TABLE percona.checksums {renamed}")
    assert "shop.heap is not finished" in checked(replica).details
