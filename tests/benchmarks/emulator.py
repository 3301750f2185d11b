"""Figures of the emulator: caps, latency, overhead, CPU and memory, printed beside what is aimed at.

    python tests/benchmarks/emulator.py [--dir /var/tmp] [--seconds 8] [--io-uring] [--json FILE]

Needs root, FUSE, loop devices, fio and the daemon. Takes about four minutes; every figure says how busy the machine
was, since on a busy one completions are late and the fidelity says so. With --json a table is written beside the
file, too; results/examples/emulator/ holds those of one machine, with and without --io-uring.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from emulated_volumes import can_have_requests_over_io_uring, requests_over_io_uring

from volbench.core.profile.resolve import ResolvedVolume, resolve
from volbench.machine.host.host import memory_bytes
from volbench.machine.volume.emulated.attachments import attachments, process_start_ticks
from volbench.machine.volume.emulated.commands import run
from volbench.machine.volume.emulated.volume import EmulatedVolume
from volbench.machine.volume.facts.discovery import discover

OVER_URING = "bench-uring"
TITLES = {"bench": "zero delay", OVER_URING: "zero delay over io_uring"}
SIZE_GIB = 1
FILE_MIB = 900
TURNS = 5
DEPTHS = (1, 32, 128)
ASKED_IOPS = {("bench", 32): 35_000, (OVER_URING, 128): 90_000}
IO2_IOPS = 64_000
"""The most of an io2 volume without Block Express. Source: Amazon EBS User Guide, Provisioned IOPS SSD volumes."""
QUANTILE_99 = 2.3263
HIGHEST_PRIORITY = -20  # the volume is judged, not how long its reader waits for a processor on a busy machine
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured figure: `aim` says what it should be, `met` whether it is."""

    name: str
    measured: float
    unit: str
    aim: str
    met: bool | None
    load: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fio:
    """What one run of fio saw."""

    iops: float
    bytes_per_s: float
    p50_us: float
    p99_us: float
    ios: int


def fio(file: str, *, seconds: float, depth: int, size: str = "4k", kind: str = "randread") -> Fio:
    argv = [
        "fio",
        "--name=figure",
        f"--filename={file}",
        "--direct=1",
        "--ioengine=libaio",
        f"--rw={kind}",
        f"--bs={size}",
        f"--iodepth={depth}",
        f"--runtime={seconds * 1000:.0f}ms",
        "--time_based",
        "--output-format=json",
        "--norandommap",
        "--percentile_list=50:99",
        f"--nice={HIGHEST_PRIORITY}",
    ]
    done = subprocess.run(argv, capture_output=True, check=False, timeout=seconds + 60)
    if done.returncode != 0:
        sys.exit(f"{' '.join(argv)}: {done.stderr.decode()}{done.stdout.decode()[:500]}")
    job = json.loads(done.stdout)["jobs"][0]["write" if "write" in kind else "read"]
    percentiles = job["clat_ns"]["percentile"]
    return Fio(
        iops=job["iops"],
        bytes_per_s=job["bw_bytes"],
        p50_us=percentiles["50.000000"] / 1e3,
        p99_us=percentiles["99.000000"] / 1e3,
        ios=job["total_ios"],
    )


def with_model(resolved: ResolvedVolume, **changes: object) -> ResolvedVolume:
    return dataclasses.replace(resolved, model={**resolved.model, **changes})


def limit(unit: str, rate: float) -> dict[str, Any]:
    resource = "iops" if unit == "io" else "throughput"
    burst = rate / 100
    return {
        "name": unit,
        "scope": "volume",
        "resource": resource,
        "unit": unit,
        "rate_per_s": rate,
        "burst": burst,
    }


def latency(median_us: float, p99_us: float) -> dict[str, Any]:
    sigma = math.log(p99_us / median_us) / QUANTILE_99
    return {"read": {"parts": [{"median_us": median_us, "sigma": sigma}]}}


