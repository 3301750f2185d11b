"""How accounts log in on real servers: what a new server does not have, and what holds an account back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mysql_container import mysql_container
from scratch_server import scratch_server

from volbench.core.records.validation.result import CheckRow
from volbench.machine.engine.connection import Account, connection, rows
from volbench.validation.catalog.accounts import accounts_check, new_salt, read_logins
from volbench.validation.catalog.inventory import is_mariadb
from volbench.validation.source.server import read_only

pytestmark = pytest.mark.mysqld
EXPECTED = ("'app'@'localhost'", "'batch'@'localhost'", "'gone'@'localhost'")
MADE = (
    "CREATE USER app@localhost IDENTIFIED BY 'a secret' WITH MAX_USER_CONNECTIONS 50",
    "CREATE USER batch@localhost IDENTIFIED BY 'another' REQUIRE X509",
)
TAKEN_BACK = "DROP USER app@localhost, batch@localhost"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Account, Account]]:
    """Two servers of the local flavor."""
    with (
        scratch_server(tmp_path_factory.mktemp("a")) as item,
        scratch_server(tmp_path_factory.mktemp("b")) as second,
    ):
        pair = (Account(user="root", socket=str(item.socket)), Account(user="root", socket=str(second.socket)))
        for account in pair:
            send(account, *MADE)
        yield pair


@pytest.fixture(scope="module")
def mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with mysql_container(tmp_path_factory.mktemp("socket")) as account:
        send(account, *MADE)
        yield account


def send(account: Account, *statements: str) -> None:
    with connection(account, timeout_s=60) as opened, opened.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def checked(source: Account, candidate: Account) -> CheckRow:
    salt = new_salt()
    with read_only(source) as a, read_only(candidate) as b:
        own, foreign = (read_logins(item, mariadb=is_mariadb(item), salt=salt) for item in (a, b))
        assert not any(salt in shape for shape in a.statements)
    return accounts_check(own, foreign, EXPECTED)


@pytest.mark.parametrize(
    ("planted", "message"),
    [
        ("ALTER USER app@localhost ACCOUNT LOCK", "another locked ('no' became 'yes')"),
        ("ALTER USER app@localhost PASSWORD EXPIRE", "another password expired ('no' became 'yes')"),
        ("ALTER USER app@localhost PASSWORD EXPIRE INTERVAL 9 DAY", "days a password lasts ('' became '9')"),
        ("ALTER USER app@localhost WITH MAX_USER_CONNECTIONS 5", "another max_user_connections ('50' became '5')"),
        ("ALTER USER app@localhost REQUIRE SSL", "another ssl_type ('' became 'ANY')"),
        ("ALTER USER batch@localhost REQUIRE NONE", "another ssl_type ('X509' became '')"),
        ("SET PASSWORD FOR app@localhost = ''", "'app'@'localhost' has no password on the candidate"),
    ],
)
def test_what_holds_an_account_back_is_named(local: tuple[Account, Account], planted: str, message: str) -> None:
    source, candidate = local
    clean = checked(source, candidate)
    assert (clean.decision, clean.text) == ("go", "2 accounts can log in"), clean
    send(candidate, planted)
    try:
        row = checked(source, candidate)
    finally:
        send(candidate, TAKEN_BACK, *MADE)
    assert row.decision == "no-go"
    assert message in "\n".join(row.details), row.details
    assert row.text == "1 differs, of 2 accounts"


def test_another_password_is_seen_where_hashes_tell_and_shown_nowhere(local: tuple[Account, Account]) -> None:
    source, candidate = local
    with read_only(source) as server:
        if not is_mariadb(server):
            pytest.skip("does not apply: caching_sha2_password salts its hashes")
    send(candidate, "SET PASSWORD FOR app@localhost = PASSWORD('not the same')")
    try:
        row = checked(source, candidate)
    finally:
        send(candidate, TAKEN_BACK, *MADE)
    assert row.details == ("'app'@'localhost' has another password",)
    hashes = rows(source, "SELECT authentication_string FROM mysql.user WHERE user = 'app'")
    assert str(hashes[0][0]) not in row.model_dump_json()


@pytest.mark.docker
def test_accounts_made_anew_on_mysql_9_can_log_in_by_another_plugin(
    local: tuple[Account, Account], mysql: Account
) -> None:
    row = checked(local[0], mysql)
    assert row.decision == "go", row.details
    text = "\n".join(row.details)
    assert "'app'@'localhost' logs in by caching_sha2_password instead of mysql_native_password" in text
    assert "since the candidate has no mysql_native_password" in text
    assert "are the same; log in once as 'app'@'localhost', 'batch'@'localhost'" in text


@pytest.mark.docker
def test_an_account_of_a_plugin_that_mysql_9_has_no_more_cannot_log_in(
    local: tuple[Account, Account], mysql: Account
) -> None:
    """As it comes with a data directory that an older version wrote; and so it is: the server refuses it."""
    hashed = rows(local[0], "SELECT authentication_string FROM mysql.user WHERE user = 'app'")[0][0]
    send(
        mysql,
        f"UPDATE mysql.user SET plugin = 'mysql_native_password', authentication_string = '{hashed}' "
        "WHERE user = 'app'",
        "FLUSH PRIVILEGES",
    )
    try:
        row = checked(local[0], mysql)
        with pytest.raises(Exception, match="mysql_native_password"):
            rows(Account(user="app", password="a secret", socket=mysql.socket), "SELECT 1")
    finally:
        send(mysql, TAKEN_BACK, *MADE)
    assert row.decision == "no-go"
    assert row.details[0].startswith(
        "'app'@'localhost' cannot log in on the candidate, which has no plugin mysql_native_password"
    )


def test_where_accounts_cannot_be_seen_nothing_is_decided(local: tuple[Account, Account]) -> None:
    source, candidate = local
    low = Account(user="low", password="low", socket=candidate.socket)
    send(candidate, "CREATE USER low@localhost IDENTIFIED BY 'low'")
    try:
        row = checked(source, low)
    finally:
        send(candidate, "DROP USER low@localhost")
    assert (row.decision, "of the candidate" in row.text) == ("undecided", True)
