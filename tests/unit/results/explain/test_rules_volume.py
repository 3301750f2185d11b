"""What this host sent against what the volume counted: whose I/O it is, and in what pieces."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.deciding import decided, in_order
from volbench.results.explain.rule import Rule
from volbench.results.explain.rules.volume.counted_by_volume import RULES
from volbench.results.stats.grid import Grid
from volbench.results.store.series import SeriesKey

SAMPLES = 60


def case_of(host: dict[str, object], volume: dict[str, object], *, source: str = "ebs_nvme") -> Case:
    """A device and its volume; a figure is a number or one for each second."""
    columns = {
        SeriesKey(source=name, metric=metric, entity="nvme1n1"): np.broadcast_to(
            np.asarray(values, dtype=np.float64), (SAMPLES,)
        )
        for name, counted in (("diskstats", host), (source, volume))
        for metric, values in counted.items()
    }
    grid = Grid(t_s=np.arange(1.0, SAMPLES + 1), width_s=1.0, columns=columns)
    return Case(name="load", grid=grid, cell_grid=grid, kind="fio", disk="nvme1n1")


def named(case: Case, *, limited: bool = True) -> list[Cause]:
    """What stands where a limit of operations is met, or not."""
    met = [] if not limited else [limit_of_operations()]
    findings = [replace(cause, rule=rule.name) for rule in RULES for cause in rule.find(case)]
    rules = in_order([*RULES, Rule(name="limit", causes=frozenset({"storage.iops_limit"}), find=lambda _: met)])
    return [finding for finding in decided([*findings, *met], rules, {}) if finding.rule != "limit"]


def limit_of_operations() -> Cause:
    """A limit that another rule found."""
    return Cause(
        cause="storage.iops_limit",
        rule="limit",
        window_s=(0.0, 1.0),
        share=0.5,
        checks=(True,),
        evidence=(),
        advice="",
    )


def test_reads_that_this_host_never_sent() -> None:
    """The bytes of the volume are more than the host's, so the further operations are no pieces."""
    (cause,) = named(
        case_of({"reads_per_s": 100.0, "read_mib_per_s": 1.6}, {"reads_per_s": 2500.0, "read_mib_per_s": 40.0})
    )
    assert cause.cause == "interference.shared_volume"
    assert cause.evidence[0].value == pytest.approx(2400, rel=0.02)
    assert "reads/s that this host never sent; this host sent 100/s" in cause.evidence[0].text
    assert cause.checks[:2] == (True, True)


@pytest.mark.parametrize(("of_disk", "named_causes"), [(2500.0, []), (100.0, ["interference.shared_volume"])])
def test_what_this_host_sent_to_another_part_of_the_disk(of_disk: float, named_causes: list[str]) -> None:
    """The data is on a logical volume; the volume's counters are of the disk, which has others of this host."""
    case = case_of({}, {"reads_per_s": 2500.0, "read_mib_per_s": 40.0})
    rates = {"dm-0": 100.0, "nvme1n1": of_disk}
    sent = {
        SeriesKey(source="diskstats", metric=metric, entity=entity): np.full(SAMPLES, rate / each)
        for entity, rate in rates.items()
        for metric, each in (("reads_per_s", 1.0), ("read_mib_per_s", 62.5))
    }
    case = replace(case, grid=replace(case.grid, columns={**case.grid.columns, **sent}), disk="dm-0")
    assert [cause.cause for cause in named(case)] == named_causes


def test_operations_in_pieces_of_16_kib() -> None:
    """The same bytes in more operations, at a limit of operations."""
    case = case_of({"reads_per_s": 900.0, "read_mib_per_s": 36.0}, {"reads_per_s": 2304.0, "read_mib_per_s": 36.0})
    (cause,) = named(case)
    assert cause.cause == "storage.split_operations"
    assert cause.evidence[0].text == (
        "the host sent 900 reads/s of 41 KiB, the volume counted 2,304/s: each is split in pieces of 16 KiB"
    )
    assert named(case, limited=False) == []


def test_operations_alone_do_not_tell_pieces_from_others() -> None:
    """CloudWatch without bytes: what the host's bytes explain in pieces of 16 KiB may be pieces."""
    host: dict[str, Any] = {"reads_per_s": 100.0, "read_mib_per_s": 12.5}
    assert named(case_of(host, {"reads_per_s": 900.0}, source="cloudwatch")) == []
    (cause,) = named(case_of(host, {"reads_per_s": 8000.0}, source="cloudwatch"))
    assert cause.cause == "interference.shared_volume"
    assert cause.evidence[0].value == pytest.approx(8000 - 115 - 12.5 * 64, rel=0.01)
    assert "the volume served at least" in cause.evidence[0].text
    assert cause.checks[1] is None


def test_the_same_operations_on_both_sides_name_nothing() -> None:
    """Also where the volume merges them, and where both are read at other moments."""
    rng = np.random.default_rng(7)
    host = 1000 * rng.lognormal(0, 0.3, SAMPLES)
    jittered = 0.5 * (host + np.roll(host, 1))
    case = case_of(
        {"reads_per_s": host, "read_mib_per_s": host / 64},
        {"reads_per_s": jittered, "read_mib_per_s": jittered / 64},
    )
    assert named(case) == []
    merged = case_of({"reads_per_s": 900.0, "read_mib_per_s": 30.0}, {"reads_per_s": 300.0, "read_mib_per_s": 30.0})
    assert named(merged) == []


def test_only_the_seconds_in_which_others_read_are_named() -> None:
    remaining = np.where((np.arange(SAMPLES) >= 20) & (np.arange(SAMPLES) < 40), 800.0, 0.0)
    (cause,) = named(
        case_of(
            {"reads_per_s": 200.0, "read_mib_per_s": 3.125},
            {"reads_per_s": 200.0 + remaining, "read_mib_per_s": (200.0 + remaining) / 64},
        )
    )
    assert cause.window_s == (20.0, 40.0)
    assert cause.evidence[0].text.startswith("from second 20 to second 40 the volume served 800 reads/s")


def test_a_minute_of_cloudwatch_is_compared_with_the_mean_of_its_seconds() -> None:
    """A host that works in bursts sends in some seconds more, in some less than the minute's mean."""
    bursts = np.where(np.arange(SAMPLES) % 10 == 0, 3000.0, 0.0)
    minutes = np.repeat(bursts.reshape(-1, 20).mean(axis=1), 20)
    case = case_of(
        {"writes_per_s": bursts, "write_mib_per_s": bursts / 64}, {"writes_per_s": minutes}, source="cloudwatch"
    )
    assert named(case) == []


def test_without_counters_of_the_volume_nothing_is_compared() -> None:
    assert named(case_of({"reads_per_s": 100.0, "read_mib_per_s": 1.6}, {})) == []
    assert named(case_of({}, {"reads_per_s": 100.0, "read_mib_per_s": 1.6})) == []
