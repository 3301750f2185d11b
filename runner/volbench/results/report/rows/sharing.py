"""Several servers on one volume: what each kept, how many fit, and whether the volume's limits say the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from volbench.core.base.text import ABSENT, counted, number, percent, quantity
from volbench.core.profile.limits import VolumeLimit, limits_of
from volbench.core.profile.of_run import profile_of
from volbench.core.records.report import CellRow
from volbench.core.records.report.cells import Standing
from volbench.core.records.report.sharing import SharingLevelRow, SharingRow
from volbench.core.records.run import RunRecord
from volbench.core.records.steps.instances import ALONE
from volbench.errors import VolbenchError
from volbench.results.compare.figures import figure_of, standing_of
from volbench.results.report.rows.fitting import (
    MeasuredFit,
    ServerObjective,
    Use,
    checked,
    measured_fit,
    predicted_fit,
    predicted_share,
    predicted_use,
)
from volbench.results.report.rows.load_limit import SCALE, traffic_of, used_of

KIND = "instances"
UNFAIR_BELOW = 0.9
"""Of Jain's index: below it, with two servers one keeps twice as much as the other, or more."""


class _TightestLimit(NamedTuple):
    """The limit that one server alone uses most, and what the servers use of it."""

    limit: VolumeLimit
    use: Use
    alike: bool


def sharing_rows(run: RunRecord, cells: Sequence[CellRow], volumes: Sequence[str]) -> tuple[SharingRow, ...]:
    """Return a row for each volume and step of this kind, in the order of the volumes.

    Args:
        cells: of the run.
        volumes: names.
    """
    rows = (
        _row(run, volume, step, [cell for cell in of_volume if cell.step.startswith(f"{step}/")])
        for volume in volumes
        if (of_volume := [cell for cell in cells if cell.volume == volume and cell.kind == KIND])
        for step in dict.fromkeys(cell.step.partition("/")[0] for cell in of_volume)
    )
    return tuple(row for row in rows if row is not None)


def sharing_sentences(rows: Sequence[SharingRow]) -> tuple[str, ...]:
    """Return the conclusions of all rows."""
    return tuple(sentence for row in rows for sentence in row.sentences)


def _row(run: RunRecord, volume: str, step: str, cells: Sequence[CellRow]) -> SharingRow | None:
    """Return the row of a step's cells; None where no number of servers was measured."""
    standing, chosen = _population(cells)
    alone = [cell for cell in chosen if cell.step == f"{step}/{ALONE}"]
    tps_alone = figure_of(alone, "tps_of_all")
    counts = sorted({count for cell in chosen if (count := _instances(cell)) > 1})
    if tps_alone is None or not counts:
        return None
    keeps, p95_s = alone[0].parameters.get("keeps"), alone[0].parameters.get("p95_s")
    objective = ServerObjective(
        keeps=float(keeps) if isinstance(keeps, int | float) else 1.0,
        p95_ms=1000 * float(p95_s) if isinstance(p95_s, int | float) else None,
        closed="rate" not in alone[0].parameters,
    )
    noisy = [cell for cell in chosen if cell.step == f"{step}/{ALONE}-2"]
    tightest = _use(run, volume, alone, noisy)
    levels = tuple(
        _level([cell for cell in chosen if cell.step == f"{step}/{count}"], count, objective, tightest)
        for count in counts
    )
    p95_ms = figure_of(alone, "latency_ms_p95")
    fit, breaks_at = measured_fit(
        alone_fits=objective.p95_ms is None or (p95_ms is not None and p95_ms <= objective.p95_ms),
        levels=[MeasuredFit(instances=level.instances, fits=level.fits) for level in levels],
    )
    predicted = None if tightest is None or not fit else predicted_fit(tightest.use, objective, p95_ms)
    uses = [
        (level.predicted_use, level.used_share)
        for level in levels
        if level.predicted_use is not None and level.used_share is not None
    ]
    row = SharingRow(
        volume=volume,
        step=step,
        standing=standing,
        cells=len({cell.cell_id for cell in chosen}),
        keeps=objective.keeps,
        p95_ms=objective.p95_ms,
        tps_alone=tps_alone,
        latency_ms_p95_alone=p95_ms,
        levels=levels,
        fit=fit,
        breaks_at=breaks_at,
        limit="" if tightest is None else _limit_text(tightest.limit),
        used_share=None if tightest is None else tightest.use.first,
        predicted_fit=predicted,
        check=checked(predicted, fit, breaks_at, uses),
    )
    return row.model_copy(update={"sentences": tuple(_sentences(row))})


