"""The OLTP step: one sysbench process for warm-up and measured time, with its latencies of every second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from volbench.core.records.cell import COUNTED_AS_SLOWEST, ENDED_BY_QUEUE, FILES_COPIED, UNANSWERED
from volbench.core.records.metrics import MetricValue
from volbench.core.records.own_places import outside
from volbench.core.records.steps.oltp import READ_ONLY_TESTS, OltpStep
from volbench.errors import StepFailed
from volbench.machine.engine.connection import Account, account_from, read_option_file
from volbench.machine.engine.own_data.content import hash_of_scripts
from volbench.machine.engine.sysbench.config import sysbench_files
from volbench.measure.workload.failures import tool_failure, with_server_cause
from volbench.measure.workload.interface import Clock, StepContext, StepOutcome, SubResult, Workload
from volbench.measure.workload.oltp.concurrent_steps import ConcurrentSteps, running_alongside
from volbench.measure.workload.oltp.load_meter import (
    UNFINISHED_MIN,
    UNFINISHED_SHARE_MIN,
    Observed,
    client_cpu,
    concurrency,
    histogram_row,
    load_metrics,
    losses,
    offered_load,
    series_rows,
    unanswered,
    unfinished_sessions,
)
from volbench.measure.workload.oltp.modulation import check_modulation, modulating
from volbench.measure.workload.oltp.requirements import check_prepared_statements, check_sysbench
from volbench.measure.workload.oltp.sessions import LoadSessions
from volbench.measure.workload.oltp.sysbench import (
    LINE_PREFIX,
    QUEUE_FULL_MESSAGE,
    QUEUE_MAX,
    TAIL_S,
    TEST_VARIABLE,
    LineParser,
    ReportInterval,
    Total,
    hooks_file,
    run_seconds,
    step_options,
    sysbench_argv,
)
from volbench.measure.workload.process import Tool, run_tool, tool_version, usable_cpus
from volbench.measure.workload.registry import workload_for
from volbench.measure.workload.state import LAST_WRITE

START_TIMEOUT_S = 60.0
HANG_TIMEOUT_S = 120.0
"""How long the last transactions may take after the run and its concurrent steps, which may block them."""
LAST_REPORT_S = 0.05
"""So early the last report of the window may seem to come: times of reports vary by the machine's scheduling."""
MEASURED_SHARE_MIN = 0.9
"""A load that a full queue ended before this share of its time is invalid: its figures are of a shorter time."""


class Oltp(Workload[OltpStep]):
    """Runs sysbench, and dumps or changes of a table at the same time."""

    kind = "oltp"

    def check(self, step: OltpStep, ctx: StepContext) -> None:
        """Before anything runs. Raises MissingPrerequisite, UsageError."""
        check_sysbench(step)
        step_options(step)
        check_modulation(step, ctx)
        check_prepared_statements(step, ctx)
        for concurrent in step.concurrent:
            workload_for(concurrent).check(concurrent, ctx)

    def run(self, step: OltpStep, ctx: StepContext) -> StepOutcome:
        """Run the step to its end. Raises StepFailed."""
        run = _Run(step, ctx)
        sessions = LoadSessions(ctx) if ctx.before_load else None
        with (
            running_alongside(step.concurrent, ctx) as concurrent,
            sysbench_files(_account(ctx), ctx.dataset.schema_name) as files,
        ):
            argv = sysbench_argv(
                step, dataset=ctx.dataset, cell_seed=ctx.seed, config_file=files.config, hooks=hooks_file()
            )
            with (
                modulating(step, ctx) as modulated,
                run_tool(
                    argv,
                    timeout_s=START_TIMEOUT_S + sum(run_seconds(step)) + TAIL_S + HANG_TIMEOUT_S,
                    cancelled=ctx.cancelled,
                    cwd=files.directory,
                    env={TEST_VARIABLE: step.test, **files.environment},
                    records_prefix=LINE_PREFIX,
                ) as sysbench,
            ):
                run.follow(sysbench, concurrent)
            if sessions is not None:
                sessions.wait_closed(where=f"step {step.name}")
            if step.concurrent:
                ctx.progress("waiting for the steps that run with the load", None)
            sub_results = concurrent.finish()
        if step.test not in READ_ONLY_TESTS:
            ctx.state[LAST_WRITE] = ctx.clock.now_s()
        outcome = run.outcome(argv, sub_results)
        details = {**outcome.details, **modulated}
        return replace(outcome, details=details, notes=(*outcome.notes, *files.notes))


