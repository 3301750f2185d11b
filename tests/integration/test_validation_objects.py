"""Objects of real servers: what is printed in two ways is one thing, and each planted difference is named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mysql_container import mysql_container
from printed_differently import FAULTS, HIDDEN, SCHEMA, SESSION, STATEMENTS
from scratch_server import scratch_server

from volbench.machine.engine.connection import Account, connection
from volbench.validation.catalog.differences import inventory_differences
from volbench.validation.catalog.inventory import is_mariadb, read_inventory
from volbench.validation.catalog.objects import Inventory
from volbench.validation.source.server import read_only

pytestmark = pytest.mark.mysqld


def send(account: Account, *statements: str, schema: str = "") -> None:
    with connection(account, schema, timeout_s=60) as opened, opened.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def inventory_of(account: Account) -> Inventory:
    with read_only(account) as server:
        return read_inventory(server, [SCHEMA])


def differences(source: Inventory, candidate: Inventory) -> list[str]:
    return [str(item) for item in inventory_differences(source, candidate)]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with scratch_server(tmp_path_factory.mktemp("local")) as server:
        account = Account(user="root", socket=str(server.socket))
        send(account, "DROP USER bench@localhost", *STATEMENTS)
        yield account


@pytest.fixture(scope="module")
def mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with mysql_container(tmp_path_factory.mktemp("socket")) as account:
        send(account, *STATEMENTS)
        yield account


@pytest.mark.docker
def test_what_both_flavors_print_in_their_own_words_is_no_difference(local: Account, mysql: Account) -> None:
    """Views, checks, generated columns, defaults, partitions, stored settings and roles, either way round."""
    own, foreign = inventory_of(local), inventory_of(mysql)
    assert len(own["view"]) == 19
    assert len(own["check"]) == 4
    assert len(own["partition"]) == 6
    assert differences(own, foreign) == []
    assert differences(foreign, own) == []


@pytest.mark.docker
def test_each_planted_difference_is_named_on_mysql(mysql: Account) -> None:
    check_each(mysql, "mysql")


def test_each_planted_difference_is_named_on_the_local_server(local: Account) -> None:
    with read_only(local) as server:
        flavor = "mariadb" if is_mariadb(server) else "mysql"
    check_each(local, flavor)


def check_each(account: Account, flavor: str) -> None:
    """One fault at a time, and nothing but it is said; taken back, nothing is."""
    clean = inventory_of(account)
    hidden = (*HIDDEN[flavor], "index printed.b.shown.1: another visible ('YES' became 'NO')")
    for planted, undone, output in (*FAULTS, hidden):
        send(account, *SESSION, *planted.split("; "), schema=SCHEMA)
        result = differences(clean, inventory_of(account))
        assert any(text.startswith(output) for text in result), (planted, result)
        assert len(result) <= 2, (planted, result)
        send(account, *SESSION, *undone.split("; "), schema=SCHEMA)
    assert differences(clean, inventory_of(account)) == []


@pytest.mark.docker
def test_without_mysql_tables_accounts_are_said_to_be_unseen(mysql: Account) -> None:
    send(
        mysql,
        "CREATE USER limited@localhost",
        f"GRANT SELECT, SHOW VIEW, TRIGGER, EVENT, EXECUTE ON {SCHEMA}.* TO limited@localhost",
    )
    result = inventory_of(Account(user="limited", socket=mysql.socket))
    assert "account" not in result
    assert "role of an account" not in result
