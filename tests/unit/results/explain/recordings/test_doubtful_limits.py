"""Rates that are even and that no limit of the volume holds; the figures are our own (evidence_texts)."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from evidence_texts import Second, iostat, limited, metric_data, quiet

from volbench.results.explain.recordings.directory import RecordedExplanation, explain_recorded

LIMITS = {"storage.iops_limit", "storage.throughput_limit"}


def explained(directory: Path, rows: Sequence[Second], *, util: float | None = None) -> RecordedExplanation:
    """`iostat -xt` of these seconds; `util` in place of what Little's law allows, as of operations in bursts."""
    text = iostat(rows)
    if util is not None:
        text = re.sub(r"^(nvme1n1 .*?)[\d.]+$", rf"\g<1>{util:.2f}", text, flags=re.MULTILINE)
    (directory / "i.txt").write_text(text)
    return explain_recorded(directory)


def drawn(count: int, make: Callable[[random.Random], Second]) -> list[Second]:
    source = random.Random(5)
    return [make(source) for _ in range(count)]


def paced(source: random.Random) -> Second:
    """InnoDB's page cleaner with innodb_io_capacity=2000: as many writes each second, all at once."""
    return Second(reads=source.gauss(20, 5), writes=2000 + source.choice([-1, 0, 1]), write_ms=source.gauss(8, 1))


@pytest.mark.parametrize(("util", "is_named"), [(25.0, False), (79.0, False), (97.0, True)])
def test_a_device_with_nothing_to_do_for_a_part_of_the_time_is_at_no_limit(
    tmp_path: Path, util: float, is_named: bool
) -> None:
    result = explained(tmp_path, drawn(150, paced), util=util)
    assert bool(LIMITS & {row.cause for row in result.findings}) is is_named
    assert any("are no limit of nvme1n1" in note for note in result.notes) is not is_named


def test_of_few_operations_idle_time_refutes_nothing(tmp_path: Path) -> None:
    """Linux 5.0 to 5.6 count a tick only where an operation begins or ends: 300 a second look idle."""
    result = explained(tmp_path, [*quiet(60), *limited(300, 90)], util=45.0)
    assert result.findings[0].cause == "storage.iops_limit"


def sent(source: random.Random) -> Second:
    """`fio --rate_iops=2000` or a client with a rate of its own, on a volume that is quick."""
    return Second(reads=1500 + source.choice([-1, 0, 1]), writes=500, read_ms=source.gauss(0.9, 0.05), write_ms=0.7)


def test_few_and_quick_operations_at_an_even_rate_are_a_question(tmp_path: Path) -> None:
    """They were a limit with a confidence of 0.97."""
    result = explained(tmp_path, drawn(150, sent))
    assert {row.cause for row in result.findings} <= LIMITS
    assert all((row.confidence or 0) <= 0.5 for row in result.findings)
    assert any("clients that send at an even rate" in item.text for item in result.findings[0].evidence)


def test_as_many_operations_that_take_longer_are_a_question(tmp_path: Path) -> None:
    """A volume that became 12 times slower under the same load was at a limit, with a confidence of 0.88."""
    before = drawn(90, lambda source: Second(reads=source.gauss(300, 15), writes=60, read_ms=source.gauss(1, 0.1)))
    after = drawn(
        90,
        lambda source: Second(
            reads=source.gauss(290, 15), writes=60, read_ms=source.gauss(12, 1.2), write_ms=source.gauss(9, 0.9)
        ),
    )
    result = explained(tmp_path, [*before, *after])
    named = [row for row in result.findings if row.cause in LIMITS]
    assert named
    assert all((row.confidence or 0) <= 0.5 for row in named)
    assert all(any("became slower makes the same" in item.text for item in row.evidence) for row in named)


def test_no_bound_is_told_that_the_confidence_exceeds(tmp_path: Path) -> None:
    """0.97, and `the confidence is 85 % at most`."""
    result = explained(tmp_path, limited(3000, 90))
    assert (result.findings[0].confidence or 0) > 0.9
    for row in result.findings:
        bounds = re.findall(r"confidence is (\d+) % at most", " ".join(item.text for item in row.evidence))
        assert all((row.confidence or 0) <= int(bound) / 100 for bound in bounds)


def cloudwatch(directory: Path, columns: Mapping[str, Sequence[float]], period_s: float) -> RecordedExplanation:
    (directory / "cw.json").write_text(metric_data(columns, period_s=period_s))
    return explain_recorded(directory)


def test_credits_that_fill_again_did_not_stay_away(tmp_path: Path) -> None:
    """Busy for three hours, quiet for three: `ran out at 15:15, and stayed at 0 %` until the next day."""
    balance, left, operations = [], 100.0, []
    for period in range(96):
        demand = 1500.0 if period // 12 % 2 == 0 else 100.0
        rate = min(demand, 300.0) if left <= 0 else demand
        left = min(100.0, max(0.0, left - (rate - 300) * 900 / 54_000))
        balance.append(left)
        operations.append(rate * 900)
    columns = {"VolumeReadOps": operations, "VolumeWriteOps": [900.0] * 96, "BurstBalance": balance}
    (finding,) = cloudwatch(tmp_path, columns, 900).findings
    assert finding.cause == "storage.burst_exhausted"
    assert "3 times again after they had filled up to 40 %" in finding.evidence[0].text


def test_what_cloudwatch_says_of_efs_is_told(tmp_path: Path) -> None:
    """The file was `used`, and there were no counters of the volume."""
    mib = 60 * 2.0**20
    columns = {
        "PercentIOLimit": [98.0] * 60,
        "TotalIOBytes": [100 * mib] * 20 + [5 * mib] * 40,
        "PermittedThroughput": [100 * 2.0**20] * 20 + [5 * 2.0**20] * 40,
        "BurstCreditBalance": [2e9 * (20 - period) for period in range(20)] + [0.0] * 40,
    }
    notes = "\n".join(cloudwatch(tmp_path, columns, 60).timelines[0].notes)
    assert "at its limit of operations (PercentIOLimit) in 100 % of the time" in notes
    assert "at the throughput that EFS permitted it in 100 % of the time, at least 5 MiB/s" in notes
    assert "burst credits of volume were gone in 67 % of the time" in notes
    assert "no operations of the volume are counted" in notes


def test_a_load_that_never_ended_a_transaction_is_said(tmp_path: Path) -> None:
    (tmp_path / "s.log").write_text(
        "".join(
            f"[ {t}s ] thds: 64 tps: 0.00 qps: 0.00 (r/w/o: 0.00/0.00/0.00) lat (ms,95%): 0.00 err/s: 0.00\n"
            for t in range(1, 121)
        )
    )
    notes = "\n".join(explain_recorded(tmp_path).timelines[0].notes)
    assert "no transaction ended from second 0 to second 120 although 64 clients waited" in notes


def test_credits_that_are_gone_are_told_without_operations(tmp_path: Path) -> None:
    """BurstBalance alone, 0 for a half of the time: there was no word of it."""
    balance = [max(0.0, 100 - 4.0 * period) for period in range(50)]
    notes = cloudwatch(tmp_path, {"BurstBalance": balance}, 300).timelines[0].notes
    assert "the volume's burst credits were gone in 50 % of the time (BurstBalance)" in notes
