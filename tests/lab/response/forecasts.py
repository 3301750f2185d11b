"""Forecast loads on volumes that nobody measured, then measure them: one line of JSON for each load and volume.

    PYTHONPATH=tests/lab .venv/bin/python -m response.forecasts --out DIRECTORY [--pairs 60] [--for SECONDS]

A source is a run of the loads on an emulated volume whose latencies follow a signal: it tells what a millisecond
costs each load. A goal is another volume, whose latencies of reads and of writes a seed draws. Its waiting times,
rates and medians are forecast and written to `forecasts.jsonl` before the goal is made; then the loads run on it. A
pair is a load on a source and a goal. A control is a goal that is set as its source was: what its forecasts are off
by is what the machine did meanwhile, and no pair. What is in the files is not run again, so an interrupted call
continues where it was. Needs root, FUSE and a local server.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import volbench
from response.__main__ import PROFILE, ROOT
from response.pairs_table import table
from volbench.core.records.report import Report, ResponseRow
from volbench.errors import VolbenchError
from volbench.results.explain.accounts.what_if import other_volume
from volbench.results.explain.accounts.what_if_response import awaits_on
from volbench.results.explain.run import StepView, explain_run
from volbench.results.response.estimate import with_one_log
from volbench.results.response.levels import mean_awaits_ms
from volbench.results.response.prediction import Predicted, predicted
from volbench.results.response.samples import CellSamples
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory

SOURCE_SUITE = ROOT / "suites/response.yaml"
GOAL_SUITE = Path(__file__).with_name("goal.yaml")
LOADS = ("point-select", "read-only", "read-write", "write-only")
GOALS_OF_SOURCE = 3
CONTROL = 0
SOURCE_US, GOAL_US = (300, 1500), (200, 6000)
"""Latencies that are drawn, evenly on a logarithmic scale. A signal reaches 1.2 to 6 ms."""
RUN_S_MAX = 1200
FORECASTS, PAIRS = "forecasts.jsonl", "pairs.jsonl"


@dataclass(frozen=True, kw_only=True)
class Latencies:
    """What an emulated volume is set to, in microseconds; flushes take as long as writes."""

    read_us: int
    write_us: int

    @property
    def spec(self) -> str:
        """The volume's SPEC without its name."""
        return f"emulated:{PROFILE}?read_us={self.read_us}&write_us={self.write_us}&flush_us={self.write_us}"


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A volume that is forecast from a source; number CONTROL is set as the source was."""

    source: int
    number: int

    @property
    def name(self) -> str:
        """Of its directory and its lines."""
        return f"{self.source}-{self.number}"


def drawn(bounds_us: tuple[int, int], seed: str) -> Latencies:
    """Return latencies of a seed; those of reads and of writes do not depend on each other."""
    numbers = random.Random(seed)
    low, high = bounds_us
    reads, writes = (round(low * (high / low) ** numbers.random()) for _ in range(2))
    return Latencies(read_us=reads, write_us=writes)


def source_latencies(number: int) -> Latencies:
    """Return what a source is set to while nothing is slow."""
    return drawn(SOURCE_US, f"source {number}")


def goal_latencies(goal: Goal) -> Latencies:
    """Return what a goal is set to."""
    return source_latencies(goal.source) if goal.number == CONTROL else drawn(GOAL_US, f"goal {goal.name}")


def main() -> int:
    """Forecast and measure what is missing, then write the table of what there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="directory of the runs and of the lines")
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument(
        "--first", type=int, default=1, help="number of the first source, which draws all latencies"
    )
    parser.add_argument(
        "--for", dest="for_s", type=float, default=float("inf"), help="begin no run after so many s"
    )
    parser.add_argument("--target", default="local", help="local or docker")
    parser.add_argument("--table", type=Path, help="Markdown file to write")
    parser.add_argument("--score-only", action="store_true", help="run nothing, write the table of what is there")
    parser.add_argument(
        "--again",
        choices=["forecast", "measured"],
        help="run nothing, forecast all pairs again from their sources, whose goals are known by now: with the"
        " waiting times that today's code forecasts, or with those that were measured",
    )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if not (args.score_only or args.again):
        run_missing(args)
    lines = lines_of(args.out / PAIRS)
    if args.again:
        lines = list(pairs_again(args.out, lines, with_measured=args.again == "measured"))
    text = "\n".join(table(lines, is_known=bool(args.again))) + "\n"
    if args.table:
        args.table.write_text(text)
    sys.stdout.write(text)
    return 0


