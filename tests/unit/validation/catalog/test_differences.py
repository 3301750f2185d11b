"""What counts as a difference of two inventories, what is so by right, and what cannot be told."""

from __future__ import annotations

from typing import Any

from volbench.validation.catalog.differences import inventory_differences
from volbench.validation.catalog.inventory import TIME_ZONES, ZONES, read_inventory
from volbench.validation.catalog.objects import Inventory
from volbench.validation.catalog.sql_text import UNPARSED
from volbench.validation.checks import objects_check
from volbench.validation.source.server import VERSION, Rows

EMPTY: Inventory = {"account": {}, "column": {}}


def difference_of(source: Inventory, candidate: Inventory) -> list[str]:
    return [str(item) for item in inventory_differences(EMPTY | source, EMPTY | candidate)]


def test_zones_that_are_missing_or_have_other_rules_are_told_and_new_ones_are_not() -> None:
    berlin, cairo = {"time of noon": "14:00"}, {"time of noon": "15:00"}
    assert (
        difference_of(
            {"time zone": {"Europe/Berlin": berlin}},
            {"time zone": {"Europe/Berlin": berlin, "Africa/Cairo": cairo}},
        )
        == []
    )
    assert difference_of(
        {"time zone": {"Africa/Cairo": cairo}}, {"time zone": {"Africa/Cairo": {"time of noon": "14:00"}}}
    ) == ["time zone Africa/Cairo: another time of noon ('15:00' became '14:00')"]
    assert difference_of(
        {"time zone": {"Africa/Cairo": cairo, "Europe/Berlin": berlin}}, {"time zone": {"Europe/Berlin": berlin}}
    ) == ["time zone Africa/Cairo: missing on the candidate"]
    assert difference_of({"time zone": {"Africa/Cairo": cairo, "Europe/Berlin": berlin}}, {"time zone": {}}) == [
        "time zone tables mysql.time_zone_name: missing on the candidate"
    ]
    assert difference_of({"time zone": {}}, {"time zone": {"Africa/Cairo": cairo}}) == []


def test_an_account_that_reaches_the_schemas_has_to_exist_and_its_rights_are_not_listed_too() -> None:
    grants: dict[str, Any] = {
        "'app'@'%'.shop.SELECT": {"grantable": "NO"},
        "'app'@'%'.shop.UPDATE": {"grantable": "NO"},
    }
    source: Any = {"account": {"'app'@'%'": {}, "'other'@'%'": {}}, "grant on schema": grants}
    assert difference_of(source, {"account": {"'dba'@'%'": {}}, "grant on schema": {}}) == [
        "account 'app'@'%': missing on the candidate"
    ]
    own: Inventory = {"account": {"'app'@'%'": {}}, "grant everywhere": {"'dba'@'%'.SELECT": {"grantable": "NO"}}}
    assert difference_of({"account": {"'app'@'%'": {}}, "grant everywhere": {}}, own) == []


def test_the_check_within_mariadb_s_json_is_none_where_the_other_side_has_the_type() -> None:
    source: Inventory = {
        "check": {"shop.t.JSON_VALID(`j`)": {"enforced": "YES"}},
        "column": {"shop.t.j": {"type": "longtext"}},
    }
    as_json: Inventory = {"check": {}, "column": {"shop.t.j": {"type": "json"}}}
    as_text: Inventory = {"check": {}, "column": {"shop.t.j": {"type": "longtext"}}}
    assert difference_of(source, as_json) == ["column shop.t.j: another type ('longtext' became 'json')"]
    assert difference_of(source, as_text) == ["check shop.t.JSON_VALID(`j`): missing on the candidate"]


def test_texts_that_cannot_be_parsed_decide_nothing_unless_they_are_equal() -> None:
    item: Inventory = {"view": {"shop.v": {"text": f"{UNPARSED}select odd"}}}
    alternative: Inventory = {"view": {"shop.v": {"text": f"{UNPARSED}select  (odd)"}}}
    assert objects_check(EMPTY | item, EMPTY | item).decision == "go"
    row = objects_check(EMPTY | item, EMPTY | alternative)
    assert row.decision == "undecided"
    assert "cannot be compared, since the text cannot be parsed: view shop.v: another text" in row.details[0]
    gone = objects_check(EMPTY | item, EMPTY | {"view": {}})
    assert gone.decision == "no-go"


def test_rights_of_others_that_cannot_be_seen_leave_the_objects_open() -> None:
    retained: Inventory = {"grant on schema": {"'app'@'%'.shop.SELECT": {"grantable": "NO"}}}
    row = objects_check(retained, {**retained, "account": {}})
    assert row.decision == "undecided"
    assert row.details == ("accounts and their roles are not visible on the source: SELECT on mysql.* is missing",)


class Zoned:
    """A server without objects that knows all time zones but the last."""

    def query(self, sql: str) -> Rows:
        if sql == VERSION:
            return [("9.7.0", "MySQL Community Server")]
        if sql == TIME_ZONES:
            return [(*("2025-01-15 12:00:00",) * (3 * len(ZONES) - 3), None, None, None)]
        return []


def test_only_zones_that_the_server_knows_are_in_its_inventory() -> None:
    assert list(read_inventory(Zoned(), ["shop"])["time zone"]) == list(ZONES[:-1])
