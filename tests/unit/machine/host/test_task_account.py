"""What the kernel says of tasks, beside real busy loops: who used the CPUs, and who waited for one."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest
from busy_loops import busy_loops

from volbench.machine.host import task_account
from volbench.machine.host.task_account import (
    IO_WORKERS,
    SERVER,
    CpuWatch,
    ProcessWalk,
    TaskAccount,
    TaskAccounts,
    keep_task_file,
    machine_busy_s,
    socket_peer,
    tree,
    walk_processes,
)
from volbench.measure.sample.host.tasks import TasksSampler
from volbench.measure.sample.interface import Unavailable

LIFETIME_S = 30
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
CPUS = os.cpu_count() or 1


def waited_for_s() -> float:
    """CPU time of processes that ended and were waited for; a clock may be a system call."""
    times = os.times()
    return times.children_user + times.children_system


def test_a_busy_loop_s_cpu_time_is_its_own() -> None:
    """What the account says of a process is what the kernel says of it when it is waited for."""
    with busy_loops(1) as (loop,):
        account = TaskAccount([loop.pid])
        account.read()
        before = waited_for_s()
        time.sleep(1.0)
        times = account.read()
        loop.kill()
        loop.wait()
    used_s = waited_for_s() - before
    assert 0 < times.cpu_s <= used_s + 0.1


def test_foreign_work_is_what_the_machine_did_beside_us() -> None:
    """Twice as many loops as CPUs: to one of them the machine is full; all of them wait for each other."""
    with busy_loops(2 * CPUS) as loops:
        as_others, as_ours = CpuWatch([loops[0].pid]), CpuWatch([loop.pid for loop in loops])
        with as_others.watching(), as_ours.watching():
            time.sleep(1.5)
    remaining, own = as_others.share, as_ours.share
    assert remaining is not None
    assert own is not None
    assert remaining.foreign_cpus > 0.3 * CPUS
    assert own.own.delay_s > 0.5 * CPUS, "half of them wait at any moment"
    assert own.own.cpu_s > 3 * remaining.own.cpu_s / 2
    assert own.foreign_cpus < remaining.foreign_cpus


def test_a_process_tree_holds_children_and_not_those_set_apart() -> None:
    with busy_loops(2) as loops:
        result = tree([os.getpid()], excluded=[loops[1].pid])
    assert {os.getpid(), loops[0].pid} <= set(result)
    assert loops[1].pid not in result


def test_what_is_gone_or_of_another_form_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("intr 1 2 3\n")
    assert machine_busy_s(tmp_path / "stat") is None
    assert machine_busy_s(tmp_path / "absent") is None
    assert TaskAccount([2**22 + 1]).read().cpu_s == 0
    assert socket_peer(tmp_path / "absent.sock") is None


def test_the_listener_of_a_socket_is_known(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        assert socket_peer(tmp_path / "s") == os.getpid()


def test_the_server_s_tasks_are_counted_apart_from_the_load_s() -> None:
    """The server was started by the agent here, as on the local target: its loop is none of the agent's."""
    with busy_loops(2) as (server, client):
        sampler = TasksSampler(server_pids=(server.pid,), client_pids=(os.getpid(),))
        sampler.read()
        bound_s = time.monotonic() + LIFETIME_S
        values = sampler.read()
        while min(values["cpu_s", "server"], values["cpu_s", "client"]) < 0.2 and time.monotonic() < bound_s:
            time.sleep(0.05)
            values = sampler.read()
        client.kill()
        client.wait()
        stopped = sampler.read()
        while sampler.read()["cpu_s", "server"] < stopped["cpu_s", "server"] + 0.2 and time.monotonic() < bound_s:
            time.sleep(0.05)
        later = sampler.read()
    assert later["cpu_s", "server"] > stopped["cpu_s", "server"]
    grown = later["cpu_s", "client"] - stopped["cpu_s", "client"]
    assert grown < later["cpu_s", "server"] - stopped["cpu_s", "server"], "what the agent itself used, at most"
    for name in ("cpu_s", "delay_s"):
        assert later[name, "cell"] == pytest.approx(later[name, "server"] + later[name, "client"])
    assert 0 < later["cpu_s", "sampler"] <= later["cpu_s", "client"] + 0.1


