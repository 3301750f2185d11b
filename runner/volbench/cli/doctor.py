"""`volbench doctor`: what this machine can do, and what is missing, with the command that mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from volbench.cli import console, options
from volbench.errors import VolbenchError
from volbench.placement import capabilities
from volbench.placement.capabilities import Means
from volbench.placement.docker import images
from volbench.placement.docker.target import engine_client
from volbench.records.cell import ServerSpec
from volbench.volume.emulated.requirements import find_daemon
from volbench.volume.emulated.teardown import DAEMON
from volbench.volume.facts.host import host_facts


def doctor(json: options.Json = False) -> None:
    """Report what this machine can do, each lack with the command that mends it."""
    others = [capabilities.nfs_client(), capabilities.chromium(), capabilities.kubernetes()]
    found = [*_docker(), *_local(), capabilities.fuse_and_loop(), _emulator_daemon(), *others]
    if json:
        console.show_json({"host": host_facts().model_dump(), "means": [item.__dict__ for item in found]})
        return
    host = host_facts()
    console.out.print(
        f"{host.cpus} CPUs, {host.memory_bytes / 2**30:.0f} GiB, kernel {host.kernel}, {host.cpu_model}"
    )
    for line in _lines(found):
        console.out.print(line, markup=False)
    console.out.print(_verdict(found))


def _lines(found: Sequence[Means]) -> Iterator[str]:
    """A line for each, and one with the command that mends a lack: nothing is broken in the middle."""
    width = max(len(item.name) for item in found)
    for item in found:
        yield f"  {'yes' if item.present else 'no':<3}  {item.name:<{width}}  {item.evidence}"
        if not item.present and item.mend:
            yield f"  {'':<3}  {'':<{width}}  mended by: {item.mend}"


def _docker() -> list[Means]:
    engine = capabilities.docker_engine()
    if not engine.present:
        return [engine]
    return [
        engine,
        _image("tools image", lambda: images.tools_image(engine_client())),
        _image("mysql image", lambda: images.server_image(engine_client(), ServerSpec(flavor="mysql"), pull=False)),
    ]


def _image(name: str, find: Callable[[], str]) -> Means:
    try:
        return Means(name=name, present=True, evidence=find())
    except VolbenchError as error:
        return Means(name=name, present=False, evidence=error.evidence or error.what, mend="make images")


def _local() -> list[Means]:
    names = ("sysbench", "mysqldump", "mydumper", "fio", "pt-query-digest")
    packages = {"mysqldump": "default-mysql-client", "pt-query-digest": "percona-toolkit"}
    tools = [capabilities.find_program(name, package=packages.get(name, "")) for name in names]
    return [capabilities.database_server(), *tools]


def _emulator_daemon() -> Means:
    """The program behind `emulated:` volumes."""
    name, daemon = "emulator daemon", find_daemon()
    if daemon is None:
        mend = "make test (it compiles the daemon, and installs cargo where it can)"
        return Means(name=name, present=False, evidence=f"no {DAEMON} beside this Python or on PATH", mend=mend)
    return Means(name=name, present=True, evidence=str(daemon))


def _verdict(found: list[Means]) -> str:
    there = {item.name for item in found if item.present}
    ways = []
    if {"docker", "tools image", "mysql image"} <= there:
        ways.append("docker")
    if {"mysqld", "sysbench"} <= there:
        ways.append("local")
    if not ways:
        return "Runs are not possible yet: `make setup` mends that."
    return f"Runs are possible with --target {' or '.join(ways)}; auto takes {ways[0]}."
