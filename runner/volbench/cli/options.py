"""Options that several commands share."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from volbench.cli.quantities import positive
from volbench.core.records.base import parse_duration_s
from volbench.errors import UsageError
from volbench.results.store.run_names import run_path, run_paths

SuitePath = Annotated[Path, typer.Argument(help="Suite file, such as suites/quick.yaml.")]
RunPath = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run: its directory, its id, or `latest`.", callback=run_path)
]
RunPaths = Annotated[
    list[Path], typer.Argument(metavar="RUN...", help="Runs: directories, ids, or `latest`.", callback=run_paths)
]
Volumes = Annotated[
    list[str],
    typer.Option(
        "--volume",
        metavar="NAME=SPEC",
        help="A volume, such as disk=path:/mnt/x; may be repeated. The first is the baseline.",
    ),
]
Settings = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Override a value of the suite: --set steps.oltp.threads=16"),
]

Modulate = Annotated[
    float | None,
    typer.Option(
        "--modulate",
        metavar="FACTOR",
        help="Multiply latencies of emulated volumes by this (1.5 to 20, such as 4) in half of the slots of a "
        "known signal, so that the report says what a millisecond of the volume costs. Loads take 48 s or more.",
    ),
]


class UntilMode(StrEnum):
    """When a run ends."""

    DECIDED = "decided"
    ALL_CELLS = "all_cells"


Until = Annotated[
    UntilMode | None,
    typer.Option(
        "--until",
        help="decided: stop when every pair of volumes has a verdict, after 3 to 20 cells of each (11 planned). "
        "all_cells: run every planned cell. Default: as the suite says.",
    ),
]


class ResumeMode(StrEnum):
    """How far a resumed run goes."""

    DECIDED = "decided"


ResumeUntil = Annotated[
    ResumeMode | None,
    typer.Option(
        "--until",
        help="decided: add cells, to at most 20 of each volume, to a run until decided that has no verdict.",
    ),
]
Budget = Annotated[
    str,
    typer.Option(
        "--budget",
        metavar="DURATION",
        help="With --until decided, which it implies: begin no block of cells that would not end within this time, "
        "such as 10m. Without a verdict then the exit code is 6.",
    ),
]
TargetOption = Annotated[str, typer.Option("--target", help="auto, local, docker, kubernetes or attach.")]
TargetOptions = Annotated[
    list[str],
    typer.Option(
        "--target-option",
        metavar="KEY=VALUE",
        help="Options for --target kubernetes: namespace, node, server_memory, ...",
    ),
]
Everything = Annotated[bool, typer.Option("--all", help="All cells instead of the first of each volume.")]
Tools = Annotated[
    str,
    typer.Option("--tools-image", help="Tools image for containers and pods (default: built from this checkout)."),
]
Servers = Annotated[
    list[str],
    typer.Option(
        "--server",
        metavar="[NAME=]DSN",
        help="For --target attach: mysql://user@host:port/schema, no password. Several with names are compared.",
    ),
]
OptionFiles = Annotated[
    list[str],
    typer.Option(
        "--option-file",
        metavar="[NAME=]FILE",
        help="For --target attach: a my.cnf with the password in [client]; with NAME= for one of several servers.",
    ),
]
Results = Annotated[Path, typer.Option("--out", help="Directory for runs.")]
ResultsTo = Annotated[
    str,
    typer.Option(
        "--results-to",
        metavar="s3://BUCKET/PREFIX",
        envvar="VOLBENCH_RESULTS_TO",
        help="Also copy the run's directory there, verified by checksum.",
    ),
]
CostMax = Annotated[
    float | None,
    typer.Option("--cost-max", metavar="USD", min=0, help="Refuse a run in a cluster that may cost more."),
]
Detach = Annotated[
    bool,
    typer.Option("--detach", help="Of --target kubernetes: run as a Job of the cluster, as `k8s submit` does."),
]
AllowPrivileged = Annotated[
    bool,
    typer.Option("--allow-privileged", help="Use an account with FILE, SUPER or SYSTEM_VARIABLES_ADMIN too."),
]


class OutputFormat(StrEnum):
    """How a command that lists something prints it."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MD = "md"


Output = Annotated[OutputFormat, typer.Option("--output", "-o", help="table, json, csv or md.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
TimeZone = Annotated[
    str,
    typer.Option(
        "--timezone",
        help="With --from: zone of files that state none, such as Asia/Tokyo (default: what fits CloudWatch).",
    ),
]
RecordedHost = Annotated[str, typer.Option("--host", help="With --from: the host, of several.")]
RecordedVolume = Annotated[
    str, typer.Option("--volume", help="With --from: which of the vendor's volumes, such as vol-0123.")
]
RecordedDate = Annotated[
    str,
    typer.Option("--date", help="With --from: the day, such as 2025-03-11, of several or of times without one."),
]
RecordedInterval = Annotated[
    str, typer.Option("--interval", help="With --from: time between samples that have no times, such as 60s.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not prompt.")]
WhatIf = Annotated[
    list[str],
    typer.Option(
        "--what-if",
        metavar="SPEC",
        help="Predict tps and p95 on this volume, such as ebs-gp3?iops=6000; may be repeated.",
    ),
]
AwaitMs = Annotated[
    list[str],
    typer.Option(
        "--await-ms",
        metavar="TERM=MS",
        help="Predict latency and tps with this waiting time, such as read=0.3 or log_sync=1, from what a "
        "millisecond costs; may be repeated.",
    ),
]


def awaits_of(texts: list[str]) -> dict[str, float]:
    """Return waiting times in ms by term, of --await-ms. Raises UsageError."""
    awaits = {}
    for text in texts:
        term, _, amount = text.partition("=")
        try:
            awaits[term.strip()] = float(amount)
        except ValueError:
            raise UsageError(
                "a waiting time is TERM=MILLISECONDS", where=f"--await-ms {text}", next_step="such as read=0.3"
            ) from None
    return awaits


def day_of(text: str) -> date | None:
    """Return the day of --date; None for an empty text. Raises UsageError."""
    if not text:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            "this is no date", where=f"--date {text}", next_step="give one such as 2025-03-11"
        ) from error


def interval_of(text: str) -> float | None:
    """Return seconds of --interval; None for an empty text. Raises UsageError."""
    if not text:
        return None
    return positive(parse_duration_s, "--interval", text, noun="an interval")
