"""The attach target: servers that run already, each named by a DSN without a password."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from volbench.core.records.base import Scalar
from volbench.core.records.cell import AttachSpec
from volbench.core.records.run import RunRecord, VolumeSpec
from volbench.core.records.tls import TLS_KEYS, SslMode
from volbench.errors import UsageError

ATTACHED = "server"
"""The name of a single server, where the user gives none."""
_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,40})=(.*)", re.DOTALL)
_SCHEMA = re.compile(r"[A-Za-z0-9_]{1,48}")
_PASSWORD = re.compile(r"(//[^:/?@\s]*:)\S*@")
_PLAIN_OPTION = (
    r"(socket|ssl-ca|ssl-cert|ssl-key)=[\w./-]*|ssl-mode=(?i:DISABLED|PREFERRED|REQUIRED|VERIFY_CA|VERIFY_IDENTITY)"
    r"|rds-iam-region=[a-z]{2,5}(-[a-z]+)+-[0-9]|password-unverified=(?i:yes|no)"
)
_PLAIN_DSN = re.compile(
    r"mysql://([A-Za-z0-9_.-]+@)?([A-Za-z0-9_.-]*|\[[0-9a-fA-F:.]+\])(:\d{1,5})?(/[A-Za-z0-9_]{0,48})?"
    rf"(\?({_PLAIN_OPTION})(&({_PLAIN_OPTION}))*)?"
)
"""A DSN in which no part can be a password: user, host, a port of digits, a schema, a socket's path."""
_ANY_DSN = re.compile(r"(?i)\w*(?:sql|maria)\w*:/\S*|[\w+.-]*://[^/\s]*:\S*@\S*|[^\s/@:=]+:\S*@\S*")
_REGION = re.compile(r"[a-z]{2,5}(-[a-z]+)+-[0-9]")
_PASSWORD_OPTIONS = frozenset({"password", "passwd", "pass", "pwd"})
_DSN_OPTIONS = frozenset(
    {"socket", "rds-iam-region", "password-unverified", *(name.replace("_", "-") for name in TLS_KEYS)}
)
_DSN_KEYS = (
    "host",
    "port",
    "socket",
    "user",
    "schema_name",
    "option_file",
    "rds_iam_region",
    "password_unverified",
    *TLS_KEYS,
)


_YES, _NO = ("yes", "1", "true", "on"), ("no", "0", "false", "off")


def parse_dsn(dsn: str, *, option_file: str = "") -> AttachSpec:
    """Parse `mysql://user@host:3306/schema`, or `mysql://user@localhost/schema?socket=/run/mysqld/mysqld.sock`.

    TLS options are those of MySQL's clients: `?ssl-mode=VERIFY_IDENTITY&ssl-ca=/etc/ca.pem`, ssl-cert, ssl-key.
    With `rds-iam-region=eu-west-1`, IAM tokens take the password's place. `password-unverified=yes` gives the
    password to a server whose certificate is not verified.

    The password is never part of it: it comes from the option file's [client] section or from
    VOLBENCH_MYSQL_PASSWORD. Raises UsageError.
    """
    where = f"--server {_without_password(dsn)}"
    example = "mysql://user@host:3306/volbench"
    try:
        url = urlsplit(dsn)
        user = unquote(url.username or "root")
    except ValueError as error:
        raise UsageError("the DSN cannot be read", where=where, next_step=f"for example {example}") from error
    if url.scheme != "mysql":
        raise UsageError("a DSN begins with mysql://", where=where, next_step=f"for example {example}")
    _refuse_password(dsn, url, user, where=where)
    schema = url.path.strip("/") or "volbench"
    if not _SCHEMA.fullmatch(schema):
        raise UsageError(
            "a schema's name has at most 48 letters, digits and '_'",
            where=where,
            next_step=f"for example {example}",
        )
    options = parse_qs(url.query)
    if set(options) - _DSN_OPTIONS or url.fragment:
        known_names = ", ".join(sorted(_DSN_OPTIONS))
        raise UsageError(f"the DSN has an unknown option (known: {known_names})", where=where)
    values = {name.replace("-", "_"): texts[0] for name, texts in options.items()}
    socket = values.pop("socket", "")
    files = {name: str(Path(values[name]).absolute()) for name in TLS_KEYS[1:] if values.get(name)}
    mode = values.get("ssl_mode", "").upper()
    if mode not in get_args(SslMode):
        modes = ", ".join(filter(None, get_args(SslMode)))
        raise UsageError("the DSN has an unknown ssl-mode", where=where, next_step=f"the modes are {modes}")
    region = values.get("rds_iam_region", "")
    if "rds_iam_region" in values and not _REGION.fullmatch(region):
        raise UsageError("rds-iam-region is no region of AWS", where=where, next_step="for example eu-west-1")
    unverified = values.get("password_unverified", "no").lower()
    if unverified not in (*_YES, *_NO):
        raise UsageError("password-unverified is yes or no", where=where)
    try:
        port = url.port or 3306
    except ValueError as error:
        raise UsageError(
            "the port is not a number from 1 to 65535",
            where=where,
            next_step="a password is never part of a DSN: it comes from --option-file or VOLBENCH_MYSQL_PASSWORD",
        ) from error
    return AttachSpec(
        host="" if socket else url.hostname or "127.0.0.1",
        port=port,
        socket=socket,
        user=user,
        option_file=str(Path(option_file).absolute()) if option_file else "",
        schema_name=schema,
        ssl_mode=mode,
        rds_iam_region=region,
        password_unverified=unverified in _YES,
        **files,
    )


