"""Logs that real servers wrote for 16 clients at once, against what the clients noted that they sent.

Made by tests/support/slow_log_recorder.py: four schemas, two clients without any, prepared statements, routines,
literals that look like entries, binary data, errors, the log opened again half-way.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from slow_log_truth import SCHEMAS, Truth, paired, read_truth

from volbench.core.sql.fingerprint import fingerprint
from volbench.measure.workload.replay.logged_statement import ADMINISTRATOR, LoggedStatement
from volbench.measure.workload.replay.schedule import schedule
from volbench.measure.workload.replay.slowlog import SlowLog, slow_log
from volbench.validation.queries.classes import query_classes

LOGS = Path(__file__).resolve().parents[3] / "fixtures/slowlog"
SERVERS = ("mysql-9.7", "mariadb-10.11", "mariadb-11.8")


def both(name: str) -> tuple[Truth, SlowLog, list[LoggedStatement]]:
    truth = read_truth(LOGS / name / "truth.json")
    with slow_log(LOGS / name / "slow.log") as log:
        return truth, log, list(log)


@pytest.mark.parametrize("name", SERVERS)
def test_every_statement_is_read_as_it_was_sent(name: str) -> None:
    truth, log, read = both(name)
    for sent, statement in paired(truth, read):
        if sent.sql:
            assert statement.sql.encode("utf-8", "surrogateescape") == sent.sql.encode("latin-1"), sent
        assert bool(statement.routine) == (sent.kind == "routine")
    assert len(read) == len(truth.sent) == log.used
    assert log.skipped.keys() <= {ADMINISTRATOR}


@pytest.mark.parametrize("name", SERVERS)
def test_every_statement_has_its_schema(name: str) -> None:
    """MySQL writes nothing of an entry without a schema, so such a one seems to be of the log's last `use`."""
    truth, _, read = both(name)
    messages = [item for item in paired(truth, read) if item[0].schema or name != "mysql-9.7"]
    assert len(messages) > 0.8 * len(read)
    assert [item.schema for _, item in messages] == [item.schema for item, _ in messages]
    assert {item.schema for _, item in messages} >= set(SCHEMAS)


@pytest.mark.parametrize("name", SERVERS)
def test_the_server_counted_as_many_entries(name: str) -> None:
    """Slow_queries is the server's own count; MySQL's counts a CALL twice and writes it once."""
    truth, log, _ = both(name)
    calls = sum(item.kind == "call" for item in truth.sent)
    assert log.entries == truth.slow_queries - (calls if name == "mysql-9.7" else 0)


@pytest.mark.parametrize("name", SERVERS)
def test_statements_of_one_kind_are_one_class_and_others_are_not(name: str) -> None:
    truth, _, read = both(name)
    of = defaultdict(set)
    qualified = {f"`{schema}`." for schema in SCHEMAS}
    for sent, statement in paired(truth, read):
        if sent.sql and sent.kind not in {"other", "use", "call", "prepare", "several"} and sent.schema:
            shape = fingerprint(statement.sql)
            assert not any(item in shape for item in qualified)
            of[sent.kind].add(shape)
    assert {kind: shapes for kind, shapes in of.items() if len(shapes) > 1} == {}
    assert of.pop("binary data") == of["insert"]  # two rows are of the class of one
    assert len({next(iter(shapes)) for shapes in of.values()}) == len(of) > 10


@pytest.mark.parametrize("name", SERVERS)
def test_starts_are_when_the_clients_sent(name: str) -> None:
    truth, _, read = both(name)
    allowed_s = 0.5 if name == "mysql-9.7" else 1.0
    slept = [(sent, item) for sent, item in paired(truth, read) if sent.kind == "sleep"]
    assert len(slept) == 2
    for sent, result in slept:
        assert result.query_s == pytest.approx(1.3, abs=0.01)
        assert -allowed_s <= result.at_s - sent.sent_s <= 0.5


@pytest.mark.parametrize("name", SERVERS)
def test_a_replay_and_the_query_classes_have_them_all(name: str) -> None:
    """What is sent and what is left out are all entries of the log, each on its own schema."""
    truth, log, read = both(name)
    result = schedule(read, schemas=SCHEMAS, writes=True, speed=1, seconds=3600, connections_max=64)
    assert result.statements + sum(result.skipped.values()) + sum(log.skipped.values()) == log.entries
    sent_on = {(due.connection, due.sql): due.schema for lane in result.connections for due in lane}
    for sent, item in paired(truth, read):
        if sent.schema and sent.kind in {"select", "several", "insert", "binary data", "after use", "forged"}:
            assert sent_on[item.connection, item.sql] == sent.schema
    classes = {
        (query_class_name.schema, query_class_name.fingerprint): query_class_name.count
        for query_class_name in query_classes(read, SCHEMAS)
    }
    shape = "select name from customers where name <> ? and id = ?"
    for schema in SCHEMAS:
        expected = sum(item.kind == "select" and item.schema == schema for item in truth.sent)
        assert classes[schema, shape] == expected


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("size", [1, 7, 4096])
def test_where_the_file_is_divided_makes_no_difference(name: str, size: int) -> None:
    text = (LOGS / name / "slow.log").read_bytes()[: 40_000 if size == 1 else None]
    text = text[: text.rindex(b"\n# User@Host") + 1]
    total = text.decode("utf-8", "surrogateescape")
    pieces = [total[at : at + size] for at in range(0, len(total), size)]
    assert list(SlowLog(pieces, name="pieces")) == list(SlowLog([total], name="whole"))
