"""Storage classes side by side: speed, durability, price, and which volumes another one makes pointless."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from volbench.core.base.text import number
from volbench.core.profile.resolve import ResolvedVolume, resolve_spec, resolve_volume
from volbench.core.records.base import Scalar
from volbench.core.records.cell import is_beyond
from volbench.core.records.goals.pricing import PricingSpec, StorageClassRow
from volbench.core.records.report import CellRow, DurabilityRow
from volbench.core.records.run import VolumeSpec
from volbench.errors import UsageError
from volbench.results.compare.figures import figure_cells
from volbench.results.credits.prices import HOURS_IN_MONTH, Prices, monthly_cost
from volbench.results.explain.run import RunExplanation, valid_views

_LOAD_PARAMETERS = ("threads", "rate")
_SECONDS_IN_MONTH = HOURS_IN_MONTH * 3600.0
_MILLION = 1e6
NAMED_MAX = 3
"""Dominating volumes that a sentence names."""
_KIB = 1024.0
_READ, _WRITTEN = "device_read_kib", "device_written_kib"


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Mean bytes that a transaction reads from a volume, and writes to it."""

    read: float
    write: float


Traffics = Mapping[tuple[str, str, int | None], Traffic]
"""Of a volume, a step, and its threads."""


def transaction_traffic(explained: RunExplanation) -> Traffics:
    """Return what a transaction moves: medians of valid cells; where a volume has none, of its disturbed ones."""
    moved: dict[tuple[str, str, int | None], list[Traffic]] = {}
    for (volume, step), views in explained.views.items():
        for view in (valid_views(views) or views).values():
            values = view.per_transaction.values
            if {_READ, _WRITTEN} <= set(values):
                traffic = Traffic(read=values[_READ][0] * _KIB, write=values[_WRITTEN][0] * _KIB)
                moved.setdefault((volume, step, view.threads), []).append(traffic)
    return {
        key: Traffic(
            read=median(traffic.read for traffic in of_cells), write=median(traffic.write for traffic in of_cells)
        )
        for key, of_cells in moved.items()
    }


def storage_class_rows(
    spec: PricingSpec,
    volumes: Sequence[VolumeSpec],
    cells: Sequence[CellRow],
    durability: Sequence[DurabilityRow],
    traffics: Traffics,
    prices: Prices,
) -> tuple[StorageClassRow, ...]:
    """Return a row for each volume and load of the priced step, in the order of the volumes.

    Args:
        volumes: of the run.
        cells: of the run. Valid ones count; where a volume has none, its disturbed ones do, and the row says so.
        traffics: what a transaction moves, for prices that depend on it.
    """
    of_step = [cell for cell in cells if cell.step == spec.step and "tps" in cell.metrics]
    loads = list({str(load): load for load in map(_load, of_step)}.values())
    losses = {row.volume: row for row in reversed(durability)}
    rows = []
    for load in loads:
        measured = [
            _measured(volume.name, [cell for cell in of_step if (cell.volume, _load(cell)) == (volume.name, load)])
            for volume in volumes
        ]
        speeds = [row.model_copy(update={"step": spec.step, "parameters": load}) for row in measured]
        priced = [
            _priced(_with_losses(row, losses.get(row.volume)), volume, spec, traffics, prices)
            for row, volume in zip(speeds, volumes, strict=True)
        ]
        rows += [_compared(row, priced) for row in priced]
    return tuple(rows)


def _load(cell: CellRow) -> dict[str, Scalar]:
    return {name: cell.parameters[name] for name in _LOAD_PARAMETERS if name in cell.parameters}


def _measured(volume: str, cells: Sequence[CellRow]) -> StorageClassRow:
    standing, used = figure_cells(cells, "tps")
    tps = [cell.metrics["tps"].value for cell in used]
    p95 = [cell.metrics["latency_ms_p95"].value for cell in used if "latency_ms_p95" in cell.metrics]
    p95 += [math.inf for cell in used if is_beyond("latency_ms_p95", cell.metrics, cell.notes)]
    return StorageClassRow(
        volume=volume,
        step="",
        tps=median(tps) if tps else None,
        tps_range=(min(tps), max(tps)) if tps else None,
        latency_ms_p95=median(p95) if p95 and math.isfinite(median(p95)) else None,
        cells=len(used),
        valid=standing in ("valid", None),
    )