class Bench:
    """Volumes on one directory, and the figures measured on them."""

    def __init__(self, root: Path, seconds: float, *, io_uring: bool) -> None:
        self.root = root
        self.io_uring = io_uring
        self.seconds = seconds
        self.figures: list[Figure] = []
        self.base = resolve("ebs-gp3", {"size": f"{SIZE_GIB}GiB"})
        self.names = ["bench", *([OVER_URING] if can_have_requests_over_io_uring() else [])]

    def note(self, name: str, measured: float, unit: str, aim: str, met: bool | None) -> None:
        figure = Figure(name=name, measured=measured, unit=unit, aim=aim, met=met, load=os.getloadavg()[0])
        self.figures.append(figure)
        mark = {True: "met", False: "MISSED", None: ""}[met]
        sys.stdout.write(f"{name:52} {measured:12.2f} {unit:8} {aim:28} {mark:7} load {figure.load:.1f}\n")
        sys.stdout.flush()

    @contextmanager
    def volume(self, name: str = "bench", **changes: object) -> Iterator[tuple[EmulatedVolume, str]]:
        """A volume whose image is written, not sparse, with the changed model; and its loop device."""
        subject = EmulatedVolume(with_model(self.base, **changes), self.root, name=name)
        with subject:
            yield subject, f"/dev/{attachments(subject.directory).loops[0]}"

    def fill(self) -> None:
        """Write most of each image, through a file of its file system, so that reads reach the disk."""
        for name in self.names:
            with self.volume(name, limits=[], latency={}) as (subject, _):
                run(
                    [
                        "dd",
                        "if=/dev/urandom",
                        f"of={subject.data}/file",
                        "bs=1M",
                        f"count={FILE_MIB}",
                        "oflag=direct",
                    ],
                    timeout_s=120,
                )

    def overhead(self) -> None:
        """Plain loop and emulator on like images in turns: a busy machine changes from one second to the next."""
        observed: dict[tuple[str, int], list[Fio]] = {}
        cpu = dict.fromkeys(self.names, 0.0)
        with ExitStack() as stack:
            pids, devices = {}, {}
            for name in self.names:
                with requests_over_io_uring() if name == OVER_URING else nullcontext():
                    entered = self.volume(name, limits=[], latency={}, overhead_us=0)
                    subject, devices[name] = stack.enter_context(entered)
                    if name == OVER_URING and subject.state()["transport"] != "io_uring":
                        sys.exit("the volume's requests do not come over io_uring")
                pids[name] = attachments(subject.directory).daemons[0]
            devices["plain"] = stack.enter_context(self.plain_loop())
            for _ in range(TURNS):
                for depth in DEPTHS:
                    for name, device in devices.items():
                        began = 0.0 if name == "plain" else cpu_s(pids[name])
                        observed.setdefault((name, depth), []).append(
                            fio(device, seconds=self.seconds / 3, depth=depth)
                        )
                        if name != "plain" and depth == 32:
                            cpu[name] += cpu_s(pids[name]) - began
        for name, title in (("plain", "plain loop"), *((name, TITLES[name]) for name in self.names)):
            self.note(
                f"{title}, queue depth 1: p50", median(item.p50_us for item in observed[name, 1]), "us", "", None
            )
            for depth in DEPTHS[1:]:
                most = median(many.iops for many in observed[name, depth])
                requests = ASKED_IOPS.get((name, depth))
                self.note(
                    f"{title}, queue depth {depth}",
                    most,
                    "IOPS",
                    f">= {requests}" if requests else "",
                    most >= requests if requests else None,
                )
        for name in self.names:
            pairs = list(zip(observed[name, 1], observed["plain", 1], strict=True))
            added = median(own.p50_us - plain.p50_us for own, plain in pairs)
            limit_us = 20 if name == OVER_URING else 30
            self.note(f"{TITLES[name]}, added at queue depth 1", added, "us", f"<= {limit_us}", added <= limit_us)
            each = cpu[name] / sum(many.ios for many in observed[name, 32]) * 1e6
            most_us = 9 if name == OVER_URING else None
            self.note(
                f"{TITLES[name]}, queue depth 32: CPU of an operation",
                each,
                "us",
                f"<= {most_us}" if most_us else "",
                each <= most_us if most_us else None,
            )
            shares = [
                own.iops / plain.iops for own, plain in zip(observed[name, 32], observed["plain", 32], strict=True)
            ]
            self.note(
                f"{TITLES[name]}, queue depth 32: share of the plain loop's", 100 * median(shares), "%", "", None
            )

    @contextmanager
    def plain_loop(self) -> Iterator[str]:
        """A loop device on the image itself, beside the volume's; only to be read."""
        image = self.root / "bench" / "backing" / "disk.img"
        done = run(["losetup", "--direct-io=on", "--read-only", "--show", "--find", str(image)])
        if done.code != 0:
            sys.exit(f"losetup: {done.output}")
        try:
            yield done.output
        finally:
            run(["losetup", "-d", done.output])

    def caps(self) -> None:
        for rate in (100, 1000, 3000, 16_000, *((IO2_IOPS,) if self.io_uring else ())):
            with self.volume(limits=[limit("io", rate)], latency={}) as (subject, device):
                pid = attachments(subject.directory).daemons[0]
                cpu, began = cpu_s(pid), time.monotonic()
                observed = fio(device, seconds=self.seconds, depth=64 if rate == IO2_IOPS else 32)
                share = (cpu_s(pid) - cpu) / (time.monotonic() - began)
                late = subject.counters()["fidelity"]["late_share"]
            error = (observed.iops / rate - 1) * 100
            self.note(f"cap {rate} IOPS: error", error, "%", "within 1", abs(error) <= 1)
            self.note(f"cap {rate} IOPS: operations completed late", late * 100, "%", "", None)
            if 3000 <= rate < IO2_IOPS:
                most = 0.2 if rate == 3000 else 0.6
                self.note(f"cap {rate} IOPS: daemon's CPU", share, "cores", f"<= {most}", share <= most)
        for mib in (50, 125, 250):
            with self.volume(limits=[limit("byte", mib * 2**20)], latency={}) as (_, device):
                observed = fio(device, seconds=self.seconds, depth=16, size="128k")
            error = (observed.bytes_per_s / mib / 2**20 - 1) * 100
            self.note(f"cap {mib} MiB/s: error", error, "%", "within 1", abs(error) <= 1)

    def latencies(self) -> None:
        """Medians of several turns: what else the machine does in one second must not decide."""
        for median_us, p99_us in ((500.0, 1000.0), (1000.0, 2000.0), (5000.0, 10_000.0)):
            name = f"latency {median_us:g} us"
            with self.volume(limits=[], latency=latency(median_us, p99_us)) as (subject, device):
                turns = [fio(device, seconds=self.seconds / 3, depth=1) for _ in range(TURNS)]
                counters = subject.counters()
            p50 = median(turn.p50_us for turn in turns)
            most = median_us * 0.05 + 60
            self.note(f"{name}: p50", p50, "us", "within 5 % + 60 us", abs(p50 - median_us) <= most)
            ratio = (median(turn.p99_us for turn in turns) / p99_us - 1) * 100
            self.note(f"{name}: p99 off the model's", ratio, "%", "within 15", abs(ratio) <= 15)
            own = (quantile(counters["operations"]["read"]["histogram"], 0.99) / p99_us - 1) * 100
            self.note(f"{name}: p99 by the daemon's clock off the model's", own, "%", "", None)
            self.note(f"{name}: late", counters["fidelity"]["late_share"] * 100, "%", "", None)

    def queueing(self) -> None:
        with self.volume(limits=[limit("io", 3000)], latency=latency(700.0, 1500.0)) as (_, device):
            observed = fio(device, seconds=self.seconds, depth=32)
        off = (observed.p50_us / (32 / 3000 * 1e6) - 1) * 100
        self.note("gp3 at queue depth 32: p50 against depth / IOPS", off, "%", "within 5", abs(off) <= 5)

    def burst(self) -> None:
        """The gp2 table through fio: the end of the burst follows from how many I/Os were let through."""
        for gib, baseline in ((20, 100), (50, 150), (100, 300), (334, 1002)):
            scale = 300
            limits = resolve("ebs-gp2", {"size": f"{gib}GiB"}).model["limits"]
            expected = 5.4e6 / (3000 - baseline)
            seconds = expected / scale + 4
            with self.volume(limits=limits, latency={}, time_scale=scale) as (subject, device):
                observed = fio(device, seconds=seconds, depth=32)
                left = subject.counters()["cloudwatch"]["BurstBalance"]
            burst_s = (observed.ios - baseline * seconds) / (3000 - baseline) * scale
            error = (burst_s / expected - 1) * 100
            self.note(f"gp2 {gib} GiB: burst of {expected:.0f} s, error", error, "%", "within 2", abs(error) <= 2)
            self.note(f"gp2 {gib} GiB: balance at the end", left, "%", "0", left < 1)

    def counters(self) -> None:
        with self.volume() as (subject, device):
            stat = Path("/sys/block", Path(device).name, "stat")
            before, counted = stat.read_text().split(), subject.counters()["nvme"]
            fio(f"{subject.data}/file", seconds=self.seconds, depth=8, size="16k", kind="randwrite")
            after, now = stat.read_text().split(), subject.counters()["nvme"]
            memory = resident_mib(attachments(subject.directory).daemons[0])
        device_bytes = (int(after[6]) - int(before[6])) * 512
        off = ((now["total_write_bytes"] - counted["total_write_bytes"]) / device_bytes - 1) * 100
        self.note("bytes written: counters against diskstats", off, "%", "within 1", abs(off) <= 1)
        ios = int(after[4]) - int(before[4])
        off = ((now["total_write_ops"] - counted["total_write_ops"]) / ios - 1) * 100
        self.note("writes: counters against diskstats", off, "%", "", None)
        self.note("daemon's resident memory", memory, "MiB", "<= 64", memory <= 64)


