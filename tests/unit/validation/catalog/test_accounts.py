"""What two logins of one account have to have in common; rows are as the servers answer."""

from __future__ import annotations

from dataclasses import replace

from volbench.errors import StepFailed
from volbench.validation.catalog.accounts import Logins, accounts_check, read_logins
from volbench.validation.source.server import Rows

NAME = "'app'@'%'"
ENDS = ("", "", "", "", 0, 0, 0, 0)


class Server:
    """One that has one account and some plugins."""

    def __init__(self, *row: object, plugins: tuple[str, ...] = ("caching_sha2_password",)) -> None:
        self.row, self.plugins = row, plugins

    def query(self, sql: str) -> Rows:
        if "information_schema.plugins" in sql:
            return [(name,) for name in self.plugins]
        return [("app", "%", *self.row, *ENDS)]


class Closed:
    """One that shows nothing of mysql.*."""

    def query(self, sql: str) -> Rows:
        raise StepFailed("a query failed", where="reading", evidence=sql)


def logins(*row: object, plugins: tuple[str, ...] = ("caching_sha2_password",)) -> Logins | None:
    return read_logins(Server(*row, plugins=plugins), mariadb=False, salt="00")


def test_one_of_several_ways_to_log_in_is_enough() -> None:
    """MariaDB's accounts may have several plugins."""
    several = logins("ed25519", '["unix_socket"]', 1, "x", None, "N", None, plugins=("unix_socket",))
    row = accounts_check(several, several, [NAME])
    assert (row.decision, row.details) == ("go", ())
    none = logins("ed25519", '["unix_socket"]', 1, "x", None, "N", None, plugins=("parsec",))
    row = accounts_check(several, none, [NAME])
    assert row.decision == "no-go"
    assert "has no plugin ed25519 or unix_socket" in row.details[0]


def test_hashes_with_a_salt_say_nothing_unless_they_are_equal() -> None:
    own = logins("caching_sha2_password", "[]", 1, "x", "N", "N", None)
    foreign = logins("caching_sha2_password", "[]", 1, "y", "N", "N", None)
    assert accounts_check(own, own, [NAME]).details == ()
    row = accounts_check(own, foreign, [NAME])
    assert row.decision == "go"
    assert row.details[0].startswith("note: the hashes do not show whether passwords are the same")


def test_an_account_by_the_socket_needs_no_password() -> None:
    own = logins("caching_sha2_password", "[]", 1, "x", "N", "N", None)
    foreign = logins("auth_socket", "[]", 0, "y", "N", "N", None, plugins=("auth_socket",))
    row = accounts_check(own, foreign, [NAME])
    assert row.decision == "go"
    assert "logs in by auth_socket instead of caching_sha2_password" in row.details[0]


def test_accounts_that_do_not_reach_the_schemas_are_not_looked_at() -> None:
    own = logins("caching_sha2_password", "[]", 1, "x", "N", "N", None)
    locked = logins("caching_sha2_password", "[]", 1, "x", "Y", "N", None)
    assert own is not None
    assert locked is not None
    second = "'other'@'%'"
    own, locked = (replace(side, accounts={**side.accounts, second: own.accounts[NAME]}) for side in (own, locked))
    assert accounts_check(own, locked, [second]).decision == "go"
    assert accounts_check(own, locked, [NAME]).decision == "no-go"


def test_what_cannot_be_seen_is_open() -> None:
    assert read_logins(Closed(), mariadb=True, salt="00") is None
    assert accounts_check(None, None, [NAME]).decision == "undecided"
