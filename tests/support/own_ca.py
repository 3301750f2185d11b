"""A certificate authority of the test's own, made by openssl, and servers that accept TLS connections alone."""

from __future__ import annotations

import contextlib
import random
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scratch_server import PASSWORD, ScratchServer, scratch_server
from server_container import throwaway_container

from volbench.machine.engine.connection import Account
from volbench.testing.containers import QueryWaitStrategy

_BOUND_S = 60
MYSQL_IMAGE = "volbench/mysql:9.7"


@dataclass(frozen=True, kw_only=True)
class OwnCa:
    """Files of an authority, of another one, and of a server's and a client's certificate signed by the first."""

    directory: Path

    @property
    def ca(self) -> Path:
        return self.directory / "ca.pem"

    @property
    def wrong_ca(self) -> Path:
        return self.directory / "wrong.pem"

    def server_options(self) -> list[str]:
        own = self.directory
        files = [f"--ssl-ca={self.ca}", f"--ssl-cert={own}/server.pem", f"--ssl-key={own}/server-key.pem"]
        return [*files, "--require-secure-transport=ON"]


@dataclass(frozen=True, kw_only=True)
class TlsServer:
    """A server that requires TLS, its own CA, and an option file with the password."""

    ca: OwnCa
    port: int
    option_file: Path
    account: Account

    def dsn(self, schema: str, *options: str, host: str = "localhost") -> str:
        return f"mysql://bench@{host}:{self.port}/{schema}" + ("?" + "&".join(options) if options else "")

    @property
    def verified(self) -> tuple[str, str]:
        return ("ssl-mode=VERIFY_IDENTITY", f"ssl-ca={self.ca.ca}")


def make_ca(directory: Path) -> OwnCa:
    """Certificates for the host name localhost; none for its address."""
    for name in ("ca", "wrong"):
        _openssl(
            directory,
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            f"{name}-key.pem",
            "-out",
            f"{name}.pem",
            "-days",
            "2",
            "-subj",
            f"/CN={name} of a test",
        )
    (directory / "names").write_text("subjectAltName=DNS:localhost\n")
    for name in ("server", "client"):
        _openssl(
            directory,
            "req",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            f"{name}-key.pem",
            "-out",
            f"{name}.csr",
            "-subj",
            "/CN=localhost",
        )
        _openssl(
            directory,
            "x509",
            "-req",
            "-in",
            f"{name}.csr",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca-key.pem",
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            "names",
            "-out",
            f"{name}.pem",
        )
    for file in directory.iterdir():
        file.chmod(0o644)  # a container's server runs as another user; nobody else ever trusts this CA
    return OwnCa(directory=directory)


def _openssl(directory: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True, timeout=_BOUND_S)


def free_port() -> int:
    """A port that no server of this machine has now, and that no connection is given meanwhile.

    The kernel gives ports from its ephemeral range to whoever connects, also this one until its server binds it.
    """
    ephemeral_from = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(ephemeral_from // 2, ephemeral_from)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@contextmanager
def local_tls_server(directory: Path) -> Iterator[tuple[TlsServer, ScratchServer]]:
    """The local server on a port of the loopback address, and its socket for root."""
    (directory / "ca").mkdir()
    ca, port = make_ca(directory / "ca"), free_port()
    options = ["--skip-networking=0", "--bind-address=127.0.0.1", f"--port={port}", *ca.server_options()]
    with scratch_server(directory, *options) as server:
        server.query(f"CREATE USER bench@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'")
        server.query("GRANT ALL ON *.* TO bench@'127.0.0.1' WITH GRANT OPTION")
        server.query("GRANT ALL ON *.* TO bench@localhost WITH GRANT OPTION")  # where the address has a name
        account = Account(user="bench", password=PASSWORD, host="localhost", port=port, password_unverified=True)
        yield TlsServer(ca=ca, port=port, option_file=_option_file(directory), account=account), server


@contextmanager
def container_tls_server(directory: Path) -> Iterator[TlsServer]:
    """MySQL in a container, on a port of this machine's loopback address."""
    (directory / "ca").mkdir()
    ca = make_ca(directory / "ca")
    create = f"CREATE USER bench@'%' IDENTIFIED BY '{PASSWORD}' REQUIRE SSL;\n"
    (directory / "ca" / "user.sql").write_text(create + "GRANT ALL ON *.* TO bench@'%' WITH GRANT OPTION;\n")
    data = "--no-defaults --user=root --datadir=/var/tmp/data"
    serve = f"mysqld {data} --initialize-insecure && exec mysqld {data} --init-file={ca.directory}/user.sql "
    port = free_port()
    serve += f"--socket=/var/tmp/s --bind-address=127.0.0.1 --port={port} --mysqlx=OFF "
    serve += " ".join(ca.server_options())
    container = throwaway_container(MYSQL_IMAGE, ["-c", serve], entrypoint="sh", network_mode="host")
    container.with_volume_mapping(ca.directory, str(ca.directory), "ro")
    account = Account(user="bench", password=PASSWORD, host="localhost", port=port, password_unverified=True)
    with container.waiting_for(QueryWaitStrategy(lambda _: account)):
        yield TlsServer(ca=ca, port=port, option_file=_option_file(directory), account=account)


def _option_file(directory: Path) -> Path:
    path = directory / "tls.cnf"
    path.touch(mode=0o600)
    path.write_text(f'[client]\nuser=bench\npassword="{PASSWORD}"\n')
    return path
