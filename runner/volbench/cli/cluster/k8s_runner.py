"""`volbench k8s submit|logs|fetch`: runs whose orchestrator is a Job of the cluster, so that the laptop may go."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from volbench.cli import console, options
from volbench.cli.runs.execution import begin_run, resume_run
from volbench.cli.runs.plan import show_plan
from volbench.errors import UsageError
from volbench.machine.placement.docker.image_names import tools_image
from volbench.measure.session.planner import make_plan
from volbench.measure.session.servers import TargetRequest
from volbench.results.store.bucket import Bucket
from volbench.results.store.run_directory import RunDirectory, find_runs

Context = Annotated[str, typer.Option("--context", help="Of the kubeconfig; default: the current one.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Default: the context's.")]
JobName = Annotated[str, typer.Argument(metavar="JOB", help="As `volbench k8s submit` prints it.")]


def submit(
    suite: options.SuitePath,
    volume: options.Volumes = [],
    settings: options.Settings = [],
    tools: options.Tools = "",
    target_option: options.TargetOptions = [],
    yes: options.Yes = False,
    results_to: options.ResultsTo = "",
    cost_max: options.CostMax = None,
    resume: Annotated[str, typer.Option("--resume", metavar="RUN_ID", help="Continue this run of the claim.")] = "",
    results_size: Annotated[str, typer.Option(help="Size of the claim for results, if there is none yet.")] = "5Gi",
    results_class: Annotated[str, typer.Option(help="Its storage class; default: the cluster's default.")] = "",
    json: options.Json = False,
) -> None:
    """Start a run whose orchestrator is a Job in the cluster; k8s/base must be applied there."""
    from volbench.cli.runs.submission import ResultsClaim, submit_suite

    submit_suite(
        suite,
        volume,
        TargetRequest(target="kubernetes", options=target_option, tools=tools),
        settings=settings,
        claim=ResultsClaim(bucket=results_to, size=results_size, storage_class=results_class),
        resume=resume,
        yes=yes,
        json=json,
        cost_max=cost_max,
    )


def logs(name: JobName, namespace: Namespace = "", context: Context = "") -> None:
    """Follow the log of a submitted run from its start to its end; the exit code is the run's."""
    from volbench.machine.cluster.client import Cluster
    from volbench.machine.placement.kubernetes import remote

    with closing(Cluster(context=context, namespace=namespace)) as cluster:
        code = remote.follow(cluster, name, write=console.out.file.write, say=console.say)
    raise typer.Exit(code)


def fetch(
    name: Annotated[str, typer.Argument(metavar="JOB|RUN_ID", help="A Job, or a run whose Job is gone.")],
    namespace: Namespace = "",
    context: Context = "",
    tools: options.Tools = "",
    out: options.Results = Path("results"),
    json: options.Json = False,
) -> None:
    """Copy the results of a submitted run to this machine, each file verified by its checksum."""
    from volbench.machine.cluster.client import Cluster
    from volbench.machine.placement.kubernetes import fetched

    with closing(Cluster(context=context, namespace=namespace)) as cluster:
        runs = fetched.fetch(cluster, name, out, image=tools or tools_image())
    if json:
        console.show_json([str(run) for run in runs])
    for run in runs:
        console.say(f"results: {run}")
    if not runs:
        console.say(f"job {name} has no results yet")


def in_cluster(
    suite: options.SuitePath,
    volume: options.Volumes = [],
    settings: options.Settings = [],
    target_option: options.TargetOptions = [],
    results: Annotated[Path, typer.Option(help="Where the claim for results is mounted.")] = Path("/results"),
    job_uid: Annotated[str, typer.Option(envvar="VOLBENCH_JOB_UID", help="Its pods continue one run.")] = "",
    resume: Annotated[str, typer.Option(envvar="VOLBENCH_RESUME", help="Run to continue; none: a new run.")] = "",
    results_to: options.ResultsTo = "",
    server: options.Servers = [],
    option_file: options.OptionFiles = [],
) -> None:
    """Run as the pod of the runner's Job: continue the Job's run if an earlier pod began one, else begin one.

    A run without a verdict is done all the same: the Job succeeds.
    """
    directory = results / job_uid
    if resume:
        paths = [run.path for parent in (results, *results.glob("*/")) for run in find_runs(parent)]
        path = next((path for path in paths if path.name == resume), None)
        if path is None:
            raise UsageError(
                f"the results have no run {resume}",
                where="VOLBENCH_RESUME",
                evidence=f"runs there: {', '.join(sorted(path.name for path in paths)) or 'none'}",
            )
    else:
        path = next((run.path for run in reversed(find_runs(directory))), None)
    bucket = Bucket(results_to) if results_to else None
    if path is not None:
        resume_run(RunDirectory.open(path), bucket=bucket)
        return
    request = TargetRequest(
        target="attach" if server else "kubernetes", options=target_option, servers=server, option_files=option_file
    )
    planned = make_plan(suite, volume, request, settings=settings, command=console.typed_command(), say=console.say)
    show_plan(planned)
    begin_run(planned, directory, bucket=bucket, ladders=directory / "ladders")  # a later pod continues no ladder


def add_commands(app: typer.Typer) -> None:
    """Add the commands to `volbench k8s`."""
    for command in (submit, logs, fetch):
        app.command(command.__name__)(command)
    app.command("in-cluster", hidden=True)(in_cluster)