def test_one_look_at_all_processes_serves_some_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def walk() -> ProcessWalk:
        looks.append(1)
        return ProcessWalk(children={}, io_worker_ticks={})

    monkeypatch.setattr(task_account, "walk_processes", walk)
    accounts = TaskAccounts({SERVER: (os.getpid(),)}, readings_per_walk=3)
    assert [(accounts.read(), len(looks))[1] for _ in range(7)] == [1, 1, 1, 2, 2, 2, 3]


def test_the_kernel_s_io_workers_are_counted_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that serve others, and programs with such a name, are none; a new worker counts whole."""
    kernel = 0x4208060

    def write(pid: int, name: str, flags: int, ticks: int) -> None:
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        stat = f"{pid} ({name}) S 2 0 0 0 -1 {flags} 0 0 0 0 0 {ticks} 0 0 20 0 1 0"
        (tmp_path / str(pid) / "stat").write_text(stat)

    monkeypatch.setattr(task_account, "walk_processes", lambda: walk_processes(tmp_path))
    write(8, "kworker/u8:1-loop0", kernel, 500)
    write(9, "nfsd", kernel, 500)
    write(10, "kworker/fake", 0x400040, 500)
    accounts = TaskAccounts({SERVER: (os.getpid(),)})
    assert accounts.figures()[IO_WORKERS] == {"cpu_s": 0}
    write(8, "kworker/0:1 (odd) name", kernel, 500 + TICKS_PER_S)
    write(9, "nfsd", kernel, 900)
    write(10, "kworker/fake", 0x400040, 900)
    write(11, "jbd2/vda-8", kernel, 2 * TICKS_PER_S)
    assert accounts.figures()[IO_WORKERS] == {"cpu_s": 3}


def test_a_process_that_is_seen_late_counts_from_then(tmp_path: Path) -> None:
    """What it used for seconds before is nothing that it used in the interval in which it was seen."""

    def write(pid: int, ran_ns: int) -> None:
        task = tmp_path / str(pid) / "task" / str(pid)
        task.mkdir(parents=True, exist_ok=True)
        (task / "schedstat").write_text(f"{ran_ns} 0 1\n")

    account = TaskAccount((1,), proc=tmp_path)
    write(1, 10**9)
    account.read({}, rarely=True)
    write(2, 9 * 10**9)
    assert account.read({1: [2]}, rarely=True).cpu_s == 0
    write(2, 10 * 10**9)
    assert account.read({1: [2]}, rarely=True).cpu_s == 1


def test_the_load_s_tasks_are_counted_where_the_server_is_not_seen() -> None:
    values = TasksSampler(client_pids=(os.getpid(),)).read()
    assert {entity for _, entity in values} - {IO_WORKERS} == {"client", "sampler"}


def test_a_file_tells_a_sampler_of_processes_that_it_cannot_see(tmp_path: Path) -> None:
    """As in a container: what is told is a source while it is fresh, and none when who tells is gone."""
    file, stop = tmp_path / "tasks.json", threading.Event()
    with busy_loops(1) as (loop,):
        thread = threading.Thread(target=keep_task_file, args=(file, {"cell": [loop.pid]}, stop))
        thread.start()
        sampler = TasksSampler(file=file)
        bound_s = time.monotonic() + LIFETIME_S
        while not (file.exists() and sampler.read()["cpu_s", "cell"] > 0) and time.monotonic() < bound_s:
            time.sleep(0.05)
        assert sampler.read()["cpu_s", "cell"] > 0
    stop.set()
    thread.join()
    stale = file.read_text().replace('"at_s": ', '"at_s": -')
    file.write_text(stale)
    with pytest.raises(Unavailable, match="s old"):
        sampler.read()