def run_missing(args: argparse.Namespace) -> None:
    """Take goal after goal until there are as many pairs as wanted, or the time is over."""
    end_s = time.monotonic() + args.for_s
    for goal in goals(args.first, args.pairs):
        if goal.name in {line["goal"] for line in lines_of(args.out / PAIRS)}:
            continue
        source = run_once(
            args.out / f"source-{goal.source}", SOURCE_SUITE, source_latencies(goal.source), args, end_s
        )
        if source is None:
            continue
        forecast_once(args.out, goal, source)
        measured = run_once(args.out / f"goal-{goal.name}", GOAL_SUITE, goal_latencies(goal), args, end_s)
        if measured is not None:
            append(args.out / PAIRS, list(pairs(args.out, goal, measured)))


def goals(first: int, wanted: int) -> Iterator[Goal]:
    """Yield as many goals as the wanted pairs need, and each source's control before its second."""
    for number in range(-(-wanted // len(LOADS))):
        source, goal = divmod(number, GOALS_OF_SOURCE)
        if goal == 1:
            yield Goal(source=first + source, number=CONTROL)
        yield Goal(source=first + source, number=goal + 1)


def run_once(out: Path, suite: Path, latencies: Latencies, args: argparse.Namespace, end_s: float) -> Path | None:
    """Return the complete run of a suite on one volume, which is made where there is none; None without one."""
    known = complete_run(out)
    if known is not None or time.monotonic() >= end_s:
        return known
    command = [sys.executable, "-m", "volbench", "run", str(suite), "--target", args.target, "--yes"]
    command += ["--volume", f"v={latencies.spec}", "--out", str(out)]
    out.mkdir(parents=True, exist_ok=True)
    (out / "load.json").write_text(json.dumps({"loadavg": os.getloadavg()[0], "begun_at": now()}))
    with (out / "log").open("a") as log:
        try:
            subprocess.run(command, stdout=log, stderr=log, check=False, timeout=RUN_S_MAX)
        except subprocess.TimeoutExpired:
            return None
    return complete_run(out)


def complete_run(out: Path) -> Path | None:
    """Return the directory of a complete run in a directory; None without one."""
    for path in sorted(out.glob("*/run.json")):
        try:
            if volbench.open(path.parent).report.complete:
                return path.parent
        except VolbenchError as error:
            print(f"{path.parent}: {error}", file=sys.stderr)
    return None


def forecast_once(out: Path, goal: Goal, source: Path) -> None:
    """Write the forecasts for a goal, unless there are some."""
    if goal.name not in {line["goal"] for line in lines_of(out / FORECASTS)}:
        here, there = source_latencies(goal.source), goal_latencies(goal)
        lines = [
            {"goal": goal.name, "source_us": asdict(here), "goal_us": asdict(there), "at": now()} | forecast
            for forecast in forecasts(source, here, there)
        ]
        append(out / FORECASTS, lines)


def forecasts(
    source: Path,
    here: Latencies,
    there: Latencies,
    measured_ms: Mapping[str, Mapping[str, float]] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield for each load what its waiting times, its rate and its p50 will be on another volume, or why not.

    Args:
        source: run with a signal.
        here, there: what both volumes are set to.
        measured_ms: by load, waiting times on the other volume that are known.
    """
    report, views = explained(source)
    for load in LOADS:
        waits = views[load].waits if load in views else None
        rows = [row for row in report.responses if row.step == load]
        slopes = [row for row in rows if row.statistic == "mean" and not row.query and row.ci is not None]
        if waits is None or waits.threads is None or not slopes:
            yield {"load": load, "reason": "the load has no slope"}
            continue
        merged = with_one_log(waits) if any(row.term == "log_sync" for row in slopes) else waits
        known_ms = (measured_ms or {}).get(load, {})
        awaits = awaits_ms(merged, [row.term for row in slopes], here, there)
        awaits = {term: known_ms.get(term, ms) for term, ms in awaits.items()}
        missing = waited_for(merged) - set(awaits)
        if missing:
            yield {"load": load, "reason": f"no slope of {', '.join(sorted(missing))}"}
            continue
        yield {
            "load": load,
            "slopes": {row.term: [row.slope, row.ci, row.counted, row.agreement] for row in slopes},
            "awaits_ms": awaits,
        } | outlook(rows, awaits, waits.threads)


@cache
def explained(source: Path) -> tuple[Report, dict[str, StepView]]:
    """Return a source's report and views: each of its goals is forecast from them."""
    return volbench.open(source).report, views_of(source)


def views_of(run: Path) -> dict[str, StepView]:
    """Return the first cell's view of each step of a run."""
    explained = explain_run(load_run(RunDirectory.open(run)))
    return {step: next(iter(cells.values())) for (_, step), cells in explained.views.items()}


def waited_for(waits: CellSamples) -> set[str]:
    """Return the terms that a load waits for, by the server's count or for all that it knows."""
    parts = {"redo_sync", "binlog_sync"} if "log_sync" in waits.awaits_ms else set()
    counted = waits.counted
    return {
        term for term in waits.awaits_ms if term not in parts and (term not in counted or counted[term].high > 0)
    }


def awaits_ms(waits: CellSamples, terms: Iterable[str], here: Latencies, there: Latencies) -> dict[str, float]:
    """Return by term the await on another volume, as `explain --what-if` has it.

    Args:
        waits: of the load on the source, with each term.
        terms: that are wanted.
        here, there: what both volumes are set to.
    """
    base_ms = mean_awaits_ms([waits], terms, is_base=True)
    return awaits_on(other_volume(there.spec), base_ms, other_volume(here.spec))


def outlook(rows: list[ResponseRow], awaits: Mapping[str, float], threads: int) -> dict[str, Any]:
    """Return the predicted latency, rate and p50, as `volbench explain --await-ms` prints them."""
    by_statistic: dict[str, Predicted] = {one.statistic: one for one in predicted(rows, awaits)}
    mean, p50 = by_statistic.get("mean"), by_statistic.get("p50")
    if mean is None:
        return {"reason": "a slope leaves less than no latency"}
    low_ms, high_ms = mean.interval_ms
    return {
        "tps": 1000 * threads / mean.latency_ms,
        "tps_interval": [1000 * threads / high_ms, 1000 * threads / low_ms],
        "p50_ms": None if p50 is None else p50.latency_ms,
        "p50_interval": None if p50 is None else list(p50.interval_ms),
        "is_beyond": mean.is_beyond,
    }


def pairs(out: Path, goal: Goal, measured: Path) -> Iterator[dict[str, Any]]:
    """Yield a line for each load: its forecast, and what was measured afterwards.

    Raise ValueError where the run began before its forecast was written.
    """
    report: Report = volbench.open(measured).report
    views = views_of(measured)
    load_average = json.loads((measured.parent / "load.json").read_text())["loadavg"]
    for forecast in (line for line in lines_of(out / FORECASTS) if line["goal"] == goal.name):
        if str(report.started_at) <= forecast["at"]:
            raise ValueError(f"{measured} began before its forecast of {forecast['at']}")
        cell = next((cell for cell in report.cells if cell.step == forecast["load"]), None)
        waits = views[forecast["load"]].waits if forecast["load"] in views else None
        if cell is None:
            yield {"goal": goal.name, "load": forecast["load"], "forecast": forecast, "measured": None}
            continue
        figures = {name: cell.metrics[name].value for name in ("tps", "latency_ms_p50") if name in cell.metrics}
        yield {
            "goal": goal.name,
            "load": forecast["load"],
            "forecast": forecast,
            "measured": {
                "started_at": str(report.started_at),
                "tps": figures.get("tps"),
                "p50_ms": figures.get("latency_ms_p50"),
                "awaits_ms": {} if waits is None else means_of(waits),
                "valid": cell.valid,
                "invalid_reasons": list(cell.invalid_reasons),
                "loadavg": load_average,
            },
        }


def pairs_again(
    out: Path, lines: Sequence[Mapping[str, Any]], *, with_measured: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield each pair with the forecast that today's code makes from its source.

    Args:
        out: directory of the runs.
        lines: pairs that were measured.
        with_measured: forecast with the waiting times that the goal had, so that only the slopes are scored.
    """
    for goal in dict.fromkeys(line["goal"] for line in lines):
        of_goal = {line["load"]: line for line in lines if line["goal"] == goal}
        us = {name: next(iter(of_goal.values()))["forecast"][name] for name in ("source_us", "goal_us")}
        awaits = {load: line["measured"]["awaits_ms"] for load, line in of_goal.items() if line["measured"]}
        source = complete_run(out / f"source-{goal.split('-')[0]}")
        if source is None:
            raise ValueError(f"{goal}: its source has no complete run")
        here, there = Latencies(**us["source_us"]), Latencies(**us["goal_us"])
        for forecast in forecasts(source, here, there, awaits if with_measured else None):
            if forecast["load"] in of_goal:
                yield {**of_goal[forecast["load"]], "forecast": us | forecast}


def means_of(waits: CellSamples) -> dict[str, float]:
    """Return each await's mean over the transactions."""
    means = {}
    for term, values in with_one_log(waits).awaits_ms.items():
        known = np.isfinite(values) & (waits.finished > 0)
        if known.any():
            means[term] = float(np.average(values[known], weights=waits.finished[known]))
    return means


def now() -> str:
    """Return the time, as reports have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file; none where there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append(path: Path, lines: list[dict[str, Any]]) -> None:
    """Add lines to a file, and wait until they are on the disk."""
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())


if __name__ == "__main__":
    sys.exit(main())
