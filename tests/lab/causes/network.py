"""A server that is reached over TCP, and what makes the way to it slow.

The delay is toxiproxy's (github.com/Shopify/toxiproxy), packets are dropped by the kernel's netfilter (iptables
with the match `statistic`), and pauses are SIGSTOP for the proxy. All of it is on the loopback device and on two
ports of this lab alone. This kernel has no netem.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import mysql.connector

from causes.counters import Recorder
from causes.injectors import Injector
from causes.machine import LANE, Machine, Volume, labelled, run, start, wait_for
from causes.pauses import PeriodicPause
from volbench.machine.engine.connection import Account, connection

SERVER_PORT, PROXY_PORT, API_PORT = (port + 10 * int(LANE) for port in (23306, 23307, 23308))
HOST, USER = "127.0.0.1", "lab"
PROXY = "mysql"
MODULE = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.9.0"
START_S_MAX = 60.0
PROBE_S, PROBES_KEPT = 0.1, 10
_OF_MARIADB = {"innodb_redo_log_capacity": "innodb_log_file_size"}
_INSTRUMENTS = (
    "wait/io/file/%",
    "statement/%",
    "wait/synch/cond/sql/MYSQL_BIN_LOG::COND%",
    "wait/lock/metadata/sql/mdl",
)
"""As volbench switches them on for servers of its own."""
_STATEMENTS = (
    "SELECT SUM(COUNT_STAR), SUM(SUM_TIMER_WAIT) / 1e12"
    " FROM performance_schema.events_statements_summary_global_by_event_name WHERE EVENT_NAME LIKE 'statement/%'"
)
_TCP_FIELDS = {"TCPTimeouts": "tcp.timeouts", "TCPLossProbeRecovery": "tcp.probed_losses"}


class Tcp:
    """A server of the lab with a proxy before it, in the volume's directory; a context manager.

    `via` is the port that clients are given: the proxy's, or the server's own where packets are lost.
    """

    def __init__(
        self, machine: Machine, volume: Volume, spec: Mapping[str, Any], config: Mapping[str, Any]
    ) -> None:
        self._machine, self._config = machine, config
        self._place = volume.mount / "tcp"
        self.socket = self._place / "s"
        self.port = PROXY_PORT if spec["via"] == "proxy" else SERVER_PORT
        self.proxy_pid = 0

    @property
    def dsn(self) -> str:
        """For --server."""
        return f"mysql://{USER}@{HOST}:{self.port}/volbench"

    @contextmanager
    def running(self, recorder: Recorder) -> Iterator[None]:
        """The server and the proxy during a block; the lab's own round trips are counted meanwhile."""
        self._start_server()
        proxy = start([str(toxiproxy(self._machine.cache)), "-host", HOST, "-port", str(API_PORT)])
        self.proxy_pid = proxy.pid
        wait_for(_api_answers, START_S_MAX, "toxiproxy")
        ports = {"listen": f"{HOST}:{PROXY_PORT}", "upstream": f"{HOST}:{SERVER_PORT}"}
        api("POST", "/proxies", {"name": PROXY, **ports, "enabled": True})
        probes = Probes(self)
        recorder.add(probes.values)
        probes.start()
        try:
            yield
        finally:
            probes.stop()

    def _start_server(self) -> None:
        data = self._place / "data"
        shutil.copytree(_template(self._machine.cache), data)
        options = {
            "datadir": data,
            "socket": self.socket,
            "pid-file": self._place / "pid",
            "port": SERVER_PORT,
            "bind-address": HOST,
            "user": "root",
            "server-id": 1,
            "log-bin": "binlog",
            "sync-binlog": 1,
            "innodb-flush-method": "O_DIRECT",
            "performance-schema": "ON",
            "log-error": self._place / "log.err",
        }
        configured = {_OF_MARIADB.get(name, name): value for name, value in self._config.items()}
        listed = [f"--{name.replace('_', '-')}={value}" for name, value in (options | configured).items()]
        listed += [f"--performance-schema-instrument={name}=ON" for name in _INSTRUMENTS]
        start(["mysqld", "--no-defaults", *listed, "--skip-name-resolve"])
        wait_for(lambda: _server_answers(self.socket), START_S_MAX, "the server")
        statements = f"CREATE USER {USER}@'%'; GRANT ALL ON *.* TO {USER}@'%' WITH GRANT OPTION"
        run("mysql", f"--socket={self.socket}", "--user=root", "-e", statements)


