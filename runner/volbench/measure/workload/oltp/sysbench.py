"""sysbench 1.0: its command line, and the output lines of lua/volbench_hooks.lua."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from volbench.core.base.parse import parse_json
from volbench.core.records.base import Scalar
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.latency_bins import LatencyBins, sysbench_latency_bins
from volbench.core.records.steps.alter import AlterStep
from volbench.core.records.steps.oltp import OltpStep
from volbench.errors import StepFailed, UsageError
from volbench.machine.engine.sysbench.config import option_names, option_text

LINE_PREFIX = "volbench "
TEST_VARIABLE = "VOLBENCH_SYSBENCH_TEST"
IGNORED_ERRORS = "1213,1020,1205"
"""Deadlock, record changed since read, lock wait timeout: sysbench counts them and restarts the transaction."""
DUPLICATE_KEY = "1062"
TABLE_CHANGED = ("1412", "1146")
"""Of a transaction that began before ALTER TABLE; of a prepared statement whose trigger names a table of pt-osc."""
QUEUE_MAX = 100_000
"""Transactions that may wait in an open loop (MAX_QUEUE_LEN of sysbench 1.0); one more ends sysbench."""
QUEUE_FULL_MESSAGE = "The event queue is full"
TAIL_S = 1
"""sysbench runs this much longer than the measured time: without it, the last report might be missing."""

_RESERVED_OPTIONS = frozenset(
    {
        "config-file",
        "db-driver",
        "events",
        "forced-shutdown",
        "histogram",
        "mysql-db",
        "mysql-dry-run",
        "mysql-host",
        "mysql-password",
        "mysql-port",
        "mysql-socket",
        "mysql-ssl",
        "mysql-ssl-ca",
        "mysql-ssl-cert",
        "mysql-ssl-key",
        "mysql-user",
        "percentile",
        "rand-seed",
        "rand-type",
        "rate",
        "report-checkpoints",
        "report-interval",
        "table-size",
        "tables",
        "threads",
        "time",
        "verbosity",
    }
)
_OF_TESTS = frozenset({"table-size", "tables"})
"""Options that bundled tests define, not sysbench: an own script may have them too."""


@dataclass(frozen=True, kw_only=True)
class ReportInterval:
    """One report of sysbench: the events since the previous one.

    Args:
        start_ns, end_ns: CLOCK_MONOTONIC.
        events: transactions in the histogram `bins`.
        counted: transactions by sysbench's own counter, read a moment earlier.
        queue_length, concurrency: waiting and running transactions at the end, open loop only.
    """

    start_ns: int
    end_ns: int
    threads_running: int
    events: int
    counted: int
    queries: int
    errors: int
    reconnects: int
    queue_length: int
    concurrency: int
    bins: LatencyBins

    @property
    def interval_s(self) -> float:
        """Its length."""
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(frozen=True, kw_only=True)
class Total:
    """sysbench's own totals of the run, including warm-up and tail."""

    counted: int
    errors: int
    latency_max_s: float


class LineParser:
    """Parses sysbench's stdout into intervals."""

    def __init__(self) -> None:
        self._end_ns: int | None = None

    def feed(self, line: str) -> ReportInterval | Total | None:
        """Return the record in a line; None for other text. Raise StepFailed for a malformed record."""
        if not line.startswith(LINE_PREFIX):
            return None
        try:
            report = parse_json(line.removeprefix(LINE_PREFIX))
            if report["kind"] == "total":
                return Total(**{name: report[name] for name in ("counted", "errors", "latency_max_s")})
            return self._interval(report)
        except (ValueError, KeyError, TypeError, ArithmeticError) as error:
            raise StepFailed("sysbench's report cannot be read", evidence=f"{error}: {line[:300]}") from error

    def _interval(self, report: dict[str, int]) -> ReportInterval:
        numbers: list[int] = report["bins"]  # type: ignore[assignment]
        bins = sysbench_latency_bins(
            range_mult=report["mult"],
            range_deduct=report["deduct"],
            size=report["size"],
            counts=dict(zip(numbers[::2], numbers[1::2], strict=True)),
        )
        if bins.events != report["events"]:
            raise ValueError(f"{bins.events} events in the bins, but {report['events']} reported")
        end_ns = report["monotonic_ns"]
        since_start_ns = end_ns - round(report["time_total_s"] * 1e9)
        start_ns = since_start_ns if self._end_ns is None else self._end_ns
        self._end_ns = end_ns
        return ReportInterval(
            start_ns=start_ns,
            end_ns=end_ns,
            queries=report["reads"] + report["writes"] + report["other"],
            bins=bins,
            **{
                name: report[name]
                for name in (
                    "threads_running",
                    "events",
                    "counted",
                    "errors",
                    "reconnects",
                    "queue_length",
                    "concurrency",
                )
            },
        )


