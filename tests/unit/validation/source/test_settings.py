"""Variables that matter and rights that are missing: named, and never taken for equal."""

from __future__ import annotations

import pytest

from volbench.errors import MissingPrerequisite
from volbench.validation.source.advisors import advice
from volbench.validation.source.rights import check_rights, missing_rights
from volbench.validation.source.server import Rows
from volbench.validation.source.settings import settings_check

SOURCE = {
    "sql_mode": "STRICT_TRANS_TABLES,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION",
    "max_connections": "500",
    "sync_binlog": "1",
    "query_cache_size": "1048576",
    "aria_sort": "1",
    "collation_server": "utf8_general_ci",
    "autocommit": "ON",
}
SAME = {
    "sql_mode": "NO_ENGINE_SUBSTITUTION,STRICT_TRANS_TABLES",
    "max_connections": "500",
    "sync_binlog": "1",
    "collation_server": "utf8mb3_general_ci",
    "autocommit": "1",
}


def test_what_versions_only_write_differently_is_equal() -> None:
    check = settings_check(SOURCE, SAME, frozenset(), ())
    assert (check.decision, check.details) == ("go", ())


def test_a_difference_that_matters_is_named_with_its_effect() -> None:
    check = settings_check(SOURCE, {**SAME, "sync_binlog": "0", "max_connections": "151"}, frozenset(), ())
    assert check.decision == "no-go"
    assert check.details == (
        "sync_binlog: '1' became '0': commits have another durability",
        "max_connections: '500' became '151': more clients are refused",
    )


def test_a_difference_that_the_plan_accepts_is_told_and_decides_nothing() -> None:
    check = settings_check(SOURCE, {**SAME, "sync_binlog": "0"}, frozenset(), ("sync_binlog",))
    output = "accepted: sync_binlog: '1' became '0': commits have another durability"
    assert (check.decision, check.details) == ("go", (output,))


def test_what_was_set_and_is_unknown_there_is_told_by_name() -> None:
    assert settings_check(SOURCE, SAME, {"query_cache_size"}, ()).details == (
        "query_cache_size = '1048576': set on the source, unknown to the candidate; remove it from my.cnf",
    )
    assert "unknown which of them" in settings_check(SOURCE, SAME, None, ()).details[0]


READER = "GRANT SELECT, SHOW VIEW, TRIGGER, EVENT, EXECUTE, PROCESS ON *.* TO `reader`@`localhost`"


@pytest.mark.parametrize(
    ("grants", "missing"),
    [
        ([READER], {}),
        (["GRANT USAGE ON *.* TO `r`@`%`", "GRANT ALL PRIVILEGES ON `shop`.* TO `r`@`%`"], {}),
        (["GRANT ALL PRIVILEGES ON `sh%`.* TO `r`@`%`"], {}),
        ([r"GRANT ALL PRIVILEGES ON `sh\_p`.* TO `r`@`%`"], {"shop": "SELECT,SHOW VIEW,TRIGGER,EVENT,EXECUTE"}),
        # With partial_revokes of MySQL.
        ([READER, "REVOKE SELECT ON `shop`.* FROM `reader`@`%`"], {"shop": "SELECT"}),
        ([READER, "REVOKE SELECT ON `other`.* FROM `reader`@`%`"], {}),
        (["GRANT SELECT, TRIGGER ON `shop`.* TO `r`@`%`"], {"shop": "SHOW VIEW,EVENT,EXECUTE"}),
        (["GRANT SELECT ON `shop`.`orders` TO `r`@`%`"], {"shop": "SELECT,SHOW VIEW,TRIGGER,EVENT,EXECUTE"}),
        # As MySQL 9.7 and MariaDB 10.11 show a role that is active, and one that is not.
        (["GRANT ALL PRIVILEGES ON `shop`.* TO `r`@`%`", "GRANT `readers`@`%` TO `r`@`%`"], {}),
        (["GRANT `readers` TO `r`@`%`", READER.replace("reader", "readers")], {}),
        (
            ["GRANT `readers` TO `r`@`%`", "GRANT USAGE ON *.* TO `r`@`%`"],
            {"shop": "SELECT,SHOW VIEW,TRIGGER,EVENT,EXECUTE"},
        ),
    ],
)
def test_rights_are_read_from_grants(grants: list[str], missing: dict[str, str]) -> None:
    result = missing_rights(grants, ["shop"])
    assert {name: ",".join(rights) for name, rights in result.items()} == missing


class Server:
    """Answers SHOW GRANTS."""

    def __init__(self, *grants: str) -> None:
        self.grants = grants

    def query(self, sql: str) -> Rows:
        assert sql == "SHOW GRANTS"
        return [(grant,) for grant in self.grants]


def test_without_select_nothing_is_begun_and_without_others_equal_is_no_proof() -> None:
    with pytest.raises(MissingPrerequisite, match="reader may not SELECT in shop") as raised:
        check_rights(Server("GRANT USAGE ON *.* TO r"), ["shop"], side="source", user="reader")
    assert raised.value.next_step == "GRANT SELECT, SHOW VIEW, TRIGGER, EVENT, EXECUTE ON `shop`.* TO this user"
    partly = Server("GRANT SELECT ON *.* TO r")
    assert check_rights(partly, ["shop"], side="source", user="reader") == [
        "reader on the source has no SHOW VIEW, TRIGGER, EVENT, EXECUTE on shop: "
        "objects that need it are not visible"
    ]
    assert check_rights(Server(READER), ["shop"], side="source", user="reader") == []


def test_percona_s_tools_are_given_texts_and_their_words_are_kept(tmp_path, monkeypatch) -> None:
    """The real tools where they are installed, else nothing."""
    output = advice(SOURCE, {**SAME, "sync_binlog": "0"})
    if "pt-config-diff" in output:
        assert "sync_binlog" in output["pt-config-diff"]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert advice(SOURCE, SAME) == {}
