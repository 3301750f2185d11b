"""`volbench doctor`: the capabilities of this machine, and the command that fixes each missing prerequisite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from volbench.cli import console, options
from volbench.core.base.text import counted
from volbench.core.records.cell import ServerSpec
from volbench.errors import VolbenchError
from volbench.machine.host.host import host_facts
from volbench.machine.placement import capabilities
from volbench.machine.placement.capabilities import Means
from volbench.machine.placement.docker import images
from volbench.machine.placement.docker.containers import engine_client, user_namespace
from volbench.machine.volume.emulated.attachments import DAEMON
from volbench.machine.volume.emulated.requirements import find_daemon
from volbench.validation.toolkit import PROGRAMS as TOOLKIT
from volbench.validation.toolkit import local_tools_image


@dataclass(frozen=True, kw_only=True)
class Group:
    """Prerequisites of one target or use. `needed`: without one of them it is not possible."""

    name: str
    needed: tuple[Means, ...]
    optional: tuple[Means, ...] = ()

    @property
    def missing(self) -> tuple[Means, ...]:
        """What is needed and absent."""
        return tuple(item for item in self.needed if not item.present)


def doctor(json: options.Json = False) -> None:
    """Check this machine by target and use, and print the command that fixes each missing prerequisite."""
    groups = _groups()
    checks = [item for group in groups for item in (*group.needed, *group.optional)]
    if json:
        prerequisites = [
            {
                "name": item.name,
                "available": item.present,
                "evidence": item.evidence,
                "fix": item.remedy,
                "group": group.name,
                "needed": item in group.needed,
            }
            for group in groups
            for item in (*group.needed, *group.optional)
        ]
        console.show_json({"host": host_facts().model_dump(), "prerequisites": prerequisites})
        return
    host = host_facts()
    console.out.print(
        f"{host.cpus} CPUs, {host.memory_bytes / 2**30:.0f} GiB, kernel {host.kernel}, {host.cpu_model}"
    )
    console.out.print(_verdict(checks))
    for group in groups:
        console.out.print()
        console.out.print(_heading(group), style="bold", markup=False, highlight=False)
        for line in _lines(group):
            console.out.print(line, markup=False, soft_wrap=True)


def _groups() -> tuple[Group, ...]:
    """Return the prerequisites of each target, then those of other uses."""
    local, dumps, files, toolkit = _local()
    fuse = (capabilities.fuse_and_loop(), _emulator_daemon())
    return (
        Group(name="target docker", needed=tuple(_docker())),
        Group(name="target local", needed=local),
        Group(name="target kubernetes", needed=(capabilities.kubernetes(),)),
        Group(name="emulated volumes", needed=fuse),
        Group(name="volumes on NFS", needed=(capabilities.nfs_client(),)),
        Group(name="dumps and backups of target local", needed=(), optional=dumps),
        Group(name="fio steps of target local", needed=files),
        Group(name="Percona Toolkit: alter, purge, validate, facts of a host", needed=(), optional=toolkit),
        Group(name="pictures and tests of pages", needed=(), optional=(capabilities.chromium(),)),
    )


def _heading(group: Group) -> str:
    if group.missing:
        return f"{group.name}: not possible; it needs {', '.join(item.name for item in group.missing)}"
    absent = [item.name for item in group.optional if not item.present]
    if not group.needed and absent:
        programs = counted(len(group.optional), "program")
        return f"{group.name}: {len(group.optional) - len(absent)} of {programs}"
    return f"{group.name}: ready"


def _lines(group: Group) -> Iterator[str]:
    """Yield a line for each prerequisite, and one with the fix of a missing one; commands are never wrapped."""
    items = (*group.needed, *group.optional)
    width = max(len(item.name) for item in items)
    for item in items:
        yield f"  {'yes' if item.present else 'no':<3}  {item.name:<{width}}  {item.evidence}"
        if not item.present and item.remedy:
            yield f"  {'':<3}  {'':<{width}}  fix: {item.remedy}"


def _docker() -> list[Means]:
    engine = capabilities.docker_engine()
    if not engine.present:
        return [engine]
    return [
        engine,
        _container_user(),
        _image("tools image", lambda: images.tools_image(engine_client())),
        _image("mysql image", lambda: images.server_image(engine_client(), ServerSpec(flavor="mysql"), pull=False)),
    ]


def _container_user() -> Means:
    """Test whether containers can write files that this user owns: an engine without root may not let them."""
    name = "user in containers"
    try:
        namespace = user_namespace(engine_client())
    except VolbenchError as error:
        return Means(name=name, present=False, evidence=error.what, remedy=error.next_step)
    return Means(name=name, present=True, evidence=f"namespace {namespace}" if namespace else "the machine's own")


def _image(name: str, find: Callable[[], str]) -> Means:
    try:
        return Means(name=name, present=True, evidence=find())
    except VolbenchError as error:
        return Means(name=name, present=False, evidence=error.evidence or error.what, remedy="make images")


_OF_STEPS = ("pt-online-schema-change", "pt-archiver")
_OF_CELLS = ("pt-summary", "pt-mysql-summary")


def _local() -> tuple[tuple[Means, ...], ...]:
    """Return what target local needs, its programs for dumps, for fio, and those of Percona Toolkit."""
    packages = {"mysqldump": "default-mysql-client", "myloader": "mydumper"}
    packages |= dict.fromkeys((*_OF_STEPS, *_OF_CELLS), "percona-toolkit")

    def tools(*names: str) -> tuple[Means, ...]:
        return tuple(capabilities.find_program(name, package=packages.get(name, "")) for name in names)

    return (
        (capabilities.database_server(), *tools("sysbench")),
        tools("mysqldump", "mydumper", "myloader", "mariadb-backup"),
        tools("fio"),
        (*tools(*_OF_STEPS, *_OF_CELLS), *_toolkit()),
    )


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
    """Return the program behind `emulated:` volumes."""
    name, daemon = "emulator daemon", find_daemon()
    if daemon is None:
        fix = "make setup (it compiles the daemon, and installs cargo where it can)"
        return Means(name=name, present=False, evidence=f"no {DAEMON} next to this Python or on PATH", remedy=fix)
    return Means(name=name, present=True, evidence=str(daemon))


def _verdict(checks: list[Means]) -> str:
    present = {capability.name for capability in checks if capability.present}
    targets = []
    if {"docker", "user in containers", "tools image", "mysql image"} <= present:
        targets.append("docker")
    if {"mysqld", "sysbench"} <= present:
        targets.append("local")
    automatic = f"auto selects {targets[0]}" if targets else "auto selects none of them; `make setup` brings one"
    if "kubernetes" in present:
        targets.append("kubernetes")
    if not targets:
        return "Runs are not possible yet: run `make setup`."
    return f"Runs are possible with --target {' or '.join(targets)}; {automatic}."
