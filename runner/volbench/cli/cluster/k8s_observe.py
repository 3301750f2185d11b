"""`volbench k8s observe POD`: what a database's pod runs on, and the commands that observe it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from ruamel.yaml import YAML

from volbench.cli import console, options
from volbench.cli.cluster.k8s_runner import Context, Namespace
from volbench.errors import UsageError
from volbench.machine.placement.docker.image_names import tools_image


def observe(
    pod: Annotated[
        str, typer.Argument(metavar="POD", help="Of the server: of an operator's database, or any other.")
    ],
    namespace: Namespace = "",
    context: Context = "",
    user: Annotated[
        str, typer.Option(help="Account of the server that observes; docs/observe.md has its rights.")
    ] = "watch",
    secret: Annotated[
        str, typer.Option(metavar="NAME/KEY", help="Secret of the namespace with its password.")
    ] = "",
    tools: options.Tools = "",
    out: Annotated[Path, typer.Option(help="Directory of the two files that the commands name.")] = Path(),
    json: options.Json = False,
) -> None:
    """Find server, claim and device of a database's pod; print the commands that observe it. Changes nothing.

    Needs the rights to read the pod and to run a command in its container.
    """
    from volbench.machine.cluster.client import Cluster
    from volbench.machine.placement.kubernetes import observation
    from volbench.machine.placement.kubernetes.database_pods import look_at

    name, _, key = secret.partition("/")
    if secret and not (name and key):
        raise UsageError("a secret is NAME/KEY", where=f"--secret {secret}")
    access = observation.Access(user=user, secret=name, key=key, image=tools or tools_image())
    with closing(Cluster(context=context, namespace=namespace)) as cluster:
        database = look_at(cluster, pod)
    if json:
        console.show_json(asdict(database))
        return
    for line in observation.describe(database):
        console.out.print(line, markup=False, soft_wrap=True)
    profile, further = out / f"{pod}.debug.yaml", out / f"{pod}.container.yaml"
    for path, content in (
        (profile, observation.custom_profile(database, access)),
        (further, [observation.sidecar(database, access)]),
    ):
        with path.open("w", encoding="utf-8") as file:
            YAML().dump(content, file)
    sidecars = database.operator.sidecars if database.operator else "spec.template.spec.containers"
    resource = database.owner or "the resource that makes the pod"
    methods: tuple[tuple[str, list[str]], ...] = (
        ("an ephemeral container, without a restart", [observation.debug_command(database, access, str(profile))]),
        (f"a sidecar, which restarts the pods: add {further} to {sidecars} of {resource}", []),
        ("over TCP, without the host's side", list(observation.tcp_commands(database, access))),
    )
    for method, commands in methods:
        console.out.print(f"{method}{':' if commands else ''}", markup=False, soft_wrap=True)
        for command in commands:
            console.out.print(f"  {command}", markup=False, soft_wrap=True)
    if not secret:
        console.say("no --secret NAME/KEY: the container needs the password in VOLBENCH_MYSQL_PASSWORD")
