"""Sentences on which factors of a sweep matter and why the others do not, from effects and the base's findings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from volbench.core.base.text import change_with_interval
from volbench.core.plan.describe import term_text
from volbench.core.records.report import EffectRow, FindingRow
from volbench.core.records.sweep import SweepSpec
from volbench.results.explain.causes import CAUSES
from volbench.results.report.rows.verdict.lead import cause_title, likelihood
from volbench.results.report.wording import label, level_cells

SMALL_SHARE = 0.25
"""An effect up to this share of the largest (of logarithms) did not remove the bottleneck that the largest did."""
_OPERATIONS = "this factor raises the limit of operations per second"
_BYTES = "this factor raises the limit of bytes per second"
_COMMITS = "this factor decides whether a commit waits until the volume has the data"
_ACTIONS: Mapping[str, str] = {
    "iops": _OPERATIONS,
    "osd": _OPERATIONS,
    "mount": "this factor decides when a write is sent; a file's close and an fsync wait for the server either way",
    "osds": _OPERATIONS,
    "throughput": _BYTES,
    "size": "this factor raises the limits of operations and bytes per second",
    "nconnect": "this factor spreads concurrent operations over several connections",
    "mode": _COMMITS,
    "nfs": "this factor saves round trips at open and close",
    "vers": "this factor saves round trips at open and close",
    "replicas": "this factor decides how many disks a write waits for",
    "innodb_flush_log_at_trx_commit": _COMMITS,
    "sync_binlog": _COMMITS,
    "innodb_buffer_pool_size": "this factor decides how many reads reach the volume",
}
"""Last part of a factor's key -> what the factor does; `CauseInfo.options` has the causes that it acts on."""


def describe_effects(
    sweep: SweepSpec,
    effects: Sequence[EffectRow],
    base_findings: Sequence[FindingRow],
    *,
    leading: EffectRow | None = None,
) -> Iterator[str]:
    """Yield sentences for each volume and step, on its first primary metric; those of the headline first.

    Args:
        sweep: its factors and design.
        effects: all of the run.
        base_findings: findings of cells in which nothing was varied.
        leading: what the headline is of.
    """
    groups: dict[tuple[str, str], list[EffectRow]] = {}
    about = None if leading is None else (leading.volume, leading.step)
    metric = None if leading is None else leading.metric
    for effect in sorted(effects, key=lambda effect: (effect.volume, effect.step) != about):
        if (effect.volume, effect.step) == about and effect.metric != metric:
            continue
        if effect.primary:
            group = groups.setdefault((effect.volume, effect.step), [])
            if not group or group[0].metric == effect.metric:
                group.append(effect)
    for (volume, step), group in groups.items():
        cause = next((f for f in base_findings if (f.volume, f.step) == (volume, step) and f.cause != "none"), None)
        yield from _of_step(f"{step} on {volume}", group, cause)
    if sweep.design == "one_factor" and len(sweep.factors) > 1:
        yield "A one-factor design does not show how factors work together; a full design does."


def _of_step(where: str, group: Sequence[EffectRow], cause: FindingRow | None) -> Iterator[str]:
    estimated = [effect for effect in group if effect.ratio is not None]
    decided = sorted(
        (effect for effect in estimated if effect.verdict in ("better", "worse")), key=_size, reverse=True
    )
    name = label(group[0].metric)
    largest = max(decided or estimated, key=_size, default=None)
    too_few = not decided and largest is not None and largest.ci is None
    if too_few and largest is not None:
        amount = f"{level_cells(largest)} {'is' if largest.runs == (1, 1) else 'are'}"
        text = f"the largest measured change is {_factor_text(largest)}: {_figures(largest)}"
        yield f"{where}: {amount} too few to tell what changes {name}; {text}."
    elif not estimated or largest is None:
        yield f"{where}: no effect could be estimated from valid cells, so what changes {name} is not known."
    elif not decided:
        yield f"{where}: no factor is shown to change {name} beyond the margin."
    else:
        yield f"{where}: {_factor_text(largest)} changes {name} most: {_figures(largest)}, {largest.verdict}."
    if cause is not None:
        evidence = f": {'; '.join(row.text for row in cause.evidence[:2])}" if cause.evidence else ""
        title = cause_title(cause.cause)
        how_sure = ", ".join(filter(None, (cause.cause, likelihood(cause))))
        yield f"{where}: the bottleneck of the base is that {title[:1].lower()}{title[1:]} ({how_sure}){evidence}."
    for effect in estimated:
        if effect is largest and (decided or too_few):
            continue
        text = f"{_figures(effect)}, {_verdict_text(effect)}{_explanation(effect, decided, cause)}"
        yield f"{where}: {_factor_text(effect)}: {text}."


def _explanation(effect: EffectRow, decided: Sequence[EffectRow], cause: FindingRow | None) -> str:
    """Return why a factor has little effect: it does not act on the bottleneck of the base."""
    small = SMALL_SHARE * _size(decided[0]) if decided else math.log1p(effect.margin)
    negligible = effect.verdict == "equivalent" or _size(effect) <= small
    if not negligible or cause is None or len(effect.factors) != 1:
        return ""
    option = effect.factors[0].rpartition(".")[2]
    if option not in _ACTIONS or (cause.cause in CAUSES and option in CAUSES[cause.cause].options):
        return ""
    return f"; {_ACTIONS[option]}, which is not the bottleneck of the base"


def _size(effect: EffectRow) -> float:
    return abs(math.log(effect.ratio)) if effect.ratio else 0.0


def _factor_text(effect: EffectRow) -> str:
    levels = ", ".join(f"{base} to {level}" for base, level in zip(effect.bases, effect.levels, strict=True))
    return f"{term_text(effect.factors)} from {levels}"


def _figures(effect: EffectRow) -> str:
    return f"{change_with_interval(effect.ratio, effect.ci)}"


def _verdict_text(effect: EffectRow) -> str:
    return {"inconclusive": "open", "equivalent": "no change that matters"}.get(effect.verdict, effect.verdict)
