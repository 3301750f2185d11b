"""What schemas hold, object by object, in words that are the same for MySQL and MariaDB of any version.

An inventory is kind -> object -> attribute -> text. Versions print one thing in several ways (`int(11)` and `int`,
`utf8` and `utf8mb3`, `current_timestamp()` and `CURRENT_TIMESTAMP`); those are made alike here, in one place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from volbench.machine.engine.answers import reads_answers
from volbench.validation.catalog.grants import read_grants
from volbench.validation.catalog.objects import Attributes, Inventory, quoted
from volbench.validation.catalog.sql_text import UNPARSED, normal_expression, normal_query
from volbench.validation.source.server import VERSION, SqlReader
from volbench.validation.source.settings import normalise_sql_mode

Spelled = str | tuple[str, str]
"""SQL for both flavors, or for MySQL and for MariaDB."""


@dataclass(frozen=True, kw_only=True)
class ObjectKind:
    """One kind of object: where it stands, which columns name it, and which describe it."""

    kind: str
    table: Spelled
    schema_column: str
    names: tuple[str, ...]
    attributes: Mapping[str, Spelled]
    where: str = ""


_STORED = {
    "sql mode": "sql_mode",
    "charset of its text": "character_set_client",
    "collation of its text": "collation_connection",
}
"""What a body was made under, and runs under."""
_DEFAULT = (
    "IF(extra LIKE '%DEFAULT_GENERATED%', column_default, "
    "CONCAT('''', REPLACE(column_default, '''', ''''''), ''''))",
    "column_default",
)
"""A literal in quotes, an expression without, as MariaDB has it."""
_CHECKS = (
    "check_constraints JOIN (SELECT DISTINCT table_schema, table_name, constraint_name named, enforced "
    "FROM information_schema.table_constraints WHERE constraint_type = 'CHECK') t "
    "ON table_schema = constraint_schema AND named = constraint_name",
    "check_constraints",
)
"""DISTINCT makes MySQL join by hash: a plain join takes 6 s for 1,000 checks."""
_TABLES = "table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')"


OBJECT_KINDS: tuple[ObjectKind, ...] = (
    ObjectKind(
        kind="schema",
        table="schemata",
        schema_column="schema_name",
        names=("schema_name",),
        attributes={"charset": "default_character_set_name", "collation": "default_collation_name"},
    ),
    ObjectKind(
        kind="table",
        table="tables",
        schema_column="table_schema",
        names=("table_schema", "table_name"),
        attributes={
            "engine": "engine",
            "collation": "table_collation",
            "comment": "table_comment",
            "versions": "table_type",
        },
        where=_TABLES,
    ),
    ObjectKind(
        kind="sequence",
        table="tables",
        schema_column="table_schema",
        names=("table_schema", "table_name"),
        attributes={},
        where="table_type = 'SEQUENCE'",
    ),
    ObjectKind(
        # Columns of views are left to the views' texts: their collations come from who touched them last.
        kind="column",
        table="columns JOIN information_schema.tables USING (table_schema, table_name)",
        schema_column="table_schema",
        where=_TABLES,
        names=("table_schema", "table_name", "column_name"),
        attributes={
            "position": "ordinal_position",
            "type": "column_type",
            "nullable": "is_nullable",
            "default": _DEFAULT,
            "extra": "extra",
            "charset": "character_set_name",
            "collation": "collation_name",
            "generated": "generation_expression",
            "comment": "column_comment",
        },
    ),
    ObjectKind(
        kind="index",
        table="statistics",
        schema_column="table_schema",
        names=("table_schema", "table_name", "index_name", "seq_in_index"),
        attributes={
            "column": "column_name",
            "expression": ("expression", "NULL"),
            "not_unique": "non_unique",
            "prefix": "sub_part",
            "type": "index_type",
            "order": "IF(collation = 'D', 'descending', '')",
            "visible": ("is_visible", "IF(ignored = 'YES', 'NO', 'YES')"),
        },
    ),
    ObjectKind(
        kind="partition",
        table="partitions",
        schema_column="table_schema",
        names=("table_schema", "table_name", "partition_name", "COALESCE(subpartition_name, '-')"),
        attributes={
            "position": "partition_ordinal_position",
            "method": "partition_method",
            "expression": "partition_expression",
            "values": "partition_description",
            "method within": "subpartition_method",
            "expression within": "subpartition_expression",
        },
        where="partition_name IS NOT NULL",
    ),
    ObjectKind(
        kind="check",
        schema_column="constraint_schema",
        names=("constraint_schema", "table_name", "check_clause"),
        table=_CHECKS,
        attributes={"enforced": ("enforced", "'YES'")},
    ),
    ObjectKind(
        kind="foreign key",
        table="referential_constraints",
        schema_column="constraint_schema",
        names=("constraint_schema", "table_name", "constraint_name"),
        attributes={"to": "referenced_table_name", "on update": "update_rule", "on delete": "delete_rule"},
    ),
    ObjectKind(
        kind="foreign key column",
        table="key_column_usage",
        schema_column="table_schema",
        names=("table_schema", "table_name", "constraint_name", "ordinal_position"),
        attributes={"column": "column_name", "to": "referenced_column_name"},
        where="referenced_table_name IS NOT NULL",
    ),
    ObjectKind(
        kind="trigger",
        table="triggers",
        schema_column="trigger_schema",
        names=("trigger_schema", "trigger_name"),
        attributes={
            "table": "event_object_table",
            "time": "action_timing",
            "event": "event_manipulation",
            "body": "action_statement",
            "definer": "definer",
            "order": "action_order",
            "collation of the schema": "database_collation",
            **_STORED,
        },
    ),
    ObjectKind(
        kind="routine",
        table="routines",
        schema_column="routine_schema",
        names=("routine_schema", "routine_type", "routine_name"),
        attributes={
            "body": "routine_definition",
            "returns": "dtd_identifier",
            "security": "security_type",
            "deterministic": "is_deterministic",
            "data access": "sql_data_access",
            "definer": "definer",
            "comment": "routine_comment",
            "collation of the schema": "database_collation",
            **_STORED,
        },
    ),
    ObjectKind(
        kind="parameter",
        table="parameters",
        schema_column="specific_schema",
        names=("specific_schema", "routine_type", "specific_name", "ordinal_position"),
        attributes={"name": "parameter_name", "mode": "parameter_mode", "type": "dtd_identifier"},
    ),
    ObjectKind(
        kind="event",
        table="events",
        schema_column="event_schema",
        names=("event_schema", "event_name"),
        attributes={
            "body": "event_definition",
            "type": "event_type",
            "every": "interval_value",
            "unit": "interval_field",
            "status": "status",
            "definer": "definer",
            "at": "execute_at",
            "from": "starts",
            "until": "ends",
            "afterwards": "on_completion",
            "time zone": "time_zone",
            "comment": "event_comment",
            "collation of the schema": "database_collation",
            **_STORED,
        },
    ),
    ObjectKind(
        kind="view",
        table="views",
        schema_column="table_schema",
        names=("table_schema", "table_name"),
        attributes={
            "text": "view_definition",
            "check option": "check_option",
            "security": "security_type",
            "definer": "definer",
            "charset of its text": "character_set_client",
            "collation of its text": "collation_connection",
        },
    ),
)
"""Everything that a dump and restore can lose, except accounts: see `grants`."""

SYSTEM_SCHEMAS = ("mysql", "sys", "information_schema", "performance_schema")
SCHEMAS = "SELECT schema_name FROM information_schema.schemata ORDER BY schema_name"
ZONES = (
    "UTC",
    "Europe/Berlin",
    "Europe/London",
    "Europe/Istanbul",
    "America/New_York",
    "America/Mexico_City",
    "America/Sao_Paulo",
    "Asia/Tokyo",
    "Asia/Kolkata",
    "Asia/Almaty",
    "Africa/Cairo",
    "Australia/Sydney",
)
"""Some with summer time, and some with recently changed rules, to detect old time zone tables."""
_INSTANTS = ("2019-07-01 12:00:00", "2025-01-15 12:00:00", "2025-07-01 12:00:00")
TIME_ZONES = "SELECT " + ", ".join(
    f"CONVERT_TZ('{instant}', '+00:00', '{zone}')" for zone in ZONES for instant in _INSTANTS
)


@reads_answers("objects")
def read_inventory(server: SqlReader, schemas: Sequence[str]) -> Inventory:
    """Return the objects of the schemas, privileges in them, and named time zones. Raises StepFailed."""
    mariadb = is_mariadb(server)
    inventory: Inventory = {kind.kind: _objects(server, kind, schemas, mariadb=mariadb) for kind in OBJECT_KINDS}
    inventory["time zone"] = _time_zones(server)
    return inventory | read_grants(server, schemas, mariadb=mariadb)


@reads_answers("its version")
def is_mariadb(server: SqlReader) -> bool:
    """Return whether the server is MariaDB."""
    return "mariadb" in " ".join(map(str, server.query(VERSION)[0])).lower()


def _time_zones(server: SqlReader) -> dict[str, Attributes]:
    """Return the known time zones with the local time of three moments."""
    times = iter(server.query(TIME_ZONES)[0])
    local_times = {zone: {f"time of {instant} UTC": str(next(times)) for instant in _INSTANTS} for zone in ZONES}
    return {zone: moments for zone, moments in local_times.items() if "None" not in moments.values()}


@reads_answers("schemas")
def user_schemas(server: SqlReader) -> list[str]:
    """Return all schemas except the server's own, sorted."""
    rows = server.query(SCHEMAS)
    return [str(row[0]) for row in rows if str(row[0]).lower() not in SYSTEM_SCHEMAS]