def quantile(bins: Sequence[Mapping[str, float]], share: float) -> float:
    """Of a histogram of the daemon's; within a bin, logarithms are taken to be spread evenly."""
    left = share * sum(piece["count"] for piece in bins)
    for section in bins:
        if left <= section["count"]:
            return float(
                section["lower_us"] * (section["upper_us"] / section["lower_us"]) ** (left / section["count"])
            )
        left -= section["count"]
    raise ValueError("an empty histogram")


def cpu_s(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def resident_mib(pid: int) -> float:
    assert process_start_ticks(pid) is not None
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def machine(directory: Path) -> Mapping[str, object]:
    result = discover(directory)
    model = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "kernel": platform.release(),
        "cpu": model[0].partition(":")[2].strip() if model else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory_bytes() / 2**30, 1),
        "disk": f"{result.filesystem} on {result.disk or result.mount_source}",
        "fio": run(["fio", "--version"]).output,
    }


def table(facts: Mapping[str, object], figures: Sequence[Figure]) -> str:
    """What was asked and measured, as Markdown."""
    verdicts = {True: "met", False: "missed", None: ""}
    lines = [
        "# Figures of the emulated volumes",
        "",
        "By `tests/benchmarks/emulator.py`. Where nothing is asked, the figure explains another. `load` is the",
        "machine's load average (1 min) when the figure was taken, the benchmark's own load included.",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        "",
        "| figure | asked | measured | | load |",
        "|---|---|---|---|---|",
    ]
    for figure in figures:
        requests = f"{figure.aim} {figure.unit}" if figure.aim and figure.unit not in figure.aim else figure.aim
        measured = (
            f"{figure.measured:,.2f} {figure.unit}" if figure.unit != "IOPS" else f"{figure.measured:,.0f} IOPS"
        )
        lines.append(f"| {figure.name} | {requests} | {measured} | {verdicts[figure.met]} | {figure.load:.1f} |")
    return "\n".join([*lines, ""])


