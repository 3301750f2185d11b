"""Run directories as volbench writes them, from stated differences instead of a server: for tests and benchmarks.

Latencies are lognormal around a level that each cell shifts a little (the run-to-run offset of real cells).
Storage values follow from the throughput; a stall stops everything for some seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from synthetic_metrics import CRASH_DETAILS, delays, other_metrics

from volbench.core.records.base import Scalar
from volbench.core.records.cell import (
    CellResult,
    CellSpec,
    Failure,
    Phase,
    SamplingSpec,
    ServerSpec,
    SourceQuality,
    StepResult,
    ValidityLimits,
)
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.facts import HostFacts, ServerFacts, VolumeFacts
from volbench.core.records.metrics import MetricValue, metric
from volbench.core.records.run import ComparisonSpec, PlannedCell, ResolvedSuite, RunRecord, VolumeSpec
from volbench.core.records.series import HistogramRow, SeriesRow
from volbench.core.records.steps import Step
from volbench.core.records.steps.cold_read import ColdReadStep
from volbench.core.records.steps.crash import CrashStep
from volbench.core.records.steps.dump import DumpStep
from volbench.core.records.steps.oltp import OltpStep
from volbench.core.records.steps.replay import ReplayStep
from volbench.core.records.steps.restore import RestoreStep
from volbench.results.store.files import write_record
from volbench.results.store.histograms import HistogramWriter
from volbench.results.store.run_directory import HISTOGRAMS_FILE, RESULT_FILE, SERIES_FILE, RunDirectory
from volbench.results.store.series import SeriesWriter

STARTED = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
EDGE_MULT, EDGE_DEDUCT = 55.5, math.log(0.001)
HOST = HostFacts(
    hostname="db-lab-1",
    kernel="6.1.0-28-amd64",
    cpu_model="Xeon 8259CL",
    cpus=8,
    memory_bytes=32 << 30,
    cgroup_version=2,
    tools={"sysbench": "1.0.20"},
)
OLTP = OltpStep(name="read-write", threads=(8,), warmup_s=10, duration_s=60)
STEPS: tuple[Step, ...] = (
    OLTP,
    DumpStep(name="dump"),
    RestoreStep(name="restore"),
    ColdReadStep(name="cold"),
)


@dataclass(frozen=True, kw_only=True)
class SyntheticVolume:
    """A volume: `speed` 2 is twice as fast as speed 1 in everything."""

    name: str
    speed: float = 1.0
    kind: str = "path"
    facts: Mapping[str, object] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    stall_s: tuple[float, float] | None = None
    notes: tuple[str, ...] = ("true-cold",)
    profile: str = ""
    """Whose limits it has, as a target option names it."""
    load_metrics: Mapping[str, float] = field(default_factory=dict)
    """What a load measured in every cell beside the client's figures."""

    def volume_facts(self) -> VolumeFacts:
        disk = {"b": "nvme2n1", "c": "nvme3n1"}.get(self.name, "nvme1n1")
        facts: dict[str, object] = {
            "path": f"/mnt/{self.name}/volbench",
            "filesystem": "ext4",
            "mount_point": f"/mnt/{self.name}",
            "mount_source": f"/dev/{self.name}1",
            "mount_options": ("rw", "relatime"),
            "device": f"{disk}p1",
            "disk": disk,
            "scheduler": "none",
            "read_ahead_kib": 128,
            "rotational": False,
            "size_bytes": 100 << 30,
            "free_bytes": 80 << 30,
        }
        return VolumeFacts.model_validate({**facts, **self.facts})


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """What the run shall look like. Cells are (volume, repeat); `disturbed` has the share that others delayed."""

    volumes: tuple[SyntheticVolume, ...]
    repeats: int = 5
    steps: tuple[Step, ...] = STEPS
    noise: float = 0.015
    suite: str = "synthetic"
    description: str = ""
    underpowered: bool = False
    seed: int = 7
    interval_s: float = 1.0
    extra_metrics: int = 0
    invalid: Mapping[tuple[str, int], str] = field(default_factory=dict)
    disturbed: Mapping[tuple[str, int], float] = field(default_factory=dict)
    failed: Mapping[tuple[str, int], Failure] = field(default_factory=dict)
    not_run: frozenset[tuple[str, int]] = frozenset()


