"""The attach target: a server that already runs, named by a DSN without a password."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from volbench.errors import UsageError
from volbench.records.base import Scalar
from volbench.records.cell import AttachSpec
from volbench.records.run import RunRecord

_SCHEMA = re.compile(r"[A-Za-z0-9_]{1,48}")
_PASSWORD = re.compile(r"(//[^:/?@\s]*:)\S*@")
_DSN_KEYS = ("host", "port", "socket", "user", "schema_name", "option_file")


def parse_dsn(dsn: str, *, option_file: str = "") -> AttachSpec:
    """`mysql://user@host:3306/schema`, or `mysql://user@localhost/schema?socket=/run/mysqld/mysqld.sock`.

    The password is never part of it: it comes from the option file's [client] section or from
    VOLBENCH_MYSQL_PASSWORD. Raises UsageError.
    """
    where = f"--server {without_password(dsn) if '//' in dsn else without_password(f'//{dsn}')[2:]}"
    parts = urlsplit(dsn)
    example = "mysql://user@host:3306/volbench"
    if parts.scheme != "mysql":
        raise UsageError("a DSN begins with mysql://", where=where, next_step=f"for example {example}")
    if parts.password is not None or _PASSWORD.search(dsn):
        raise UsageError(
            "a password does not belong on a command line: other users can read it there",
            where=where,
            next_step="put it under [client] in a file of mode 0600 and give --option-file FILE, "
            "or set VOLBENCH_MYSQL_PASSWORD",
        )
    schema = parts.path.strip("/") or "volbench"
    if not _SCHEMA.fullmatch(schema):
        raise UsageError(f"{schema!r} is no plain schema name", where=where, next_step=f"for example {example}")
    options = parse_qs(parts.query)
    unknown = sorted(set(options) - {"socket"})
    if unknown:
        raise UsageError(f"unknown option {unknown[0]!r} (known: socket)", where=where)
    socket = options.get("socket", [""])[0]
    try:
        port = parts.port or 3306
    except ValueError as error:
        raise UsageError("the port is not a number from 1 to 65535", where=where) from error
    return AttachSpec(
        host="" if socket else parts.hostname or "127.0.0.1",
        port=port,
        socket=socket,
        user=unquote(parts.username or "root"),
        option_file=str(Path(option_file).absolute()) if option_file else "",
        schema_name=schema,
    )


def without_password(text: str) -> str:
    """The text with the password of a DSN in it masked, whatever characters that has."""
    return _PASSWORD.sub(r"\1***@", text)


def target_options(attach: AttachSpec) -> dict[str, Scalar]:
    """What run.json keeps of it; there is no password in it."""
    return {name: getattr(attach, name) for name in _DSN_KEYS}


def attach_of(run: RunRecord, *, option_file: str = "") -> AttachSpec | None:
    """The server of an earlier run, for `resume`; None for runs that start their own."""
    if run.target != "attach":
        return None
    kept = {name: run.target_options[name] for name in _DSN_KEYS if name in run.target_options}
    attach = AttachSpec.model_validate(kept)
    return attach.model_copy(update={"option_file": option_file}) if option_file else attach