def main() -> int:
    arguments = argparse.ArgumentParser(description="Figures of the emulator.")
    arguments.add_argument("--dir", type=Path, default=Path("/var/tmp"))
    arguments.add_argument("--seconds", type=float, default=8.0, help="of each fio run")
    arguments.add_argument("--io-uring", action="store_true", help="limits and latencies of a volume over io_uring")
    arguments.add_argument("--json", type=Path, help="write the figures there, and a table beside it")
    args = arguments.parse_args()
    facts = {**machine(args.dir), "limits and latencies by": "io_uring" if args.io_uring else "/dev/fuse"}
    sys.stdout.write("".join(f"{name}: {value}\n" for name, value in facts.items()))
    root = Path(tempfile.mkdtemp(prefix="volbench-bench-", dir=args.dir))
    bench = Bench(root, args.seconds, io_uring=args.io_uring)
    transport = requests_over_io_uring() if args.io_uring else nullcontext()
    try:
        bench.fill()
        bench.overhead()
        with transport:
            for piece in (bench.caps, bench.latencies, bench.queueing, bench.burst, bench.counters):
                piece()
    finally:
        for name in bench.names:
            EmulatedVolume(bench.base, root, name=name).stop()
        shutil.rmtree(root)
    if args.json:
        figures = [dataclasses.asdict(figure) for figure in bench.figures]
        args.json.write_text(json.dumps({"machine": facts, "figures": figures}, indent=1) + "\n")
        args.json.with_suffix(".md").write_text(table(facts, bench.figures))
    missed = [figure.name for figure in bench.figures if figure.met is False]
    sys.stdout.write(f"missed: {', '.join(missed) or 'nothing'}\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
