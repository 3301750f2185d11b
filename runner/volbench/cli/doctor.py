"""`volbench doctor`: the capabilities of this machine, and the command that fixes each missing prerequisite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from volbench.cli import console, options
from volbench.core.records.cell import ServerSpec
from volbench.errors import VolbenchError
from volbench.machine.host.host import host_facts
from volbench.machine.placement import capabilities
from volbench.machine.placement.capabilities import Means
from volbench.machine.placement.docker import images
from volbench.machine.placement.docker.containers import engine_client
from volbench.machine.volume.emulated.attachments import DAEMON
from volbench.machine.volume.emulated.requirements import find_daemon
from volbench.validation.toolkit import PROGRAMS as TOOLKIT
from volbench.validation.toolkit import local_tools_image


def doctor(json: options.Json = False) -> None:
    """Check this machine, and print the command that fixes each missing prerequisite."""
    other_checks = [capabilities.nfs_client(), capabilities.chromium(), capabilities.kubernetes()]
    checks = [*_docker(), *_local(), capabilities.fuse_and_loop(), _emulator_daemon(), *other_checks]
    if json:
        prerequisites = [
            {"name": item.name, "available": item.present, "evidence": item.evidence, "fix": item.mend}
            for item in checks
        ]
        console.show_json({"host": host_facts().model_dump(), "prerequisites": prerequisites})
        return
    host = host_facts()
    console.out.print(
        f"{host.cpus} CPUs, {host.memory_bytes / 2**30:.0f} GiB, kernel {host.kernel}, {host.cpu_model}"
    )
    for line in _lines(checks):
        console.out.print(line, markup=False)
    console.out.print(_verdict(checks))


def _lines(checks: Sequence[Means]) -> Iterator[str]:
    """Yield a line for each capability, and one with the fix of a missing one; commands are never wrapped."""
    width = max(len(capability.name) for capability in checks)
    for capability in checks:
        yield f"  {'yes' if capability.present else 'no':<3}  {capability.name:<{width}}  {capability.evidence}"
        if not capability.present and capability.mend:
            yield f"  {'':<3}  {'':<{width}}  fix: {capability.mend}"


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


_OF_STEPS = ("pt-online-schema-change", "pt-archiver")
_OF_CELLS = ("pt-summary", "pt-mysql-summary")


def _local() -> list[Means]:
    names = ("sysbench", "mysqldump", "mydumper", "myloader", "mariadb-backup", "fio", *_OF_STEPS, *_OF_CELLS)
    packages = {"mysqldump": "default-mysql-client", "myloader": "mydumper"}
    packages |= dict.fromkeys((*_OF_STEPS, *_OF_CELLS), "percona-toolkit")
    tools = [capabilities.find_program(name, package=packages.get(name, "")) for name in names]
    return [capabilities.database_server(), *tools, *_toolkit()]


def _toolkit() -> list[Means]:
    """Return the programs of Percona Toolkit that `validate` runs, here or in a container of the tools image."""
    installed = [capabilities.find_program(name, package="percona-toolkit") for name in TOOLKIT]
    image = "" if all(program.present for program in installed) else local_tools_image()
    return [
        program
        if program.present or not image
        else Means(name=program.name, present=True, evidence=f"in a container of {image}")
        for program in installed
    ]


def _emulator_daemon() -> Means:
    """The program behind `emulated:` volumes."""
    name, daemon = "emulator daemon", find_daemon()
    if daemon is None:
        fix = "make setup (it compiles the daemon, and installs cargo where it can)"
        return Means(name=name, present=False, evidence=f"no {DAEMON} next to this Python or on PATH", mend=fix)
    return Means(name=name, present=True, evidence=str(daemon))


def _verdict(checks: list[Means]) -> str:
    present = {capability.name for capability in checks if capability.present}
    targets = []
    if {"docker", "tools image", "mysql image"} <= present:
        targets.append("docker")
    if {"mysqld", "sysbench"} <= present:
        targets.append("local")
    automatic = f"auto selects {targets[0]}" if targets else "auto selects none of them; `make setup` brings one"
    if "kubernetes" in present:
        targets.append("kubernetes")
    if not targets:
        return "Runs are not possible yet: run `make setup`."
    return f"Runs are possible with --target {' or '.join(targets)}; {automatic}."
