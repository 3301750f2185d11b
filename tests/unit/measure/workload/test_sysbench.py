"""sysbench's lines and command lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.steps.oltp import OltpStep
from volbench.errors import StepFailed, UsageError
from volbench.measure.workload.oltp.sysbench import (
    LineParser,
    ReportInterval,
    Total,
    hooks_file,
    run_seconds,
    step_seed,
    sysbench_argv,
)

RECORDED = Path(__file__).parent / "recorded"
DATASET = DatasetSpec(tables=3, rows=500)


def parsed(name: str) -> tuple[list[ReportInterval], Total]:
    parser = LineParser()
    records = [parser.feed(line) for line in (RECORDED / name).read_text().splitlines()]
    totals = [record for record in records if isinstance(record, Total)]
    assert len(totals) == 1
    return [record for record in records if isinstance(record, ReportInterval)], totals[0]


def argv(step: OltpStep) -> list[str]:
    return sysbench_argv(step, dataset=DATASET, cell_seed=1, config_file=Path("c"), hooks=Path("h.lua"))


class TestLines:
    def test_intervals_follow_each_other_without_a_gap(self) -> None:
        """Each starts where the one before ended, the first where the threads started."""
        intervals, total = parsed("sysbench-1.0.20-open-loop.txt")
        assert [interval.events for interval in intervals] == [15, 16]
        assert intervals[1].start_ns == intervals[0].end_ns
        assert intervals[0].interval_s == pytest.approx(1.0, abs=0.01)
        assert intervals[0].queries == 300
        assert total.counted == 31

    def test_latencies_agree_with_sysbenchs_own_maximum(self) -> None:
        """The last bin's upper edge is at most one bin (1.8 %) above the longest latency that sysbench timed."""
        for name in ("sysbench-1.0.20-open-loop.txt", "sysbench-1.0.20-stall.txt"):
            intervals, total = parsed(name)
            longest = max(interval.bins.max_ms() or 0 for interval in intervals)
            assert total.latency_max_s * 1000 <= longest <= total.latency_max_s * 1000 * 1.019

    def test_a_stall_has_no_latency(self) -> None:
        """Two seconds without a finished transaction, while a queue grows; then seconds of latency."""
        intervals, _ = parsed("sysbench-1.0.20-stall.txt")
        stalled = [interval for interval in intervals if interval.events == 0]
        assert [item.queue_length for item in stalled] == [7, 21]
        assert all(item.bins.quantile_ms(0.5) is None and item.bins.max_ms() is None for item in stalled)
        median_ms = intervals[3].bins.quantile_ms(0.5)
        assert median_ms is not None
        assert 1200 < median_ms < 2000

    def test_other_text_is_passed_over(self) -> None:
        """sysbench's own messages are no records."""
        assert LineParser().feed("Threads started!") is None
        assert LineParser().feed("") is None

    @pytest.mark.parametrize(
        "line",
        [
            "volbench {",
            "volbench {}",
            'volbench {"kind":"interval"}',
            "volbench []",
        ],
    )
    def test_a_torn_line_fails_with_the_line(self, line: str) -> None:
        """What cannot be read is shown, never skipped."""
        with pytest.raises(StepFailed, match="report cannot be read") as caught:
            LineParser().feed(line)
        assert line in caught.value.evidence

    def test_bins_that_do_not_add_up_fail(self) -> None:
        """A histogram that lost events is not used."""
        line = (RECORDED / "sysbench-1.0.20-open-loop.txt").read_text().splitlines()[-2]
        with pytest.raises(StepFailed, match="cannot be read") as caught:
            LineParser().feed(line.replace('"events":16', '"events":17'))
        assert "16 events in the bins, but 17 reported" in caught.value.evidence


class TestCommandLine:
    def test_what_is_measured_is_stated_in_full(self) -> None:
        """Distribution and seed are always passed; the time holds warm-up, window and a tail."""
        arguments = argv(OltpStep(name="o", threads=(8,), warmup_s=5, duration_s=10, rand_type="pareto", rate=250))
        assert arguments[0] == "sysbench"
        assert arguments[-2:] == ["h.lua", "run"]
        for term in (
            "--threads=8",
            "--time=16",
            "--rand-type=pareto",
            "--rate=250",
            "--tables=3",
            "--table-size=500",
        ):
            assert term in arguments
        assert sum(argument.startswith("--rand-seed=") for argument in arguments) == 1

    def test_no_rate_is_a_closed_loop(self) -> None:
        """The option is left out, not 0."""
        assert not any(argument.startswith("--rate") for argument in argv(OltpStep(name="o")))

    def test_the_steps_own_options_win(self) -> None:
        """Underscores or dashes, switches as on and off."""
        arguments = argv(OltpStep(name="o", options={"mysql_ignore_errors": "all", "range-selects": False}))
        assert "--mysql-ignore-errors=all" in arguments
        assert "--range-selects=off" in arguments

    def test_duplicate_keys_are_ignored_only_without_transactions(self) -> None:
        """Two clients may put back the same row then; else a duplicate key is a fault."""
        assert "--mysql-ignore-errors=1213,1020,1205" in argv(OltpStep(name="o"))
        arguments = argv(OltpStep(name="o", options={"skip_trx": True}))
        assert "--mysql-ignore-errors=1213,1020,1205,1062" in arguments

    @pytest.mark.parametrize("name", ["threads", "time", "rand_seed", "mysql-password", "report_interval"])
    def test_options_that_are_volbenchs_are_refused(self, name: str) -> None:
        """A suite cannot contradict itself, nor carry a password."""
        with pytest.raises(UsageError, match="is set by volbench"):
            argv(OltpStep(name="o", options={name: 1}))

    def test_select_random_uses_one_table(self) -> None:
        """sysbench's test reads sbtest1 only."""
        assert "--tables=1" in argv(OltpStep(name="o", test="select_random_points"))

    def test_seconds_are_rounded_up(self) -> None:
        """sysbench knows whole seconds only."""
        assert run_seconds(OltpStep(name="o", warmup_s=0.2, duration_s=0.4)) == (1, 1)
        assert run_seconds(OltpStep(name="o", warmup_s=0, duration_s=2.5)) == (0, 3)

    def test_seeds_differ_by_step_and_repeat_by_cell(self) -> None:
        """The same cell seed gives the same work; another step other rows."""
        first, second = OltpStep(name="a"), OltpStep(name="b")
        assert step_seed(first, 7) == step_seed(first, 7)
        assert len({step_seed(first, 7), step_seed(second, 7), step_seed(first, 8)}) == 3
        assert all(0 < step_seed(first, seed) < 2**31 - 1 for seed in range(200))

    def test_the_hooks_are_in_the_package(self) -> None:
        """Where an installed wheel has them too."""
        assert hooks_file().read_text().startswith("-- Runs one of sysbench")
