"""`volbench k8s job`: observe, capture, validate, or run a suite, on a database from within its cluster."""

from __future__ import annotations

import secrets
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from volbench.cli import console, options
from volbench.cli.cluster.k8s_runner import Context, Namespace
from volbench.core.records.own_places import inside
from volbench.machine.cluster.names import object_name
from volbench.machine.placement.docker.image_names import tools_image

CONTEXT_SETTINGS = {"allow_interspersed_args": False}
"""What follows the command's name is the command's own."""


def job(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMAND",
            help="observe, capture, validate, or run with --server; with its own options.",
        ),
    ],
    namespace: Namespace = "",
    context: Context = "",
    secret: Annotated[
        str, typer.Option(metavar="NAME/KEY", help="Secret of the namespace with the account's password.")
    ] = "",
    mount: Annotated[
        list[str],
        typer.Option(
            metavar="secret|configmap|pvc:NAME",
            help="Files for the command, read-only in /volbench/mounts/NAME; repeat it.",
        ),
    ] = [],
    service_account: Annotated[
        str,
        typer.Option(help="Whose role of AWS the Job has, for IAM tokens and a bucket; none has cluster rights."),
    ] = "",
    cpu: Annotated[str, typer.Option(help="Request and limit; default: no limit, which would slow a load.")] = "",
    memory: Annotated[str, typer.Option(help="Request and limit.")] = "2Gi",
    tools: options.Tools = "",
    target_option: options.TargetOptions = [],
    results_size: Annotated[str, typer.Option(help="Size of the claim for results, if there is none yet.")] = "5Gi",
    results_class: Annotated[str, typer.Option(help="Its storage class; default: the cluster's default.")] = "",
    json: options.Json = False,
) -> None:
    """Observe, capture, validate, or run a suite on a server, as a Job of its cluster, without this machine."""
    from volbench.cli.cluster.job_command import job_command
    from volbench.machine.cluster.client import Cluster
    from volbench.machine.placement.kubernetes import database_job as jobs
    from volbench.machine.placement.kubernetes.job_access import check_paths, parse_mounts, parse_password_key
    from volbench.machine.placement.kubernetes.options import marks_of, parse_job_options, read_options

    name, *arguments = command
    made = job_command(name, arguments)
    mounts, password = parse_mounts(mount), parse_password_key(secret)
    check_paths(made.files(), mounts)
    chosen = read_options(parse_job_options(target_option))
    requested = jobs.DatabaseJob(
        name=object_name("volbench", name, secrets.token_hex(3)),
        image=tools or tools_image(),
        arguments=made.arguments,
        directory=made.directory,
        texts=made.texts,
        files=made.own,
        directory_of_files=inside(str(Path.cwd())) if name == "validate" and made.own else "",
        hosts=made.hosts,
        password=password,
        mounts=mounts,
        service_account=service_account,
        cpu=cpu,
        memory=memory,
        options=chosen,
        results_size=results_size,
        results_class=results_class,
    )
    location = {"context": context or chosen.context, "namespace": namespace or chosen.namespace}
    with closing(Cluster(**location, marks=marks_of(chosen))) as cluster:
        jobs.submit_command(cluster, requested)
        where = f"-n {cluster.namespace} {requested.name}"
        if json:
            console.show_json({"job": requested.name, "namespace": cluster.namespace})
    if not (password or any(server.option_file or server.rds_iam_region for server in made.servers)):
        console.say("no --secret NAME/KEY and no option file: the account logs in without a password")
    console.say(f"submitted job {requested.name}; this machine may be switched off")
    console.say(f"follow it with: volbench k8s logs {where}")
    console.say(f"copy the results with: volbench k8s fetch {where}")
    if name == "observe":
        console.say("then explain them with: volbench observe report results/POD, the directory that `fetch` names")