def inventory_statement(kind: ObjectKind, schemas: Sequence[str], *, mariadb: bool = False) -> str:
    """Return the query for one kind of object."""
    columns = ", ".join((*kind.names, *(_spelling(column, mariadb=mariadb) for column in kind.attributes.values())))
    schema_list = ", ".join(quoted(schema) for schema in schemas)
    condition = f" AND {kind.where}" if kind.where else ""
    table = _spelling(kind.table, mariadb=mariadb)
    return (
        f"SELECT {columns} FROM information_schema.{table} WHERE {kind.schema_column} IN ({schema_list}){condition}"
    )


def _spelling(spelled: Spelled, *, mariadb: bool) -> str:
    return spelled if isinstance(spelled, str) else spelled[mariadb]


def _objects(
    server: SqlReader, kind: ObjectKind, schemas: Sequence[str], *, mariadb: bool
) -> dict[str, Attributes]:
    width = len(kind.names)
    return {
        ".".join(normalise(column, name) for column, name in zip(kind.names, row, strict=False)): {
            attribute: normalise(attribute, value)
            for attribute, value in zip(kind.attributes, row[width:], strict=True)
        }
        for row in server.query(inventory_statement(kind, schemas, mariadb=mariadb))
    }


def normalise(attribute: str, value: Any) -> str:
    """Return one attribute in the form of all versions."""
    text = "" if value is None else str(value)
    return _NORMALISERS[attribute](text) if attribute in _NORMALISERS else text


