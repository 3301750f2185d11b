"""Loads one schema of a MySQL Shell dump (util.dumpInstance, dumpSchemas, dumpTables) with the command line client.

The Shell is in no distribution, so its own util.loadDump is not used. Layout: `@.json` names the schemas,
`SCHEMA.json` its tables and views with the files' base names, `BASE.json` a table's columns and dialect. Rows are
in `BASE.tsv.zst`, or in chunks `BASE@0.tsv.zst` ... `BASE@@N.tsv.zst`. Source: its manual, a dump of 8.0.21.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from volbench.engine.connection import MemoryFile, rows
from volbench.engine.own_data.pipe import Loading, client_argv, decompress_argv, opened, run_pipe
from volbench.errors import StepFailed, UsageError
from volbench.records.parse import parse_json

_SESSION = "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO', foreign_key_checks = 0, unique_checks = 0"
_REMOVED_MODE = re.compile(r"(SET\s+sql_mode\s*=\s*'[^']*?)NO_AUTO_CREATE_USER,?", re.IGNORECASE)
"""MySQL 8 refuses this mode, which triggers of 5.7 name."""
_CREATE_SCHEMA = re.compile(r"^(CREATE DATABASE|USE) .*;\s*$", re.MULTILINE)
_RECORDS = re.compile(r"Records: (\d+)\s+Deleted: \d+\s+Skipped: (\d+)\s+Warnings: (\d+)")
_DECODERS = ("FROM_BASE64", "UNHEX")
_CHUNKS_MAX = 1_000_000


def load_shell_dump(loading: Loading, path: Path) -> None:
    """Load tables, rows, triggers, views, routines and events of the dataset's schema.

    Raises UsageError for a dump that is not complete or has no such schema, StepFailed if a statement fails or a
    row is lost.
    """
    schema = loading.dataset.schema_name
    description = _description(path, schema)
    base_names = description["basenames"]
    tables = [str(base_names[name]) for name in description["tables"]]
    views = [str(base_names[name]) for name in description["views"]]
    _run_sql(loading, path, [f"{description['basename']}.sql"])
    _run_sql(loading, path, [f"{base}.sql" for base in tables])
    _run_sql(loading, path, [f"{base}.pre.sql" for base in views])
    session = _SESSION + (", time_zone = '+00:00'" if description["utc"] else "")
    rows(loading.account, "SET GLOBAL local_infile = 1", timeout_s=60)
    try:
        for base in tables:
            _load_rows(loading, path, base, session)
    finally:
        rows(loading.account, "SET GLOBAL local_infile = 0", timeout_s=60)
    _run_sql(loading, path, [f"{base}.triggers.sql" for base in tables if (path / f"{base}.triggers.sql").exists()])
    _run_sql(loading, path, [f"{base}.sql" for base in views])


def _description(path: Path, schema: str) -> dict[str, Any]:
    """Return the schema's description with its own base name. Raises UsageError."""
    try:
        dump = parse_json((path / "@.json").read_bytes())
        complete = (path / "@.done.json").exists()
        base = dump.get("basenames", {}).get(schema, schema)
        described = parse_json((path / f"{base}.json").read_bytes()) if schema in dump["schemas"] else None
        if described is not None:
            names = {**{name: f"{base}@{name}" for name in (*described["tables"], *described.get("views", ()))},
                     **described.get("basenames", {})}  # fmt: skip
            described = {"views": [], **described, "basenames": names, "basename": base,
                         "utc": dump.get("tzUtc", True)}  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            "the dump of MySQL Shell cannot be read", where="dataset.path", evidence=f"{path}: {error!r}"
        ) from error
    if not complete:
        raise UsageError(
            "MySQL Shell did not finish this dump", where="dataset.path", evidence=f"{path} has no @.done.json"
        )
    if described is None:
        raise UsageError(
            f"the dump has no schema {schema}", where="dataset.schema",
            evidence=f"its schemas are {', '.join(map(str, dump['schemas']))}",
            next_step="set dataset.schema to one of them",
        )  # fmt: skip
    return described


