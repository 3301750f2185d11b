"""Operations that sessions wait for: a server that only reads does not wait for writes, its own or another's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from constant_steps import PS, SECONDS, Series, case_of, disk, statements

from volbench.core.records.named_metrics import CPU, Client, Innodb
from volbench.results.explain.cause import Cause
from volbench.results.explain.causes import findings_of_rules
from volbench.results.explain.check.objections import objections
from volbench.results.explain.rule import SLOWER
from volbench.results.explain.rules.acquittal import acquit
from volbench.results.explain.rules.shared_evidence import volume_share_max
from volbench.results.explain.rules.volume.all_along import all_along_findings, saturation

LATE = np.arange(SECONDS) >= 20
UNEVEN = np.array([1.0, 0.8, 0.9, 0.7])[np.arange(SECONDS) % 4]
LOG_WRITERS = {"innodb_log_writer_threads": "ON"}


def reader(share: float = 0.6, **volume: Any) -> Series:
    """A server whose sessions wait for reads of data files alone."""
    return {
        **statements(file_data=share, file_redo=0.0),
        (PS.file_read_s_per_s, "data"): share * 8.0,
        Client.tps: 50.0,
        **disk(**volume),
    }


def committer(share: float = 0.6, **volume: Any) -> Series:
    """One whose sessions wait for its redo log alone."""
    return {**statements(file_data=0.0, file_redo=share), Client.tps: 50.0, **disk(**volume)}


def at_few(series: Series, **facts: Any) -> list[str]:
    """Evidence of a volume that is slow at few operations."""
    findings = findings_of_rules({"volume": case_of(series, **facts)})
    return [finding.evidence[0].text for finding in findings if finding.rule == "slow at few operations"]


SLOW = np.where(LATE, 200.0, 2.0)
FEW: dict[str, Any] = {"util_ratio": 0.9, "read_mib_per_s": 0.3, "write_mib_per_s": 0.3}
SLOW_WRITES: dict[str, Any] = {"reads": 20.0, "r_await": 2.0, "writes": 30.0 * UNEVEN, "w_await_ms": SLOW, **FEW}
SLOW_READS: dict[str, Any] = {"reads": 10.0 * UNEVEN, "r_await": SLOW, "writes": 50.0, "w_await_ms": 2.0, **FEW}


def test_a_server_that_only_reads_does_not_wait_for_writes() -> None:
    """Writes of others, or of the page cleaner, were counted into the time of its operations."""
    assert at_few(reader(**SLOW_WRITES)) == []
    assert at_few(committer(**SLOW_WRITES)) != []


def test_a_server_that_only_commits_does_not_wait_for_reads() -> None:
    assert at_few(committer(**{**SLOW_READS, "writes": 20.0, "reads": 30.0 * UNEVEN})) == []


def test_short_writes_do_not_hide_reads_that_take_long() -> None:
    """All operations together took 35 ms."""
    (text,) = at_few(reader(**SLOW_READS))
    assert "a read takes 200 ms" in text


def test_what_a_volume_is_asked_for_counts_whoever_waits() -> None:
    """Beside 5,000 writes a second slow reads are no volume below every known limit."""
    assert at_few(reader(**{**SLOW_READS, "writes": 5000.0})) == []


@pytest.mark.parametrize(
    ("series", "facts", "direction"),
    [
        (statements(file_data=0.5, file_redo=0.045), {}, "read"),
        (statements(file_data=0.5, file_redo=0.07), {}, None),
        (statements(file_data=0.045, file_redo=0.5), {}, "write"),
        (statements(file_data=0.07, file_redo=0.5), {}, None),
        (statements(file_data=0.0, file_redo=0.0), {}, None),
        (statements(), {}, None),
        ({}, {}, None),
    ],
    ids=["reads", "some writes", "writes", "some reads", "no waits", "no instruments", "no statement times"],
)
def test_the_direction_that_sessions_wait_for(series: Series, facts: dict[str, Any], direction: str | None) -> None:
    """One that has nine tenths of their waits for files."""
    series = {(PS.file_read_s_per_s, "data"): 8.0, **series}
    assert case_of(series, **facts).waited_direction == direction


@pytest.mark.parametrize(("syncs", "direction"), [(0.0, "read"), (0.8, "read"), (1.2, None)])
def test_commits_without_an_instrument_may_be_waited_for(syncs: float, direction: str | None) -> None:
    """Where log writers sync the log, no wait shows commits: at two syncs in 100 transactions nothing is known."""
    series: Series = {
        **statements(file_data=0.5),
        (PS.file_read_s_per_s, "data"): 8.0,
        Client.tps: 50.0,
        Innodb.os_log_fsyncs_per_s: syncs,
    }
    assert case_of(series, variables=LOG_WRITERS).waited_direction == direction


def test_a_reader_on_a_volume_that_writes_slowly_acquits_it() -> None:
    """Writes of 20 ms that nobody waits for kept a volume from being acquitted that reads in 1 ms."""
    slow_writes: dict[str, Any] = {"reads": 200.0, "r_await": 1.0, "writes": 100.0, "w_await_ms": 20.0}
    busy: Series = {CPU.user_ratio: 0.8, CPU.system_ratio: 0.1}
    series = {**reader(share=0.05, **slow_writes), **busy}
    finding = acquit(case_of(series))
    assert finding is not None
    assert "a read takes 1 ms" in " ".join(piece.text for piece in finding.evidence)
    assert acquit(case_of({**committer(share=0.05, **slow_writes), **busy})) is None


def slower(series: Series) -> list[str]:
    """Evidence of a volume that became slower by itself."""
    findings = findings_of_rules({"volume": case_of(series)})
    return [finding.evidence[0].text for finding in findings if finding.rule == SLOWER]


NOISE = 1 + 0.2 * np.random.default_rng(7).standard_normal(SECONDS)
FELL = np.where(LATE, 30.0, 50.0) * (1 + 0.02 * np.random.default_rng(8).standard_normal(SECONDS))
LONGER_WRITES: dict[str, Any] = {
    "reads": 400.0 * NOISE,
    "r_await": 2.0,
    "writes": 400.0 * NOISE,
    "w_await_ms": np.where(LATE, 20.0, 1.0),
    "util_ratio": 0.9,
    "aqu_sz": np.where(LATE, 8.8, 1.2) * NOISE,
}
FEWER_WRITES: dict[str, Any] = {
    "reads": np.where(LATE, 200.0, 800.0) * NOISE,
    "r_await": np.where(LATE, 20.0, 2.0),
    "writes": np.where(LATE, 0.0, 2000.0) * NOISE,
    "util_ratio": 0.9,
    "w_await_ms": 5.0,
    "aqu_sz": np.where(LATE, 4.0, 11.6) * NOISE,
}


def test_writes_that_take_longer_are_no_slower_volume_of_a_reader() -> None:
    """Its transactions took longer at that time for another reason; reads take what they took."""
    assert slower({**reader(**LONGER_WRITES), Client.tps: FELL}) == []
    (text,) = slower({**committer(**LONGER_WRITES), Client.tps: FELL})
    assert "a write takes 20 ms, else 1 ms" in text


def test_writes_that_end_do_not_hide_reads_that_take_longer() -> None:
    """Fewer operations were in flight together, since those that nobody waits for were gone."""
    (text,) = slower({**reader(**FEWER_WRITES), Client.tps: FELL})
    assert "a read takes 20 ms, else 2 ms" in text


def test_writes_that_nobody_waits_for_do_not_keep_a_reader_waiting() -> None:
    """Reads are in flight for 5 % of the time: of 8 clients that are always in a statement, that is what waits."""
    series = reader(reads=50.0, r_await=1.0, writes=500.0, w_await_ms=2.0, util_ratio=0.9, aqu_sz=1.05)
    assert volume_share_max(case_of(series)) == pytest.approx(0.05 / 0.9)
    without = {**series, (PS.wait_s_per_s, "file_redo"): 3.2}
    assert volume_share_max(case_of(without)) == pytest.approx(0.9)


def test_a_rate_of_reads_that_stays_is_not_hidden_by_writes() -> None:
    """As many reads whatever waits look like a limit, however much the rate of writes varies."""
    queue = 8.0 * (1 + 0.3 * np.random.default_rng(9).standard_normal(SECONDS))
    volume: dict[str, Any] = {"reads": 400.0, "r_await": queue / 0.4, "writes": 900.0 * NOISE, "w_await_ms": 1.0}
    named = Cause(
        cause="storage.read_latency",
        window_s=(0.0, float(SECONDS)),
        share=0.6,
        checks=(True,),
        evidence=(),
        advice="",
    )
    (against,) = objections(case_of(reader(**volume)), named, frozenset({"latency"}))
    assert "a limit of 400/s" in against.text


@pytest.mark.parametrize(("waits_for", "base_ms"), [(reader, 2.0), (committer, 20.0)])
def test_a_time_without_a_queue_is_that_of_what_sessions_wait_for(waits_for: Any, base_ms: float) -> None:
    """With 20 reads of 2 ms and 20 writes of 20 ms a second, 0.44 operations are in flight."""
    case = case_of(waits_for(reads=20.0, r_await=2.0, writes=20.0, w_await_ms=20.0, aqu_sz=0.44))
    assert case.base_await_ms == pytest.approx(base_ms)
    assert case.base_await_of_all_ms == pytest.approx(11.0)


def test_reads_beside_a_queue_of_writes_are_not_without_a_queue() -> None:
    case = case_of(reader(reads=20.0, r_await=2.0, writes=100.0, w_await_ms=20.0, aqu_sz=2.04))
    assert case.base_await_ms is None


@pytest.mark.parametrize(("waits_for", "queues"), [(reader, False), (committer, True)])
def test_a_queue_all_along_is_of_what_sessions_wait_for(waits_for: Any, queues: bool) -> None:
    """Of a recording: twenty writes of 100 ms in flight hold nobody back who waits for reads of 2 ms alone."""
    volume = {"reads": 50.0, "r_await": 2.0, "writes": 200.0, "w_await_ms": 100.0, "aqu_sz": 20.1}
    case = case_of(waits_for(**volume), recorded=True)
    assert bool([*all_along_findings(case)]) is queues
    assert case.waited_device_of_cell is not None
    assert bool([*saturation(case.waited_device_of_cell)]) is queues