def _population(cells: Sequence[CellRow]) -> tuple[Standing, list[CellRow]]:
    """Return the rows of the cells whose rows are all valid; where there are none, all rows."""
    invalid = {cell.cell_id for cell in cells if not cell.valid}
    valid = [cell for cell in cells if cell.cell_id not in invalid]
    return ("valid", valid) if valid else (standing_of(valid=False, bounded=False), list(cells))


def _instances(cell: CellRow) -> int:
    count = cell.parameters.get("instances")
    return count if isinstance(count, int) else 0


def _level(
    cells: Sequence[CellRow], count: int, objective: ServerObjective, tightest: _TightestLimit | None
) -> SharingLevelRow:
    fits = {_keeps(cell, objective) for cell in cells}
    sums = figure_of(cells, "retained_share_sum")
    p95_ms = [cell.metrics.get("latency_ms_p95_slowest") for cell in cells]
    return SharingLevelRow(
        instances=count,
        tps_of_all=figure_of(cells, "tps_of_all") or 0.0,
        retained_share_min=figure_of(cells, "retained_share_min"),
        retained_share_mean=None if sums is None else sums / count,
        fairness_index=figure_of(cells, "fairness_index"),
        slowdown_max=figure_of(cells, "slowdown_max"),
        latency_ms_p95_slowest=None if None in p95_ms else median(value.value for value in p95_ms if value),
        fits=next(iter(fits)) if len(fits) == 1 else None,
        predicted_share=predicted_share(tightest.use, count) if tightest is not None and tightest.alike else None,
        used_share=None if tightest is None else _used_share(tightest.limit, cells),
        predicted_use=None if tightest is None else predicted_use(tightest.use, count),
    )


def _keeps(cell: CellRow, objective: ServerObjective) -> bool:
    """Return whether every server of a cell kept its objective. A p95 that is not known did not."""
    share, p95 = cell.metrics.get("retained_share_min"), cell.metrics.get("latency_ms_p95_slowest")
    if share is None or share.value < objective.keeps:
        return False
    if objective.p95_ms is None:
        return True
    return p95 is not None and p95.value <= objective.p95_ms


def _used_share(limit: VolumeLimit, cells: Sequence[CellRow]) -> float | None:
    """Return what servers used of a limit; None where the volume's operations were not counted."""
    traffic = traffic_of(cells)
    return None if traffic is None else used_of(limit, traffic) / limit.rate_per_s


def _use(run: RunRecord, volume: str, alone: Sequence[CellRow], noisy: Sequence[CellRow]) -> _TightestLimit | None:
    """Return the limit that the servers use most, with what they use of it; None where no limit is known.

    Buckets of credits are not looked at, also one that begins empty: it earns while few servers have load, and
    gives that to the many. How long credits last is the forecast's matter.
    """
    spec = next((spec for spec in run.volumes if spec.name == volume), None)
    try:
        profile = None if spec is None else profile_of(spec, run.target_options)
    except VolbenchError:
        return None
    first, further = traffic_of(alone), traffic_of(noisy or alone)
    if profile is None or first is None or further is None:
        return None
    uses = [
        _TightestLimit(
            limit=limit,
            use=Use(
                first=used_of(limit, first) / limit.rate_per_s,
                each_further=used_of(limit, further) / limit.rate_per_s,
            ),
            alike=not noisy,
        )
        for limit in limits_of(profile).caps
        if limit.rate_per_s > 0
    ]
    positive = [tightest for tightest in uses if tightest.use.first > 0 and tightest.use.each_further > 0]
    return max(positive, key=lambda tightest: tightest.use.by(2), default=None)


def _limit_text(limit: VolumeLimit) -> str:
    scale, unit = SCALE[limit.charge.unit]
    return f"{number(limit.rate_per_s / scale)} {unit}"


