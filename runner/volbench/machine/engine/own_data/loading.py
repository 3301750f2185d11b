"""Loads the user's own data into a running server: a dump, a script, or the schema of another server."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from volbench.core.records.cell import AttachSpec
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.own_places import outside
from volbench.errors import StepFailed, UsageError
from volbench.machine.engine.attached import account_of
from volbench.machine.engine.connection import Account, MemoryFile
from volbench.machine.engine.own_data.account import schema_account
from volbench.machine.engine.own_data.mydumper import load_mydumper
from volbench.machine.engine.own_data.pipe import (
    Command,
    Loading,
    load_sql,
    require_program,
    run_pipe,
    tool_version,
)
from volbench.machine.engine.own_data.shell_dump import load_shell_dump
from volbench.machine.engine.own_data.sql_file import load_sql_file
from volbench.machine.engine.sysbench.config import option_names, option_text, sysbench_files, sysbench_program

_UNFINISHED = ("metadata.partial", "metadata.partial.0", "metadata.partial.1")
_DSN = re.compile(
    r"mysql://(?:(?P<user>[^@/]+)@)?(?P<host>[^:/?]+)(?::(?P<port>[0-9]{1,5}))?/(?P<schema>[A-Za-z0-9_]{1,64})"
)


def load(loading: Loading) -> None:
    """Load the dataset into its schema, which exists and is empty, with rights on that schema only.

    Args:
        loading: its account may create accounts.

    Raises UsageError for a source of an unknown form, MissingPrerequisite for a missing program, StepFailed with
    the program's own message if the source does not load.
    """
    load_source = _loader_of(loading.dataset)
    with schema_account(loading.account, loading.dataset.schema_name) as account:
        load_source(replace(loading, account=account, admin=loading.account), Path(loading.dataset.path))


def _loader_of(dataset: DatasetSpec) -> Callable[[Loading, Path], None]:
    """Return what loads a source of this form. Raises UsageError for a directory that is no dump."""
    path = Path(dataset.path)
    if dataset.kind == "schema":
        return _copy_schema
    if dataset.kind == "script" and path.suffix == ".lua":
        return _run_lua
    if not path.is_dir():
        return load_sql_file
    if (path / "@.json").exists():
        return load_shell_dump
    if (path / "metadata").exists():
        return load_mydumper
    if any((path / name).exists() for name in _UNFINISHED):
        raise UsageError("mydumper did not finish this dump", where="dataset.path", evidence=str(path))
    raise UsageError(
        "the directory is no dump of mydumper or MySQL Shell, and no physical copy",
        where="dataset.path",
        evidence=str(path),
        next_step="name the directory that has the file `metadata`, `@.json` or `ibdata1`",
    )


def _run_lua(loading: Loading, path: Path) -> None:
    """Run `prepare` of the user's own sysbench script."""
    dataset = loading.dataset
    options = {"db-driver": "mysql", "threads": dataset.threads, "rand-seed": 1, **option_names(dataset.options)}
    with sysbench_files(loading.account, dataset.schema_name) as files, tempfile.TemporaryFile() as nothing:
        arguments = [f"--{name}={option_text(value)}" for name, value in options.items()]
        argv = [sysbench_program(), str(path), f"--config-file={files.config}", *arguments, "prepare"]
        environment = {"LUA_PATH": f"{path.parent}/?.lua;;"}
        output = run_pipe(
            [Command(argv=argv)],
            loading,
            source=nothing,
            doing=f"preparing with {path.name}",
            cwd=files.directory,
            env=environment,
        )
    fatal = [line.removeprefix("FATAL: ") for line in output.splitlines() if line.startswith("FATAL: ")]
    if fatal:  # sysbench ends with 0 when its threads fail
        raise StepFailed(
            f"the script {path.name} failed",
            where="dataset",
            evidence="; ".join(dict.fromkeys(fatal)),
            next_step=f"fix the script; to try it alone: sysbench {outside(str(path))} prepare",
            cause="own_script",
        )


def _copy_schema(loading: Loading, _path: Path) -> None:
    """Dump one schema of another server in one snapshot, and load it while it arrives."""
    source_account, schema = source_of(loading.dataset)
    with closing(MemoryFile(source_account.option_file_text())) as source, tempfile.TemporaryFile() as nothing:
        dump = _dump_argv(source.path, schema)
        load_sql(loading, nothing, [Command(argv=dump)], doing=f"copying {schema} from {source_account.address}")


def source_of(dataset: DatasetSpec) -> tuple[Account, str]:
    """Return the account and the schema of a dataset of kind `schema`. Raises UsageError."""
    address, _, query = dataset.server.partition("?")
    match = _DSN.fullmatch(address)
    if match is None or (match["user"] and ":" in match["user"]):
        raise UsageError(
            "the DSN of the dataset cannot be used",
            where="dataset.server",
            next_step="for example mysql://reader@db1:3306/shop; the password belongs in dataset.option_file",
        )
    pairs = dict(pair.partition("=")[::2] for pair in query.split("&") if pair)
    values = {name.replace("-", "_"): value for name, value in pairs.items()}
    unknown = values.keys() - {
        "socket",
        "ssl_mode",
        "ssl_ca",
        "ssl_cert",
        "ssl_key",
        "rds_iam_region",
        "password_unverified",
    }
    if unknown:
        raise UsageError(f"the DSN has an unknown option {min(unknown)}", where="dataset.server")
    try:
        attach = AttachSpec(
            host="" if values.get("socket") else match["host"],
            port=int(match["port"] or 3306),
            user=match["user"] or "root",
            option_file=dataset.option_file,
            **values,
        )
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise UsageError(
            f"the DSN of the dataset has a wrong {'.'.join(map(str, fault['loc']))}",
            where="dataset.server",
            evidence=fault["msg"],
        ) from error
    return account_of(attach, os.environ), match["schema"]


def _dump_argv(option_file: Path, schema: str) -> list[str]:
    tool = require_program("mysqldump", "mariadb-dump")
    mariadb = "MariaDB" in tool_version(tool)
    return [
        tool,
        f"--defaults-file={option_file}",
        "--single-transaction",
        "--quick",
        "--no-tablespaces",
        "--skip-lock-tables",
        "--routines",
        "--triggers",
        "--default-character-set=utf8mb4",
        *([] if mariadb else ["--set-gtid-purged=OFF", "--column-statistics=0"]),
        schema,
    ]
