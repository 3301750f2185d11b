"""sysbench on a real server: every second is there, and what ends it is named."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from plain_server import DATASET, PASSWORD, Kept, PlainServer, after, freeze_, run, thaw_, values

from volbench.core.records.cell import ENDED_BY_QUEUE, UNANSWERED
from volbench.core.records.steps.alter import AlterStep
from volbench.core.records.steps.dump import DumpStep
from volbench.core.records.steps.oltp import OltpStep
from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.measure.workload.interface import StepContext
from volbench.measure.workload.oltp import oltp
from volbench.measure.workload.oltp.sysbench import TAIL_S
from volbench.measure.workload.registry import workload_for

pytestmark = pytest.mark.mysqld
_BLOCKED_CHANGE = (
    "SELECT 1 FROM information_schema.processlist WHERE info LIKE 'ALTER%' AND state LIKE 'Waiting for table%'"
)


class TestOltp:
    @pytest.mark.parametrize("test", ["oltp_read_write", "select_random_ranges"])
    def test_one_row_of_every_second_and_metrics_of_the_window(
        self, make_context: Callable[..., StepContext], test: Any
    ) -> None:
        """Warm-up and measured seconds come from one run; only measured ones are in the metrics."""
        remaining = Kept()
        ctx = make_context(record=remaining)
        outcome = run(OltpStep(name="o", test=test, threads=(4,), warmup_s=1, duration_s=2), ctx)
        measured = [row for row in remaining.histograms if row.measured]
        assert len(measured) == 2
        assert not remaining.histograms[0].measured
        assert outcome.window_s == pytest.approx((measured[0].t_s - measured[0].interval_s, measured[-1].t_s))
        assert outcome.window_s[1] - outcome.window_s[0] == pytest.approx(2, abs=0.9)  # reports may come late
        assert outcome.warmup_s == pytest.approx(1, abs=0.9)
        metrics = values(outcome)
        events = sum(row.events for row in measured)
        assert metrics["tps"] == pytest.approx(events / (outcome.window_s[1] - outcome.window_s[0]))
        assert metrics["qps"] > 0.99 * metrics["tps"]
        quantiles = [metrics[f"latency_ms_{name}"] for name in ("p50", "p95", "p99", "p999", "max")]
        assert quantiles == sorted(quantiles)
        assert metrics["stalled_s"] == 0
        assert outcome.invalid_reasons == ()
        for row in remaining.histograms:
            assert sum(row.count) + row.below + row.above == row.events > 0
        assert (
            set(remaining.of("tps"))
            == set(remaining.of("latency_ms_p99"))
            == {row.t_s for row in remaining.histograms}
        )

    def test_transactions_agree_with_the_server(
        self, server: PlainServer, make_context: Callable[..., StepContext]
    ) -> None:
        """As many as the server counted commits in the whole run; the rows hold those of their intervals."""

        def commits() -> int:
            return int(server.query("SHOW GLOBAL STATUS LIKE 'Com_commit'")[0][1])

        remaining, before = Kept(), commits()
        step = OltpStep(name="o", test="oltp_read_only", threads=(2,), warmup_s=1, duration_s=1)
        outcome = run(step, make_context(record=remaining))
        assert commits() - before == outcome.details["transactions_whole_run"]
        in_rows = sum(row.events for row in remaining.histograms)
        assert in_rows == outcome.details["events_in_bins"] <= outcome.details["transactions_whole_run"]

    def test_the_last_load_of_a_cell_ends_with_its_window(
        self, make_context: Callable[..., StepContext], children: Callable[[], set[str]]
    ) -> None:
        """Its window is that of any other load; the second after it, which is thrown away, is not waited for."""
        step = OltpStep(name="o", test="oltp_read_write", threads=(4,), warmup_s=1, duration_s=2)
        remaining = Kept()
        outcome = run(step, make_context(record=remaining, is_last=True))
        assert [row.measured for row in remaining.histograms] == [False, True, True]
        assert outcome.details["transactions_whole_run"] is None
        assert outcome.window_s[1] - outcome.window_s[0] == pytest.approx(2, abs=0.9)
        assert outcome.invalid_reasons == ()
        assert children() == set()

    def test_a_load_before_another_load_leaves_no_session(
        self, server: PlainServer, make_context: Callable[..., StepContext], children: Callable[[], set[str]]
    ) -> None:
        """It ends with its window, and what its clients had begun is rolled back when the next load begins."""
        step = OltpStep(name="o", test="oltp_read_write", threads=(8,), warmup_s=1, duration_s=2)
        outcome = run(step, make_context(before_load=True))
        assert not server.query("SELECT 1 FROM information_schema.processlist WHERE db IS NOT NULL")
        assert not server.query("SELECT 1 FROM information_schema.innodb_trx")
        assert outcome.details["transactions_whole_run"] is None
        assert outcome.invalid_reasons == ()
        assert children() == set()

    def test_a_rate_that_fills_sysbenchs_queue_is_measured_until_then(
        self, make_context: Callable[..., StepContext]
    ) -> None:
        """sysbench ends with an error when 100,000 transactions wait. What it measured before counts."""
        remaining = Kept()
        step = OltpStep(name="o", test="oltp_read_write", threads=(1,), rate=40_000, warmup_s=0, duration_s=30)
        outcome = run(step, make_context(record=remaining))
        window_s = outcome.window_s[1] - outcome.window_s[0]
        assert 1 <= window_s < 20
        assert values(outcome)["tps"] == pytest.approx(sum(row.events for row in remaining.histograms) / window_s)
        assert 0 < values(outcome)["tps"] < 20_000
        assert [note for note in outcome.notes if ENDED_BY_QUEUE in note and "100,000" in note]
        assert [reason for reason in outcome.invalid_reasons if ENDED_BY_QUEUE in reason]
        assert [note for note in outcome.notes if UNANSWERED in note]
        assert "latency_ms_p95" not in values(outcome), "more than a twentieth had no answer"

    def test_a_queue_that_is_full_before_the_measured_time_is_an_error(
        self, make_context: Callable[..., StepContext]
    ) -> None:
        step = OltpStep(name="o", test="oltp_read_write", threads=(1,), rate=40_000, warmup_s=30, duration_s=1)
        with pytest.raises(StepFailed, match="100,000 transactions waited before the measured time") as raised:
            run(step, make_context())
        assert "event queue is full" in (raised.value.evidence or "")
        assert "lower `rate`" in (raised.value.next_step or "")

    def test_the_password_is_on_no_command_line(self, make_context: Callable[..., StepContext]) -> None:
        """Neither in sysbench's argv while it runs nor in what is kept of it."""
        observed: list[bytes] = []

        def look(text: str, fraction: float | None) -> None:
            for entry in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    observed.append(entry.read_bytes())

        ctx = make_context(progress=look)
        outcome = run(OltpStep(name="o", test="oltp_point_select", threads=(1,), warmup_s=0, duration_s=1), ctx)
        assert any(b"volbench_hooks.lua" in line for line in observed)
        assert not any(PASSWORD.encode() in line for line in observed)
        assert PASSWORD not in repr(outcome)
        assert list(ctx.scratch_dir.iterdir()) == []

    def test_sessions_whose_transactions_do_not_end_are_said(
        self, server: PlainServer, make_context: Callable[..., StepContext]
    ) -> None:
        """A table is locked from the first report on until all is over: what ended is fast, and not the whole."""
        releases: list[threading.Timer] = []
        with server.connect(DATASET.schema_name) as blocking, blocking.cursor() as cursor:

            def lock(text: str, fraction: float | None) -> None:
                if not releases:
                    cursor.execute("LOCK TABLES sbtest1 WRITE")
                    releases.append(after(5, lambda: cursor.execute("UNLOCK TABLES")))

            step = OltpStep(name="o", test="oltp_point_select", threads=(2,), warmup_s=0, duration_s=4)
            outcome = run(step, make_context(progress=lock))
            releases[0].join()
        (note,) = [note for note in outcome.notes if "did not end in the measured time" in note]
        assert 0.7 < float(note.split()[0]) <= 2.0
        assert values(outcome)["latency_ms_p95"] < 1000

    def test_a_load_that_a_change_of_its_table_blocks_may_outlast_its_timeout(
        self, server: PlainServer, make_context: Callable[..., StepContext], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The change waits for a reader's lock, and the load's writes for the change, past the load's own limit."""
        monkeypatch.setattr(oltp, "START_TIMEOUT_S", 3.0)
        monkeypatch.setattr(oltp, "HANG_TIMEOUT_S", 2.0)
        blocked_s = 3 + 3 + TAIL_S + 2 + 3  # the load's own limit, and more
        alter = AlterStep(name="a", method="copy", start_after_s=1)
        step = OltpStep(name="o", test="oltp_insert", threads=(2,), warmup_s=0, duration_s=3, concurrent=(alter,))
        with server.connect(DATASET.schema_name) as reading, reading.cursor() as cursor:
            cursor.execute("LOCK TABLES sbtest1 READ")

            def release_late() -> None:
                deadline_s = time.monotonic() + 60
                while not server.query(_BLOCKED_CHANGE) and time.monotonic() < deadline_s:
                    time.sleep(0.05)
                time.sleep(blocked_s)  # the time itself is what is tested
                cursor.execute("UNLOCK TABLES")

            release = after(0, release_late)
            outcome = run(step, make_context())
            release.join()
        outcomes = {piece.suffix: piece.outcome for piece in outcome.sub_results}
        begun_s, ended_s = outcomes["beside-alter-copy"].window_s
        assert ended_s - begun_s > blocked_s - 0.5
        assert values(outcome)["tps"] == 0

    def test_a_frozen_server_is_a_stall_and_not_a_zero(
        self, server: PlainServer, make_context: Callable[..., StepContext]
    ) -> None:
        """Closed loop: seconds without a finished transaction have no latency rows, and count as stalled."""
        remaining = Kept()
        moments: list[float] = []  # of the two signals, which may come late

        def signalled(send: Callable[[PlainServer], None]) -> None:
            send(server)
            moments.append(time.monotonic())

        freeze, thaw = after(2.5, lambda: signalled(freeze_)), after(5.5, lambda: signalled(thaw_))
        outcome = run(
            OltpStep(name="o", test="oltp_point_select", threads=(2,), warmup_s=0, duration_s=8),
            make_context(record=remaining),
        )
        freeze.join()
        thaw.join()
        frozen_s = moments[1] - moments[0]
        stalled = [row for row in remaining.histograms if row.events == 0]
        stalled_s = sum(row.interval_s for row in stalled)
        assert frozen_s - 2.2 <= stalled_s <= frozen_s + 0.2, "whole intervals within it"
        assert values(outcome)["stalled_s"] == pytest.approx(stalled_s, abs=0.2)
        assert not any("did not end" in note for note in outcome.notes), "all ended after it thawed"
        for row in stalled:
            assert row.t_s not in remaining.of("latency_ms_p99")
            assert remaining.of("tps")[row.t_s] == 0
        assert min(remaining.of("latency_ms_p50").values()) > 0
        assert values(outcome)["latency_ms_max"] > 2000
        assert values(outcome)["latency_ms_p99"] < 1000  # the closed loop hides it: two transactions were slow

    def test_an_open_loop_shows_a_stall_as_seconds_of_latency(
        self, server: PlainServer, make_context: Callable[..., StepContext]
    ) -> None:
        """With a rate, transactions that could not start have waited, and their latency says so."""
        freeze, thaw = after(2.5, lambda: freeze_(server)), after(5.5, lambda: thaw_(server))
        outcome = run(
            OltpStep(name="o", test="oltp_point_select", threads=(2,), rate=200, warmup_s=0, duration_s=8),
            make_context(),
        )
        freeze.join()
        thaw.join()
        metrics = values(outcome)
        assert metrics["latency_ms_p95"] > 1000
        assert metrics["latency_ms_p50"] < 1000
        assert metrics["rate_achieved_ratio"] == pytest.approx(1, abs=0.15)
        assert outcome.details["offered_ratio"] == pytest.approx(1, abs=0.15)
        assert outcome.details["client_cpu_ratio"] < 0.5

    def test_a_killed_server_is_named_as_the_cause(
        self, server: PlainServer, make_context: Callable[..., StepContext]
    ) -> None:
        """sysbench only lost its connection; the failure says that the server died, and of what."""
        ctx = make_context()
        kill = after(2, server.kill)
        with pytest.raises(StepFailed, match="the server ended with -9") as caught:
            run(OltpStep(name="o", test="oltp_read_write", threads=(2,), warmup_s=0, duration_s=20), ctx)
        assert caught.value.cause == "server_killed"
        assert "FATAL: mysql" in caught.value.evidence
        assert "volbench {" not in caught.value.evidence
        kill.join()
        server.start()

    def test_a_killed_sysbench_is_named(
        self, make_context: Callable[..., StepContext], child_process: Callable[[str], int | None]
    ) -> None:
        """The failure says which signal ended it."""

        def kill_it(text: str, fraction: float | None) -> None:
            sysbench = child_process("sysbench")
            if sysbench is not None:
                os.kill(sysbench, signal.SIGKILL)

        with pytest.raises(StepFailed, match="sysbench was ended by SIGKILL"):
            run(OltpStep(name="o", threads=(2,), warmup_s=0, duration_s=20), make_context(progress=kill_it))

    def test_cancelling_ends_sysbench_at_once(
        self, make_context: Callable[..., StepContext], children: Callable[[], set[str]]
    ) -> None:
        """No process is left, and it does not take the step's duration."""
        ctx = make_context()
        cancel = after(1.5, ctx.cancelled.set)
        begun = time.monotonic()
        with pytest.raises(StepFailed, match="cancelled"):
            run(OltpStep(name="o", threads=(2,), warmup_s=0, duration_s=600), ctx)
        cancel.join()
        assert time.monotonic() - begun < 300
        assert children() == set()

    def test_a_wrong_option_is_told_by_sysbench(self, make_context: Callable[..., StepContext]) -> None:
        """An option that sysbench does not know fails the step with sysbench's words."""
        step = OltpStep(name="o", threads=(1,), warmup_s=0, duration_s=1, options={"no-such": 1})
        with pytest.raises(StepFailed) as caught:
            run(step, make_context())
        assert "invalid option: --no-such=1" in caught.value.evidence

    @pytest.mark.parametrize(
        ("changes", "error", "match"),
        [
            ({"options": {"threads": 3}}, UsageError, "threads is set by volbench"),
            ({"options": {"mysql_password": "x"}}, UsageError, "mysql-password is set by volbench"),
            ({"rate": 0.5}, UsageError, "whole transactions"),
            ({"rand_type": "zipfian"}, MissingPrerequisite, "no rand_type zipfian"),
            ({"threads": (4096,)}, MissingPrerequisite, "prepare 81920 statements"),
        ],
    )
    def test_what_cannot_run_is_refused_before(
        self, make_context: Callable[..., StepContext], changes: dict[str, Any], error: type[Exception], match: str
    ) -> None:
        """The check names what does not go, so that nothing is seeded in vain."""
        step = OltpStep(name="o", **{"threads": (1,), **changes})
        with pytest.raises(error, match=match):
            workload_for(step).check(step, make_context())

    def test_a_dump_beside_gives_the_load_with_and_without_it(
        self, make_context: Callable[..., StepContext]
    ) -> None:
        """The window is told apart by when the dump ran, and the dump has its own outcome."""
        step = OltpStep(
            name="o",
            test="oltp_read_only",
            threads=(2,),
            warmup_s=1,
            duration_s=6,
            concurrent=(DumpStep(name="d", tool="mysqldump", to="nowhere", start_after_s=1.5),),
        )
        slow = make_context()
        outcome = run(step, slow)
        outcomes = {piece.suffix: piece.outcome for piece in outcome.sub_results}
        dump = outcomes["beside-mysqldump"]
        assert dump.metrics["dump_bytes"].value > 1_000_000
        assert outcome.window_s[0] + 1.4 <= dump.window_s[0] < outcome.window_s[1]
        window_s, dump_s = (ended - begun for begun, ended in (outcome.window_s, dump.window_s))
        assert window_s - dump_s - 2.2 <= outcomes["alone"].details["seconds"] <= window_s - dump_s + 0.2
        assert "latency_ms_p95" in outcomes["alone"].metrics