def build_run(
    results: Path, expected: Synthetic, *, run_id: str = "20260302T093000Z-synthetic-0a1b2c"
) -> RunDirectory:
    """Write the run below `results`."""
    run = _run_record(expected, run_id)
    directory = RunDirectory.create(results, run)
    directory.journal.append("run_started")
    by_name = {volume.name: volume for volume in expected.volumes}
    start = STARTED
    for planned in run.cells:
        key = (planned.volume, planned.repeat)
        if key in expected.not_run:
            continue
        start += timedelta(
            seconds=_Cell(directory, run, expected, planned, by_name[planned.volume]).write(start) + 15
        )
        event = "cell_failed" if key in expected.failed else "cell_finished"
        directory.journal.append(event, cell_id=planned.cell_id, attempt=1)
    if not expected.not_run:
        directory.journal.append("run_finished")
    _date_journal(directory, start)
    return directory


def _date_journal(directory: RunDirectory, finished: datetime) -> None:
    """Events were written within milliseconds; spread them over the run's time."""
    path = directory.path / "journal.jsonl"
    events = directory.events()
    step = (finished - STARTED) / max(1, len(events) - 1)
    dated = [
        event.model_copy(update={"at": _iso(STARTED + step * number)}).model_dump_json(exclude_defaults=True)
        for number, event in enumerate(events)
    ]
    path.write_text("\n".join(dated) + "\n")


def _run_record(expected: Synthetic, run_id: str) -> RunRecord:
    random = np.random.default_rng(expected.seed)
    cells: list[Any] = []
    for repeat in range(1, expected.repeats + 1):
        for index in random.permutation(len(expected.volumes)):
            volume = expected.volumes[index]
            cells.append(
                PlannedCell(
                    cell_id=f"{len(cells) + 1:03d}-{volume.name}-r{repeat}",
                    volume=volume.name,
                    block=repeat - 1,
                    repeat=repeat,
                    seed=int(random.integers(1 << 31)),
                )
            )
    suite = ResolvedSuite(
        name=expected.suite,
        description=expected.description,
        underpowered=expected.underpowered,
        server=ServerSpec(version="8.4"),
        dataset=DatasetSpec(tables=4, rows=100_000),
        steps=expected.steps,
        repeats=expected.repeats,
        seed=expected.seed,
        sampling=SamplingSpec(interval_s=expected.interval_s),
        limits=ValidityLimits(),
        comparison=ComparisonSpec(),
    )
    specs = tuple(
        VolumeSpec(name=v.name, kind=v.kind, location=f"/mnt/{v.name}", text=f"{v.name}={v.kind}:/mnt/{v.name}")
        for v in expected.volumes
    )
    flags = [piece for spec in specs for piece in ("--volume", spec.text)]
    return RunRecord(
        run_id=run_id,
        started_at=_iso(STARTED),
        volbench_version="0.2.0",
        command=("volbench", "run", f"suites/{expected.suite}.yaml", *flags, "--target", "docker"),
        target="docker",
        target_options={f"{v.name}.profile": v.profile for v in expected.volumes if v.profile},
        suite=suite,
        suite_source=f"name: {expected.suite}\n",
        volumes=specs,
        cells=tuple(cells),
        host=HOST,
    )