def _account(ctx: StepContext) -> Account:
    return account_from(read_option_file(ctx.server.option_file))


class _Run:
    """One run of sysbench: reads its lines, records rows, and returns the outcome."""

    def __init__(self, step: OltpStep, ctx: StepContext) -> None:
        self.step = step
        self.ctx = ctx
        self.warmup_s, self.measured_s = run_seconds(step)
        self.before: list[Observed] = []
        self.measured: list[Observed] = []
        self.all_events = self.all_counted = 0
        self.total: Total | None = None
        self.queue_was_full = False
        self._start_ns: int | None = None

    def follow(self, sysbench: Tool, concurrent: ConcurrentSteps) -> None:
        """Read sysbench's lines until it ends, or may be ended. Raise StepFailed if it fails."""
        parser = LineParser()
        if self.warmup_s == 0:
            concurrent.begin()
        try:
            for line in sysbench.lines(lambda: concurrent.check(sysbench, HANG_TIMEOUT_S)):
                record = parser.feed(line)
                if isinstance(record, ReportInterval):
                    self._record_interval(Observed(interval=record, cpu_s=sysbench.cpu_s()), concurrent)
                elif isinstance(record, Total):
                    self.total = record
                if self._may_be_ended():
                    return
            code = sysbench.wait()
        except StepFailed as failure:
            raise with_server_cause(failure, self.ctx) from failure
        if code != 0:
            self._check_failure(sysbench, code)

    def _check_failure(self, sysbench: Tool, code: int) -> None:
        """Accept the end of an open loop that had too many transactions waiting: that is a result of its rate.

        Raises StepFailed for every other failure, and for a queue that was full before anything was measured.
        """
        where, messages = f"step {self.step.name}", sysbench.error_output()
        fatal = [line for line in messages.splitlines() if line.startswith("FATAL")]
        only_the_queue = bool(fatal) and all(QUEUE_FULL_MESSAGE in line for line in fatal)
        if not only_the_queue or self.step.rate is None or self.ctx.server.has_failed():
            raise tool_failure(sysbench, code, self.ctx, where=where)
        if not self.measured:
            raise StepFailed(
                f"{QUEUE_MAX:,} transactions waited before the measured time began: the server does not keep up"
                f" with {self.step.rate:g} a second",
                where=where,
                evidence=messages,
                next_step="choose a lower `rate`, or a shorter `warmup`",
            )
        self.queue_was_full = not self._is_complete()

    def _may_be_ended(self) -> bool:
        """Return whether no more of the load is needed: its window is complete, and no step needs its last rows."""
        if not (self.ctx.is_last or self.ctx.before_load) or self.step.concurrent:
            return False
        return self._is_complete()

    def _is_complete(self) -> bool:
        """Return whether the last report of the measured time has come.

        The start is known from the first report, which may be late itself: a window of its full length is complete.
        """
        if not self.measured or self._start_ns is None:
            return False
        end_ns = self.measured[-1].interval.end_ns
        since_start_s = (end_ns - self._start_ns) / 1e9
        window_s = (end_ns - self.measured[0].interval.start_ns) / 1e9
        return max(since_start_s - self.warmup_s, window_s) > self.measured_s - LAST_REPORT_S

    def _record_interval(self, observed: Observed, concurrent: ConcurrentSteps) -> None:
        interval = observed.interval
        if self._start_ns is None:
            self._start_ns = interval.start_ns
        begin_s, end_s = ((at - self._start_ns) / 1e9 for at in (interval.start_ns, interval.end_ns))
        in_window = begin_s > self.warmup_s - 0.5 and end_s < self.warmup_s + self.measured_s + 0.5
        if in_window:
            self.measured.append(observed)
        elif not self.measured:
            self.before.append(observed)
        if end_s > self.warmup_s - 0.5:
            concurrent.begin()
        self.all_events += interval.events
        self.all_counted += interval.counted
        self.ctx.record.series(series_rows(interval, self.ctx.clock))
        self.ctx.record.histogram(histogram_row(interval, self.ctx.clock, step=self.step.name, measured=in_window))
        test = outside(self.step.test)
        text = f"{test}: {interval.events / interval.interval_s:.0f} transactions/s"
        self.ctx.progress(
            text if interval.events else f"{test}: no transaction finished in the last second",
            min(1.0, end_s / (self.warmup_s + self.measured_s)),
        )

    def outcome(self, argv: Sequence[str], sub_results: tuple[SubResult, ...]) -> StepOutcome:
        """Return the step's outcome. Raise StepFailed if nothing was measured."""
        if not self.measured:
            raise StepFailed("sysbench reported no interval of the measured time", where=f"step {self.step.name}")
        intervals = [observed.interval for observed in self.measured]
        window_s = self._window(intervals)
        details = self._details(argv, intervals)
        phases = _phases(intervals, sub_results, self, details) if sub_results else ()
        return StepOutcome(
            window_s=window_s,
            warmup_s=window_s[0] - self.ctx.clock.at_s(self._start_ns or intervals[0].start_ns),
            metrics=self.metrics(intervals),
            notes=self._notes(intervals, sub_results, window_s),
            details=details,
            invalid_reasons=self.invalid_reasons(),
            sub_results=(*sub_results, *phases),
        )

    def _window(self, intervals: Sequence[ReportInterval]) -> tuple[float, float]:
        return self.ctx.clock.at_s(intervals[0].start_ns), self.ctx.clock.at_s(intervals[-1].end_ns)

    def _details(self, argv: Sequence[str], intervals: Sequence[ReportInterval]) -> dict[str, Any]:
        threads = self.step.threads[0]
        details: dict[str, Any] = {
            "sysbench_version": tool_version("sysbench"),
            **({"script_sha256": hash_of_scripts(Path(self.step.script))} if self.step.script else {}),
            "command": [argument for argument in argv[:-2] if not argument.startswith("--config-file=")],
            "transactions": sum(interval.events for interval in intervals),
            "errors": sum(interval.errors for interval in intervals),
            "reconnects": sum(interval.reconnects for interval in intervals),
            "transactions_whole_run": None if self.total is None else self.total.counted,
            "events_in_bins": self.all_events,
            "events_counted": self.all_counted,
            **client_cpu([*self.before[-1:], *self.measured], threads=threads, cpus=usable_cpus()),
        }
        if any(concurrent.tool in ("physical", "snapshot") for concurrent in self.step.concurrent):
            details[FILES_COPIED] = True
        if self.step.rate is not None:
            before = self.before[-1].interval if self.before else None
            details |= offered_load(before, intervals, rate=self.step.rate)
        return details

    def _notes(
        self, intervals: Sequence[ReportInterval], sub_results: Sequence[SubResult], window_s: tuple[float, float]
    ) -> tuple[str, ...]:
        notes = []
        beyond = sum(interval.bins.above for interval in intervals)
        if beyond:
            notes.append(f"{beyond} transactions took longer than the histogram's range (100 s)")
        threads = self.step.threads[0]
        if self.queue_was_full:
            notes.append(
                f"the load {ENDED_BY_QUEUE} after {window_s[1] - window_s[0]:.0f} of {self.measured_s} s:"
                f" {QUEUE_MAX:,} transactions waited, since the server did not keep up with {self.step.rate:g} a"
                " second"
            )
        if waiting := self._waiting():
            transactions = waiting + sum(interval.events for interval in intervals)
            notes.append(
                f"{waiting:,} of {transactions:,} transactions {UNANSWERED}: {COUNTED_AS_SLOWEST}, mean and"
                " maximum do not have them"
            )
        if self.step.rate is None:
            unfinished = unfinished_sessions(intervals, threads=threads)
            if unfinished >= max(UNFINISHED_MIN, UNFINISHED_SHARE_MIN * threads):
                notes.append(
                    f"{unfinished:.1f} of {threads} sessions were in transactions that did not end in the measured "
                    "time: the latencies are those of the others"
                )
        if self.step.test.startswith("select_random_"):
            notes.append(f"{self.step.test} reads the first table only")
        for sub_result in sub_results:
            late_s = sub_result.outcome.window_s[1] - window_s[1]
            if late_s > 0:
                notes.append(f"{sub_result.suffix} ran for {late_s:.1f} s after the end of the load")
        return tuple(notes)

    def metrics(self, chosen: Sequence[ReportInterval]) -> dict[str, MetricValue]:
        """Return the metrics of intervals of the measured time; those with the last one have who waited then."""
        waiting = self._waiting() if chosen[-1] is self.measured[-1].interval else 0
        return load_metrics(chosen, rate=self.step.rate, waiting=waiting)

    def _waiting(self) -> int:
        """Return how many transactions of an open loop had no answer at the end."""
        intervals = [observed.interval for observed in self.measured]
        return 0 if self.step.rate is None else unanswered(intervals, threads=self.step.threads[0])

    def invalid_reasons(self) -> tuple[str, ...]:
        """Return why the numbers are invalid: bins and sysbench's own counter disagree, or time is missing."""
        reasons = []
        drift = abs(self.all_events - self.all_counted)
        if drift > self.step.threads[0] + 0.01 * self.all_counted:
            reasons.append(
                f"the latency bins have {self.all_events} transactions, sysbench counted {self.all_counted}"
            )
        seconds = sum(observed.interval.interval_s for observed in self.measured)
        if self.queue_was_full and seconds < MEASURED_SHARE_MIN * self.measured_s:
            reasons.append(f"the load {ENDED_BY_QUEUE}: {seconds:.0f} of {self.measured_s} s were measured")
        return tuple(reasons)


