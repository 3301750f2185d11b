r"""/proc/self/mountstats: what the NFS client counts for each mount.

Statistics versions 1.0 (eight numbers an operation) and 1.1 (a ninth: errors) are read. Paths carry octal escapes
(`\040` is a space). `queue_ms` can underflow, and is then a negative number of 64 bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

_DEVICE = re.compile(r"device (\S+) mounted on (\S+) with fstype (\S+)(?: statvers=(\S+))?")
_ESCAPE = re.compile(r"\\([0-7]{3})")
_SIGN_64 = 1 << 63


@dataclass(frozen=True, kw_only=True, slots=True)
class NfsOperation:
    """One kind of request since the mount; times are ms. `execute` is from queueing to the answer's end."""

    operations: int
    transmissions: int
    major_timeouts: int
    bytes_sent: int
    bytes_received: int
    queue_ms: int
    rtt_ms: int
    execute_ms: int
    errors: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NfsTransport:
    """One connection to the server; several with nconnect. `backlog_sum` adds up the backlog at each request."""

    sends: int
    receives: int
    bad_xids: int
    in_flight_sum: int
    backlog_sum: int


@dataclass(frozen=True, kw_only=True, slots=True)
class NfsMount:
    """One NFS mount. Mounts of one server may share their transports, and so the counters of these."""

    source: str
    mount_point: str
    filesystem: str
    bytes: dict[str, int]
    operations: dict[str, NfsOperation] = field(default_factory=dict)
    transports: tuple[NfsTransport, ...] = ()


DATA = frozenset({"READ", "WRITE", "COMMIT"})
"""Operations that move a file's data or make it durable."""
SAME_KIND = {"READ_PLUS": "READ", "OPEN_NOATTR": "OPEN"}
"""Operations that a client uses in another's place: NFS 4.2 reads by READ_PLUS (Linux 5.10 and later, where it is
built in), an open without attributes is an open."""
_METADATA = """
    ACCESS ALLOCATE CLONE CLOSE COPY COPY_NOTIFY CREATE DEALLOCATE DELEGRETURN FREE_STATEID FSID_PRESENT FSINFO
    FSSTAT FS_LOCATIONS GETACL GETATTR GETDEVICEINFO GETDEVICELIST GETXATTR GET_LEASE_TIME LAYOUTCOMMIT LAYOUTERROR
    LAYOUTGET LAYOUTRETURN LAYOUTSTATS LINK LISTXATTRS LOCK LOCKT LOCKU LOOKUP LOOKUPP LOOKUP_ROOT MKDIR MKNOD
    OFFLOAD_CANCEL OFFLOAD_STATUS OPEN OPEN_CONFIRM OPEN_DOWNGRADE PATHCONF READDIR READDIRPLUS READLINK
    RELEASE_LOCKOWNER REMOVE REMOVEXATTR RENAME RMDIR ROOT SECINFO SECINFO_NO_NAME SEEK SERVER_CAPS SETACL SETATTR
    SETXATTR STATFS SYMLINK TEST_STATEID
"""
_SESSION = """
    BIND_CONN_TO_SESSION CREATE_SESSION DESTROY_CLIENTID DESTROY_SESSION EXCHANGE_ID NULL RECLAIM_COMPLETE RENEW
    SEQUENCE SETCLIENTID SETCLIENTID_CONFIRM WRCACHE
"""
METADATA = frozenset(_METADATA.split())
"""Operations on names, attributes, opens, locks and layouts, of all versions (fs/nfs/nfs*xdr.c)."""
SESSION = frozenset(_SESSION.split())
"""What client and server say of themselves; no program waits for it."""
ALL_KINDS = DATA | SAME_KIND.keys() | METADATA | SESSION

_BYTES = (
    "normal_read",
    "normal_write",
    "direct_read",
    "direct_write",
    "server_read",
    "server_write",
    "read_pages",
    "write_pages",
)
_OPERATION_FIELDS = tuple(NfsOperation.__slots__)
_SENDS_AT = {"tcp": 6, "rdma": 6, "udp": 3}
"""Where `sends` stands: after port and bind count and, with connections, connects, connect time and idle time."""


def parse_mountstats(text: str) -> list[NfsMount]:
    """Return all NFS mounts that have statistics. Raises ValueError for numbers that are none.

    Source: Linux net/sunrpc/stats.c, net/sunrpc/xprtsock.c, fs/nfs/super.c.
    """
    mounts: list[NfsMount] = []
    section: list[str] = []
    for line in [*text.splitlines(), "device end mounted on / with fstype none"]:
        if line.startswith("device "):
            mounts.extend(_mount_of(section))
            section = []
        section.append(line)
    return mounts


def operations_by_kind(mount: NfsMount) -> dict[str, NfsOperation]:
    """Return a mount's operations with those of one kind added up: READ has what READ_PLUS did."""
    kinds: dict[str, NfsOperation] = {}
    for name, operation in mount.operations.items():
        kind = SAME_KIND.get(name, name)
        kinds[kind] = _added(kinds[kind], operation) if kind in kinds else operation
    return kinds


def _added(first: NfsOperation, second: NfsOperation) -> NfsOperation:
    pairs = {name: (getattr(first, name), getattr(second, name)) for name in _OPERATION_FIELDS}
    sums: dict[str, Any] = {name: None if None in pair else sum(pair) for name, pair in pairs.items()}
    return NfsOperation(**sums)


def _mount_of(section: list[str]) -> Iterable[NfsMount]:
    device = _DEVICE.match(section[0]) if section else None
    if device is None or not device[3].startswith("nfs") or device[4] is None:
        return []
    amounts: dict[str, int] = {}
    operations: dict[str, NfsOperation] = {}
    transports: list[NfsTransport] = []
    for line in section[1:]:
        name, _, values = line.strip().partition(":")
        numbers = values.split()
        if name == "bytes":
            amounts = dict(zip(_BYTES, map(int, numbers), strict=False))
        elif name == "xprt" and numbers and numbers[0] in _SENDS_AT:
            transports.append(_transport_of(numbers))
        elif name.isupper() and len(numbers) in (8, 9) and all(map(_is_number, numbers)):
            fields = dict(zip(_OPERATION_FIELDS, map(int, numbers), strict=False))
            operations[name] = NfsOperation(**{**fields, "queue_ms": _signed(fields["queue_ms"])})
    return [
        NfsMount(
            source=unescape(device[1]),
            mount_point=unescape(device[2]),
            filesystem=device[3],
            bytes=amounts,
            operations=operations,
            transports=tuple(transports),
        )
    ]


def _transport_of(numbers: list[str]) -> NfsTransport:
    first = _SENDS_AT[numbers[0]]
    sends, receives, bad_xids, in_flight, backlog = map(int, numbers[first : first + 5])
    return NfsTransport(
        sends=sends, receives=receives, bad_xids=bad_xids, in_flight_sum=in_flight, backlog_sum=backlog
    )


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdecimal()


def _signed(value: int) -> int:
    """Return a number of 64 bits that was printed as unsigned."""
    return value - 2 * _SIGN_64 if value >= _SIGN_64 else value


def unescape(path: str) -> str:
    r"""Return a path without its octal escapes: `\040` is a space."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), path)
