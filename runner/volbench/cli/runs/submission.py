"""Submits a suite to a cluster whose Job runs it, for `volbench k8s submit` and `volbench run --detach`."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import typer

from volbench.cli import console
from volbench.cli.runs.plan import show_plan
from volbench.core.suite.load import load_suite
from volbench.errors import EXIT_NO_GO
from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.names import object_name
from volbench.machine.placement.docker.image_names import tools_image
from volbench.machine.placement.kubernetes import remote
from volbench.machine.placement.kubernetes.options import marks_of, parse_options, read_options
from volbench.measure.session.carried import files_of_run, settings_in_pod
from volbench.measure.session.planner import make_plan
from volbench.measure.session.price import check_cost, price_run
from volbench.measure.session.servers import TargetRequest
from volbench.results.credits.prices import load_prices

_OF_THE_SUBMISSION = ("context", "namespace")
"""Target options that say where the Job goes; its cells go to its own namespace."""


@dataclass(frozen=True, kw_only=True)
class ResultsClaim:
    """Where a submitted run's results go.

    Args:
        bucket: gets a copy of them.
        size, storage_class: of the claim, if there is none yet; no class: the cluster's default.
    """

    bucket: str = ""
    size: str = "5Gi"
    storage_class: str = ""


def submit_suite(
    suite: Path,
    volumes: Sequence[str],
    request: TargetRequest,
    *,
    settings: Sequence[str],
    claim: ResultsClaim,
    resume: str = "",
    yes: bool = False,
    json: bool = False,
    cost_max: float | None = None,
) -> None:
    """Show the plan, and create the Job that runs it once the user agrees. Raise VolbenchError.

    Args:
        volumes, settings: as `make_plan` takes them.
        resume: id of the run to continue; empty: a new one.
        cost_max: in US$; a plan that costs more is refused.
    """
    chosen = parse_options(request.options)
    planned = make_plan(
        suite, volumes, request, settings=settings, command=console.typed_command(), say=console.say
    )
    files, paths = files_of_run(planned.run), settings_in_pod(load_suite(suite, settings=settings)[0])
    if not json:
        show_plan(planned)
    if cost_max is not None:
        check_cost(price_run(planned.run, planned.cost, load_prices()), cost_max)
    if not yes and console.interactive() and not typer.confirm("Submit?", default=True, err=True):
        raise typer.Exit(EXIT_NO_GO)
    arguments = [f"--volume={text}" for text in volumes] + [f"--set={text}" for text in (*settings, *paths)]
    arguments += [
        f"--target-option={key}={value}" for key, value in chosen.items() if key not in _OF_THE_SUBMISSION
    ]
    context, namespace = (str(chosen.get(key, "")) for key in _OF_THE_SUBMISSION)
    submission = remote.Submission(
        name=object_name("volbench", planned.run.suite.name[:20], secrets.token_hex(3)),
        suite=planned.run.suite_source,
        image=request.tools or tools_image(),
        options=tuple(arguments),
        resume=resume,
        results_to=claim.bucket,
        results_size=claim.size,
        results_class=claim.storage_class,
        pull_secret=str(chosen.get("pull_secret", "")),
        queue=str(chosen.get("queue", "")),
        files=files,
    )
    marks = marks_of(read_options(chosen))
    with closing(Cluster(context=context, namespace=namespace, marks=marks)) as cluster:
        name = remote.submit(cluster, submission)
        where = f"-n {cluster.namespace} {name}"
        if json:
            console.show_json({"job": name, "namespace": cluster.namespace})
    console.say(f"submitted job {name}; this machine may be switched off")
    console.say(f"follow it with: volbench k8s logs {where}")
    console.say(f"copy the results with: volbench k8s fetch {where}")