def _sentences(row: SharingRow) -> Iterator[str]:
    """Yield what was measured, how the servers shared, and what the volume's limits make of it."""
    yield _measured_sentence(row)
    yield _fairness_sentence(row)
    yield _computed_sentence(row)


def _measured_sentence(row: SharingRow) -> str:
    objective = f"{percent(row.keeps)} of its transactions alone"
    objective += "" if row.p95_ms is None else f" and a p95 of {quantity(row.p95_ms, 'ms')}"
    of_which = "" if row.standing == "valid" else " No cell of it is valid."
    if row.fit == 0:
        text = (
            f"Not even one server keeps {objective} on volume {row.volume} in step {row.step}: alone, its p95 is"
            f" {quantity(row.latency_ms_p95_alone, 'ms')}."
        )
        return text + of_which
    subject = "1 server fits" if row.fit == 1 else f"{row.fit} servers fit"
    text = f"{subject} on volume {row.volume} in step {row.step}, each with at least {objective}"
    if row.breaks_at is None:
        return f"{text}; more were not tried.{of_which}"
    broken = next(level for level in row.levels if level.instances == row.breaks_at)
    between = "" if row.breaks_at == row.fit + 1 else f"; {_untried(row.fit, row.breaks_at)} not tried"
    p95 = quantity(broken.latency_ms_p95_slowest, "ms")
    slowest = "is beyond what was measured" if p95 == ABSENT else f"{p95}"
    some = " in some cells" if broken.fits is None else ""
    least = percent(broken.retained_share_min)
    return (
        f"{text}; with {row.breaks_at}, the slowest kept {least}{some}, and the slowest p95"
        f" {slowest if p95 == ABSENT else f'was {slowest}'}{between}.{of_which}"
    )


def _untried(fit: int, breaks_at: int) -> str:
    between = list(range(fit + 1, breaks_at))
    return f"{between[0]} was" if len(between) == 1 else f"{between[0]} to {between[-1]} were"


def _fairness_sentence(row: SharingRow) -> str:
    most = row.levels[-1]
    index, mean = most.fairness_index, most.retained_share_mean
    if index is None or mean is None:
        return f"What {most.instances} servers kept of their rates alone in step {row.step} is not known."
    fair = "fairly" if index >= UNFAIR_BELOW else "unfairly"
    text = (
        f"{most.instances} servers shared volume {row.volume} {fair} in step {row.step}: Jain's index is"
        f" {number(index)}, the slowest kept {percent(most.retained_share_min)} of its rate alone, all"
        f" {percent(mean)} on average"
    )
    return f"{text} ({percent(1 / most.instances)} if all had the rate of one between them)."


def _computed_sentence(row: SharingRow) -> str:
    if row.fit == 0:
        return f"How many volume {row.volume} carries was not computed: one server alone misses its objective."
    if row.predicted_fit is None or row.used_share is None:
        return (
            f"How many volume {row.volume} carries was not computed: its limits, or what one server uses of them,"
            " are not known."
        )
    carried = counted(row.predicted_fit, "server")
    text = f"One server alone uses {percent(row.used_share)} of the {row.limit} that volume {row.volume} allows"
    if row.check == "agrees":
        tail = "as measured" if row.breaks_at is not None else "and the measured numbers do not speak against it"
        return f"{text}: by computation that carries at most {carried}, {tail}."
    if row.check == "fewer":
        return (
            f"{text}: by computation that carries at most {carried}. Its use is as computed, but fewer fit:"
            " requests wait for one another before the limit is reached."
        )
    measured = [level for level in row.levels if level.predicted_use and level.used_share is not None]
    if not measured:
        return f"{text}: by computation that carries at most {carried}, which nothing that was measured checks."
    worst = max(measured, key=lambda level: abs((level.used_share or 0.0) / (level.predicted_use or 1.0) - 1))
    return (
        f"{text}. By computation that carries at most {carried}, which the measurement refutes: {worst.instances}"
        f" servers should use {percent(worst.predicted_use)} of it, and used {percent(worst.used_share)}. Use the"
        " measured number: this limit is not what decides."
    )
