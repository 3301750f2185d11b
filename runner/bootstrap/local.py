"""What the local target needs, for machines on which containers are impossible."""

from __future__ import annotations

from bootstrap.console import Console
from bootstrap.directories import Directories
from bootstrap.packages import Need, install, program
from volbench.machine.placement import capabilities

LOCAL_NEEDS: tuple[Need, ...] = (
    Need(
        met=lambda: capabilities.database_server().present,
        packages=("mysql-server-core", "mysql-server-core-8.4", "mysql-server-core-8.0", "mariadb-server-core"),
        reason="the server that the local target starts; no service is set up",
    ),
    program("sysbench", reason="puts the load on the server"),
    Need(
        met=lambda: capabilities.find_program("mysqldump", "mariadb-dump").present,
        packages=("mysql-client-core", "mysql-client-core-8.4", "mysql-client-core-8.0", "mariadb-client"),
        reason="mysqldump for the dump and restore steps",
    ),
    program("mydumper", reason="parallel dump and restore", optional=True),
    program("zstd", reason="reads compressed dumps", optional=True),
    program("bzip2", reason="reads compressed dumps", optional=True),
    program("xz", "xz-utils", reason="reads compressed dumps", optional=True),
    program("mariadb-backup", reason="physical backups of a MariaDB", optional=True),
    program("fio", reason="probes a volume without a server", optional=True),
    program(
        "pt-summary", "percona-toolkit", reason="changes of tables, purges, pages on host and server", optional=True
    ),
)


def ensure_local(directories: Directories, console: Console) -> capabilities.Means:
    """A server and sysbench on this machine, installed where they are missing; the answer names them."""
    install(LOCAL_NEEDS, directories, console)
    return capabilities.local_server_tools()