def _refuse_password(dsn: str, url: SplitResult, user: str, *, where: str) -> None:
    named = {name.lower() for name in parse_qs(url.query, keep_blank_values=True)}
    if url.password is not None or ":" in user or _PASSWORD.search(dsn) or named & _PASSWORD_OPTIONS:
        raise UsageError(
            "a password does not belong on a command line: other users can read it there",
            where=where,
            next_step="put it under [client] in a file of mode 0600 and give --option-file FILE, "
            "or set VOLBENCH_MYSQL_PASSWORD",
        )


def without_password(text: str) -> str:
    """Return the text without the passwords of its DSNs.

    A malformed DSN may have a password anywhere: as a port, a schema, an option. So this shows only parts of a DSN
    that cannot be a password.
    """
    return _ANY_DSN.sub(lambda match: _without_password(match[0]), text)


def _without_password(dsn: str) -> str:
    masked = _PASSWORD.sub(r"\1***@", dsn)
    if _PLAIN_DSN.fullmatch(masked.replace(":***@", "@")):
        return masked
    scheme = re.match(r"[a-z]{1,12}://", dsn)
    return f"{scheme[0] if scheme else ''}***"


def parse_servers(servers: Sequence[str], option_files: Sequence[str] = ()) -> dict[str, AttachSpec]:
    """Return the servers of `--server` by name: one DSN, or several as NAME=DSN.

    Args:
        option_files: FILE for all of them, NAME=FILE for one.

    Raises UsageError.
    """
    pairs = [_named(text) for text in servers or [""]]
    names = [name for name, _ in pairs]
    if len(pairs) > 1 and (not all(names) or len(set(names)) < len(names)):
        raise UsageError(
            "each of several servers needs a name of its own",
            where="--server",
            next_step="for example --server a=mysql://user@db1/volbench --server b=mysql://user@db2/volbench",
        )
    files = _files_of(names, option_files)
    return {name or ATTACHED: parse_dsn(dsn, option_file=files.get(name, files.get("", ""))) for name, dsn in pairs}


def _named(text: str) -> tuple[str, str]:
    match = _NAMED.fullmatch(text)
    return (match[1], match[2]) if match else ("", text)


def _files_of(names: Sequence[str], option_files: Sequence[str]) -> dict[str, str]:
    """Return name of a server -> its option file, by "" that of all others. Raise UsageError for two of one."""
    files: dict[str, str] = {}
    for text in option_files:
        name, equals, path = text.partition("=")
        key, value = (name, path) if equals and name and name in names else ("", text)
        if key in files:
            raise UsageError(
                "two option files for the same server",
                where="--option-file",
                next_step="give one for all servers, or NAME=FILE for each",
            )
        files[key] = value
    return files


def server_volumes(attached: Mapping[str, AttachSpec]) -> list[VolumeSpec]:
    """Return what stands for the servers in run.json: each is compared as a volume is."""
    if set(attached) == {ATTACHED}:
        return [VolumeSpec(name=ATTACHED, kind="path", location="", text="attached server")]
    return [
        VolumeSpec(
            name=name,
            kind="path",
            location="",
            text=f"attached server {_address(attach)}",
            options={key: str(value) for key, value in _values(attach).items() if value},
        )
        for name, attach in attached.items()
    ]


def target_options(attached: Mapping[str, AttachSpec]) -> dict[str, Scalar]:
    """Return the values for run.json, without a password; of several servers they are in the volumes."""
    return _values(attached[ATTACHED]) if ATTACHED in attached else {}


def attach_of(run: RunRecord, option_files: Sequence[str] = ()) -> dict[str, AttachSpec]:
    """Return the servers of an earlier run, for `resume`; none for runs that start their own. Raises UsageError."""
    if run.target != "attach":
        return {}
    values = {volume.name: dict(volume.options) or run.target_options for volume in run.volumes}
    files = _files_of(list(values), option_files)
    servers = {
        name: AttachSpec.model_validate(
            {key: int(options[key]) if key == "port" else options[key] for key in _DSN_KEYS if key in options}
        )
        for name, options in values.items()
    }
    changed = {name: files.get(name, files.get("", "")) for name in servers}
    return {
        name: server.model_copy(
            update={"option_file": str(Path(changed[name]).absolute())} if changed[name] else {}
        )
        for name, server in servers.items()
    }


def _values(attach: AttachSpec) -> dict[str, Scalar]:
    return {name: getattr(attach, name) for name in _DSN_KEYS}


def _address(attach: AttachSpec) -> str:
    return f"{attach.socket or f'{attach.host}:{attach.port}'}/{attach.schema_name}"
