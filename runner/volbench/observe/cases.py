"""Observed series as cases that the analysis explains: all of the time, the last minute, an incident."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from volbench.core.records.named_metrics import CPU, Client, Innodb, PerformanceSchema
from volbench.observe.budget import ExtraTime, extra_time, statement_level
from volbench.observe.model import Observation
from volbench.results.explain.case import Case
from volbench.results.explain.case_input import ConcurrentActivity
from volbench.results.explain.evidence.device import device_of
from volbench.results.explain.evidence.episodes import FigureChange, levels
from volbench.results.explain.findings import Explanation, explain_case
from volbench.results.explain.rules.acquittal import NONE
from volbench.results.explain.rules.stretch import SAMPLES_MIN
from volbench.results.stats.grid import Floats, Grid, align, median, true_runs
from volbench.results.store.series import Series, SeriesKey

STEP = "observed"
_EDGE_S = 3.0
"""An incident's onset and end are known to a tick or two; findings are looked for a little around it."""
_LEAD_S = 10.0
"""What began so shortly before an onset is the incident's begin: a trigger sees a stall when I/O completes."""
_TPS = SeriesKey.of(Client.tps)


def case_of(series: Mapping[SeriesKey, Series], observation: Observation) -> Case:
    """The case of all of the series."""
    grid = align(_with_known_tps(series), width_s=observation.interval_s)
    return Case(
        name=STEP,
        grid=grid,
        cell_grid=grid,
        kind="oltp",
        disk=None if observation.volume is None else observation.volume.disk,
        cpus=None if observation.host is None else observation.host.cpus,
        instance="" if observation.host is None else observation.host.cloud_instance_type or "",
        variables=observation.server.variables,
        concurrent=tuple(_tools(grid)),
        clock_zero_s=observation.zero_epoch_s,
    )


def _with_known_tps(series: Mapping[SeriesKey, Series]) -> Mapping[SeriesKey, Series]:
    """Without transactions where the load hardly commits by COMMIT: a second without one then tells nothing."""
    tps = series.get(_TPS)
    if tps is None or float(np.median(tps.value)) > 0:
        return series
    return {key: values for key, values in series.items() if key != _TPS}


def _tools(grid: Grid) -> Iterator[ConcurrentActivity]:
    """When backup tools were connected."""
    for name in grid.entities(*PerformanceSchema.program_connections):
        column = grid.column(*PerformanceSchema.program_connections, name)
        if column is None:
            continue
        for first, last in true_runs(np.nan_to_num(column) > 0):
            # A tick sees a connection after it was made, and until it is gone: up to one interval late each.
            yield ConcurrentActivity(
                name=name, t0_s=float(grid.t_s[first]) - grid.width_s, t1_s=float(grid.t_s[last - 1])
            )


@dataclass(frozen=True, kw_only=True)
class Compared:
    """An incident against the time before it.

    `during`, `before`: what each showed; `around`: what both together showed and lies in the incident. `levels` are
    figures of both; `extra` is what the extra time of a statement is.
    """

    during: Explanation
    before: Explanation
    around: Explanation
    levels: tuple[FigureChange, ...]
    onset_s: float
    extra: ExtraTime | None = None

    @property
    def causes_before(self) -> frozenset[str]:
        """What was there before already."""
        begun_s = self.onset_s - _LEAD_S
        return frozenset(finding.cause for finding in self.before.findings if finding.window_s[0] < begun_s)


def compare_incident(case: Case, onset_s: float, end_s: float) -> Compared:
    """Explain an incident, and what was before.

    Args:
        case: with the incident and the time before it.
        onset_s, end_s: of the incident.
    """
    inside = replace(case, grid=case.cell_grid.within(onset_s - case.grid.width_s / 2, end_s + case.grid.width_s))
    before = replace(case, grid=case.cell_grid.within(float("-inf"), onset_s - case.grid.width_s))
    around = explain_case(replace(case, grid=case.cell_grid.within(float("-inf"), end_s + case.grid.width_s)))
    overlapping = tuple(
        finding
        for finding in around.findings
        if finding.cause == NONE
        or (finding.window_s[0] <= end_s + _EDGE_S and finding.window_s[1] >= onset_s - _EDGE_S)
    )
    return Compared(
        during=explain_case(inside) if len(inside.grid) >= SAMPLES_MIN else Explanation(findings=()),
        before=explain_case(before),
        around=replace(around, findings=overlapping),
        levels=tuple(filter(None, (*_levels(case, onset_s, end_s), statement_level(before, inside)))),
        onset_s=onset_s,
        extra=extra_time(before, inside),
    )


def _levels(case: Case, onset_s: float, end_s: float) -> Iterator[FigureChange]:
    middle = case.cell_grid.t_s - case.cell_grid.width_s / 2
    during = (middle > onset_s - case.cell_grid.width_s / 2) & (middle <= end_s)
    if not during.any():
        return
    yield from levels(case.cell_grid, device_of(case.cell_grid, case.disk), during, _other_series(case))


def _other_series(case: Case) -> dict[str, tuple[Floats | None, str]]:
    user, system = case.at(CPU.user_ratio), case.at(CPU.system_ratio)
    return {
        "statements": (case.at(PerformanceSchema.statements_per_s), "1/s"),
        "transactions": (case.at(Client.tps), "1/s"),
        "statement p50": (case.at(Client.latency_ms_p50), "ms"),
        "statement p95": (case.at(Client.latency_ms_p95), "ms"),
        "threads running": (case.at(Innodb.threads_running), ""),
        "waiting for rows": (case.at(Innodb.row_lock_current_waits), "sessions"),
        "waiting for tables": (case.at(Innodb.metadata_lock_current_waits), "sessions"),
        "CPUs busy": (None if user is None or system is None else 100 * (user + system), "%"),
    }


def suspicion(case: Case) -> str:
    """What explains the last seconds, in a few words; why nothing does where that is so."""
    if len(case.grid) < SAMPLES_MIN:
        return "too few samples yet"
    explanation = explain_case(case)
    if not explanation.findings:
        return "no cause can be named"
    first = explanation.findings[0]
    if first.cause == NONE:
        return "none: the volume is not the problem"
    share = "" if first.share is None else f", {100 * first.share:.0f} % of the {first.share_of}"
    confidence = f"{first.confidence:.2f}" if first.is_counted else "not counted"
    return f"{first.cause} (confidence {confidence}{share})"


def is_quiet(case: Case) -> bool:
    """Whether next to nothing was asked of the server: there is nothing to explain then."""
    rate = median(case.at(PerformanceSchema.statements_per_s))
    return rate is not None and rate < 1
