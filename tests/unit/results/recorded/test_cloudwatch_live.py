"""CloudWatch asked by boto3, against a model of the service in this process."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from volbench.errors import MissingPrerequisite, UsageError
from volbench.results.credits.history import Defaults
from volbench.results.credits.sources import read_history
from volbench.results.recorded.cloudwatch import SOURCE, VOLUME, parse_answers
from volbench.results.recorded.cloudwatch_live import fetch
from volbench.results.store.series import SeriesKey

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of their own dependencies, at import
    import boto3
    import moto

REGION = "eu-west-1"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[datetime]:
    """A CloudWatch with 30 minutes of a volume and of a file system; yields when they begin."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with moto.mock_aws():
        begin = (datetime.now(UTC) - timedelta(minutes=40)).replace(second=0, microsecond=0)
        put("AWS/EBS", "VolumeId", "vol-1", begin, VolumeReadOps=[30_000] * 30, VolumeWriteOps=[6000] * 30)
        put("AWS/EBS", "VolumeId", "vol-1", begin, BurstBalance=[90 - n for n in range(30)])
        put("AWS/EFS", "FileSystemId", "fs-1", begin, TotalIOBytes=[60 * 2**20] * 30)
        yield begin


def put(namespace: str, dimension: str, name: str, begin: datetime, **metrics: list[float]) -> None:
    client = boto3.client("cloudwatch", region_name=REGION)
    for metric, values in metrics.items():
        for start in range(0, len(values), 10):
            client.put_metric_data(
                Namespace=namespace,
                MetricData=[
                    {
                        "MetricName": metric,
                        "Dimensions": [{"Name": dimension, "Value": name}],
                        "Timestamp": begin + timedelta(minutes=start + n),
                        "Value": value,
                    }
                    for n, value in enumerate(values[start : start + 10])
                ],
            )


def test_a_volume_s_sums_become_rates_on_its_own_clock(service: datetime) -> None:
    series, notes = parse_answers(fetch("cloudwatch:vol-1?hours=1"))
    reads = series[SeriesKey(source=SOURCE, metric="reads_per_s", entity=VOLUME)]
    assert set(reads.value.tolist()) == {500.0}
    assert len(reads.value) == 30
    assert reads.t_s[0] == service.timestamp() + 60
    assert notes == ()


def test_a_clusters_counts_of_five_minutes_become_rates(service: datetime) -> None:
    """The Aurora User Guide's own example: 13,686 billed operations in 5 minutes are 45.62 a second."""
    begin = service.replace(minute=service.minute // 5 * 5)
    put("AWS/RDS", "DBClusterIdentifier", "shop", begin, VolumeReadIOPs=[13_686.0], VolumeWriteIOPs=[600.0])
    series, _ = parse_answers(fetch("cloudwatch:cluster:shop?hours=1"))
    reads, writes = (
        series[SeriesKey(source=SOURCE, metric=f"{name}_per_s", entity=VOLUME)] for name in ("reads", "writes")
    )
    assert reads.value.tolist() == [pytest.approx(45.62)]
    assert writes.value.tolist() == [pytest.approx(2.0)]


def test_it_is_a_history_of_credits(service: datetime) -> None:
    history = read_history(Path("cloudwatch:vol-1?hours=1"), Defaults())
    assert float(history.work.mean().iops[0]) == pytest.approx(600)
    assert history.observed[0][1] == pytest.approx(0.9)


def test_of_efs_bytes_alone_make_a_history_that_says_what_was_taken(service: datetime) -> None:
    history = read_history(Path("cloudwatch:fs-1?hours=1"), Defaults(io_bytes=65_536, read_share=0.5))
    assert float(history.work.mean().iops[0]) == pytest.approx(16)
    assert any("no operations" in warning for warning in history.warnings)


def test_what_is_not_there_is_said(service: datetime) -> None:
    with pytest.raises(UsageError, match="no points") as raised:
        fetch("cloudwatch:vol-2")
    assert "AWS/EBS VolumeId=vol-2" in raised.value.evidence


@pytest.mark.parametrize(
    ("spec", "phrase"),
    [
        ("cloudwatch:volume-1", "is not a resource"),
        ("cloudwatch:vol-1?hour=3", "no option 'hour'"),
        ("cloudwatch:vol-1?hours=x", "are numbers"),
        ("cloudwatch:vol-1?hours=0", "above 0"),
        ("cloudwatch:cluster:shop?period=60", "points of 300 s"),
    ],
)
def test_a_wrong_name_is_refused_before_anything_is_asked(spec: str, phrase: str) -> None:
    with pytest.raises(UsageError, match=phrase):
        fetch(spec)


def test_no_region_is_a_lack_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(MissingPrerequisite, match="does not answer"):
        fetch("cloudwatch:vol-1")
