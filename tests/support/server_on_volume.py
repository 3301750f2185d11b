"""A database server on an emulated volume: killed and without power, it is asked what it kept."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import mysql.connector
from server_container import supervised
from waiting import wait_for

from volbench.core.base import ownership
from volbench.core.profile.resolve import resolve
from volbench.core.records.cell import CellPlaces, ServerSpec
from volbench.errors import VolbenchError
from volbench.machine.engine.server import Server
from volbench.machine.volume.emulated.commands import run
from volbench.machine.volume.emulated.control import ask
from volbench.machine.volume.emulated.volume import EmulatedVolume

WORKERS = 4
ROWS = 2000
#: What fits quickly on this machine's disk; other block profiles get 4 GiB.
SIZES = {"ebs-sc1": "125GiB", "ebs-st1": "125GiB", "ebs-io2": "16GiB"}
CONFIG = {"innodb_buffer_pool_size": "32MiB", "innodb_flush_log_at_trx_commit": 1, "sync_binlog": 1}
START_S_MAX = 600.0  # an sc1 needs minutes to recover
ASYNC_LOAD_S = 6.0
"""More than an asynchronous export keeps back: 5 s."""
_JOIN_S_MAX = 60.0

Flavor = Literal["mysql", "mariadb"]


@dataclass(frozen=True, kw_only=True)
class Lived:
    """What a server on a volume went through.

    Args:
        start_s: from the first start to the first answer.
        transactions_per_s: of WORKERS connections, each with five reads, an update, an insert and a commit.
        crash_recovery_s, power_recovery_s: from the start after a SIGKILL, after a power cut, to the first answer.
        acknowledged: commits that the server has said yes to, in all.
        lost_by_crash, lost_by_power_cut: of these, how many were gone afterwards.
    """

    profile: str
    durability: str
    flavor: Flavor
    version: str
    start_s: float
    transactions_per_s: float
    crash_recovery_s: float
    power_recovery_s: float
    acknowledged: int
    lost_by_crash: int
    lost_by_power_cut: int


@dataclass(kw_only=True)
class Load:
    """Connections that commit one after the other, each noting how far it has got; ends with the server."""

    server: Server
    acknowledged: dict[int, int] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """The load, in threads, until the block ends."""
        self._stop.clear()
        threads = [threading.Thread(target=self._work, args=(number,)) for number in range(WORKERS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(_JOIN_S_MAX)
            assert not any(thread.is_alive() for thread in threads), "a connection hangs"

    def work(self, seconds: float) -> None:
        """Let the load run for so long, and until each connection has committed."""
        before = dict(self.acknowledged)
        time.sleep(seconds)  # what is measured
        wait_for(
            lambda: all(self.acknowledged.get(item, 0) > before.get(item, 0) for item in range(WORKERS)),
            "a connection commits nothing",
        )

    def count(self) -> int:
        """Commits that were acknowledged."""
        return sum(self.acknowledged.values())

    def lost(self) -> int:
        """How many acknowledged commits are not in the table."""
        rows = dict(self.server.query("SELECT worker, COUNT(*) FROM kept.ledger GROUP BY worker"))
        # A commit that was never acknowledged may be there; then the next one of its worker finds it.
        return sum(max(0, done - int(rows.get(worker, 0))) for worker, done in self.acknowledged.items())

    def _work(self, worker: int) -> None:
        with contextlib.suppress(mysql.connector.Error, VolbenchError), self.server.connect() as connection:
            number = self.acknowledged.setdefault(worker, 0)
            with connection.cursor() as cursor:
                while not self._stop.is_set():
                    cursor.execute("START TRANSACTION")
                    for step in range(5):
                        cursor.execute("SELECT text FROM kept.item WHERE id = %s", ((number * 7 + step) % ROWS,))
                        cursor.fetchall()
                    item = (number * WORKERS + worker) % ROWS
                    cursor.execute("UPDATE kept.item SET count = count + 1 WHERE id = %s", (item,))
                    cursor.execute("REPLACE INTO kept.ledger VALUES (%s, %s, %s)", (worker, number, "x" * 200))
                    cursor.execute("COMMIT")
                    number += 1
                    self.acknowledged[worker] = number


def volume_of(profile: str, base: Path, **options: str) -> EmulatedVolume:
    """A volume of a profile, as small as that may be, below `base`/volumes."""
    resolved = resolve(profile, options)
    if resolved.mode == "block":
        resolved = resolve(profile, {"size": SIZES.get(profile, "4GiB"), **options})
    return EmulatedVolume(resolved, base / "volumes", name="v")


@contextlib.contextmanager
def server_on(volume: EmulatedVolume, base: Path, flavor: Flavor, *, in_docker: bool) -> Iterator[Server]:
    """A server whose data directory is on the volume; killed and removed at the end of the block."""
    control = Path(tempfile.mkdtemp(prefix="c", dir=base))
    data_dir = volume.data / "server" / "data"
    if not data_dir.parent.exists():
        ownership.claim(data_dir.parent, purpose="test")
    locations = CellPlaces(
        data_dir=str(data_dir),
        volume_dir=str(data_dir.parent),
        control_dir=str(control),
        template_dir=str(base / "t"),
        scratch_dir=str(control),
    )
    config = CONFIG
    if volume.resolved.durability == "async" and flavor == "mysql":
        # Names are durable at once, contents are not: a redo file begun in the last seconds would be there, empty.
        config = {**CONFIG, "innodb_redo_log_capacity": "4GiB"}  # files too large to begin one in that time
    spec = ServerSpec.model_validate({"flavor": flavor, "config": config, "start_timeout": START_S_MAX})
    with supervised(control, base, flavor if in_docker else None) as (supervisor, _):
        yield Server(spec=spec, paths=locations, supervisor=supervisor)


def live_through(
    volume: EmulatedVolume, base: Path, flavor: Flavor, *, in_docker: bool = True, load_s: float = 6.0
) -> Lived:
    """Initialise; work, SIGKILL, recover; work, power cut, recover; each time count the commits that are lost.

    The volume is removed at the end. The load takes `load_s` each time, before the power cut of an asynchronous
    export no less than ASYNC_LOAD_S.
    """
    volume.start()
    with server_on(volume, base, flavor, in_docker=in_docker) as server:
        ask(volume.directory, {"do": "hurry", "on": True})  # two and a half minutes on an st1, and nothing to learn
        server.initialise()
        ask(volume.directory, {"do": "hurry", "on": False})
        start_s = server.start()
        _create_tables(server)
        run(["sync", "-f", str(volume.data)])  # our own account file, of which no server knows
        load = Load(server=server)
        with load.running():
            load.work(load_s)
            per_s = load.count() / load_s
            server.kill()
        crash_recovery_s = server.start()
        lost_by_crash = load.lost()
        version = server.identity.version
        load = Load(server=server, acknowledged=dict(load.acknowledged))
        with load.running():
            load.work(max(load_s, ASYNC_LOAD_S) if volume.resolved.durability == "async" else load_s)
            volume.fault("power_cut")
            server.kill()
    volume.stop()
    volume.start()
    with server_on(volume, base, flavor, in_docker=in_docker) as server:
        power_recovery_s = server.start()
        load.server = server
        lost_by_power_cut = load.lost()
        server.stop()
    volume.remove()
    return Lived(
        profile=volume.resolved.profile,
        durability=volume.resolved.durability,
        flavor=flavor,
        version=version,
        start_s=start_s,
        transactions_per_s=per_s,
        crash_recovery_s=crash_recovery_s,
        power_recovery_s=power_recovery_s,
        acknowledged=load.count(),
        lost_by_crash=lost_by_crash,
        lost_by_power_cut=lost_by_power_cut,
    )


def _create_tables(server: Server) -> None:
    server.query("CREATE DATABASE kept")
    server.query(
        "CREATE TABLE kept.ledger (worker INT, number INT, text VARCHAR(200), PRIMARY KEY (worker, number))"
    )
    server.query("CREATE TABLE kept.item (id INT PRIMARY KEY, count INT NOT NULL, text VARCHAR(200))")
    rows = ", ".join(f"({number}, 0, '{number:0>200}')" for number in range(ROWS))
    server.query(f"INSERT INTO kept.item VALUES {rows}")