def run_seconds(step: OltpStep) -> tuple[int, int]:
    """Return whole seconds of warm-up and measured time, rounded up: sysbench does not support fractions."""
    return math.ceil(step.warmup_s), max(1, math.ceil(step.duration_s))


def sysbench_argv(
    step: OltpStep, *, dataset: DatasetSpec, cell_seed: int, config_file: Path, hooks: Path
) -> list[str]:
    """Return the command line; credentials are in `config_file`. Raise UsageError for volbench's options."""
    warmup_s, measured_s = run_seconds(step)
    options: dict[str, Scalar] = {
        "config-file": str(config_file),
        "db-driver": "mysql",
        **_tables(step, dataset),
        "threads": step.threads[0],
        "time": warmup_s + measured_s + TAIL_S,
        "report-interval": 1,
        "percentile": 95,
        "rand-type": step.rand_type,
        "rand-seed": step_seed(step, cell_seed),
        "mysql-ignore-errors": IGNORED_ERRORS,
    }
    if step.rate is not None:
        options["rate"] = round(step.rate)
    options |= step_options(step)
    return ["sysbench", *(f"--{name}={option_text(value)}" for name, value in options.items()), str(hooks), "run"]


def _tables(step: OltpStep, dataset: DatasetSpec) -> dict[str, Scalar]:
    """Return the options that say which tables there are; an own script gets those that made its tables."""
    if step.script:
        return option_names(dataset.options) if step.script == dataset.path else {}
    one_table = step.test.startswith("select_random_")
    return {"tables": 1 if one_table else dataset.tables, "table-size": dataset.rows}


def step_options(step: OltpStep) -> dict[str, Scalar]:
    """Return the step's own options, checked. Raise UsageError for one that volbench sets."""
    options = option_names(step.options)
    for name in sorted(options.keys() & (_RESERVED_OPTIONS - (_OF_TESTS if step.script else frozenset()))):
        raise UsageError(
            f"the sysbench option {name} is set by volbench",
            where=f"step {step.name}",
            next_step="use the step's own keys (threads, rate, duration, warmup, rand_type) or the dataset's",
        )
    ignored = [DUPLICATE_KEY] if option_text(options.get("skip-trx", False)) == "on" else []
    ignored += TABLE_CHANGED if any(isinstance(other_step, AlterStep) for other_step in step.concurrent) else []
    if ignored and "mysql-ignore-errors" not in options:
        options["mysql-ignore-errors"] = ",".join((IGNORED_ERRORS, *ignored))
    return options


def step_seed(step: OltpStep, cell_seed: int) -> int:
    """Return a seed 1 .. 2**31 - 2 for a step of a cell, so that no step repeats the rows of another one."""
    identity = f"{cell_seed}/{step.name}/{step.test}/{step.threads[0]}"
    return 1 + zlib.crc32(identity.encode()) % (2**31 - 2)


def hooks_file() -> Path:
    """Return the path of lua/volbench_hooks.lua, in a checkout and in an installed wheel."""
    return Path(str(resources.files("volbench.measure.workload").joinpath("lua/volbench_hooks.lua")))