class Probes:
    """The lab's own round trips: SELECT 1 on the clients' way and on the server's socket, ten times a second.

    Their difference is the way. Also what the server counts of statements, and the kernel of TCP and of the filter.
    """

    def __init__(self, tcp: Tcp) -> None:
        self._tcp = tcp
        self._over = threading.Event()
        self._counts: dict[str, float] = {}
        methods = {
            "path": Account(user=USER, host=HOST, port=tcp.port),
            "socket": Account(user="root", socket=str(tcp.socket)),
        }
        self._threads = [threading.Thread(target=self._follow, args=pair, daemon=True) for pair in methods.items()]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End."""
        self._over.set()
        for thread in self._threads:
            thread.join(timeout=10)

    def values(self) -> dict[str, float]:
        """Counters by name."""
        stopped = {"proxy.stopped": float(_state(self._tcp.proxy_pid) == "T")}
        return {**self._counts, **stopped, **tcp_counters(), **dropped_counter()}

    def _follow(self, name: str, account: Account) -> None:
        with (
            suppress(mysql.connector.Error),
            connection(account, timeout_s=60) as opened,
            opened.cursor() as cursor,
        ):
            latest_s: deque[float] = deque(maxlen=PROBES_KEPT)
            while not self._over.wait(PROBE_S):
                begun_s = time.monotonic()
                cursor.execute("SELECT 1")
                cursor.fetchall()
                latest_s.append(time.monotonic() - begun_s)
                self._counts[f"{name}.least_s"] = min(latest_s)
                if name == "socket":
                    cursor.execute(_STATEMENTS)
                    row: Any = next(iter(cursor.fetchall()))
                    statements, seconds = row
                    self._counts |= {"server.statements": float(statements), "server.statement_s": float(seconds)}


class _OfProxy(Injector):
    """What acts on the server's way."""

    def prepare(self) -> None:
        """Nothing."""

    @property
    def tcp(self) -> Tcp:
        """The server of this run."""
        if self.volume.tcp is None:
            raise ValueError("this needs a volume with a server that is reached over TCP")
        return self.volume.tcp


class Delay(_OfProxy):
    """toxiproxy's latency: `delay_ms` in each of `streams` (both without it), with a jitter of `jitter_ms`."""

    def on(self) -> None:
        """Add the toxics; connections that exist get them, too."""
        for stream in self._streams:
            attributes = {"latency": int(self.spec["delay_ms"]), "jitter": int(self.spec.get("jitter_ms", 0))}
            body = {"name": stream, "type": "latency", "stream": stream, "attributes": attributes}
            api("POST", f"/proxies/{PROXY}/toxics", body)

    def off(self) -> None:
        """Remove them; again is harmless."""
        for stream in self._streams:
            with suppress(OSError):
                api("DELETE", f"/proxies/{PROXY}/toxics/{stream}")

    @property
    def _streams(self) -> tuple[str, ...]:
        return tuple(self.spec.get("streams", ("upstream", "downstream")))


