"""The tools image: its size, and that each program, library and package left in it works."""

from __future__ import annotations

import subprocess

import docker
import pytest

from volbench.machine.placement.docker.image_names import tools_image
from volbench.validation.toolkit import PROGRAMS

pytestmark = pytest.mark.docker
SIZE_MAX_BYTES = 400e6
STEPS = ("pt-online-schema-change", "pt-archiver", "pt-table-checksum", "pt-summary", "pt-mysql-summary")
COMMANDS = (
    "mysql --version",
    "mysqldump --version",
    "mydumper --version",
    "myloader --version",
    "sysbench --version",
    "fio --version",
    "git --version",
    "zstd --version",
    "xz --version",
    "bzip2 --help",
    "volbench --version",
)
MODULES = (
    *("boto3", "kubernetes.client", "mysql.connector", "_mysql_connector", "numpy", "sqlglot", "ssl"),
    *("pyarrow.compute", "pyarrow.csv", "pyarrow.dataset", "pyarrow.parquet", "rich.traceback"),
)
UNRESOLVED = """
{ find /usr/bin /usr/sbin /usr/lib/git-core -type f -perm -u+x
  find /usr/lib /opt/volbench -type f -name '*.so*'; } |
  xargs -n 200 ldd 2>/dev/null | awk '/^[^\\t]/ { file = $1 } /not found/ { print file, $1 }'
"""


def in_image(*command: str) -> str:
    done = subprocess.run(
        ["docker", "run", "--rm", "--network=none", tools_image(), *command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_is_small() -> None:
    client = docker.from_env()
    try:
        assert client.images.get(tools_image()).attrs["Size"] <= SIZE_MAX_BYTES
    finally:
        client.close()


def test_what_is_left_in_it_works() -> None:
    """Programs start, those of Percona Toolkit find their Perl modules, packages can be imported."""
    toolkit = " && ".join(
        f"perl -c /usr/bin/{name}" for name in sorted({*PROGRAMS, *STEPS}) if "summary" not in name
    )
    in_image("sh", "-ec", f"{' && '.join(COMMANDS)} && {toolkit} && python3 -c 'import {', '.join(MODULES)}'")


def test_no_library_lacks_one_that_it_is_linked_with() -> None:
    assert in_image("sh", "-ec", UNRESOLVED) == ""
