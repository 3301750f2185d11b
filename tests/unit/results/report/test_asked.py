"""A volume that is not what its class asks for is a caveat; one that is, or whose class says nothing, is none."""

from __future__ import annotations

import pytest

from volbench.core.records.facts import VolumeFacts
from volbench.core.records.report.findings import EvidenceRow, FindingRow
from volbench.results.report.rows.verdict.asked import class_caveats, requested_limits

NO_MORE = "the volume gives that and no more, with 25 operations in flight"


def facts(**fields: object) -> VolumeFacts:
    input_value = {"class_driver": "ebs.csi.aws.com", "filesystem": "xfs", "path": "/volume", **fields}
    return VolumeFacts.model_validate(input_value)


def limit(value: float, text: str = NO_MORE, resource: str = "iops", **fields: object) -> FindingRow:
    evidence = (EvidenceRow(metric=resource, value=value, unit="1/s", text=text),)
    row = {"volume": "a", "step": "load", "cell_ids": ("01-a",), "cause": f"storage.{resource}_limit", **fields}
    return FindingRow.model_validate({**row, "evidence": evidence})


def difference_of(made: VolumeFacts, *findings: FindingRow) -> list[str]:
    return list(class_caveats({"a": made}, findings))


IO2 = {"type": "io2", "iops": "10000"}


@pytest.mark.parametrize(("level", "count"), [(10000, 0), (9100, 0), (10900, 0), (2963, 1), (16000, 1)])
def test_a_measured_limit_is_compared_with_the_class(level: float, count: int) -> None:
    sentences = difference_of(facts(class_parameters=IO2), limit(level))
    assert len(sentences) == count
    assert all("asks for 10,000 IOPS" in sentence and f"{level:,}" in sentence for sentence in sentences)


def test_a_gp3_has_its_defaults_and_its_attributes() -> None:
    assert requested_limits(facts(class_parameters={"type": "gp3"})) == {"iops": 3000, "throughput": 125}
    assert requested_limits(facts(class_parameters={"iops": "6000"})) == {"iops": 6000, "throughput": 125}
    assert difference_of(facts(class_parameters={"type": "gp3"}), limit(250, resource="throughput")) != []


@pytest.mark.parametrize(
    "made",
    [
        facts(class_parameters={"type": "gp2", "iops": "100"}),
        facts(class_parameters=IO2, class_driver="other.csi"),
        facts(class_parameters={"type": "io2", "iops": "many"}),
        facts(class_parameters={}, class_driver=None),
    ],
)
def test_what_the_class_does_not_say_is_not_compared(made: VolumeFacts) -> None:
    assert difference_of(made, limit(500)) == []


@pytest.mark.parametrize(
    "finding",
    [
        limit(2963, "the volume gives 2,963 IOPS on average, in bursts that meet its limit, which is higher,"),
        limit(2963, "the volume gives 2,963 IOPS of reads and no more"),
        limit(2963, valid=False),
        limit(2963, component="log"),
        limit(2963, volume="b"),
    ],
)
def test_what_is_not_the_volumes_whole_limit_is_not_compared(finding: FindingRow) -> None:
    assert difference_of(facts(class_parameters=IO2), finding) == []


def test_the_nearest_of_several_limits_counts() -> None:
    """A step of large operations meets another limit of the same volume."""
    assert difference_of(facts(class_parameters=IO2), limit(2963), limit(9900)) == []


def test_another_file_system_and_a_class_that_is_newer_are_said() -> None:
    second = facts(class_parameters={"csi.storage.k8s.io/fstype": "ext4"}, class_is_newer=True)
    newer, filesystem = difference_of(second)
    assert "made after the volume" in newer
    assert "asks for ext4, but the volume has xfs" in filesystem
    assert difference_of(facts(class_parameters={"csi.storage.k8s.io/fstype": "xfs"})) == []