def _with_losses(row: StorageClassRow, losses: DurabilityRow | None) -> StorageClassRow:
    if losses is None:
        return row
    names = ("cuts", "acknowledged_commits", "lost_commits", "failed_recoveries", "recovery_s")
    return row.model_copy(update={name: getattr(losses, name) for name in names})


def _priced(
    row: StorageClassRow,
    volume: VolumeSpec,
    spec: PricingSpec,
    traffics: Traffics,
    prices: Prices,
) -> StorageClassRow:
    """Return the row with its price, or with the reason why there is none."""
    dated = {"currency": prices.currency, "region": prices.region, "price_list_date": prices.dated}
    if volume.layout:
        reason = f"{volume.name} is a layout of several volumes: add the prices of each"
        return row.model_copy(update={**dated, "price_unavailable_reason": reason})
    text = spec.volumes.get(volume.name, volume.text if volume.kind == "emulated" else "")
    if not text:
        reason = f"the suite's pricing.volumes does not say what {volume.name} is"
        return row.model_copy(update={**dated, "price_unavailable_reason": reason})
    try:
        resolved = resolve_spec(text, name=volume.name) if volume.name in spec.volumes else resolve_volume(volume)
    except UsageError as error:
        return row.model_copy(update={**dated, "price_unavailable_reason": f"{text}: {error.what}"})
    fields = {**dated, "priced_as": text, "has_credits": _has_credits(resolved)}
    return row.model_copy(update={**fields, **_price(row, resolved, traffics, prices)})


def _price(
    row: StorageClassRow, resolved: ResolvedVolume, traffics: Traffics, prices: Prices
) -> Mapping[str, object]:
    """Return the fields of a row's price."""
    if resolved.profile not in prices.volumes:
        return {"price_unavailable_reason": f"the list has no price of {resolved.profile}"}
    threads = row.parameters.get("threads")
    traffic = traffics.get((row.volume, row.step, threads if isinstance(threads, int) else None))
    if traffic is None and prices.is_charged_by_traffic(resolved.profile):
        return {"price_unavailable_reason": f"{resolved.profile} is charged by traffic, and none was sampled"}
    tps = row.tps or 0.0
    cost = monthly_cost(
        prices,
        resolved.profile,
        resolved.parameters,
        read_bytes_per_s=0.0 if traffic is None else traffic.read * tps,
        write_bytes_per_s=0.0 if traffic is None else traffic.write * tps,
    )
    if cost is None:
        return {"price_unavailable_reason": f"the list has no price of {resolved.profile} with these options"}
    per_million = cost.month / (row.tps * _SECONDS_IN_MONTH) * _MILLION if row.tps else None
    return {
        "price_month": cost.month,
        "price_per_million": per_million,
        "assumed": cost.assumed,
        "price_exclusions": cost.without,
    }


def _has_credits(resolved: ResolvedVolume) -> bool:
    """Return whether the volume, or a disk of it, began with burst credits."""
    return any(limit.get("credits") and limit.get("fill", 0.0) > 0 for limit in resolved.model["limits"])


def _compared(row: StorageClassRow, rows: Sequence[StorageClassRow]) -> StorageClassRow:
    """Return the row with the volumes that dominate it."""
    better = [candidate for candidate in rows if _dominates(candidate, row)]
    complete = row.tps is not None and row.price_month is not None
    return row.model_copy(
        update={
            "dominated_by": tuple(candidate.volume for candidate in better),
            "certain": any(_is_faster_in_every_cell(candidate, row) for candidate in better),
            "frontier": complete and not better and not row.loses,
        }
    )


