"""Which target a run takes, and the objects it needs."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from volbench.cli import console
from volbench.errors import UsageError, VolbenchError
from volbench.records.cell import CellResult, ServerSpec
from volbench.records.run import RunRecord, TargetName
from volbench.target import means
from volbench.target.docker import DockerTarget
from volbench.target.interface import Target
from volbench.target.kubernetes_options import read_options
from volbench.target.local import LocalTarget
from volbench.target.workspace import Workspace, default_cache
from volbench.volume.factory import make_volume
from volbench.volume.interface import Volume

_log = logging.getLogger(__name__)
NAMES: tuple[TargetName, ...] = ("local", "docker", "kubernetes", "attach")


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
    raise UsageError(
        f"no target is called {wanted!r}", where="--target", evidence=f"known: auto, {', '.join(NAMES)}"
    )


def with_flavor(server: ServerSpec, target: TargetName) -> ServerSpec:
    """The server with `any` decided: on the local target by what is installed, else MySQL."""
    if server.flavor != "any":
        return server
    there = means.database_server() if target == "local" and not server.version else None
    mariadb = there is not None and there.present and "mariadb" in there.evidence.lower()
    flavor = "mariadb" if mariadb else "mysql"
    _log.info("engine any: %s on target %s (%s)", flavor, target, there.evidence if there else "not looked for")
    return server.model_copy(update={"flavor": flavor})


def make_target(run: RunRecord, results: Sequence[CellResult] = ()) -> tuple[Target, dict[str, Volume]]:
    """The run's target and its volumes by name, not yet opened; a server that runs already has none.

    `results` are those of earlier cells of the run. Raises EnvironmentLacks when the target's engine or cluster is
    not to be had.
    """
    workspace = Workspace(run_id=run.run_id, cache=default_cache())
    tools = str(run.target_options.get("tools", ""))
    if run.target == "kubernetes":
        node = next((result.host.hostname for result in reversed(results) if result.status == "done"), None)
        return _kubernetes(run, workspace, tools, node or "")
    target: Target = DockerTarget(workspace, tools=tools) if run.target == "docker" else LocalTarget(workspace)
    if run.target == "attach":
        return target, {}
    return target, {spec.name: make_volume(spec, target=run.target, run_id=run.run_id) for spec in run.volumes}


def _kubernetes(run: RunRecord, workspace: Workspace, tools: str, node: str) -> tuple[Target, dict[str, Volume]]:
    # imported here: the client takes half a second, which no other target should cost
    from volbench.target.kubernetes import KubernetesTarget  # noqa: PLC0415
    from volbench.volume.cluster import Cluster  # noqa: PLC0415

    options = read_options(run.target_options)
    cluster = Cluster(context=options.context, namespace=options.namespace)
    target = KubernetesTarget(workspace, cluster=cluster, options=options, tools=tools, node=node)
    volumes = {
        spec.name: make_volume(spec, target=run.target, run_id=run.run_id, cluster=cluster, keep=options.keep)
        for spec in run.volumes
    }
    return target, volumes