def _run_sql(loading: Loading, path: Path, names: list[str]) -> None:
    """Run the dump's own statements in one session."""
    for name in names:
        with opened(path / name) as file:
            text = file.read().decode(errors="surrogateescape")
        text = _REMOVED_MODE.sub(r"\1", _CREATE_SCHEMA.sub("", text))
        with closing(MemoryFile(loading.account.option_file_text())) as options, tempfile.TemporaryFile() as sql:
            sql.write(f"{_SESSION};\n{text}".encode(errors="surrogateescape"))
            sql.seek(0)
            client = client_argv(options.path, loading.dataset.schema_name)
            run_pipe([client], loading, source=sql, what=f"loading {path.name}: {name}")


def _load_rows(loading: Loading, path: Path, base: str, session: str) -> None:
    try:
        table = parse_json((path / f"{base}.json").read_bytes())
        statement = load_statement(table["options"])
        extension = str(table.get("extension", "tsv"))
        partitions = [str(name) for name in table.get("basenames", {}).values()]
        files = [
            file for name in partitions or [base] for file in _chunks(path, name, extension)
            if table.get("includesData", True)
        ]  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            "a table's description in the dump cannot be read", where="dataset.path",
            evidence=f"{path}/{base}.json: {error!r}",
        ) from error  # fmt: skip
    for file in files:
        _load_chunk(loading, file, f"{session}; {statement}")


def _chunks(path: Path, base: str, extension: str) -> Iterator[Path]:
    """Yield the files of a table in order. Raises UsageError for a chunk that is missing."""
    whole = path / f"{base}.{extension}"
    if whole.exists():
        yield whole
        return
    for number in range(_CHUNKS_MAX):
        last, chunk = path / f"{base}@@{number}.{extension}", path / f"{base}@{number}.{extension}"
        if last.exists():
            yield last
            return
        if not chunk.exists():
            raise UsageError("a file of the dump is missing", where="dataset.path", evidence=str(chunk))
        yield chunk


def _load_chunk(loading: Loading, file: Path, statement: str) -> None:
    with opened(file) as source, closing(MemoryFile(loading.account.option_file_text())) as options:
        client = [
            *client_argv(options.path, loading.dataset.schema_name), "--local-infile=1", "-vv",
            f"--execute={statement}",
        ]  # fmt: skip
        unpack = decompress_argv(file)
        output = run_pipe(
            [*([unpack] if unpack else []), client], loading, source=source, what=f"loading {file.name}"
        )
    counts = _RECORDS.findall(output)
    if not counts or any(int(skipped) or int(warnings) for _, skipped, warnings in counts):
        raise StepFailed(
            f"loading {file.name} lost or changed rows", where="dataset", cause="dataset_not_loaded",
            evidence=" ".join(output.split())[-300:],
            next_step="load the dump with util.loadDump into a server of its own version, and use kind: schema",
        )  # fmt: skip


def load_statement(options: Mapping[str, Any]) -> str:
    """Return LOAD DATA for a table's options; binary columns are decoded. Raises KeyError, ValueError."""
    decoders = {str(name): str(function) for name, function in options.get("decodeColumns", {}).items()}
    if unknown := set(decoders.values()) - set(_DECODERS):
        raise ValueError(f"decodeColumns names {min(unknown)}")
    names = [str(name) for name in options["columns"]]
    fields = [f"@c{number}" if name in decoders else _quoted(name) for number, name in enumerate(names)]
    decoded = [
        f"{_quoted(name)} = {decoders[name]}(@c{number})" for number, name in enumerate(names) if name in decoders
    ]
    optionally = "OPTIONALLY " if options["fieldsOptionallyEnclosed"] else ""
    return (
        f"LOAD DATA LOCAL INFILE '/dev/stdin' INTO TABLE {_quoted(str(options['table']))} "
        f"CHARACTER SET {_text(options['defaultCharacterSet'])} "
        f"FIELDS TERMINATED BY {_text(options['fieldsTerminatedBy'])} "
        f"{optionally}ENCLOSED BY {_text(options['fieldsEnclosedBy'])} "
        f"ESCAPED BY {_text(options['fieldsEscapedBy'])} LINES TERMINATED BY {_text(options['linesTerminatedBy'])} "
        f"({', '.join(fields)})" + (f" SET {', '.join(decoded)}" if decoded else "")
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(value: object) -> str:
    """Return a string literal of SQL; with other characters in hex, so that no sql_mode changes its meaning."""
    text = str(value)
    return f"'{text}'" if text.isalnum() or not text else f"X'{text.encode().hex()}'"
