"""The replay step: a log's statements on the cell's own data, and latencies of each class of statements."""

from __future__ import annotations

import hashlib
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from volbench.core.base.text import counted, percent
from volbench.core.records.metrics import MetricValue, metric
from volbench.core.records.series import SeriesRow
from volbench.core.records.steps.replay import ReplayStep
from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.machine.engine.connection import account_from, read_option_file
from volbench.measure.workload.failures import with_server_cause
from volbench.measure.workload.interface import StepContext, StepOutcome, SubResult, Workload
from volbench.measure.workload.replay.general_log import GeneralLog, general_log, is_general_log
from volbench.measure.workload.replay.schedule import Schedule, schedule
from volbench.measure.workload.replay.sending import NOT_SENT, ExecutedStatement, WorkerResult, send
from volbench.measure.workload.replay.slowlog import SlowLog, appended_meanwhile, slow_log
from volbench.measure.workload.state import LAST_WRITE

GENERAL_LOG = "the log is a general log: it has no durations, and does not tell what triggers and routines sent"
LATE_S = 0.005
"""A free connection that sent a statement later than this was late because of the client."""
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
STATEMENTS_MIN = 20
"""A class with fewer statements has no 95th percentile that is worth comparing."""
_ERRORS_SHOWN = 5
_NAME = re.compile(r"\b(?:from|into|update|join)\s+([`\w.]+)")


class Replay(Workload[ReplayStep]):
    """Sends the log's statements in an open loop: the latency counts from when a statement was due."""

    kind = "replay"

    def check(self, step: ReplayStep, ctx: StepContext) -> None:
        """Read the log. Raises UsageError for one that has nothing for the cell's schema."""
        if not ctx.dataset.is_own:
            raise UsageError("a replay needs a dataset of your own", where=f"step {step.name}")
        plan_replay(step, ctx.dataset.schema_name)

    def run(self, step: ReplayStep, ctx: StepContext) -> StepOutcome:
        """Run the step to its end. Raises StepFailed if the server goes away, or nothing was measured."""
        planned = plan_replay(step, ctx.dataset.schema_name)
        account = account_from(read_option_file(ctx.server.option_file))
        workers = send(account, planned, writes=True, progress=_progress(step, ctx))
        ctx.state[LAST_WRITE] = ctx.clock.now_s()
        if not ctx.server.alive():
            failure = StepFailed("the server went away in the replay", where=f"step {step.name}")
            raise with_server_cause(failure, ctx)
        return _Replayed(step=step, ctx=ctx, planned=planned, workers=workers).outcome()


def plan_replay(step: ReplayStep, schema: str) -> Schedule:
    """Return what a step sends to a schema. Raises UsageError with what the log has instead."""
    try:
        with query_log(Path(step.log), schema) as log:
            planned = schedule(
                log,
                schemas=[schema],
                writes=True,
                speed=step.speed,
                seconds=(step.warmup_s + step.duration_s) * step.speed,
                connections_max=step.connections,
            )
            notes = _notes_on(log)
            return replace(planned, skipped={**log.skipped, **planned.skipped}, notes=notes)
    except UsageError as error:
        error.where = f"step {step.name or step.kind}: {step.log}"
        error.next_step = error.next_step or f"the log needs statements in the schema {schema}: see dataset.schema"
        raise


@contextmanager
def query_log(path: Path, schema: str) -> Iterator[SlowLog | GeneralLog]:
    """Yield the log in a file, of the kind that it is. Raises UsageError."""
    if is_general_log(path):
        with general_log(path, schema=schema) as of_arrivals:
            yield of_arrivals
    else:
        with slow_log(path) as of_ends:
            yield of_ends


def _notes_on(log: SlowLog | GeneralLog) -> tuple[str, ...]:
    notes = []
    if isinstance(log, GeneralLog):
        notes.append(GENERAL_LOG)
    if isinstance(log, GeneralLog) and log.of_open_connections:
        count = log.of_open_connections
        notes.append(
            f"of connections older than the log, and taken for {log.schema}: {counted(count, 'statement')}"
        )
    if appended := appended_meanwhile(log.appended_bytes):
        notes.append(f"of the log: {appended}")
    return tuple(notes)


