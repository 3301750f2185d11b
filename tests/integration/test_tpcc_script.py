"""The script of the suite `tpcc` on a real server: its data keep the standard's consistency conditions."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from scratch_server import ScratchServer, scratch_server

from volbench.core.suite.bundled import bundled_path

pytestmark = pytest.mark.mysqld
CONDITIONS = {
    "3.3.2.1: what a warehouse took is what its districts took": (
        "SELECT COUNT(*) FROM tpcc.warehouse1"
        " WHERE w_ytd <> (SELECT SUM(d_ytd) FROM tpcc.district1 WHERE d_w_id = w_id)"
    ),
    "3.3.2.2: the next order follows the last one": (
        "SELECT COUNT(*) FROM tpcc.district1 WHERE d_next_o_id - 1 <>"
        " (SELECT MAX(o_id) FROM tpcc.orders1 WHERE o_w_id = d_w_id AND o_d_id = d_id)"
    ),
    "3.3.2.3: new orders have no gap": (
        "SELECT COUNT(*) FROM (SELECT 1 FROM tpcc.new_orders1 GROUP BY no_w_id, no_d_id"
        " HAVING MAX(no_o_id) - MIN(no_o_id) + 1 <> COUNT(*)) gaps"
    ),
    "3.3.2.4: an order has its lines": (
        "SELECT (SELECT SUM(o_ol_cnt) FROM tpcc.orders1) - (SELECT COUNT(*) FROM tpcc.order_line1)"
    ),
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ScratchServer, str]]:
    with scratch_server(tmp_path_factory.mktemp("s"), "--innodb-flush-log-at-trx-commit=0") as server:
        server.query("CREATE DATABASE tpcc")
        ended = sysbench(server, "prepare", "--threads=2")
        assert "FATAL" not in ended, ended
        yield server, sysbench(server, "run", "--threads=8", "--time=8", "--mysql-ignore-errors=1213,1205,1020")


def sysbench(server: ScratchServer, command: str, *options: str) -> str:
    script = bundled_path(Path("suites/lua/tpcc.lua"))
    argv = ["sysbench", str(script), "--db-driver=mysql", f"--mysql-socket={server.socket}", "--mysql-user=root"]
    ended = subprocess.run(
        [*argv, "--mysql-db=tpcc", "--scale=1", *options, command],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return ended.stdout + ended.stderr


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_data_are_consistent_after_a_load(loaded: tuple[ScratchServer, str], condition: str) -> None:
    server, output = loaded
    assert "FATAL" not in output, output
    ((count,),) = server.query(CONDITIONS[condition])
    assert int(str(count)) == 0


def test_each_transaction_of_the_mix_was_made(loaded: tuple[ScratchServer, str]) -> None:
    """Orders of the load, payments, deliveries; and no more orders are missing than the standard rolls back."""
    server, output = loaded
    ((orders,),) = server.query("SELECT COUNT(*) - 30000 FROM tpcc.orders1")
    ((payments,),) = server.query("SELECT COUNT(*) - 30000 FROM tpcc.history1")
    ((deliveries,),) = server.query("SELECT 9000 + COUNT(*) FROM tpcc.orders1 WHERE o_id > 3000")
    ((waiting,),) = server.query("SELECT COUNT(*) FROM tpcc.new_orders1")
    assert int(str(orders)) > 20, output
    assert int(str(payments)) > 20
    assert int(str(deliveries)) > int(str(waiting))
    assert 0.7 < int(str(orders)) / int(str(payments)) < 1.5  # 45 to 43 of a hundred
    assert int(str(server.query("SELECT COUNT(*) FROM tpcc.customer1 WHERE c_delivery_cnt > 0")[0][0])) > 0