def _type(text: str) -> str:
    text = re.sub(r"\b((?:tiny|small|medium|big)?int)\(\d+\)(?! zerofill)", r"\1", text.lower())
    text = re.sub(r"\byear\(4\)", "year", text)
    return re.sub(r"\butf8\b", "utf8mb3", text)


def _default(text: str) -> str:
    """MariaDB quotes literals and writes NULL; MySQL does neither."""
    if text.upper() == "NULL":
        return ""
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if "(" in text and not (expression := normal_expression(text)).startswith(UNPARSED):
        text = expression
    return re.sub(r"(?i)^(current_timestamp|now)(\(\)|$)", "current_timestamp", text)


def _extra(text: str) -> str:
    normalised = text.lower().replace("default_generated", "").replace("current_timestamp()", "current_timestamp")
    normalised = normalised.replace(",", "")
    return " ".join(re.sub(r"\bpersistent\b", "stored generated", normalised).split())


def _charset(text: str) -> str:
    return re.sub(r"^utf8(?=_|$)", "utf8mb3", text)


def _values(text: str) -> str:
    return re.sub(r"\b_utf8mb\d(?=')|\s", "", text)


_NORMALISERS: Mapping[str, Callable[[str], str]] = {
    "type": _type,
    "returns": _type,
    "charset": _charset,
    "collation": _charset,
    "default": _default,
    "extra": _extra,
    "generated": normal_expression,
    "expression": normal_expression,
    "expression within": normal_expression,
    "check_clause": normal_expression,
    "text": normal_query,
    "values": _values,
    "sql mode": normalise_sql_mode,
    "charset of its text": _charset,
    "collation of its text": _charset,
    "collation of the schema": _charset,
    "versions": lambda text: "" if text == "BASE TABLE" else text.lower(),
    "status": lambda text: text.replace("SLAVESIDE", "REPLICA_SIDE"),
    "body": lambda text: " ".join(text.split()).removesuffix(";"),
    "on update": lambda text: "RESTRICT" if text == "NO ACTION" else text,  # InnoDB treats both alike
    "on delete": lambda text: "RESTRICT" if text == "NO ACTION" else text,
    "definer": lambda text: text.replace("`", "").replace("'", ""),
}
"""Attribute -> normal form, for attributes that servers print differently."""