def _progress(step: ReplayStep, ctx: StepContext) -> Callable[[str, float], None]:
    def report(text: str, share: float) -> None:
        if ctx.cancelled.is_set():
            raise StepFailed("the replay was cancelled", where=f"step {step.name}")
        ctx.progress(f"{text} of {Path(step.log).name}", share)

    return report


@dataclass(frozen=True, kw_only=True)
class _Replayed:
    """The executions of one replay, and what they say."""

    step: ReplayStep
    ctx: StepContext
    planned: Schedule
    workers: Sequence[WorkerResult]

    @property
    def start_s(self) -> float:
        """The start on the cell's clock."""
        return self.ctx.clock.at_s(round(min(worker.start_monotonic_s for worker in self.workers) * 1e9))

    def outcome(self) -> StepOutcome:
        executions = [execution for worker in self.workers for execution in worker.executions]
        measured = [execution for execution in executions if execution.statement.at_s >= self.step.warmup_s]
        sent = [execution for execution in measured if execution.error != NOT_SENT]
        succeeded = [execution for execution in sent if not execution.error]
        if not succeeded:
            raise StepFailed(
                "no statement of the log succeeded",
                where=f"step {self.step.name}",
                evidence="; ".join(self._error_texts(measured)),
                next_step="check that the log belongs to the dataset",
                cause="replay_failed",
            )
        end_s = max(execution.ended_s for execution in sent)
        self.ctx.record.series(self._series(executions))
        window_s = (self.start_s + self.step.warmup_s, self.start_s + end_s)
        details = self._details(measured, sent)
        invalid = tuple(self._invalid_reasons(details))
        return StepOutcome(
            window_s=window_s,
            warmup_s=self.step.warmup_s,
            metrics=_metrics(succeeded, length_s=window_s[1] - window_s[0]),
            details=details,
            notes=tuple(self._notes(details)),
            invalid_reasons=invalid,
            sub_results=tuple(self._classes(sent, window_s, invalid)),
        )

    def _classes(
        self, sent: Sequence[ExecutedStatement], window_s: tuple[float, float], invalid: tuple[str, ...]
    ) -> Iterator[SubResult]:
        by_class: dict[int, list[ExecutedStatement]] = defaultdict(list)
        for execution in sent:
            by_class[execution.statement.class_index].append(execution)
        heaviest = sorted(by_class, key=lambda index: _weight(by_class[index]), reverse=True)
        for index in heaviest[: self.step.classes]:
            succeeded = [execution for execution in by_class[index] if not execution.error]
            if len(succeeded) < STATEMENTS_MIN:
                continue
            fingerprint = self.planned.fingerprints[index]
            yield SubResult(
                suffix=class_name(fingerprint),
                kind=self.step.kind,
                parameters={"statement": fingerprint[:200], "speed": self.step.speed},
                outcome=StepOutcome(
                    window_s=window_s,
                    metrics=_metrics(succeeded, length_s=window_s[1] - window_s[0]),
                    details={"statements": len(by_class[index]), "errors": len(by_class[index]) - len(succeeded)},
                    invalid_reasons=invalid,
                ),
            )

    def _details(self, measured: Sequence[ExecutedStatement], sent: Sequence[ExecutedStatement]) -> dict[str, Any]:
        late = sum(each.started_s - max(each.statement.at_s, each.free_s) > LATE_S for each in sent)
        return {
            "statements": len(measured),
            "not_sent": len(measured) - len(sent),
            "errors": sum(1 for each in sent if each.error),
            "error_texts": self._error_texts(sent),
            "late_share": late / len(sent),
            "client_cpu_ratio": max(worker.cpu_share for worker in self.workers),
            "client_cpus_usable": float(len(self.workers)),
            "connections": len(self.planned.connections),
            "classes": len(self.planned.fingerprints),
            "log_s": self.planned.log_s,
            "peak_per_s": self.planned.peak_per_s,
            "left_out": self.planned.skipped,
            "log_sha256": _sha256(Path(self.step.log)),
        }

    def _error_texts(self, executions: Sequence[ExecutedStatement]) -> list[str]:
        messages = {code: text for worker in self.workers for code, text in worker.error_messages.items()}
        counts: dict[int, int] = defaultdict(int)
        for execution in executions:
            if execution.error:
                counts[execution.error] += 1
        worst = sorted(counts, key=lambda code: -counts[code])[:_ERRORS_SHOWN]
        return [f"{counts[code]} times {code} {messages.get(code, '')}".strip() for code in worst]

    def _invalid_reasons(self, details: dict[str, Any]) -> Iterator[str]:
        if details["errors"] > self.step.errors_max * details["statements"]:
            yield f"{details['errors']} of {details['statements']} statements failed: {details['error_texts'][0]}"
        if details["late_share"] > self.step.late_max:
            yield f"{percent(details['late_share'])} of the statements were sent late by the client's own fault"
        if details["not_sent"]:
            yield f"{details['not_sent']} statements were not sent: the server fell too far behind the log"

    def _notes(self, details: dict[str, Any]) -> Iterator[str]:
        for reason, count in self.planned.skipped.items():
            yield f"the replay skipped {counted(count, 'statement')} {reason}"
        yield from self.planned.notes
        if self.planned.whole_seconds:
            yield "the log has whole seconds: statements were spread evenly within each"
        if self.planned.shared_connections:
            yield f"{self.planned.shared_connections} connections of the log shared a connection"
        if details["errors"]:
            yield f"{details['errors']} statements failed: {'; '.join(details['error_texts'])}"

    def _series(self, executions: Sequence[ExecutedStatement]) -> Iterator[SeriesRow]:
        """Yield the client's rows of each second, statements counted where they ended."""
        seconds: dict[int, list[ExecutedStatement]] = defaultdict(list)
        for execution in executions:
            if execution.error != NOT_SENT:
                seconds[int(execution.ended_s)].append(execution)
        for second in range(max(seconds, default=-1) + 1):
            ended = seconds.get(second, [])
            latencies = sorted(_response_ms(execution) for execution in ended if not execution.error)
            values = {"qps": float(len(ended)), "errors_per_s": float(sum(1 for each in ended if each.error))}
            if latencies:
                values |= {f"latency_ms_{name}": _rank(latencies, level) for name, level in QUANTILES.items()}
                values["latency_ms_max"] = latencies[-1]
            for name, value in values.items():
                yield SeriesRow(t_s=self.start_s + second + 1, source="client", metric=name, value=value)


