"""A migration to rehearse: a server with every feature on one emulated volume, its dump on another one's."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from featured_schema import ACCOUNTS, SCHEMA, SQL_MODE, STATEMENTS
from server_on_volume import server_on

from volbench.core.profile.resolve import resolve_spec
from volbench.machine.engine.connection import Account, connection, write_private
from volbench.machine.engine.server import Server
from volbench.machine.volume.emulated.volume import EmulatedVolume

_SIX = "SELECT 1 n UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6"
GROWN: tuple[str, ...] = (
    "INSERT INTO customers (email, name, born, score, seen) "
    "SELECT CONCAT(b.n, '.', c.n, email), name, born, score, seen "
    f"FROM customers JOIN ({_SIX}) b JOIN ({_SIX}) c",
    "UPDATE items SET price = ROUND(price, 2)",
)
"""Rows enough to tell a query without its index; FLOAT values of six digits, which are all that a dump keeps."""
DUMP = (f"--database={SCHEMA}", "--routines", "--events", "--triggers", "--trx-consistency-only", "--threads=2")
"""mydumper leaves generated columns out, as MySQL asks for; mariadb-dump writes them, which MySQL refuses."""
_BOUND_S = 300


@dataclass(frozen=True, kw_only=True)
class Migration:
    """Both servers, the candidate's volume, and the source's dump."""

    source: Server
    candidate: Server
    volume: EmulatedVolume
    dump: Path
    directory: Path

    def restore(self) -> None:
        """The candidate as the dump has it; accounts are not in a dump and are made beside it."""
        gone = (f"DROP USER IF EXISTS '{name}'@'localhost'" for name in ("app", "reader"))
        execute(self.candidate.account, f"DROP DATABASE IF EXISTS {SCHEMA}", *gone, *ACCOUNTS)
        location = f"--defaults-file={self.candidate.option_file}"
        # mydumper keeps no sql_mode of bodies: they get the server's. (It writes events' times in UTC too.)
        ((usual,),) = self.candidate.query("SELECT @@GLOBAL.sql_mode")
        execute(self.candidate.account, f"SET GLOBAL sql_mode = '{SQL_MODE}'")
        _run("myloader", location, f"--directory={self.dump}", "--threads=2")
        execute(self.candidate.account, f"SET GLOBAL sql_mode = '{usual}'")

    def reader_file(self) -> Path:
        """An option file of the source's account with least grants."""
        path = self.directory / "reader.cnf"
        write_private(path, '[client]\nuser="reader"\npassword="read only"\n')
        return path


def execute(account: Account, *statements: str, schema: str = "") -> None:
    """Statements, in turn, on one connection."""
    with connection(account, schema or None, timeout_s=_BOUND_S) as opened, opened.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _run(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, timeout=_BOUND_S, check=False)
    assert ended.returncode == 0, f"{command[0]}: {ended.stderr.decode(errors='replace')[-2000:]}"


@contextlib.contextmanager
def migration(base: Path, spec: str, *, grown: Sequence[str] = GROWN) -> Iterator[Migration]:
    """MariaDB on gp3, MySQL on a volume of a SPEC; both filled alike, by a dump and its restore.

    Args:
        base: a short path on a disk, with a directory `volumes`.
    """
    volumes = [
        EmulatedVolume(resolve_spec(value, name=name), base / "volumes", name=name)
        for name, value in (("source", "ebs-gp3?size=10GiB"), ("candidate", spec))
    ]
    for volume in volumes:
        volume.start()
    try:
        with (
            server_on(volumes[0], base, "mariadb", in_docker=False) as source,
            server_on(volumes[1], base, "mysql", in_docker=True) as candidate,
        ):
            for server in (source, candidate):
                server.initialise()
                server.start()
            execute(source.account, *ACCOUNTS, *STATEMENTS, *grown)
            dump = base / "dump"
            _run("mydumper", f"--defaults-file={source.option_file}", f"--outputdir={dump}", *DUMP)
            made = Migration(source=source, candidate=candidate, volume=volumes[1], dump=dump, directory=base)
            made.restore()
            yield made
    finally:
        for volume in volumes:
            volume.remove()
