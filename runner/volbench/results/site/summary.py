"""What the site keeps of a run: its verdict, its cells' figures, its settings. Read once from report.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from volbench.core.records.base import Moment, Record
from volbench.core.records.metrics import PRIMARY_METRICS
from volbench.core.records.report import Report, VolumeRow
from volbench.results.compare.losses import loss_text
from volbench.results.report.wording import parameter_text

SUMMARY_SCHEMA = 2
"""Part of the cache's identity: a new version reads every run again."""
_LIVE_FACTS = frozenset({"free_bytes", "device_number", "loop_backing_file", "path", "notes"})
"""Facts that differ between any two runs and say nothing about either."""


class VolumeSummary(Record):
    """One volume of a run."""

    name: str
    spec: str
    emulated: bool


class MetricGroup(Record):
    """One metric of one step on one volume, over the valid cells."""

    volume: str
    step: str
    parameters: str
    metric: str
    unit: str
    better: str
    primary: bool
    values: tuple[float, ...]

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What makes figures of two runs the same quantity, but for the suite."""
        return self.volume, self.step, self.parameters, self.metric


class RunSummary(Record):
    """One run."""

    run_id: str
    suite: str
    started_at: Moment
    complete: bool
    verdict: str
    sentence: str
    server: str
    volbench_version: str
    cells: int
    valid_cells: int
    volumes: tuple[VolumeSummary, ...]
    causes: tuple[tuple[str, str], ...] = Field(description="(volume, cause) of the findings.")
    groups: tuple[MetricGroup, ...]
    settings: dict[str, str]


def summarise(report: Report) -> RunSummary:
    """Return what the site keeps of a report."""
    return RunSummary(
        run_id=report.run_id,
        suite=report.suite,
        started_at=report.started_at,
        complete=report.complete,
        verdict=report.summary.verdict,
        sentence=_sentence(report),
        server=f"{report.server.flavor} {report.server.version}" if report.server else "",
        volbench_version=report.volbench_version,
        cells=len(report.cells),
        valid_cells=sum(cell.valid for cell in report.cells),
        volumes=tuple(
            VolumeSummary(name=volume.name, spec=volume.spec, emulated=volume.emulated) for volume in report.volumes
        ),
        causes=tuple(dict.fromkeys((row.volume, row.cause) for row in report.findings if row.cause != "none")),
        groups=tuple(_groups(report)),
        settings=dict(sorted(_settings(report))),
    )


def _sentence(report: Report) -> str:
    """Return the verdict, with what cuts cost the volumes: the index has no headline."""
    losses = loss_text(report.durability)
    return f"{report.summary.sentence} But {losses}." if losses else report.summary.sentence


def _groups(report: Report) -> Iterator[MetricGroup]:
    values: dict[tuple[str, str, str, str], list[float]] = {}
    about: dict[tuple[str, str, str, str], dict[str, Any]] = {}
    for cell in report.cells:
        if not cell.valid:
            continue
        for name, metric in cell.metrics.items():
            key = (cell.volume, cell.step, parameter_text(cell.parameters), name)
            values.setdefault(key, []).append(metric.value)
            primary = name in PRIMARY_METRICS.get(cell.kind, ())
            about[key] = {"unit": metric.unit, "better": metric.better, "primary": primary}
    for (volume, step, parameters, name), cells in values.items():
        details = about[volume, step, parameters, name]
        yield MetricGroup(
            volume=volume, step=step, parameters=parameters, metric=name, values=tuple(cells), **details
        )


def _settings(report: Report) -> Iterator[tuple[str, str]]:
    """Yield everything that may explain a difference between two runs, flat and as text."""
    yield "volbench", report.volbench_version
    if report.server:
        yield "server", f"{report.server.flavor} {report.server.version}"
        yield from ((f"server.{name}", value) for name, value in report.server.variables.items())
    if report.data:
        yield "data.bytes", str(report.data.bytes)
    yield from _flat("host", report.host)
    for volume in report.volumes:
        yield f"volume {volume.name}", volume.spec
        yield from _flat(f"volume {volume.name}", _facts(volume))


def _facts(volume: VolumeRow) -> dict[str, Any]:
    return {name: value for name, value in volume.facts.items() if name not in _LIVE_FACTS}


def _flat(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}.{name}", value)
        elif isinstance(value, list | tuple):
            yield f"{prefix}.{name}", " ".join(str(element) for element in value)
        else:
            yield f"{prefix}.{name}", str(value)
