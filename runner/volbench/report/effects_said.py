"""Which factor of a sweep matters and why the others do not: from effects and from the base's findings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from volbench.plan.describe import term_text
from volbench.records.report import EffectRow, FindingRow
from volbench.records.sweep import SweepSpec
from volbench.report.wording import change, interval, label

SMALL_SHARE = 0.25
"""An effect up to this share of the largest one (of logs) did not solve what the largest one did."""
_OPERATIONS = "it raises how many operations a second are let through"
_BYTES = "it raises how many bytes a second are let through"
_COMMITS = "it decides whether a commit waits until the volume has the data"
_ACTS_ON: Mapping[str, tuple[str, frozenset[str]]] = {
    "iops": (_OPERATIONS, frozenset({"storage.iops_limit", "storage.burst_exhausted"})),
    "osd_iops": (_OPERATIONS, frozenset({"storage.iops_limit"})),
    "osds": (_OPERATIONS, frozenset({"storage.iops_limit", "storage.throughput_limit"})),
    "throughput": (_BYTES, frozenset({"storage.throughput_limit", "storage.burst_exhausted"})),
    "size": (
        "it raises what a second lets through",
        frozenset({"storage.iops_limit", "storage.throughput_limit", "storage.burst_exhausted"}),
    ),
    "nconnect": (
        "it spreads operations that are under way together over several connections",
        frozenset({"storage.throughput_limit"}),
    ),
    "mode": (_COMMITS, frozenset({"storage.sync_latency", "storage.metadata_latency"})),
    "nfs": ("it saves round trips at open and close", frozenset({"storage.metadata_latency"})),
    "vers": ("it saves round trips at open and close", frozenset({"storage.metadata_latency"})),
    "replicas": ("it decides how many disks a write waits for", frozenset({"storage.sync_latency"})),
    "innodb_flush_log_at_trx_commit": (_COMMITS, frozenset({"storage.sync_latency"})),
    "sync_binlog": (_COMMITS, frozenset({"storage.sync_latency"})),
    "innodb_buffer_pool_size": (
        "it decides how many reads reach the volume",
        frozenset({"memory.buffer_pool_small", "storage.read_latency", "storage.iops_limit"}),
    ),
}
"""Last part of a factor's key -> what the factor does, and the causes that it can do something about."""


def said(sweep: SweepSpec, effects: Sequence[EffectRow], of_base: Sequence[FindingRow]) -> Iterator[str]:
    """Sentences, for each volume and step: of its first primary metric.

    Args:
        sweep: what was varied.
        effects: all of the run.
        of_base: findings of cells in which nothing was varied.
    """
    groups: dict[tuple[str, str], list[EffectRow]] = {}
    for effect in effects:
        if effect.primary:
            group = groups.setdefault((effect.volume, effect.step), [])
            if not group or group[0].metric == effect.metric:
                group.append(effect)
    for (volume, step), group in groups.items():
        cause = next((f for f in of_base if (f.volume, f.step) == (volume, step) and f.cause != "none"), None)
        yield from _of_step(f"{step} on {volume}", group, cause)
    if sweep.design == "one_factor" and len(sweep.factors) > 1:
        yield "One factor at a time says nothing of how factors work together; a full design would."


def _of_step(where: str, group: Sequence[EffectRow], cause: FindingRow | None) -> Iterator[str]:
    shown = [effect for effect in group if effect.ratio is not None]
    decided = sorted((effect for effect in shown if effect.verdict in ("better", "worse")), key=_size, reverse=True)
    name = label(group[0].metric)
    if not decided:
        yield f"{where}: no factor is shown to change {name} beyond the margin."
    else:
        most = decided[0]
        yield f"{where}: {_knob(most)} matters most for {name}: {_figures(most)}, {most.verdict}."
    if cause is not None:
        why = f": {'; '.join(row.text for row in cause.evidence[:2])}" if cause.evidence else ""
        yield f"{where}: what bounds the base is {cause.cause}{why}."
    for effect in shown:
        if decided and effect is decided[0]:
            continue
        yield f"{where}: {_knob(effect)}: {_figures(effect)}, {_word(effect)}{_why(effect, decided, cause)}."


def _why(effect: EffectRow, decided: Sequence[EffectRow], cause: FindingRow | None) -> str:
    """Why a factor does little: what it acts on is not what bounds the base."""
    little = effect.verdict == "equivalent" or not decided or _size(effect) <= SMALL_SHARE * _size(decided[0])
    acts = _ACTS_ON.get(effect.factors[0].rpartition(".")[2]) if len(effect.factors) == 1 else None
    if not little or acts is None or cause is None or cause.cause in acts[1]:
        return ""
    return f"; {acts[0]}, and that is not what bounds the base"


def _size(effect: EffectRow) -> float:
    return abs(math.log(effect.ratio)) if effect.ratio else 0.0


def _knob(effect: EffectRow) -> str:
    levels = ", ".join(f"{base} to {level}" for base, level in zip(effect.bases, effect.levels, strict=True))
    return f"{term_text(effect.factors)} from {levels}"


def _figures(effect: EffectRow) -> str:
    return f"{change(effect.ratio)} {interval(effect.ci)}"


def _word(effect: EffectRow) -> str:
    return {"inconclusive": "open", "equivalent": "no change that matters"}.get(effect.verdict, effect.verdict)