class Loss(Injector):
    """netfilter drops packets to and from the server's port at random, with `probability`, where they arrive."""

    def on(self) -> None:
        """Insert the rules."""
        for rule in self._rules():
            run("iptables", "-w", "10", "-I", *rule)

    def off(self) -> None:
        """Delete them; again is harmless."""
        for rule in self._rules():
            with suppress(RuntimeError):
                run("iptables", "-w", "10", "-D", *rule)

    def _rules(self) -> Iterator[list[str]]:
        lose = ["-m", "statistic", "--mode", "random", "--probability", str(self.spec["probability"]), "-j", "DROP"]
        for side in ("--dport", "--sport"):
            yield ["INPUT", "-i", "lo", "-p", "tcp", side, str(SERVER_PORT), *lose]


class ProxyPause(_OfProxy, PeriodicPause):
    """The proxy is stopped for `pause_ms`, every `every_s`: nothing passes, nothing is lost."""

    def signal(self, number: signal.Signals) -> None:
        """Send it to the proxy."""
        os.kill(self.tcp.proxy_pid, number)


NETWORK_INJECTORS: Mapping[str, type[Injector]] = {"delay": Delay, "loss": Loss, "proxy-pause": ProxyPause}


def tcp_counters(netstat: Path = Path("/proc/net/netstat")) -> dict[str, float]:
    """How often TCP waited for an acknowledgement in vain, on all of this machine."""
    lines = [line.split() for line in netstat.read_text().splitlines() if line.startswith("TcpExt:")]
    counted = dict(zip(*lines[:2], strict=True))
    return {name: float(counted[field]) for field, name in _TCP_FIELDS.items()}


def dropped_counter() -> dict[str, float]:
    """Packets that the rules of `Loss` have dropped."""
    listed = subprocess.run(
        ["iptables", "-w", "10", "-nvxL", "INPUT"], capture_output=True, text=True, check=False, timeout=20
    ).stdout.splitlines()
    ports = (f"dpt:{SERVER_PORT}", f"spt:{SERVER_PORT}")
    packets = [int(line.split()[0]) for line in listed if any(port in line.split() for port in ports)]
    return {"netfilter.dropped": float(sum(packets))} if packets else {}


def remove_rules() -> None:
    """What a lab that was killed has left of `Loss`."""
    if shutil.which("iptables") is None:
        return
    saved = subprocess.run(
        ["iptables", "-w", "10", "-S", "INPUT"], capture_output=True, text=True, check=False, timeout=20
    )
    for line in saved.stdout.splitlines():
        arguments = line.split()
        if str(SERVER_PORT) in arguments and arguments[:1] == ["-A"]:
            run("iptables", "-w", "10", "-D", *arguments[1:])


def toxiproxy(cache: Path) -> Path:
    """The proxy's program: of PATH, else built once into the lab's directory by Go."""
    installed = shutil.which("toxiproxy-server")
    built = cache / "bin" / "server"
    if installed is None and not built.exists():
        environment = {**labelled(), "GOBIN": str(built.parent)}
        subprocess.run(["go", "install", MODULE], check=True, timeout=600, env=environment, capture_output=True)
    return Path(installed) if installed is not None else built


def api(method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
    """One request to toxiproxy. Raises OSError."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"http://{HOST}:{API_PORT}{path}", data=data, method=method)
    with urlopen(request, timeout=10) as answer:  # noqa: S310
        return bytes(answer.read())


def _api_answers() -> bool:
    with suppress(OSError):
        return bool(api("GET", "/version"))
    return False


def _server_answers(socket: Path) -> bool:
    command = ["mysqladmin", f"--socket={socket}", "--user=root", "ping"]
    return subprocess.run(command, capture_output=True, check=False, timeout=20, env=labelled()).returncode == 0


def _state(pid: int) -> str:
    """The state of a process; empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _template(cache: Path) -> Path:
    """An empty data directory, made once."""
    template, making = cache / "empty-template", cache / "empty-making"
    if not template.exists():
        shutil.rmtree(making, ignore_errors=True)
        options = ["--user=root", "--skip-test-db", "--auth-root-authentication-method=normal"]
        run("mysql_install_db", f"--datadir={making}", *options)
        making.rename(template)
    return template
