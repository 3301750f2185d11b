"""CloudWatch asked live, by boto3: `cloudwatch:vol-0123?hours=24&region=eu-west-1`.

What is asked for depends on the name: `vol-...` an EBS volume, `fs-...` EFS, `i-...` an EC2 instance, `db:NAME` an
RDS instance, `cluster:NAME` the volume of an Aurora cluster. Credentials and region are boto3's own affair
(environment, profile, instance role).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

from volbench.core.base.extras import require
from volbench.errors import MissingPrerequisite, UsageError
from volbench.results.recorded.cloudwatch_metrics import AURORA_PERIOD_S

SCHEME = "cloudwatch:"
_LAYOUT = (
    "cloudwatch:NAME[?hours=24][&period=60][&region=REGION], NAME vol-..., fs-..., i-..., db:... or cluster:..."
)
_KEPT_S = ((15 * 86_400, 60), (63 * 86_400, 300), (455 * 86_400, 3600))
"""How long CloudWatch keeps points of which period. Source: Amazon CloudWatch User Guide, metrics retention."""


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """A kind of thing: where its metrics are, which they are, and by which statistics."""

    namespace: str
    dimension: str
    metrics: Sequence[tuple[str, str]]


_EBS = _Kind(
    namespace="AWS/EBS",
    dimension="VolumeId",
    metrics=(
        *((name, "Sum") for name in ("VolumeReadOps", "VolumeWriteOps", "VolumeReadBytes", "VolumeWriteBytes")),
        *((name, "Sum") for name in ("VolumeTotalReadTime", "VolumeTotalWriteTime")),
        *((name, "Average") for name in ("VolumeQueueLength", "BurstBalance")),
        *((name, "Maximum") for name in ("VolumeIOPSExceededCheck", "VolumeThroughputExceededCheck")),
    ),
)
_EFS = _Kind(
    namespace="AWS/EFS",
    dimension="FileSystemId",
    metrics=(
        *((name, "Sum") for name in ("DataReadIOBytes", "DataWriteIOBytes", "MetadataIOBytes", "TotalIOBytes")),
        *((name, "SampleCount") for name in ("DataReadIOBytes", "DataWriteIOBytes", "MetadataIOBytes")),
        ("MeteredIOBytes", "Sum"),
        *((name, "Average") for name in ("BurstCreditBalance", "PermittedThroughput", "PercentIOLimit")),
    ),
)
_EC2 = _Kind(
    namespace="AWS/EC2",
    dimension="InstanceId",
    metrics=(
        *((name, "Sum") for name in ("EBSReadOps", "EBSWriteOps", "EBSReadBytes", "EBSWriteBytes")),
        *((name, "Average") for name in ("EBSIOBalance%", "EBSByteBalance%")),
        *((f"InstanceEBS{limit}ExceededCheck", "Maximum") for limit in ("IOPS", "Throughput")),
    ),
)
_RDS = _Kind(
    namespace="AWS/RDS",
    dimension="DBInstanceIdentifier",
    metrics=tuple(
        (name, "Average")
        for name in (
            "ReadIOPS",
            "WriteIOPS",
            "ReadThroughput",
            "WriteThroughput",
            "ReadLatency",
            "WriteLatency",
            "DiskQueueDepth",
            "BurstBalance",
            "EBSIOBalance%",
            "EBSByteBalance%",
        )
    ),
)
_AURORA = _Kind(
    namespace="AWS/RDS",
    dimension="DBClusterIdentifier",
    metrics=(("VolumeReadIOPs", "Average"), ("VolumeWriteIOPs", "Average")),
)
_KINDS = {"vol-": _EBS, "fs-": _EFS, "i-": _EC2, "db:": _RDS, "cluster:": _AURORA}


@dataclass(frozen=True, kw_only=True)
class _Request:
    kind: _Kind
    name: str
    begin: datetime
    end: datetime
    period_s: int
    region: str | None


def fetch(spec: str, *, window: tuple[datetime, datetime] | None = None) -> dict[str, Any]:
    """The answer, all pages together, in the layout that `parse_cloudwatch` reads.

    Args:
        spec: as in the module's text.
        window: begin and end; None: the last `hours` of the spec, a day unless said.

    Raises UsageError for the spec, MissingPrerequisite without boto3, credentials, or an answer.
    """
    request = _parse_request(spec, window)
    require("boto3")
    import boto3  # noqa: PLC0415 - an extra; most users have no need of it
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    results: dict[str, dict[str, Any]] = {}
    try:
        client = boto3.client("cloudwatch", region_name=request.region)
        pages = client.get_paginator("get_metric_data").paginate(
            MetricDataQueries=_queries(request),
            StartTime=request.begin,
            EndTime=request.end,
            ScanBy="TimestampAscending",
        )
        for page in pages:
            for result in page["MetricDataResults"]:
                merged = results.setdefault(
                    result["Id"], {"Label": result["Label"], "Timestamps": [], "Values": []}
                )
                merged["Timestamps"] += [moment.timestamp() for moment in result["Timestamps"]]
                merged["Values"] += result["Values"]
    except (BotoCoreError, ClientError) as error:
        raise MissingPrerequisite(
            "CloudWatch does not answer",
            where=spec,
            evidence=str(error),
            next_step="check credentials, region and the right cloudwatch:GetMetricData",
        ) from error
    if not any(result["Values"] for result in results.values()):
        raise UsageError(
            "CloudWatch has no points of it",
            where=spec,
            evidence=f"{request.kind.namespace} {request.kind.dimension}={request.name}, "
            f"{request.begin:%Y-%m-%dT%H:%MZ} to {request.end:%Y-%m-%dT%H:%MZ}, period {request.period_s} s",
            next_step="check the name and the region; points of 60 s are kept for 15 days",
        )
    return {"MetricDataResults": list(results.values())}


def _parse_request(spec: str, window: tuple[datetime, datetime] | None) -> _Request:
    name, _, query = spec.removeprefix(SCHEME).partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    kind = next((kind for begin, kind in _KINDS.items() if name.startswith(begin)), None)
    unknown = set(options) - {"hours", "period", "region"}
    if kind is None or unknown:
        fault = (
            f"there is no option {min(unknown)!r}"
            if unknown
            else f"{name!r} is not a resource that volbench can query in CloudWatch"
        )
        raise UsageError(fault, where=spec, next_step=f"write {_LAYOUT}")
    try:
        hours, period = float(options.get("hours", 24)), int(options.get("period", 0))
    except ValueError as error:
        raise UsageError("hours and period are numbers", where=spec, next_step=f"write {_LAYOUT}") from error
    if hours <= 0 or period < 0:
        raise UsageError("hours and period are above 0", where=spec)
    now = datetime.now(UTC)
    begin, end = window or (now - timedelta(hours=hours), now)
    age_s = (now - begin).total_seconds()
    finest = next((finest for kept_s, finest in _KEPT_S if age_s <= kept_s), _KEPT_S[-1][1])
    period_s = period or max(finest, AURORA_PERIOD_S if kind is _AURORA else finest)
    if kind is _AURORA and period_s < AURORA_PERIOD_S:
        raise UsageError(f"a cluster's volume has points of {AURORA_PERIOD_S} s", where=spec)
    aligned = datetime.fromtimestamp(begin.timestamp() // period_s * period_s, tz=UTC)
    return _Request(
        kind=kind,
        name=name.removeprefix("db:").removeprefix("cluster:"),
        begin=aligned,
        end=end,
        period_s=period_s,
        region=options.get("region"),
    )


def _queries(request: _Request) -> list[dict[str, Any]]:
    """One query a metric and statistic; the label tells both apart."""
    return [
        {
            "Id": f"m{number}",
            "Label": f"{metric} {statistic}",
            "MetricStat": {
                "Metric": {
                    "Namespace": request.kind.namespace,
                    "MetricName": metric,
                    "Dimensions": [{"Name": request.kind.dimension, "Value": request.name}],
                },
                "Period": request.period_s,
                "Stat": statistic,
            },
        }
        for number, (metric, statistic) in enumerate(request.kind.metrics)
    ]