class _Cell:
    """Writes one cell's files."""

    def __init__(
        self,
        directory: RunDirectory,
        run: RunRecord,
        expected: Synthetic,
        planned: PlannedCell,
        volume: SyntheticVolume,
    ) -> None:
        self.run, self.wanted, self.planned, self.volume = run, expected, planned, volume
        self.key = (planned.volume, planned.repeat)
        self.random = np.random.default_rng(planned.seed)
        self.speed = volume.speed * math.exp(self.random.normal(0, expected.noise))
        self.place = directory.write_cell(
            CellSpec(
                run_id=run.run_id,
                cell_id=planned.cell_id,
                suite=run.suite.name,
                volume=planned.volume,
                block=planned.block,
                repeat=planned.repeat,
                seed=planned.seed,
                server=run.suite.server,
                dataset=run.suite.dataset,
                steps=run.suite.steps,
            )
        )

    def write(self, start: datetime) -> float:
        """All files of the cell; returns its wall time, s."""
        phases = [Phase(name="seed", t0_s=0.0, t1_s=4.0), Phase(name="start", t0_s=4.0, t1_s=6.0)]
        steps: list[StepResult] = []
        t_s = 6.0
        series_path, histograms_path = self.place / SERIES_FILE, self.place / HISTOGRAMS_FILE
        with SeriesWriter(series_path) as series, HistogramWriter(histograms_path) as histograms:
            for step in self.wanted.steps:
                step_result, until = self._step(step, t_s, series, histograms, phases)
                steps.append(step_result)
                t_s = until + 2.0
        phases.append(Phase(name="stop", t0_s=t_s, t1_s=t_s + 3.0))
        failure = self.wanted.failed.get(self.key)
        result = CellResult(
            cell_id=self.planned.cell_id,
            attempt=1,
            status="failed" if failure else "done",
            failure=failure,
            zero_utc=_iso(start),
            zero_monotonic_ns=10**12,
            wall_s=t_s + 3.0,
            volume_facts=self.volume.volume_facts(),
            host=HOST,
            server=self._server(),
            phases=tuple(phases),
            steps=tuple(steps[:1] if failure else steps),
            sources=(
                SourceQuality(source="diskstats", available=True, ticks_due=int(t_s)),
                SourceQuality(source="ebs_nvme", available=False, reason="no NVMe device of EBS"),
            ),
        )
        write_record(self.place / RESULT_FILE, result)
        return result.wall_s

    def _server(self) -> ServerFacts:
        variables = {
            "innodb_flush_log_at_trx_commit": "1",
            "sync_binlog": "1",
            "innodb_doublewrite": "ON",
            "innodb_buffer_pool_size": str(128 << 20),
            "datadir": f"/mnt/{self.volume.name}/volbench/data",
        }
        return ServerFacts(flavor="mysql", version="8.4.7", variables={**variables, **self.volume.variables})

    def _step(
        self, step: Step, t0_s: float, series: SeriesWriter, histograms: HistogramWriter, phases: list[Phase]
    ) -> tuple[StepResult, float]:
        if isinstance(step, OltpStep | ReplayStep):
            warm, length = step.warmup_s, step.duration_s
        else:
            warm, length = 0.0, 20.0 / self.speed
        window = (t0_s + warm, t0_s + warm + length)
        phases.append(Phase(name=f"step:{step.name}", t0_s=t0_s, t1_s=window[1]))
        is_load = isinstance(step, OltpStep | ReplayStep)
        series.append(self._storage_rows(t0_s, window[1], 1.0 if is_load else 3.0))
        metrics: dict[str, MetricValue]
        if isinstance(step, OltpStep | ReplayStep):
            metrics = self._load(step, t0_s, window, series, histograms)
            metrics |= {name: metric(name, value) for name, value in self.volume.load_metrics.items()}
        else:
            metrics = other_metrics(step, length, speed=self.speed, repeat=self.planned.repeat)
        disturbances = delays(self.wanted.disturbed.get(self.key))
        reason = self.wanted.invalid.get(self.key) or next((each.text for each in disturbances), None)
        result = StepResult(
            step=step.name,
            kind=step.kind,
            parameters=step.parameters(),
            window_s=window,
            metrics=metrics,
            valid=reason is None,
            invalid_reasons=(reason,) if reason else (),
            outside_reasons=tuple(each.text for each in disturbances),
            disturbances=disturbances,
            details=CRASH_DETAILS if isinstance(step, CrashStep) else {},
            notes=self.volume.notes if step.kind == "cold_read" else (),
        )
        return result, window[1]

    def _stalled(self, t_s: float) -> bool:
        return self.volume.stall_s is not None and self.volume.stall_s[0] < t_s <= self.volume.stall_s[1]

    def _ticks(self, t0_s: float, t1_s: float) -> Iterator[float]:
        first, last = math.ceil(t0_s / self.wanted.interval_s), math.floor(t1_s / self.wanted.interval_s)
        for number in range(first + 1, last + 1):
            yield round(number * self.wanted.interval_s, 6)

    def _storage_rows(self, t0_s: float, t1_s: float, weight: float) -> Iterator[SeriesRow]:
        disk = self.volume.volume_facts().disk or ""
        for t_s in self._ticks(t0_s, t1_s):
            moving = 0.0 if self._stalled(t_s) else self.speed * weight * math.exp(self.random.normal(0, 0.06))
            values: dict[tuple[str, str], float | None] = {
                ("diskstats", "reads_per_s"): 900 * moving,
                ("diskstats", "writes_per_s"): 1400 * moving,
                ("diskstats", "read_mib_per_s"): 900 * moving / 64,
                ("diskstats", "write_mib_per_s"): 1400 * moving / 48,
                ("diskstats", "r_await_ms"): 0.9 / self.speed if moving else None,
                ("diskstats", "w_await_ms"): 1.3 / self.speed if moving else None,
                ("diskstats", "aqu_sz"): 3.1 if moving else 8.0,
                ("diskstats", "util_ratio"): min(1.0, 0.55 + 0.1 * self.random.normal()) if moving else 1.0,
            }
            values |= {
                ("cpu", "user_ratio"): 0.3 * min(moving, 2),
                ("cpu", "iowait_ratio"): 0.1 if moving else 0.6,
                ("psi", "io_some_ratio"): 0.2 if moving else 0.9,
            }
            for (source, name), value in values.items():
                if value is not None:
                    entity = disk if source == "diskstats" else ""
                    yield SeriesRow(t_s=t_s, source=source, metric=name, value=value, entity=entity)
            for number in range(self.wanted.extra_metrics):
                yield SeriesRow(
                    t_s=t_s, source="performance_schema", metric=f"waits_{number}_per_s", value=moving * number
                )

    def _load(
        self,
        step: OltpStep | ReplayStep,
        t0_s: float,
        window: tuple[float, float],
        series: SeriesWriter,
        histograms: HistogramWriter,
    ) -> dict[str, MetricValue]:
        total = np.zeros(1024)
        stalled = seconds = 0
        for t_s in self._ticks(t0_s, window[1]):
            measured = t_s > window[0]
            events = (
                0 if self._stalled(t_s) else int(self.random.poisson(420 * self.speed * self.wanted.interval_s))
            )
            latency_ms = 11 / self.speed * np.exp(self.random.normal(0, 0.45, events))
            bins = np.floor((np.log(latency_ms) - EDGE_DEDUCT) * EDGE_MULT).astype(int)
            numbers, counts = np.unique(bins, return_counts=True)
            if isinstance(step, OltpStep):
                histograms.append(
                    [
                        HistogramRow(
                            t_s=t_s,
                            interval_s=self.wanted.interval_s,
                            step=step.name,
                            source="client",
                            events=events,
                            errors=0,
                            edge_mult=EDGE_MULT,
                            edge_deduct=EDGE_DEDUCT,
                            bin=tuple(numbers.tolist()),
                            count=tuple(counts.tolist()),
                            measured=measured,
                        )
                    ]
                )
            tps = events / self.wanted.interval_s
            rate = "tps" if isinstance(step, OltpStep) else "qps"
            series.append([SeriesRow(t_s=t_s, source="client", metric=rate, value=tps)])
            if events:
                p95 = int(np.searchsorted(np.cumsum(counts), 0.95 * counts.sum()))
                p95_ms = math.exp(int(numbers[p95]) / EDGE_MULT + EDGE_DEDUCT)
                series.append([SeriesRow(t_s=t_s, source="client", metric="latency_ms_p95", value=p95_ms)])
            if measured:
                total[numbers] += counts
                stalled += events == 0
                seconds += 1
        running = np.cumsum(total)
        quantile = {
            name: math.exp(np.searchsorted(running, level * running[-1]) / EDGE_MULT + EDGE_DEDUCT)
            for name, level in {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}.items()
        }
        tps = running[-1] / (seconds * self.wanted.interval_s)
        values = {"tps": tps, "qps": tps * 20, "stalled_s": float(stalled) * self.wanted.interval_s}
        values |= {f"latency_ms_{name}": value for name, value in quantile.items()}
        if isinstance(step, ReplayStep):
            values["qps"] = values.pop("tps")
            del values["stalled_s"], values["latency_ms_p999"]
        return {name: metric(name, float(value)) for name, value in values.items()}


