"""What tests assert on: medians with intervals, conditions, one message for what cannot be asserted."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic_run import build_run, two_volumes

from volbench.core.profile.spec import parse_volume
from volbench.errors import UsageError
from volbench.testing import MeasuredRun, MetricSummary, run_suite
from volbench.testing.runs import _spec_of


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("path:/mnt/a", "path:/mnt/a"),
        ("emulated:ebs-gp3", "emulated:ebs-gp3?dir=/t"),
        ("emulated:ebs-gp3?size=1GiB", "emulated:ebs-gp3?size=1GiB&dir=/t"),
        ("emulated:ebs-gp3?dir=/mine", "emulated:ebs-gp3?dir=/mine"),
        (
            "data:emulated:ebs-gp3?size=1GiB,log:emulated:ebs-gp3,tmp:/mnt/t",
            "data:emulated:ebs-gp3?size=1GiB&dir=/t,log:emulated:ebs-gp3?dir=/t,tmp:/mnt/t",
        ),
        ("data:path:/mnt/a,log:path:/mnt/l", "data:path:/mnt/a,log:path:/mnt/l"),
    ],
)
def test_emulated_volumes_of_a_test_have_its_directory(spec: str, expected: str) -> None:
    """Each of a layout, too: two tests at once must not share one."""
    assert _spec_of(spec, Path("/t")) == expected
    assert parse_volume(expected, name="a")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> MeasuredRun:
    return MeasuredRun(build_run(tmp_path_factory.mktemp("testing"), two_volumes(repeats=5)))


def summary(*values: float) -> MetricSummary:
    return MetricSummary(name="tps", volume="a", step="rw", unit="1/s", values=values)


@pytest.mark.parametrize(
    ("cells", "ranks"),
    [(6, (1, 6)), (8, (1, 8)), (9, (2, 8)), (10, (2, 9)), (15, (4, 12)), (20, (6, 15)), (25, (8, 18))],
)
def test_the_interval_of_a_median_is_that_of_the_published_table(cells: int, ranks: tuple[int, int]) -> None:
    """Ranks of the 95 % interval for a median: Conover's table of the binomial distribution, p = 0.5."""
    values = [float(value) for value in range(1, cells + 1)]
    assert summary(*reversed(values)).ci == ranks


def test_five_cells_have_a_median_and_no_interval() -> None:
    assert summary(3.0, 1.0, 2.0, 5.0, 4.0).median == 3.0
    assert summary(3.0, 1.0, 2.0, 5.0, 4.0).ci is None


def test_a_metric_of_several_volumes_asks_for_one(run: MeasuredRun) -> None:
    with pytest.raises(UsageError, match="not one volume and step has tps, but 2") as raised:
        run.metric("tps")
    assert "read-write on b" in raised.value.evidence
    tps = run.metric("tps", volume="b")
    assert (tps.volume, tps.step, tps.unit, len(tps.values)) == ("b", "read-write", "1/s", 5)
    assert tps.values == tuple(
        row["value"] for row in run.metrics().to_pylist() if (row["volume"], row["metric"]) == ("b", "tps")
    )


def test_a_metric_that_no_cell_has_names_those_it_has(run: MeasuredRun) -> None:
    with pytest.raises(UsageError, match="no valid cell has lost_commits") as raised:
        run.metric("lost_commits", volume="b")
    assert "latency_ms_p95" in raised.value.evidence


def test_a_gate_is_true_for_a_go_only_and_tells_its_reason(run: MeasuredRun) -> None:
    assert run.verdict == run.summary.verdict
    assert run.gate("tps >= 1", "valid cells >= 5")
    refused = run.gate("p95 <= 1 ms")
    assert refused.decision == "no-go"
    assert not refused
    assert repr(refused).startswith("NO-GO: 1 of 1 condition fails: p95 <= 1 ms")
    assert refused.gate.conditions[0].groups == run.gate("latency_ms_p95 <= 1 ms").gate.conditions[0].groups
    assert not run.gate("valid cells >= 50")
    assert run.gate("valid cells >= 50").decision == "undecided"


def test_a_condition_that_cannot_be_read_is_refused(run: MeasuredRun) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        run.gate("fast enough")


def test_a_run_without_a_volume_is_refused() -> None:
    with pytest.raises(UsageError, match="needs a volume"):
        run_suite("suites/quick.yaml", {})
