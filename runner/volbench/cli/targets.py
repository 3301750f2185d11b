"""Which target a run takes, and the objects it needs."""

from __future__ import annotations

from volbench.cli import console
from volbench.errors import EnvironmentLacks, UsageError, VolbenchError
from volbench.records.cell import ServerSpec
from volbench.records.run import RunRecord, TargetName
from volbench.target import means
from volbench.target.docker import DockerTarget
from volbench.target.interface import Target
from volbench.target.local import LocalTarget
from volbench.target.workspace import Workspace, default_cache
from volbench.volume.factory import make_volume
from volbench.volume.interface import Volume

NAMES: tuple[TargetName, ...] = ("local", "docker", "attach")


def choose_target(wanted: str, *, tools: str = "") -> TargetName:
    """The target named, or for `auto` docker where an engine and images answer, else local; says why.

    Raises UsageError for a name that is none.
    """
    if wanted == "auto":
        try:
            DockerTarget(Workspace(run_id="none-000000", cache=default_cache()), tools=tools).check()
        except VolbenchError as error:
            console.say(f"target local: docker is not to be had ({error.what}: {error.evidence or error.where})")
            return "local"
        console.say("target docker: an engine answers and the tools image is there")
        return "docker"
    for name in NAMES:
        if wanted == name:
            return name
    if wanted == "kubernetes":
        raise EnvironmentLacks("the kubernetes target is not built yet", where="--target", next_step="use docker")
    raise UsageError(
        f"no target is called {wanted!r}", where="--target", evidence=f"known: auto, {', '.join(NAMES)}"
    )


def with_flavor(server: ServerSpec, target: TargetName) -> ServerSpec:
    """The server with `any` decided: on the local target by what is installed, else MySQL."""
    if server.flavor != "any":
        return server
    there = means.database_server() if target == "local" and not server.version else None
    mariadb = there is not None and there.present and "mariadb" in there.evidence.lower()
    return server.model_copy(update={"flavor": "mariadb" if mariadb else "mysql"})


def make_target(run: RunRecord) -> Target:
    """The run's target. Raises EnvironmentLacks when its engine does not answer."""
    workspace = Workspace(run_id=run.run_id, cache=default_cache())
    if run.target == "docker":
        return DockerTarget(workspace, tools=str(run.target_options.get("tools", "")))
    return LocalTarget(workspace)


def make_volumes(run: RunRecord) -> dict[str, Volume]:
    """The run's volumes by name, not yet opened; none for a server that runs already."""
    if run.target == "attach":
        return {}
    return {spec.name: make_volume(spec, target=run.target, run_id=run.run_id) for spec in run.volumes}