def _dominates(candidate: StorageClassRow, row: StorageClassRow) -> bool:
    """Return whether `candidate` is no dearer, no slower, better in one of both, and lost no commits.

    A burst speed may not last, and an incomplete price is a lower bound: each proves nothing against a volume
    without the same.
    """
    if candidate.has_credits > row.has_credits or not set(candidate.price_exclusions) <= set(row.price_exclusions):
        return False
    if candidate.loses or None in (candidate.tps, row.tps, candidate.price_month, row.price_month):
        return False
    speeds, costs = (candidate.tps or 0.0, row.tps or 0.0), (candidate.price_month or 0.0, row.price_month or 0.0)
    no_worse = speeds[0] >= speeds[1] and costs[0] <= costs[1]
    return no_worse and (speeds[0] > speeds[1] or costs[0] < costs[1])


def _is_faster_in_every_cell(candidate: StorageClassRow, row: StorageClassRow) -> bool:
    if candidate.tps_range is None or row.tps_range is None:
        return False
    return min(candidate.cells, row.cells) > 1 and candidate.tps_range[0] > row.tps_range[1]


def class_lines(rows: Sequence[StorageClassRow]) -> Iterator[str]:
    """Yield a sentence for each volume, for the terminal."""
    for row in rows:
        yield f"{row.volume}: {number(row.tps)} tps, {price_text(row)}; {standing_text(row)}"


def price_text(row: StorageClassRow) -> str:
    """Return `~8.00 USD a month, ~0.0312 a million`, or why there is no price. ~ marks assumed prices."""
    if row.price_month is None:
        return f"no price ({row.price_unavailable_reason})"
    sign = "~" if row.assumed else ""
    per_million = "" if row.price_per_million is None else f", {sign}{number(row.price_per_million)} a million"
    return f"{sign}{row.price_month:,.2f} {row.currency} a month{per_million}"


def loss_text(row: StorageClassRow) -> str:
    """Return `0 of 1,234`; a dash without a crash step."""
    return f"{row.lost_commits:,} of {row.acknowledged_commits:,}" if row.cuts else "\N{EN DASH}"


def recovery(row: StorageClassRow) -> str:
    """Return the recovery time, and after how many cuts there was none."""
    took = "\N{EN DASH}" if row.recovery_s is None else f"{number(row.recovery_s)} s"
    return f"failed after {row.failed_recoveries} of {row.cuts}" if row.failed_recoveries else took


def standing_text(row: StorageClassRow) -> str:
    """Return where a volume stands: on the frontier, dominated, losing commits, or not comparable."""
    lost = "loses acknowledged commits" if row.lost_commits else "did not recover"
    losing = f"{lost}; " if row.loses else ""
    if row.tps is None or row.price_month is None:
        return f"{losing}not comparable without {'speed' if row.tps is None else 'price'}"
    if row.dominated_by:
        certainty = "" if row.certain else " (their cells overlap, or are single)"
        more = len(row.dominated_by) - NAMED_MAX
        names = ", ".join(row.dominated_by[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
        return f"{losing}dominated by {names}{certainty}"
    if row.loses:
        return f"{losing}not on the frontier"
    return "on the frontier" + ("" if row.settled else f", by {_unsettled_text(row)}")


def _unsettled_text(row: StorageClassRow) -> str:
    reasons = ("a burst speed" if row.has_credits else "", "an incomplete price" if row.price_exclusions else "")
    return " and ".join(filter(None, reasons))


def notes(rows: Sequence[StorageClassRow]) -> Iterator[str]:
    """Yield what a reader of the table has to know: date of the prices, what they leave out, credits, validity."""
    if any(row.price_month is not None for row in rows):
        first = rows[0]
        assumed = "; ~ marks a price that was not read at the vendor" if any(row.assumed for row in rows) else ""
        yield f"List prices of {first.region}, {first.price_list_date}{assumed}"
    for row in rows:
        if row.price_exclusions:
            yield f"The price of {row.volume} leaves out {', '.join(row.price_exclusions)}"
        if row.has_credits and row.tps is not None:
            yield f"{row.volume} began with burst credits: its speed may not last, and so its price per million"
        if not row.valid:
            yield f"{row.volume} has no valid cell: these are its disturbed ones"
    if any(row.price_exclusions or row.has_credits for row in rows):
        yield "A burst speed, and a price that leaves something out, dominate no volume without the same"
