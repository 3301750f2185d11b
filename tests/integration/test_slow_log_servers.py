"""Slow logs of real servers, written now for 16 clients at once, and one replayed: each statement on its schema."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mysql.connector
import pytest
from slow_log_recorder import IMAGES, LOCAL, record, recorded_server, until_alone
from slow_log_truth import SCHEMAS, Truth, paired

from volbench.core.base.text import counted
from volbench.core.records.validation.plan import ReplayPlan
from volbench.machine.engine.connection import Account
from volbench.machine.placement import capabilities
from volbench.measure.workload.replay.general_log import OF_ROUTINES, general_log
from volbench.measure.workload.replay.logged_statement import ADMINISTRATOR, CUT, LoggedStatement
from volbench.measure.workload.replay.schedule import schedule
from volbench.measure.workload.replay.slowlog import slow_log
from volbench.validation.replay.evaluation import replay, replay_check

SERVERS = [pytest.param(LOCAL, marks=pytest.mark.mysqld), *IMAGES]
MOST = 17 << 20
_TEXT_OF_SERVER = ("prepare", "execute")


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory whose name is short enough for a socket."""
    with TemporaryDirectory(prefix="sl") as directory:
        yield Path(directory)


@pytest.mark.parametrize("name", SERVERS)
def test_all_that_16_clients_sent_is_read_and_a_replay_sends_it_on_its_schema(name: str, directory: Path) -> None:
    if (
        name in IMAGES and not capabilities.docker_image(IMAGES[name]).present
    ):  # of docker, no more than this is needed
        pytest.skip(f"needs the image {IMAGES[name]} (mend: make images)")
    with recorded_server(name, directory) as (connect, log):
        truth = record(connect, log, name=name, rounds=40, seed=7, general=True)
        before = directory / "before.log"
        shutil.move(log, before)
        with slow_log(before) as result:
            read = list(result)
        _compare(truth.version, paired(truth, read))
        _compare_general(truth, directory / "general.log")
        assert result.skipped.keys() <= {ADMINISTRATOR}
        with connect() as root, root.cursor() as cursor:
            cursor.execute("SET GLOBAL slow_query_log = ON")
        plan = ReplayPlan.model_validate({"slow_log": str(before), "late_max": "99%", "errors_max": "99%"})
        account = Account(user="root", socket=str(directory / "s"))
        replayed = replay(plan, account, schemas=SCHEMAS, writes=True, progress=lambda *_: None)
        _send_much(connect)
        with connect() as root, root.cursor() as cursor:
            until_alone(root)
            cursor.execute("SET GLOBAL slow_query_log = OFF")
        with slow_log(log) as found_again:
            again = list(found_again)
    assert replayed.statements + sum(replayed.excluded.values()) == result.entries
    text = " ".join(replay_check(replayed, plan).details)
    assert all(
        f"skipped {counted(count, 'statement')} {reason}" in text for reason, count in replayed.excluded.items()
    )
    due = schedule(read, schemas=SCHEMAS, writes=True, speed=1, seconds=3600, connections_max=128)
    expected = Counter(
        (item.schema, item.sql) for lane in due.connections for item in lane if _is_logged(truth.version, item.sql)
    )
    assert not expected - Counter((item.schema or "", item.sql) for item in again)
    assert max(len(item.sql) for item in again) > MOST


def _compare(version: str, pairs: Iterable[tuple[Any, LoggedStatement]]) -> None:
    for sent, item in pairs:
        expected = sent.schema
        assert item.schema == expected or (not expected and "MariaDB" not in version), sent
        sql = item.sql.encode("utf-8", "surrogateescape")
        assert sql == (sent.sql.encode("latin-1") or sql), sent


def _compare_general(truth: Truth, path: Path) -> None:
    """Each connection's statements with their schemas, in order; those of routines are left out."""
    with general_log(path) as log:
        read = list(log)
    sent: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for item in truth.sent:
        if item.kind not in {"routine", "syntax error"}:
            sent[item.connection].append((item.schema, "" if item.kind in _TEXT_OF_SERVER else item.sql))
    logged: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for statement in read:
        sql = statement.sql.encode("utf-8", "surrogateescape").decode("latin-1").rstrip().rstrip(";").rstrip()
        if not sql.startswith("EXECUTE once"):  # what it executes is an entry of its own
            text = "" if sql.startswith("PREPARE once") or sql.endswith("name = 'x'") else sql
            logged[statement.connection].append((statement.schema or "", text))
    assert {connection: logged[connection] for connection in sent} == sent
    assert log.skipped.keys() <= {ADMINISTRATOR, CUT, OF_ROUTINES}
    assert log.skipped[CUT] == sum(item.kind == "syntax error" for item in truth.sent)


def _is_logged(version: str, sql: str) -> bool:
    """MySQL writes no statement with an error of syntax, and another text of what prepares one."""
    return "MariaDB" in version or "once" not in sql


def _send_much(connect: object) -> None:
    with connect(database=SCHEMAS[0]) as opened, opened.cursor() as cursor:  # type: ignore[operator]
        with suppress(mysql.connector.Error):
            cursor.execute(f"SELECT LENGTH('{'x' * MOST}')")
        cursor.fetchall()
