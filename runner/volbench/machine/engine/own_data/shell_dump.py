"""Loads one schema of a MySQL Shell dump (util.dumpInstance, dumpSchemas, dumpTables) with the command line client.

The Shell is in no distribution, so its own util.loadDump is not used. Layout: `@.json` names the schemas,
`SCHEMA.json` its tables and views with the files' base names, `BASE.json` a table's columns and dialect. Rows are
in `BASE.tsv.zst`, or in chunks `BASE@0.tsv.zst` ... `BASE@@N.tsv.zst`. Source: its manual, a dump of 8.0.21.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from volbench.core.base import safe_files
from volbench.core.base.parse import parse_json
from volbench.errors import StepFailed, UsageError
from volbench.machine.engine.connection import quoted_name, rows
from volbench.machine.engine.own_data.pipe import (
    Loading,
    client,
    decompressor,
    load_sql,
    opened,
    regular_names,
    run_pipe,
)

_SESSION = "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO', foreign_key_checks = 0, unique_checks = 0"
_REMOVED_MODE = re.compile(r"(SET\s+sql_mode\s*=\s*'[^']*?)NO_AUTO_CREATE_USER,?", re.IGNORECASE)
"""MySQL 8 refuses this mode, which triggers of 5.7 name."""
_RECORDS = re.compile(r"Records: (\d+)\s+Deleted: \d+\s+Skipped: (\d+)\s+Warnings: (\d+)")
_DECODERS = ("FROM_BASE64", "UNHEX")
_JSON_BYTES_MAX = 64 << 20


@dataclass(frozen=True, kw_only=True)
class ShellTable:
    """One table of a dump.

    Args:
        statement: LOAD DATA of its rows from the standard input.
        chunks: files of its rows in order, below the dump's directory.
    """

    base: str
    statement: str
    chunks: tuple[str, ...]
    has_triggers: bool


@dataclass(frozen=True, kw_only=True)
class ShellDump:
    """What a dump says of one schema: base names of its files, tables in their order, time zone of its times."""

    base: str
    tables: tuple[ShellTable, ...]
    views: tuple[str, ...]
    utc: bool


def load_shell_dump(loading: Loading, path: Path) -> None:
    """Load tables, rows, triggers, views, routines and events of the dataset's schema.

    Raises UsageError for a dump that is not complete or has no such schema, StepFailed if a statement fails or a
    row is lost.
    """
    dump = read_shell_dump(path, loading.dataset.schema_name)
    _run_sql(loading, path, [f"{dump.base}.sql"])
    _run_sql(loading, path, [f"{table.base}.sql" for table in dump.tables])
    _run_sql(loading, path, [f"{base}.pre.sql" for base in dump.views])
    session = _SESSION + (", time_zone = '+00:00'" if dump.utc else "")
    admin = loading.admin or loading.account
    rows(admin, "SET GLOBAL local_infile = 1", timeout_s=60)
    try:
        for table in dump.tables:
            for chunk in table.chunks:
                _load_chunk(loading, path / chunk, f"{session}; {table.statement}")
    finally:
        rows(admin, "SET GLOBAL local_infile = 0", timeout_s=60)
    _run_sql(loading, path, [f"{table.base}.triggers.sql" for table in dump.tables if table.has_triggers])
    _run_sql(loading, path, [f"{base}.sql" for base in dump.views])


def read_shell_dump(path: Path, schema: str) -> ShellDump:
    """Return what the dump's JSON files say of a schema; no row is read, and nothing outside the directory.

    Raises UsageError for a dump that is not complete, that lacks a file, or that has no such schema.
    """
    names = regular_names(path)
    described = _json(path, names, "@.json")
    if "@.done.json" not in names:
        raise UsageError(
            "MySQL Shell did not finish this dump", where="dataset.path", evidence=f"{path} has no @.done.json"
        )
    schemas = [str(name) for name in _list(described, "schemas", path)]
    if schema not in schemas:
        raise UsageError(
            f"the dump has no schema {schema}",
            where="dataset.schema",
            evidence=f"its schemas are {', '.join(schemas)}",
            next_step="set dataset.schema to one of them",
        )
    base = str(_mapping(described, "basenames", path).get(schema, schema))
    of_schema = _json(path, names, f"{base}.json")
    base_names = _mapping(of_schema, "basenames", path)

    def bases(key: str) -> list[str]:
        return [str(base_names.get(name, f"{base}@{name}")) for name in map(str, _list(of_schema, key, path))]

    return ShellDump(
        base=base,
        tables=tuple(_table(path, names, table) for table in bases("tables")),
        views=tuple(bases("views")) if "views" in of_schema else (),
        utc=described.get("tzUtc", True) is not False,
    )


def _table(path: Path, names: frozenset[str], base: str) -> ShellTable:
    described = _json(path, names, f"{base}.json")
    extension = str(described.get("extension", "tsv"))
    partitions = [str(name) for name in _mapping(described, "basenames", path).values()]
    try:
        statement = load_statement(described["options"])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise _unreadable(f"{path}/{base}.json", repr(error)) from error
    files = (chunk for name in partitions or [base] for chunk in _chunks(path, names, name, extension))
    return ShellTable(
        base=base,
        statement=statement,
        chunks=tuple(files) if described.get("includesData", True) else (),
        has_triggers=f"{base}.triggers.sql" in names,
    )


def _json(path: Path, names: frozenset[str], name: str) -> dict[str, Any]:
    """Return the object in a file of the dump. Raises UsageError."""
    try:
        if name not in names:
            raise FileNotFoundError(f"there is no file {name}")
        content = parse_json(safe_files.read_given(path / name, bytes_max=_JSON_BYTES_MAX))
    except (OSError, ValueError) as error:
        raise _unreadable(str(path), repr(error)) from error
    if not isinstance(content, dict):
        raise _unreadable(f"{path}/{name}", "it has no object")
    return content


def _list(described: Mapping[str, Any], key: str, path: Path) -> list[Any]:
    value = described.get(key)
    if not isinstance(value, list):
        raise _unreadable(str(path), f"{key} is no list")
    return value


def _mapping(described: Mapping[str, Any], key: str, path: Path) -> dict[str, Any]:
    value = described.get(key, {})
    if not isinstance(value, dict):
        raise _unreadable(str(path), f"{key} is no object")
    return value


def _unreadable(where: str, evidence: str) -> UsageError:
    return UsageError(
        "a description in the dump cannot be read",
        where="dataset.path",
        evidence=f"{where}: {evidence}",
    )


def _run_sql(loading: Loading, path: Path, names: list[str]) -> None:
    """Run the dump's own statements in one session."""
    for name in names:
        if "/" in name:
            raise _unreadable(str(path), f"{name} is not a file name")
        with opened(path / name) as file:
            text = file.read().decode(errors="surrogateescape")
        text = _REMOVED_MODE.sub(r"\1", text)
        with tempfile.TemporaryFile() as sql:
            sql.write(f"{_SESSION}; {text}".encode(errors="surrogateescape"))
            sql.seek(0)
            load_sql(loading, sql, [], doing=f"loading {path.name}: {name}")


