"""The server that is observed: who it is, what our account may read, and a connection that only reads."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mysql.connector
from mysql.connector import errorcode
from mysql.connector.abstracts import MySQLConnectionAbstract

from volbench.core.records.cell import AttachSpec
from volbench.core.records.facts import ServerFacts
from volbench.core.sql.guard import refuse_writes
from volbench.errors import MissingPrerequisite
from volbench.machine.engine.answers import parse_answer, whole_number
from volbench.machine.engine.attached import AttachedServer
from volbench.machine.engine.bounded import ANSWER_BYTES
from volbench.machine.engine.facts import server_facts
from volbench.validation.source.privileged import TO_OBSERVE, refuse_privileged
from volbench.validation.source.server import Rows

READ_ONLY = "SET SESSION TRANSACTION READ ONLY"
IDENTITY = (
    "SELECT @@GLOBAL.hostname, @@GLOBAL.port, @@GLOBAL.datadir, @@GLOBAL.pid_file, @@GLOBAL.performance_schema,"
    " CURRENT_USER()"
)
_SCHEMA_READ = "SELECT COUNT(*) FROM performance_schema.events_statements_summary_global_by_event_name"
_PROCESS_READ = "SELECT COUNT(*) FROM information_schema.INNODB_METRICS"
_STATEMENT_S = 60.0
_DENIED = frozenset(
    {
        errorcode.ER_TABLEACCESS_DENIED_ERROR,
        errorcode.ER_DBACCESS_DENIED_ERROR,
        errorcode.ER_SPECIFIC_ACCESS_DENIED_ERROR,
        errorcode.ER_ACCESS_DENIED_ERROR,
    }
)


@dataclass(frozen=True, kw_only=True)
class ObservedServer:
    """What the server says of itself, and where it can be seen from here.

    `local`: it may be on this machine: a Unix socket, or an address of this machine. `peer_pid`: the process behind
    its Unix socket. `notes`: what our account or this server does not give, and what it takes.
    """

    address: str
    local: bool
    peer_pid: int | None
    hostname: str
    port: int
    datadir: str
    pid_file: str
    facts: ServerFacts
    notes: tuple[str, ...] = ()


def look_at_server(server: AttachedServer, attach: AttachSpec, *, allow_privileged: bool = False) -> ObservedServer:
    """Ask the server once, by statements that only read.

    Raises MissingPrerequisite with the GRANT when performance_schema may not be read, Refused for an account that
    may do more than read, unless that is allowed.
    """
    with server.connect(timeout_s=_STATEMENT_S, bytes_max=ANSWER_BYTES) as opened:
        query = _reader(opened)
        query(READ_ONLY)
        refuse_privileged(
            query, where="observe", grants=TO_OBSERVE, option="--allow-privileged", is_allowed=allow_privileged
        )
        hostname, port, datadir, pid_file, schema_on, user = _identity(query(IDENTITY))
        notes = _rights(query, user, schema_on=schema_on)
        facts = server_facts(query)
        peer = _peer_pid(opened) if server.socket else None
    host = attach.host or server.account.host
    return ObservedServer(
        address=f"unix:{server.socket}"
        if server.socket
        else f"{host or '127.0.0.1'}:{server.account.port or 3306}",
        local=server.socket is not None or is_this_machine(host or "127.0.0.1"),
        peer_pid=peer,
        hostname=hostname,
        port=port,
        datadir=datadir,
        pid_file=pid_file,
        facts=facts,
        notes=tuple(notes),
    )


def _identity(rows: Rows) -> tuple[str, int, str, str, bool, str]:
    """Return host name, port, data directory, pid file, whether performance_schema is on, and our account."""

    def parse(answer: Rows) -> tuple[str, int, str, str, bool, str]:
        ((hostname, port, datadir, pid_file, schema_on, user),) = answer
        path, pid_path = (str(value or "").replace("\0", "") for value in (datadir, pid_file))
        return (
            str(hostname),
            whole_number(port, high=65535),
            path,
            pid_path,
            bool(whole_number(schema_on, high=1)),
            str(user),
        )

    return parse_answer(rows, parse, noun="itself", where="observe")


def _rights(query: Callable[[str], Rows], user: str, *, schema_on: bool) -> list[str]:
    """What is missing, in words. Raises MissingPrerequisite when performance_schema is on and may not be read."""
    account = "'{}'@'{}'".format(*user.rpartition("@")[::2])
    process = f"GRANT PROCESS ON *.* TO {account};"
    lacks_process = _denied(query, _PROCESS_READ)
    if schema_on and _denied(query, _SCHEMA_READ):
        grants = f"GRANT SELECT ON performance_schema.* TO {account};"
        raise MissingPrerequisite(
            f"the account {account} may not read performance_schema",
            where="observe",
            evidence="SELECT on performance_schema is denied"
            + (", and PROCESS is missing" if lacks_process else ""),
            next_step=f"{grants} {process}" if lacks_process else grants,
        )
    notes = []
    if not schema_on:
        notes.append(
            "performance_schema is off: no statement times, no latencies, no statements by text"
            " (it takes performance_schema=ON in my.cnf and a restart)"
        )
    if lacks_process:
        notes.append(f"no length of the history list: the right PROCESS is missing ({process})")
    return notes


def _denied(query: Callable[[str], Rows], sql: str) -> bool:
    try:
        query(sql)
    except mysql.connector.Error as error:
        return error.errno in _DENIED
    return False


def _reader(opened: MySQLConnectionAbstract) -> Callable[[str], Rows]:
    def query(sql: str) -> Rows:
        refuse_writes(sql)
        with opened.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(map(_plain, row)) for row in cursor.fetchall()] if cursor.description else []

    return query


def _plain(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes | bytearray) else value


def _peer_pid(opened: MySQLConnectionAbstract) -> int | None:
    """The process behind the connection's Unix socket; None where it is in another PID namespace."""
    plain = getattr(getattr(opened, "_socket", None), "sock", None)
    if not isinstance(plain, socket.socket) or plain.family != socket.AF_UNIX:
        return None
    credentials = plain.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[0]) or None


def is_this_machine(host: str) -> bool:
    """Whether a host's name or address is this machine: something can be bound to it. False when it is unknown."""
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in addresses:
        if ipaddress.ip_address(address[0]).is_loopback:
            return True
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind((address[0], 0, *address[2:]))
        except OSError:
            continue
        return True
    return False


def listening_process(port: int, proc: Path = Path("/proc")) -> int | None:
    """The process of this network namespace that listens on a TCP port; None when it cannot be seen."""
    inodes = set()
    for name in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    for entry in proc.iterdir() if inodes else ():
        if entry.name.isdecimal() and _holds_one_of(entry / "fd", inodes):
            return int(entry.name)
    return None


def _holds_one_of(descriptors: Path, inodes: set[str]) -> bool:
    try:
        return any(str(descriptor.readlink()) in inodes for descriptor in descriptors.iterdir())
    except OSError:  # ended meanwhile, or somebody else's
        return False
