"""What schemas hold, object by object, in words that are the same for MySQL and MariaDB of any version.

An inventory is kind -> object -> attribute -> text. Versions print one thing in several ways (`int(11)` and `int`,
`utf8` and `utf8mb3`, `current_timestamp()` and `CURRENT_TIMESTAMP`); those are made alike here, in one place.
"""

# ruff: noqa: S608 - names come from the server's own information_schema, and are quoted

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from volbench.validation.source import Reads

Attributes = Mapping[str, str]
Inventory = dict[str, dict[str, Attributes]]


@dataclass(frozen=True, kw_only=True)
class Part:
    """One kind of object: where it stands, which columns name it, and which describe it."""

    kind: str
    table: str
    schema_column: str
    names: tuple[str, ...]
    attributes: Mapping[str, str]
    where: str = ""


PARTS: tuple[Part, ...] = (
    Part(
        kind="schema", table="schemata", schema_column="schema_name", names=("schema_name",),
        attributes={"charset": "default_character_set_name", "collation": "default_collation_name"},
    ),
    Part(
        kind="table", table="tables", schema_column="table_schema", names=("table_schema", "table_name"),
        attributes={"engine": "engine", "collation": "table_collation", "comment": "table_comment"},
        where="table_type = 'BASE TABLE'",
    ),
    Part(
        kind="column", table="columns", schema_column="table_schema",
        names=("table_schema", "table_name", "column_name"),
        attributes={
            "position": "ordinal_position", "type": "column_type", "nullable": "is_nullable",
            "default": "column_default", "extra": "extra", "charset": "character_set_name",
            "collation": "collation_name", "generated": "generation_expression", "comment": "column_comment",
        },
    ),
    Part(
        kind="index", table="statistics", schema_column="table_schema",
        names=("table_schema", "table_name", "index_name", "seq_in_index"),
        attributes={"column": "column_name",
            "not_unique": "non_unique", "prefix": "sub_part", "type": "index_type"},
    ),
    Part(
        kind="foreign key", table="referential_constraints", schema_column="constraint_schema",
        names=("constraint_schema", "table_name", "constraint_name"),
        attributes={"to": "referenced_table_name", "on update": "update_rule",
            "on delete": "delete_rule"},
    ),
    Part(
        kind="foreign key column", table="key_column_usage", schema_column="table_schema",
        names=("table_schema", "table_name", "constraint_name", "ordinal_position"),
        attributes={"column": "column_name", "to": "referenced_column_name"},
        where="referenced_table_name IS NOT NULL",
    ),
    Part(
        kind="trigger", table="triggers", schema_column="trigger_schema", names=("trigger_schema", "trigger_name"),
        attributes={
            "table": "event_object_table", "time": "action_timing", "event": "event_manipulation",
            "body": "action_statement", "definer": "definer",
        },
    ),
    Part(
        kind="routine", table="routines", schema_column="routine_schema",
        names=("routine_schema", "routine_type", "routine_name"),
        attributes={
            "body": "routine_definition", "returns": "dtd_identifier", "security": "security_type",
            "deterministic": "is_deterministic", "data access": "sql_data_access", "definer": "definer",
        },
    ),
    Part(
        kind="parameter", table="parameters", schema_column="specific_schema",
        names=("specific_schema", "routine_type", "specific_name", "ordinal_position"),
        attributes={"name": "parameter_name", "mode": "parameter_mode", "type": "dtd_identifier"},
    ),
    Part(
        kind="event", table="events", schema_column="event_schema", names=("event_schema", "event_name"),
        attributes={
            "body": "event_definition", "type": "event_type", "every": "interval_value",
            "unit": "interval_field", "status": "status", "definer": "definer",
        },
    ),
    Part(
        kind="view", table="views", schema_column="table_schema", names=("table_schema", "table_name"),
        attributes={"check option": "check_option", "security": "security_type", "definer": "definer"},
    ),
    Part(
        kind="grant on schema", table="schema_privileges", schema_column="table_schema",
        names=("grantee", "table_schema", "privilege_type"), attributes={"grantable": "is_grantable"},
    ),
    Part(
        kind="grant on table", table="table_privileges", schema_column="table_schema",
        names=("grantee", "table_schema", "table_name", "privilege_type"),
        attributes={"grantable": "is_grantable"},
    ),
)  # fmt: skip
"""Everything that a dump and restore can lose; check constraints differ too much in text to be compared so."""