def _weight(executions: Sequence[ExecutedStatement]) -> tuple[float, int]:
    """Return a class' time in the log, and its number of statements, which decides for a log without durations."""
    return sum(each.statement.logged_s for each in executions), len(executions)


def class_name(fingerprint: str) -> str:
    """Return a short name of a class that is the same in every cell: verb, table, part of a hash."""
    table = _NAME.search(fingerprint)
    pieces = [fingerprint.split(maxsplit=1)[0].strip("("), table[1].strip("`").rpartition(".")[2] if table else ""]
    digest = hashlib.sha256(fingerprint.encode()).hexdigest()[:6]
    return "-".join(re.sub(r"\W", "", piece)[:24] for piece in (*pieces, digest) if piece)


def _metrics(executions: Sequence[ExecutedStatement], *, length_s: float) -> dict[str, MetricValue]:
    latencies = sorted(map(_response_ms, executions))
    values = {
        "qps": len(latencies) / length_s,
        "latency_ms_mean": sum(latencies) / len(latencies),
        "latency_ms_max": latencies[-1],
        **{f"latency_ms_{name}": _rank(latencies, level) for name, level in QUANTILES.items()},
    }
    return {name: metric(name, value) for name, value in values.items()}


def _response_ms(execution: ExecutedStatement) -> float:
    """Return the time since the statement was due, without the client's own late start."""
    client_s = max(0.0, execution.started_s - max(execution.statement.at_s, execution.free_s))
    return (execution.ended_s - execution.statement.at_s - client_s) * 1000


def _rank(ordered: Sequence[float], level: float) -> float:
    """Return the smallest value that a share `level` does not exceed."""
    return ordered[max(0, math.ceil(level * len(ordered)) - 1)]


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise MissingPrerequisite("the log cannot be read", where=str(path), evidence=str(error)) from error
