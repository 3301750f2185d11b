"""fio: one job at a time, its JSON and its IOPS log turned into numbers."""

from __future__ import annotations

import json
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from volbench.errors import StepFailed
from volbench.volume.teardown import run

LOG_INTERVAL_S = 0.5
_SETTLE_S_MAX = 60.0
"""How much longer than its runtime a job may take: a slow volume still has to finish what is under way."""

_SERIES_MIN = 3

Pattern = Literal["read", "write", "randread", "randwrite"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One load on one file.

    Args:
        depth: operations under way at a time.
        direct: with O_DIRECT; else through the page cache.
        sync: fdatasync after each write.
        once: end when the extent has been written once, instead of going on for runtime_s.
    """

    file: Path
    pattern: Pattern
    block_bytes: int
    depth: int
    extent_bytes: int
    runtime_s: float
    direct: bool
    sync: bool = False
    once: bool = False


@dataclass(frozen=True, kw_only=True)
class JobResult:
    """What a job did.

    Args:
        latency_ms, latency_ms_p99: completion latency; median and 99th percentile.
        sync_ms, sync_ms_p99: of fdatasync, where the job had any.
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
        """Median over the series: what the volume gives when neither it nor this machine stalls; else the mean."""
        rates = [rate for _, rate in self.iops_series]
        return statistics.median(rates) if len(rates) >= _SERIES_MIN else self.iops


def run_job(fio: str, job: Job) -> JobResult:
    """Run a job. Raises StepFailed with fio's own words when it fails, or does not end in time."""
    with tempfile.TemporaryDirectory(prefix="volbench-fio-") as scratch:
        answer = Path(scratch) / "fio.json"
        log = Path(scratch) / "log"
        done = run(
            [fio, *_arguments(job), f"--output={answer}", f"--write_iops_log={log}"],
            timeout_s=job.runtime_s + _SETTLE_S_MAX,
        )
        if done.code != 0:
            raise StepFailed(
                "fio failed"
                if done.code is not None
                else "fio did not end in time: the volume hangs, or is very slow",
                where=f"probe, {job.pattern} of {job.block_bytes} bytes",
                evidence=done.output or _text(answer)[-1000:],
                next_step="see dmesg for errors of the device",
            )
        return parse_result(_text(answer), job.pattern, log=_text(Path(scratch) / "log_iops.1.log"))


def parse_result(text: str, pattern: Pattern, *, log: str = "") -> JobResult:
    """The result of a job from fio's JSON (versions 3.x) and its IOPS log. Raises StepFailed."""
    try:
        # fio prints warnings before the JSON.
        (job,) = json.loads(text[text.index("{") :])["jobs"]
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
    except (ValueError, KeyError, IndexError) as error:
        raise StepFailed(
            "fio's answer cannot be used", where=f"probe, {pattern}", evidence=f"{type(error).__name__}: {error}"
        ) from error


def parse_iops_log(text: str) -> tuple[tuple[float, float], ...]:
    """Time in seconds and IOPS of each line of an averaged IOPS log: `milliseconds, value, direction, ...`."""
    rows = (line.split(",") for line in text.splitlines() if line.count(",") >= 2)
    return tuple((float(row[0]) / 1e3, float(row[1])) for row in rows)


def _percentiles(latency: dict[str, Any]) -> tuple[float, float]:
    found = latency["percentile"]
    return found["50.000000"] / 1e6, found["99.000000"] / 1e6


def _arguments(job: Job) -> list[str]:
    # Without O_DIRECT libaio waits in each submission, so depth needs threads.
    parallel = ["--ioengine=libaio", f"--iodepth={job.depth}"] if job.direct else [f"--numjobs={job.depth}"]
    arguments = [
        "--name=probe",
        f"--filename={job.file}",
        f"--rw={job.pattern}",
        f"--bs={job.block_bytes}",
        f"--size={job.extent_bytes}",
        f"--runtime={max(1, round(job.runtime_s * 1e3))}ms",
        f"--direct={int(job.direct)}",
        "--ioengine=psync",
        *(parallel if job.depth > 1 else []),
        "--thread",
        "--group_reporting",
        "--fallocate=none",
        "--norandommap",
        "--randrepeat=0",
        "--percentile_list=50:99",
        "--output-format=json",
        "--eta=never",
        f"--log_avg_msec={LOG_INTERVAL_S * 1e3:.0f}",
    ]
    if job.sync:
        arguments.append("--fdatasync=1")
    if not job.once:
        arguments.append("--time_based")
    return arguments


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