SYSTEM_SCHEMAS = ("mysql", "sys", "information_schema", "performance_schema")
SCHEMAS = "SELECT schema_name FROM information_schema.schemata ORDER BY schema_name"
TIME_ZONE = "SELECT CONVERT_TZ('2024-07-01 12:00:00', 'UTC', 'Europe/Berlin')"


def take_inventory(server: Reads, schemas: Sequence[str]) -> Inventory:
    """Everything in the schemas, and whether named time zones are known. Raises StepFailed."""
    inventory: Inventory = {part.kind: _objects(server, part, schemas) for part in PARTS}
    known = server.query(TIME_ZONE)[0][0] is not None
    inventory["time zone tables"] = {"mysql.time_zone_name": {"loaded": "yes" if known else "no"}}
    return inventory


def user_schemas(server: Reads) -> list[str]:
    """All schemas that are not the server's own, sorted."""
    rows = server.query(SCHEMAS)
    return [str(row[0]) for row in rows if str(row[0]).lower() not in SYSTEM_SCHEMAS]


def inventory_statement(part: Part, schemas: Sequence[str]) -> str:
    """What a server is asked for one kind of object."""
    columns = ", ".join((*part.names, *part.attributes.values()))
    wanted = ", ".join(quoted(schema) for schema in schemas)
    condition = f" AND {part.where}" if part.where else ""
    return (
        f"SELECT {columns} FROM information_schema.{part.table} WHERE {part.schema_column} IN ({wanted}){condition}"
    )


def _objects(server: Reads, part: Part, schemas: Sequence[str]) -> dict[str, Attributes]:
    width = len(part.names)
    return {
        ".".join(str(name) for name in row[:width]): {
            attribute: alike(attribute, value)
            for attribute, value in zip(part.attributes, row[width:], strict=True)
        }
        for row in server.query(inventory_statement(part, schemas))
    }


def quoted(text: str) -> str:
    """A string literal that means the same in every sql_mode: in hex, where it has more than plain characters."""
    if re.fullmatch(r"[A-Za-z0-9_$ -]+", text):
        return f"'{text}'"
    return "0x" + text.encode().hex() if text else "''"


def alike(attribute: str, value: Any) -> str:
    """One attribute as every version would print it."""
    text = "" if value is None else str(value)
    return _ALIKE[attribute](text) if attribute in _ALIKE else text


def _type(text: str) -> str:
    text = re.sub(r"\b((?:tiny|small|medium|big)?int)\(\d+\)(?! zerofill)", r"\1", text.lower())
    text = re.sub(r"\byear\(4\)", "year", text)
    return re.sub(r"\butf8\b", "utf8mb3", text)


def _default(text: str) -> str:
    """MariaDB quotes literals and writes NULL; MySQL does neither."""
    if text.upper() == "NULL":
        return ""
    if len(text) >= 2 and text[0] == text[-1] == "'":
        text = text[1:-1].replace("''", "'")
    return re.sub(r"(?i)^(current_timestamp|now)(\(\)|$)", "current_timestamp", text)


def _extra(text: str) -> str:
    words = text.lower().replace("default_generated", "").replace("current_timestamp()", "current_timestamp")
    return " ".join(re.sub(r"\bpersistent\b", "stored generated", words).split())


def _charset(text: str) -> str:
    return re.sub(r"^utf8(?=_|$)", "utf8mb3", text)


def _expression(text: str) -> str:
    return re.sub(r"[\s`()]|_utf8mb\d|\\", "", text).lower()


_ALIKE: Mapping[str, Callable[[str], str]] = {
    "type": _type,
    "returns": _type,
    "charset": _charset,
    "collation": _charset,
    "default": _default,
    "extra": _extra,
    "generated": _expression,
    "body": lambda text: " ".join(text.split()).removesuffix(";"),
    "on update": lambda text: "RESTRICT" if text == "NO ACTION" else text,  # one thing to InnoDB
    "on delete": lambda text: "RESTRICT" if text == "NO ACTION" else text,
    "definer": lambda text: text.replace("`", "").replace("'", ""),
}
"""What is written differently by different servers, by attribute."""
