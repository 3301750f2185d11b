"""A limit that may be the instance's: named beside the volume's where the level is the type's, and checked."""

from __future__ import annotations

from pathlib import Path

import pytest
from evidence_texts import Second, iostat, limited, metric_data, quiet

from volbench.errors import UsageError
from volbench.results.explain.evidence.instance_figures import figures_of, near_figure
from volbench.results.explain.recordings.directory import RecordedExplanation, explain_recorded
from volbench.results.recorded.timelines import Choice

INSTANCE, BYTES, OPERATIONS = "instance.storage_limit", "storage.throughput_limit", "storage.iops_limit"
R4_MIB = 101.3
"""106.25 MB/s, the bandwidth of r4.xlarge."""


def named(result: RecordedExplanation) -> dict[str, float]:
    return {row.cause: row.confidence or 0.0 for row in result.findings}


def at_a_limit_of_bytes(tmp_path: Path, **of_iostat: object) -> Path:
    """Small operations before and after, so that the same recording refutes a limit of operations."""
    rate = R4_MIB * 1024 / 16
    rows = [*quiet(40, iops=1.3 * rate, kib=8), *limited(rate, 90), *quiet(40, iops=1.3 * rate, kib=8)]
    path = tmp_path / "iostat.txt"
    path.write_text(iostat(rows, **of_iostat))  # type: ignore[arg-type] # of the caller
    return path


@pytest.mark.parametrize("instance", ["r4.xlarge", "db.r4.xlarge"])
def test_where_the_level_is_the_type_s_the_instance_comes_first(tmp_path: Path, instance: str) -> None:
    result = named(explain_recorded(at_a_limit_of_bytes(tmp_path), choice=Choice(instance=instance)))
    assert list(result) == [INSTANCE, BYTES]
    assert result[INSTANCE] <= 0.75
    assert result[BYTES] <= 0.5


def test_another_type_s_limit_is_not_the_cause(tmp_path: Path) -> None:
    result = named(explain_recorded(at_a_limit_of_bytes(tmp_path), choice=Choice(instance="m5.24xlarge")))
    assert list(result) == [BYTES]
    assert result[BYTES] > 0.9


def test_of_an_unknown_type_it_is_the_second_of_two(tmp_path: Path) -> None:
    explained = explain_recorded(at_a_limit_of_bytes(tmp_path))
    result = named(explained)
    assert list(result) == [BYTES, INSTANCE]
    assert result[INSTANCE] <= 0.5 < result[BYTES] <= 0.75
    second = explained.findings[1]
    assert (
        "r4.xlarge (baseline of 106.25 MB/s)" in second.evidence[0].text
        or "types of EC2" in second.evidence[0].text
    )
    assert "IOPS" not in explained.findings[0].advice


def test_of_a_device_of_another_cloud_nothing_is_said_of_ec2(tmp_path: Path) -> None:
    assert INSTANCE not in named(explain_recorded(at_a_limit_of_bytes(tmp_path, device="sdb")))


def test_a_limit_of_operations_at_the_type_s(tmp_path: Path) -> None:
    (tmp_path / "iostat.txt").write_text(iostat([*quiet(40), *limited(6000, 90)]))
    result = named(explain_recorded(tmp_path, choice=Choice(instance="r4.xlarge")))
    assert next(iter(result)) == INSTANCE
    assert result[OPERATIONS] <= 0.5


def test_other_volumes_beside_it_refute_it(tmp_path: Path) -> None:
    """The instance's limit is of all volumes: 101 MiB/s here and 60 there are more than it."""
    remaining = [("nvme2n1", Second(reads=240, kib=256, read_ms=1.0))]
    path = at_a_limit_of_bytes(tmp_path, more_devices=remaining)
    result = explain_recorded(path, choice=Choice(instance="r4.xlarge"))
    assert list(named(result)) == [BYTES]
    assert any(INSTANCE in note and "other volumes carried 60 MiB/s" in note for note in result.notes)


def cloudwatch(tmp_path: Path, **more: list[float]) -> Path:
    minutes = 90
    queue = [20 + 10 * (number * 37 % 11) / 10 for number in range(minutes)]
    rates = [R4_MIB * 1024 / 16] * minutes
    columns = {
        "ReadIOPS": rates,
        "WriteIOPS": [1.0] * minutes,
        "ReadThroughput": [rate * 16 * 1024 for rate in rates],
        "WriteThroughput": [16384.0] * minutes,
        "ReadLatency": [waiting / rates[0] for waiting in queue],
        "WriteLatency": [0.001] * minutes,
        "DiskQueueDepth": queue,
        **more,
    }
    (tmp_path / "cw.json").write_text(metric_data(columns))
    return tmp_path


def test_credits_that_are_left_refute_it(tmp_path: Path) -> None:
    """m5.large gives 81.25 MB/s without credits: with half of them left it would give more."""
    rates = [81.25e6 / 16384] * 90
    levels = {"ReadIOPS": rates, "ReadThroughput": [81.25e6] * 90}
    choice = Choice(instance="m5.large")
    assert INSTANCE in named(explain_recorded(cloudwatch(tmp_path, **levels), choice=choice))
    left = explain_recorded(cloudwatch(tmp_path, **levels, **{"EBSByteBalance%": [50.0] * 90}), choice=choice)
    assert INSTANCE not in named(left)
    assert any("50 % of the instance's burst credits are left" in note for note in left.notes)


def test_a_type_that_the_table_does_not_have_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"no r4\.xlrage") as refused:
        explain_recorded(Path("/nowhere"), choice=Choice(instance="r4.xlrage"))
    assert "r4.xlarge" in refused.value.next_step


def test_a_level_is_near_a_figure_in_either_unit() -> None:
    """The vendor's MB is 10^6 bytes by its tables and 2^20 by some meters."""
    for level, near in ((101.3, True), (106.25, True), (95.0, False), (112.0, False)):
        assert (near_figure("r4.xlarge", "throughput", level) is not None) == near
    assert {figure.value for figure in figures_of("r4.xlarge")} == {106.25, 6000.0}


def test_a_type_that_is_younger_than_the_table_is_refused_with_the_table_s_date(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no m9g\.large") as refused:
        explain_recorded(at_a_limit_of_bytes(tmp_path), choice=Choice(instance="m9g.large"))
    assert "copy of 2026-04" in refused.value.evidence
