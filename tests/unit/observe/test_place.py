"""Whose data directory it is, and what an account lacks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mysql.connector
import pytest
from mysql.connector import errorcode

from volbench.core.records.facts import ServerFacts
from volbench.errors import MissingPrerequisite, UsageError
from volbench.observe import server as asked
from volbench.observe.place import find_place, find_process
from volbench.observe.server import ObservedServer, is_this_machine, listening_process


def server(**changes: Any) -> ObservedServer:
    output = {
        "address": "unix:/run/s",
        "local": True,
        "peer_pid": None,
        "hostname": "db1",
        "port": 3306,
        "datadir": "/var/lib/mysql/",
        "pid_file": "/var/lib/mysql/db1.pid",
        "facts": ServerFacts(flavor="mysql", version="8.4.0"),
    }
    return ObservedServer(**{**output, **changes})


def process(
    proc: Path, pid: int, comm: str = "mysqld", *, inside: int | None = None, hostname: str = "db1"
) -> None:
    directory = proc / str(pid)
    (directory / "root/var/lib/mysql").mkdir(parents=True)
    (directory / "root/etc").mkdir()
    (directory / "comm").write_text(f"{comm}\n")
    (directory / "status").write_text(f"Name:\t{comm}\nNSpid:\t{pid}\t{inside or pid}\n")
    (directory / "root/etc/hostname").write_text(f"{hostname}\n")
    (directory / "root/var/lib/mysql/db1.pid").write_text(f"{inside or pid}\n")
    (directory / "fd").mkdir()


def test_the_process_behind_the_socket_is_the_servers(tmp_path: Path) -> None:
    process(tmp_path, 71)
    process(tmp_path, 72)
    assert find_process(server(peer_pid=72), tmp_path) == 72


def test_a_proxy_behind_the_socket_is_not(tmp_path: Path) -> None:
    process(tmp_path, 71, "mariadbd")
    process(tmp_path, 99, "haproxy")
    assert find_process(server(peer_pid=99), tmp_path) == 71


def test_in_a_container_it_is_known_by_its_pid_file_and_host_name(tmp_path: Path) -> None:
    """Two containers with the same paths, in both of which the server is process 1."""
    process(tmp_path, 500, inside=1, hostname="db1")
    process(tmp_path, 600, inside=1, hostname="db2")
    assert find_process(server(hostname="db2"), tmp_path) == 600
    assert find_process(server(hostname="db3"), tmp_path) is None


def test_two_that_cannot_be_told_apart_are_not_guessed_at(tmp_path: Path) -> None:
    process(tmp_path, 500, inside=1)
    process(tmp_path, 600, inside=1)
    assert find_process(server(), tmp_path) is None


def test_the_process_that_listens_on_a_port(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    header = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    line = (
        "   {n}: 00000000:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  0  0 {inode} 1\n"
    )
    (tmp_path / "net/tcp").write_text(
        header
        + line.format(n=0, port=3306, state="01", inode=11)  # a connection
        + line.format(n=1, port=3306, state="0A", inode=12)
        + line.format(n=2, port=3307, state="0A", inode=13)
    )
    for pid, inode in ((7, 11), (8, 12), (9, 13)):
        process(tmp_path, pid)
        (tmp_path / f"{pid}/fd/3").symlink_to(f"socket:[{inode}]")
    assert listening_process(3306, tmp_path) == 8
    assert listening_process(3308, tmp_path) is None
    assert find_process(server(address="127.0.0.1:3306", local=True), tmp_path) == 8
    assert find_process(server(address="192.0.2.1:3306", local=False), tmp_path) is None, "that is another machine"


def test_a_container_of_this_machine_is_known_by_its_address(tmp_path: Path) -> None:
    """By its own address, not by that of a neighbour in the same network."""
    trie = (
        "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 172.17.0.0\n        /16 link UNICAST\n"
        "Local:\n  +-- 0.0.0.0/0 3 0 5\n     |-- {ip}\n        /32 host LOCAL\n     |-- 172.17.255.255\n"
        "        /32 link BROADCAST\n"
    )
    for pid, ip in ((500, "172.17.0.2"), (600, "172.17.0.3")):
        process(tmp_path, pid, inside=1)
        (tmp_path / f"{pid}/net").mkdir()
        (tmp_path / f"{pid}/net/fib_trie").write_text(trie.format(ip=ip))
    assert find_process(server(address="172.17.0.3:3306", local=False), tmp_path) == 600
    assert find_process(server(address="172.17.0.4:3306", local=False), tmp_path) is None
    assert find_process(server(address="172.17.255.255:3306", local=False), tmp_path) is None


@pytest.mark.parametrize(("host", "local"), [("127.0.0.1", True), ("localhost", True), ("192.0.2.1", False)])
def test_which_addresses_are_this_machine(host: str, local: bool) -> None:
    assert is_this_machine(host) == local


def test_a_server_elsewhere_has_no_host_and_says_what_is_missing() -> None:
    result = find_place(server(local=False, address="db.example:3306"), "auto")
    assert (result.host, result.volume, result.pid) == (None, None, None)
    assert "on another machine" in result.notes[0]
    assert find_place(server(), "none").notes == ("--volume none: no metrics of the host and its storage",)


def test_a_volume_that_is_given_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such path"):
        find_place(server(), str(tmp_path / "absent"))
    result = find_place(server(local=False), str(tmp_path))
    assert result.volume is not None
    assert result.volume.path == str(tmp_path)
    assert result.host is not None


def denying(*arguments: str) -> Callable[[str], list[tuple[Any, ...]]]:
    def query(sql: str) -> list[tuple[Any, ...]]:
        if any(term in sql for term in arguments):
            raise mysql.connector.errors.ProgrammingError(errno=errorcode.ER_TABLEACCESS_DENIED_ERROR)
        return [(0,)]

    return query


def test_missing_rights_are_told_with_their_grants() -> None:
    rights = asked._rights
    assert rights(denying(), "watch@10.0.0.%", schema_on=True) == []
    (note,) = rights(denying("INNODB_METRICS"), "watch@10.0.0.%", schema_on=True)
    assert "GRANT PROCESS ON *.* TO 'watch'@'10.0.0.%';" in note
    with pytest.raises(MissingPrerequisite) as caught:
        rights(denying("performance_schema"), "watch@10.0.0.%", schema_on=True)
    assert caught.value.next_step == "GRANT SELECT ON performance_schema.* TO 'watch'@'10.0.0.%';"
    (note,) = rights(denying("performance_schema"), "watch@%", schema_on=False)
    assert "performance_schema is off" in note


def test_this_process_is_no_server() -> None:
    assert find_process(server(peer_pid=os.getpid(), hostname="nowhere.invalid")) is None
