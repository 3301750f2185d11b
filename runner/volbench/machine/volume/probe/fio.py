"""fio: one load at a time, its JSON and its IOPS log turned into numbers."""

from __future__ import annotations

import statistics
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from volbench.core.base.parse import parse_finite, parse_json
from volbench.errors import StepFailed
from volbench.machine.volume.emulated.commands import run

LOG_INTERVAL_S = 0.5
SETTLE_S_MAX = 60.0
"""How much longer than its runtime a job may take: a slow volume has to finish operations in flight."""

_SERIES_MIN = 3

Pattern = Literal["read", "write", "randread", "randwrite", "rw", "randrw"]


@dataclass(frozen=True, kw_only=True)
class FioJob:
    """One load on one file.

    Args:
        depth: operations in flight, of each of `jobs`.
        direct: with O_DIRECT; else through the page cache.
        sync_every: fdatasync after so many writes; 0: never.
        once: end when the extent has been written once, instead of after runtime_s.
        ramp_s: time before runtime_s that is not counted.
        read_share: share of reads in the mixed patterns.
    """

    file: Path
    pattern: Pattern
    block_bytes: int
    depth: int
    extent_bytes: int
    runtime_s: float
    direct: bool
    sync_every: int = 0
    once: bool = False
    jobs: int = 1
    ramp_s: float = 0.0
    read_share: float = 0.5


@dataclass(frozen=True, kw_only=True)
class JobResult:
    """The figures of a job.

    Args:
        latency_ms, latency_ms_p99: completion latency; median and 99th percentile.
        sync_ms, sync_ms_p99: of fdatasync, if the job had any.
        iops_series: IOPS of each LOG_INTERVAL_S, with the time of its end in seconds.
    """

    operations: int
    moved_bytes: int
    iops: float
    latency_ms: float
    latency_ms_p99: float
    sync_ms: float | None
    sync_ms_p99: float | None
    iops_series: tuple[tuple[float, float], ...]

    @property
    def iops_typical(self) -> float:
        """Median over the series: the rate without stalls; the mean of a short series."""
        rates = [rate for _, rate in self.iops_series]
        return statistics.median(rates) if len(rates) >= _SERIES_MIN else self.iops


@dataclass(frozen=True, kw_only=True)
class FioResult:
    """The figures of a load, reads and writes together.

    Args:
        latency_ms: completion latency of the middle of each of fio's bins, ascending; `count` operations in each.
    """

    operations: int
    iops: float
    moved_bytes_per_s: float
    latency_ms: tuple[float, ...]
    count: tuple[int, ...]
    latency_ms_mean: float
    latency_ms_max: float

    def quantile_ms(self, level: float) -> float:
        """Return the latency that a share `level` of operations does not exceed, by bins less than 2 % wide."""
        rank = level * sum(self.count)
        cumulative = 0
        for latency_ms, count in zip(self.latency_ms, self.count, strict=True):
            cumulative += count
            if cumulative >= rank:
                return latency_ms
        return self.latency_ms[-1]


def run_job(fio: str, job: FioJob) -> JobResult:
    """Run a job. Raise StepFailed with fio's output if it fails or does not end in time."""
    with tempfile.TemporaryDirectory(prefix="volbench-fio-") as scratch:
        answer = Path(scratch) / "fio.json"
        log = Path(scratch) / "log"
        done = run(
            [fio, *fio_arguments(job), f"--output={answer}", f"--write_iops_log={log}"],
            timeout_s=job.runtime_s + SETTLE_S_MAX,
        )
        if done.code != 0:
            raise StepFailed(
                "fio failed"
                if done.code is not None
                else "fio did not end in time: the volume hangs or is very slow",
                where=f"probe, {job.pattern} of {job.block_bytes} bytes",
                evidence=done.output or _text(answer)[-1000:],
                next_step="look for errors of the device in dmesg",
            )
        return parse_result(_text(answer), job.pattern, log=_text(Path(scratch) / "log_iops.1.log"))