def two_volumes(**changes: object) -> Synthetic:
    """Volume b is 1.4 times as fast as a, which stalls for five seconds in the load."""
    a = SyntheticVolume(name="a", speed=1.0, stall_s=(40.0, 45.0))
    b = SyntheticVolume(name="b", speed=1.4, facts={"scheduler": "mq-deadline", "device": "nvme2n1p1"})
    return Synthetic(**{"volumes": (a, b), **changes})  # type: ignore[arg-type]


HOSTILE = "<script>document.title='owned'</script>\"'><img src=x onerror=\"document.title='owned'\">|`]]>"


def hostile() -> Synthetic:
    """Every free text of a run tries to be markup."""
    parameters: dict[str, Scalar] = {HOSTILE: HOSTILE}
    facts = {"filesystem": HOSTILE, "scheduler": HOSTILE, "mount_options": (HOSTILE,), "notes": (HOSTILE,)}
    a = SyntheticVolume(name="a", facts=facts, variables={HOSTILE: HOSTILE}, notes=(HOSTILE,))
    b = SyntheticVolume(name="b", speed=1.3, notes=(HOSTILE,))
    step = OltpStep(name=HOSTILE, warmup_s=2, duration_s=10, options=parameters)
    failure = Failure(cause="server_killed", message=HOSTILE, where=HOSTILE, evidence=HOSTILE, next_step=HOSTILE)
    return Synthetic(
        volumes=(a, b),
        steps=(step, ColdReadStep(name="cold")),
        suite=HOSTILE,
        description=HOSTILE,
        invalid={("a", 1): HOSTILE},
        failed={("b", 2): failure},
    )


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