def _chunks(path: Path, names: frozenset[str], base: str, extension: str) -> Iterator[str]:
    """Yield the files of a table in order. Raises UsageError for a chunk that is missing."""
    if f"{base}.{extension}" in names:
        yield f"{base}.{extension}"
        return
    for number in range(len(names)):
        last, chunk = f"{base}@@{number}.{extension}", f"{base}@{number}.{extension}"
        if last in names:
            yield last
            return
        if chunk not in names:
            raise UsageError("a file of the dump is missing", where="dataset.path", evidence=str(path / chunk))
        yield chunk
    raise UsageError("a file of the dump is missing", where="dataset.path", evidence=f"{path}: the last of {base}")


def _load_chunk(loading: Loading, file: Path, statement: str) -> None:
    options = ("--local-infile=1", "-vv", f"--execute={statement}")
    with opened(file) as source, client(loading.account, loading.dataset.schema_name, *options) as reader:
        output = run_pipe(
            [*decompressor(file, as_pipe=True), reader], loading, source=source, doing=f"loading {file.name}"
        )
    counts = _RECORDS.findall(output)
    if not counts or any(int(skipped) or int(warnings) for _, skipped, warnings in counts):
        raise StepFailed(
            f"loading {file.name} lost or changed rows",
            where="dataset",
            cause="dataset_not_loaded",
            evidence=" ".join(output.split())[-300:],
            next_step="load the dump with util.loadDump into a server of its own version, and use kind: schema",
        )


def load_statement(options: Mapping[str, Any]) -> str:
    """Return LOAD DATA for a table's options; binary columns are decoded. Raises KeyError, ValueError."""
    decoders = {str(name): str(function) for name, function in options.get("decodeColumns", {}).items()}
    if unknown := set(decoders.values()) - set(_DECODERS):
        raise ValueError(f"decodeColumns names {min(unknown)}")
    names = [str(name) for name in options["columns"]]
    fields = [f"@c{number}" if name in decoders else quoted_name(name) for number, name in enumerate(names)]
    decoded = [
        f"{quoted_name(name)} = {decoders[name]}(@c{number})"
        for number, name in enumerate(names)
        if name in decoders
    ]
    optionally = "OPTIONALLY " if options["fieldsOptionallyEnclosed"] else ""
    return (
        f"LOAD DATA LOCAL INFILE '/dev/stdin' INTO TABLE {quoted_name(str(options['table']))} "
        f"CHARACTER SET {_text(options['defaultCharacterSet'])} "
        f"FIELDS TERMINATED BY {_text(options['fieldsTerminatedBy'])} "
        f"{optionally}ENCLOSED BY {_text(options['fieldsEnclosedBy'])} "
        f"ESCAPED BY {_text(options['fieldsEscapedBy'])} LINES TERMINATED BY {_text(options['linesTerminatedBy'])} "
        f"({', '.join(fields)})" + (f" SET {', '.join(decoded)}" if decoded else "")
    )


def _text(value: object) -> str:
    """Return a string literal of SQL; with other characters in hex, so that no sql_mode changes its meaning."""
    text = str(value)
    return f"'{text}'" if text.isalnum() or not text else f"X'{text.encode().hex()}'"