def parse_result(text: str, pattern: Pattern, *, log: str = "") -> JobResult:
    """Return the result of a job from fio's JSON (versions 3.x) and its IOPS log. Raise StepFailed."""
    try:
        job = _job_of(text)
        side = job["read" if pattern in ("read", "randread") else "write"]
        if job["error"] or not side["total_ios"]:
            raise ValueError(f"error {job['error']}, {side['total_ios']} operations")
        latency = _percentiles(side["clat_ns"])
        synced = job.get("sync", {}).get("lat_ns", {})
        sync = _percentiles(synced) if "percentile" in synced else (None, None)
        return JobResult(
            operations=side["total_ios"],
            moved_bytes=side["io_bytes"],
            iops=float(side["iops"]),
            latency_ms=latency[0],
            latency_ms_p99=latency[1],
            sync_ms=sync[0],
            sync_ms_p99=sync[1],
            iops_series=parse_iops_log(log),
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        raise StepFailed(
            "fio's answer cannot be used", where=f"probe, {pattern}", evidence=f"{type(error).__name__}: {error}"
        ) from error


def parse_point(text: str, *, where: str) -> FioResult:
    """Return the result of a load from fio's JSON with bins (`json+`, versions 3.x). Raise StepFailed."""
    try:
        job = _job_of(text)
        sides = [job[name] for name in ("read", "write") if job[name]["total_ios"]]
        if job["error"] or not sides:
            raise ValueError(f"error {job['error']}, {sum(side['total_ios'] for side in sides)} operations")
        bins: Counter[int] = Counter()
        for side in sides:
            bins.update({int(ns): count for ns, count in side["clat_ns"]["bins"].items()})
        latencies = sorted(bins)
        latency_stats = [side["clat_ns"] for side in sides]
        events = sum(latency["N"] for latency in latency_stats)
        return FioResult(
            operations=sum(side["total_ios"] for side in sides),
            iops=sum(float(side["iops"]) for side in sides),
            moved_bytes_per_s=sum(float(side["bw_bytes"]) for side in sides),
            latency_ms=tuple(ns / 1e6 for ns in latencies),
            count=tuple(bins[ns] for ns in latencies),
            latency_ms_mean=sum(latency["mean"] * latency["N"] for latency in latency_stats) / events / 1e6,
            latency_ms_max=max(latency["max"] for latency in latency_stats) / 1e6,
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, ArithmeticError) as error:
        raise StepFailed(
            "fio's answer cannot be used", where=where, evidence=f"{type(error).__name__}: {error}"
        ) from error


def _job_of(text: str) -> dict[str, Any]:
    """Return the job of fio's JSON, before which fio prints its warnings."""
    (job,) = parse_json(text[text.index("{") :])["jobs"]
    return dict(job)


def parse_iops_log(text: str) -> tuple[tuple[float, float], ...]:
    """Return time in s and IOPS of each line of an averaged IOPS log: `milliseconds, value, direction, ...`."""
    rows = (line.split(",") for line in text.splitlines() if line.count(",") >= 2)
    try:
        return tuple((parse_finite(row[0]) / 1e3, parse_finite(row[1])) for row in rows)
    except ValueError as error:
        raise StepFailed("fio's IOPS log cannot be used", where="probe", evidence=str(error)) from error


def _percentiles(latency: dict[str, Any]) -> tuple[float, float]:
    percentiles = latency["percentile"]
    return percentiles["50.000000"] / 1e6, percentiles["99.000000"] / 1e6


def fio_arguments(job: FioJob) -> list[str]:
    """Return fio's options for a load, without those of its output."""
    # Without O_DIRECT libaio waits in each submission, so depth needs threads.
    threads = job.jobs if job.direct else job.depth * job.jobs
    queue = ["--ioengine=libaio", f"--iodepth={job.depth}"] if job.direct and job.depth > 1 else []
    arguments = [
        "--name=probe",
        f"--filename={job.file}",
        f"--rw={job.pattern}",
        f"--bs={job.block_bytes}",
        *_extent(job, threads),
        f"--runtime={max(1, round(job.runtime_s * 1e3))}ms",
        f"--direct={int(job.direct)}",
        "--ioengine=psync",
        *queue,
        *([f"--numjobs={threads}"] if threads > 1 else []),
        "--thread",
        "--group_reporting",
        "--fallocate=none",
        "--norandommap",
        "--randrepeat=0",
        "--percentile_list=50:99",
        "--output-format=json+",
        "--eta=never",
        f"--log_avg_msec={LOG_INTERVAL_S * 1e3:.0f}",
    ]
    if job.sync_every:
        arguments.append(f"--fdatasync={job.sync_every}")
    if job.ramp_s:
        arguments.append(f"--ramp_time={round(job.ramp_s * 1e3)}ms")
    if job.pattern in ("rw", "randrw"):
        arguments.append(f"--rwmixread={round(100 * job.read_share)}")
    if not job.once:
        arguments.append("--time_based")
    return arguments


def _extent(job: FioJob, threads: int) -> list[str]:
    """Return the options of the load's extent: each sequential job has a part of its own."""
    if threads == 1 or job.pattern not in ("read", "write", "rw"):
        return [f"--size={job.extent_bytes}"]
    part_bytes = job.extent_bytes // threads // job.block_bytes * job.block_bytes
    return [f"--size={part_bytes}", f"--offset_increment={part_bytes}"]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