def _phases(
    intervals: Sequence[ReportInterval], sub_results: Sequence[SubResult], run: _Run, step_details: dict[str, Any]
) -> tuple[SubResult, ...]:
    """Return the load's figures during concurrent steps, and alone, see `concurrency`."""
    clock = run.ctx.clock
    phases = concurrency(
        [(clock.at_s(interval.start_ns), clock.at_s(interval.end_ns)) for interval in intervals],
        [sub_result.outcome.window_s for sub_result in sub_results],
    )
    during = [interval for interval, phase in zip(intervals, phases, strict=True) if phase == "during"]
    alone = [interval for interval, phase in zip(intervals, phases, strict=True) if phase == "alone"]
    return tuple(
        SubResult(
            suffix=suffix,
            kind=run.step.kind,
            parameters={"test": outside(run.step.test), "threads": run.step.threads[0], "phase": suffix},
            outcome=StepOutcome(
                window_s=(clock.at_s(chosen[0].start_ns), clock.at_s(chosen[-1].end_ns)),
                spans_s=_spans(clock, chosen),
                metrics=run.metrics(chosen) | (losses(during, alone) if chosen is during else {}),
                details={
                    "seconds": sum(interval.interval_s for interval in chosen),
                    **{
                        name: step_details[name]
                        for name in ("client_cpu_ratio", "offered_ratio", "offered_due", FILES_COPIED)
                        if name in step_details
                    },
                },
                invalid_reasons=run.invalid_reasons(),
            ),
        )
        for suffix, chosen in (("during", during), ("alone", alone))
        if chosen
    )


def _spans(clock: Clock, chosen: Sequence[ReportInterval]) -> tuple[tuple[float, float], ...]:
    """Return the time spans of the intervals, consecutive ones joined."""
    spans: list[tuple[float, float]] = []
    for interval in chosen:
        start_s, end_s = clock.at_s(interval.start_ns), clock.at_s(interval.end_ns)
        if spans and start_s - spans[-1][1] < interval.interval_s / 2:
            spans[-1] = (spans[-1][0], end_s)
        else:
            spans.append((start_s, end_s))
    return tuple(spans)
